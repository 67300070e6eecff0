//! The content of a snapshot: kept records, then entries.
//!
//! The log's snapshot is a list of kept records and a list of entries, all bytes; their meaning is
//! defined here.
//!
//! A *kept record* has the layout of a record, without its changes: their result is in the states,
//! as are its messages to other systems. It is kept as long as it may be needed: for its idempotency
//! key, or for a second key that leads to its response. Nothing is kept of a response that was
//! replaced, or whose key is forgotten. (Programs in which messages were no resources kept them
//! here.) What a start needs of it, [`KeyUse`], is noted beside it.
//!
//! | Entry | Content |
//! |---|---|
//! | first | the version of this layout, the position up to which keys are forgotten, [`Counters`]
//! |
//! | each other | a resource: kind, version, key, position of its last commit, when it came to be
//! listed, state |
//!
//! Before version 3 no entry said when its resource came to be listed.
//!
//! The unique and secondary indexes are not in it: they are functions of the states.

use serde::{Deserialize, Serialize};

use super::counters::Counters;
use super::key_use::KeyUse;
use super::record::{NewRecord, Record, RecordOutcome};
use super::tables::{ListedAt, StoredState, Tables};
use crate::base::codec::{self, Blob, DecodeError};
use crate::base::digest::{Digest, KeyDigest};
use crate::domain::stored::Versioned;

/// The version of this layout. Version 2 is read as well; a snapshot of another one is rejected.
pub const SCHEMA: u8 = 3;
/// The version in which entries do not say when their resources came to be listed.
const WITHOUT_BIRTHS: u8 = 2;

/// The layout of the entries of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout(u8);

impl Layout {
    /// The one that is written.
    pub const PRESENT: Self = Self(SCHEMA);

    /// That of the snapshot with this first entry.
    ///
    /// # Errors
    /// When it is one that this program does not know, or no such entry.
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

/// What a snapshot says about the whole log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// Idempotency keys used at this position or before are forgotten.
    pub forgotten: u64,
    /// Counters up to the position that the snapshot covers.
    pub counters: Counters,
}

impl Summary {
    /// The first entry's bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        codec::encode(&(SCHEMA, self))
    }

    /// Decodes the first entry.
    ///
    /// # Errors
    /// When the bytes are not such an entry, or one of a version that this program does not know.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        Layout::of(bytes)?;
        codec::decode(bytes).map(|(_, summary): (u8, Self)| summary)
    }
}

/// A resource, as an entry.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateEntry<'a> {
    /// Its kind.
    pub kind: u16,
    /// The version of that kind's stored form.
    pub version: u16,
    /// Its key.
    pub key: Digest,
    /// The position of its last commit.
    pub position: u64,
    /// When it came to be listed; `None` when it is not, or this is not known.
    #[serde(rename = "born")]
    pub listed_at: Option<ListedAt>,
    /// Its state.
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
    /// When the bytes are not such an entry.
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

    /// The entry of a resource in the tables, where the form of its kind has this version.
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

    /// The state, in the version in which it was stored.
    #[must_use]
    pub fn stored(&self) -> Versioned<'a> {
        Versioned {
            version: self.version,
            bytes: self.state.0,
        }
    }
}

/// What a snapshot that covers everything up to `covers`, and has forgotten the keys up to `forgotten`, keeps
/// of the record at `position`, into `kept`, whose content before is gone; what is noted of it. `None`: it
/// keeps nothing of it. The tables may have forgotten more meanwhile, and may not have been swept since.
///
/// # Errors
/// When the tables do not have the record's key at this position or a later one, and it is not forgotten: its
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
        // A key leads elsewhere when another response has replaced this one. While the log after
        // the snapshot has that one, its record has to find this one.
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

    /// What is kept of a record, read again.
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
    fn what_can_be_asked_for_is_kept_and_nothing_else() {
        let outbox = [OutboxMessage {
            number: 1,
            topic: "a.b".into(),
            body: Blob(b"{}".to_vec()),
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

        // Its answer's place was taken at 9, which this snapshot does not cover, and that one does.
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
        // What the tables have is of an earlier position.
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

        // A forgotten key's answer is kept only while a second key leads to it.
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
