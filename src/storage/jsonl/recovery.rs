//! What can be had from a line that is not one whole record.
//!
//! # Invariants
//! - Pure: bytes in, ranges out. Nothing here writes; a damaged line stays as it is in its file.
//! - The work is bounded by a small multiple of the line's length, whatever is in it.
//!
//! # What a crash leaves
//! ```text
//! {"type":"message","id":"a1","par                          torn: nothing to have
//! {"type":"message","id":"a1","par{"type":"message",...}    fused: the second record
//! {"type":"message",...}{"type":"message",...}              fused: both
//! {"type":"message",...}\0\0\0\0\0\0                        NULs: the record before (or behind) them
//! ```

use std::ops::Range;

use crate::session::json::well_formed;
use crate::storage::DamageKind;
use crate::storage::jsonl::codec::{Head, Members, read_head_slowly};
use crate::storage::jsonl::scan::record_end;

/// What was found in a line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Examined {
    /// The whole records, in order; each begins with `{` and ends with `}`.
    pub records: Vec<Range<usize>>,
    /// What is wrong with the line; `None` for a good or a blank line.
    pub damage: Option<DamageKind>,
}

/// Whether the entries of a file have ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ids {
    /// They do, as from version 2 on.
    Present,
    /// They do not (version 1).
    Absent,
}

/// Looks at one line, without its newline.
pub(crate) fn examine(line: &[u8], ids: Ids) -> Examined {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | 0);
    let start = line.iter().take_while(|byte| is_space(byte)).count();
    let end = line.len() - line[start..].iter().rev().take_while(|byte| is_space(byte)).count();
    let trimmed = &line[start..end];
    let nul_around = line[..start].contains(&0) || line[end..].contains(&0);
    let around = nul_around.then_some(DamageKind::NulPadding);
    if trimmed.is_empty() {
        return Examined { records: Vec::new(), damage: around };
    }
    if record_end(trimmed) == Some(trimmed.len()) {
        let control = trimmed.iter().any(|byte| *byte < 0x20 && !matches!(byte, b'\t' | b'\r'));
        let damage = around.or(control.then_some(DamageKind::ControlCharacter));
        return Examined { records: std::iter::once(start..end).collect(), damage };
    }
    let records: Vec<_> = fused_records(trimmed, ids).into_iter().map(|range| range.start + start..range.end + start).collect();
    let damage = match (records.is_empty(), trimmed[0] == b'{') {
        (false, _) => DamageKind::Fused,
        (true, true) => DamageKind::Torn,
        (true, false) => DamageKind::NotARecord,
    };
    Examined { records, damage: Some(damage) }
}

/// The records in a line that holds a part of one and others behind it, or several.
fn fused_records(line: &[u8], ids: Ids) -> Vec<Range<usize>> {
    let mut records = Vec::new();
    // Looking for the end of something that never ends is paid from this.
    let mut budget = 8 * line.len() + 65_536;
    let mut at = 0;
    while at < line.len() {
        let rest = &line[at..];
        if rest[0] == b'{' && looks_like_a_record(rest) {
            let end = record_end(rest);
            budget = budget.saturating_sub(end.unwrap_or(rest.len()));
            if let Some(end) = end
                && is_record(&rest[..end], ids)
            {
                records.push(at..at + end);
                at += end;
                continue;
            }
        }
        if budget == 0 {
            break;
        }
        match next_start(line, at + 1) {
            Some(next) => at = next,
            None => break,
        }
    }
    records
}

/// Where, from `from` on, an object begins whose first key is `type`.
fn next_start(line: &[u8], from: usize) -> Option<usize> {
    let keys = memchr::memmem::find_iter(&line[from..], b"\"type\"");
    let mut braces = keys.filter_map(|key| {
        let before = line[..from + key].trim_ascii_end();
        before.ends_with(b"{").then(|| before.len() - 1)
    });
    braces.find(|brace| *brace >= from)
}

