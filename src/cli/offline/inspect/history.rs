//! States before the records that are read. They are rebuilt from the log, or taken from a snapshot if a compaction
//! has removed records.

use std::collections::HashMap;

use indicatif::ProgressBar;
use wal::live::LiveReader;
use wal::{BoxError, SnapshotInfo, Visitor};

use super::common_args::{failed, known};
use crate::base::codec::{Blob, DecodeError};
use crate::base::digest::Digest;
use crate::base::time::Timestamp;
use crate::cli::exit::Failure;
use crate::cli::open::{lineage, refusal};
use crate::domain::registered::AnyResource;
use crate::journal::lineage::Lineage;
use crate::journal::messages::{KIND_AND_VERSION, MessagesOfOld, Sent};
use crate::journal::record::{Record, RecordChange};
use crate::journal::snapshot::{Layout, StateEntry, Summary};

/// A resource after the last commit that was read.
#[derive(Clone)]
pub(super) struct ResourceAt {
    pub(super) resource: &'static dyn AnyResource,
    /// The position of the last commit that changed the resource.
    pub(super) position: u64,
    pub(super) state: Vec<u8>,
}

/// Changes of outbox messages that records cause without listing them: the creation of messages, and what older
/// programs did with them.
#[derive(Default)]
pub(super) struct Unlisted {
    messages: MessagesOfOld,
    lineage: Lineage,
}

impl Unlisted {
    /// Starts at the beginning of this reader's log.
    pub(super) fn of(reader: &LiveReader) -> Result<Self, Failure> {
        let identity = reader.identity().map_err(|error| failed(reader, &error))?;
        Ok(Self {
            lineage: lineage(&identity),
            ..Self::default()
        })
    }

    /// Drops the messages of another snapshot.
    pub(super) fn begin(&mut self) {
        self.messages = MessagesOfOld::default();
    }

    /// Takes in a record that the snapshot keeps.
    pub(super) fn kept(&mut self, position: u64, record: &Record<'_>) {
        let log_id = self.lineage.log_at(position);
        for message in &record.outbox {
            self.messages.kept(position, record.at, message, log_id);
        }
    }

    /// Takes in a state in the snapshot.
    pub(super) fn entry(&mut self, entry: &StateEntry<'_>) -> Result<(), DecodeError> {
        self.messages.entry(entry)
    }

    /// Ends a snapshot, and passes the messages that exist only in its kept records to `put`.
    pub(super) fn end_of_snapshot(
        &mut self,
        mut put: impl FnMut(&StateEntry<'_>) -> Result<(), BoxError>,
    ) -> Result<(), Failure> {
        let (kind, version) = KIND_AND_VERSION;
        for (position, (key, state)) in self.messages.take_kept() {
            let put = put(&StateEntry {
                kind,
                version,
                key,
                position,
                listed_at: None,
                state: Blob(&state),
            });
            put.map_err(Failure::other)?;
        }
        Ok(())
    }

    /// Returns the unlisted changes by the record at `position`; to be called for each record in order.
    pub(super) fn of_record(
        &mut self,
        position: u64,
        record: &Record<'_>,
    ) -> Result<Vec<Sent>, DecodeError> {
        let log_id = self.lineage.log_at(position);
        self.messages.record(position, record, log_id)
    }
}

/// The states of the resources read so far.
#[derive(Default)]
pub(super) struct States {
    pub(super) all: HashMap<Digest, ResourceAt>,
}

impl States {
    /// Stores a resource from a snapshot.
    ///
    /// # Errors
    /// When this program does not know the kind, or that version of it.
    pub(super) fn put(&mut self, entry: &StateEntry<'_>) -> Result<(), BoxError> {
        let resource = known(entry.kind, entry.version)?;
        let standing = ResourceAt {
            resource,
            position: entry.position,
            state: resource.present(entry.stored())?.into_owned(),
        };
        self.all.insert(entry.key, standing);
        Ok(())
    }

