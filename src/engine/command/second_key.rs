//! A replay found by its unique key also takes the new idempotency key, in a commit of its own.

use super::commit::{NotCommitted, Waking};
use super::read_set::ReadSet;
use super::resource::Attempted;
use crate::base::time::Timestamp;
use crate::domain::rejection::{Class, Rejection};
use crate::engine::core::{ActorMessage, ActorResult, Mode};
use crate::journal::record::{NewRecord, Record, RecordKey, RecordOutcome, SCHEMA, key_digest};

impl ActorMessage {
    /// Maps the present idempotency key to the response stored under `first_key`, in a commit at `at` of a decision
    /// that began at `began`.
    pub(super) fn second_key(
        &self,
        read_set: &ReadSet,
        (began, at): (Timestamp, Timestamp),
        first_key: &str,
    ) -> Attempted {
        let shared = &*self.shared;
        let tag = self.pending.operation;
        let first_digest = key_digest(tag, &self.pending.scope, first_key);
        let (first, key) = match (shared.tables.key(first_digest), self.pending.key_digest) {
            (Some(first), Some(key)) => (first, key),
            (None, Some(_)) if shared.tables.forgotten() > 0 => {
                return Attempted::Final(self.first_answer_forgotten());
            }
            _ => {
                tracing::error!("the stored response of a replay is not known");
                return Attempted::Final(ActorResult::Fault);
            }
        };
        match self.has_same_content(first) {
            Ok(Some(true)) => {}
            Ok(Some(false)) => return Attempted::Final(self.first_answer_forgotten()),
            Ok(None) => return Attempted::AgainOnceDurable(first),
            Err(error) => {
                tracing::error!(position = first, error, "a stored response cannot be read");
                return Attempted::Final(ActorResult::OutcomeUnknown);
            }
        }
        if self.pending.mode == Mode::DryRun {
            return self.if_unchanged(read_set, |position| ActorResult::ReplayOf {
                first,
                position,
            });
        }
        if !shared.has_room() {
            return Attempted::Final(ActorResult::Unavailable);
        }
        let mut record = NewRecord {
            schema: SCHEMA,
            at,
            operation: tag,
            subject: &self.pending.scope,
            actor: None,
            key: Some(RecordKey {
                key: &*self.pending.key,
                fingerprint: self.pending.fingerprint,
            }),
            changes: Vec::new(),
            outbox: &[],
            outcome: RecordOutcome::SameAs(first),
        }
        .encode();
        shared.tables.reserve(&mut [], Some(key));
        let committed: Result<u64, NotCommitted> = shared.append_and_publish(
            Waking::ByLane,
            || {
                // The first key is not locked: it may be forgotten, or get its final response, meanwhile.
                if shared.tables.key(first_digest) != Some(first) {
                    return Err(NotCommitted::Changed);
                }
                shared.validate(read_set, at)
            },
            |sequence, _| sequence.push_taking(&mut record),
            |position| {
                shared.tables.take_key(key, position);
                shared.tables.note_first(first, position);
                || ()
            },
        );
        match committed {
            Ok(position) => Attempted::Final(ActorResult::ReplayOf { first, position }),
            Err(why) => self.not_committed(why, read_set, began),
        }
    }

    /// Rejects a command that was carried out before, but whose stored response was forgotten with its key.
    fn first_answer_forgotten(&self) -> ActorResult {
        ActorResult::Refused {
            rejection: Rejection::new(
                Class::Conflict,
                "first_answer_forgotten",
                "This was done before, under an idempotency key that is forgotten by now: read the resource.",
            ),
            position: self.shared.journal.appended(),
        }
    }

    /// Whether the commit at `first` was of a command with the same content. Once keys are forgotten, another command
    /// may have used the first response's key. `None` where the record is not in memory and cannot be read yet.
    fn has_same_content(&self, first: u64) -> Result<Option<bool>, String> {
        let shared = &*self.shared;
        if shared.tables.forgotten() == 0 {
            return Ok(Some(true));
        }
        if let Some(stored) = shared.recent.get(first) {
            return Ok(Some(self.pending.has_content_of(stored.fingerprint)));
        }
        if first > shared.journal.durable() {
            return Ok(None);
        }
        let bytes = shared.journal.read(first);
        let bytes = bytes.map_err(|error| error.to_string())?;
        let bytes = bytes.ok_or("it is not in the log")?;
        let record = Record::decode(&bytes).map_err(|error| error.to_string())?;
        let key = record.key.ok_or("it has no key")?;
        Ok(Some(self.pending.has_content_of(key.fingerprint)))
    }
}
