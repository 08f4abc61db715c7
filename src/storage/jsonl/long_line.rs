//! What can be had from a line that is too long to be held: [`recovery`](super::recovery) over blocks of the file.
//!
//! # Invariants
//! - It finds what [`examine`](super::recovery::examine) finds.
//! - Memory is a few blocks and what is kept of a record, however long the line is; of a record's strings only the
//!   beginnings are kept, which is enough for its head.

use std::io;
use std::ops::Range;

use crate::storage::DamageKind;
use crate::storage::fs::{FsFile, read_exact_at};
use crate::storage::jsonl::read_clipped;
use crate::storage::jsonl::recovery::{Ids, is_record, looks_like_a_record};
use crate::storage::jsonl::scan::LineScanner;

/// How much is read at once.
const BLOCK_BYTES: usize = 256 * 1024;
/// What [`looks_like_a_record`] looks at.
const LOOK_BYTES: u64 = 512;
/// The key that a record of a fused line begins with.
const TYPE_KEY: &[u8] = b"\"type\"";

/// What was found in a line, by places in the file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ExaminedPlaces {
    /// The whole records, in order; each begins with `{` and ends with `}`.
    pub records: Vec<Range<u64>>,
    /// What is wrong with the line; `None` for a good or a blank line.
    pub damage: Option<DamageKind>,
}

/// Looks at the line in `line`, which is without its newline.
pub(super) fn examine_long(file: &dyn FsFile, line: Range<u64>) -> io::Result<ExaminedPlaces> {
    LongLine { file, line, block: vec![0; BLOCK_BYTES] }.examine()
}

struct LongLine<'a> {
    file: &'a dyn FsFile,
    line: Range<u64>,
    block: Vec<u8>,
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | 0)
}

