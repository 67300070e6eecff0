//! Snapshots in the servers' object store: a node with an empty directory begins with one, and reads only later
//! messages from the stream.
//!
//! The writer stores its newest snapshot, reads it back, and then lists it. An object that is not listed does not
//! count, and is removed after the next one is listed.

use std::collections::HashSet;
use std::io::{self, Read};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::thread;
use std::time::{Duration, Instant};

use async_nats::jetstream::kv;
use async_nats::jetstream::object_store::{self, GetErrorKind, Object, ObjectStore};
use async_nats::jetstream::stream::StorageType;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE;
use futures_util::StreamExt as _;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt as _, ReadBuf};
use tokio::time::{sleep, timeout};
use wal::storage::Storage;

use super::connection::Connection;
use super::error::StreamError;
use super::extent::StreamState;
use super::handle::JournalHandle;
use super::listing::{KEPT, ListedSnapshot, SnapshotList, list_again, refused};
use crate::base::hex::hex;

/// Timeout for the next bytes of a snapshot.
const BYTES_TIMEOUT: Duration = Duration::from_secs(15);
/// Timeout until the server that answers has an object that the leader has.
const FIND_TIMEOUT: Duration = Duration::from_secs(5);
/// Number of times that a snapshot is read until it counts as damaged: the server that sends it may lag behind.
const READ_MAX: usize = 3;
/// Pause before a server is asked again that may be behind.
const RETRY_PAUSE: Duration = Duration::from_millis(200);
/// Maximum rate of uploads, in bytes per second, so that batches are not delayed.
const BYTES_A_SECOND: u64 = 32 << 20;

/// A snapshot being read from the object store.
pub struct Download<'a> {
    connection: &'a Connection,
    object: Object,
    hasher: blake3::Hasher,
    digest: [u8; 32],
    left: u64,
}

impl Read for Download<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let object = &mut self.object;
        // A timeout must be created inside the runtime.
        let reading = async { timeout(BYTES_TIMEOUT, object.read(buffer)).await };
        let read = self
            .connection
            .block(reading)
            .map_err(|_| io::Error::new(io::ErrorKind::TimedOut, "no more bytes come"))??;
        self.hasher.update(&buffer[..read]);
        self.left = self.left.saturating_sub(read as u64);
        let is_all = self.left == 0 || read == 0;
        if is_all && *self.hasher.finalize().as_bytes() != self.digest {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the bytes in the object store are not those that were put there",
            ));
        }
        Ok(read)
    }
}

/// Opens a snapshot for reading. Its last bytes come only when all bytes are as they were stored.
///
/// # Errors
/// When the object does not exist.
pub fn fetch<'a>(
    connection: &'a Connection,
    snapshot: &ListedSnapshot,
) -> Result<Download<'a>, StreamError> {
    let cannot = refused("a snapshot cannot be read from the servers' object store");
    let object = connection.block(async {
        let store = connection
            .context()
            .get_object_store(&connection.names().snapshots)
            .await
            .map_err(|error| cannot(&error))?;
        let until = Instant::now() + FIND_TIMEOUT;
        loop {
            let got = timeout(BYTES_TIMEOUT, store.get(&snapshot.object)).await;
            let got = got.map_err(|silent| cannot(&silent))?;
            // Whichever server has a copy answers, also one that is behind.
            let is_missed = matches!(&got, Err(error) if error.kind() == GetErrorKind::NotFound);
            let may_come = is_missed && Instant::now() < until;
            if !may_come || object_of(connection, snapshot).await?.is_none() {
                break got.map_err(|error| cannot(&error));
            }
            sleep(RETRY_PAUSE).await;
        }
    })?;
    Ok(Download {
        connection,
        object,
        hasher: blake3::Hasher::new(),
        digest: snapshot.digest,
        left: snapshot.carried.bytes,
    })
}

/// A snapshot being put into the object store, read on a thread that may wait for a disk.
struct Upload<'a> {
    newest: wal::Newest,
    hasher: blake3::Hasher,
    bytes: u64,
    began: Instant,
    /// Whether the upload is not wanted any more.
    ends: &'a (dyn Fn() -> bool + Sync),
}

impl AsyncRead for Upload<'_> {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if (this.ends)() {
            return Poll::Ready(Err(io::Error::other("the service ends")));
        }
        let read = match this.newest.read(buffer.initialize_unfilled()) {
            Ok(read) => read,
            Err(error) => return Poll::Ready(Err(error)),
        };
        let taken = &buffer.initialize_unfilled()[..read];
        this.hasher.update(taken);
        this.bytes += read as u64;
        buffer.advance(read);
        let due = Duration::from_secs(1).mul_f64(this.bytes as f64 / BYTES_A_SECOND as f64);
        thread::sleep(due.saturating_sub(this.began.elapsed()));
        Poll::Ready(Ok(()))
    }
}

