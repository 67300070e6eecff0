//! What a resource's actor does with one command: decide, write, publish, take the next.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::oneshot;

use super::core::{ActorMessage, ActorResult, CachedState, Sequenced, Shared, Stored};
use super::deliveries::{self, Created};
use super::directory::{Directory, Work};
use super::read_set::ReadSet;
use super::repeats::Repeats;
use crate::base::codec::Blob;
use crate::base::codec::TooLarge;
use crate::base::digest::Digest;
use crate::base::json::FaultCode;
use crate::base::time::Instant;
use crate::domain::branch::deliveries::BranchDeliveries;
use crate::domain::operation::{AnyDecision, Change, Decided, Disposition};
use crate::domain::rejection::{Class, Rejection};
use crate::domain::resource::{ReadView, Resource as _, Source as _};
use crate::journal::record::{
    NewChange, NewRecord, Record, RecordKey, RecordOutcome, SCHEMA, key_digest,
};
use crate::journal::tables::Ready;

/// What one attempt at a command came to.
enum Attempted {
    Final(ActorResult),
    /// What it had read has changed: once more.
    Again,
    /// It concerns another resource by now.
    Moved,
}

/// So many resources that a decision has read in lists, or so many bytes of its record, have left
/// little else in the processor's caches.
const MUCH_READ: usize = 1_000;
const MUCH_WRITTEN: usize = 64 << 10;

// In a box, since it is handed on from hand to hand.
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

    fn run(self, slot: &mut CachedState) -> impl Future<Output = ()> + Send {
        ActorMessage::run(self, slot)
    }
}

impl ActorMessage {
    /// Decides the command and, when it commits, writes and publishes it.
    pub(crate) async fn run(self: Box<Self>, slot: &mut CachedState) {
        let mut repeats = Repeats::default();
        let verdict = loop {
            // A panic in here is this command's fault and nobody else's: before its record has a
            // place in the log nothing was done, and from there on until all of it is published
            // the process would end.
            let attempt = catch_unwind(AssertUnwindSafe(|| self.attempt(slot)));
            match attempt {
                Ok(Attempted::Final(verdict)) => break Some(verdict),
                Ok(Attempted::Moved) => break None,
                Ok(Attempted::Again) => {}
                Err(_) => {
                    // The state at hand may be half changed: the next command reads it anew.
                    *slot = CachedState::default();
                    break Some(ActorResult::Fault);
                }
            }
            // The state at hand may be what has changed: it is read anew.
            *slot = CachedState::default();
            if repeats.rest().await.is_err() {
                break Some(ActorResult::Unavailable);
            }
        };
        if verdict.is_none() {
            *slot = CachedState::default();
        }
        let Self {
            mut order,
            index_locks,
            reply,
            shared,
            ..
        } = *self;
        // From here on the names and the key are what the tables say.
        drop(index_locks);
        let answer = match verdict {
            // The key is held on: its answer is not settled yet.
            Some(ActorResult::Committed {
                position,
                stored,
                to_deliver: Some(deliveries),
            }) => {
                let (answer, receiver) = oneshot::channel();
                let created = Created {
                    deliveries,
                    order,
                    position,
                    stored,
                    answer,
                };
                deliveries::tell(shared, created);
                (ActorResult::Delivering(receiver), None)
            }
            Some(verdict) => {
                order.key_lock = None;
                (verdict, order.permit.take())
            }
            None => (ActorResult::Moved(Box::new(order)), None),
        };
        // Whoever asked and left still has the commit under its key.
        let _ = reply.send(answer);
    }

