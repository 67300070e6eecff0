//! Collects, during replay, the entries of indexes and lists, and builds the indexes and lists from them.
//!
//! A resource's names and its place in its list are noted at its first event, when its state is at hand. A resource
//! that changes afterwards, or has further entries, is looked up once all states are there. Further entries are
//! secondary keys, ranks, a place shared by several resources, and one that follows a booking.

use std::collections::HashSet;

use parking_lot::Mutex;

use super::parallel::{try_for_each, try_map};
use super::replay_error::ReplayError;
use super::tables::{AllListed, FoundLists, ListedAt, Pieces, SHARDS, Tables};
use crate::base::digest::{Digest, DigestBuild};
use crate::domain::index::IndexKey;
use crate::domain::registered::{AnyResource, Entries, Kinds};

/// Returns the index entries of the resource with this key in this state.
///
/// # Errors
/// A sentence that says why there is no such state, or why it is invalid.
pub(super) fn entries_of(
    resource: &dyn AnyResource,
    key: Digest,
    state: &[u8],
) -> Result<Entries, String> {
    let entries = resource.entries(state)?;
    match entries.key == key {
        true => Ok(entries),
        false => Err("the state is another resource's".to_owned()),
    }
}

/// A unique key, and the resource that has it.
type NameOf = (IndexKey, Digest);

/// Entries noted for the resources of one shard.
#[derive(Default)]
pub(super) struct ShardEntries {
    names: Pieces<NameOf>,
    listed: FoundLists,
    /// Resources with more entries than are noted here.
    more: Vec<Digest>,
    /// Resources that have changed since they were noted, here or in `more`.
    changed: HashSet<Digest, DigestBuild>,
}

impl ShardEntries {
    /// Notes a resource that was not there before, with its entries and the position of its last change. `listed_at`
    /// is `None` when the resource is not listed, or when this is unknown. Returns whether all its entries are noted;
    /// otherwise the resource is looked up when all states are there.
    pub(super) fn first(
        &mut self,
        tables: &Tables,
        (resource, position): (&dyn AnyResource, u64),
        entries: Entries,
        listed_at: Option<ListedAt>,
    ) -> bool {
        let Entries {
            key, unique, place, ..
        } = entries;
        let is_together = resource.is_together();
        let follows = |booking: Option<_>| booking.is_some() && !resource.by_booking().is_empty();
        let is_all = entries.secondary.is_empty()
            && entries.ranks.is_empty()
            && !is_together
            && !place.as_ref().is_some_and(|place| follows(place.booking));
        let entry = match &place {
            Some(place) => Some(place.entry),
            // The resource may be listed again.
            None => (!is_together).then_some(key),
        };
        if !is_all {
            self.later(tables, resource, (key, entry), listed_at);
            return false;
        }
        self.names
            .extend(unique.into_iter().map(|name| (name, key)));
        match place {
            Some(place) => self
                .listed
                .push(resource, (key, position), listed_at, place.values),
            None => note_birth(tables, resource, entry, listed_at),
        }
        true
    }

    /// Notes a resource that is looked up when all states are there. It was first listed as this entry at
    /// `listed_at`, which has the meaning as in [`ShardEntries::first`].
    pub(super) fn later(
        &mut self,
        tables: &Tables,
        resource: &dyn AnyResource,
        (key, entry): (Digest, Option<Digest>),
        listed_at: Option<ListedAt>,
    ) {
        self.more.push(key);
        note_birth(tables, resource, entry, listed_at);
    }

    /// A resource that was there has changed.
    pub(super) fn changed(&mut self, key: Digest) {
        self.changed.insert(key);
    }

    /// Looks up the entries that are not noted, now that all states are there. Returns names and listed items, and
    /// enters the rest in secondary indexes.
    fn complete(
        mut self,
        tables: &Tables,
        kinds: Kinds,
        shard: usize,
    ) -> Result<(Vec<NameOf>, AllListed), ReplayError> {
        let changed = std::mem::take(&mut self.changed);
        self.listed.begin(tables.births_of_shard(shard), &changed);
        if !changed.is_empty() {
            let names = std::mem::take(&mut self.names).into_vec().into_iter();
            self.names
                .extend(names.filter(|(_, key)| !changed.contains(key)));
            self.more.retain(|key| !changed.contains(key));
        }
        let more = std::mem::take(&mut self.more);
        for key in more.into_iter().chain(changed) {
            self.look_up(tables, kinds, key)?;
        }
        Ok((by_shards(&self.names), self.listed.end()))
    }

    fn look_up(&mut self, tables: &Tables, kinds: Kinds, key: Digest) -> Result<(), ReplayError> {
        let found = tables.with_state(key, |standing| {
            let at = |why: String| ReplayError::at(standing.position, why);
            let resource = kinds(standing.kind);
            let resource = resource.ok_or_else(|| at("its kind is not known".to_owned()))?;
            let entries = entries_of(resource, key, standing.bytes).map_err(|why| {
                let kind = resource.kind().name;
                at(format!("{kind}: {why}"))
            })?;
            Ok((resource, standing.position, entries))
        });
        // Cannot happen, since a resource is never removed.
        let Some(found) = found else {
            return Ok(());
        };
        let (resource, position, entries) = found?;
        tables.index(&entries);
        self.names
            .extend(entries.unique.iter().map(|name| (*name, key)));
        if let Some(place) = entries.place {
            tables.found_listed(&mut self.listed, (resource, key, position), place);
        }
        Ok(())
    }
}

/// Returns the names in the order of their shards.
fn by_shards(names: &Pieces<NameOf>) -> Vec<NameOf> {
    let mut ends = [0; SHARDS];
    for (name, _) in names.iter() {
        ends[name.0.shard(SHARDS)] += 1;
    }
    let mut before = 0;
    for end in &mut ends {
        before += *end;
        *end = before;
    }
    let mut ordered = match names.iter().next() {
        Some(name) => vec![*name; names.len()],
        None => Vec::new(),
    };
    for one in names.iter() {
        let end = &mut ends[one.0.0.shard(SHARDS)];
        *end -= 1;
        ordered[*end] = *one;
    }
    ordered
}

fn note_birth(
    tables: &Tables,
    resource: &dyn AnyResource,
    entry: Option<Digest>,
    listed_at: Option<ListedAt>,
) {
    if let (Some(entry), Some(listed_at)) = (entry, listed_at) {
        tables.note_birth(resource, entry, listed_at);
    }
}

/// Builds the unique and secondary indexes and the lists from the noted entries and from all states, shard by shard.
///
/// # Errors
/// The lowest position of an invalid state, or two resources with the same unique key.
pub(super) fn index(
    tables: &Tables,
    kinds: Kinds,
    found: Vec<ShardEntries>,
) -> Result<(), ReplayError> {
    let found: Vec<_> = found.into_iter().map(Mutex::new).collect();
    let completed = try_map(SHARDS, |shard| {
        let found = std::mem::take(&mut *found[shard].lock());
        found.complete(tables, kinds, shard)
    })?;
    let (names, listed): (Vec<_>, Vec<_>) = completed.into_iter().unzip();
    // Shard by shard, since one is small enough for a processor's cache.
    try_for_each(SHARDS, |shard| {
        let entered = tables.index_unique(shard, &names);
        entered.map_err(|[one, other]| two_holders(tables, kinds, one, other))?;
        tables.sort_secondary(shard);
        Ok(())
    })?;
    drop(names);
    tables.build_lists(listed);
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
