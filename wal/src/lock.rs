//! One process at a time.

use std::process;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::error::Error;
use crate::format;
use crate::storage::{Lock, Locked, Storage};

/// Takes the log for this process alone, and says so in the lock file.
pub(crate) fn take(storage: &dyn Storage) -> Result<Lock, Error> {
    let holder = format!("process {} since {}", process::id(), now());
    let locked = storage
        .lock(format::LOCK, &holder)
        .map_err(Error::io("lock", storage.describe(format::LOCK)))?;
    expect_free(storage, locked)
}

/// Keeps writers out while this process reads. A directory without a lock file,
/// for example a copy, has no writer.
pub(crate) fn share(storage: &dyn Storage) -> Result<Lock, Error> {
    let locked = storage
        .lock_shared(format::LOCK)
        .map_err(Error::io("lock", storage.describe(format::LOCK)))?;
    expect_free(storage, locked)
}

/// Says in the lock file that whoever holds it appends from now on. That this
/// cannot be said harms nobody.
pub(crate) fn tell_epoch(storage: &dyn Storage, epoch: u64) {
    let holder = format!("process {} since {}{EPOCH}{epoch}", process::id(), now());
    let _ = storage.tell(format::LOCK, &holder);
}

const EPOCH: &str = ", appending in epoch ";

/// Who has the log open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    Nobody,
    /// A process that has not said yet that it appends: it reads the log, as a
    /// start does, or it is of an older release.
    Starts,
    /// A process that appends, in this epoch.
    Appends(u64),
}

/// Who has the log open, as far as can be said without keeping anybody out.
pub(crate) fn holder(storage: &dyn Storage) -> Result<Holder, Error> {
    let locked = storage
        .lock_shared(format::LOCK)
        .map_err(Error::io("lock", storage.describe(format::LOCK)))?;
    Ok(match locked {
        Locked::Taken(_) => Holder::Nobody,
        Locked::Busy { holder } => {
            let epoch = holder.rsplit_once(EPOCH).map(|(_, epoch)| epoch.parse());
            match epoch {
                Some(Ok(epoch)) => Holder::Appends(epoch),
                _ => Holder::Starts,
            }
        }
    })
}

fn expect_free(storage: &dyn Storage, locked: Locked) -> Result<Lock, Error> {
    match locked {
        Locked::Taken(lock) => Ok(lock),
        Locked::Busy { holder } => Err(Error::Held {
            file: storage.describe(format::LOCK),
            holder,
        }),
    }
}

/// The time now, as `2026-01-31T23:59:59Z`.
fn now() -> String {
    let seconds = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    date_time(seconds)
}

/// Seconds since 1970 as a date and a time in UTC, by the proleptic Gregorian calendar.
fn date_time(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Years begin in March here, so that the leap day is the last of its year.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z",
        rest / 3600,
        rest / 60 % 60,
        rest % 60
    )
}

#[cfg(test)]
mod tests {
    use super::date_time;

    #[test]
    fn seconds_become_dates() {
        assert_eq!(date_time(0), "1970-01-01T00:00:00Z");
        assert_eq!(date_time(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(date_time(1_767_225_599), "2025-12-31T23:59:59Z");
        assert_eq!(date_time(1_709_251_200), "2024-03-01T00:00:00Z");
    }
}