    fn attempt(&self, slot: &mut CachedState) -> Attempted {
        let shared = &*self.shared;
        let durable_before = shared.journal.durable();
        let now = shared.clock.now();
        let at = shared.commit_times.at(now);
        let ids = shared.ids.at(now);
        let context = shared.context(&self.order, now, at, &ids);
        let command = &self.order.call.command;
        if let Err(refused) = shared.read_lifecycle(self.order.may_act, &context.view) {
            let (rejection, position) = *refused;
            return Attempted::Final(ActorResult::Refused {
                rejection,
                position,
            });
        }
        if self.looked_up && command.target(&context) != self.target {
            return Attempted::Moved;
        }
        if slot.state.is_some()
            && let Some(target) = self.target
        {
            context.view.note(target, slot.position);
        }
        let outcome = command.decide(self.target, &mut slot.state, &context);
        if let (Some(target), 0) = (self.target, slot.position) {
            slot.position = context.view.position(target);
        }
        let mut read_set = Shared::read_set(durable_before, &context.view);
        match outcome {
            Ok(AnyDecision::Commit(decided)) => {
                self.check_unique_keys(&decided, &context.view);
                read_set.also_of(&decided.changes, &context.view);
                match self.record(at, &decided, &context.view) {
                    Ok(record) => self.commit(slot, &read_set, at, record, *decided),
                    Err(TooLarge { bytes }) => {
                        self.unless_changed(&read_set, |position| Self::too_large(bytes, position))
                    }
                }
            }
            Ok(AnyDecision::ReplayOf(first_key)) => self.second_key(&read_set, at, &first_key),
            Ok(AnyDecision::Answer(body)) => self.unless_changed(&read_set, |position| {
                ActorResult::Answered { body, position }
            }),
            Err(rejection) => self.unless_changed(&read_set, |position| ActorResult::Refused {
                rejection,
                position,
            }),
        }
    }

    /// A decision takes only names that nobody has, and that were held for it; or that it has
    /// looked up itself, when what the names are made of was changed after they were held: then
    /// its commit stands only while they are free.
    fn check_unique_keys(&self, decided: &Decided, view: &ReadView<'_>) {
        let looked_up = view.unique_seen();
        for change in &decided.changes {
            for name in &change.unique_taken {
                let holder = self.shared.tables.holder(*name);
                assert!(holder.is_none(), "a name that is taken was free");
                let own = Some(change.key) == self.target;
                assert!(
                    !own || self.names.contains(name) || looked_up.contains(&(*name, None)),
                    "a name that is taken was held or looked up"
                );
            }
        }
    }

    fn unless_changed(
        &self,
        read_set: &ReadSet,
        verdict: impl FnOnce(u64) -> ActorResult,
    ) -> Attempted {
        let position = self.shared.rests_on(read_set);
        if !self.shared.stood(read_set) {
            return Attempted::Again;
        }
        Attempted::Final(verdict(position))
    }

    /// The record of the commit. Each change holds where the one before it is: as the decision
    /// has read it, which the commit's read set makes sure of under the log's sequencer.
    ///
    /// # Errors
    /// When the log's medium takes none of that size.
    fn record(
        &self,
        at: Instant,
        decided: &Decided,
        view: &ReadView<'_>,
    ) -> Result<Vec<u8>, TooLarge> {
        let record = NewRecord {
            schema: SCHEMA,
            at,
            operation: self.order.call.row.map_or(0, |row| row.tag),
            subject: &self.order.scope,
            key: self.order.key_digest.map(|_| RecordKey {
                key: &*self.order.key,
                fingerprint: self.order.fingerprint,
            }),
            changes: decided
                .changes
                .iter()
                .map(|change| NewChange {
                    kind: change.kind,
                    version: change.version,
                    key: change.key,
                    before: view.position(change.key),
                    event: Blob(change.event.as_slice()),
                })
                .collect(),
            outbox: &decided.outbox,
            outcome: match (self.order.key_digest, self.order.instead_of) {
                (Some(_), None) => RecordOutcome::Answer {
                    accepted: decided.disposition.is_accepted(),
                    body: Blob(decided.answer.as_slice()),
                },
                (Some(_), Some(of)) => RecordOutcome::Instead {
                    of,
                    accepted: decided.disposition.is_accepted(),
                    body: Blob(decided.answer.as_slice()),
                },
                (None, _) => RecordOutcome::None,
            },
        };
        record.encode_within(self.shared.limits.record_bytes_max)
    }

