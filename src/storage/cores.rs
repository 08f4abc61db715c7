//! Does one thing for many items on all cores.
//!
//! # Invariants
//! - The results stand in the order of the items, whatever order they were made in.
//! - No thread outlives the call, and with one core or one batch there is none.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Calls `make` for every item and gives the results in the items' order. A thread takes `batch` items at a time, so
/// that cheap work is not eaten by the handing out.
pub(crate) fn map_on_all_cores<T: Sync, R: Send>(items: &[T], batch: usize, make: &(dyn Fn(&T) -> R + Sync)) -> Vec<R> {
    let batch = batch.max(1);
    let batches = items.len().div_ceil(batch);
    let next = AtomicUsize::new(0);
    let parts: Mutex<Vec<(usize, Vec<R>)>> = Mutex::new(Vec::with_capacity(batches));
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(part) = items.chunks(batch).nth(at) else { break };
            let made = part.iter().map(make).collect();
            parts.lock().unwrap_or_else(PoisonError::into_inner).push((at, made));
        }
    };
    // What the system allows is read from files, which is too much to do for one batch.
    let threads = if batches > 1 { std::thread::available_parallelism().map_or(1, NonZero::get).min(batches) } else { 1 };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(work);
        }
        work();
    });
    let mut parts = parts.into_inner().unwrap_or_else(PoisonError::into_inner);
    parts.sort_unstable_by_key(|(at, _)| *at);
    let mut results = Vec::with_capacity(items.len());
    for (_, made) in parts {
        results.extend(made);
    }
    results
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_stand_in_the_order_of_the_items() {
        for len in [0, 1, 7, 1000] {
            for batch in [0, 1, 3, 5000] {
                let items: Vec<usize> = (0..len).collect();
                let doubled: Vec<usize> = items.iter().map(|item| item * 2).collect();
                assert_eq!(map_on_all_cores(&items, batch, &|item| item * 2), doubled, "{len} {batch}");
            }
        }
    }
}
