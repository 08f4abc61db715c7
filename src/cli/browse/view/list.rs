//! Draws the sessions, or what was found in them.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::{Pen, has_keys, heading, mark_selected, put};
use crate::cli::browse::session_list::{Hits, Item};
use crate::cli::browse::state::{Listing, Pane, State};
use crate::cli::browse::tone::{Piece, Tone, piece};
use crate::cli::text::{cut, cut_start, pad, width};
use crate::export::dollars;

pub(super) fn draw(state: &mut State, area: Rect, buffer: &mut Buffer, pen: Pen) {
    let is_focused = has_keys(state, Pane::List);
    let rows = Rect { y: area.y + 1, height: area.height - 1, ..area };
    if state.hits.is_some() {
        let folders = if state.list.all_folders { "all folders" } else { "this folder" };
        let now_ms = state.now_ms;
        let Some(hits) = &mut state.hits else { return };
        let found = if hits.is_running { "…".to_owned() } else { hits.hits.len().to_string() };
        let more = if hits.has_more { "+" } else { "" };
        let rest = [piece(Tone::Hit, format!("{:?}", hits.query)), piece(Tone::Dim, format!(" {folders}: {found}{more}"))];
        heading(buffer, area, is_focused, "Said", &rest, pen);
        draw_hits(hits, rows, buffer, pen, (is_focused, now_ms));
        return;
    }
    let query = state.list.query();
    let mut what = match (query.is_empty(), state.list.all_folders) {
        (true, true) => "all folders",
        (true, false) => "this folder",
        (false, true) => " all",
        (false, false) => "",
    }
    .to_owned();
    if state.list.named_only {
        what.push_str(", named");
    }
    let mut rest = Vec::new();
    if !query.is_empty() {
        rest.push(piece(Tone::Hit, format!("{query:?}")));
    }
    rest.push(piece(Tone::Dim, format!("{what}: {}", state.listing_text())));
    heading(buffer, area, is_focused, "Sessions", &rest, pen);
    if state.list.len() == 0 {
        draw_none(state, rows, buffer, pen);
        return;
    }
    let len = state.list.len();
    let selected = state.list.scroll.selected();
    let top = state.list.scroll.top(len, usize::from(rows.height));
    for (y, place) in (rows.y..rows.bottom()).zip(top..len) {
        let Some(item) = state.list.at(place) else { break };
        let cost = state.list.costs.get(&item.path).map(|(_, cost)| *cost);
        let is_selected = place == selected;
        let pieces = row(item, cost, state.now_ms, usize::from(rows.width), state.list.all_folders, is_selected);
        put(buffer, rows.x, y, rows.width, &pieces, pen);
        if is_selected {
            mark_selected(buffer, rows, y, is_focused);
        }
    }
}

fn draw_none(state: &State, rows: Rect, buffer: &mut Buffer, pen: Pen) {
    let text = match (state.listing, state.list.query().is_empty()) {
        (Listing::Begun | Listing::Reading(..), _) => ["reading the sessions …", ""],
        (Listing::Failed, _) => ["the sessions cannot be read", ""],
        (Listing::Done(_), false) if state.dialog.is_some() => ["no title matches", "Enter searches all texts"],
        (Listing::Done(_), false) => ["no title matches", "Esc shows all sessions"],
        (Listing::Done(_), true) if state.list.named_only => ["no session has a name", "m shows all"],
        (Listing::Done(_), true) if state.list.items().is_empty() => ["no sessions yet", "pi-sessions chat begins one"],
        (Listing::Done(_), true) => ["no sessions in this folder", "a shows all folders"],
    };
    for (y, line) in (rows.y..rows.bottom()).zip(text) {
        put(buffer, rows.x, y, rows.width, &[piece(Tone::Dim, format!("  {line}"))], pen);
    }
}

/// A session in columns: title, folder, age, size, cost; the last ones only with the room for them.
fn row(item: &Item, cost: Option<f64>, now_ms: i64, columns: usize, with_folder: bool, is_selected: bool) -> Vec<Piece> {
    let mark = if is_selected { "> " } else { "  " };
    let mut right = format!(" {:>4}", short_age(item.modified_ms, now_ms));
    if columns >= 30 {
        right.push_str(&format!(" {:>5}", short_size(item.size_bytes)));
    }
    if columns >= 40 {
        let cost = cost.map_or_else(|| "…".to_owned(), short_cost);
        right.push_str(&format!(" {cost:>6}"));
    }
    let mut left = columns.saturating_sub(width(&right) + 2);
    let fork = if item.is_fork { "(fork) " } else { "" };
    let mut folder = String::new();
    if with_folder && left >= 36 {
        let room = left / 3;
        folder = format!(" {}", pad(&cut_start(&item.folder, room), room));
        left -= room + 1;
    }
    let title = cut(&item.title, Some(left.saturating_sub(width(fork)).max(1)));
    let fill = " ".repeat(left.saturating_sub(width(fork) + width(&title)));
    vec![
        piece(Tone::Plain, mark),
        piece(Tone::Dim, fork),
        piece(if item.is_named { Tone::Name } else { Tone::Plain }, title),
        piece(Tone::Plain, fill),
        piece(Tone::Dim, folder),
        piece(Tone::Dim, right),
    ]
}

