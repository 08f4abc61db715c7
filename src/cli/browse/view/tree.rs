//! Draws the tree of a session.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::{Pen, has_keys, heading, mark_selected, put};
use crate::cli::browse::open_session::OpenSession;
use crate::cli::browse::prose::broken;
use crate::cli::browse::state::{Pane, State};
use crate::cli::browse::tone::{Piece, Tone, piece};
use crate::cli::browse::tree_pane::{RowKind, ShownRow, TreePane, entry_of, scope_name};
use crate::cli::text::{one_line, width};
use crate::cli::view::{count, size};
use crate::export::dollars;
use crate::session::outline::Start;

pub(super) fn draw(state: &mut State, area: Rect, buffer: &mut Buffer, pen: Pen) {
    let is_focused = has_keys(state, Pane::Tree);
    let mut rest = vec![piece(Tone::Dim, scope_name(state.scope))];
    if let Some(found) = &state.tree.found {
        rest.push(piece(Tone::Hit, format!(", {:?}: {}", found.query, found.entries.len())));
    }
    let title = match state.tree.session() {
        Some(session) => session.name.clone().unwrap_or_else(|| state.title_of(&session.path)),
        None => "Tree".to_owned(),
    };
    heading(buffer, area, is_focused, &crate::cli::text::cut(&title, Some(usize::from(area.width) / 2)), &rest, pen);
    let has_facts = state.layout().has_facts();
    let rows_y = area.y + if has_facts { 2 } else { 1 };
    let rows = Rect { y: rows_y, height: area.bottom().saturating_sub(rows_y), ..area };
    let Some(session) = state.tree.session().cloned() else {
        draw_nothing(state, rows, buffer, pen);
        return;
    };
    if has_facts {
        put(buffer, area.x, area.y + 1, area.width, &facts(state, &session), pen);
    }
    if state.tree.shown().is_empty() {
        let text = if session.session.tree().is_empty() {
            "  nothing was said yet; Enter begins"
        } else {
            "  nothing to show; v shows more"
        };
        if rows.height > 0 {
            put(buffer, rows.x, rows.y, rows.width, &[piece(Tone::Dim, text)], pen);
        }
        return;
    }
    let height = usize::from(rows.height);
    let len = state.tree.shown().len();
    state.tree.scroll.center(len, height);
    let top = state.tree.scroll.top(len, height);
    let selected = state.tree.scroll.selected();
    for (y, place) in (rows.y..rows.bottom()).zip(top..len) {
        let shown = state.tree.shown()[place];
        let pieces = row(&state.tree, &session, shown, usize::from(rows.width), place == selected, place);
        put(buffer, rows.x, y, rows.width, &pieces, pen);
        if place == selected {
            mark_selected(buffer, rows, y, is_focused);
        }
    }
}

fn draw_nothing(state: &State, rows: Rect, buffer: &mut Buffer, pen: Pen) {
    let lines = match &state.unopened {
        Some(unopened) => broken(&[piece(Tone::Bad, unopened.problem.clone())], usize::from(rows.width.saturating_sub(2))),
        None if state.asked.open.is_some() => vec![vec![piece(Tone::Dim, "reading …")]],
        None => Vec::new(),
    };
    for (y, line) in (rows.y..rows.bottom()).zip(lines) {
        let mut pieces = vec![piece(Tone::Plain, "  ")];
        pieces.extend(line);
        put(buffer, rows.x, y, rows.width, &pieces, pen);
    }
}

