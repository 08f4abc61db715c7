//! A selected row, and which rows are in sight.
//!
//! # Invariants
//! - The selected row exists where there are any, and is in sight.

/// A place in rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scroll {
    selected: usize,
    top: usize,
}

impl Scroll {
    /// The selected row.
    pub fn selected(self) -> usize {
        self.selected
    }

    /// Selects a row, or the last one.
    pub fn to(&mut self, row: usize, len: usize) {
        self.selected = row.min(len.saturating_sub(1));
    }

    /// Selects a row so many steps away.
    pub fn by(&mut self, steps: isize, len: usize) {
        self.to(self.selected.saturating_add_signed(steps), len);
    }

    /// The first row in sight, where so many are. The screen moves no more than it has to.
    pub fn top(&mut self, len: usize, height: usize) -> usize {
        let height = height.max(1);
        self.top = self.top.min(len.saturating_sub(height));
        if self.selected < self.top {
            self.top = self.selected;
        } else if self.selected >= self.top + height {
            self.top = self.selected + 1 - height;
        }
        self.top
    }

    /// As [`Scroll::top`], but where the selected row has to come into sight, it comes to its middle.
    pub fn center(&mut self, len: usize, height: usize) {
        if self.selected < self.top || self.selected >= self.top + height.max(1) {
            self.top = self.selected.saturating_sub(height / 2).min(len.saturating_sub(height));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_selected_row_is_in_sight() {
        let mut scroll = Scroll::default();
        let mut check = |steps: isize, len: usize, height: usize, expect: (usize, usize)| {
            scroll.by(steps, len);
            assert_eq!((scroll.selected(), scroll.top(len, height)), expect, "{steps} of {len} in {height}");
        };
        check(5, 10, 3, (5, 3));
        check(-1, 10, 3, (4, 3));
        check(-9, 10, 3, (0, 0));
        check(99, 10, 3, (9, 7));
        check(0, 4, 3, (3, 1));
        check(0, 0, 3, (0, 0));
        check(0, 0, 0, (0, 0));
        check(7, 8, 0, (7, 7));
    }
}
