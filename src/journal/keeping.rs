//! The records that a snapshot keeps, as far as they say more than the snapshot's states do: that a
//! key was used, and, in those of older programs, what messages there are.

use std::sync::Arc;

use super::births::Lineage;
use super::lane::Work;
use super::messages::MessagesOfOld;
use super::record::{Record, RecordOutcome};
use super::replay_error::ReplayError;
use super::rules;
use super::tables::Tables;

const KEPT: &str = "kept by a snapshot: ";

/// Takes kept records in, in order.
pub(super) struct Keeping {
    pub(super) tables: Arc<Tables>,
    pub(super) lineage: Lineage,
    pub(super) old: MessagesOfOld,
}

impl Work for Keeping {
    /// The position of the record.
    type Task = u64;

    fn work(&mut self, position: &u64, payload: &[u8]) -> Result<(), ReplayError> {
        let position = *position;
        let at = |what: String| at(position, what);
        let record = Record::decode(payload)
            .map_err(|error| ReplayError::unread(Some(position), KEPT, &error))?;
        if !record.changes.is_empty() || matches!(record.outcome, RecordOutcome::Forgotten { .. }) {
            return Err(at("it changes something".to_owned()));
        }
        let taking = rules::take_key(&self.tables, position, &record, |taken| {
            match (taken, &record.outcome) {
                // The response that it replaced may be forgotten.
                (None, _) => Ok(()),
                (Some(taken), RecordOutcome::Instead { of, .. }) if *of == taken => Ok(()),
                (Some(taken), _) => Err(format!("its key was used at position {taken}")),
            }
        });
        taking.map_err(at)?;
        for message in &record.outbox {
            let log_id = self.lineage.log_at(position);
            self.old.kept(position, record.at, message, log_id);
        }
        Ok(())
    }
}

/// What is wrong with the kept record at this position.
pub(super) fn at(position: u64, what: impl std::fmt::Display) -> ReplayError {
    ReplayError::at(position, format!("{KEPT}{what}"))
}
