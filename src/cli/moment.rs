//! Times as people give them: a date, a time, or how long ago.
//!
//! # Invariants
//! - Every command that takes a time takes the same forms. A time without a zone is UTC.

use crate::session::entry::parse_timestamp_ms;

/// A time that somebody gave, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moment {
    /// Before now.
    Ago(i64),
    /// After 1970.
    At(i64),
}

impl Moment {
    /// Reads `30m`, `2h`, `3d`, `1w`, `2026-11-30`, `2026-11-30T09:00` or a time as in the files.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        const MINUTE_MS: i64 = 60_000;
        let forms = [text.to_owned(), format!("{text}Z"), format!("{text}:00Z"), format!("{text}T00:00:00Z")];
        if let Some(at) = forms.iter().find_map(|form| parse_timestamp_ms(form)) {
            return Ok(Self::At(at));
        }
        let ago = |unit, ms| text.strip_suffix(unit)?.parse::<u32>().ok().map(|number| Self::Ago(i64::from(number) * ms));
        let units = [('m', MINUTE_MS), ('h', 60 * MINUTE_MS), ('d', 24 * 60 * MINUTE_MS), ('w', 7 * 24 * 60 * MINUTE_MS)];
        let ago = units.into_iter().find_map(|(unit, ms)| ago(unit, ms));
        ago.ok_or_else(|| "it has to be a number with m, h, d or w, such as 2h, or a date such as 2026-11-30".to_owned())
    }

    /// Unix milliseconds.
    pub(super) fn at_ms(self, now_ms: i64) -> i64 {
        match self {
            Self::Ago(ms) => now_ms.saturating_sub(ms),
            Self::At(ms) => ms,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_spans_before_now_dates_or_times() {
        for (text, expect) in [
            ("30m", Some(Moment::Ago(1_800_000))),
            ("2h", Some(Moment::Ago(7_200_000))),
            ("3d", Some(Moment::Ago(259_200_000))),
            ("1w", Some(Moment::Ago(604_800_000))),
            ("2026-11-30", Some(Moment::At(1_795_996_800_000))),
            ("2026-11-30T09:00", Some(Moment::At(1_796_029_200_000))),
            ("2026-11-30T10:00:00+01:00", Some(Moment::At(1_796_029_200_000))),
            ("2", None),
            ("h", None),
            ("-1d", None),
            ("yesterday", None),
            ("2026-13-30", None),
        ] {
            assert_eq!(Moment::parse(text).ok(), expect, "{text}");
        }
        assert_eq!((Moment::Ago(5).at_ms(7), Moment::At(5).at_ms(7)), (2, 5));
    }
}
