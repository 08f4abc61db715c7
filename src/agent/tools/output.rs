//! Output that may be too long for a model: its end is shown, all of it is kept in a file.
//!
//! # Invariants
//! - Memory is bounded, whatever a command prints.
//! - Text is cut between characters and, where lines are short enough, between lines.

use std::path::PathBuf;

use tokio::io::AsyncWriteExt;

use super::Env;
use crate::session::json::well_formed;

/// The most bytes of one output that a model gets.
pub const MAX_BYTES: usize = 50 << 10;
/// The most lines of one output that a model gets.
pub const MAX_LINES: usize = 2_000;

/// Output that is coming in.
pub(super) struct Output<'a> {
    env: &'a Env,
    /// All of it, or its end once it is in a file.
    kept: Vec<u8>,
    bytes: u64,
    lines: u64,
    file: Option<Result<(PathBuf, tokio::fs::File), String>>,
}

impl<'a> Output<'a> {
    pub fn new(env: &'a Env) -> Self {
        Self { env, kept: Vec::new(), bytes: 0, lines: 0, file: None }
    }

    pub async fn push(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        self.lines += memchr::memchr_iter(b'\n', bytes).count() as u64;
        self.kept.extend(bytes);
        let mut new = bytes;
        let is_long = self.bytes > MAX_BYTES as u64 || self.lines > MAX_LINES as u64;
        if self.file.is_none() && is_long {
            self.file = Some(self.env.new_output().await.map_err(|error| error.to_string()));
            new = &self.kept;
        }
        if let Some(Ok((_, file))) = &mut self.file
            && let Err(error) = file.write_all(new).await
        {
            self.file = Some(Err(error.to_string()));
        }
        if self.file.is_some() && self.kept.len() > 4 * MAX_BYTES {
            self.kept.drain(..self.kept.len() - 2 * MAX_BYTES);
        }
    }

    /// The text for the model, and the file with all of it where it was cut.
    pub async fn finish(mut self) -> (String, Option<PathBuf>) {
        let text = well_formed(&self.kept).into_owned();
        let Some(file) = self.file.take() else { return (text, None) };
        let shown = end_of(&text);
        let (where_it_is, path) = match file {
            Ok((path, mut file)) => match file.flush().await {
                Ok(()) => (format!("all of it is in {}", path.display()), Some(path)),
                Err(error) => (format!("the rest could not be kept: {error}"), None),
            },
            Err(error) => (format!("the rest could not be kept: {error}"), None),
        };
        let of = format!("{} bytes, {} lines", self.bytes, self.lines);
        (format!("[This is the end of the output ({of}); {where_it_is}]\n{shown}"), path)
    }
}

/// The longest end of `text` within the limits.
fn end_of(text: &str) -> &str {
    let mut start = text.len().saturating_sub(MAX_BYTES);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    if start > 0
        && let Some(line_end) = text[start..].find('\n').filter(|at| start + at + 1 < text.len())
    {
        start += line_end + 1;
    }
    // A line end at the very end begins no line.
    let mut ends = memchr::memrchr_iter(b'\n', text.trim_end_matches('\n').as_bytes());
    ends.nth(MAX_LINES - 1).map_or(&text[start..], |at| &text[start.max(at + 1)..])
}

/// The longest beginning of `lines` within the limits: how many lines, and the text. A first line that alone is too long
/// is cut.
pub(super) fn beginning_of(text: &str) -> (usize, &str) {
    let (mut lines, mut end) = (0, 0);
    for line in text.split_inclusive('\n') {
        if lines == MAX_LINES || end + line.len() > MAX_BYTES {
            break;
        }
        lines += 1;
        end += line.len();
    }
    if lines == 0 && !text.is_empty() {
        end = MAX_BYTES.min(text.len());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
    }
    (lines, &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_stay_within_the_limits_and_between_characters() {
        let long = "é".repeat(MAX_BYTES);
        assert!(end_of(&long).len() <= MAX_BYTES && beginning_of(&long).1.len() <= MAX_BYTES);
        let lines: String = (0..3_000).map(|n| format!("{n}\n")).collect();
        let end = end_of(&lines);
        assert_eq!((end.lines().count(), end.lines().next(), end.lines().last()), (MAX_LINES, Some("1000"), Some("2999")));
        let (count, beginning) = beginning_of(&lines);
        assert_eq!((count, beginning.lines().last()), (MAX_LINES, Some("1999")));
        assert_eq!(end_of("a\nb"), "a\nb");
        assert_eq!(beginning_of(""), (0, ""));
    }
}
