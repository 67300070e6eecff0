//! The steps of a resource's actor for one command: decide, write, publish.

use std::iter::repeat;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::oneshot;

use super::awaiting_receivers::{self, AwaitingReceivers};
use super::commit::{NotCommitted, Waking};
use super::read_set::ReadSet;
use crate::base::codec::Blob;
use crate::base::codec::TooLarge;
use crate::base::digest::Digest;
use crate::base::json::FaultCode;
use crate::base::time::Timestamp;
use crate::domain::change::Change;
use crate::domain::erased::{AnyDecision, Decided};
use crate::domain::index::IndexKey;
use crate::domain::rejection::Rejection;
use crate::domain::resource::{ReadView, Source as _};
use crate::engine::clock::Lead;
use crate::engine::core::{ActorMessage, ActorResult, CachedState, Mode, Shared};
use crate::engine::lanes::directory::{Directory, Work};
use crate::engine::limits::repeats::Repeats;
use crate::engine::recent::Stored;
use crate::journal::record::{NewChange, NewRecord, RecordActor, RecordKey, RecordOutcome, SCHEMA};
use crate::journal::tables::PreparedChange;

/// The result of one attempt at a command.
pub(super) enum Attempted {
    Final(ActorResult),
    /// The read set has changed: the attempt is repeated.
    Again,
    /// Others have committed at later times since the attempt began, at the given time: the attempt is repeated.
    Overtaken(Timestamp),
    /// The decision needs a record that can be read once this position is durable: the attempt is repeated then.
    AgainOnceDurable(u64),
    /// The command concerns another resource by now.
    Moved,
}

/// A decision that has read this many resources through secondary keys, or written a record of `MUCH_WRITTEN` bytes,
/// has displaced most else from the processor's caches.
const MUCH_READ: usize = 1_000;
const MUCH_WRITTEN: usize = 64 << 10;

// Boxed, since the message is passed on several times.
impl Work for Box<ActorMessage> {
    type Kept = CachedState;
    type Home = Shared;

    fn target(&self) -> Option<Digest> {
        self.target
    }

    fn home(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }

    fn directory(home: &Shared) -> &Directory<Self> {
        &home.directory
    }

    fn run(self, cached: &mut CachedState) -> impl Future<Output = ()> + Send {
        ActorMessage::run(self, cached)
    }
}

impl ActorMessage {
    /// Decides the command and, when it commits, writes and publishes it.
    pub(crate) async fn run(self: Box<Self>, cached: &mut CachedState) {
        let mut repeats = Repeats::default();
        let mut lead = Lead::default();
        let result = loop {
            // A panic in here ends this command only: before its record has a position in the log, nothing was done.
            // From there until the commit is published, a panic aborts the process.
            let attempt = catch_unwind(AssertUnwindSafe(|| self.attempt(cached, lead)));
            let awaited = match attempt {
                Ok(Attempted::Final(result)) => break Some(result),
                Ok(Attempted::Moved) => break None,
                Ok(Attempted::Again) => None,
                Ok(Attempted::Overtaken(began)) => {
                    lead = Lead::after(began, self.shared.clock.now());
                    None
                }
                Ok(Attempted::AgainOnceDurable(position)) => Some(position),
                Err(_) => {
                    // The decoded state may be half changed, so the next command decodes it anew.
                    *cached = CachedState::default();
                    break Some(ActorResult::Fault);
                }
            };
            // The decoded state may be what has changed, so the next attempt decodes it anew.
            *cached = CachedState::default();
            let goes_on = match awaited {
                None => repeats.rest().await.is_ok(),
                Some(position) => {
                    let is_durable = self.shared.lanes.wait(position).await.is_ok();
                    repeats.waited();
                    is_durable
                }
            };
            if !goes_on {
                break Some(ActorResult::Unavailable);
            }
        };
        if result.is_none() {
            *cached = CachedState::default();
        }
        let Self {
            mut pending,
            index_locks,
            reply,
            shared,
            ..
        } = *self;
        // From here on the tables contain the unique keys and the idempotency key.
        drop(index_locks);
        let answer = match result {
            // The idempotency key stays locked, since its response is not final yet.
            Some(ActorResult::Committed {
                position,
                stored,
                awaited,
            }) if !awaited.is_empty() => {
                let (answer, receiver) = oneshot::channel();
                let waiting = AwaitingReceivers {
                    pending,
                    position,
                    stored,
                    messages: awaited,
                    answer,
                };
                awaiting_receivers::start(shared, waiting);
                (ActorResult::AwaitingReceivers(receiver), None)
            }
            Some(result) => {
                pending.key_lock = None;
                (result, pending.permit.take())
            }
            None => (ActorResult::Moved(Box::new(pending)), None),
        };
        // A client that has disconnected can send the command again.
        let _ = reply.send(answer);
    }