/// What is told of the session as a whole; what is out of the ordinary comes first.
fn facts(state: &State, session: &OpenSession) -> Vec<Piece> {
    let mut pieces = vec![piece(Tone::Plain, " ")];
    let mut add = |tone: Tone, text: String| {
        if pieces.len() > 1 {
            pieces.push(piece(Tone::Dim, " · "));
        }
        pieces.push(piece(tone, text));
    };
    if session.is_read_only {
        add(Tone::Warn, format!("read only, version {}", session.session.header().version));
    }
    if let Some(owner) = &session.owner {
        add(Tone::Warn, format!("in use by {owner}"));
    }
    if session.damaged_lines > 0 {
        add(Tone::Warn, count(session.damaged_lines as u64, "damaged line", "damaged lines"));
    }
    if session.folder_is_gone {
        add(Tone::Warn, "its folder is gone".to_owned());
    }
    let item = state.list.find_path(&session.path);
    if let Some(item) = item {
        add(Tone::Dim, count(item.messages, "message", "messages"));
    }
    let branches = session.session.tree().branch_count() as u64;
    if branches > 1 {
        add(Tone::Dim, count(branches, "branch", "branches"));
    }
    add(Tone::Dim, size(session.meta.len));
    if let Some((_, cost)) = state.list.costs.get(&session.path).filter(|(_, cost)| *cost > 0.0) {
        add(Tone::Dim, dollars(*cost));
    }
    if session.session.leaf().is_none() && !session.session.tree().is_empty() {
        add(Tone::Warn, "the leaf is before the first entry".to_owned());
    }
    add(Tone::Dim, one_line(&session.session.header().cwd));
    pieces
}

fn row(tree: &TreePane, session: &OpenSession, shown: ShownRow, columns: usize, is_selected: bool, place: usize) -> Vec<Piece> {
    let row = tree.row(shown);
    let entry = entry_of(row);
    let id = entry.map(|entry| session.session.tree().id(entry));
    let label = id.as_ref().and_then(|id| session.labels.get(id.as_str()));
    let is_found =
        tree.found.as_ref().is_some_and(|found| entry.is_some_and(|entry| found.entries.binary_search(&entry).is_ok()));
    let mut ends = Vec::new();
    if let Some(label) = label {
        ends.push(piece(Tone::Name, format!(" [{}]", one_line(label))));
    }
    if row.is_leaf {
        ends.push(piece(Tone::Active, " (leaf)"));
    }
    match row.start {
        Start::Orphan => ends.push(piece(Tone::Warn, " (its parent is missing)")),
        Start::Ring => ends.push(piece(Tone::Warn, " (its parents form a ring)")),
        Start::Nothing | Start::Branch | Start::Root => {}
    }
    if shown.folded > 0 {
        ends.push(piece(Tone::Warn, format!(" +{}", shown.folded)));
    } else if tree.fold_at(place) == Some(true) {
        ends.push(piece(Tone::Warn, " +"));
    }
    let text = entry.and_then(|entry| tree.texts.get(&entry));
    let mut pieces = vec![piece(Tone::Plain, if is_selected { ">" } else { " " }), piece(Tone::Dim, row.lines())];
    let mark = if row.on_path { piece(Tone::Active, "* ") } else { piece(Tone::Plain, "o ") };
    pieces.push(mark);
    if is_found {
        pieces.push(piece(Tone::Hit, "? "));
    }
    let used: usize = pieces.iter().chain(&ends).map(|part| width(&part.text)).sum();
    // Labels and the leaf are never cut off, so a little of the text always stays.
    let room = columns.saturating_sub(used).max(8);
    let (words, kind) = text.map_or(("…", RowKind::Other), |text| (&*text.text, text.kind));
    let words = crate::cli::text::cut(words, Some(room)).into_owned();
    pieces.extend(words_of(&words, kind, row.on_path));
    pieces.extend(ends);
    pieces
}

/// Who speaks stands out from what is said; what is off the active path is of less weight.
fn words_of(words: &str, kind: RowKind, on_path: bool) -> Vec<Piece> {
    let tone = match kind {
        RowKind::User => Tone::Strong,
        RowKind::Assistant => Tone::Keyword,
        RowKind::Tool => Tone::Id,
        RowKind::Summary => Tone::Warn,
        RowKind::Other => Tone::Dim,
        RowKind::Damaged => Tone::Bad,
    };
    let rest = if on_path && kind != RowKind::Other { Tone::Plain } else { Tone::Dim };
    match words.split_once(": ") {
        Some((who, said)) if who.len() <= 40 => vec![piece(tone, format!("{who}: ")), piece(rest, said)],
        Some(_) | None => vec![piece(if kind == RowKind::Damaged { tone } else { rest }, words)],
    }
}
