//! The list of the snapshots in the servers' object store, and of where the stream begins.
//!
//! It is a key of a bucket, read as its leader has it and changed only from the revision that was read.

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

/// How many snapshots are listed.
pub(super) const KEPT: usize = 2;
/// The form of the list.
const FORM: u64 = 1;
/// The key of the list.
const KEY: &str = "list";

/// A snapshot that is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedSnapshot {
    /// What proves that it is what was written, and which records are in it.
    pub carried: ForeignSnapshot,
    /// The log's id.
    pub log_id: [u8; 16],
    /// From here on the writer's own directory had the records themselves: what it may have to deliver.
    pub first: u64,
    /// The object's name.
    pub(super) object: String,
    /// BLAKE3 of its bytes.
    pub(super) digest: [u8; 32],
    /// The message of the stream after which everything is that it has anything of, and its digest: of
    /// which history it is.
    pub(super) of: (u64, [u8; 32]),
}

fn bytes<const N: usize>(told: &Value) -> Option<[u8; N]> {
    unhex(told.as_str()?.as_bytes())
}

/// A number that one more can be counted from.
fn number(told: &Value) -> Option<u64> {
    told.as_u64().filter(|number| *number <= NUMBER_MAX)
}

impl ListedSnapshot {
    fn told(&self) -> Value {
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

    fn read(told: &Value) -> Option<Self> {
        let number = |name: &str| number(&told[name]);
        let snapshot = Self {
            object: told["object"].as_str()?.to_owned(),
            log_id: bytes(&told["logId"])?,
            first: number("first")?,
            digest: bytes(&told["blake3"])?,
            of: (number("sequence")?, bytes(&told["digest"])?),
            carried: ForeignSnapshot {
                number: number("number")?,
                covers: number("covers")?,
                upto: number("upto")?,
                bytes: number("bytes")?,
                chain: bytes(&told["chain"])?,
            },
        };
        let carried = &snapshot.carried;
        (carried.covers <= carried.upto && 0 < snapshot.first).then_some(snapshot)
    }
}

fn told_tail(tail: &Tail) -> Value {
    json!({
        "logId": hex(&tail.log_id.unwrap_or_default()),
        "sequence": tail.sequence,
        "epoch": tail.epoch,
        "nextPosition": tail.next,
        "digest": hex(&tail.digest),
        "fence": tail.fence,
    })
}

fn read_tail(told: &Value) -> Option<Tail> {
    let number = |name: &str| number(&told[name]);
    Some(Tail {
        log_id: Some(bytes(&told["logId"])?),
        sequence: number("sequence")?,
        epoch: number("epoch")?,
        next: number("nextPosition").filter(|next| *next > 0)?,
        digest: bytes(&told["digest"])?,
        fence: number("fence")?,
    })
}

/// What is listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotList {
    /// The newest first.
    pub snapshots: Vec<ListedSnapshot>,
    /// The end of what is purged from the stream, or is about to be.
    pub purged: Option<Tail>,
    /// That of the key; 0 where there is none.
    pub(super) revision: u64,
}

/// Reads the list, as its leader has it.
///
/// # Errors
/// When the servers do not answer, or it is none.
pub fn listed(connection: &Connection) -> Result<SnapshotList, StreamError> {
    let bucket = &connection.names().snapshots;
    // Servers need not answer who asks for a message of a stream that they do not have.
    let info = format!("STREAM.INFO.KV_{bucket}");
    match connection.block(connection.api(&info, &json!({}))) {
        Err(Unanswered::Refused { status: 404, .. }) => return Ok(SnapshotList::default()),
        Err(error) => return Err(error.into()),
        Ok(_) => {}
    }
    let subject = format!("STREAM.MSG.GET.KV_{bucket}");
    let body = json!({"last_by_subj": format!("$KV.{bucket}.{KEY}")});
    let found = match connection.block(connection.stored(&subject, &body)) {
        // None was put there yet.
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
    fn told(&self) -> Value {
        let snapshots: Vec<_> = self.snapshots.iter().map(ListedSnapshot::told).collect();
        json!({
            "form": FORM,
            "snapshots": snapshots,
            "purged": self.purged.as_ref().map(told_tail),
        })
    }

    fn read(bytes: &[u8], revision: u64) -> Option<Self> {
        let told = serde_json::from_slice::<Value>(bytes).ok()?;
        if told["form"] != FORM {
            return None;
        }
        let each = told["snapshots"].as_array()?.iter();
        Some(Self {
            snapshots: each.map(ListedSnapshot::read).collect::<Option<_>>()?,
            purged: match &told["purged"] {
                Value::Null => None,
                told => Some(read_tail(told)?),
            },
            revision,
        })
    }

    /// Up to where the newest one covers.
    #[must_use]
    pub fn covers(&self) -> u64 {
        let newest = self.snapshots.first();
        newest.map_or(0, |newest| newest.carried.covers)
    }

    /// The first position that has to stay in the stream, whichever of two snapshots a node begins
    /// with; `None` while there are not two.
    pub(super) fn needed(&self) -> Option<u64> {
        // One message stays in any case, so that the stream says whose it is.
        let each = self.snapshots.iter().map(|one| one.carried.covers);
        each.min().filter(|_| self.snapshots.len() == KEPT)
    }
}

/// Lists it in the place of the list that was read, if this process writes.
pub(super) fn list_again(link: &JournalHandle, list: &mut SnapshotList) -> Result<(), StreamError> {
    let connection = link.connection();
    if !connection.block(link.confirm(Instant::now())) {
        return Err(StreamError::Fenced { by: None });
    }
    connection.block(write_list(connection, list))
}

/// Lists it in the place of the list that was read.
pub(super) async fn write_list(
    connection: &Connection,
    list: &mut SnapshotList,
) -> Result<(), StreamError> {
    let cannot = refused("the list of snapshots cannot be changed");
    let bucket = connection
        .context()
        .get_key_value(&connection.names().snapshots);
    let bucket = bucket.await.map_err(|error| cannot(&error))?;
    let told = list.told().to_string().into();
    let changed = bucket.update(KEY, told, list.revision).await;
    list.revision = changed.map_err(|error| cannot(&error))?;
    Ok(())
}

/// What was tried and refused, for whatever reason.
pub(super) fn refused(what: &str) -> impl Fn(&dyn std::fmt::Display) -> StreamError + use<> {
    let what = what.to_owned();
    move |error| StreamError::Refused {
        what: format!("{what}: {error}"),
    }
}