    fn attempt(&self, cached: &mut CachedState, lead: Lead) -> Attempted {
        let shared = &*self.shared;
        let durable_before = shared.journal.durable();
        let now = shared.clock.now();
        let at = shared.commit_times.at(lead.before(now));
        let ids = shared.ids_for(&self.pending, now);
        let context = shared.context(&self.pending, now, at, &ids);
        let command = &self.pending.request.command;
        if let Err(refused) = shared.read_lifecycle(self.pending.may_act, &context.view) {
            let (rejection, position) = *refused;
            return Attempted::Final(ActorResult::Refused {
                rejection,
                position,
            });
        }
        if self.looked_up && command.target(&context) != self.target {
            return Attempted::Moved;
        }
        if cached.state.is_some()
            && let Some(target) = self.target
        {
            context.view.note(target, cached.position);
        }
        let outcome = command.decide(self.target, &mut cached.state, &context);
        if let (Some(target), 0) = (self.target, cached.position) {
            cached.position = context.view.position(target);
        }
        let mut read_set = Shared::read_set(durable_before, &context.view);
        match outcome {
            Ok(AnyDecision::Commit(decided)) => {
                let locked = (self.target, &*self.unique_keys);
                let holder = |name| shared.tables.holder(name);
                if !are_unique_keys_free(holder, locked, &decided.changes, &context.view) {
                    return Attempted::Again;
                }
                read_set.add_changed(&decided.changes, &context.view);
                match self.record(at, &decided, &context.view) {
                    Ok(_) if self.pending.mode == Mode::DryRun => {
                        let body = decided.answer;
                        self.if_unchanged(&read_set, |position| ActorResult::Answered {
                            body,
                            position,
                        })
                    }
                    Ok(record) => self.commit(cached, &read_set, (now, at), record, *decided),
                    Err(TooLarge { bytes }) => {
                        self.if_unchanged(&read_set, |position| Self::too_large(bytes, position))
                    }
                }
            }
            Ok(AnyDecision::ReplayOf(first_key)) => {
                self.second_key(&read_set, (now, at), &first_key)
            }
            Ok(AnyDecision::Answer(body)) => self.if_unchanged(&read_set, |position| {
                ActorResult::Answered { body, position }
            }),
            Err(rejection) => self.if_unchanged(&read_set, |position| ActorResult::Refused {
                rejection,
                position,
            }),
        }
    }

    /// Returns this result if nothing that was read has changed; otherwise the command is tried again.
    pub(super) fn if_unchanged(
        &self,
        read_set: &ReadSet,
        result: impl FnOnce(u64) -> ActorResult,
    ) -> Attempted {
        let position = self.shared.position_of(read_set);
        if !self.shared.is_valid_at_one_instant(read_set) {
            return Attempted::Again;
        }
        Attempted::Final(result(position))
    }

    /// Encodes the record of the commit. Each change names the position of its predecessor as the decision has read
    /// it; validation under the log's sequencer ensures that it is still the predecessor.
    ///
    /// # Errors
    /// When the log does not accept a record of that size.
    fn record(
        &self,
        at: Timestamp,
        decided: &Decided,
        view: &ReadView<'_>,
    ) -> Result<Vec<u8>, TooLarge> {
        let bases = self.bases(decided, view);
        let record = NewRecord {
            schema: SCHEMA,
            at,
            operation: self.pending.operation,
            subject: &self.pending.scope,
            actor: self.pending.may_act.map(|_| RecordActor {
                kind: self.pending.request.actor.kind,
                profile_id: self.pending.request.actor.profile_id(),
            }),
            key: self.pending.key_digest.map(|_| RecordKey {
                key: &*self.pending.key,
                fingerprint: self.pending.fingerprint,
            }),
            changes: decided
                .changes
                .iter()
                .zip(bases.iter().map(Option::as_deref).chain(repeat(None)))
                .map(|(change, base)| NewChange {
                    kind: change.kind,
                    version: change.version,
                    key: change.key,
                    before: view.position(change.key),
                    revision: change.revision,
                    advances: change.advances,
                    path: &change.path,
                    event: Blob(change.event.as_slice()),
                    base: base.map(Blob),
                })
                .collect(),
            outbox: &decided.outbox,
            outcome: match self.pending.key_digest {
                Some(_) => RecordOutcome::Answer {
                    accepted: decided.disposition.is_accepted(),
                    body: Blob(decided.answer.as_slice()),
                },
                None => RecordOutcome::None,
            },
        };
        let most = self.shared.limits.record_bytes_max;
        record.encode_within(most).or_else(|too_large| {
            if bases.iter().all(Option::is_none) {
                return Err(too_large);
            }
            // Bases only serve reads of past states: a record that is too large goes without them.
            let mut record = record;
            for change in &mut record.changes {
                change.base = None;
            }
            record.encode_within(most)
        })
    }

