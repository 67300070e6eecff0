//! A standby: an engine that follows a writer's commits, and that may take the writer's place.
//!
//! ```text
//! committed records ──apply──▶ checked ──▶ the log, and at once the tables ──durable──▶ reads
//!                                          by the code that commits go through
//! ```
//!
//! One thread passes in the records that were committed elsewhere, in order. Each record is checked against the
//! tables before it is appended to the log. It gets its position and is published in one step, like a commit, so that
//! concurrent readers see it whole or not at all, and depend only on what is durable here. A standby decides nothing,
//! so no actor holds a state meanwhile, and sends nothing.

use std::sync::Arc;
use std::time::Duration;

use super::Engine;
use super::command::commit::Waking;
use super::core::Shared;
use super::role::Role;
pub use super::role::lag::Lag;
use crate::catalogue;
use crate::journal::apply::RecordToApply;
use crate::journal::replay_error::ReplayError;
use crate::journal::tables::PreparedChange;

/// How long to wait before the disk's room is checked again; `QUEUED` is the pause for records that wait for the
/// disk.
const NO_ROOM: Duration = Duration::from_millis(20);
const QUEUED: Duration = Duration::from_micros(200);

/// Reason why a record was not applied. The records before it were.
#[derive(Debug)]
pub enum NotApplied {
    /// The engine is no standby, or no longer.
    NotFollowing,
    /// The service ends, or its log has failed.
    Ended,
    /// Records are missing between the last applied one and this one.
    Gap {
        /// The next position to apply.
        expected: u64,
        /// The position that came.
        came: u64,
    },
    /// The record does not fit the records before it, or is of an unknown format: this engine's state differs from
    /// its writer's, or it is of another version.
    Unfit(ReplayError),
    /// The log does not accept a record of this size.
    TooLarge {
        /// Position of the record.
        position: u64,
        /// Size of the record, in bytes.
        bytes: usize,
    },
}

impl std::fmt::Display for NotApplied {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotFollowing => f.write_str("this engine does not follow another one"),
            Self::Ended => f.write_str("the service ends"),
            Self::Gap { expected, came } => {
                write!(f, "position {came} came, and {expected} is the next one")
            }
            Self::Unfit(error) => error.fmt(f),
            Self::TooLarge { position, bytes } => {
                write!(
                    f,
                    "position {position}: a record of {bytes} bytes is too large"
                )
            }
        }
    }
}

impl std::error::Error for NotApplied {}

impl Engine {
    /// Returns the present role of the engine.
    #[must_use]
    pub fn role(&self) -> Role {
        self.shared.role.get()
    }

    /// Whether the engine is a standby: then it takes no commands.
    #[must_use]
    pub fn is_standby(&self) -> bool {
        self.shared.role.is_standby()
    }

    /// Waits until the engine is the writer.
    pub async fn until_writer(&self) {
        self.shared.role.until_writer().await;
    }

    /// Returns the highest position in this engine's log, durable or not.
    #[must_use]
    pub fn appended(&self) -> u64 {
        self.shared.journal.appended()
    }

    /// Applies records that were committed elsewhere, the first of which is at `first`, to a standby. Records that it
    /// already has are skipped. Blocks while the disk is behind, and while it has no room; to be called by one
    /// dedicated thread.
    ///
    /// # Errors
    /// Returns the reason why a record was not applied; the engine can then follow no further.
    pub fn apply<'a>(
        &self,
        first: u64,
        records: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<(), NotApplied> {
        self.shared.apply(first, records)
    }

    /// Notes that the writer had committed everything up to `last` just now, as far as is known.
    pub fn heard(&self, last: u64) {
        let shared = &*self.shared;
        let now = Some(shared.clock.steady());
        let mut heard = shared.standby.heard.lock();
        if last > heard.last {
            (heard.last, heard.at) = (last, now);
        }
        if shared.journal.appended() >= heard.last {
            (heard.at, heard.complete) = (now, now);
        }
    }

    /// Sets the address at which clients reach the writer, if it is known.
    pub fn set_writer_address(&self, address: Option<&str>) {
        *self.shared.standby.writer.lock() = address.map(Arc::from);
    }

    /// Returns the address set by [`Engine::set_writer_address`].
    #[must_use]
    pub fn writer(&self) -> Option<Arc<str>> {
        self.shared.standby.writer.lock().clone()
    }

    /// Returns how far a standby is behind; `None` for a writer.
    #[must_use]
    pub fn lag(&self) -> Option<Lag> {
        self.shared.lag()
    }

    /// Whether the disk has room for more records; without it, nothing can be applied or committed.
    #[must_use]
    pub fn has_disk_room(&self) -> bool {
        self.shared.journal.has_room()
    }

    /// Waits until everything applied is durable here. Blocks.
    ///
    /// # Errors
    /// Returns [`NotApplied::Ended`].
    pub fn until_applied_is_durable(&self) -> Result<(), NotApplied> {
        self.shared.until_all_durable().map(drop)
    }

