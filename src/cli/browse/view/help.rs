//! Draws all keys.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::{Pen, heading, put};
use crate::cli::browse::keys::{KEYS, Place};
use crate::cli::browse::tone::{Piece, Tone, piece};
use crate::cli::text::pad;

/// Draws the keys from a row on, over everything; returns that row, or the last one that makes sense.
pub(super) fn draw(top: usize, area: Rect, buffer: &mut Buffer, pen: Pen) -> usize {
    let lines = lines();
    let height = usize::from(area.height).saturating_sub(4);
    let top = top.min(lines.len().saturating_sub(height.max(1)));
    let area = Rect { height: area.height.saturating_sub(3), ..area };
    for y in area.y..area.bottom() {
        put(buffer, area.x, y, area.width, &[piece(Tone::Plain, " ".repeat(usize::from(area.width)))], pen);
    }
    if area.height == 0 {
        return top;
    }
    heading(buffer, area, true, "All keys", &[], pen);
    for (y, line) in (area.y + 1..area.bottom()).zip(lines.iter().skip(top)) {
        put(buffer, area.x, y, area.width, line, pen);
    }
    top
}

fn lines() -> Vec<Vec<Piece>> {
    let parts = [
        ("Everywhere", &[Place::Everywhere][..]),
        ("In the sessions", &[Place::List, Place::Hits]),
        ("In the tree and the text", &[Place::Entry]),
    ];
    let intro = [
        "Find a session by its name with /, or by a word said in it with w.",
        "Tab goes to its tree, b back turn by turn, and Enter goes on from there",
        "in a chat. Nothing is lost by going back.",
        "* is on the active path, o is not; + stands for folded branches, ? for",
        "what was found; the double line shows where the keys go.",
    ];
    let mut lines: Vec<Vec<Piece>> = intro.iter().map(|line| vec![piece(Tone::Plain, format!(" {line}"))]).collect();
    for (name, places) in parts {
        lines.push(Vec::new());
        lines.push(vec![piece(Tone::Strong, format!(" {name}"))]);
        for binding in KEYS.iter().filter(|binding| places.contains(&binding.place)) {
            let keys = pad(&binding.keys.join(" "), 16);
            lines.push(vec![piece(Tone::Active, format!("  {keys}")), piece(Tone::Plain, format!(" {}", binding.long))]);
        }
    }
    lines
}
