//! What a resource's actor does with one command: decide, write, publish, take the next.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::oneshot;

use super::core::{Job, Sequenced, Shared, Slot, Stored, Verdict};
use super::deliveries::{self, Created};
use super::directory::{Directory, Work};
use super::read_set::Basis;
use super::repeats::Repeats;
use crate::base::codec::Blob;
use crate::base::codec::TooLarge;
use crate::base::digest::Digest;
use crate::base::json::FaultCode;
use crate::base::time::Instant;
use crate::domain::branch::deliveries::BranchDeliveries;
use crate::domain::operation::{Decided, Disposition, Outcome};
use crate::domain::rejection::{Class, Rejection};
use crate::domain::resource::{Resource as _, Source as _, View};
use crate::journal::record::{
    NewChange, NewRecord, Record, RecordKey, RecordOutcome, SCHEMA, key_digest,
};
use crate::journal::tables::Ready;

/// What one attempt at a command came to.
enum Attempt {
    Final(Verdict),
    /// What it had read has changed: once more.
    Again,
    /// It concerns another resource by now.
    Moved,
}

// In a box, since it is handed on from hand to hand.
impl Work for Box<Job> {
    type Kept = Slot;
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

    fn run(self, slot: &mut Slot) -> impl Future<Output = ()> + Send {
        Job::run(self, slot)
    }
}

