//! The list of the snapshots in the servers' object store, and of the stream's beginning.
//!
//! The list is a key of a bucket, read from its leader and changed only from the revision that was read.

use std::time::Instant;

use serde_json::{Value, json};
use wal::ForeignSnapshot;

use super::chain::Tail;
use super::connection::{Connection, Unanswered};
use super::error::StreamError;
use super::handle::JournalHandle;
use super::message::NUMBER_MAX;
use crate::base::hex::{hex, unhex};
use crate::engine::role::writer_proof::WriterProof as _;

/// Number of snapshots in the list.
pub(super) const KEPT: usize = 2;
/// Version of the list's format.
const FORM: u64 = 1;
/// Name of the list's key.
const KEY: &str = "list";

/// A snapshot in the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedSnapshot {
    /// Proof of the snapshot's content, and the range of its records.
    pub carried: ForeignSnapshot,
    /// The log's id.
    pub log_id: [u8; 16],
    /// First position of the records that the writer's own directory had, which it may still have to deliver.
    pub first: u64,
    /// Name of the object.
    pub(super) object: String,
    /// BLAKE3 of the object's bytes.
    pub(super) digest: [u8; 32],
    /// Sequence and digest of the last message of the stream that the snapshot has data of; they identify its
    /// history.
    pub(super) of: (u64, [u8; 32]),
}

fn bytes<const N: usize>(value: &Value) -> Option<[u8; N]> {
    unhex(value.as_str()?.as_bytes())
}

/// Reads a number that can still be increased by one.
fn number(value: &Value) -> Option<u64> {
    value.as_u64().filter(|number| *number <= NUMBER_MAX)
}

impl ListedSnapshot {
    fn to_json(&self) -> Value {
        json!({
            "object": self.object,
            "logId": hex(&self.log_id),
            "number": self.carried.number,
            "covers": self.carried.covers,
            "upto": self.carried.upto,
            "bytes": self.carried.bytes,
            "chain": hex(&self.carried.chain),
            "first": self.first,
            "blake3": hex(&self.digest),
            "sequence": self.of.0,
            "digest": hex(&self.of.1),
        })
    }

    fn read(value: &Value) -> Option<Self> {
        let number = |name: &str| number(&value[name]);
        let snapshot = Self {
            object: value["object"].as_str()?.to_owned(),
            log_id: bytes(&value["logId"])?,
            first: number("first")?,
            digest: bytes(&value["blake3"])?,
            of: (number("sequence")?, bytes(&value["digest"])?),
            carried: ForeignSnapshot {
                number: number("number")?,
                covers: number("covers")?,
                upto: number("upto")?,
                bytes: number("bytes")?,
                chain: bytes(&value["chain"])?,
            },
        };
        let carried = &snapshot.carried;
        (carried.covers <= carried.upto && 0 < snapshot.first).then_some(snapshot)
    }
}

fn tail_to_json(tail: &Tail) -> Value {
    json!({
        "logId": hex(&tail.log_id.unwrap_or_default()),
        "sequence": tail.sequence,
        "epoch": tail.epoch,
        "nextPosition": tail.next,
        "digest": hex(&tail.digest),
        "fence": tail.fence,
    })
}

fn read_tail(value: &Value) -> Option<Tail> {
    let number = |name: &str| number(&value[name]);
    Some(Tail {
        log_id: Some(bytes(&value["logId"])?),
        sequence: number("sequence")?,
        epoch: number("epoch")?,
        next: number("nextPosition").filter(|next| *next > 0)?,
        digest: bytes(&value["digest"])?,
        fence: number("fence")?,
    })
}

/// Content of the list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotList {
    /// Snapshots, the newest first.
    pub snapshots: Vec<ListedSnapshot>,
    /// End of the messages that are purged from the stream, or about to be.
    pub purged: Option<Tail>,
    /// Revision of the key; 0 where there is none.
    pub(super) revision: u64,
}

/// Reads the list, from its leader.
///
/// # Errors
/// When the servers do not answer, or the value is no list.
pub fn listed(connection: &Connection) -> Result<SnapshotList, StreamError> {
    connection.block(read_list(connection))
}

