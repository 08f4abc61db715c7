//! Finds the lines of a file and proves, in the same pass, which of them are whole records.
//!
//! A line is *whole* when its quotes and brackets close for the first time at its last byte and it holds no control
//! character. So a cut record, two records in one line, or padding with NULs is never taken for a record, wherever
//! the cut is. Words between the brackets are not looked at; who reads the body sees whether they are JSON.
//!
//! # Invariants
//! - Feeding a file in blocks of any size gives the same lines as feeding it at once.
//! - What the fast pass calls whole, [`record_end`] calls whole, and the other way round (tested against each other).
//! - The widest registers of the processor and the narrowest give the same lines.
//! - No byte is looked at twice, and nothing is allocated.

use fearless_simd::prelude::*;
use fearless_simd::{Level, dispatch, u8x64};

/// One line of a file, without its newline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// Position of the first byte in the file.
    pub start: u64,
    /// Position behind the last byte in the file.
    pub end: u64,
    /// Whether it is proven to be one bracketed record.
    pub whole: bool,
}

/// The state of the pass between two blocks.
#[derive(Clone, Debug)]
pub(super) struct LineScanner {
    /// Where the current line begins.
    line_start: u64,
    /// The position of the next byte.
    position: u64,
    /// All ones inside a string.
    in_string: u64,
    /// 1 when the next byte is escaped.
    escape: u64,
    /// Open brackets.
    depth: i64,
    /// Where the brackets closed for the first time.
    closed_at: Option<u64>,
    /// A control character was met.
    control: bool,
}

/// 64 bytes of a file.
type Block = [u8; 64];

/// A block in the registers of the widest kind that the processor has.
#[derive(Clone, Copy)]
struct Lanes<S: Simd> {
    simd: S,
    bytes: u8x64<S>,
}

impl<S: Simd> Lanes<S> {
    #[inline(always)]
    fn load(simd: S, block: &Block) -> Self {
        Self { simd, bytes: u8x64::load_array_ref(simd, block) }
    }

    #[inline(always)]
    fn splat(self, byte: u8) -> u8x64<S> {
        u8x64::splat(self.simd, byte)
    }

    /// One bit for each byte that is `byte`.
    #[inline(always)]
    fn are(self, byte: u8) -> u64 {
        self.bytes.simd_eq(self.splat(byte)).to_bitmask()
    }

    /// One bit for each byte that is `bracket`, an opening or a closing one. `{` and `[`, `}` and `]` differ in one bit alone.
    #[inline(always)]
    fn are_bracket(self, bracket: u8) -> u64 {
        (self.bytes | self.splat(0x20)).simd_eq(self.splat(bracket)).to_bitmask()
    }

    #[inline(always)]
    fn are_control(self) -> u64 {
        self.bytes.simd_lt(self.splat(0x20)).to_bitmask()
    }

    /// Whether a block inside a string needs a closer look: it holds a quote or a control character, or ends with a
    /// backslash. Most of a session is inside strings, and most of that needs none.
    #[inline(always)]
    fn is_eventful(self, block: &Block) -> bool {
        let events = self.bytes.simd_eq(self.splat(b'"')) | self.bytes.simd_lt(self.splat(0x20));
        events.to_bitmask() != 0 || block[63] == b'\\'
    }
}

impl LineScanner {
    /// A pass that begins at `position`, which is the beginning of a line.
    pub fn new(position: u64) -> Self {
        Self { line_start: position, position, in_string: 0, escape: 0, depth: 0, closed_at: None, control: false }
    }

    /// Where the line begins that is not ended yet.
    pub fn line_start(&self) -> u64 {
        self.line_start
    }

    /// Where the brackets of the line that is not ended yet closed for the first time.
    pub fn closed_at(&self) -> Option<u64> {
        self.closed_at
    }

    /// Takes the next bytes of the file and calls `on_line` at each newline.
    pub fn feed(&mut self, bytes: &[u8], on_line: &mut dyn FnMut(Line)) {
        self.feed_with(Level::new(), bytes, on_line);
    }