/// Whether the first bytes, of which 512 are looked at, could begin an entry or a header, and not a block of a message's content.
pub(super) fn looks_like_a_record(bytes: &[u8]) -> bool {
    let start = &bytes[..bytes.len().min(512)];
    let has = |key: &[u8]| memchr::memmem::find(start, key).is_some();
    has(b"\"parentId\"") || has(b"\"timestamp\"") || has(b"\"customType\"")
}

pub(super) fn is_record(bytes: &[u8], ids: Ids) -> bool {
    let text = well_formed(bytes);
    let has = |wanted| Members::of(&text).any(|(key, _)| key == wanted);
    match (read_head_slowly(&text), ids) {
        (Head::Header, _) => true,
        // A tool call has `type` and `id` too, but no parent.
        (Head::Entry(_), Ids::Present) => has("parentId"),
        (Head::Entry(_) | Head::NoId, Ids::Absent) => has("timestamp"),
        (Head::NoId | Head::NotAnEntry, _) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = r#"{"type":"message","id":"a","parentId":null,"timestamp":"t","message":{"role":"assistant","content":[{"type":"text","text":"x"},{"type":"toolCall","id":"c","name":"n","arguments":{}}]}}"#;
    const B: &str = r#"{"type":"label","id":"b","parentId":"a","timestamp":"t","targetId":"a"}"#;

    fn check(line: &str, records: &[&str], damage: Option<DamageKind>) {
        let examined = examine(line.as_bytes(), Ids::Present);
        let found: Vec<_> = examined.records.iter().map(|range| &line[range.clone()]).collect();
        assert_eq!((found.as_slice(), examined.damage), (records, damage), "{line:?}");
    }

    #[test]
    fn good_and_blank_lines_have_no_damage() {
        check(A, &[A], None);
        check(&format!(" {A}\t\r"), &[A], None);
        check("", &[], None);
        check(" \r", &[], None);
    }

    #[test]
    fn nul_blocks_after_a_power_cut_cost_only_themselves() {
        check(&format!("{A}\0\0\0"), &[A], Some(DamageKind::NulPadding));
        check(&format!("\0\0{A}"), &[A], Some(DamageKind::NulPadding));
        check(&"\0".repeat(9000), &[], Some(DamageKind::NulPadding));
        let torn = &A[..60];
        check(&format!("{torn}\0\0\0{B}"), &[B], Some(DamageKind::Fused));
    }

    #[test]
    fn of_a_fused_line_the_second_record_is_recovered_wherever_the_first_is_cut() {
        for cut in 1..A.len() {
            check(&format!("{}{B}", &A[..cut]), &[B], Some(DamageKind::Fused));
        }
        check(&format!("{A}{B}"), &[A, B], Some(DamageKind::Fused));
        check(&format!("{A} {B}{}", &A[..30]), &[A, B], Some(DamageKind::Fused));
    }

    #[test]
    fn of_a_fused_line_the_second_record_is_recovered_however_it_is_spaced() {
        let spaced = B.replacen('{', "{ ", 1).replace("\":", "\" : ").replace(',', " , ");
        for cut in 1..A.len() {
            check(&format!("{}{spaced}", &A[..cut]), &[&spaced], Some(DamageKind::Fused));
        }
    }

    #[test]
    fn a_cut_record_gives_nothing() {
        for cut in 1..A.len() {
            check(&A[..cut], &[], Some(DamageKind::Torn));
        }
        check(r#"ole":"user"}"#, &[], Some(DamageKind::NotARecord));
    }

    #[test]
    fn a_raw_control_character_costs_nothing_but_is_told() {
        let line = A.replace('x', "x\u{1}");
        check(&line, &[&line], Some(DamageKind::ControlCharacter));
    }

    #[test]
    fn a_hostile_line_ends_in_linear_time() {
        let line = r#"{"type":"message","id":"a","parentId":"#.repeat(20_000);
        check(&line, &[], Some(DamageKind::Torn));
    }
}
