//! Applies a record that another process has committed to tables that have all records before it: with the same
//! changes, published in the same way, as by a commit of this process.

use super::key_use::KeyUse;
use super::messages::completes_old;
use super::record::{Record, RecordChange, follows};
use super::replay_error::ReplayError;
use super::rules;
use super::tables::Tables;
use crate::base::codec::DecodeError;
use crate::base::digest::KeyDigest;
use crate::base::time::Timestamp;
use crate::domain::change::Change;
use crate::domain::outbox::message::born;
use crate::domain::registered::{Kinds, known};
use crate::domain::resource::Source as _;

/// A checked record, ready to be published.
pub struct RecordToApply {
    /// Time of the decision.
    pub at: Timestamp,
    /// Changes of resources, including the messages sent.
    pub changes: Vec<Change>,
    /// Idempotency key that the record uses.
    pub key: Option<KeyDigest>,
    /// Position of the commit whose response the key leads to, where that is an earlier one.
    pub first: Option<u64>,
    /// Position up to which the record forgets idempotency keys.
    pub forgets: Option<u64>,
    /// Highest number of a message that the record sends; 0 without one.
    pub last_message: i64,
}

impl RecordToApply {
    /// Checks the record at `position` of the log with this id, and prepares it. Changes nothing.
    ///
    /// # Errors
    /// When the bytes are no record that this program knows, or the record does not fit the content of the tables.
    pub fn of(
        tables: &Tables,
        kinds: Kinds,
        log_id: [u8; 16],
        position: u64,
        payload: &[u8],
    ) -> Result<Self, ReplayError> {
        let at = |what: String| ReplayError::at(position, what);
        let unread = |error: DecodeError| ReplayError::unread(Some(position), "", &error);
        rules::has_place(position).map_err(at)?;
        let record = Record::decode(payload).map_err(unread)?;
        let used = KeyUse::of(&record);
        let key = used.key.map(KeyDigest);
        let taken = key.and_then(|key| tables.key(key));
        rules::may_take_key(used.instead_of, taken).map_err(at)?;
        if let Some(first) = used.shares {
            rules::leads_back(position, first).map_err(at)?;
        }
        let mut changes = Vec::with_capacity(record.changes.len() + record.outbox.len());
        for (number, change) in record.changes.iter().enumerate() {
            let resource = known(kinds, change.kind, change.version).map_err(unread)?;
            rules::changes_once(&record.changes, number).map_err(at)?;
            if completes_old(change) {
                let what =
                    "it is of a program in which messages were no resources: a start reads it";
                return Err(at(what.to_owned()));
            }
            let followed = followed(tables, change, |state| {
                resource.change(state, change.stored(), record.at)
            });
            let kind = resource.kind().name;
            changes.push(followed.map_err(|why| at(format!("{kind}: {why}")))?);
        }
        for message in &record.outbox {
            let (message, birth) = born(message, log_id, record.at);
            follows(0, tables.position(birth.key))
                .map_err(|why| at(format!("message {}: {why}", message.number)))?;
            changes.push(birth);
        }
        are_free(tables, &changes).map_err(at)?;
        Ok(Self {
            at: record.at,
            changes,
            key,
            first: used.shares,
            forgets: rules::forgets(position, &record).map_err(at)?,
            last_message: record
                .outbox
                .iter()
                .fold(0, |last, sent| last.max(sent.number)),
        })
    }
}

/// Returns the change that `make` derives from the resource's state in the tables.
fn followed(
    tables: &Tables,
    change: &RecordChange<'_>,
    make: impl Fn(Option<&[u8]>) -> Result<Change, String>,
) -> Result<Change, String> {
    let mut made = None;
    let position = tables.read(change.key, &mut |state| made = Some(make(Some(state))));
    follows(change.before, position.unwrap_or(0))?;
    let made = made.unwrap_or_else(|| make(None))?;
    match made.key == change.key {
        true => Ok(made),
        false => Err("the event is another resource's".to_owned()),
    }
}

/// Checks that each unique key taken is free, or released by the same record.
fn are_free(tables: &Tables, changes: &[Change]) -> Result<(), String> {
    let is_left = |name| {
        changes
            .iter()
            .any(|change| change.unique_left.contains(name))
    };
    for change in changes {
        for name in &change.unique_taken {
            if let Some(holder) = tables.holder(*name)
                && holder != change.key
                && !is_left(name)
            {
                return Err(format!(
                    "{:?} takes a name that {holder:?} holds",
                    change.key
                ));
            }
        }
    }
    Ok(())
}
