//! Replay of records into tables: recovery, and the verification of a whole log.
//!
//! The reading thread decodes records and notes idempotency keys. Workers apply changes of resources; each has some
//! of the shards, and notes the entries of its resources in indexes and lists. Of the records that a snapshot keeps,
//! replay uses the notes; where there are none, or notes are to be compared, another thread decodes the records. The
//! tables of keys, the unique and secondary indexes and the lists are built once, at the end; the index that finds a
//! snapshot's states, when all of these have been read.
//!
//! A snapshot may come first. It has every commit up to the position that it *covers*, and some later ones, since it
//! was copied while commands went on. So a change that its resource already has is skipped where the snapshot may
//! contain it, and is an error beyond that.

use std::sync::Arc;

use super::counters::Counters;
use super::keeping::Keeping;
use super::key_use::KeyUse;
use super::key_uses::KeyUses;
use super::lineage::Lineage;
use super::messages::{self, MessagesOfOld};
use super::record::Record;
use super::replay_error::ReplayError;
use super::replay_thread::{ReplayThread, ReplayThreadFailed};
use super::rules;
use super::shard_entries::{self, ShardEntries};
use super::snapshot::{Layout, StateEntry, Summary};
use super::tables::{ListedAt, Tables};
use super::workers::Workers;
use crate::base::codec::{Blob, DecodeError};
use crate::base::digest::Digest;
use crate::catalogue;
use crate::domain::registered::{AnyResource, Kinds, known};

/// State recovered from a log and its snapshot.
#[derive(Default)]
pub struct Recovered {
    /// Committed state.
    pub tables: Tables,
    /// Counters over all records.
    pub counters: Counters,
    /// Counters over the records that the snapshot covers.
    pub covered: Counters,
    /// Identity of the log, and the logs that it continues.
    pub lineage: Lineage,
}

/// Replays records, in order, into tables.
pub struct Replay {
    kinds: Kinds,
    tables: Arc<Tables>,
    workers: Workers,
    counters: Counters,
    covered: Counters,
    lineage: Lineage,
    old: MessagesOfOld,
    uses: Arc<KeyUses>,
    snapshot: Option<Loading>,
    /// Whether notes about kept records are compared with the records.
    compares: bool,
    failed: Option<ReplayError>,
}

/// A snapshot being loaded.
struct Loading {
    covers: u64,
    upto: u64,
    /// Layout of the snapshot's entries, known from the first entry.
    layout: Option<Layout>,
    /// Whether all entries of the snapshot have been read.
    is_shown: bool,
    /// Position of the last kept record.
    kept: u64,
    /// Note about the record at this position, to be compared with that record.
    noted: Option<(u64, KeyUse)>,
    /// Processes kept records, from the first one until the first entry.
    keeping: Option<ReplayThread<Keeping>>,
}

impl Default for Replay {
    fn default() -> Self {
        Self::new()
    }
}

impl Replay {
    /// Creates an empty replay.
    #[must_use]
    pub fn new() -> Self {
        Self::of(catalogue::resource)
    }

    /// Creates an empty replay, for resources of these kinds.
    #[must_use]
    pub fn of(kinds: Kinds) -> Self {
        Self::with(kinds, None)
    }

    fn with(kinds: Kinds, snapshot: Option<Loading>) -> Self {
        let tables = Arc::new(Tables::default());
        Self {
            kinds,
            workers: Workers::new(
                kinds,
                &tables,
                snapshot.as_ref().map_or(0, |loading| loading.upto),
            ),
            tables,
            counters: Counters::default(),
            covered: Counters::default(),
            lineage: Lineage::default(),
            old: MessagesOfOld::default(),
            uses: Arc::default(),
            snapshot,
            compares: false,
            failed: None,
        }
    }

    /// Compares a snapshot's notes with the kept records from here on.
    pub fn compare_notes(&mut self) {
        self.compares = true;
    }

    /// Whether the notes about kept records suffice, so that these records need not be replayed.
    #[must_use]
    pub fn takes_notes(&self) -> bool {
        !self.compares
    }

    /// Sets the log's identity. To be called before anything else.
    pub fn lineage(&mut self, lineage: Lineage) {
        self.lineage = lineage;
    }

    /// Starts over, for the same log.
    pub fn reset(&mut self) {
        *self = Self {
            lineage: std::mem::take(&mut self.lineage),
            compares: self.compares,
            ..Self::of(self.kinds)
        };
    }

    /// Starts over with a snapshot that has every commit up to `covers`, and none after `upto`. Its kept records come
    /// first, then its entries, then the log's records after `covers`.
    pub fn snapshot(&mut self, covers: u64, upto: u64) {
        let loading = Loading {
            covers,
            upto,
            layout: None,
            is_shown: false,
            kept: 0,
            noted: None,
            keeping: None,
        };
        *self = Self {
            lineage: std::mem::take(&mut self.lineage),
            compares: self.compares,
            ..Self::with(self.kinds, Some(loading))
        };
    }

    /// Replays the snapshot's note about the record at `position`, in place of that record, or before it for a
    /// [comparison](Self::compare_notes).
    ///
    /// # Errors
    /// As [`Replay::kept`].
    pub fn noted(&mut self, position: u64, note: &[u8]) -> Result<(), ReplayError> {
        let done = self.try_noted(position, note);
        self.unless_failed(done)
    }

    /// Replays the kept part of the record at `position`.
    ///
    /// # Errors
    /// When the bytes are no such record. After an error nothing more can be replayed.
    pub fn kept(&mut self, position: u64, payload: &[u8]) -> Result<(), ReplayError> {
        let done = self.try_kept(position, payload);
        self.unless_failed(done)
    }

    /// Replays an entry of the snapshot.
    ///
    /// # Errors
    /// As [`Replay::kept`].
    pub fn entry(&mut self, entry: &[u8]) -> Result<(), ReplayError> {
        let done = self.try_entry(entry);
        self.unless_failed(done)
    }

    /// Waits until the whole snapshot is in the tables, after its last entry. The first record and the end of the
    /// replay do the same; but only after an error reported here may another snapshot be used instead.
    ///
    /// # Errors
    /// The first error in its states, or in all of them together: a resource may occur twice.
    pub fn snapshot_shown(&mut self) -> Result<(), ReplayError> {
        let done = self.end_snapshot();
        self.unless_failed(done)
    }

