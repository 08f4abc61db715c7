//! How the screen is divided.
//!
//! # Invariants
//! - Whatever the size, every area lies within the screen; one that has no room is empty.
//! - Of the panes that do not fit, the one where the keys go is shown.

use ratatui::layout::Rect;

use crate::cli::browse::state::Pane;

/// Fewer columns show one pane at a time above the text.
const TWO_PANES_COLUMNS: u16 = 64;
/// Fewer rows show no text below.
const PAGE_ROWS: u16 = 14;

/// The areas of the screen; each pane's with its heading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// The sessions.
    pub list: Rect,
    /// The tree.
    pub tree: Rect,
    /// The text.
    pub page: Rect,
    /// What is told or asked.
    pub status: Rect,
    /// The keys.
    pub keys: Rect,
}

impl Layout {
    /// Divides a screen of columns and rows.
    pub fn of((columns, rows): (u16, u16), focus: Pane, is_zoomed: bool) -> Self {
        let keys_rows = match rows {
            0..6 => 0,
            6..18 => 1,
            _ => 2,
        };
        let status_rows = u16::from(rows >= 3);
        let body = rows - keys_rows - status_rows;
        let area = |x: u16, y: u16, width: u16, height: u16| Rect { x, y, width, height };
        let mut layout = Self {
            status: area(0, body, columns, status_rows),
            keys: area(0, body + status_rows, columns, keys_rows),
            ..Self::default()
        };
        let whole = area(0, 0, columns, body);
        if is_zoomed || (rows < PAGE_ROWS && columns < TWO_PANES_COLUMNS) {
            *layout.pane(focus) = whole;
            return layout;
        }
        let page_rows = if rows < PAGE_ROWS { 0 } else { (body * 2 / 5).max(4) };
        let top = body - page_rows;
        layout.page = area(0, top, columns, page_rows);
        if page_rows == 0 && focus == Pane::Page {
            layout.page = whole;
            return layout;
        }
        if columns < TWO_PANES_COLUMNS {
            let upper = if focus == Pane::List { Pane::List } else { Pane::Tree };
            *layout.pane(upper) = area(0, 0, columns, top);
            return layout;
        }
        // One column between the two.
        let left = (columns * 2 / 5).clamp(30, 70);
        layout.list = area(0, 0, left, top);
        layout.tree = area(left + 1, 0, columns - left - 1, top);
        layout
    }

    fn pane(&mut self, pane: Pane) -> &mut Rect {
        match pane {
            Pane::List => &mut self.list,
            Pane::Tree => &mut self.tree,
            Pane::Page => &mut self.page,
        }
    }

    /// The rows of the list below its heading.
    pub fn list_rows(&self) -> u16 {
        self.list.height.saturating_sub(1)
    }

    /// Whether the tree has a line that tells about the session.
    pub fn has_facts(&self) -> bool {
        self.tree.height >= 7
    }

    /// The rows of the tree below its heading.
    pub fn tree_rows(&self) -> u16 {
        self.tree.height.saturating_sub(if self.has_facts() { 2 } else { 1 })
    }

    /// The rows of the text below its heading.
    pub fn page_rows(&self) -> u16 {
        self.page.height.saturating_sub(1)
    }

    /// The columns of the text; the last one stays free.
    pub fn page_columns(&self) -> u16 {
        self.page.width.saturating_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_area_lies_on_the_screen_and_the_pane_of_the_keys_is_there() {
        for columns in 0..130 {
            for rows in 0..60 {
                for focus in [Pane::List, Pane::Tree, Pane::Page] {
                    for zoomed in [false, true] {
                        let mut layout = Layout::of((columns, rows), focus, zoomed);
                        for area in [layout.list, layout.tree, layout.page, layout.status, layout.keys] {
                            let case = format!("{columns}x{rows} {focus:?} {area:?}");
                            assert!(area.right() <= columns && area.bottom() <= rows, "{case}");
                        }
                        let shown = *layout.pane(focus);
                        assert!(rows == 0 || shown.height > 0, "{columns}x{rows} {focus:?}");
                    }
                }
            }
        }
    }
}