/// Returns the object store; creates it, and the bucket of the list, where they do not exist.
pub(super) async fn places(
    connection: &Connection,
    replicas: usize,
) -> Result<ObjectStore, StreamError> {
    let name = &connection.names().snapshots;
    let context = connection.context();
    let description = "Snapshots of carebook: not to be edited";
    let store = match context.get_object_store(name).await {
        Ok(store) => {
            connection
                .keeps(&format!("OBJ_{name}"), replicas as u64)
                .await?;
            store
        }
        Err(_) => {
            let config = object_store::Config {
                bucket: name.clone(),
                description: Some(description.to_owned()),
                storage: StorageType::File,
                num_replicas: replicas,
                ..object_store::Config::default()
            };
            let made = context.create_object_store(config).await;
            let cannot = refused(&format!("the object store {name} cannot be made"));
            made.map_err(|error| cannot(&error))?
        }
    };
    if context.get_key_value(name).await.is_ok() {
        connection
            .keeps(&format!("KV_{name}"), replicas as u64)
            .await?;
    } else {
        let config = kv::Config {
            bucket: name.clone(),
            description: description.to_owned(),
            history: 1,
            storage: StorageType::File,
            num_replicas: replicas,
            ..kv::Config::default()
        };
        let made = context.create_key_value(config).await;
        let cannot = refused(&format!("the bucket {name} cannot be made"));
        made.map_err(|error| cannot(&error))?;
    }
    Ok(store)
}

/// Parts of unfinished objects, which the next sweep removes if they still exist.
pub type Parts = HashSet<String>;

/// Puts the newest snapshot of a directory into the object store, unless it is there; reads it back, and lists it.
/// Returns the new list.
///
/// # Errors
/// When the snapshot cannot be stored, was not stored correctly, or this process is not the writer any more: the list
/// stays as it was.
pub fn put(
    link: &JournalHandle,
    storage: &dyn Storage,
    replicas: usize,
    seen: &mut Parts,
    ends: &(dyn Fn() -> bool + Sync),
) -> Result<SnapshotList, StreamError> {
    let connection = link.connection();
    let StreamState {
        mut list, extent, ..
    } = StreamState::read(connection)?;
    let of_log = |error: wal::Error| StreamError::Refused {
        what: format!("the newest snapshot cannot be read: {error}"),
    };
    let Some(newest) = wal::newest(storage).map_err(of_log)? else {
        return Ok(list);
    };
    // Snapshots of another log belong to an earlier stream.
    let log_id = newest.log_id;
    list.snapshots.retain(|one| one.log_id == log_id);
    list.purged = list.purged.filter(|end| end.log_id == Some(log_id));
    if list.covers() >= newest.carried.covers {
        return Ok(list);
    }
    let of = extent.having(connection, newest.carried.upto)?;
    let store = connection.block(places(connection, replicas))?;
    let newest = put_object(connection, &store, newest, of, ends)?;
    read_back(connection, &newest)?;
    let mut snapshots = vec![newest];
    for one in list.snapshots {
        if snapshots.len() == KEPT {
            break;
        }
        if stays_listed(&damage(connection, &one), one.carried.covers) {
            snapshots.push(one);
        }
    }
    list.snapshots = snapshots;
    // Objects that a successor stores are not among these yet.
    let there = connection.block(objects(connection, &store))?;
    list_again(link, &mut list)?;
    connection.block(sweep(connection, &store, &list.snapshots, there, seen))?;
    Ok(list)
}

/// Whether an older snapshot stays listed, given the result of reading it back. One that cannot be read at present may
/// be whole, so it stays, and does not prevent that a newer one is listed. A purge reads all listed snapshots, so it
/// waits until this one can be read again or is replaced by newer ones.
fn stays_listed(read: &Result<Option<String>, StreamError>, covers: u64) -> bool {
    match read {
        Ok(None) => true,
        Ok(Some(what)) => {
            tracing::warn!(error = %what, covers, "a snapshot is not listed any more");
            false
        }
        Err(error) => {
            tracing::warn!(%error, covers, "an older snapshot cannot be read at present");
            true
        }
    }
}

/// Reads a snapshot back, and compares it with what was stored.
///
/// # Errors
/// When it differs, or cannot be read.
pub fn read_back(connection: &Connection, snapshot: &ListedSnapshot) -> Result<(), StreamError> {
    let cannot = refused("a snapshot is not in the servers' object store as it was put there");
    match damage(connection, snapshot)? {
        None => Ok(()),
        Some(what) => Err(cannot(&what)),
    }
}