    /// As [`LineScanner::feed`], with the instructions of `level`. The pass is compiled once for each of them.
    fn feed_with(&mut self, level: Level, bytes: &[u8], on_line: &mut dyn FnMut(Line)) {
        dispatch!(level, simd => self.feed_blocks(simd, bytes, on_line));
    }

    #[inline(always)]
    fn feed_blocks<S: Simd>(&mut self, simd: S, bytes: &[u8], on_line: &mut dyn FnMut(Line)) {
        let (blocks, rest) = bytes.as_chunks::<64>();
        for group in blocks.chunks(64) {
            // First a look at all of them: so the next one that needs a closer look is a matter of one instruction, and
            // no processor has to guess how long a run of quiet ones is.
            let mut eventful = 0u64;
            for (at, block) in group.iter().enumerate() {
                eventful |= u64::from(Lanes::load(simd, block).is_eventful(block)) << at;
            }
            let mut at = 0;
            while let Some(block) = group.get(at) {
                let quiet = ((eventful >> at).trailing_zeros() as usize).min(group.len() - at);
                if self.in_string == u64::MAX && quiet > 0 {
                    self.escape = 0;
                    self.position += 64 * quiet as u64;
                    at += quiet;
                } else {
                    self.block(Lanes::load(simd, block), 64, on_line);
                    at += 1;
                }
            }
        }
        if !rest.is_empty() {
            // A space is no bracket, no quote and no control character.
            let mut block = [b' '; 64];
            block[..rest.len()].copy_from_slice(rest);
            self.block(Lanes::load(simd, &block), rest.len() as u64, on_line);
        }
    }

    /// The last line, if it has no newline.
    pub fn finish(self) -> Option<Line> {
        (self.position > self.line_start).then(|| self.line_to(self.position))
    }

    fn line_to(&self, end: u64) -> Line {
        Line { start: self.line_start, end, whole: !self.control && self.closed_at == Some(end) }
    }

    #[inline(always)]
    fn block<S: Simd>(&mut self, block: Lanes<S>, len: u64, on_line: &mut dyn FnMut(Line)) {
        let control = block.are_control();
        let mut newlines = if control == 0 { 0 } else { block.are(b'\n') };
        let mut segment = u64::MAX;
        while newlines != 0 {
            let at = newlines.trailing_zeros();
            let below = (1u64 << at) - 1;
            self.segment(block, segment & below, control, 64);
            let end = self.position + u64::from(at);
            on_line(self.line_to(end));
            *self = Self { position: self.position, ..Self::new(end + 1) };
            segment = u64::MAX.checked_shl(at + 1).unwrap_or(0);
            newlines &= newlines - 1;
        }
        if segment != 0 {
            self.segment(block, segment, control, len);
        }
        self.position += len;
    }

    /// Takes the bytes of one line in a block of `len` bytes, those whose bit is set in `segment`.
    #[inline(always)]
    fn segment<S: Simd>(&mut self, block: Lanes<S>, segment: u64, control: u64, len: u64) {
        let escaped = self.escaped(block.are(b'\\') & segment);
        if len < 64 {
            // The byte behind the last one is the first of the next block.
            self.escape = escaped >> len & 1;
        }
        self.control |= control & segment != 0;
        let quotes = block.are(b'"') & segment & !escaped;
        let was_in_string = self.in_string;
        // An odd number of quotes ends a string, or begins one.
        self.in_string ^= 0u64.wrapping_sub(u64::from(quotes.count_ones() & 1));
        if quotes == 0 && was_in_string == u64::MAX {
            return;
        }
        let outside = segment & !(prefix_xor(quotes) ^ was_in_string);
        let (open, close) = (block.are_bracket(b'{') & outside, block.are_bracket(b'}') & outside);
        let closing = i64::from(close.count_ones());
        if self.depth <= closing && close != 0 {
            self.walk(open, close);
        } else {
            self.depth += i64::from(open.count_ones()) - closing;
        }
    }

