//! A standby: an engine that follows what a writer commits, and that may take its place.
//!
//! ```text
//! committed records ──apply──▶ checked ──▶ the log, and at once the tables ──durable──▶ reads
//!                                          by the code that commits go through
//! ```
//!
//! One thread hands over what was committed elsewhere, in order. Each record is checked against the
//! tables before it is in the log; it has its place there and is published in one step, as a commit
//! has and is, so that readers beside it see it whole or not at all, and depend on nothing that is
//! not durable here. Nothing is decided, so no actor holds a state meanwhile, and nothing is sent.

use std::sync::Arc;
use std::time::Duration;

use super::Engine;
use super::abort_unless_published::AbortUnlessPublished;
use super::core::Shared;
use super::role::Role;
pub use super::role::lag::Lag;
use crate::catalogue;
use crate::journal::apply::RecordToApply;
use crate::journal::replay_error::ReplayError;
use crate::journal::tables::PreparedChange;

/// How long to wait before it is seen again whether there is room.
const NO_ROOM: Duration = Duration::from_millis(20);
const QUEUED: Duration = Duration::from_micros(200);

/// Why a record was not applied. What comes before it was.
#[derive(Debug)]
pub enum NotApplied {
    /// The engine is not one that follows, or no longer.
    NotFollowing,
    /// The service ends, or its log has failed.
    Ended,
    /// There are records between what was applied and this one.
    Gap {
        /// The position that comes next.
        expected: u64,
        /// The one that came.
        came: u64,
    },
    /// The record does not follow on those before it, or is not known here: this engine does not
    /// hold what its writer held, or is of another version.
    Unfit(ReplayError),
    /// The log does not take a record of so many bytes.
    TooLarge {
        /// Its position.
        position: u64,
        /// Its bytes.
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
    /// What the engine is for at present.
    #[must_use]
    pub fn role(&self) -> Role {
        self.shared.role.get()
    }

    /// Whether the engine follows another one: then it takes no commands.
    #[must_use]
    pub fn is_standby(&self) -> bool {
        self.shared.role.is_standby()
    }

    /// Waits until the engine is the writer.
    pub async fn until_writer(&self) {
        self.shared.role.until_writer().await;
    }

    /// The highest position that this engine has, durable or not.
    #[must_use]
    pub fn appended(&self) -> u64 {
        self.shared.journal.appended()
    }

    /// Applies records that were committed elsewhere, the first of which is at `first`, to an
    /// engine that follows. Those that it has already are passed over. Blocks while the disk is
    /// behind, and while it has no room; to be called by one thread of its own.
    ///
    /// # Errors
    /// Why one of them was not applied: then the engine can follow no further.
    pub fn apply<'a>(
        &self,
        first: u64,
        records: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<(), NotApplied> {
        self.shared.apply(first, records)
    }

    /// The writer had committed everything up to `last` just now, as far as is known.
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

    /// The address at which clients reach the writer, where it is known.
    pub fn writer_is_at(&self, address: Option<&str>) {
        *self.shared.standby.writer.lock() = address.map(Arc::from);
    }

    /// See [`Engine::writer_is_at`].
    #[must_use]
    pub fn writer(&self) -> Option<Arc<str>> {
        self.shared.standby.writer.lock().clone()
    }

    /// How far an engine that follows is behind; `None` when it does not.
    #[must_use]
    pub fn lag(&self) -> Option<Lag> {
        self.shared.lag()
    }

    /// Whether the disk has room for more: without it nothing can be applied, or committed.
    #[must_use]
    pub fn has_disk_room(&self) -> bool {
        self.shared.journal.has_room()
    }

    /// Waits until everything that was applied is durable here. Blocks.
    ///
    /// # Errors
    /// [`NotApplied::Ended`].
    pub fn until_applied_is_durable(&self) -> Result<(), NotApplied> {
        self.shared.until_all_durable().map(drop)
    }

    /// The engine becomes the writer: what was applied is made durable, and from then on it takes
    /// commands, sends what waits to be sent, and forgets what is old. Nothing is applied any more.
    /// Blocks until then. To be called when all that was committed is applied, and no other process
    /// can commit.
    ///
    /// # Errors
    /// When it is not one that follows, or the service ends.
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

    /// The writer's answers depend on this right from here on. To be called once, before it answers.
    pub fn answer_by(&self, right: Arc<dyn super::role::writer_proof::WriterProof>) {
        self.shared.writer_proof.share(right);
    }

    /// Whether the answer to a request that came at `came` may leave this process: a standby's
    /// always may, since it claims only the state as of its position.
    pub async fn may_answer(&self, came: std::time::Instant) -> bool {
        self.is_standby() || self.shared.writer_proof.confirm(came).await
    }

    /// This process is not the writer any more, or cannot know: no response leaves that has not
    /// left yet, and nothing is accepted. The process is to end.
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
    /// Waits until everything that was appended is durable; the last position.
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

    /// How far it is behind, if it follows.
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
        // It may have been promoted before this had the lock.
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
        let mut sequence = self.journal.sequence();
        match sequence.push(record) {
            Ok(placed) => assert_eq!(
                placed, position,
                "nobody else appends to a log that follows"
            ),
            Err(wal::Refused::TooLarge { bytes }) => {
                return Err(NotApplied::TooLarge { position, bytes });
            }
            Err(_) => return Err(NotApplied::Ended),
        }
        // From here on the log has the record: half of it must not stay alive here.
        let abort_guard = AbortUnlessPublished;
        self.commit_times.next_is(self.commit_times.at(followed.at));
        self.ids.note(followed.last_message);
        if let Some(through) = followed.forgets {
            tables.forget(through);
        }
        tables.publish_commit(position, &mut changes, followed.key);
        if let Some(first) = followed.first {
            tables.note_first(first, position);
        }
        sequence.end_quietly();
        tables.settle(&changes);
        std::mem::forget(abort_guard);
        Ok(())
    }

    /// Waits until the disk has room, and is not far behind.
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