    /// Rejects a command whose record would have `bytes` bytes. The request itself is too large, so sending it again
    /// would change nothing.
    fn too_large(bytes: usize, position: u64) -> ActorResult {
        tracing::warn!(bytes, "a command is rejected: its record is too large");
        ActorResult::Refused {
            rejection: Rejection::invalid_at("", FaultCode::TooLong),
            position,
        }
    }

    /// Appends the commit to the log and makes it visible, both in one step. The decision began at `began`; the
    /// commit is recorded at `at`.
    fn commit(
        &self,
        cached: &mut CachedState,
        read_set: &ReadSet,
        (began, at): (Timestamp, Timestamp),
        mut record: Vec<u8>,
        decided: Decided,
    ) -> Attempted {
        let shared = &*self.shared;
        if !shared.has_room() {
            return Attempted::Final(ActorResult::Unavailable);
        }
        let awaited = awaiting_receivers::awaited(self.pending.request.row, &decided);
        let Decided {
            mut changes,
            outbox,
            answer,
            disposition,
            next,
        } = decided;
        let stored = Stored {
            fingerprint: self.pending.fingerprint,
            body: Bytes::from(answer),
            disposition,
        };
        let messages = shared.born(&outbox, at, &mut changes);
        let Some(mut changes) = self.prepare_changes(changes, read_set, record.len()) else {
            return Attempted::Again;
        };
        let key = self.pending.key_digest;
        let response = &stored;
        let committed: Result<u64, NotCommitted> = shared.append_and_publish(
            Waking::ByLane,
            || {
                let at = shared.validate(read_set, at)?;
                if let Some(key) = key {
                    shared.validate_key(key, None)?;
                }
                Ok(at)
            },
            |sequence, _| sequence.push_taking(&mut record),
            move |position| {
                shared.tables.publish_commit(position, &mut changes, key);
                move || {
                    shared.tables.finish_lists(&changes);
                    shared.touch(position, &messages, &*next);
                    cached.state = Some(next);
                    cached.position = position;
                    if key.is_some() {
                        shared.recent.keep(position, response);
                    }
                }
            },
        );
        match committed {
            Ok(position) => Attempted::Final(ActorResult::Committed {
                position,
                stored,
                awaited,
            }),
            Err(why) => self.not_committed(why, read_set, began),
        }
    }

    /// Returns what follows for the attempt, which began at `began`, when its decision was not committed.
    pub(super) fn not_committed(
        &self,
        why: NotCommitted,
        read_set: &ReadSet,
        began: Timestamp,
    ) -> Attempted {
        match why {
            NotCommitted::Changed => Attempted::Again,
            NotCommitted::Overtaken => Attempted::Overtaken(began),
            NotCommitted::KeyChanged => Attempted::Final(ActorResult::Fault),
            NotCommitted::Refused(wal::Refused::TooLarge { bytes }) => {
                self.if_unchanged(read_set, |position| Self::too_large(bytes, position))
            }
            NotCommitted::Refused(error) => {
                tracing::error!(%error, "the log has not accepted a record");
                Attempted::Final(ActorResult::Unavailable)
            }
        }
    }

    /// Prepares the changes for the critical section: does the work that grows with the size of a state, and
    /// allocates the memory that the commit needs. Returns `None` when the read set has changed.
    fn prepare_changes(
        &self,
        changes: Vec<Change>,
        read_set: &ReadSet,
        record_bytes: usize,
    ) -> Option<Vec<PreparedChange>> {
        let mut changes = PreparedChange::all(changes);
        // A large read set, or one displaced by a large record, is not in the caches: this first validation loads it,
        // before the critical section repeats it.
        let is_much = read_set.in_secondary >= MUCH_READ || record_bytes >= MUCH_WRITTEN;
        if is_much && !self.shared.is_valid(read_set) {
            return None;
        }
        let tables = &self.shared.tables;
        tables.reserve(&mut changes, self.pending.key_digest);
        Some(changes)
    }
}

