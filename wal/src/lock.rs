//! The lock of a log: one process at a time.

use std::thread;
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::format;
use crate::holder;
use crate::storage::{Lock, Locked, Storage};

/// Maximum wait for a holder that does not visibly live: a process that was killed keeps its files
/// open for a moment more.
const DYING_MAX: Duration = Duration::from_secs(5);
/// How long a holder must be seen living before that is believed: it may have been killed just now.
const LIVING_MIN: Duration = Duration::from_millis(150);
/// Time between two attempts.
const RETRY_PAUSE: Duration = Duration::from_millis(10);

/// Locks the log for this process alone, and names it in the lock file.
pub(crate) fn take(storage: &dyn Storage) -> Result<Lock, Error> {
    let holder = holder::starts();
    unless_held(storage, DYING_MAX, || storage.lock(format::LOCK, &holder))
}

/// Keeps writers out while this process reads. A directory without a lock file,
/// for example a copy, has no writer.
pub(crate) fn share(storage: &dyn Storage) -> Result<Lock, Error> {
    unless_held(storage, DYING_MAX, || storage.lock_shared(format::LOCK))
}

/// Writes into the lock file that its holder appends from now on. Failing to do
/// so does no harm.
pub(crate) fn write_epoch(storage: &dyn Storage, epoch: u64) {
    let _ = storage.set_holder(format::LOCK, &holder::appends(epoch));
}

/// Who has the log open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    Nobody,
    /// A process that has not announced yet that it appends: it reads the log, as a start does, or is of an older
    /// release.
    Starts,
    /// A process that appends, in this epoch.
    Appends(u64),
}

/// Returns who has the log open, as far as can be found out without locking others out.
pub(crate) fn holder(storage: &dyn Storage) -> Result<Holder, Error> {
    let locked = storage
        .lock_shared(format::LOCK)
        .map_err(Error::io("lock", storage.describe(format::LOCK)))?;
    Ok(match locked {
        Locked::Taken(_) => Holder::Nobody,
        Locked::Busy { holder, .. } => match holder::epoch_of(&holder) {
            Some(epoch) => Holder::Appends(epoch),
            None => Holder::Starts,
        },
    })
}

/// Waits at most `dying_max` for a holder that is ending, and refuses when the holder lives.
fn unless_held(
    storage: &dyn Storage,
    dying_max: Duration,
    lock: impl Fn() -> std::io::Result<Locked>,
) -> Result<Lock, Error> {
    let began = Instant::now();
    let mut living: Option<Instant> = None;
    loop {
        let locked = lock().map_err(Error::io("lock", storage.describe(format::LOCK)))?;
        let (holder, lives) = match locked {
            Locked::Taken(lock) => return Ok(lock),
            Locked::Busy { holder, lives } => (holder, lives),
        };
        living = lives.then(|| living.unwrap_or_else(Instant::now));
        let is_living = living.is_some_and(|since| since.elapsed() >= LIVING_MIN);
        if is_living || began.elapsed() >= dying_max {
            return Err(Error::Held {
                file: storage.describe(format::LOCK),
                holder: match (is_living, holder.as_str()) {
                    (true, _) | (_, "") => holder,
                    // A reader does not write its name into the lock file.
                    _ => format!("another process (the last one to write in it was {holder})"),
                },
            });
        }
        thread::sleep(RETRY_PAUSE);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::storage::sim::SimDisk;

    /// Runs `unless_held` on these findings, one for each attempt and the last one for ever;
    /// returns its result, and the number of attempts.
    fn looked(found: &[Option<bool>], dying_max: Duration) -> (Result<(), String>, usize) {
        let looks = AtomicU32::new(0);
        let looks_done = || usize::try_from(looks.load(Ordering::SeqCst)).unwrap();
        let disk = SimDisk::new();
        let locked = unless_held(&disk, dying_max, || {
            let look = looks_done().min(found.len() - 1);
            looks.fetch_add(1, Ordering::SeqCst);
            Ok(match found[look] {
                None => Locked::Taken(Box::new(())),
                Some(lives) => Locked::Busy {
                    holder: "process 77 since then".to_owned(),
                    lives,
                },
            })
        });
        let locked = locked.map(drop).map_err(|error| error.to_string());
        (locked, looks_done())
    }

    #[test]
    fn a_lock_waits_for_an_ending_process_and_not_for_a_living_one() {
        let long = Duration::from_secs(3_600);
        assert_eq!(looked(&[None], long), (Ok(()), 1));
        let ends = [Some(false), Some(true), Some(false), None];
        assert_eq!(looked(&ends, long), (Ok(()), 4));
        let began = Instant::now();
        let (refused, looks) = looked(&[Some(false), Some(true)], long);
        let refused = refused.unwrap_err();
        assert!(
            refused.contains("in use by process 77 since then"),
            "{refused}"
        );
        assert!(began.elapsed() >= LIVING_MIN && looks > 2);
        let short = Duration::from_millis(40);
        let (refused, _) = looked(&[Some(false)], short);
        let refused = refused.unwrap_err();
        assert!(refused.contains("the last one to write"), "{refused}");
    }
}
