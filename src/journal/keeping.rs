//! The records that a snapshot keeps, as far as they say more than the snapshot's states do: that a
//! key was used, and, in those of older programs, what messages there are.

use std::sync::Arc;

use super::births::Lineage;
use super::key_uses::KeyUses;
use super::lane::Work;
use super::messages::MessagesOfOld;
use super::record::{Record, RecordOutcome};
use super::replay_error::ReplayError;
use super::tables::Tables;

/// Takes kept records in, in order.
pub(super) struct Keeping {
    pub(super) tables: Arc<Tables>,
    pub(super) lineage: Lineage,
    pub(super) old: MessagesOfOld,
    pub(super) uses: Arc<KeyUses>,
}

impl Work for Keeping {
    /// The position of the record.
    type Task = u64;

    fn work(&mut self, position: &u64, payload: &[u8]) -> Result<(), ReplayError> {
        let position = *position;
        let at = |what: String| ReplayError::of_kept(position, what);
        let record = Record::decode(payload)
            .map_err(|error| ReplayError::unread(Some(position), ReplayError::KEPT, &error))?;
        if !record.changes.is_empty() || matches!(record.outcome, RecordOutcome::Forgotten { .. }) {
            return Err(at("it changes something".to_owned()));
        }
        let noted = self.uses.note(&self.tables, position, &record);
        noted.map_err(at)?;
        for message in &record.outbox {
            let log_id = self.lineage.log_at(position);
            self.old.kept(position, record.at, message, log_id);
        }
        Ok(())
    }
}