/// Reads the list, from its leader.
///
/// # Errors
/// The errors of [`listed`].
pub(super) async fn read_list(connection: &Connection) -> Result<SnapshotList, StreamError> {
    let bucket = &connection.names().snapshots;
    // Servers need not answer a request for a message of a stream that they do not have, so the stream is checked
    // first.
    let info = format!("STREAM.INFO.KV_{bucket}");
    match connection.api(&info, &json!({})).await {
        Err(Unanswered::Refused { status: 404, .. }) => return Ok(SnapshotList::default()),
        Err(error) => return Err(error.into()),
        Ok(_) => {}
    }
    let subject = format!("STREAM.MSG.GET.KV_{bucket}");
    let body = json!({"last_by_subj": format!("$KV.{bucket}.{KEY}")});
    let found = match connection.stored(&subject, &body).await {
        // No list was stored yet.
        Err(StreamError::Missing { .. }) | Ok(None) => return Ok(SnapshotList::default()),
        Ok(Some(found)) => found,
        Err(error) => return Err(error),
    };
    let (revision, bytes) = found;
    SnapshotList::read(&bytes, revision).ok_or_else(|| StreamError::Refused {
        what: format!("the list of snapshots in the bucket {bucket} cannot be read"),
    })
}

impl SnapshotList {
    fn to_json(&self) -> Value {
        let snapshots: Vec<_> = self.snapshots.iter().map(ListedSnapshot::to_json).collect();
        json!({
            "form": FORM,
            "snapshots": snapshots,
            "purged": self.purged.as_ref().map(tail_to_json),
        })
    }

    fn read(bytes: &[u8], revision: u64) -> Option<Self> {
        let value = serde_json::from_slice::<Value>(bytes).ok()?;
        if value["form"] != FORM {
            return None;
        }
        let each = value["snapshots"].as_array()?.iter();
        Some(Self {
            snapshots: each.map(ListedSnapshot::read).collect::<Option<_>>()?,
            purged: match &value["purged"] {
                Value::Null => None,
                value => Some(read_tail(value)?),
            },
            revision,
        })
    }

    /// Returns the last position that the newest snapshot covers.
    #[must_use]
    pub fn covers(&self) -> u64 {
        let newest = self.snapshots.first();
        newest.map_or(0, |newest| newest.carried.covers)
    }

    /// Returns the first position that must stay in the stream, whichever of the two snapshots a node begins with;
    /// `None` while fewer than two are listed.
    pub(super) fn needed(&self) -> Option<u64> {
        // One message always stays, so that the stream shows which log it belongs to.
        let each = self.snapshots.iter().map(|one| one.carried.covers);
        each.min().filter(|_| self.snapshots.len() == KEPT)
    }
}

/// Replaces the list that was read, if this process is the writer.
pub(super) fn list_again(link: &JournalHandle, list: &mut SnapshotList) -> Result<(), StreamError> {
    let connection = link.connection();
    if !connection.block(link.confirm(Instant::now())) {
        return Err(StreamError::Fenced { by: None });
    }
    connection.block(write_list(connection, list))
}

/// Replaces the list that was read.
pub(super) async fn write_list(
    connection: &Connection,
    list: &mut SnapshotList,
) -> Result<(), StreamError> {
    let cannot = refused("the list of snapshots cannot be changed");
    let bucket = connection
        .context()
        .get_key_value(&connection.names().snapshots);
    let bucket = bucket.await.map_err(|error| cannot(&error))?;
    let value = list.to_json().to_string().into();
    let changed = bucket.update(KEY, value, list.revision).await;
    list.revision = changed.map_err(|error| cannot(&error))?;
    Ok(())
}

/// Returns the error of a refused attempt, whatever the reason.
pub(super) fn refused(what: &str) -> impl Fn(&dyn std::fmt::Display) -> StreamError + use<> {
    let what = what.to_owned();
    move |error| StreamError::Refused {
        what: format!("{what}: {error}"),
    }
}