/// Reads a snapshot back, and compares it with what was stored. Returns what is wrong with it: the leader does not have
/// all of it, or its bytes are others each time; `None` when it is as it was stored.
///
/// # Errors
/// When it cannot be read at present.
fn damage(
    connection: &Connection,
    snapshot: &ListedSnapshot,
) -> Result<Option<String>, StreamError> {
    let bytes = snapshot.carried.bytes;
    for tried in 1.. {
        let Some(object) = connection.block(object_of(connection, snapshot))? else {
            return Ok(Some("it is not there".to_owned()));
        };
        if !connection.block(has_all_parts(connection, &object))? {
            return Ok(Some("it has not all of its parts".to_owned()));
        }
        let mut download = fetch(connection, snapshot)?;
        let differs = match io::copy(&mut download, &mut io::sink()) {
            Ok(read) if read == bytes => break,
            Ok(read) => format!("it has {read} bytes instead of {bytes}"),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => error.to_string(),
            Err(error) => {
                let what = format!("a snapshot cannot be read from the object store: {error}");
                return Err(StreamError::Unreachable { what });
            }
        };
        if tried == READ_MAX {
            return Ok(Some(differs));
        }
        thread::sleep(RETRY_PAUSE);
    }
    Ok(None)
}

/// Returns what the leader of the object store has of a snapshot's object; `None` when it has none.
async fn object_of(
    connection: &Connection,
    snapshot: &ListedSnapshot,
) -> Result<Option<Value>, StreamError> {
    let name = &connection.names().snapshots;
    let subject = format!("STREAM.MSG.GET.OBJ_{name}");
    let object = BASE64_URL_SAFE.encode(&snapshot.object);
    let body = json!({"last_by_subj": format!("$O.{name}.M.{object}")});
    let found = match connection.stored(&subject, &body).await {
        Err(StreamError::Missing { .. }) => None,
        found => found?,
    };
    let object = found.and_then(|(_, bytes)| serde_json::from_slice::<Value>(&bytes).ok());
    Ok(object.filter(|object| object["deleted"] != true))
}

/// Whether the leader of the object store has all parts of an object.
async fn has_all_parts(connection: &Connection, object: &Value) -> Result<bool, StreamError> {
    let name = &connection.names().snapshots;
    let id = object["nuid"].as_str().unwrap_or_default();
    let part = format!("$O.{name}.C.{id}");
    let asked = json!({"subjects_filter": part});
    let info = connection
        .api(&format!("STREAM.INFO.OBJ_{name}"), &asked)
        .await?;
    let count = info["state"]["subjects"][part.as_str()].as_u64();
    Ok(count.is_some() && count == object["chunks"].as_u64())
}

fn put_object(
    connection: &Connection,
    store: &ObjectStore,
    newest: wal::Newest,
    of: (u64, [u8; 32]),
    ends: &(dyn Fn() -> bool + Sync),
) -> Result<ListedSnapshot, StreamError> {
    let (carried, log_id, first) = (newest.carried, newest.log_id, newest.first);
    let object = format!("{:020}-{}", carried.covers, hex(&carried.chain));
    let mut upload = Upload {
        newest,
        hasher: blake3::Hasher::new(),
        bytes: 0,
        began: Instant::now(),
        ends,
    };
    let cannot = refused("a snapshot cannot be put into the servers' object store");
    let put = connection.block(store.put(object.as_str(), &mut upload));
    put.map_err(|error| cannot(&error))?;
    if upload.bytes != carried.bytes {
        return Err(cannot(&"its file is shorter than it has to be"));
    }
    Ok(ListedSnapshot {
        carried,
        log_id,
        first,
        object,
        digest: *upload.hasher.finalize().as_bytes(),
        of,
    })
}

/// Returns the names of the existing objects, each with that of its parts.
async fn objects(
    connection: &Connection,
    store: &ObjectStore,
) -> Result<Vec<(String, String)>, StreamError> {
    let name = &connection.names().snapshots;
    let cannot = refused(&format!(
        "the content of the object store {name} cannot be listed"
    ));
    let listing = async {
        let mut objects = store.list().await.map_err(|error| cannot(&error))?;
        let mut names = Vec::new();
        while let Some(object) = objects.next().await {
            let object = object.map_err(|error| cannot(&error))?;
            names.push((object.name, object.nuid));
        }
        Ok(names)
    };
    let listed = timeout(BYTES_TIMEOUT, listing).await;
    listed.map_err(|silent| cannot(&silent))?
}

