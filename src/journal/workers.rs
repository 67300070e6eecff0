//! The threads that replay changes, each those of the resources of some shards, and note the resources' entries for
//! indexes and lists.
//!
//! One thread reads the log and passes each change to the worker that has its resource's shard, in order. A small
//! replay starts no threads: [`Workers::finish`] does the work.

use std::sync::Arc;

use super::parallel::{processors, try_for_each};
use super::record::{RecordChange, follows};
use super::replay_error::ReplayError;
use super::replay_thread::{ReplayThread, ReplayThreadFailed, ReplayWork};
use super::rules;
use super::shard_entries::{self, ShardEntries};
use super::snapshot::StateEntry;
use super::tables::{ListedAt, SHARDS, StoredState, Tables};
use crate::base::digest::Digest;
use crate::base::time::Timestamp;
use crate::domain::registered::{AnyResource, Kinds, Listed};
use crate::domain::stored::Versioned;

/// A change or a state of one resource, to be replayed.
struct Task {
    resource: &'static dyn AnyResource,
    /// Version of the form of the bytes.
    version: u16,
    key: Digest,
    position: u64,
    /// Position of the previous change, according to this one.
    before: u64,
    at: Timestamp,
    is_state: bool,
    /// For a state, when the resource was first listed; for a change, its place.
    listed_at: Option<ListedAt>,
}

/// State of one worker.
struct Worker {
    tables: Arc<Tables>,
    /// Position up to which a resource may already have a change.
    upto: u64,
    next: Vec<u8>,
    /// Number of this worker; `workers` is how many there are.
    number: usize,
    workers: usize,
    /// Entries that the worker notes, by shard.
    found: Vec<ShardEntries>,
    /// Kinds whose resources are looked up at the end: a snapshot's states of these kinds are not decoded before.
    have_more: Vec<u16>,
}

/// The workers.
pub(super) struct Workers {
    kinds: Kinds,
    tables: Arc<Tables>,
    threads: Vec<ReplayThread<Worker>>,
}

impl Workers {
    /// Creates workers on these tables, for resources of these kinds, which may already have changes up to the
    /// position `upto`.
    pub(super) fn new(kinds: Kinds, tables: &Arc<Tables>, upto: u64) -> Self {
        let workers = processors();
        let worker = |number| Worker {
            tables: Arc::clone(tables),
            upto,
            next: Vec::new(),
            number,
            workers,
            found: (0..SHARDS).map(|_| ShardEntries::default()).collect(),
            have_more: Vec::new(),
        };
        Self {
            kinds,
            tables: Arc::clone(tables),
            threads: threads_of((0..workers).map(worker)),
        }
    }

    /// Queues the change at this place, whose event is applied to its resource.
    ///
    /// # Errors
    /// When a worker has failed.
    pub(super) fn change(
        &mut self,
        place: ListedAt,
        at: Timestamp,
        resource: &'static dyn AnyResource,
        change: &RecordChange<'_>,
    ) -> Result<(), ReplayThreadFailed> {
        let task = Task {
            resource,
            version: change.version,
            key: change.key,
            position: place.position,
            before: change.before,
            at,
            is_state: false,
            listed_at: Some(place),
        };
        self.add(task, change.event.0)
    }

    /// Queues a state to be stored.
    ///
    /// # Errors
    /// When a worker has failed.
    pub(super) fn state(
        &mut self,
        resource: &'static dyn AnyResource,
        entry: &StateEntry<'_>,
    ) -> Result<(), ReplayThreadFailed> {
        let task = Task {
            resource,
            version: entry.version,
            key: entry.key,
            position: entry.position,
            before: 0,
            at: Timestamp::default(),
            is_state: true,
            listed_at: entry.listed_at,
        };
        self.add(task, entry.state.0)
    }

    fn add(&mut self, task: Task, bytes: &[u8]) -> Result<(), ReplayThreadFailed> {
        let worker = worker_of(task.key.shard(SHARDS), self.threads.len());
        self.threads[worker].add(task, bytes)
    }

    /// Waits until all queued work is done: a snapshot's states are found by their keys from here on. More work may
    /// follow, unless there was an error.
    ///
    /// # Errors
    /// The error at the lowest position.
    pub(super) fn drain(&mut self) -> Result<(), ReplayError> {
        let others = Self::new(self.kinds, &self.tables, 0);
        let workers = std::mem::replace(self, others).ended()?;
        self.threads = threads_of(workers.into_iter());
        Ok(())
    }

    /// Waits until all work is done; returns the noted entries, by shard.
    ///
    /// # Errors
    /// The error at the lowest position.
    pub(super) fn finish(self) -> Result<Vec<ShardEntries>, ReplayError> {
        let workers = self.ended()?.into_iter();
        let mut found: Vec<_> = workers.map(|worker| worker.found).collect();
        let count = found.len();
        let of_shard = |shard: usize| std::mem::take(&mut found[worker_of(shard, count)][shard]);
        Ok((0..SHARDS).map(of_shard).collect())
    }