/// Whether the unique keys that a decision on the resource `target` takes are free. A key was either locked for the
/// command, or looked up by the decision itself, since its parts changed after the locking. Another commit may have
/// taken it since: one that has only looked it up takes a locked key, too.
fn are_unique_keys_free(
    holder: impl Fn(IndexKey) -> Option<Digest>,
    (target, locked): (Option<Digest>, &[IndexKey]),
    changes: &[Change],
    view: &ReadView<'_>,
) -> bool {
    for change in changes {
        for name in &change.unique_taken {
            let is_locked = locked.contains(name);
            let was_free = || view.unique_seen().contains(&(*name, None));
            if holder(*name).is_some() {
                assert!(
                    is_locked || was_free(),
                    "a unique key that is taken was free"
                );
                return false;
            }
            assert!(
                Some(change.key) != target || is_locked || was_free(),
                "a unique key that is taken was locked or looked up"
            );
        }
    }
    true
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::atomic::{AtomicI64, Ordering};
    use std::time::Duration;

    use super::*;
    use crate::cli::runtime::on_lane;
    use crate::engine::clock::Clock;
    use crate::engine::core::Sequenced;
    use crate::engine::sample::{engine_at, put_fact};
    use crate::journal::tables::Tables;
    use crate::journal::tables::tests::change;

    /// A clock that advances by `STEP_MS` at each reading.
    struct Going(AtomicI64);
    const STEP_MS: i64 = 50;

    impl Clock for Going {
        fn now(&self) -> Timestamp {
            Timestamp::from_millis(self.0.fetch_add(STEP_MS, Ordering::SeqCst))
        }

        fn steady(&self) -> Duration {
            Duration::from_millis(self.0.load(Ordering::SeqCst).unsigned_abs())
        }
    }

    #[test]
    fn a_long_decision_is_committed_however_fast_others_commit() {
        let clock = Arc::new(Going(AtomicI64::new(1_800_000_000_000)));
        let engine = engine_at(Arc::clone(&clock) as _);
        let shared = Arc::downgrade(&engine.shared);
        let attempts = Arc::new(AtomicI64::new(0));
        let counted = Arc::clone(&attempts);
        engine.on_sequenced(Box::new(move |sequenced| {
            if let Sequenced::Taken = sequenced {
                counted.fetch_add(1, Ordering::SeqCst);
                // Another command has just committed.
                let now = clock.0.load(Ordering::SeqCst);
                let shared = shared.upgrade().unwrap();
                shared.commit_times.advance_to(Timestamp::from_millis(now));
            }
        }));
        on_lane(&engine, put_fact(&engine, 1)).unwrap();
        assert_eq!(attempts.load(Ordering::SeqCst), 2);
        engine.shut_down().unwrap();
    }

    #[test]
    fn a_unique_key_taken_since_its_lock_or_lookup_is_a_race_and_no_bug() {
        let tables = Tables::default();
        let name = IndexKey(Digest([7; 16]));
        let changes = [Change {
            unique_taken: vec![name],
            ..change(1, b"state")
        }];
        let own = Some(changes[0].key);
        let view = ReadView::new(&tables);
        assert_eq!(view.holder(name), None);
        let other = Digest([2; 16]);
        let are_free = |holder: Option<Digest>, locked: &[IndexKey]| {
            are_unique_keys_free(|_| holder, (own, locked), &changes, &view)
        };
        assert!(are_free(None, &[]) && are_free(None, &[name]));
        assert!(!are_free(Some(other), &[]));
        // A command whose key was another one when it locked it takes it without a lock.
        assert!(!are_free(Some(other), &[name]));
        // What was neither locked nor looked up cannot be known to have been free.
        let blind = ReadView::new(&tables);
        let taken = || are_unique_keys_free(|_| Some(other), (own, &[]), &changes, &blind);
        assert!(catch_unwind(AssertUnwindSafe(taken)).is_err());
        // It is known of a locked key that nobody looked up: the engine has, before the decision.
        let locked = are_unique_keys_free(|_| Some(other), (own, &[name]), &changes, &blind);
        assert!(!locked);
    }
}