impl LongLine<'_> {
    fn examine(&mut self) -> io::Result<ExaminedPlaces> {
        let (mut nul_around, mut start, mut end) = (false, self.line.end, self.line.start);
        self.blocks(self.line.clone(), &mut |at, bytes| {
            let spaces = bytes.iter().take_while(|byte| is_space(**byte)).count();
            nul_around |= bytes[..spaces].contains(&0);
            start = at + spaces as u64;
            spaces == bytes.len()
        })?;
        // From the end to the front.
        let mut to = self.line.end;
        while to > start {
            let from = start.max(to.saturating_sub(self.block.len() as u64));
            let bytes = &mut self.block[..(to - from) as usize];
            read_exact_at(self.file, bytes, from)?;
            let spaces = bytes.iter().rev().take_while(|byte| is_space(**byte)).count();
            nul_around |= bytes[bytes.len() - spaces..].contains(&0);
            end = to - spaces as u64;
            if spaces < bytes.len() {
                break;
            }
            to = from;
        }
        let around = nul_around.then_some(DamageKind::NulPadding);
        if start >= end {
            return Ok(ExaminedPlaces { records: Vec::new(), damage: around });
        }
        let begins_as_record = self.byte(start)? == b'{';
        if begins_as_record && self.record_end(start, end)? == Some(end) {
            let mut control = false;
            self.blocks(start..end, &mut |_, bytes| {
                control = bytes.iter().any(|byte| *byte < 0x20 && !matches!(byte, b'\t' | b'\r'));
                !control
            })?;
            let damage = around.or(control.then_some(DamageKind::ControlCharacter));
            return Ok(ExaminedPlaces { records: std::iter::once(start..end).collect(), damage });
        }
        let records = self.fused_records(start, end)?;
        let damage = match (records.is_empty(), begins_as_record) {
            (false, _) => DamageKind::Fused,
            (true, true) => DamageKind::Torn,
            (true, false) => DamageKind::NotARecord,
        };
        Ok(ExaminedPlaces { records, damage: Some(damage) })
    }

    fn fused_records(&mut self, start: u64, end: u64) -> io::Result<Vec<Range<u64>>> {
        let mut records = Vec::new();
        // Looking for the end of something that never ends is paid from this.
        let mut budget = 8 * (end - start) + 65_536;
        let mut at = start;
        while at < end {
            if self.byte(at)? == b'{' && self.looks_like_a_record(at, end)? {
                let record_end = self.record_end(at, end)?;
                budget = budget.saturating_sub(record_end.unwrap_or(end) - at);
                if let Some(record_end) = record_end
                    && is_record(&read_clipped(self.file, at, record_end - at)?, Ids::Present)
                {
                    records.push(at..record_end);
                    at = record_end;
                    continue;
                }
            }
            if budget == 0 {
                break;
            }
            match self.next_start(at + 1, end)? {
                Some(next) => at = next,
                None => break,
            }
        }
        Ok(records)
    }

    /// Calls `on_block` with blocks of a range and where each begins, until it returns false.
    fn blocks(&mut self, range: Range<u64>, on_block: &mut dyn FnMut(u64, &[u8]) -> bool) -> io::Result<()> {
        let mut at = range.start;
        while at < range.end {
            let len = (range.end - at).min(self.block.len() as u64);
            let bytes = &mut self.block[..len as usize];
            read_exact_at(self.file, bytes, at)?;
            if !on_block(at, bytes) {
                break;
            }
            at += len;
        }
        Ok(())
    }

    fn byte(&self, at: u64) -> io::Result<u8> {
        let mut byte = [0];
        read_exact_at(self.file, &mut byte, at)?;
        Ok(byte[0])
    }

    fn looks_like_a_record(&self, at: u64, end: u64) -> io::Result<bool> {
        let mut bytes = vec![0; (end - at).min(LOOK_BYTES) as usize];
        read_exact_at(self.file, &mut bytes, at)?;
        Ok(looks_like_a_record(&bytes))
    }

    /// Where the record ends that begins at `at`.
    fn record_end(&mut self, at: u64, end: u64) -> io::Result<Option<u64>> {
        let mut scanner = LineScanner::new(at);
        let mut record_end = None;
        self.blocks(at..end, &mut |_, bytes| {
            scanner.feed(bytes, &mut |_| {});
            record_end = scanner.closed_at();
            record_end.is_none()
        })?;
        Ok(record_end)
    }

    /// Where, from `from` on, an object begins whose first key is `type`.
    fn next_start(&mut self, from: u64, end: u64) -> io::Result<Option<u64>> {
        let mut at = from;
        // The last byte before `at` that is no white space.
        let mut before: Option<(u64, u8)> = None;
        while at < end {
            let len = (end - at).min(self.block.len() as u64) as usize;
            let bytes = &mut self.block[..len];
            read_exact_at(self.file, bytes, at)?;
            let last_of = |bytes: &[u8]| {
                let trimmed = bytes.trim_ascii_end();
                trimmed.last().map(|byte| (at + trimmed.len() as u64 - 1, *byte))
            };
            for key in memchr::memmem::find_iter(bytes, TYPE_KEY) {
                if let Some((brace, b'{')) = last_of(&bytes[..key]).or(before) {
                    return Ok(Some(brace));
                }
            }
            if at + len as u64 == end {
                break;
            }
            // A key may lie across two blocks.
            let step = len - (TYPE_KEY.len() - 1);
            before = last_of(&bytes[..step]).or(before);
            at += step as u64;
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::fs::{Fs as _, OpenFor, StdFs};
    use crate::storage::jsonl::recovery::examine;
    use crate::storage::testing;
    use proptest::prelude::*;

    fn examine_in_blocks(line: &[u8], size: usize) -> (Vec<Range<usize>>, Option<DamageKind>) {
        let bytes = [b"before\n", line, b"\nbehind"].concat();
        let (_folder, path) = testing::file("s.jsonl", &bytes);
        let file = StdFs.open(&path, OpenFor::Read).expect("a file");
        let range = 7..7 + line.len() as u64;
        let found = LongLine { file: &*file, line: range, block: vec![0; size] }.examine().expect("readable");
        (found.records.iter().map(|range| range.start as usize - 7..range.end as usize - 7).collect(), found.damage)
    }

    proptest! {
        #[test]
        fn it_finds_what_is_found_in_a_line_that_is_held(
            words in proptest::collection::vec(proptest::sample::select(vec![
                "{", "}", "\"", "\\", "\0", " ", "\t", "\r", "\u{1}", "a", "[", "{\"type\"", "{ \t\"type\":\"x\"",
                r#"{"type":"message","id":"a1","parentId":null,"timestamp":"t","message":{"role":"user","content":"x"}}"#,
                r#"{"id":"a1","type":"label","parentId":"b","timestamp":"t"}"#,
                r#"{"type":"message","id":"a1","par"#, r#"{"type":"text","text":"y"}"#,
            ]), 0..12),
            size in 7usize..90,
        ) {
            let line = words.concat().into_bytes();
            let held = examine(&line, Ids::Present);
            prop_assert_eq!(examine_in_blocks(&line, size), (held.records, held.damage));
        }
    }
}