    /// Waits until all work is done and each state is found by its key; returns the workers in order.
    fn ended(mut self) -> Result<Vec<Worker>, ReplayError> {
        self.threads.iter_mut().for_each(ReplayThread::close);
        let ended = self.threads.into_iter().map(ReplayThread::end);
        // Waits for all workers, so that none goes on.
        let (done, failed): (Vec<_>, Vec<_>) = ended.partition(Result::is_ok);
        let indexed = try_for_each(SHARDS, |shard| {
            index_states(&self.tables, self.kinds, shard)
        });
        let failed = failed.into_iter().filter_map(Result::err);
        let failed = failed.chain(indexed.err());
        if let Some(first) = failed.reduce(ReplayError::first) {
            return Err(first);
        }
        Ok(done.into_iter().filter_map(Result::ok).collect())
    }
}

/// Creates a replay thread for each of these workers.
fn threads_of(workers: impl ExactSizeIterator<Item = Worker>) -> Vec<ReplayThread<Worker>> {
    let (count, failed) = (workers.len(), Arc::default());
    workers
        .map(|worker| ReplayThread::new(worker, count, &failed))
        .collect()
}

/// Builds an index of the noted states of a shard.
///
/// # Errors
/// When a resource has two states.
fn index_states(tables: &Tables, kinds: Kinds, shard: usize) -> Result<(), ReplayError> {
    tables.index_states(shard).map_err(|(kind, position)| {
        let kind = kinds(kind).map_or("unknown", |resource| resource.kind().name);
        let what = format!("{kind}: a snapshot has a resource twice");
        ReplayError::at(position, what)
    })
}

/// Returns the number of the worker that has the resources of this shard, out of `workers` workers.
fn worker_of(shard: usize, workers: usize) -> usize {
    shard % workers
}

impl ReplayWork for Worker {
    type Task = Task;

    fn look_ahead(&self, tasks: &[(Task, usize)]) {
        // A state is added without a lookup.
        let changes = tasks.iter().filter(|(task, _)| !task.is_state);
        let keys = changes.map(|(task, _)| task.key);
        let is_own = |shard| worker_of(shard, self.workers) == self.number;
        self.tables.prefetch(keys, is_own);
    }

    fn work(&mut self, task: &Task, bytes: &[u8]) -> Result<(), ReplayError> {
        let done = if task.is_state {
            self.put(task, bytes)
        } else {
            self.apply(task, bytes)
        };
        done.map_err(|why| {
            let kind = task.resource.kind().name;
            ReplayError::at(task.position, format!("{kind}: {why}"))
        })
    }
}

impl Worker {
    fn put(&mut self, task: &Task, state: &[u8]) -> Result<(), String> {
        if task.position > self.upto {
            return Err("a snapshot has a later state than it says".to_owned());
        }
        rules::has_place(task.position)?;
        let state = Versioned {
            version: task.version,
            bytes: state,
        };
        let state = task.resource.present(state);
        let state = state.map_err(|error| format!("the state: {error}"))?;
        let (tables, kind) = (&self.tables, task.resource.kind().tag);
        let found = &mut self.found[task.key.shard(SHARDS)];
        if self.have_more.contains(&kind) {
            let entry = match task.resource.is_together() {
                true => listed_as(task.resource, &state),
                false => Some(task.key),
            };
            found.later(tables, task.resource, (task.key, entry), task.listed_at);
        } else {
            let entries = shard_entries::entries_of(task.resource, task.key, &state)?;
            let resource = (task.resource, task.position);
            if !found.first(tables, resource, entries, task.listed_at) {
                self.have_more.push(kind);
            }
        }
        tables.note_state(StoredState {
            kind,
            key: task.key,
            position: task.position,
            bytes: &state,
        });
        Ok(())
    }

    fn apply(&mut self, task: &Task, event: &[u8]) -> Result<(), String> {
        let (tables, upto, next) = (&self.tables, self.upto, &mut self.next);
        let found = &mut self.found[task.key.shard(SHARDS)];
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
                let replayed = task.resource.replay(before, event, task.at, next)?;
                if replayed.key != task.key {
                    return Err("the event is another resource's".to_owned());
                }
                match replayed.born {
                    Some(entries) => {
                        let listed_at = task.listed_at.filter(|_| entries.place.is_some());
                        found.first(tables, (task.resource, task.position), entries, listed_at);
                    }
                    None => {
                        found.changed(task.key);
                        if let Some(listed_at) = task.listed_at
                            && let Some(entry) = comes_to_be_listed(task.resource, before, next)
                        {
                            tables.note_birth(task.resource, entry, listed_at);
                        }
                    }
                }
                Ok(Some(next.as_slice()))
            },
        )
    }
}

/// Returns the list item that a resource becomes, or joins, by a change between these states that is not its first.
fn comes_to_be_listed(
    resource: &dyn AnyResource,
    before: Option<&[u8]>,
    next: &[u8],
) -> Option<Digest> {
    match resource.listed() {
        Listed::Never => None,
        // It was listed from the beginning.
        Listed::FromBirth if !resource.is_together() => None,
        Listed::FromBirth | Listed::Later => {
            let before = before.and_then(|before| listed_as(resource, before));
            let after = listed_as(resource, next)?;
            (before != Some(after)).then_some(after)
        }
    }
}

/// Returns the list item that a resource in this state is, or is part of.
fn listed_as(resource: &dyn AnyResource, state: &[u8]) -> Option<Digest> {
    let place = resource.place(state).ok()??;
    Some(place.entry)
}