    /// Makes the engine the writer: everything applied is made durable, and from then on the engine takes commands,
    /// makes deliveries, and forgets old keys. No more records are applied. Blocks until then. To be called when all
    /// that was committed is applied, and no other process can commit.
    ///
    /// # Errors
    /// Returns an error when the engine is no standby, or the service ends.
    pub fn promote(&self) -> Result<(), NotApplied> {
        let shared = &*self.shared;
        let _alone = shared.standby.applying.lock();
        if !shared.role.is_standby() {
            return Err(NotApplied::NotFollowing);
        }
        let last = shared.until_all_durable()?;
        shared.warn_if_ahead();
        shared.role.write_after(shared.ids.last_outbox_number());
        tracing::info!(position = last, "this is the writer from here on");
        Ok(())
    }

    /// Makes the writer's responses depend on this proof. To be called once, before the first response.
    pub fn answer_by(&self, right: Arc<dyn super::role::writer_proof::WriterProof>) {
        self.shared.writer_proof.share(right);
    }

    /// Whether the response to a request that came at `came` may leave this process. A standby's response always may,
    /// since it only claims to show the state as of its position.
    pub async fn may_answer(&self, came: std::time::Instant) -> bool {
        self.is_standby() || self.shared.writer_proof.confirm(came).await
    }

    /// Records that this process is not the writer any more, or cannot know: no further response is sent, and nothing
    /// is accepted. The process must end.
    pub fn lose_writer_proof(&self, why: &str) {
        tracing::error!(why, "this is not the writer any more: nothing is answered");
        let shared = &*self.shared;
        shared.writer_proof.lose();
        shared
            .ended
            .store(true, std::sync::atomic::Ordering::Release);
        shared.lanes.fail();
        shared.feed.end();
        shared.awaited.end();
    }
}

impl Shared {
    /// Waits until everything that was appended is durable; returns the last position.
    fn until_all_durable(&self) -> Result<u64, NotApplied> {
        self.journal.wake();
        let last = self.journal.appended();
        while self.journal.durable() < last {
            self.unless_ending()?;
            std::thread::sleep(QUEUED);
        }
        self.unless_ending()?;
        Ok(last)
    }

    fn unless_ending(&self) -> Result<(), NotApplied> {
        match self.is_ending() {
            true => Err(NotApplied::Ended),
            false => Ok(()),
        }
    }

    /// Returns how far a standby is behind; `None` for a writer.
    pub(super) fn lag(&self) -> Option<Lag> {
        if !self.role.is_standby() {
            return None;
        }
        let heard = *self.standby.heard.lock();
        Some(Lag {
            positions: heard.last.saturating_sub(self.journal.appended()),
            time: self
                .clock
                .steady()
                .saturating_sub(heard.complete.unwrap_or(self.began)),
            was_complete: heard.complete.is_some(),
        })
    }

    fn apply<'a>(
        &self,
        first: u64,
        records: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<(), NotApplied> {
        let _alone = self.standby.applying.lock();
        // The engine may have been promoted before this call had the lock.
        if !self.role.is_standby() {
            return Err(NotApplied::NotFollowing);
        }
        let expected = self.journal.appended() + 1;
        if first > expected {
            return Err(NotApplied::Gap {
                expected,
                came: first,
            });
        }
        let mut records = (first..).zip(records);
        let applied = records.try_for_each(|(position, record)| match position < expected {
            true => Ok(()),
            false => self.apply_one(position, record),
        });
        self.journal.wake();
        let mut heard = self.standby.heard.lock();
        if self.journal.appended() >= heard.last {
            heard.complete = heard.at;
        }
        applied
    }

    fn apply_one(&self, position: u64, record: &[u8]) -> Result<(), NotApplied> {
        self.wait_for_room()?;
        let (tables, log_id) = (&self.tables, self.log_id);
        let followed = RecordToApply::of(tables, catalogue::resource, log_id, position, record);
        let followed = followed.map_err(NotApplied::Unfit)?;
        let mut changes = PreparedChange::all(followed.changes);
        tables.reserve(&mut changes, followed.key);
        let applied: Result<u64, wal::Refused> = self.append_and_publish(
            // `apply` wakes the log's thread once for all its records.
            Waking::ByCaller,
            // The writer has validated the commit, and nobody else commits here.
            || Ok(self.commit_times.at(followed.at)),
            |sequence, _| sequence.push(record),
            |placed| {
                assert_eq!(
                    placed, position,
                    "nobody else appends to a log that follows"
                );
                self.ids.note(followed.last_message);
                if let Some(through) = followed.forgets {
                    tables.forget(through);
                }
                tables.publish_commit(position, &mut changes, followed.key);
                if let Some(first) = followed.first {
                    tables.note_first(first, position);
                }
                move || tables.finish_lists(&changes)
            },
        );
        match applied {
            Ok(_) => Ok(()),
            Err(wal::Refused::TooLarge { bytes }) => Err(NotApplied::TooLarge { position, bytes }),
            Err(wal::Refused::Stopped(_)) => Err(NotApplied::Ended),
        }
    }

    /// Waits until the disk has room, and few enough bytes wait for it.
    fn wait_for_room(&self) -> Result<(), NotApplied> {
        while self.journal.queued_bytes() > self.limits.queued_bytes_max {
            self.journal.wake();
            self.unless_ending()?;
            std::thread::sleep(QUEUED);
        }
        while !self.journal.has_room() {
            self.unless_ending()?;
            std::thread::sleep(NO_ROOM);
        }
        self.unless_ending()
    }
}
