//! Values that must not be shown.
//!
//! # Invariants
//! - `Debug` and `Display` print `***`; the value is had by [`Secret::expose`] alone.

use std::fmt;

/// A key, a header value or a password.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Takes `value`, without white space around it (a key read from a file often ends with a newline).
    pub fn new(value: impl AsRef<str>) -> Self {
        Self(value.as_ref().trim().to_owned())
    }

    /// The value, for the request itself.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether there is nothing to hide.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// `text` without this value. Values under 4 characters are left: hiding them would only garble the text.
    pub(crate) fn scrub(&self, text: &str) -> String {
        match self.0.len() < 4 {
            true => text.to_owned(),
            false => text.replace(&self.0, "***"),
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_never_printed() {
        let secret = Secret::new(" sk-12345\n");
        assert_eq!(format!("{secret} {secret:?} {:?}", vec![&secret]), "*** *** [***]");
        assert_eq!(secret.scrub("bad key sk-12345, sk-12345"), "bad key ***, ***");
        assert_eq!(secret.expose(), "sk-12345");
    }
}
