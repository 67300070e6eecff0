//! The threads that replay changes, each those of the resources of some shards.
//!
//! One thread reads the log and hands each change to the worker that has its resource's shard, in
//! order, in chunks. The memory of chunks is reused. A small replay starts no threads:
//! [`Workers::finish`] does the work.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};

use parking_lot::Mutex;

use super::record::{RecordChange, follows};
use super::replay_error::ReplayError;
use super::snapshot::StateEntry;
use super::tables::{Born, SHARDS, StoredState, Tables};
use crate::base::digest::Digest;
use crate::base::time::Instant;
use crate::domain::registered::{AnyResource, Kinds, Listed};
use crate::domain::stored::Versioned;

/// Bytes of a chunk.
const CHUNK_BYTES: usize = 256 << 10;
/// Chunks that may wait for a worker.
const CHUNKS_MAX: usize = 4;

/// Work on one resource; its bytes are in the chunk, in order.
struct Task {
    resource: &'static dyn AnyResource,
    /// The version of the bytes' form.
    version: u16,
    key: Digest,
    position: u64,
    /// The position of the previous change, according to this one.
    before: u64,
    at: Instant,
    bytes: usize,
    is_state: bool,
    /// Of a state, when the resource came to be listed; of a change, its place.
    born: Option<Born>,
}

#[derive(Default)]
struct Chunk {
    tasks: Vec<Task>,
    bytes: Vec<u8>,
}

/// What a worker works with.
struct Worker {
    tables: Arc<Tables>,
    /// The position up to which a resource may have a change already.
    upto: u64,
    next: Vec<u8>,
}

/// A worker, seen from the reading thread.
struct Lane {
    chunk: Chunk,
    thread: Option<Thread>,
}

struct Thread {
    chunks: SyncSender<Chunk>,
    empty: Receiver<Chunk>,
    handle: JoinHandle<Result<(), ReplayError>>,
}

/// The workers.
pub(super) struct Workers {
    tables: Arc<Tables>,
    upto: u64,
    failed: Arc<AtomicBool>,
    lanes: Vec<Lane>,
}

impl Workers {
    /// Workers on these tables; resources may have changes already up to the position `upto`.
    pub(super) fn new(tables: &Arc<Tables>, upto: u64) -> Self {
        let lane = || Lane {
            chunk: Chunk::default(),
            thread: None,
        };
        Self {
            tables: Arc::clone(tables),
            upto,
            failed: Arc::default(),
            lanes: (0..processors()).map(|_| lane()).collect(),
        }
    }

    /// Has the event of the change at this place applied to its resource.
    ///
    /// # Errors
    /// When a worker has failed.
    pub(super) fn change(
        &mut self,
        place: Born,
        at: Instant,
        resource: &'static dyn AnyResource,
        change: &RecordChange<'_>,
    ) -> Result<(), WorkerFailed> {
        let event = change.event.0;
        let task = Task {
            resource,
            version: change.version,
            key: change.key,
            position: place.position,
            before: change.before,
            at,
            bytes: event.len(),
            is_state: false,
            born: Some(place),
        };
        self.add(task, event)
    }

    /// Has the state stored.
    ///
    /// # Errors
    /// When a worker has failed.
    pub(super) fn state(
        &mut self,
        resource: &'static dyn AnyResource,
        entry: &StateEntry<'_>,
    ) -> Result<(), WorkerFailed> {
        let state = entry.state.0;
        let task = Task {
            resource,
            version: entry.version,
            key: entry.key,
            position: entry.position,
            before: 0,
            at: Instant::default(),
            bytes: state.len(),
            is_state: true,
            born: entry.born,
        };
        self.add(task, state)
    }

    fn add(&mut self, task: Task, bytes: &[u8]) -> Result<(), WorkerFailed> {
        let lane = task.key.shard(SHARDS) % self.lanes.len();
        let chunk = &mut self.lanes[lane].chunk;
        chunk.tasks.push(task);
        chunk.bytes.extend_from_slice(bytes);
        if chunk.bytes.len() + chunk.tasks.len() * size_of::<Task>() < CHUNK_BYTES {
            return Ok(());
        }
        if self.failed.load(Ordering::Acquire) {
            return Err(WorkerFailed);
        }
        self.send(lane)
    }

    fn send(&mut self, lane: usize) -> Result<(), WorkerFailed> {
        let worker = self.worker();
        let failed = Arc::clone(&self.failed);
        let lane = &mut self.lanes[lane];
        if lane.thread.is_none() {
            lane.thread = start(worker, failed);
        }
        let Some(thread) = &lane.thread else {
            // Without a thread the chunk is kept, and grows, until [`Workers::finish`].
            return Ok(());
        };
        let empty = thread.empty.try_recv().unwrap_or_default();
        let full = std::mem::replace(&mut lane.chunk, empty);
        thread.chunks.send(full).map_err(|_| WorkerFailed)
    }

