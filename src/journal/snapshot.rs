//! Content of a snapshot: kept records, then entries.
//!
//! To the log, a snapshot is a list of kept records and a list of entries, all of them bytes; this module defines
//! their meaning.
//!
//! A *kept record* has the layout of a record, without its changes and its messages to other systems, whose results
//! are in the states. It is kept as long as it may be needed: for its idempotency key, or for a second key that leads
//! to its response. A record whose response was replaced, or whose key is forgotten, is not kept. (Programs in which
//! messages were no resources kept messages here.) The data that a start needs of it, [`KeyUse`], is noted beside it.
//!
//! | Entry | Content |
//! |---|---|
//! | first | the version of this layout, the position up to which keys are forgotten, [`Counters`]
//! |
//! | each other | a resource: kind, version, key, position of its last commit, when it came to be
//! listed, state |
//!
//! Before version 3, entries lacked the time when their resource was first listed.
//!
//! The snapshot has no unique and secondary indexes, since they are functions of the states.

use serde::{Deserialize, Serialize};

use super::counters::Counters;
use super::key_use::KeyUse;
use super::record::{NewRecord, Record, RecordOutcome};
use super::tables::{ListedAt, StoredState, Tables};
use crate::base::codec::{self, Blob, DecodeError};
use crate::base::digest::{Digest, KeyDigest};
use crate::domain::stored::Versioned;

/// Version of this layout. Version 2 is read as well; a snapshot of another version is rejected.
pub const SCHEMA: u8 = 3;
/// The version whose entries lack the time when their resources were first listed.
const WITHOUT_BIRTHS: u8 = 2;

/// The layout of the entries of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout(u8);

impl Layout {
    /// The layout that is written.
    pub const PRESENT: Self = Self(SCHEMA);

    /// Returns the layout of the snapshot with this first entry.
    ///
    /// # Errors
    /// When the layout is unknown, or the bytes are no such entry.
    pub fn of(first: &[u8]) -> Result<Self, DecodeError> {
        match first.first() {
            Some(known @ (&SCHEMA | &WITHOUT_BIRTHS)) => Ok(Self(*known)),
            Some(other) => {
                let (found, known) = (u16::from(*other), u16::from(SCHEMA));
                Err(DecodeError::other_version("a snapshot", found, known))
            }
            None => Err(DecodeError::Malformed("an empty entry".to_owned())),
        }
    }
}

/// A snapshot's data about the whole log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// Idempotency keys used at this position or before are forgotten.
    pub forgotten: u64,
    /// Counters up to the position that the snapshot covers.
    pub counters: Counters,
}

impl Summary {
    /// Encodes the first entry.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        codec::encode(&(SCHEMA, self))
    }

    /// Decodes the first entry.
    ///
    /// # Errors
    /// When the bytes are no such entry, or one of an unknown version.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        Layout::of(bytes)?;
        codec::decode(bytes).map(|(_, summary): (u8, Self)| summary)
    }
}

/// An entry of a snapshot: one resource.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateEntry<'a> {
    /// Kind of the resource.
    pub kind: u16,
    /// Version of that kind's stored form.
    pub version: u16,
    /// Key of the resource.
    pub key: Digest,
    /// Position of the resource's last commit.
    pub position: u64,
    /// When the resource was first listed; `None` when it is not listed, or this is unknown.
    #[serde(rename = "born")]
    pub listed_at: Option<ListedAt>,
    /// State of the resource.
    #[serde(borrow)]
    pub state: Blob<&'a [u8]>,
}

/// An entry of version 2.
#[derive(Serialize, Deserialize)]
struct StateEntryOf2<'a> {
    kind: u16,
    version: u16,
    key: Digest,
    position: u64,
    #[serde(borrow)]
    state: Blob<&'a [u8]>,
}

impl<'a> StateEntry<'a> {
    /// Decodes an entry.
    ///
    /// # Errors
    /// When the bytes are no such entry.
    pub fn decode(bytes: &'a [u8], layout: Layout) -> Result<Self, DecodeError> {
        if layout == Layout::PRESENT {
            return codec::decode_borrowed(bytes);
        }
        let StateEntryOf2 {
            kind,
            version,
            key,
            position,
            state,
        } = codec::decode_borrowed(bytes)?;
        Ok(Self {
            kind,
            version,
            key,
            position,
            listed_at: None,
            state,
        })
    }

    /// Creates the entry of a resource in the tables; `version` is that of its kind's stored form.
    #[must_use]
    pub fn new(standing: StoredState<'a>, version: u16, listed_at: Option<ListedAt>) -> Self {
        Self {
            kind: standing.kind,
            version,
            key: standing.key,
            position: standing.position,
            listed_at,
            state: Blob(standing.bytes),
        }
    }