fn draw_hits(hits: &mut Hits, rows: Rect, buffer: &mut Buffer, pen: Pen, (is_focused, now_ms): (bool, i64)) {
    if hits.hits.is_empty() {
        let text = if hits.is_running { "  looking …" } else { "  nothing was found" };
        if rows.height > 0 {
            put(buffer, rows.x, rows.y, rows.width, &[piece(Tone::Dim, text)], pen);
        }
        return;
    }
    let len = hits.hits.len();
    let selected = hits.scroll.selected();
    let top = hits.scroll.top(len, usize::from(rows.height / 2));
    for (at, hit) in hits.hits.iter().enumerate().skip(top).take(usize::from(rows.height.div_ceil(2))) {
        let y = rows.y + u16::try_from((at - top) * 2).unwrap_or(u16::MAX);
        let mark = if at == selected { "> " } else { "  " };
        let age = hit.timestamp_ms.map_or_else(String::new, |time| short_age(time, now_ms));
        let room = usize::from(rows.width).saturating_sub(7).max(1);
        let title = pad(&cut(&hit.title, Some(room)), room);
        let pieces = [piece(Tone::Plain, mark), piece(Tone::Name, title), piece(Tone::Dim, format!(" {age:>4}"))];
        put(buffer, rows.x, y, rows.width, &pieces, pen);
        if at == selected {
            mark_selected(buffer, rows, y, is_focused);
        }
        if y + 1 < rows.bottom() {
            let mut pieces = vec![piece(Tone::Dim, format!("  {} ", hit.head))];
            let used = width(&pieces[0].text);
            pieces.extend(fit_snippet(&hit.snippet, usize::from(rows.width).saturating_sub(used)));
            put(buffer, rows.x, y + 1, rows.width, &pieces, pen);
        }
    }
}

/// A snippet so that its first match is in sight.
fn fit_snippet(snippet: &[Piece], columns: usize) -> Vec<Piece> {
    let mut pieces = snippet.to_vec();
    let until_hit: usize = match pieces.iter().position(|part| part.tone == Tone::Hit) {
        Some(at) => pieces[..=at].iter().map(|part| width(&part.text)).sum(),
        None => 0,
    };
    if until_hit > columns
        && let Some(first) = pieces.first_mut().filter(|part| part.tone != Tone::Hit)
    {
        first.text = cut_start(&first.text, columns / 3);
    }
    pieces
}

/// How long ago, in four columns.
pub(super) fn short_age(time_ms: i64, now_ms: i64) -> String {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    let seconds = now_ms.saturating_sub(time_ms) / 1000;
    match seconds {
        ..MINUTE => "now".to_owned(),
        MINUTE..HOUR => format!("{}m", seconds / MINUTE),
        HOUR..DAY => format!("{}h", seconds / HOUR),
        _ if seconds < 14 * DAY => format!("{}d", seconds / DAY),
        _ if seconds < 70 * DAY => format!("{}w", seconds / DAY / 7),
        _ if seconds < 730 * DAY => format!("{}mo", seconds / DAY / 30),
        _ => format!("{}y", (seconds / DAY / 365).min(999)),
    }
}

/// A size in five columns.
fn short_size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["K", "M", "G", "T"];
    if bytes < 1000 {
        return format!("{bytes}B");
    }
    let mut size = bytes as f64 / 1000.0;
    let mut unit = 0;
    while size >= 999.5 && unit + 1 < UNITS.len() {
        size /= 1000.0;
        unit += 1;
    }
    if size < 9.95 { format!("{size:.1}{}", UNITS[unit]) } else { format!("{size:.0}{}", UNITS[unit]) }
}

/// A cost in six columns.
fn short_cost(cost: f64) -> String {
    match cost {
        cost if cost < 0.000_5 => "-".to_owned(),
        cost if cost < 0.995 => format!("${cost:.3}"),
        cost if cost < 1000.0 => dollars(cost),
        cost => format!("${cost:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_fit_their_columns() {
        let ages = [0, 59, 60, 3599, 86_399, 86_400, 1_209_600, 6_048_000, 63_072_000, i64::MAX / 2000];
        let ages: Vec<_> = ages.iter().map(|seconds| short_age(0, seconds * 1000)).collect();
        assert_eq!(ages.join(" "), "now now 1m 59m 23h 1d 2w 2mo 2y 999y");
        let sizes: Vec<_> = [0, 999, 1000, 9_949, 9_950, 999_499, 999_500, 1_234_567_890].into_iter().map(short_size).collect();
        assert_eq!(sizes.join(" "), "0B 999B 1.0K 9.9K 10K 999K 1.0M 1.2G");
        let costs: Vec<_> = [0.0, 0.005, 0.5, 1.0, 123.456, 12_345.0].into_iter().map(short_cost).collect();
        assert_eq!(costs.join(" "), "- $0.005 $0.500 $1.00 $123.46 $12345");
        assert!(costs.iter().all(|cost| cost.len() <= 7) && sizes.iter().all(|size| size.len() <= 5));
    }
}
