//! Work that is done by two threads.

use std::thread;

use parking_lot::Mutex;

/// Does both at once; one after the other where no second thread can be had.
pub(super) fn both<A: Send, B>(
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