impl Job {
    /// Decides the command and, when it commits, writes and publishes it.
    pub(crate) async fn run(self: Box<Self>, slot: &mut Slot) {
        let mut repeats = Repeats::default();
        let verdict = loop {
            // A panic in here is this command's fault and nobody else's: before its record has a
            // place in the log nothing was done, and from there on until all of it is published
            // the process would end.
            let attempt = catch_unwind(AssertUnwindSafe(|| self.attempt(slot)));
            match attempt {
                Ok(Attempt::Final(verdict)) => break Some(verdict),
                Ok(Attempt::Moved) => break None,
                Ok(Attempt::Again) => {}
                Err(_) => {
                    // The state at hand may be half changed: the next command reads it anew.
                    *slot = Slot::default();
                    break Some(Verdict::Fault);
                }
            }
            // The state at hand may be what has changed: it is read anew.
            *slot = Slot::default();
            if repeats.rest().await.is_err() {
                break Some(Verdict::Unavailable);
            }
        };
        if verdict.is_none() {
            *slot = Slot::default();
        }
        let Self {
            mut order,
            name_claims,
            reply,
            shared,
            ..
        } = *self;
        // From here on the names and the key are what the tables say.
        drop(name_claims);
        let answer = match verdict {
            // The key is held on: its answer is not settled yet.
            Some(Verdict::Committed {
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
                (Verdict::Delivering(receiver), None)
            }
            Some(verdict) => {
                order.key_claim = None;
                (verdict, order.permit.take())
            }
            None => (Verdict::Moved(Box::new(order)), None),
        };
        // Whoever asked and left still has the commit under its key.
        let _ = reply.send(answer);
    }

    fn attempt(&self, slot: &mut Slot) -> Attempt {
        let shared = &*self.shared;
        let durable_before = shared.journal.durable();
        let now = shared.clock.now();
        let at = shared.commit_times.at(now);
        let mint = shared.mint.at(now);
        let context = shared.context(&self.order, now, at, &mint);
        let command = &self.order.call.command;
        if let Err(refused) = shared.read_lifecycle(self.order.may_act, &context.view) {
            let (rejection, position) = *refused;
            return Attempt::Final(Verdict::Refused {
                rejection,
                position,
            });
        }
        if self.looked_up && command.target(&context) != self.target {
            return Attempt::Moved;
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
        let mut basis = Shared::basis(durable_before, &context.view);
        match outcome {
            Ok(Outcome::Commit(decided)) => {
                self.check_names(&decided, &context.view);
                basis.also_of(&decided.changes, &context.view);
                match self.record(at, &decided, &context.view) {
                    Ok(record) => self.commit(slot, &basis, at, record, *decided),
                    Err(TooLarge { bytes }) => {
                        self.unless_changed(&basis, |position| Self::too_large(bytes, position))
                    }
                }
            }
            Ok(Outcome::ReplayOf(first_key)) => self.second_key(&basis, at, &first_key),
            Ok(Outcome::Answer(body)) => {
                self.unless_changed(&basis, |position| Verdict::Answered { body, position })
            }
            Err(rejection) => self.unless_changed(&basis, |position| Verdict::Refused {
                rejection,
                position,
            }),
        }
    }

    /// A decision takes only names that nobody has, and that were held for it; or that it has
    /// looked up itself, when what the names are made of was changed after they were held: then
    /// its commit stands only while they are free.
    fn check_names(&self, decided: &Decided, view: &View<'_>) {
        let looked_up = view.names_seen();
        for change in &decided.changes {
            for name in &change.names_taken {
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

    fn unless_changed(&self, basis: &Basis, verdict: impl FnOnce(u64) -> Verdict) -> Attempt {
        let position = self.shared.rests_on(basis);
        if !self.shared.stood(basis) {
            return Attempt::Again;
        }
        Attempt::Final(verdict(position))
    }

    /// The record of the commit. Each change holds where the one before it is: as the decision
    /// has read it, which the commit's read set makes sure of under the log's sequencer.
    ///
    /// # Errors
    /// When the log's medium takes none of that size.
    fn record(&self, at: Instant, decided: &Decided, view: &View<'_>) -> Result<Vec<u8>, TooLarge> {
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
    fn too_large(bytes: usize, position: u64) -> Verdict {
        tracing::warn!(bytes, "a command is refused: its record is too large");
        Verdict::Refused {
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
        slot: &mut Slot,
        basis: &Basis,
        at: Instant,
        record: Vec<u8>,
        decided: Decided,
    ) -> Attempt {
        let shared = &*self.shared;
        if !shared.has_room() {
            return Attempt::Final(Verdict::Unavailable);
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
        // What takes the longer the more there is of it is done before and after.
        let mut changes: Vec<Ready> = changes.into_iter().map(Ready::new).collect();
        let mut sequence = shared.journal.sequence();
        shared.tell_sequenced(Sequenced::Taken);
        if !shared.stands(basis) || !shared.commit_times.can_be_next(at) {
            return Attempt::Again;
        }
        if self
            .order
            .key_digest
            .is_some_and(|key| shared.tables.key(key) != self.order.instead_of)
        {
            tracing::error!("a key was taken while it was held");
            return Attempt::Final(Verdict::Fault);
        }
        let position = match sequence.push_owned(record) {
            Ok(position) => position,
            Err(wal::Refused::TooLarge { bytes }) => {
                drop(sequence);
                return self.unless_changed(basis, |position| Self::too_large(bytes, position));
            }
            Err(error) => {
                tracing::error!(%error, "a record was not taken");
                return Attempt::Final(Verdict::Unavailable);
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
        shared.lanes.end(sequence);
        shared.tell_sequenced(Sequenced::GivenBack);
        slot.state = Some(next);
        slot.position = position;
        if self.order.key_digest.is_some() {
            shared.recent.insert(position, stored.clone());
        }
        std::mem::forget(whole);
        Attempt::Final(Verdict::Committed {
            position,
            stored,
            to_deliver,
        })
    }

    /// Takes the present key for the answer that was given under `first_key`.
    fn second_key(&self, basis: &Basis, at: Instant, first_key: &str) -> Attempt {
        let shared = &*self.shared;
        let tag = self.order.call.row.map_or(0, |row| row.tag);
        let first_digest = key_digest(tag, &self.order.scope, first_key);
        let (first, key) = match (shared.tables.key(first_digest), self.order.key_digest) {
            (Some(first), Some(key)) => (first, key),
            (None, Some(_)) if shared.tables.forgotten() > 0 => {
                return Attempt::Final(self.first_answer_forgotten());
            }
            _ => {
                tracing::error!("the first answer of a replay is not known");
                return Attempt::Final(Verdict::Fault);
            }
        };
        match self.has_these_facts(first) {
            Ok(true) => {}
            Ok(false) => return Attempt::Final(self.first_answer_forgotten()),
            Err(error) => {
                tracing::error!(position = first, error, "a stored answer cannot be read");
                return Attempt::Final(Verdict::Unavailable);
            }
        }
        if !shared.has_room() {
            return Attempt::Final(Verdict::Unavailable);
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
        let mut sequence = shared.journal.sequence();
        if !shared.stands(basis)
            || !shared.commit_times.can_be_next(at)
            || shared.tables.key(first_digest) != Some(first)
        {
            return Attempt::Again;
        }
        let Ok(position) = sequence.push(record) else {
            return Attempt::Final(Verdict::Unavailable);
        };
        let whole = EndUnlessWhole;
        shared.commit_times.next_is(at);
        shared.tables.take_key(key, position);
        shared.tables.note_first(first, position);
        shared.lanes.end(sequence);
        std::mem::forget(whole);
        Attempt::Final(Verdict::ReplayOf { first, position })
    }

    /// The command was carried out, and what it was answered is forgotten with its key.
    fn first_answer_forgotten(&self) -> Verdict {
        Verdict::Refused {
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
