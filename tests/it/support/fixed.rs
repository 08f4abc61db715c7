//! A clock and ids that are the same in every run.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use pi_sessions::storage::{Clock, IdSource};

/// 2026-03-01T12:00:00.000Z.
const START_MS: i64 = 1_772_366_400_000;

/// A clock that goes on by one millisecond each time it is looked at.
#[derive(Debug, Default)]
pub struct SteppingClock(AtomicI64);

impl Clock for SteppingClock {
    fn now_ms(&self) -> i64 {
        START_MS + self.0.fetch_add(1, Ordering::Relaxed)
    }
}

/// Ids that count up.
#[derive(Debug, Default)]
pub struct CountedIds(AtomicU64);

impl IdSource for CountedIds {
    fn entry_bits(&self) -> u32 {
        self.0.fetch_add(1, Ordering::Relaxed) as u32
    }

    fn session_id(&self) -> String {
        format!("019b0000-0000-7000-8000-{:012x}", self.0.fetch_add(1, Ordering::Relaxed))
    }
}