    /// Replays the record at `position`.
    ///
    /// # Errors
    /// When the bytes are no record, name an unknown kind of resource, or contain an event that does not fit the
    /// state. Workers lag behind, so the error may be about an earlier record, which it names. After an error nothing
    /// more can be replayed.
    pub fn record(&mut self, position: u64, payload: &[u8]) -> Result<(), ReplayError> {
        let done = self.try_record(position, payload);
        self.unless_failed(done)
    }

    /// Ends the replay; returns the recovered tables.
    ///
    /// # Errors
    /// As [`Replay::record`]; and when two resources have the same unique key.
    pub fn finish(mut self) -> Result<Recovered, ReplayError> {
        self.snapshot_shown()?;
        let kept = self.kept_upto();
        let found = ended(self.workers, &self.uses, &self.tables, kept)?;
        shard_entries::index(&self.tables, self.kinds, found)?;
        let Ok(_) = self.tables.sweep(|| Ok::<_, std::convert::Infallible>(()));
        let tables = Arc::into_inner(self.tables).expect("the workers have ended");
        Ok(Recovered {
            tables,
            counters: self.counters,
            covered: self.covered,
            lineage: self.lineage,
        })
    }

    /// Returns the error that comes first in the log, be it this one or a worker's.
    fn unless_failed(&mut self, done: Result<(), Stop>) -> Result<(), ReplayError> {
        if let Some(failed) = &self.failed {
            return Err(failed.clone());
        }
        let Err(stop) = done else {
            return Ok(());
        };
        // Kept records come before everything that the workers process.
        let kept = self.kept_upto();
        let stop = match (self.end_kept(), stop) {
            (Err(theirs), Stop::Own(own)) if own.is_before_with(&theirs, kept) => Stop::Own(own),
            (Err(theirs), _) => Stop::Own(theirs),
            (Ok(()), stop) => stop,
        };
        let workers =
            std::mem::replace(&mut self.workers, Workers::new(self.kinds, &self.tables, 0));
        let first = match (ended(workers, &self.uses, &self.tables, kept), stop) {
            (Err(theirs), Stop::Own(own)) if own.is_before_with(&theirs, kept) => own,
            (Err(theirs), _) => theirs,
            (Ok(_), Stop::Own(own)) => own,
            (Ok(_), Stop::Worker) => ReplayError::panicked(),
        };
        self.failed = Some(first.clone());
        Err(first)
    }

    /// Returns the position of the last record that the snapshot has kept.
    fn kept_upto(&self) -> u64 {
        self.snapshot.as_ref().map_or(0, |loading| loading.kept)
    }

    fn try_noted(&mut self, position: u64, note: &[u8]) -> Result<(), Stop> {
        let loading = kept_at(&mut self.snapshot, position)?;
        let used = KeyUse::decode(note)
            .map_err(|error| ReplayError::unread(Some(position), ReplayError::KEPT, &error))?;
        if self.compares {
            loading.noted = Some((position, used));
            return Ok(());
        }
        loading.kept = position;
        let noted = self.uses.note(&self.tables, position, used);
        Ok(noted.map_err(|what| ReplayError::of_kept(position, what))?)
    }

    fn try_kept(&mut self, position: u64, payload: &[u8]) -> Result<(), Stop> {
        let loading = kept_at(&mut self.snapshot, position)?;
        loading.kept = position;
        let noted = loading.noted.take_if(|(of, _)| *of == position);
        let noted = noted.map(|(_, used)| used);
        let keeping = loading.keeping.get_or_insert_with(|| {
            let keeping = Keeping {
                tables: Arc::clone(&self.tables),
                lineage: self.lineage.clone(),
                old: std::mem::take(&mut self.old),
                uses: Arc::clone(&self.uses),
            };
            ReplayThread::new(keeping, 1, &Arc::default())
        });
        Ok(keeping.add((position, noted), payload)?)
    }

    /// Waits until all kept records are processed; called after the last one.
    fn end_kept(&mut self) -> Result<(), ReplayError> {
        let loading = self.snapshot.as_mut();
        if let Some(keeping) = loading.and_then(|loading| loading.keeping.take()) {
            self.old = keeping.end()?.old;
        }
        Ok(())
    }

    /// Waits until the snapshot, if there is one, is in the tables, with the messages that only its kept records
    /// contain.
    fn end_snapshot(&mut self) -> Result<(), Stop> {
        let Some(loading) = self.snapshot.as_mut().filter(|loading| !loading.is_shown) else {
            return Ok(());
        };
        loading.is_shown = true;
        let has_begun = loading.layout.is_some();
        self.end_kept()?;
        if !has_begun {
            return Err(ReplayError::of_snapshot("a snapshot has no beginning").into());
        }
        for (position, state) in self.old.take_kept() {
            let (resource, entry) = self.message(&state, position)?;
            self.workers.state(resource, &entry)?;
        }
        Ok(self.workers.drain()?)
    }