    fn worker(&self) -> Worker {
        Worker {
            tables: Arc::clone(&self.tables),
            upto: self.upto,
            next: Vec::new(),
        }
    }

    /// Waits until all is done.
    ///
    /// # Errors
    /// The error at the lowest position.
    pub(super) fn finish(mut self) -> Result<(), ReplayError> {
        let mut worker = self.worker();
        let mut first: Option<ReplayError> = None;
        let mut note = |ended: Result<(), ReplayError>| {
            if let Err(error) = ended
                && first.as_ref().is_none_or(|first| error.is_before(first))
            {
                first = Some(error);
            }
        };
        let mut running = Vec::new();
        for lane in std::mem::take(&mut self.lanes) {
            match lane.thread {
                Some(thread) => {
                    // A worker that has failed accepts nothing more, and says why below.
                    let _ = thread.chunks.send(lane.chunk);
                    drop(thread.chunks);
                    running.push(thread.handle);
                }
                None => note(worker.work(&lane.chunk)),
            }
        }
        for handle in running {
            let ended = handle.join();
            note(ended.unwrap_or_else(|_| Err(ReplayError::panicked())));
        }
        first.map_or(Ok(()), Err)
    }
}

/// A worker has failed; [`Workers::finish`] says why.
#[derive(Debug)]
pub(super) struct WorkerFailed;

fn start(mut worker: Worker, failed: Arc<AtomicBool>) -> Option<Thread> {
    let (chunks, incoming) = sync_channel::<Chunk>(CHUNKS_MAX);
    let (outgoing, empty): (Sender<Chunk>, _) = channel();
    let spawned = thread::Builder::new()
        .name("replay".to_owned())
        .spawn(move || {
            let mut ended = Ok(());
            for mut chunk in incoming {
                if ended.is_ok() {
                    ended = worker.work(&chunk);
                }
                if ended.is_err() {
                    // What follows is received and dropped, so that senders do not block.
                    failed.store(true, Ordering::Release);
                }
                chunk.tasks.clear();
                chunk.bytes.clear();
                let _ = outgoing.send(chunk);
            }
            ended
        });
    Some(Thread {
        chunks,
        empty,
        handle: spawned.ok()?,
    })
}

impl Worker {
    fn work(&mut self, chunk: &Chunk) -> Result<(), ReplayError> {
        let mut rest = chunk.bytes.as_slice();
        for task in &chunk.tasks {
            let (bytes, after) = rest.split_at(task.bytes);
            rest = after;
            let done = if task.is_state {
                self.put(task, bytes)
            } else {
                self.apply(task, bytes)
            };
            done.map_err(|why| {
                let kind = task.resource.kind().name;
                ReplayError::at(task.position, format!("{kind}: {why}"))
            })?;
        }
        Ok(())
    }

    fn put(&self, task: &Task, state: &[u8]) -> Result<(), String> {
        if task.position > self.upto {
            return Err("a snapshot has a later state than it says".to_owned());
        }
        let state = Versioned {
            version: task.version,
            bytes: state,
        };
        let state = task.resource.present(state);
        let state = state.map_err(|error| format!("the state: {error}"))?;
        if let Some(born) = task.born {
            let place = match task.resource.is_together() {
                true => task.resource.place(&state).ok().flatten(),
                false => None,
            };
            let entry = place.map_or(task.key, |place| place.entry);
            self.tables.note_birth(task.resource, entry, born);
        }
        self.tables.amend(
            task.position,
            task.resource.kind().tag,
            task.key,
            |standing| match standing {
                None => Ok(Some(&*state)),
                Some(_) => Err("a snapshot has a resource twice".to_owned()),
            },
        )
    }

    fn apply(&mut self, task: &Task, event: &[u8]) -> Result<(), String> {
        let (tables, upto, next) = (&self.tables, self.upto, &mut self.next);
        tables.amend(
            task.position,
            task.resource.kind().tag,
            task.key,
            |standing| {
                if let Some(StoredState { position, .. }) = standing
                    && position >= task.position
                {
                    if position <= upto {
                        return Ok(None);
                    }
                    return Err(format!("it was changed at position {position} already"));
                }
                follows(
                    task.before,
                    standing.map_or(0, |standing| standing.position),
                )?;
                let before = standing.map(|standing| standing.bytes);
                let event = Versioned {
                    version: task.version,
                    bytes: event,
                };
                let key = task.resource.replay(before, event, task.at, next)?;
                if key != task.key {
                    return Err("the event is another resource's".to_owned());
                }
                if let Some(born) = task.born
                    && let Some(entry) = comes_to_be_listed(task.resource, key, before, next)
                {
                    tables.note_birth(task.resource, entry, born);
                }
                Ok(Some(next.as_slice()))
            },
        )
    }
}

