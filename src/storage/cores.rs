//! Does one thing for many items on all cores.
//!
//! # Invariants
//! - The results stand, or are taken, in the order of the items, whatever order they were made in.
//! - No thread outlives the call, and with one core or one batch there is none.

#[cfg(feature = "cli")]
use std::io;
use std::num::NonZero;
#[cfg(feature = "cli")]
use std::sync::Condvar;
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
    on_threads(batches, &work);
    let mut parts = parts.into_inner().unwrap_or_else(PoisonError::into_inner);
    parts.sort_unstable_by_key(|(at, _)| *at);
    let mut results = Vec::with_capacity(items.len());
    for (_, made) in parts {
        results.extend(made);
    }
    results
}

/// Calls `work` on as many threads as there are cores, but on no more than there are batches.
fn on_threads(batches: usize, work: &(dyn Fn() + Sync)) {
    // What the system allows is read from files, which is too much to do for one batch.
    let threads = if batches > 1 { std::thread::available_parallelism().map_or(1, NonZero::get).min(batches) } else { 1 };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(work);
        }
        work();
    });
}

/// Whose bytes are taken next, and what came of it so far.
#[cfg(feature = "cli")]
struct Turn<'a> {
    next: usize,
    take: &'a mut (dyn FnMut(&[u8]) -> io::Result<()> + Send),
    result: io::Result<()>,
    /// Whether nothing more is taken: it failed, or what was to be taken next was never made.
    is_over: bool,
}

/// Calls `make` for every item with an empty buffer, and `take` with what it wrote there, in the items' order. A thread
/// keeps its buffer, so that memory is touched anew only where an item needs more than those before.
///
/// # Errors
/// The first that `take` gives; then no more is taken.
#[cfg(feature = "cli")]
pub(crate) fn write_on_all_cores<T: Sync>(
    items: &[T],
    make: &(dyn Fn(&T, &mut Vec<u8>) + Sync),
    take: &mut (dyn FnMut(&[u8]) -> io::Result<()> + Send),
) -> io::Result<()> {
    /// Lets the others go when this thread leaves with its turn still to come: they would wait for ever.
    struct Leave<'a, 'b>(&'a Mutex<Turn<'b>>, &'a Condvar);
    impl Drop for Leave<'_, '_> {
        fn drop(&mut self) {
            if std::thread::panicking() {
                self.0.lock().unwrap_or_else(PoisonError::into_inner).is_over = true;
                self.1.notify_all();
            }
        }
    }
    let turn = Mutex::new(Turn { next: 0, take, result: Ok(()), is_over: false });
    let moved_on = Condvar::new();
    let claimed = AtomicUsize::new(0);
    let work = || {
        let _leave = Leave(&turn, &moved_on);
        let mut bytes = Vec::new();
        loop {
            let at = claimed.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(at) else { break };
            bytes.clear();
            make(item, &mut bytes);
            // Items are claimed in order, so who has the next one never waits.
            let turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
            let waited = moved_on.wait_while(turn, |turn| turn.next != at && !turn.is_over);
            let mut turn = waited.unwrap_or_else(PoisonError::into_inner);
            if turn.is_over {
                break;
            }
            turn.result = (turn.take)(&bytes);
            turn.is_over = turn.result.is_err();
            turn.next += 1;
            drop(turn);
            moved_on.notify_all();
        }
    };
    on_threads(items.len(), &work);
    turn.into_inner().unwrap_or_else(PoisonError::into_inner).result
}

#[cfg(test)]
mod tests {
    #[cfg(feature = "cli")]
    use std::time::Duration;

    use super::*;

    #[test]
    #[cfg(feature = "cli")]
    fn bytes_are_taken_in_the_order_of_the_items() {
        for len in [0, 1, 2, 500] {
            let items: Vec<usize> = (0..len).collect();
            let mut taken = Vec::new();
            let made = write_on_all_cores(
                &items,
                &|item, out| {
                    assert!(out.is_empty(), "each begins with an empty buffer");
                    // Of different lengths, and not ready in order.
                    out.extend(format!("{item} ").repeat(if item % 7 == 0 { 3_000 } else { 1 }).bytes());
                },
                &mut |bytes| {
                    taken.extend(String::from_utf8_lossy(bytes).split(' ').next().and_then(|item| item.parse::<usize>().ok()));
                    Ok(())
                },
            );
            assert!(made.is_ok(), "nothing fails");
            assert_eq!(taken, items);
        }
    }

    #[test]
    #[cfg(feature = "cli")]
    fn nothing_is_taken_after_a_failure() {
        let items: Vec<usize> = (0..100).collect();
        let mut calls = 0;
        let failed = write_on_all_cores(&items, &|_, _| {}, &mut |_| {
            calls += 1;
            if calls == 10 { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(()) }
        });
        assert_eq!((failed.map_err(|error| error.kind()), calls), (Err(io::ErrorKind::BrokenPipe), 10));
    }

    #[test]
    #[cfg(feature = "cli")]
    fn a_panic_leaves_nobody_waiting() {
        let items: Vec<usize> = (0..100).collect();
        for bad in [0, 50, 99] {
            let items = items.clone();
            // On a thread of its own: who waits for ever would keep this test from failing.
            let (ended, end) = std::sync::mpsc::channel();
            std::thread::spawn(move || {
                let make = |item: &usize, _: &mut Vec<u8>| assert_ne!(*item, bad, "as was asked for");
                let all = || write_on_all_cores(&items, &make, &mut |_| Ok(()));
                let all = std::panic::catch_unwind(std::panic::AssertUnwindSafe(all));
                ended.send(all.is_err()).expect("the test listens");
            });
            assert_eq!(end.recv_timeout(Duration::from_secs(60)), Ok(true), "{bad}");
        }
    }

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
