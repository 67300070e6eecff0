//! Reads the records that a snapshot keeps, for data that the snapshot's states lack: the use of a key and, in
//! records of older programs, messages. Where a note has that data, the record is read only to be compared with it.

use std::sync::Arc;

use super::key_use::KeyUse;
use super::key_uses::KeyUses;
use super::lineage::Lineage;
use super::messages::MessagesOfOld;
use super::record::{Record, RecordOutcome};
use super::replay_error::ReplayError;
use super::replay_thread::ReplayWork;
use super::tables::Tables;

/// Processes kept records, in order.
pub(super) struct Keeping {
    pub(super) tables: Arc<Tables>,
    pub(super) lineage: Lineage,
    pub(super) old: MessagesOfOld,
    pub(super) uses: Arc<KeyUses>,
}

impl ReplayWork for Keeping {
    /// Position of the record, and the snapshot's note about it.
    type Task = (u64, Option<KeyUse>);

    fn work(&mut self, task: &Self::Task, payload: &[u8]) -> Result<(), ReplayError> {
        let (position, noted) = *task;
        let at = |what: String| ReplayError::of_kept(position, what);
        let record = Record::decode(payload)
            .map_err(|error| ReplayError::unread(Some(position), ReplayError::KEPT, &error))?;
        if !record.changes.is_empty() || matches!(record.outcome, RecordOutcome::Forgotten { .. }) {
            return Err(at("it changes something".to_owned()));
        }
        let used = KeyUse::of(&record);
        if noted.is_some_and(|noted| noted != used || !record.outbox.is_empty()) {
            return Err(at("its note says something else".to_owned()));
        }
        let taken = self.uses.note(&self.tables, position, used);
        taken.map_err(at)?;
        for message in &record.outbox {
            let log_id = self.lineage.log_at(position);
            self.old.kept(position, record.at, message, log_id);
        }
        Ok(())
    }
}