/// The list item that a resource becomes, or becomes part of, by a change from the one state to the
/// other.
fn comes_to_be_listed(
    resource: &dyn AnyResource,
    key: Digest,
    before: Option<&[u8]>,
    next: &[u8],
) -> Option<Digest> {
    let entry = |state| resource.place(state).ok()?.map(|place| place.entry);
    match resource.listed() {
        Listed::Never => None,
        Listed::FromBirth if !resource.is_together() => before.is_none().then_some(key),
        Listed::FromBirth | Listed::Later => {
            let after = entry(next)?;
            (before.and_then(entry) != Some(after)).then_some(after)
        }
    }
}

/// Builds the unique and secondary indexes and the lists from all states.
///
/// # Errors
/// The state at the lowest position that is invalid, or two resources with the same unique key.
pub(super) fn index(tables: &Tables, kinds: Kinds) -> Result<(), ReplayError> {
    let listed = Mutex::new(Vec::new());
    let names = Mutex::new(Vec::new());
    on_all(|shard| {
        let mut listed_here = tables.listed_of_shard(shard);
        let mut names_here = Vec::new();
        tables.each_of_shard(shard, |standing| {
            let at = |why: String| ReplayError::at(standing.position, why);
            let resource = kinds(standing.kind);
            let resource = resource.ok_or_else(|| at("its kind is not known".to_owned()))?;
            let kind = resource.kind().name;
            let entries = resource
                .entries(standing.bytes)
                .map_err(|why| at(format!("{kind}: {why}")))?;
            if entries.key != standing.key {
                return Err(at(format!("{kind}: the state is another resource's")));
            }
            tables.index(&entries);
            names_here.extend(entries.unique.iter().map(|name| (*name, standing.key)));
            if let Some(place) = entries.place {
                let found = (resource, standing.key, standing.position);
                tables.found_listed(&mut listed_here, found, place);
            }
            Ok(())
        })?;
        listed_here.order();
        listed.lock().push(listed_here);
        names_here.sort_unstable_by_key(|(name, _)| name.0.shard(SHARDS));
        names.lock().push(names_here);
        Ok(())
    })?;
    // Each shard at one go, since it is small enough for a processor's cache.
    let names = names.into_inner();
    on_all(|shard| {
        let entered = tables.index_unique(shard, &names);
        entered.map_err(|[one, other]| two_holders(tables, kinds, one, other))?;
        tables.sort_secondary(shard);
        Ok(())
    })?;
    drop(names);
    tables.build_lists(listed.into_inner());
    Ok(())
}

fn two_holders(tables: &Tables, kinds: Kinds, one: Digest, other: Digest) -> ReplayError {
    let mut holders = [one, other].map(|key| {
        let (kind, position) = tables.standing(key).unwrap_or_default();
        let kind = kinds(kind).map_or("unknown", |resource| resource.kind().name);
        (position, kind, key)
    });
    holders.sort_unstable();
    let [(before, kind, key), (position, other_kind, other_key)] = holders;
    ReplayError::at(
        position,
        format!(
            "{other_kind} {other_key:?} holds a name that {kind} {key:?}, last changed at position \
             {before}, holds too"
        ),
    )
}

/// Does `work` for every shard, on all processors; the error at the lowest position.
fn on_all(work: impl Fn(usize) -> Result<(), ReplayError> + Sync) -> Result<(), ReplayError> {
    let next = AtomicUsize::new(0);
    let some = || {
        let mut first: Option<ReplayError> = None;
        loop {
            let shard = next.fetch_add(1, Ordering::Relaxed);
            if shard >= SHARDS {
                return first;
            }
            if let Err(error) = work(shard)
                && first.as_ref().is_none_or(|first| error.is_before(first))
            {
                first = Some(error);
            }
        }
    };
    let found = thread::scope(|scope| {
        let others: Vec<_> = (1..processors())
            .map_while(|_| thread::Builder::new().spawn_scoped(scope, some).ok())
            .collect();
        let mut found = vec![some()];
        for other in others {
            found.push(
                other
                    .join()
                    .unwrap_or_else(|_| Some(ReplayError::panicked())),
            );
        }
        found
    });
    let first = found
        .into_iter()
        .flatten()
        .reduce(|one, other| if other.is_before(&one) { other } else { one });
    first.map_or(Ok(()), Err)
}

fn processors() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}
