//! Draws the browser.
//!
//! # Invariants
//! - Drawing changes nothing but what is in sight, and works for every size.
//! - The active path, what is selected, what is folded, what was found and which pane has the keys are told by signs:
//!   `*`, `>`, `+`, `?` and a double line. Colours only add to them.

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

use crate::cli::browse::dialog::Dialog;
use crate::cli::browse::event::Told;
use crate::cli::browse::keys::KEYS;
use crate::cli::browse::prose::broken;
use crate::cli::browse::state::{Pane, State};
use crate::cli::browse::tone::{Piece, Tone, piece};
use crate::cli::text::{cut, cut_start, width};

mod help;
mod list;
mod page;
mod tree;

/// What everything is drawn with.
#[derive(Clone, Copy, Debug)]
struct Pen {
    colored: bool,
}

/// Draws everything.
pub fn draw(state: &mut State, frame: &mut Frame<'_>, colored: bool) {
    let pen = Pen { colored };
    let area = frame.area();
    state.size = (area.width, area.height);
    let layout = state.layout();
    if layout.list.height > 0 {
        list::draw(state, layout.list, frame.buffer_mut(), pen);
    }
    if layout.tree.height > 0 {
        tree::draw(state, layout.tree, frame.buffer_mut(), pen);
    }
    if layout.list.height > 0 && layout.tree.height > 0 {
        for y in layout.list.top()..layout.list.bottom() {
            put(frame.buffer_mut(), layout.list.right(), y, 1, &[piece(Tone::Dim, "│")], pen);
        }
    }
    if layout.page.height > 0 {
        page::draw(state, layout.page, frame.buffer_mut(), pen);
    }
    if let Some(Dialog::Help(top)) = state.dialog {
        let shown = help::draw(top, Rect { height: layout.status.y, ..area }, frame.buffer_mut(), pen);
        state.dialog = Some(Dialog::Help(shown));
    }
    keys(state, layout.keys, frame.buffer_mut(), pen);
    status(state, layout.status, frame, pen);
}

/// The line that tells or asks.
fn status(state: &State, area: Rect, frame: &mut Frame<'_>, pen: Pen) {
    if area.height == 0 {
        return;
    }
    let columns = usize::from(area.width);
    if let Some(Dialog::Line(asked, line)) = &state.dialog {
        let question = cut(asked.question(), Some(columns.saturating_sub(4).max(1))).into_owned();
        let used = width(&question);
        let room = columns.saturating_sub(used + 1);
        // The cursor stays in sight: of a long line the part before it is.
        let before: String = {
            let mut column = 0;
            let is_before = |char: &char| {
                column += unicode_width::UnicodeWidthChar::width(*char).unwrap_or(0);
                column <= line.cursor_column()
            };
            line.text().chars().take_while(is_before).collect()
        };
        let (shown, cursor) = match width(&before) > room {
            true => {
                let shown = cut_start(&before, room);
                let cursor = width(&shown);
                (shown, cursor)
            }
            false => (line.text().to_owned(), width(&before)),
        };
        put(frame.buffer_mut(), area.x, area.y, area.width, &[piece(Tone::Strong, question), piece(Tone::Plain, shown)], pen);
        let x = area.x + u16::try_from(used + cursor).unwrap_or(u16::MAX).min(area.width.saturating_sub(1));
        frame.set_cursor_position((x, area.y));
        return;
    }
    let ask = |question: &str, about: &str| vec![piece(Tone::Warn, format!("{question} y yes, any other key no: {about}"))];
    let pieces = match (&state.dialog, &state.told, &state.working) {
        (Some(Dialog::Delete { title, .. }), ..) => ask("Move to the trash?", title),
        (Some(Dialog::Replace { file, .. }), ..) => ask("This file is there already. Replace it?", file),
        (Some(Dialog::Elsewhere { gone, .. }), ..) => {
            let here = &state.options.here;
            let question = format!("The folder of the session is gone. Go on in {here}? y yes, any other key no; it was {gone}");
            vec![piece(Tone::Warn, question)]
        }
        (_, Some(Told::Problem(problem)), _) => vec![piece(Tone::Bad, format!("! {problem}"))],
        (_, _, Some(working)) => vec![piece(Tone::Dim, working.clone())],
        (_, Some(Told::Done(told)), _) => vec![piece(Tone::Plain, told.clone())],
        (_, None, None) => return,
    };
    // What does not fit in a row goes over what is above: it is told once, and gone with the next key.
    let mut rows = broken(&pieces, columns);
    let most = usize::from(area.y / 2 + 1);
    if rows.len() > most {
        let rest = rows.split_off(most - 1).into_iter().flatten().collect();
        rows.push(rest);
    }
    let buffer = frame.buffer_mut();
    let top = (area.y + 1).saturating_sub(u16::try_from(rows.len()).unwrap_or(u16::MAX));
    for (y, row) in (top..=area.y).zip(&rows) {
        put(buffer, area.x, y, area.width, &[piece(Tone::Plain, " ".repeat(columns))], pen);
        put(buffer, area.x, y, area.width, row, pen);
    }
}