    /// Refuses a command whose record would have so many bytes: it is the command that asks for so
    /// much, and sending it again would change nothing.
    fn too_large(bytes: usize, position: u64) -> ActorResult {
        tracing::warn!(bytes, "a command is refused: its record is too large");
        ActorResult::Refused {
            rejection: Rejection::invalid_at("", FaultCode::TooLong),
            position,
        }
    }

    /// The deliveries of the branch that the commit creates, when an external directory has to be
    /// told. What the relay completes is no such commit: it has no key, or an answer in the place of another.
    fn to_deliver(&self, decided: &Decided) -> Option<Digest> {
        let is_first = self.order.key_digest.is_some() && self.order.instead_of.is_none();
        if !is_first || decided.disposition == Disposition::Done {
            return None;
        }
        let mut changes = decided.changes.iter();
        let deliveries = changes.find(|change| change.kind == BranchDeliveries::KIND.tag)?;
        Some(deliveries.key)
    }

    /// Gives the commit its place in the log and makes it visible, both in one step.
    fn commit(
        &self,
        slot: &mut CachedState,
        read_set: &ReadSet,
        at: Instant,
        mut record: Vec<u8>,
        decided: Decided,
    ) -> Attempted {
        let shared = &*self.shared;
        if !shared.has_room() {
            return Attempted::Final(ActorResult::Unavailable);
        }
        let to_deliver = self.to_deliver(&decided);
        let Decided {
            changes,
            answer,
            disposition,
            next,
            ..
        } = decided;
        let stored = Stored {
            fingerprint: self.order.fingerprint,
            body: Bytes::from(answer),
            disposition,
        };
        let Some(mut changes) = self.made_ready(changes, read_set, record.len()) else {
            return Attempted::Again;
        };
        let mut sequence = shared.journal.sequence();
        shared.tell_sequenced(Sequenced::Taken);
        if !shared.stands(read_set) || !shared.commit_times.can_be_next(at) {
            return Attempted::Again;
        }
        if self
            .order
            .key_digest
            .is_some_and(|key| shared.tables.key(key) != self.order.instead_of)
        {
            tracing::error!("a key was taken while it was held");
            return Attempted::Final(ActorResult::Fault);
        }
        let position = match sequence.push_taking(&mut record) {
            Ok(position) => position,
            Err(wal::Refused::TooLarge { bytes }) => {
                drop(sequence);
                return self.unless_changed(read_set, |position| Self::too_large(bytes, position));
            }
            Err(error) => {
                tracing::error!(%error, "a record was not taken");
                return Attempted::Final(ActorResult::Unavailable);
            }
        };
        // From here on the commit is in the log's hands: half of it must not stay alive here.
        let whole = EndUnlessWhole;
        shared.commit_times.next_is(at);
        let published = shared.tables.begin();
        for change in &mut changes {
            shared.tables.publish_ready(position, change);
        }
        if let Some(key) = self.order.key_digest {
            shared.tables.take_key(key, position);
        }
        drop(published);
        let given_back = || shared.tell_sequenced(Sequenced::GivenBack);
        shared.lanes.end(sequence, given_back);
        slot.state = Some(next);
        slot.position = position;
        if self.order.key_digest.is_some() {
            shared.recent.insert(position, stored.clone());
        }
        std::mem::forget(whole);
        Attempted::Final(ActorResult::Committed {
            position,
            stored,
            to_deliver,
        })
    }

    /// What takes the longer the more there is of it is done before the log's sequencer is taken,
    /// and after it is given back: these are changes with all that is done before; `None` when what
    /// was read has changed.
    fn made_ready(
        &self,
        changes: Vec<Change>,
        read_set: &ReadSet,
        record_bytes: usize,
    ) -> Option<Vec<Ready>> {
        let changes: Vec<Ready> = changes.into_iter().map(Ready::new).collect();
        // What will be looked at while others wait is in no cache any more: once before.
        let is_much = read_set.in_lists >= MUCH_READ || record_bytes >= MUCH_WRITTEN;
        if is_much && !self.shared.stands(read_set) {
            return None;
        }
        let tables = &self.shared.tables;
        tables.reserve(&changes, self.order.key_digest);
        Some(changes)
    }