    /// Applies the change at `position`; returns the state's bytes before it.
    ///
    /// # Errors
    /// When the change does not fit the state.
    pub(super) fn apply(
        &mut self,
        position: u64,
        at: Timestamp,
        change: &RecordChange<'_>,
    ) -> Result<Option<Vec<u8>>, BoxError> {
        let resource = known(change.kind, change.version)?;
        let before = self.all.remove(&change.key);
        let mut state = Vec::new();
        let replayed = change
            .follows_on(before.as_ref().map_or(0, |standing| standing.position))
            .and_then(|()| {
                let before = before.as_ref().map(|standing| &standing.state[..]);
                resource.replay(before, change.stored(), at, &mut state)
            });
        let replayed = replayed.map_err(|error| format!("{}: {error}", resource.kind().name))?;
        let before = before.map(|standing| standing.state);
        if replayed.key != change.key {
            let kind = resource.kind().name;
            return Err(format!("{kind}: the event is another resource's").into());
        }
        let standing = ResourceAt {
            resource,
            position,
            state,
        };
        self.all.insert(change.key, standing);
        Ok(before)
    }

    /// Whether the resource's state already includes the change at `position`.
    pub(super) fn has(&self, position: u64, change: &RecordChange<'_>) -> bool {
        let standing = self.all.get(&change.key);
        standing.is_some_and(|standing| standing.position >= position)
    }
}

/// Receives the content of a snapshot.
pub(super) trait SnapshotVisitor {
    /// The snapshot begins; drops the content of an earlier one.
    fn begin(&mut self);

    /// Takes the snapshot's summary of the whole log.
    fn summary(&mut self, _summary: Summary) {}

    /// Takes a record that the snapshot keeps without its changes.
    fn kept(&mut self, _position: u64, _record: &Record<'_>) -> Result<(), BoxError> {
        Ok(())
    }

    /// Takes the state of a resource.
    fn state(&mut self, _entry: &StateEntry<'_>) -> Result<(), BoxError> {
        Ok(())
    }
}

/// Passes a snapshot of the log to `look`: the newest one that can be read, or the oldest. `bar` shows the progress.
pub(super) fn show(
    reader: &LiveReader,
    oldest: bool,
    look: &mut dyn SnapshotVisitor,
    bar: &ProgressBar,
) -> Result<Option<SnapshotInfo>, Failure> {
    let mut showing = Showing {
        look,
        layout: None,
        bar,
    };
    reader
        .show_snapshot(oldest, &mut showing)
        .map_err(|error| failed(reader, &error))
}

struct Showing<'a> {
    look: &'a mut dyn SnapshotVisitor,
    layout: Option<Layout>,
    bar: &'a ProgressBar,
}

impl Visitor for Showing<'_> {
    fn record(&mut self, _: wal::Record<'_>) -> Result<(), BoxError> {
        Ok(())
    }

    fn snapshot(&mut self, _: &SnapshotInfo) -> Result<(), BoxError> {
        self.layout = None;
        self.look.begin();
        Ok(())
    }

    fn kept(&mut self, record: wal::Record<'_>) -> Result<(), BoxError> {
        let decoded = Record::decode(record.payload).map_err(refusal)?;
        self.look.kept(record.position, &decoded)
    }

    fn entry(&mut self, entry: &[u8]) -> Result<(), BoxError> {
        let Some(layout) = self.layout else {
            self.layout = Some(Layout::of(entry).map_err(refusal)?);
            let summary = Summary::decode(entry).map_err(refusal)?;
            self.look.summary(summary);
            return Ok(());
        };
        let entry = StateEntry::decode(entry, layout)?;
        known(entry.kind, entry.version).map_err(refusal)?;
        self.look.state(&entry)
    }

    fn progress_of_snapshot(&mut self, done: u64, total: u64) {
        self.bar.set_length(total);
        self.bar.set_position(done);
    }
}