/// Removes objects that are not listed, out of those that existed before the last listing: older ones, and remains of
/// an interruption. Objects that another writer has stored meanwhile stay, since its snapshots have more.
async fn sweep(
    connection: &Connection,
    store: &ObjectStore,
    kept: &[ListedSnapshot],
    there: Vec<(String, String)>,
    seen: &mut Parts,
) -> Result<(), StreamError> {
    let cannot = refused("an object in the servers' object store cannot be removed");
    let newest = kept.first().map_or(0, |one| one.carried.covers);
    let is_older = |name: &str| {
        let covers = name
            .split('-')
            .next()
            .and_then(|covers| covers.parse().ok());
        covers.is_none_or(|covers: u64| covers < newest)
    };
    let mut parts = HashSet::new();
    for (name, its) in there {
        if kept.iter().any(|one| one.object == name) || !is_older(&name) {
            parts.insert(its);
            continue;
        }
        let deleted = timeout(BYTES_TIMEOUT, store.delete(&name)).await;
        let deleted = deleted.map_err(|silent| cannot(&silent))?;
        deleted.map_err(|error| cannot(&error))?;
    }
    // Parts of unfinished objects have no name, nor do those of an object still being stored.
    let name = &connection.names().snapshots;
    let all = json!({"subjects_filter": format!("$O.{name}.C.>")});
    let info = connection
        .api(&format!("STREAM.INFO.OBJ_{name}"), &all)
        .await;
    let info = info.map_err(|error| cannot(&error))?;
    let purge = format!("STREAM.PURGE.OBJ_{name}");
    let before = std::mem::take(seen);
    let subjects = info["state"]["subjects"].as_object();
    for subject in subjects.into_iter().flat_map(serde_json::Map::keys) {
        let part = subject.rsplit('.').next().unwrap_or_default();
        if parts.contains(part) {
            continue;
        }
        if !before.contains(part) {
            seen.insert(part.to_owned());
            continue;
        }
        let which = json!({"filter": subject});
        let purged = connection.api(&purge, &which).await;
        purged.map_err(|error| cannot(&error))?;
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use wal::ForeignSnapshot;

    use super::*;
    use crate::stream::fake::{Fake, LOG};

    fn snapshot() -> ListedSnapshot {
        ListedSnapshot {
            carried: ForeignSnapshot {
                number: 1,
                covers: 3,
                upto: 3,
                bytes: 9,
                chain: [0; 16],
            },
            log_id: LOG,
            first: 1,
            object: "object".to_owned(),
            digest: [0; 32],
            of: (3, [0; 32]),
        }
    }

    /// A server that has the object, which consists of two parts. It sends nothing of them.
    fn stored() -> Fake {
        let fake = Fake::with_room(64 << 20);
        let object = json!({
            "name": "object", "bucket": "CAREBOOK_SNAPSHOTS_tests", "nuid": "id", "size": 9, "chunks": 2,
        });
        let mut kept = fake.kept.lock();
        kept.key = Some((3, object.to_string().into()));
        kept.subjects = json!({"$O.CAREBOOK_SNAPSHOTS_tests.C.id": 2});
        drop(kept);
        fake
    }

    #[test]
    fn a_snapshot_is_damaged_if_incomplete_but_not_if_no_server_sends_it() {
        let fake = stored();
        let connection = fake.connection();
        let judged = || damage(&connection, &snapshot());
        assert!(
            matches!(judged(), Err(StreamError::Unreachable { .. })),
            "{:?}",
            judged()
        );
        fake.kept.lock().subjects = json!({"$O.CAREBOOK_SNAPSHOTS_tests.C.id": 1});
        let what = judged().unwrap().unwrap();
        assert!(what.contains("parts"), "{what}");
        fake.kept.lock().key = None;
        let what = judged().unwrap().unwrap();
        assert!(what.contains("not there"), "{what}");
        let read = read_back(&connection, &snapshot());
        assert!(matches!(read, Err(StreamError::Refused { .. })), "{read:?}");
    }

    #[test]
    fn an_older_unsent_snapshot_stays_listed_and_a_damaged_one_does_not() {
        let fake = stored();
        let connection = fake.connection();
        let stays = || stays_listed(&damage(&connection, &snapshot()), 3);
        assert!(stays());
        // Without a number of parts it is not known to have all of them.
        let unnumbered = json!({"name": "object", "nuid": "other"}).to_string();
        let object = fake.kept.lock().key.replace((4, unnumbered.into()));
        assert!(!stays());
        fake.kept.lock().key = object;
        assert!(stays());
        fake.kept.lock().subjects = json!({"$O.CAREBOOK_SNAPSHOTS_tests.C.id": 1});
        assert!(!stays());
    }

    #[test]
    fn a_snapshot_missing_on_a_lagging_server_is_requested_again() {
        let fake = stored();
        let connection = fake.connection();
        fake.kept.lock().lags = 2;
        let fetched = fetch(&connection, &snapshot());
        assert!(fetched.is_ok(), "{:?}", fetched.err());
        assert_eq!(fake.kept.lock().lags, 0);
        // What the leader does not have does not come.
        {
            let mut kept = fake.kept.lock();
            (kept.key, kept.lags) = (None, 1);
        }
        assert!(fetch(&connection, &snapshot()).is_err());
    }
}