/// The keys that are of use now, as many as there is room for; those that always are come last.
fn keys(state: &State, area: Rect, buffer: &mut Buffer, pen: Pen) {
    let shown: Vec<(&str, &str)> = match &state.dialog {
        Some(Dialog::Line(asked, _)) => asked.keys(state.options.is_picker, state.has_none()).to_vec(),
        Some(Dialog::Delete { .. }) => vec![("y", "move it to the trash"), ("any other key", "leave it")],
        Some(Dialog::Replace { .. }) => vec![("y", "replace it"), ("any other key", "leave it")],
        Some(Dialog::Elsewhere { .. }) => vec![("y", "go on in this folder"), ("any other key", "back")],
        Some(Dialog::Help(_)) => vec![("Up Down", "scroll"), ("any other key", "back")],
        None => {
            let has_hits = state.hits.is_some();
            let in_place = |binding: &&crate::cli::browse::keys::Binding| {
                !binding.short.is_empty() && binding.place.holds(state.focus, has_hits)
            };
            let mut taken = Vec::new();
            KEYS.iter()
                .filter(in_place)
                .filter(|binding| {
                    let is_new = !taken.contains(&binding.keys[0]);
                    taken.push(binding.keys[0]);
                    is_new
                })
                .map(|binding| (binding.keys[0], binding.short))
                .collect()
        }
    };
    let columns = usize::from(area.width);
    let width_of = |(key, text): &(&str, &str)| width(key) + 1 + width(text);
    let always = if state.dialog.is_none() { shown.len().saturating_sub(2) } else { shown.len() };
    let (wanted, last) = shown.split_at(always);
    let last_columns = last.iter().map(|key| width_of(key) + 2).sum::<usize>().saturating_sub(2);
    let mut rest = wanted.iter().peekable();
    for row in 0..area.height {
        let is_last = row + 1 == area.height;
        let room = if is_last { columns.saturating_sub(last_columns) } else { columns };
        let mut pieces = Vec::new();
        let mut used = 0;
        let gap = if is_last && !last.is_empty() { 2 } else { 0 };
        while let Some(key) = rest.next_if(|key| used + width_of(key) + gap <= room) {
            used += width_of(key) + 2;
            push_key(&mut pieces, key);
        }
        if is_last {
            last.iter().for_each(|key| push_key(&mut pieces, key));
        }
        if let Some(end) = pieces.last_mut() {
            end.text.truncate(end.text.trim_end().len());
        }
        put(buffer, area.x, area.y + row, area.width, &pieces, pen);
    }
}

fn push_key(pieces: &mut Vec<Piece>, (key, text): &(&str, &str)) {
    pieces.push(piece(Tone::Active, *key));
    pieces.push(piece(Tone::Plain, format!(" {text}  ")));
}

/// The heading of a pane: a line, double where the keys go.
fn heading(buffer: &mut Buffer, area: Rect, is_focused: bool, name: &str, rest: &[Piece], pen: Pen) {
    let line = if is_focused { "═" } else { "─" };
    let tone = if is_focused { Tone::Active } else { Tone::Dim };
    let mut pieces = vec![piece(tone, line), piece(if is_focused { Tone::Active } else { Tone::Strong }, format!(" {name}"))];
    if !rest.is_empty() {
        pieces.push(piece(Tone::Plain, " "));
    }
    pieces.extend(rest.iter().cloned());
    put(buffer, area.x, area.y, area.width, &pieces, pen);
    let used: usize = pieces.iter().map(|part| width(&part.text)).sum();
    // A blank stands between what is told and the line.
    for x in (usize::from(area.x) + used + 1)..usize::from(area.right()) {
        put(buffer, u16::try_from(x).unwrap_or(u16::MAX), area.y, 1, &[piece(tone, line)], pen);
    }
}

/// Puts pieces in a row, cut to its columns.
fn put(buffer: &mut Buffer, x: u16, y: u16, columns: u16, pieces: &[Piece], pen: Pen) {
    let mut left = usize::from(columns);
    let total: usize = pieces.iter().map(|part| width(&part.text)).sum();
    let is_cut = total > left;
    let mut at = x;
    for part in pieces {
        if left == 0 {
            return;
        }
        let own = width(&part.text);
        let style: Style = part.tone.style(pen.colored);
        if own > left || (is_cut && own == left) {
            buffer.set_stringn(at, y, cut_to(&part.text, left), left, style);
            return;
        }
        let (end, _) = buffer.set_stringn(at, y, &part.text, left, style);
        left = left.saturating_sub(usize::from(end.saturating_sub(at)));
        at = end;
    }
}

/// Cuts a text that more would follow.
fn cut_to(text: &str, columns: usize) -> String {
    if width(text) > columns {
        return cut(text, Some(columns)).into_owned();
    }
    let mut shorter = text.to_owned();
    shorter.pop();
    format!("{}…", shorter.trim_end())
}

/// Shows a row as the selected one.
fn mark_selected(buffer: &mut Buffer, area: Rect, y: u16, is_focused: bool) {
    let style =
        if is_focused { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new().add_modifier(Modifier::BOLD) };
    buffer.set_style(Rect { x: area.x, y, width: area.width, height: 1 }, style);
}

/// Whether a pane has the keys.
fn has_keys(state: &State, pane: Pane) -> bool {
    state.focus == pane && state.dialog.is_none()
}
