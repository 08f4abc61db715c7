//! Draws the text of an entry.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::{Pen, has_keys, heading, put};
use crate::cli::browse::state::{Pane, State};
use crate::cli::browse::tone::{Tone, piece};
use crate::cli::text::one_line;

pub(super) fn draw(state: &mut State, area: Rect, buffer: &mut Buffer, pen: Pen) {
    let is_focused = has_keys(state, Pane::Page);
    let layout = state.layout();
    state.break_page(layout.page_columns());
    let rows = usize::from(layout.page_rows());
    let len = state.page_lines.1.len();
    let top = state.page_scroll.selected().min(len.saturating_sub(rows));
    let mut title = state.page.title.clone();
    let label = state.tree.session().zip(state.tree.selected_id());
    if let Some(label) = label.as_ref().and_then(|(session, id)| session.labels.get(id.as_str())) {
        title.push(piece(Tone::Name, format!(" [{}]", one_line(label))));
    }
    if len > rows && rows > 0 {
        title.push(piece(Tone::Dim, format!(" · {}-{} of {len} lines", top + 1, (top + rows).min(len))));
    }
    if state.page.has_folded && !state.unfolded {
        title.push(piece(Tone::Dim, " · t unfolds >"));
    }
    heading(buffer, area, is_focused, "Text", &title, pen);
    for (y, line) in (area.y + 1..area.bottom()).zip(state.page_lines.1.iter().skip(top)) {
        put(buffer, area.x + 1, y, area.width.saturating_sub(1), line, pen);
    }
}