    /// Returns a message of an older record as a snapshot would store it.
    fn message<'s>(
        &self,
        state: &'s (Digest, Vec<u8>),
        position: u64,
    ) -> Result<(&'static dyn AnyResource, StateEntry<'s>), ReplayError> {
        let (kind, version) = messages::KIND_AND_VERSION;
        let resource = known(self.kinds, kind, version)
            .map_err(|error| ReplayError::unread(Some(position), "", &error))?;
        let entry = StateEntry {
            kind,
            version,
            key: state.0,
            position,
            listed_at: None,
            state: Blob(&state.1),
        };
        Ok((resource, entry))
    }

    fn try_entry(&mut self, entry: &[u8]) -> Result<(), Stop> {
        const OF_SNAPSHOT: &str = "a snapshot: ";
        let of_snapshot = |what: String| ReplayError::of_snapshot(format!("{OF_SNAPSHOT}{what}"));
        let unread = |error: DecodeError| ReplayError::unread(None, OF_SNAPSHOT, &error);
        self.end_kept()?;
        let Some(loading) = &mut self.snapshot else {
            return Err(of_snapshot("there is none".to_owned()).into());
        };
        if loading.is_shown {
            return Err(of_snapshot("an entry is out of place".to_owned()).into());
        }
        let Some(layout) = loading.layout else {
            // An error in the records of a snapshot is reported before its entries are read, so that another snapshot
            // can be used.
            self.uses.enter(&self.tables, loading.kept)?;
            loading.layout = Some(Layout::of(entry).map_err(unread)?);
            let covers = loading.covers;
            let summary = Summary::decode(entry).map_err(unread)?;
            if summary.forgotten > covers || summary.counters.position > covers {
                return Err(of_snapshot("it counts what it does not cover".to_owned()).into());
            }
            self.tables.forget(summary.forgotten);
            self.uses.forget(covers, summary.forgotten);
            self.covered = summary.counters.clone();
            self.counters = summary.counters;
            return Ok(());
        };
        let entry = StateEntry::decode(entry, layout).map_err(unread)?;
        self.old.entry(&entry).map_err(unread)?;
        let resource = known(self.kinds, entry.kind, entry.version).map_err(|error| {
            ReplayError::unread(Some(entry.position), "the state of a snapshot: ", &error)
        })?;
        self.workers.state(resource, &entry)?;
        Ok(())
    }

    fn try_record(&mut self, position: u64, payload: &[u8]) -> Result<(), Stop> {
        let at = |what: String| ReplayError::at(position, what);
        if self
            .snapshot
            .as_ref()
            .is_some_and(|loading| position <= loading.covers)
        {
            return Err(at("the snapshot has it already".to_owned()).into());
        }
        rules::has_place(position).map_err(at)?;
        let unread = |error: DecodeError| ReplayError::unread(Some(position), "", &error);
        self.end_snapshot()?;
        let record = Record::decode(payload).map_err(unread)?;
        if let Some(through) = rules::forgets(position, &record).map_err(at)? {
            self.tables.forget(through);
            self.uses.forget(position, through);
        }
        let noted = self.uses.note(&self.tables, position, KeyUse::of(&record));
        noted.map_err(at)?;
        for (index, change) in record.changes.iter().enumerate() {
            let resource = known(self.kinds, change.kind, change.version).map_err(unread)?;
            rules::changes_once(&record.changes, index).map_err(at)?;
            let number = u32::try_from(index).unwrap_or(u32::MAX);
            let place = ListedAt { position, number };
            self.workers.change(place, record.at, resource, change)?;
        }
        if !record.outbox.is_empty() || record.changes.iter().any(messages::completes_old) {
            let log_id = self.lineage.log_at(position);
            let sent = self.old.record(position, &record, log_id).map_err(unread)?;
            for sent in &sent {
                let change = sent.change();
                let resource = known(self.kinds, change.kind, change.version).map_err(unread)?;
                let place = ListedAt {
                    position,
                    number: u32::MAX,
                };
                self.workers.change(place, record.at, resource, &change)?;
            }
        }
        self.counters.note(position, &record);
        Ok(())
    }
}

/// Returns the snapshot whose kept record at this position, or the note about it, comes next.
fn kept_at(snapshot: &mut Option<Loading>, position: u64) -> Result<&mut Loading, ReplayError> {
    let at = |what: String| ReplayError::of_kept(position, what);
    let Some(loading) = snapshot else {
        return Err(at("there is none".to_owned()));
    };
    if position <= loading.kept || position > loading.covers || loading.layout.is_some() {
        // The misplaced position says nothing about the order of errors, so the error is one of the whole snapshot.
        let what = ReplayError::of_kept(position, "it is out of place").to_string();
        return Err(ReplayError::of_snapshot(what));
    }
    rules::has_place(position).map_err(at)?;
    Ok(loading)
}

/// Waits for the workers, and enters the keys that records use; returns the entries that the workers have noted.
fn ended(
    workers: Workers,
    uses: &KeyUses,
    tables: &Tables,
    kept: u64,
) -> Result<Vec<ShardEntries>, ReplayError> {
    match (workers.finish(), uses.enter(tables, kept)) {
        (Err(one), Err(other)) => Err(one.first(other)),
        (worked, entered) => entered.and(worked),
    }
}

/// Reason why the replay stops.
enum Stop {
    Own(ReplayError),
    /// A worker failed, and returns the error itself.
    Worker,
}

impl From<ReplayError> for Stop {
    fn from(error: ReplayError) -> Self {
        Self::Own(error)
    }
}

