//! The commit protocol: what every commit does from the moment at which it holds the log's sequencer.
//!
//! ```text
//! sequencer ─▶ validate ─▶ append ─▶ commit time ─▶ publish ─▶ release the sequencer ─▶ complete
//!                          └──────────── a panic in here aborts the process ────────────────────┘
//! ```

use wal::{Refused, Sequence};

use super::read_set::ReadSet;
use crate::base::digest::KeyDigest;
use crate::base::time::Timestamp;
use crate::engine::core::{Sequenced, Shared};

/// Reason why a decision was not committed. The log has no record of it.
pub(super) enum NotCommitted {
    /// Something that the decision has read was changed by another commit.
    Changed,
    /// Another commit has a later time.
    Overtaken,
    /// The idempotency key has changed while it was locked.
    KeyChanged,
    /// The log has not accepted the record.
    Refused(Refused),
}

impl From<Refused> for NotCommitted {
    fn from(refused: Refused) -> Self {
        Self::Refused(refused)
    }
}

/// Who wakes the log's thread after a commit.
#[derive(Clone, Copy)]
pub(in crate::engine) enum Waking {
    /// The lane of this thread, once all its ready tasks have had their turn; the commit, on a thread that is no lane.
    ByLane,
    /// The commit.
    AtOnce,
    /// The caller, once for several commits.
    ByCaller,
}

/// Aborts the process when it is dropped, which only a panic causes: one between the moment at which a record gets
/// its position in the log and the publication of all its changes.
struct AbortUnlessPublished;

impl Drop for AbortUnlessPublished {
    fn drop(&mut self) {
        tracing::error!("a commit was not published as a whole: the process ends");
        std::process::abort();
    }
}

impl Shared {
    /// Appends a record to the log and makes its changes visible, both in one step; returns its position.
    ///
    /// `validate` and `append` are called while the sequencer is held: the first returns the time to commit at, or
    /// the reason not to. `publish` makes the changes visible at the given position, and returns what completes the
    /// commit once the sequencer is released.
    ///
    /// # Errors
    /// The error of `validate`, or the log's refusal of the record. Nothing was done then.
    #[inline]
    pub(in crate::engine) fn append_and_publish<E: From<Refused>, C: FnOnce()>(
        &self,
        waking: Waking,
        validate: impl FnOnce() -> Result<Timestamp, E>,
        append: impl FnOnce(&mut Sequence<'_>, Timestamp) -> Result<u64, Refused>,
        publish: impl FnOnce(u64) -> C,
    ) -> Result<u64, E> {
        let mut sequence = self.journal.sequence();
        self.report_sequenced(Sequenced::Taken);
        let at = validate()?;
        let position = append(&mut sequence, at)?;
        // From here on the log has the commit: if the rest of it cannot be published, the process must end.
        let abort_guard = AbortUnlessPublished;
        self.commit_times.advance_to(at);
        let complete = publish(position);
        let given_back = || self.report_sequenced(Sequenced::GivenBack);
        match waking {
            Waking::ByLane => self.lanes.end(sequence, given_back),
            Waking::AtOnce => {
                drop(sequence);
                given_back();
            }
            Waking::ByCaller => {
                sequence.end_quietly();
                given_back();
            }
        }
        complete();
        std::mem::forget(abort_guard);
        Ok(position)
    }

    /// Checks, under the sequencer, whether a decision on this read set may be committed at `at`; returns `at`.
    ///
    /// # Errors
    /// [`NotCommitted::Changed`] or [`NotCommitted::Overtaken`].
    #[inline]
    pub(super) fn validate(
        &self,
        read_set: &ReadSet,
        at: Timestamp,
    ) -> Result<Timestamp, NotCommitted> {
        if !self.is_valid(read_set) {
            return Err(NotCommitted::Changed);
        }
        if !self.commit_times.can_be_next(at) {
            return Err(NotCommitted::Overtaken);
        }
        Ok(at)
    }

    /// Checks, under the sequencer, that the last use of a key that the command has locked is still the one at
    /// `position`; `None` for a key that was not used.
    ///
    /// # Errors
    /// [`NotCommitted::KeyChanged`].
    #[inline]
    pub(super) fn validate_key(
        &self,
        key: KeyDigest,
        position: Option<u64>,
    ) -> Result<(), NotCommitted> {
        if self.tables.key(key) == position {
            return Ok(());
        }
        tracing::error!("an idempotency key has changed while it was locked");
        Err(NotCommitted::KeyChanged)
    }
}