    /// Goes from bracket to bracket, for the few blocks in which a record may end.
    fn walk(&mut self, open: u64, close: u64) {
        let mut brackets = open | close;
        while brackets != 0 {
            let at = brackets.trailing_zeros();
            self.depth += if open >> at & 1 == 1 { 1 } else { -1 };
            if self.depth <= 0 && self.closed_at.is_none() {
                self.closed_at = Some(self.position + u64::from(at) + 1);
            }
            brackets &= brackets - 1;
        }
    }

    /// The bytes that a backslash escapes: in a run of backslashes every second one, and the byte behind an odd run.
    #[inline(always)]
    fn escaped(&mut self, backslash: u64) -> u64 {
        const EVEN: u64 = 0x5555_5555_5555_5555;
        if backslash == 0 {
            return std::mem::take(&mut self.escape);
        }
        let backslash = backslash & !self.escape;
        let follows = backslash << 1 | self.escape;
        let odd_starts = backslash & !EVEN & !follows;
        let (even_sequences, overflow) = odd_starts.overflowing_add(backslash);
        self.escape = u64::from(overflow);
        (EVEN ^ (even_sequences << 1)) & follows
    }
}

/// Bit n is the parity of the bits up to and including n: the bytes from an opening quote up to its closing one.
#[inline(always)]
fn prefix_xor(mut bits: u64) -> u64 {
    for shift in [1, 2, 4, 8, 16, 32] {
        bits ^= bits << shift;
    }
    bits
}

/// Where the record that begins at `bytes[0]` ends: behind the bracket that closes the first one. `None` when it does
/// not close, or does not begin with `{`. The same rule as the pass above, a byte at a time.
pub(super) fn record_end(bytes: &[u8]) -> Option<usize> {
    if bytes.first() != Some(&b'{') {
        return None;
    }
    value_end(bytes, 0)
}

/// Where the JSON value that begins at `bytes[at]` ends, by brackets and quotes alone; a word or number ends before
/// the next `,`, bracket or white space. `None` when it does not end.
pub(super) fn value_end(bytes: &[u8], at: usize) -> Option<usize> {
    let mut depth = 0usize;
    let mut at = at;
    loop {
        match bytes.get(at)? {
            b'"' => at = string_end(bytes, at)?,
            b'{' | b'[' => {
                depth += 1;
                at += 1;
            }
            b'}' | b']' => {
                depth = depth.checked_sub(1)?;
                at += 1;
            }
            _ if depth == 0 => {
                let word = bytes[at..].iter().position(|byte| matches!(byte, b',' | b'}' | b']' | b'{' | b'[' | b'"' | 0..=b' '));
                return word.filter(|len| *len > 0).map(|len| at + len);
            }
            // No JSON has one here; it hides a quote, as it does in a string.
            b'\\' => at += if matches!(bytes.get(at + 1), Some(b'"' | b'\\')) { 2 } else { 1 },
            _ => at += bytes[at..].iter().position(|byte| matches!(byte, b'"' | b'\\' | b'{' | b'}' | b'[' | b']'))?,
        }
        if depth == 0 {
            return Some(at);
        }
    }
}

