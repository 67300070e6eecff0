//! Purges messages that snapshots make unnecessary from a stream, and lists where a stream begins that never had
//! them.

use serde_json::json;

use super::chain::Tail;
use super::connection::Connection;
use super::error::StreamError;
use super::extent::Extent;
use super::handle::JournalHandle;
use super::listing::{SnapshotList, list_again, listed, refused, write_list};
use super::snapshot_store::{places, read_back};

/// Purges the messages from the stream that two listed snapshots contain and that the writer's directory, which
/// begins at position `kept`, does not need; also those already listed as purged. Returns the first remaining
/// position.
///
/// # Errors
/// When the servers refuse, or this process is not the writer any more.
pub fn purge(link: &JournalHandle, mut list: SnapshotList, kept: u64) -> Result<u64, StreamError> {
    let connection = link.connection();
    let info = connection.block(connection.info())?;
    let mut base = Extent::determine(connection, &info, &list)?;
    let needed = list.needed().map(|needed| needed.min(kept));
    if let Some(needed) = needed.filter(|needed| *needed > base.base.next) {
        // Whichever process stored the snapshots: from here on only they have the purged records.
        for one in &list.snapshots {
            read_back(connection, one)?;
        }
        base.base = base.before_position(connection, needed)?;
        list.purged = Some(base.base.clone());
        list_again(link, &mut list)?;
    }
    let (sequence, next) = (base.base.sequence, base.base.next);
    if info.first <= sequence {
        let subject = format!("STREAM.PURGE.{}", connection.names().stream);
        let body = json!({"seq": sequence + 1});
        let cannot = refused("the servers do not purge the journal");
        let purged = connection.block(connection.api(&subject, &body));
        purged.map_err(|error| cannot(&error))?;
        tracing::info!(
            first_sequence = sequence + 1,
            first_position = next,
            "the journal was purged of what its snapshots have"
        );
    }
    Ok(next)
}

/// Lists the beginning of a stream without any message, which will get the records of a directory from after `base`
/// up to a position. Entries of the same log belong to a stream that is gone.
///
/// # Errors
/// When the list names more records than the directory has, or cannot be changed.
pub fn begin_at(
    connection: &Connection,
    base: &Tail,
    log_id: [u8; 16],
    upto: u64,
    replicas: usize,
) -> Result<(), StreamError> {
    let list = listed(connection)?;
    let snapshots = list.snapshots.iter().filter(|one| one.log_id == log_id);
    let purged = list.purged.iter().filter(|end| end.log_id == Some(log_id));
    let ends = snapshots.map(|one| one.carried.upto);
    let Some(end) = ends.chain(purged.map(|end| end.next - 1)).max() else {
        return match *base == Tail::beginning() {
            true => Ok(()),
            false => list_anew(connection, base, list.revision, replicas),
        };
    };
    if end > upto {
        return Err(StreamError::Refused {
            what: format!(
                "the list of snapshots in the bucket {} has position {end} of this log, and the \
                 directory ends at position {upto}: import one that has it",
                connection.names().snapshots
            ),
        });
    }
    list_anew(connection, base, list.revision, replicas)
}

fn list_anew(
    connection: &Connection,
    base: &Tail,
    revision: u64,
    replicas: usize,
) -> Result<(), StreamError> {
    let mut begun = SnapshotList {
        purged: (*base != Tail::beginning()).then(|| base.clone()),
        revision,
        ..SnapshotList::default()
    };
    connection.block(async {
        places(connection, replicas).await?;
        write_list(connection, &mut begun).await
    })
}
