//! Rules between a record and its predecessors, checked in replay and on a standby.

use super::record::{Record, RecordChange, RecordOutcome};
use super::tables::POSITION_MAX;

/// Checks that the tables can store this position of a commit.
///
/// # Errors
/// When the position is too high: no service has come so far, so another program made the log.
pub(super) fn has_place(position: u64) -> Result<(), String> {
    match position <= POSITION_MAX {
        true => Ok(()),
        false => Err(format!("positions above {POSITION_MAX} have no place")),
    }
}

/// Returns the position up to which the record forgets idempotency keys, if it is such a record.
///
/// # Errors
/// When the record may not forget keys.
pub(super) fn forgets(position: u64, record: &Record<'_>) -> Result<Option<u64>, String> {
    let RecordOutcome::Forgotten { through } = record.outcome else {
        return Ok(None);
    };
    let is_control = record.key.is_none() && record.changes.is_empty() && record.outbox.is_empty();
    match through < position && is_control {
        true => Ok(Some(through)),
        false => Err("it cannot forget keys".to_owned()),
    }
}

/// Checks that the key of the record at `position` can lead to the response of the commit at `first`.
///
/// # Errors
/// When that commit comes later.
pub(super) fn leads_back(position: u64, first: u64) -> Result<(), String> {
    match first < position {
        true => Ok(()),
        false => Err(format!(
            "its response is that of the later position {first}"
        )),
    }
}

/// Checks that a record may use its key: `taken` is the commit that has used the key before, and `instead_of` the one
/// whose response the record replaces.
///
/// # Errors
/// The reason why it may not.
pub(super) fn may_take_key(instead_of: Option<u64>, taken: Option<u64>) -> Result<(), String> {
    match (taken, instead_of) {
        (taken, Some(of)) if taken != Some(of) => Err(format!(
            "its answer takes the place of the one at position {of}, which does not have its key"
        )),
        (_, Some(_)) | (None, None) => Ok(()),
        (Some(taken), None) => Err(format!("its key was used at position {taken}")),
    }
}

/// Checks that the change with this index is the first one of its resource in the record. A second one would be
/// skipped as already applied.
///
/// # Errors
/// When it is not the first one.
pub(super) fn changes_once(changes: &[RecordChange<'_>], number: usize) -> Result<(), String> {
    let (before, rest) = changes.split_at(number);
    let key = rest.first().map(|change| change.key);
    match before.iter().any(|other| Some(other.key) == key) {
        true => Err("it changes a resource twice".to_owned()),
        false => Ok(()),
    }
}
