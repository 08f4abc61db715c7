//! Numbers and texts as bytes, for what is kept between two runs.
//!
//! # Invariants
//! - Reading gives back what was written, and `None` for other bytes; it never panics.

/// Writes numbers and texts one after another.
#[derive(Debug, Default)]
pub(crate) struct Writer(pub(crate) Vec<u8>);

impl Writer {
    /// Seven bits a byte, the lowest first.
    pub(crate) fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }
}

/// Reads what a [`Writer`] wrote.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    pub(crate) fn flag(&mut self) -> Option<bool> {
        match self.byte()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    pub(crate) fn number(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*first)
    }

    pub(crate) fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.number()?).ok()?;
        let (bytes, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(bytes)
    }

    pub(crate) fn text(&mut self) -> Option<String> {
        std::str::from_utf8(self.bytes()?).ok().map(str::to_owned)
    }
}

/// A hash of eight bytes at a time: what it has to find are accidents, quickly.
pub(crate) fn checksum(bytes: &[u8]) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let (words, rest) = bytes.as_chunks::<8>();
    let mix = |hash: u64, word: u64| (hash ^ word).wrapping_mul(FACTOR).rotate_left(29);
    let hash = words.iter().fold(bytes.len() as u64, |hash, word| mix(hash, u64::from_le_bytes(*word)));
    rest.iter().fold(hash, |hash, byte| mix(hash, u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read() {
        let numbers = [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX - 1, u64::MAX];
        let mut out = Writer::default();
        numbers.iter().for_each(|number| out.number(*number));
        out.bytes("日本".as_bytes());
        out.0.push(1);
        let mut input = Reader(&out.0);
        assert_eq!(numbers.map(|_| input.number()), numbers.map(Some));
        assert_eq!((input.text().as_deref(), input.flag(), input.byte()), (Some("日本"), Some(true), None));
    }

    #[test]
    fn other_bytes_are_nothing() {
        assert_eq!(Reader(&[0x80; 10]).number(), None);
        assert_eq!(Reader(&[2]).flag(), None);
        assert_eq!(Reader(&[5, b'a']).bytes(), None);
        assert_eq!(Reader(&[1, 0xff]).text(), None);
        assert_eq!(Reader(&[1, 2]).array::<3>(), None);
        assert_ne!(checksum(b"12345678"), checksum(b"12345679"));
        assert_ne!(checksum(b"1"), checksum(b"1\0"));
    }
}
