//! Draws all keys.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::{Pen, heading, put};
use crate::cli::browse::keys::{KEYS, Place};
use crate::cli::browse::prose::broken;
use crate::cli::browse::tone::{Piece, Tone, piece};
use crate::cli::text::pad;

/// Draws the keys from a row on, over everything; returns that row, or the last one that makes sense.
pub(super) fn draw(top: usize, area: Rect, buffer: &mut Buffer, pen: Pen) -> usize {
    let lines = lines(usize::from(area.width));
    let height = usize::from(area.height).saturating_sub(1);
    let top = top.min(lines.len().saturating_sub(height.max(1)));
    for y in area.y..area.bottom() {
        put(buffer, area.x, y, area.width, &[piece(Tone::Plain, " ".repeat(usize::from(area.width)))], pen);
    }
    if area.height == 0 {
        return top;
    }
    let shown = (top + height).min(lines.len());
    let more = if shown < lines.len() { ", more below" } else { "" };
    let place = [piece(Tone::Dim, format!("rows {} to {shown} of {}{more}", top + 1, lines.len()))];
    heading(buffer, area, true, "All keys", &place, pen);
    for (y, line) in (area.y + 1..area.bottom()).zip(lines.iter().skip(top)) {
        put(buffer, area.x, y, area.width, line, pen);
    }
    top
}

fn lines(columns: usize) -> Vec<Vec<Piece>> {
    let parts = [
        ("Everywhere", &[Place::Everywhere][..]),
        ("In the sessions", &[Place::List, Place::Hits]),
        ("In the tree and the text", &[Place::Entry]),
    ];
    let intro = [
        "Find a session by its name with /, or by a word said in it with w. Tab goes to its tree, b back turn by turn, and \
         Enter goes on from there in a chat. Nothing is lost by going back.",
        "* is on the active path, o is not; + stands for folded branches, ? for what was found; the double line shows where \
         the keys go. The leaf is the entry that the next message hangs from.",
    ];
    let mut lines: Vec<Vec<Piece>> = Vec::new();
    for text in intro {
        for mut line in broken(&[piece(Tone::Plain, text)], columns.saturating_sub(2)) {
            line.insert(0, piece(Tone::Plain, " "));
            lines.push(line);
        }
    }
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
