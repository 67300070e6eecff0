//! Runs work on several threads at once.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use parking_lot::Mutex;

use super::replay_error::ReplayError;

/// Runs both functions at once, or one after the other where no second thread is available.
pub(super) fn join<A: Send, B>(
    first: impl FnOnce() -> A + Send,
    second: impl FnOnce() -> B,
) -> (A, B) {
    let first = Mutex::new(Some(first));
    let do_first = || {
        let first = first.lock().take();
        first.map(|first| first())
    };
    let (first, second) = thread::scope(|scope| {
        let spawned = thread::Builder::new().spawn_scoped(scope, do_first);
        let second = second();
        let first = match spawned {
            Ok(spawned) => spawned
                .join()
                .unwrap_or_else(|why| std::panic::resume_unwind(why)),
            Err(_) => do_first(),
        };
        (first, second)
    });
    (first.expect("it is done once"), second)
}

/// Runs `work(0)` to `work(count - 1)` on all processors; returns the results in order of the number.
pub(super) fn map<T: Send>(count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let some = || {
        let mut done = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                return done;
            }
            done.push((number, work(number)));
        }
    };
    let mut done = thread::scope(|scope| {
        let others: Vec<_> = (1..processors().min(count))
            .map_while(|_| thread::Builder::new().spawn_scoped(scope, some).ok())
            .collect();
        let mut done = some();
        for other in others {
            let theirs = other.join();
            done.extend(theirs.unwrap_or_else(|why| std::panic::resume_unwind(why)));
        }
        done
    });
    done.sort_unstable_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, done)| done).collect()
}

/// Runs `work(0)` to `work(count - 1)` on all processors.
///
/// # Errors
/// Returns the error of the lowest position.
pub(super) fn try_for_each(
    count: usize,
    work: impl Fn(usize) -> Result<(), ReplayError> + Sync,
) -> Result<(), ReplayError> {
    try_map(count, work).map(|_| ())
}

/// Runs `work(0)` to `work(count - 1)` on all processors; returns the results in order of the number.
///
/// # Errors
/// Returns the error of the lowest position.
pub(super) fn try_map<T: Send>(
    count: usize,
    work: impl Fn(usize) -> Result<T, ReplayError> + Sync,
) -> Result<Vec<T>, ReplayError> {
    let all = map(count, work);
    let failed = all.iter().filter_map(|done| done.as_ref().err()).cloned();
    match failed.reduce(ReplayError::first) {
        Some(first) => Err(first),
        None => all.into_iter().collect(),
    }
}

/// Returns how many threads can run at once.
pub(super) fn processors() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_done_once_and_results_are_in_order() {
        for count in [0, 1, 2, 1_000] {
            let done = map(count, |number| 3 * number);
            assert!(done.into_iter().eq((0..count).map(|number| 3 * number)));
        }
    }
}
