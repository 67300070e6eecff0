//! Creates a log in an empty directory: from a snapshot in the servers' object store, and from the stream's records
//! since the first one in the directory of the snapshot's writer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use wal::storage::Storage;
use wal::{Error, Identity, Record, Seeding};

use super::connection::Connection;
use super::error::StreamError;
use super::extent::StreamState;
use super::listing::ListedSnapshot;
use super::reader::Reader;
use super::snapshot_store::fetch;
use super::visitor::StreamVisitor;

/// How long to wait for a message that the servers say they have.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(30);

fn refused(position: u64) -> impl Fn(StreamError) -> Error {
    move |error| Error::Visitor {
        position,
        source: error.into(),
    }
}

/// Creates a log that begins with the newest good snapshot, if the directory is empty and there is such a snapshot.
/// `marks` is called before an empty directory gets its first file.
///
/// # Errors
/// [`Error::Held`], [`Error::Io`]; [`Error::Visitor`] with a [`StreamError`] when the stream has gaps, lacks
/// acknowledged records, or needs a snapshot and has no good one.
pub(super) fn begin_with_snapshot<V: StreamVisitor>(
    storage: &Arc<dyn Storage>,
    connection: &Arc<Connection>,
    found: &StreamState,
    identity: &Identity,
    visitor: &mut V,
    marks: &dyn Fn(),
) -> Result<(), Error> {
    if found.extent.last == 0 || !wal::is_free(storage.as_ref())? {
        return Ok(());
    }
    let snapshots = found.list.snapshots.iter();
    let first = found.extent.base.next;
    let is_fit =
        |one: &&ListedSnapshot| one.log_id == identity.log_id && one.carried.covers + 1 >= first;
    for snapshot in snapshots.filter(is_fit) {
        match begin(
            storage, connection, identity, snapshot, first, visitor, marks,
        ) {
            Ok(()) => {
                let covers = snapshot.carried.covers;
                tracing::info!(
                    covers,
                    "the directory begins with a snapshot of the journal"
                );
                return Ok(());
            }
            Err(error @ (Error::Damaged { .. } | Error::Io { .. })) => {
                let covers = snapshot.carried.covers;
                tracing::warn!(%error, covers, "a snapshot of the journal is not used");
            }
            Err(Error::Visitor { source, .. })
                if matches!(source.downcast_ref(), Some(StreamError::Refused { .. })) =>
            {
                let covers = snapshot.carried.covers;
                tracing::warn!(error = %source, covers, "a snapshot of the journal is not used");
            }
            Err(error) => return Err(error),
        }
    }
    match first > 1 {
        true => Err(refused(0)(StreamError::Refused {
            what: format!(
                "the journal begins at position {first}, and none of the snapshots that it needs before \
                 that can be used. Nothing was changed. Start on a directory of this service that has one"
            ),
        })),
        false => {
            marks();
            Ok(())
        }
    }
}

fn begin<V: StreamVisitor>(
    storage: &Arc<dyn Storage>,
    connection: &Arc<Connection>,
    identity: &Identity,
    snapshot: &ListedSnapshot,
    first: u64,
    visitor: &mut V,
    marks: &dyn Fn(),
) -> Result<(), Error> {
    let carried = &snapshot.carried;
    let of_stream = refused(carried.covers);
    let mut download = fetch(connection, snapshot).map_err(&of_stream)?;
    let first = snapshot.first.max(first);
    marks();
    let mut seeding = Seeding::begin(storage, identity, carried, first, &mut download)?;
    let before = StreamState::with(connection, |found| {
        found.extent.before_position(connection, seeding.next())
    });
    let before = before.map_err(&of_stream)?;
    let mut reader = Reader::after(connection, before);
    let from = seeding.next();
    let mut heard = Instant::now();
    while seeding.next() <= carried.upto {
        let received = reader.next(Duration::from_secs(1)).map_err(&of_stream)?;
        let Some(received) = received else {
            if heard.elapsed() > MESSAGE_TIMEOUT {
                let what = format!("message {} does not come", reader.tail().sequence + 1);
                return Err(of_stream(StreamError::Unreachable { what }));
            }
            continue;
        };
        heard = Instant::now();
        for (position, payload) in
            (received.first..).zip(received.records().iter().flat_map(|all| all.iter()))
        {
            seeding.record(Record { position, payload })?;
        }
        visitor.filling_up(seeding.next() - from, carried.upto + 1 - from);
    }
    seeding.finish()
}