/// Where the string that begins with the quote at `bytes[at]` ends.
pub(super) fn string_end(bytes: &[u8], at: usize) -> Option<usize> {
    let mut at = at + 1;
    loop {
        at += memchr::memchr2(b'"', b'\\', bytes.get(at..)?)?;
        if bytes[at] == b'"' {
            return Some(at + 1);
        }
        at += 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The widest kind of registers that this machine has, and narrower ones.
    fn levels() -> Vec<Level> {
        let best = Level::new();
        #[cfg(target_arch = "x86_64")]
        let narrower =
            [best.as_avx2().map(|it| it.level()), best.as_sse4_2().map(|it| it.level()), best.as_sse2().map(|it| it.level())];
        #[cfg(not(target_arch = "x86_64"))]
        let narrower = [Some(Level::baseline())];
        std::iter::once(best).chain(narrower.into_iter().flatten()).collect()
    }

    /// The lines of `bytes`, fed in blocks of `size`. The slow pass asks for a record from the first byte on; the fast one
    /// leaves the first byte to who reads the line's head.
    fn scan(bytes: &[u8], size: usize) -> Vec<Line> {
        let [lines, others @ ..] = &levels().into_iter().map(|level| scan_with(level, bytes, size)).collect::<Vec<_>>()[..]
        else {
            panic!("no level")
        };
        assert!(others.iter().all(|other| other == lines), "the levels disagree");
        lines.clone()
    }

    fn scan_with(level: Level, bytes: &[u8], size: usize) -> Vec<Line> {
        let mut lines = Vec::new();
        let mut scanner = LineScanner::new(0);
        for block in bytes.chunks(size) {
            scanner.feed_with(level, block, &mut |line| lines.push(line));
        }
        lines.extend(scanner.finish());
        for line in &mut lines {
            line.whole &= bytes.get(line.start as usize) == Some(&b'{');
        }
        lines
    }

    /// The same, a byte at a time.
    fn scan_slowly(bytes: &[u8]) -> Vec<Line> {
        let mut lines = Vec::new();
        let mut start = 0;
        for line in bytes.split(|byte| *byte == b'\n') {
            let end = start + line.len();
            let whole = record_end(line) == Some(line.len()) && !line.iter().any(|byte| *byte < 0x20);
            lines.push(Line { start: start as u64, end: end as u64, whole });
            start = end + 1;
        }
        if lines.last().is_some_and(|line| line.start == line.end) {
            lines.pop();
        }
        lines
    }

    fn check(text: &str, expect: &[bool]) {
        let lines = scan(text.as_bytes(), 64);
        assert_eq!(lines.iter().map(|line| line.whole).collect::<Vec<_>>(), expect, "{text}");
        assert_eq!(lines, scan_slowly(text.as_bytes()), "{text}");
    }

    #[test]
    fn whole_records_are_told_from_cut_and_fused_ones() {
        check("", &[]);
        check("{}\n{\"a\":[1,{\"b\":2}]}", &[true, true]);
        check(r#"{"a":"}"}"#, &[true]);
        check(r#"{"a":"\"}"}"#, &[true]);
        check(r#"{"a":"\\"}"#, &[true]);
        check(r#"{"a":{"b":1}"#, &[false]);
        check("{\"a\":\"x\n\n{}{}\n{} \n {}\n{\"a\":1}}", &[false; 6]);
        check("{\"a\":\"\0\"}\n{\"a\":1}\0\0\n{}\r\n", &[false; 3]);
        check(r#"{"a":"x{"type":"message"}"#, &[false]);
        check(r#"{"a":1{"b":2}"#, &[false]);
    }

    #[test]
    fn a_cut_record_is_never_whole() {
        let record =
            br#"{"type":"message","m":{"content":[{"type":"text","text":"a \\ \" } ] {"},{"u":{"c":{}}}]},"x":{"y":{"z":[]}}}"#;
        for cut in 1..record.len() {
            for size in [1, 7, 64] {
                assert_eq!(scan(&record[..cut], size), [Line { start: 0, end: cut as u64, whole: false }], "{cut}");
            }
        }
        assert!(scan(record, 64)[0].whole);
    }

    proptest! {
        #[test]
        fn the_fast_pass_agrees_with_the_slow_one(
            words in proptest::collection::vec(proptest::sample::select(vec![
                "{", "}", "[", "]", "\"", "\\", "\n", "\0", "\t", ":", ",", "a", "\\\\", "\\\"", "{\"a\":{}}", "é\u{1f680}",
                r#"{"type":"message","x":[{"y":"z"}]}"#,
                r#"{"k":"0123456789 0123456789 0123456789 0123456789 0123456789 0123456789"}"#,
            ]), 0..60),
            size in 1usize..200,
        ) {
            let bytes = words.concat().into_bytes();
            prop_assert_eq!(scan(&bytes, size), scan_slowly(&bytes));
        }
    }
}
