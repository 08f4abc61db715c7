//! One hash, for names and ids that must come out the same at every run.
//!
//! # Invariants
//! - It never changes: ids of version 1 entries, folder names and names of caches are made with it.

/// The 64-bit FNV-1a hash of some bytes.
pub(crate) fn fnv1a(bytes: impl IntoIterator<Item = u8>) -> u64 {
    bytes.into_iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values that the authors of the hash publish for these texts.
    #[test]
    fn it_is_the_published_hash() {
        for (text, hash) in [("", 0xcbf2_9ce4_8422_2325), ("a", 0xaf63_dc4c_8601_ec8c), ("foobar", 0x8594_4171_f739_67e8)] {
            assert_eq!(fnv1a(text.bytes()), hash, "{text}");
        }
    }
}
