//! The threads that replay changes, each those of the resources of some shards.
//!
//! One thread reads the log and hands each change to the worker that has its resource's shard, in
//! order. A small replay starts no threads: [`Workers::finish`] does the work.

use std::sync::Arc;

use parking_lot::Mutex;

use super::at_once::{each, processors};
use super::lane::{Lane, LaneFailed, Work};
use super::record::{RecordChange, follows};
use super::replay_error::ReplayError;
use super::rules;
use super::snapshot::StateEntry;
use super::tables::{Born, SHARDS, StoredState, Tables};
use crate::base::digest::Digest;
use crate::base::time::Instant;
use crate::domain::registered::{AnyResource, Kinds, Listed};
use crate::domain::stored::Versioned;

/// Work on one resource.
struct Task {
    resource: &'static dyn AnyResource,
    /// The version of the bytes' form.
    version: u16,
    key: Digest,
    position: u64,
    /// The position of the previous change, according to this one.
    before: u64,
    at: Instant,
    is_state: bool,
    /// Of a state, when the resource came to be listed; of a change, its place.
    born: Option<Born>,
}

/// What a worker works with.
struct Worker {
    tables: Arc<Tables>,
    /// The position up to which a resource may have a change already.
    upto: u64,
    next: Vec<u8>,
}

/// The workers.
pub(super) struct Workers(Vec<Lane<Worker>>);

impl Workers {
    /// Workers on these tables; resources may have changes already up to the position `upto`.
    pub(super) fn new(tables: &Arc<Tables>, upto: u64) -> Self {
        let failed = Arc::default();
        let worker = || Worker {
            tables: Arc::clone(tables),
            upto,
            next: Vec::new(),
        };
        let lanes = (0..processors()).map(|_| Lane::new(worker(), &failed));
        Self(lanes.collect())
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
    ) -> Result<(), LaneFailed> {
        let task = Task {
            resource,
            version: change.version,
            key: change.key,
            position: place.position,
            before: change.before,
            at,
            is_state: false,
            born: Some(place),
        };
        self.add(task, change.event.0)
    }

    /// Has the state stored.
    ///
    /// # Errors
    /// When a worker has failed.
    pub(super) fn state(
        &mut self,
        resource: &'static dyn AnyResource,
        entry: &StateEntry<'_>,
    ) -> Result<(), LaneFailed> {
        let task = Task {
            resource,
            version: entry.version,
            key: entry.key,
            position: entry.position,
            before: 0,
            at: Instant::default(),
            is_state: true,
            born: entry.born,
        };
        self.add(task, entry.state.0)
    }

    fn add(&mut self, task: Task, bytes: &[u8]) -> Result<(), LaneFailed> {
        let lane = task.key.shard(SHARDS) % self.0.len();
        self.0[lane].add(task, bytes)
    }

    /// Waits until all is done.
    ///
    /// # Errors
    /// The error at the lowest position.
    pub(super) fn finish(mut self) -> Result<(), ReplayError> {
        self.0.iter_mut().for_each(Lane::close);
        let mut first: Option<ReplayError> = None;
        for lane in self.0 {
            if let Err(error) = lane.end()
                && first.as_ref().is_none_or(|first| error.is_before(first))
            {
                first = Some(error);
            }
        }
        first.map_or(Ok(()), Err)
    }
}

impl Work for Worker {
    type Task = Task;

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
    fn put(&self, task: &Task, state: &[u8]) -> Result<(), String> {
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
        listed_here.end();
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
    let done = each(SHARDS, work).into_iter();
    let first = done
        .filter_map(Result::err)
        .reduce(|one, other| if other.is_before(&one) { other } else { one });
    first.map_or(Ok(()), Err)
}
