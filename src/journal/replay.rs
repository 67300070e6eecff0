//! From records to tables: recovery, and the check of a whole log.

use std::collections::BTreeMap;

use super::record::{Record, RecordOutcome};
use super::tables::Tables;
use crate::base::time::Instant;
use crate::catalogue;
use crate::domain::operation::Change;
use crate::domain::resource::Source as _;

/// Why a record cannot follow on those before it.
#[derive(Debug)]
pub struct ReplayError(String);

impl std::fmt::Display for ReplayError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ReplayError {}

/// Replays records, in order, into tables.
#[derive(Default)]
pub struct Replay {
    /// What the records made so far.
    pub tables: Tables,
    /// How many records of each operation there were.
    pub operations: BTreeMap<u16, u64>,
    /// The highest number of an outbox message.
    pub outbox_number: i64,
    /// How many outbox messages there were.
    pub outbox_messages: u64,
    /// The time of the last commit.
    pub last_at: Option<Instant>,
}

impl Replay {
    /// Replays the record at `position`.
    ///
    /// # Errors
    /// When the bytes are no record, name a kind of resource that this program does not know, or
    /// an event that cannot follow.
    pub fn record(&mut self, position: u64, payload: &[u8]) -> Result<(), ReplayError> {
        let record = Record::decode(payload).map_err(|error| ReplayError(error.to_string()))?;
        if let RecordOutcome::SameAs(first) = record.outcome
            && first >= position
        {
            return Err(ReplayError(format!(
                "its answer is that of the later position {first}"
            )));
        }
        if let Some(key) = record.key_digest() {
            let replaced = match record.outcome {
                RecordOutcome::Instead { of, .. } => Some(of),
                _ => None,
            };
            match (self.tables.key(key), replaced) {
                (Some(taken), None) => {
                    return Err(ReplayError(format!(
                        "its key was taken at position {taken}"
                    )));
                }
                (taken, Some(of)) if taken != Some(of) => {
                    return Err(ReplayError(format!(
                        "its answer takes the place of the one at position {of}, which does not \
                         have its key"
                    )));
                }
                _ => {}
            }
            self.tables.take_key(key, position);
        }
        for change in &record.changes {
            let resource = catalogue::resource(change.kind).ok_or_else(|| {
                ReplayError(format!("resource kind {} is not known here", change.kind))
            })?;
            let mut before = None;
            self.tables
                .read(change.key, &mut |bytes| before = Some(bytes.to_vec()));
            let replayed = resource
                .replay(before.as_deref(), &change.event.0, record.at)
                .map_err(|error| ReplayError(format!("{}: {error}", resource.kind().name)))?;
            if replayed.key != change.key {
                return Err(ReplayError(format!(
                    "{}: the event is another resource's",
                    resource.kind().name
                )));
            }
            self.publish(position, replayed)?;
        }
        for message in &record.outbox {
            self.outbox_number = self.outbox_number.max(message.number);
            self.outbox_messages += 1;
        }
        *self.operations.entry(record.operation).or_default() += 1;
        self.last_at = self.last_at.max(Some(record.at));
        Ok(())
    }

    fn publish(&self, position: u64, change: Change) -> Result<(), ReplayError> {
        for name in &change.names_taken {
            if let Some(holder) = self.tables.holder(*name) {
                return Err(ReplayError(format!(
                    "resource {:?} takes a name that {holder:?} holds",
                    change.key
                )));
            }
        }
        self.tables.publish(position, change);
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::record::{NewRecord, RecordKey, SCHEMA, key_digest};
    use super::*;
    use crate::base::codec::Blob;
    use crate::base::digest::Fingerprint;

    fn record(outcome: RecordOutcome<&[u8]>) -> Vec<u8> {
        NewRecord {
            schema: SCHEMA,
            at: Instant::default(),
            operation: 3,
            subject: "hq-1",
            key: Some(RecordKey {
                key: "key-1",
                fingerprint: Fingerprint::of(b"facts"),
            }),
            changes: Vec::new(),
            outbox: &[],
            outcome,
        }
        .encode()
    }

    fn answer() -> Vec<u8> {
        record(RecordOutcome::Answer {
            accepted: true,
            body: Blob(b"{}"),
        })
    }

    fn instead(of: u64) -> Vec<u8> {
        record(RecordOutcome::Instead {
            of,
            accepted: false,
            body: Blob(b"{}"),
        })
    }

    #[test]
    fn a_key_leads_to_the_answer_that_has_taken_the_place_of_the_first() {
        let mut replay = Replay::default();
        replay.record(1, &answer()).unwrap();
        let key = key_digest(3, "hq-1", "key-1");
        assert_eq!(replay.tables.key(key), Some(1));
        replay.record(2, &instead(1)).unwrap();
        assert_eq!(replay.tables.key(key), Some(2));
        assert_eq!(replay.tables.keys(), 1);
    }

    #[test]
    fn a_key_is_taken_once_and_only_its_own_answer_is_replaced() {
        let mut replay = Replay::default();
        let error = replay.record(1, &instead(1)).unwrap_err().to_string();
        assert!(error.contains("takes the place of"), "{error}");
        replay.record(1, &answer()).unwrap();
        let error = replay.record(2, &answer()).unwrap_err().to_string();
        assert!(error.contains("taken at position 1"), "{error}");
        for other in [0, 2] {
            let error = replay.record(2, &instead(other)).unwrap_err().to_string();
            assert!(error.contains("takes the place of"), "{error}");
        }
    }
}
