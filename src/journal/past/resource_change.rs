//! The data of one resource's change in a record.

use std::borrow::Cow;

use crate::base::actor::ActorKind;
use crate::base::digest::Digest;
use crate::base::revision::Revision;
use crate::base::time::Timestamp;
use crate::domain::stored::Versioned;
use crate::journal::messages;
use crate::journal::record::{Record, SCHEMA_OF_EVENTS};

/// Reason why a past state cannot be rebuilt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lost {
    /// The log no longer has the records needed.
    Gone,
    /// The log is being closed, or cannot be read.
    Unavailable,
    /// Nothing is lost: a list takes more records than one piece of a look may read, and goes on in the next one. See
    /// [`Past::in_pieces`](super::Past::in_pieces).
    Unfinished,
    /// The log's data is inconsistent; the sentence says where.
    Damaged(String),
}

/// Data about a commit in its record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitInfo {
    /// Time of the decision.
    pub at: Timestamp,
    /// Number of the operation; 0 for a reference fact.
    pub operation: u16,
    /// Kind and profile of the sender, where the record has them.
    pub actor: Option<(ActorKind, Box<str>)>,
}

pub(super) fn decode(position: u64, payload: &[u8]) -> Result<Record<'_>, Lost> {
    Record::decode(payload).map_err(|error| Lost::Damaged(format!("position {position}: {error}")))
}

/// One resource's change, listed among a record's changes or implied as the birth of a message.
pub(super) struct ResourceChange<'r> {
    pub(super) kind: u16,
    pub(super) version: u16,
    pub(super) before: u64,
    pub(super) revision: Option<Revision>,
    pub(super) advances: bool,
    pub(super) event: Cow<'r, [u8]>,
    pub(super) base: Option<Versioned<'r>>,
}

impl ResourceChange<'_> {
    pub(super) fn stored(&self) -> Versioned<'_> {
        Versioned {
            version: self.version,
            bytes: &self.event,
        }
    }
}

/// Returns the record's change of the resource with this key.
pub(super) fn change_of<'r>(
    record: &'r Record<'_>,
    key: Digest,
    log_id: [u8; 16],
) -> Option<ResourceChange<'r>> {
    if let Some(change) = record.changes.iter().find(|change| change.key == key) {
        let is_told = record.schema >= SCHEMA_OF_EVENTS;
        return Some(ResourceChange {
            kind: change.kind,
            version: change.version,
            before: change.before,
            revision: is_told.then_some(change.revision),
            advances: change.advances || !is_told,
            event: Cow::Borrowed(change.event.0),
            base: change.stored_base(),
        });
    }
    let event = messages::born_as(record, key, log_id)?;
    let (kind, version) = messages::KIND_AND_VERSION;
    Some(ResourceChange {
        kind,
        version,
        before: 0,
        revision: None,
        advances: true,
        event: Cow::Owned(event),
        base: None,
    })
}

pub(super) fn commit_info(record: &Record<'_>) -> CommitInfo {
    let actor = record.actor.as_ref();
    CommitInfo {
        at: record.at,
        operation: record.operation,
        actor: actor.map(|actor| (actor.kind, actor.profile_id.into())),
    }
}