    /// Returns the state, in the version in which it was stored.
    #[must_use]
    pub fn stored(&self) -> Versioned<'a> {
        Versioned {
            version: self.version,
            bytes: self.state.0,
        }
    }
}

/// Writes into `kept`, replacing its content, what a snapshot keeps of the record at `position`; returns the note
/// about it. The snapshot covers everything up to `covers`, and has forgotten the keys up to `forgotten`. `None`: the
/// snapshot does not keep the record. The tables may have forgotten more keys meanwhile, and may not have been swept
/// since.
///
/// # Errors
/// When the tables do not have the record's key at this position or a later one, and the key is not forgotten: its
/// response would be lost.
pub fn keep(
    tables: &Tables,
    (covers, forgotten): (u64, u64),
    position: u64,
    record: &Record<'_>,
    kept: &mut Vec<u8>,
) -> Result<Option<KeyUse>, String> {
    let used = KeyUse::of(record);
    let is_current = match used.key.map(KeyDigest) {
        // A key leads to another response when that one has replaced this one. As long as the record of the
        // replacement is in the log after the snapshot, it must find this record.
        Some(key) => match tables.last_use(key) {
            Some(holder) if holder >= position => holder == position || holder > covers,
            _ if position > forgotten => {
                return Err(format!(
                    "the tables lack the idempotency key of position {position}: `carebook verify` tells why"
                ));
            }
            _ => false,
        },
        None => false,
    };
    let is_current = is_current && position > forgotten;
    let is_asked_for = is_current || tables.is_first(position, forgotten);
    if !is_asked_for {
        return Ok(None);
    }
    let key = record.key.clone().filter(|_| is_current);
    let outcome = match &record.outcome {
        RecordOutcome::Forgotten { .. } => RecordOutcome::None,
        outcome => outcome.clone(),
    };
    let stripped = NewRecord {
        schema: super::record::SCHEMA,
        at: record.at,
        operation: record.operation,
        subject: record.subject,
        actor: record.actor,
        key,
        changes: Vec::new(),
        outbox: &[],
        outcome,
    };
    codec::encode_record_into(&stripped, kept);
    Ok(Some(KeyUse {
        key: used.key.filter(|_| is_current),
        ..used
    }))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::record::{NewChange, RecordKey, SCHEMA as RECORD_SCHEMA};
    use super::*;
    use crate::base::digest::Fingerprint;
    use crate::base::hex::hex;
    use crate::base::revision::Revision;
    use crate::base::time::Timestamp;
    use crate::domain::operation::OutboxMessage;

    fn at() -> Timestamp {
        Timestamp::parse("2026-11-20T12:00:00Z").unwrap()
    }

    #[test]
    fn the_layouts_of_versions_2_and_3_never_change() {
        let mut counters = Counters {
            position: 300,
            operations: [(9, 2), (0, 70_000)].into(),
            outbox_number: 7,
            outbox_messages: 3,
            last_at: Some(at()),
            ..Counters::default()
        };
        counters.marks.note(5, at());
        counters.marks.note(9, at());
        let summary = Summary {
            forgotten: 41,
            counters,
        };
        let bytes = summary.encode();
        assert_eq!(hex(&bytes), SUMMARY.replace(char::is_whitespace, ""));
        assert_eq!(Summary::decode(&bytes).unwrap(), summary);
        let entry = StateEntry {
            kind: 100,
            version: 3,
            key: Digest([0xab; 16]),
            position: 300,
            listed_at: None,
            state: Blob(b"state"),
        };
        let of_2 = StateEntryOf2 {
            kind: 100,
            version: 3,
            key: Digest([0xab; 16]),
            position: 300,
            state: Blob(b"state"),
        };
        let old = codec::encode(&of_2);
        assert_eq!(hex(&old), STATE_OF_2.replace(char::is_whitespace, ""));
        let before = Layout::of(&[2]).unwrap();
        assert_eq!(StateEntry::decode(&old, before).unwrap(), entry);
        let bytes = codec::encode(&entry);
        assert_eq!(hex(&bytes), STATE.replace(char::is_whitespace, ""));
        assert_eq!(StateEntry::decode(&bytes, Layout::PRESENT).unwrap(), entry);
        let listed = StateEntry {
            listed_at: Some(ListedAt {
                position: 299,
                number: 1,
            }),
            ..entry
        };
        let bytes = codec::encode(&listed);
        assert_eq!(hex(&bytes), LISTED.replace(char::is_whitespace, ""));
        assert_eq!(StateEntry::decode(&bytes, Layout::PRESENT).unwrap(), listed);
    }

    const SUMMARY: &str = "03 29 fb2c01 02 00 fc70110100 09 02 0e 03 01 fd00d4a7f143030000
        fbd007 01 05 fd00d4a7f143030000 01 09 fd00d4a7f143030000";
    const STATE_OF_2: &str = "64 03 abababababababababababababababab fb2c01 05 7374617465";
    const STATE: &str = "64 03 abababababababababababababababab fb2c01 00 05 7374617465";
    const LISTED: &str = "64 03 abababababababababababababababab fb2c01 01 fb2b01 01 05 7374617465";

    #[test]
    fn a_snapshot_of_another_version_is_refused() {
        let mut bytes = Summary::default().encode();
        bytes[0] = SCHEMA + 1;
        let error = Summary::decode(&bytes).unwrap_err().to_string();
        assert!(error.contains("version 4"), "{error}");
        bytes[0] = 1;
        assert!(Summary::decode(&bytes).is_err());
        assert!(Summary::decode(&[]).is_err());
    }

    fn record<'a>(outbox: &'a [OutboxMessage], key: &'a str) -> NewRecord<'a> {
        NewRecord {
            schema: RECORD_SCHEMA,
            at: at(),
            operation: 3,
            subject: "hq-1",
            actor: None,
            key: Some(RecordKey {
                key,
                fingerprint: Fingerprint::of(b"facts"),
            }),
            changes: vec![NewChange {
                kind: 100,
                version: 1,
                key: Digest([1; 16]),
                before: 0,
                revision: Revision::FIRST,
                advances: true,
                path: &[],
                event: Blob(b"event"),
                base: None,
            }],
            outbox,
            outcome: RecordOutcome::Answer {
                accepted: true,
                body: Blob(b"{}"),
            },
        }
    }

    /// Returns the kept part of a record, read again.
    fn kept(tables: &Tables, covers: u64, position: u64, bytes: &[u8]) -> Option<Vec<u8>> {
        let mut kept = Vec::new();
        let record = Record::decode(bytes).unwrap();
        let used = keep(
            tables,
            (covers, tables.forgotten()),
            position,
            &record,
            &mut kept,
        )
        .unwrap()?;
        assert_eq!(used, KeyUse::of(&Record::decode(&kept).unwrap()));
        Some(kept)
    }

    #[test]
    fn a_snapshot_keeps_exactly_the_responses_that_can_still_be_replayed() {
        let outbox = [OutboxMessage {
            number: 1,
            topic: "a.b".into(),
            body: Blob(b"{}".to_vec()),
            about: None,
        }];
        let tables = Tables::default();
        let digest = |key: &str| super::super::record::key_digest(3, "hq-1", key);
        tables.take_key(digest("key-1"), 1);
        tables.take_key(digest("key-2"), 9);
        tables.take_key(digest("key-4"), 4);
        let (keyed, replaced) = (
            record(&[], "key-1").encode(),
            record(&outbox, "key-2").encode(),
        );

        let bytes = kept(&tables, 5, 1, &keyed).unwrap();
        let found = Record::decode(&bytes).unwrap();
        let before = Record::decode(&keyed).unwrap();
        assert!(found.changes.is_empty());
        assert_eq!((found.key, found.outcome), (before.key, before.outcome));

        // The response was replaced at 9, which the first snapshot does not cover, and the second does.
        let bytes = kept(&tables, 8, 2, &replaced).unwrap();
        assert!(Record::decode(&bytes).unwrap().key.is_some());
        let found = Record::decode(&bytes).unwrap();
        assert!(found.outbox.is_empty(), "messages are states");
        assert_eq!(kept(&tables, 9, 2, &replaced), None);
        let without_messages = record(&[], "key-2").encode();
        assert_eq!(kept(&tables, 9, 2, &without_messages), None);

        let unknown = record(&[], "key-3").encode();
        let unknown = Record::decode(&unknown).unwrap();
        let told = keep(&tables, (9, 0), 3, &unknown, &mut Vec::new()).unwrap_err();
        assert!(
            told.contains("lack the idempotency key of position 3"),
            "{told}"
        );
        // The tables have the key at an earlier position.
        let again = Record::decode(&keyed).unwrap();
        assert!(keep(&tables, (9, 0), 2, &again, &mut Vec::new()).is_err());
        let keyless = NewRecord {
            key: None,
            outcome: RecordOutcome::None,
            ..record(&[], "")
        };
        assert_eq!(kept(&tables, 9, 3, &keyless.encode()), None);
        let forgotten = NewRecord::forgotten(1, at()).encode();
        assert_eq!(kept(&tables, 9, 7, &forgotten), None);

        // The response of a forgotten key is kept only while a second key leads to it.
        let first = record(&[], "key-4").encode();
        tables.note_first(4, 6);
        tables.forget(5);
        assert_eq!(kept(&tables, 9, 1, &keyed), None);
        let bytes = kept(&tables, 9, 4, &first).unwrap();
        let found = Record::decode(&bytes).unwrap();
        assert!(found.key.is_none());
        assert!(matches!(found.outcome, RecordOutcome::Answer { .. }));
        tables.forget(6);
        assert_eq!(kept(&tables, 9, 4, &first), None);
    }
}