    /// Takes the present key for the answer that was given under `first_key`.
    fn second_key(&self, read_set: &ReadSet, at: Instant, first_key: &str) -> Attempted {
        let shared = &*self.shared;
        let tag = self.order.call.row.map_or(0, |row| row.tag);
        let first_digest = key_digest(tag, &self.order.scope, first_key);
        let (first, key) = match (shared.tables.key(first_digest), self.order.key_digest) {
            (Some(first), Some(key)) => (first, key),
            (None, Some(_)) if shared.tables.forgotten() > 0 => {
                return Attempted::Final(self.first_answer_forgotten());
            }
            _ => {
                tracing::error!("the first answer of a replay is not known");
                return Attempted::Final(ActorResult::Fault);
            }
        };
        match self.has_these_facts(first) {
            Ok(true) => {}
            Ok(false) => return Attempted::Final(self.first_answer_forgotten()),
            Err(error) => {
                tracing::error!(position = first, error, "a stored answer cannot be read");
                return Attempted::Final(ActorResult::Unavailable);
            }
        }
        if !shared.has_room() {
            return Attempted::Final(ActorResult::Unavailable);
        }
        let record = NewRecord {
            schema: SCHEMA,
            at,
            operation: tag,
            subject: &self.order.scope,
            key: Some(RecordKey {
                key: &*self.order.key,
                fingerprint: self.order.fingerprint,
            }),
            changes: Vec::new(),
            outbox: &[],
            outcome: RecordOutcome::SameAs(first),
        }
        .encode();
        shared.tables.reserve(&[], Some(key));
        let mut sequence = shared.journal.sequence();
        if !shared.stands(read_set)
            || !shared.commit_times.can_be_next(at)
            || shared.tables.key(first_digest) != Some(first)
        {
            return Attempted::Again;
        }
        let Ok(position) = sequence.push(record) else {
            return Attempted::Final(ActorResult::Unavailable);
        };
        let whole = EndUnlessWhole;
        shared.commit_times.next_is(at);
        shared.tables.take_key(key, position);
        shared.tables.note_first(first, position);
        shared.lanes.end(sequence, || ());
        std::mem::forget(whole);
        Attempted::Final(ActorResult::ReplayOf { first, position })
    }

    /// The command was carried out, and what it was answered is forgotten with its key.
    fn first_answer_forgotten(&self) -> ActorResult {
        ActorResult::Refused {
            rejection: Rejection::new(
                Class::Conflict,
                "first_answer_forgotten",
                "This was done before, under a key that is forgotten by now: read what stands.",
            ),
            position: self.shared.journal.appended(),
        }
    }

    /// Whether the commit at `first` was of a command with the present one's facts. Once keys are
    /// forgotten, the key of the first answer may have been taken by another command.
    fn has_these_facts(&self, first: u64) -> Result<bool, String> {
        let shared = &*self.shared;
        if shared.tables.forgotten() == 0 {
            return Ok(true);
        }
        if let Some(stored) = shared.recent.get(&first) {
            return Ok(stored.fingerprint == self.order.fingerprint);
        }
        let bytes = shared.journal.read(first);
        let bytes = bytes.map_err(|error| error.to_string())?;
        let bytes = bytes.ok_or("it is not in the log")?;
        let record = Record::decode(&bytes).map_err(|error| error.to_string())?;
        let key = record.key.ok_or("it has no key")?;
        Ok(key.fingerprint == self.order.fingerprint)
    }
}

/// Ends the process when it is dropped: by a panic between a record's place in the log and the
/// publishing of all that it changes.
struct EndUnlessWhole;

impl Drop for EndUnlessWhole {
    fn drop(&mut self) {
        tracing::error!("a commit was not published as a whole: the process ends");
        std::process::abort();
    }
}