impl From<ReplayThreadFailed> for Stop {
    fn from(_: ReplayThreadFailed) -> Self {
        Self::Worker
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::apply::RecordToApply;
    use super::super::record::{
        NewChange, NewRecord, RecordKey, RecordOutcome, SCHEMA, key_digest,
    };
    use std::collections::HashMap;

    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    use super::super::snapshot::keep;
    use super::super::tables::PreparedChange;
    use super::*;
    use crate::base::revision::Revision;
    use serde_json::Value;
    use uuid::Uuid;

    use crate::base::codec;
    use crate::base::digest::Fingerprint;
    use crate::base::time::Timestamp;
    use crate::domain::mother::state::MotherProfile;
    use crate::domain::reference::kinds::actor::{ActorFact, ActorLifecycle};
    use crate::domain::reference::kinds::mother_profile::MotherProfileFact;
    use crate::domain::reference::kinds::relationship::{Relationship, RelationshipState};
    use crate::domain::reference::{Fact, FactEvent, FactHolder as _, FactKind as _, samples};
    use crate::domain::resource::{Resource as _, Source as _};

    fn record(outcome: RecordOutcome<&[u8]>) -> Vec<u8> {
        keyed("key-1", outcome)
    }

    fn keyed(key: &str, outcome: RecordOutcome<&[u8]>) -> Vec<u8> {
        NewRecord {
            schema: SCHEMA,
            at: Timestamp::default(),
            operation: 3,
            subject: "hq-1",
            actor: None,
            key: Some(RecordKey {
                key,
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

    #[test]
    fn a_position_that_the_tables_cannot_hold_is_told() {
        use super::super::tables::POSITION_MAX;
        let mut replay = Replay::new();
        replay.record(POSITION_MAX, &answer()).unwrap();
        let told = replay.record(POSITION_MAX + 1, &keyed("key-2", RecordOutcome::SameAs(1)));
        let told = told.unwrap_err().to_string();
        assert!(told.contains("have no place"), "{told}");
        let mut replay = Replay::new();
        replay.snapshot(u64::MAX, u64::MAX);
        let told = replay.kept(u64::MAX, &answer()).unwrap_err().to_string();
        assert!(told.contains("have no place"), "{told}");
        let mut parts = SnapshotParts::of(&history(), 3, 3);
        parts.upto = u64::MAX;
        let last = parts.entries.last_mut().unwrap();
        let mut entry = StateEntry::decode(last, Layout::PRESENT).unwrap();
        entry.position = POSITION_MAX + 1;
        *last = codec::encode(&entry);
        let told = parts.refused();
        assert!(told.contains("have no place"), "{told}");
        let followed = |position| {
            let (tables, kinds) = (Tables::default(), catalogue::resource);
            RecordToApply::of(&tables, kinds, [1; 16], position, &answer()).map(|_| ())
        };
        assert_eq!(followed(POSITION_MAX), Ok(()));
        let told = followed(POSITION_MAX + 1).unwrap_err().to_string();
        assert!(told.contains("have no place"), "{told}");
    }

    #[test]
    fn the_first_fault_in_kept_records_is_reported_however_many_there_are() {
        let many = 1..2_000;
        let mut parts = SnapshotParts::of(&[answer()], 1, 1);
        (parts.covers, parts.upto) = (2_000, 2_000);
        let summary = parts.entries[0].clone();
        // Enough records for another thread to process them.
        let kept = |key: u64| {
            let body = Blob([b' '; 1_000].as_slice());
            let outcome = RecordOutcome::Answer {
                accepted: true,
                body,
            };
            keyed(&format!("key-{key}"), outcome)
        };
        let kept_by = many
            .map(|number| (number, kept(number)))
            .collect::<Vec<_>>();
        for notes in ALL_NOTES {
            parts.notes = notes;
            parts.kept = kept_by.clone();
            parts.entries[0] = summary.clone();
            let recovered = parts.load().and_then(Replay::finish).unwrap();
            assert_eq!(recovered.tables.keys(), 1_999);
            parts.kept[40].1 = kept(7);
            let expected = "position 41: kept by a snapshot: its key was used at position 7";
            assert_eq!(parts.refused(), expected);
            // Errors after it, in kept records, entries or records, make no difference.
            parts.kept[1_900].1 = b"no record".to_vec();
            assert_eq!(parts.refused(), expected);
            parts.kept[1_901].0 = 3;
            assert_eq!(parts.refused(), expected);
            parts.kept.truncate(100);
            parts.entries[0] = b"no summary".to_vec();
            assert_eq!(parts.refused(), expected);
        }
    }

    fn instead(of: u64) -> Vec<u8> {
        record(RecordOutcome::Instead {
            of,
            accepted: false,
            body: Blob(b"{}"),
        })
    }

    fn forgotten(through: u64) -> Vec<u8> {
        NewRecord::forgotten(through, Timestamp::default()).encode()
    }

    /// Returns the records with each change linked to its predecessor.
    fn linked(records: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let mut last = HashMap::new();
        let link = |(position, bytes): (u64, &Vec<u8>)| {
            let Ok(record) = Record::decode(bytes) else {
                return bytes.clone();
            };
            let changes = record.changes.iter().map(|change| NewChange {
                kind: change.kind,
                version: change.version,
                key: change.key,
                before: last.insert(change.key, position).unwrap_or_default(),
                revision: Revision::FIRST,
                advances: true,
                path: &[],
                event: Blob(change.event.0),
                base: None,
            });
            NewRecord {
                changes: changes.collect(),
                schema: record.schema,
                at: record.at,
                operation: record.operation,
                subject: record.subject,
                actor: record.actor,
                key: record.key.clone(),
                outbox: &record.outbox,
                outcome: record.outcome.clone(),
            }
            .encode()
        };
        (1..).zip(records).map(link).collect()
    }

    /// Replays these records at positions from 1 on, after linking them.
    fn replayed(records: &[Vec<u8>]) -> Result<Recovered, ReplayError> {
        let mut replay = Replay::new();
        for (position, record) in (1..).zip(&linked(records)) {
            replay.record(position, record)?;
        }
        replay.finish()
    }

    fn refused(records: &[Vec<u8>]) -> String {
        let Err(error) = replayed(records) else {
            panic!("it was replayed");
        };
        error.to_string()
    }

    #[test]
    fn a_key_leads_to_the_answer_that_has_taken_the_place_of_the_first() {
        let key = key_digest(3, "hq-1", "key-1");
        let recovered = replayed(&[answer()]).unwrap();
        assert_eq!(recovered.tables.key(key), Some(1));
        let recovered = replayed(&[answer(), instead(1)]).unwrap();
        assert_eq!(recovered.tables.key(key), Some(2));
        assert_eq!(recovered.tables.keys(), 1);
    }

    #[test]
    fn a_key_is_taken_once_and_only_its_own_answer_is_replaced() {
        let error = refused(&[instead(1)]);
        assert!(error.contains("takes the place of"), "{error}");
        let error = refused(&[answer(), answer()]);
        assert_eq!(error, "position 2: its key was used at position 1");
        for other in [0, 2] {
            let error = refused(&[answer(), instead(other)]);
            assert!(error.contains("takes the place of"), "{error}");
        }
    }

    #[test]
    fn a_forgotten_key_can_be_taken_again_and_an_unforgotten_one_cannot() {
        let recovered = replayed(&[answer(), forgotten(1), answer()]).unwrap();
        let key = key_digest(3, "hq-1", "key-1");
        assert_eq!(recovered.tables.key(key), Some(3));
        assert_eq!(recovered.counters.operations, [(3, 2)].into());
        let error = refused(&[forgotten(0), answer(), answer()]);
        assert!(error.contains("used at position 2"), "{error}");
        let error = refused(&[answer(), forgotten(2)]);
        assert!(error.contains("cannot forget"), "{error}");
        let recovered = replayed(&[answer(), forgotten(1)]).unwrap();
        assert_eq!(
            (recovered.tables.key(key), recovered.tables.keys()),
            (None, 0)
        );
    }

    #[test]
    fn an_answer_is_that_of_an_earlier_position() {
        let error = refused(&[record(RecordOutcome::SameAs(1))]);
        assert!(error.contains("later position 1"), "{error}");
        let second = keyed("key-2", RecordOutcome::SameAs(1));
        let recovered = replayed(&[answer(), second]).unwrap();
        assert!(recovered.tables.is_first(1, 0));
    }

    /// Returns an actor's key, and the event that applies its fact.
    fn fact(subject: &str, revision: i64) -> (Digest, Vec<u8>) {
        let fact = Fact {
            id: subject.into(),
            revision: Revision::new(revision),
            facts: ActorFact {
                lifecycle: ActorLifecycle::Active,
            },
        };
        let event = codec::encode(&FactEvent::Put(Box::new(fact)));
        (ActorFact::KIND.key(&[subject]), event)
    }

    fn change(changes: &[(Digest, Vec<u8>)]) -> NewRecord<'_> {
        let changes = changes.iter().map(|(key, event)| NewChange {
            kind: ActorFact::KIND.tag,
            version: 1,
            key: *key,
            before: 0,
            revision: Revision::FIRST,
            advances: true,
            path: &[],
            event: Blob(event.as_slice()),
            base: None,
        });
        NewRecord {
            schema: SCHEMA,
            at: Timestamp::default(),
            operation: 0,
            subject: "hq-1",
            actor: None,
            key: None,
            changes: changes.collect(),
            outbox: &[],
            outcome: RecordOutcome::None,
        }
    }

    fn facts(changes: &[(Digest, Vec<u8>)]) -> Vec<u8> {
        change(changes).encode()
    }

    /// Returns many facts, more than a chunk for each worker.
    fn many() -> Vec<Vec<u8>> {
        (0..40_000)
            .map(|number| {
                let revision = 1 + number / 4_000;
                let subject = |number| format!("actor-{}", number % 4_000);
                facts(&[
                    fact(&subject(number), revision),
                    fact(&subject(number + 1), 900),
                ])
            })
            .collect()
    }

    #[test]
    fn each_resource_has_its_changes_in_order_however_many_workers_there_are() {
        let recovered = replayed(&many()).unwrap();
        assert_eq!(recovered.tables.resources(), 4_000);
        let key = ActorFact::KIND.key(&["actor-3999"]);
        let mut state: Option<Fact<ActorFact>> = None;
        let position = recovered.tables.read(key, &mut |bytes| {
            state = Some(codec::decode(bytes).unwrap())
        });
        assert_eq!(position, Some(40_000));
        assert_eq!(state.unwrap().revision.number(), 10);
        assert_eq!(recovered.counters.operations, [(0, 40_000)].into());
    }

    #[test]
    fn the_first_record_that_cannot_follow_is_named_wherever_its_workers_are() {
        let mut records = many();
        let (key, _) = fact("actor-1", 1);
        let (other, event) = fact("actor-2", 1);
        for position in [3_000, 5_000, 5_001, 39_000] {
            records[position - 1] = facts(&[(key, b"no event".to_vec())]);
        }
        records[2_499] = facts(&[(key, event.clone())]);
        let error = refused(&records);
        assert_eq!(
            error,
            "position 2500: actor: the event is another resource's"
        );
        records[1_000] = facts(&[(other, event.clone()), (other, event)]);
        let error = refused(&records);
        assert_eq!(error, "position 1001: it changes a resource twice");
        let mut unknown = records[0].clone();
        // The kind and its version are the bytes before the first key.
        let place = unknown
            .windows(16)
            .position(|part| part == fact("actor-0", 1).0.0);
        unknown[place.unwrap() - 2] = 99;
        records[10] = unknown;
        let error = refused(&records);
        assert!(
            error.starts_with("position 11: resource kind 99 is not known here"),
            "{error}"
        );
    }

    #[test]
    fn a_record_that_cannot_follow_is_reported_before_a_later_unreadable_one() {
        // A worker finds the first error, and is asked for it only when the second has been found.
        let (key, _) = fact("actor-1", 1);
        let cannot_follow = facts(&[(key, b"no event".to_vec())]);
        let no_record = b"no record".to_vec();
        let error = refused(&[cannot_follow.clone(), no_record.clone()]);
        assert!(error.starts_with("position 1: actor"), "{error}");
        let error = refused(&[no_record, cannot_follow]);
        assert!(error.starts_with("position 1: "), "{error}");
    }

    #[test]
    fn after_an_error_nothing_more_can_be_replayed() {
        let mut replay = Replay::new();
        replay.record(1, b"no record").unwrap_err();
        assert!(replay.record(1, &answer()).is_err());
        assert!(replay.finish().is_err());
    }

    /// The parts of a snapshot of these tables.
    struct SnapshotParts {
        covers: u64,
        upto: u64,
        kept: Vec<(u64, Vec<u8>)>,
        entries: Vec<Vec<u8>>,
        notes: Notes,
    }

    const NOTHING: KeyUse = KeyUse {
        key: None,
        shares: None,
        instead_of: None,
    };

    const ALL_NOTES: [Notes; 4] = [Notes::None, Notes::Taken, Notes::Some, Notes::Compared];

    /// The notes that a snapshot has about kept records.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Notes {
        /// None, as in a snapshot of an older program.
        None,
        /// The notes are used instead of the records.
        Taken,
        /// The same, but only records at even positions have notes.
        Some,
        /// The notes are compared with the records.
        Compared,
    }

    /// Returns the tables after the first `covers` records, with those up to `upto` applied as by a standby.
    fn later(records: &[Vec<u8>], covers: usize, upto: usize) -> Tables {
        let tables = replayed(&records[..covers]).unwrap().tables;
        for (position, record) in (1..).zip(&linked(&records[..upto])).skip(covers) {
            let of = RecordToApply::of(&tables, catalogue::resource, [0; 16], position, record);
            let followed = of.unwrap();
            let mut changes = PreparedChange::all(followed.changes);
            tables.reserve(&mut changes, followed.key);
            if let Some(through) = followed.forgets {
                tables.forget(through);
            }
            tables.publish_commit(position, &mut changes, followed.key);
            if let Some(first) = followed.first {
                tables.note_first(first, position);
            }
            tables.finish_lists(&changes);
        }
        tables
    }

    impl SnapshotParts {
        /// Takes a snapshot of the first `covers` records, with the states at `upto`.
        fn of(records: &[Vec<u8>], covers: usize, upto: usize) -> Self {
            let recovered = replayed(&records[..covers]).unwrap();
            let later = later(records, covers, upto);
            let covered = u64::try_from(covers).unwrap();
            let mut kept = Vec::new();
            for (position, bytes) in (1..).zip(&records[..covers]) {
                let record = Record::decode(bytes).unwrap();
                let mut bytes = Vec::new();
                let bounds = (covered, recovered.tables.forgotten());
                let used = keep(&later, bounds, position, &record, &mut bytes);
                if used.unwrap().is_some() {
                    kept.push((position, bytes));
                }
            }
            let summary = Summary {
                forgotten: recovered.tables.forgotten(),
                counters: recovered.counters,
            };
            let mut entries = vec![summary.encode()];
            // States are copied one by one: some are earlier, some later ones.
            later.each(|kind, key, position, bytes| {
                let entry = StateEntry {
                    kind,
                    version: 1,
                    key,
                    position,
                    listed_at: None,
                    state: Blob(bytes),
                };
                if key.0[0] & 1 == 0 {
                    entries.push(codec::encode(&entry));
                }
            });
            recovered.tables.each(|kind, key, position, bytes| {
                let entry = StateEntry {
                    kind,
                    version: 1,
                    key,
                    position,
                    listed_at: None,
                    state: Blob(bytes),
                };
                if key.0[0] & 1 == 1 {
                    entries.push(codec::encode(&entry));
                }
            });
            Self {
                covers: covered,
                upto: u64::try_from(upto).unwrap(),
                kept,
                entries,
                notes: Notes::None,
            }
        }

        fn load(&self) -> Result<Replay, ReplayError> {
            let mut replay = Replay::new();
            // Everything replayed before a snapshot is discarded.
            replay.record(1, &answer())?;
            if self.notes == Notes::Compared {
                replay.compare_notes();
            }
            replay.snapshot(self.covers, self.upto);
            for (position, bytes) in &self.kept {
                let has_note = match self.notes {
                    Notes::None => false,
                    Notes::Some => position % 2 == 0,
                    Notes::Taken | Notes::Compared => true,
                };
                if has_note {
                    let (mut note, record) = (Vec::new(), Record::decode(bytes));
                    let used = record.map_or(NOTHING, |record| KeyUse::of(&record));
                    used.encode_into(&mut note);
                    replay.noted(*position, &note)?;
                }
                if !(has_note && replay.takes_notes()) {
                    replay.kept(*position, bytes)?;
                }
            }
            for entry in &self.entries {
                replay.entry(entry)?;
            }
            Ok(replay)
        }

        fn refused(&self) -> String {
            let Err(error) = self.load().and_then(Replay::finish) else {
                panic!("it was loaded");
            };
            error.to_string()
        }
    }

    /// A model of the keys after records up to some position, each entered at once.
    #[derive(Default)]
    struct KeyModel {
        used: HashMap<String, u64>,
        forgotten: u64,
    }

    impl KeyModel {
        fn taken(&self, key: &str) -> Option<u64> {
            let taken = self.used.get(key).copied();
            taken.filter(|taken| *taken > self.forgotten)
        }

        /// Uses a key, perhaps in place of another response; returns what is wrong with that.
        fn take(
            &mut self,
            position: u64,
            key: &str,
            of: Option<u64>,
            is_kept: bool,
        ) -> Option<String> {
            let taken = self.taken(key);
            let is_free = match is_kept {
                true => taken.is_none() || taken == of,
                false => taken == of,
            };
            if is_free {
                self.used.insert(key.to_owned(), position);
                return None;
            }
            let kept = if is_kept { ReplayError::KEPT } else { "" };
            Some(match (taken, of) {
                (_, Some(of)) if !is_kept => format!(
                    "position {position}: its answer takes the place of the one at position {of}, \
                     which does not have its key"
                ),
                (taken, _) => format!(
                    "position {position}: {kept}its key was used at position {}",
                    taken.unwrap_or_default()
                ),
            })
        }
    }

    #[test]
    fn keys_indexed_at_the_end_equal_those_entered_one_by_one() {
        let seed = crate::base::testing::seed();
        let mut random = SmallRng::seed_from_u64(seed);
        let (mut sound, mut faulty) = (0, 0);
        for _ in 0..300 {
            let mut model = KeyModel::default();
            let mut expected: Option<String> = None;
            let mut parts = SnapshotParts::of(&[answer()], 1, 1);
            parts.kept.clear();
            let covers = random.random_range(1..20_u64);
            (parts.covers, parts.upto) = (covers, covers);
            parts.notes = ALL_NOTES[random.random_range(0..ALL_NOTES.len())];
            let mut records = Vec::new();
            for position in 1..=covers + random.random_range(0..40) {
                let is_kept = position <= covers;
                if !is_kept && random.random_ratio(1, 12) {
                    let through = random.random_range(0..position);
                    model.forgotten = model.forgotten.max(through);
                    records.push((position, forgotten(through)));
                    continue;
                }
                let key = format!("key-{}", random.random_range(0..60));
                let taken = model.taken(&key);
                let of = match random.random_ratio(1, 60) {
                    // This position is almost always wrong.
                    true => Some(random.random_range(0..position)),
                    false => taken,
                };
                if of.is_none() && taken.is_some() && random.random_ratio(9, 10) {
                    continue;
                }
                let body = Blob(b"{}".as_slice());
                let bytes = keyed(
                    &key,
                    match of {
                        Some(of) => RecordOutcome::Instead {
                            of,
                            accepted: true,
                            body,
                        },
                        None => RecordOutcome::Answer {
                            accepted: true,
                            body,
                        },
                    },
                );
                let wrong = model.take(position, &key, of, is_kept);
                expected = expected.or(wrong);
                match is_kept {
                    true => parts.kept.push((position, bytes)),
                    false => records.push((position, bytes)),
                }
            }
            let replayed = parts.load().and_then(|mut replay| {
                for (position, bytes) in &records {
                    replay.record(*position, bytes)?;
                }
                replay.finish()
            });
            match (replayed, expected) {
                (Ok(recovered), None) => {
                    sound += 1;
                    for number in 0..60 {
                        let key = format!("key-{number}");
                        let found = recovered.tables.key(key_digest(3, "hq-1", &key));
                        assert_eq!(found, model.taken(&key), "SEED={seed}");
                    }
                }
                (Err(error), Some(expected)) => {
                    faulty += 1;
                    assert_eq!(error.to_string(), expected, "SEED={seed}");
                }
                (replayed, expected) => {
                    panic!("SEED={seed}: {:?} instead of {expected:?}", replayed.err());
                }
            }
        }
        assert!(sound > 20 && faulty > 20, "SEED={seed}: {sound} {faulty}");
    }

    #[test]
    fn a_note_that_differs_from_its_record_is_reported_if_they_are_compared() {
        let used = KeyUse::of(&Record::decode(&answer()).unwrap());
        let other = KeyUse {
            key: Some(Digest([7; 16])),
            ..used
        };
        let load = |compares, position, used: KeyUse| {
            let mut replay = Replay::new();
            if compares {
                replay.compare_notes();
            }
            replay.snapshot(2, 2);
            let mut note = Vec::new();
            used.encode_into(&mut note);
            replay.noted(position, &note)?;
            if !replay.takes_notes() {
                replay.kept(position, &answer())?;
            }
            replay.entry(&Summary::default().encode())?;
            replay.finish().map(|recovered| recovered.tables.keys())
        };
        for compares in [true, false] {
            assert_eq!(load(compares, 1, used).unwrap(), 1);
            let later = KeyUse {
                shares: Some(1),
                ..used
            };
            assert!(load(compares, 1, later).is_err());
            let told = load(compares, 3, used).unwrap_err().to_string();
            assert!(told.contains("out of place"), "{told}");
        }
        // Without a comparison nobody reads the record, so the difference stays unnoticed.
        assert_eq!(load(false, 2, other).unwrap(), 1);
        let told = load(true, 2, other).unwrap_err().to_string();
        let expected = "position 2: kept by a snapshot: its note says something else";
        assert_eq!(told, expected);
        let mut replay = Replay::new();
        replay.snapshot(2, 2);
        let told = replay.noted(1, b"no note").unwrap_err().to_string();
        assert!(told.contains("a note of version"), "{told}");
    }

    #[test]
    fn a_key_twice_in_a_snapshot_is_refused_before_its_states_to_try_another() {
        let mut parts = SnapshotParts::of(&[answer()], 1, 1);
        (parts.covers, parts.upto) = (2, 2);
        parts.kept = vec![(1, answer()), (2, answer())];
        let mut replay = Replay::new();
        replay.snapshot(2, 2);
        for (position, bytes) in &parts.kept {
            replay.kept(*position, bytes).unwrap();
        }
        let error = replay.entry(&parts.entries[0]).unwrap_err().to_string();
        let expected = "position 2: kept by a snapshot: its key was used at position 1";
        assert_eq!(error, expected);
    }

    #[test]
    fn a_snapshot_with_a_resource_twice_is_refused_whatever_follows() {
        let records = history();
        let mut parts = SnapshotParts::of(&records, 10, 10);
        let again = parts.entries[1].clone();
        let twice = StateEntry::decode(&again, Layout::PRESENT).unwrap();
        let expected = format!(
            "position {}: actor: a snapshot has a resource twice",
            twice.position
        );
        parts.entries.push(again.clone());
        assert_eq!(parts.refused(), expected);
        let mut replay = parts.load().unwrap();
        let told = replay.record(11, &records[10]).unwrap_err();
        assert_eq!(told.to_string(), expected);
        // Another snapshot can be used instead.
        let mut replay = parts.load().unwrap();
        let told = replay.snapshot_shown().unwrap_err();
        assert_eq!(told.to_string(), expected);
        parts.entries.pop();
        replay.snapshot(parts.covers, parts.upto);
        for (position, bytes) in &parts.kept {
            replay.kept(*position, bytes).unwrap();
        }
        for entry in &parts.entries {
            replay.entry(entry).unwrap();
        }
        replay.snapshot_shown().unwrap();
        let late = replay.entry(&again).unwrap_err().to_string();
        assert_eq!(late, "a snapshot: an entry is out of place");
    }

    #[test]
    fn later_records_find_many_snapshot_states_and_a_faulty_one_fails_first() {
        let records = linked(&many());
        // With two processors, more than a chunk for each worker.
        let mut parts = SnapshotParts::of(&records, 20_000, 20_000);
        let mut replay = parts.load().unwrap();
        replay.snapshot_shown().unwrap();
        for (position, record) in (20_001..).zip(&records[20_000..]) {
            replay.record(position, record).unwrap();
        }
        let recovered = replay.finish().unwrap();
        let whole = replayed(&many()).unwrap();
        assert_eq!(recovered.tables.resources(), 4_000);
        whole.tables.each(|kind, key, position, bytes| {
            let found = recovered
                .tables
                .read(key, &mut |state| assert_eq!(state, bytes));
            assert_eq!((found, kind), (Some(position), ActorFact::KIND.tag));
        });
        let mut wrong = StateEntry::decode(&parts.entries[7], Layout::PRESENT).unwrap();
        let position = wrong.position;
        wrong.state = Blob(b"no state");
        parts.entries[7] = codec::encode(&wrong);
        // The error is reported at one of the entries, or when all are read.
        let told = parts.load().and_then(|mut replay| replay.snapshot_shown());
        let told = told.unwrap_err().to_string();
        assert!(
            told.starts_with(&format!("position {position}: actor")),
            "{told}"
        );
    }

    /// Returns records of every kind.
    fn history() -> Vec<Vec<u8>> {
        let mut records = vec![
            answer(),
            keyed("key-2", RecordOutcome::SameAs(1)),
            facts(&[fact("a", 1), fact("b", 1)]),
            instead(1),
            forgotten(1),
        ];
        for number in 0..200 {
            let subjects = [number % 7, 7 + number % 5].map(|number| format!("actor-{number}"));
            records.push(facts(&subjects.map(|subject| fact(&subject, number + 1))));
            let key = format!("key-{}", 10 + number);
            let body = Blob(b"{}".as_slice());
            let accepted = false;
            records.push(keyed(&key, RecordOutcome::Answer { accepted, body }));
        }
        records.push(forgotten(100));
        let body = Blob(b"{}".as_slice());
        let accepted = false;
        records.push(keyed("key-10", RecordOutcome::Answer { accepted, body }));
        linked(&records)
    }

    #[test]
    fn a_snapshot_and_the_log_after_it_make_what_the_whole_log_makes() {
        let records = history();
        let whole = replayed(&records).unwrap();
        for covers in [1, 4, 5, 6, 50, 203, records.len() - 1, records.len()] {
            for upto in [covers, covers + 1, records.len()] {
                // A standby goes on applying records meanwhile, including those that forget keys.
                let upto = upto.min(records.len());
                let mut replay = SnapshotParts::of(&records, covers, upto).load().unwrap();
                for (position, record) in (1..).zip(&records).skip(covers) {
                    replay.record(position, record).unwrap();
                }
                let recovered = replay.finish().unwrap();
                assert_eq!(
                    recovered.tables.digest(),
                    whole.tables.digest(),
                    "covers {covers}, up to {upto}"
                );
                assert_eq!(recovered.counters, whole.counters);
                assert_eq!(recovered.covered.position, u64::try_from(covers).unwrap());
                assert_eq!(recovered.tables.forgotten(), 100);
            }
        }
    }

    #[test]
    fn a_snapshot_may_keep_an_answer_and_the_one_in_its_place() {
        // While the snapshot is taken, a third response replaces the second: both lead to the key.
        let records = [answer(), instead(1), instead(2)];
        let held = SnapshotParts::of(&records, 2, 3);
        assert_eq!(held.kept.len(), 2);
        let mut replay = held.load().unwrap();
        replay.record(3, &records[2]).unwrap();
        let recovered = replay.finish().unwrap();
        let key = key_digest(3, "hq-1", "key-1");
        assert_eq!(
            (recovered.tables.key(key), recovered.tables.keys()),
            (Some(3), 1)
        );
        // A response that replaces another one than it was kept with is invalid.
        let mut other = SnapshotParts::of(&records, 2, 3);
        other.kept[1].1 = instead(7);
        assert!(other.refused().contains("was used"), "{}", other.refused());
    }

    #[test]
    fn contents_that_a_snapshot_cannot_have_are_refused() {
        let records = history();
        let held = || SnapshotParts::of(&records, 100, 120);
        let mut later = held();
        later.upto = 100;
        assert!(
            later.refused().contains("a later state"),
            "{}",
            later.refused()
        );
        let mut twice = held();
        let entry = twice.entries[1].clone();
        twice.entries.push(entry);
        assert!(twice.refused().contains("twice"), "{}", twice.refused());
        let mut headless = held();
        headless.entries.clear();
        assert!(headless.refused().contains("no beginning"));
        let mut disordered = held();
        disordered.kept.swap(0, 1);
        assert!(disordered.refused().contains("out of place"));
        let mut doubled = held();
        let (position, bytes) = doubled.kept[5].clone();
        doubled.kept[6] = (position + 1, bytes);
        assert!(
            doubled.refused().contains("was used"),
            "{}",
            doubled.refused()
        );
        let mut changing = held();
        changing.kept = vec![(3, records[2].clone())];
        assert!(changing.refused().contains("it changes something"));
        let mut replay = held().load().unwrap();
        let error = replay.record(100, &records[99]).unwrap_err().to_string();
        assert!(error.contains("has it already"), "{error}");
    }

    /// Returns a relationship's key, and the event that applies its fact; some relationships are revoked.
    fn relationship(number: usize) -> (Digest, Vec<u8>) {
        let id = format!("relationship-{number}");
        let text = |text: &str| serde_json::from_value(Value::from(text)).unwrap();
        let fact = Fact {
            id: id.as_str().into(),
            revision: Revision::FIRST,
            facts: Relationship {
                object: text("headquarters"),
                relation: text("finance_operator"),
                subject: text(&format!("subject-{}", number % 3)),
                state: match number % 5 {
                    0 => RelationshipState::Revoked,
                    _ => RelationshipState::Applied,
                },
            },
        };
        let event = codec::encode(&FactEvent::Put(Box::new(fact)));
        (Relationship::KIND.key(&[&id]), event)
    }

    #[test]
    fn snapshot_states_of_every_kind_are_indexed_and_match_their_keys() {
        let mut records = Vec::new();
        for number in 0..40 {
            records.push(facts(&[fact(&format!("actor-{number}"), 1)]));
            let changes = [relationship(number)];
            let mut record = change(&changes);
            record.changes[0].kind = Relationship::KIND.tag;
            records.push(record.encode());
        }
        let whole = replayed(&records).unwrap();
        let held = || SnapshotParts::of(&linked(&records), records.len(), records.len());
        let recovered = held().load().and_then(Replay::finish).unwrap();
        assert_eq!(recovered.tables.digest(), whole.tables.digest());
        let list = Relationship::applied("headquarters", "finance_operator", "subject-1");
        assert_eq!(recovered.tables.listed(list).len(), 11);
        for number in 1..held().entries.len() {
            let mut altered = held();
            let mut entry = StateEntry::decode(&altered.entries[number], Layout::PRESENT).unwrap();
            entry.key = Digest([7; 16]);
            altered.entries[number] = codec::encode(&entry);
            let told = altered.refused();
            assert!(told.contains("the state is another resource's"), "{told}");
        }
    }

    #[test]
    fn two_resources_that_hold_one_name_are_both_named() {
        let lines = samples::NDJSON.lines();
        let mut facts = lines.map(|line| serde_json::from_str::<Value>(line).unwrap());
        let fact = facts.find(|fact| fact["kind"] == "mother-profile").unwrap();
        let fact: MotherProfileFact = serde_json::from_value(fact["facts"].clone()).unwrap();
        let ids = [1, 2].map(|id| Uuid::from_u128(id).to_string());
        let keys = ids.each_ref().map(|id| MotherProfile::KIND.key(&[id]));
        let mut records = Vec::new();
        for (id, key) in ids.iter().zip(keys) {
            let event = MotherProfile::put(None, id, Revision::FIRST, &fact).unwrap();
            let event = codec::encode(&event);
            let changes = [(key, event)];
            let mut record = change(&changes);
            record.changes[0].kind = MotherProfile::KIND.tag;
            records.push(record.encode());
        }
        assert!(replayed(&records[..1]).is_ok() && replayed(&records[1..]).is_ok());
        let error = refused(&records);
        assert!(error.starts_with("position 2: mother-profile"), "{error}");
        for key in keys {
            assert!(error.contains(&format!("{key:?}")), "{error}");
        }
    }
}
