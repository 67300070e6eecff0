//! What a stream does not need any more once snapshots have it, and where one begins that never had it.

use serde_json::json;

use super::chain::Tail;
use super::connection::Connection;
use super::error::StreamError;
use super::extent::Extent;
use super::handle::JournalHandle;
use super::listing::{SnapshotList, list_again, listed, refused, write_list};
use super::snapshot_store::{places, read_back};

/// Purges from the stream what two listed snapshots have, and the writer's directory, which begins with a
/// position, does not keep; what the list says already, too. Returns the first position that is left.
///
/// # Errors
/// When the servers do not do it, or this process does not write any more.
pub fn purge(link: &JournalHandle, mut list: SnapshotList, kept: u64) -> Result<u64, StreamError> {
    let connection = link.connection();
    let info = connection.block(connection.info())?;
    let mut base = Extent::beside(connection, &info, &list)?;
    let needed = list.needed().map(|needed| needed.min(kept));
    if let Some(needed) = needed.filter(|needed| *needed > base.base.next) {
        // Whichever process put them there: from here on only they have what is purged.
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

/// Lists where a stream begins that has no message yet and gets the records of a directory, from after this
/// end up to a position. What is listed of the same log is of a stream that is gone.
///
/// # Errors
/// When what is listed has more than the directory, or the list cannot be changed.
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
