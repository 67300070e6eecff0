//! The tables as a source of committed state.

use std::cell::Cell;

use super::half_key::HalfKey;
use super::states::StateRef;
use super::{LIST_CHUNK, StoredState, Tables, slab};
use crate::base::digest::Digest;
use crate::catalogue;
use crate::domain::decoded::Kept;
use crate::domain::index::IndexKey;
use crate::domain::rank::Rank;
use crate::domain::resource::Source;

/// Number of keys of a list that are copied first: most lists have fewer, and some do not exist.
const FEW: usize = 8;

impl Tables {
    /// Copies a resource's current state, with the position of its last commit and its kind.
    #[must_use]
    pub fn copied(&self, key: Digest) -> Option<(u64, Vec<u8>, u16)> {
        let shard = self.states.shard(key).read();
        let page = match shard.look(key)? {
            StateRef::Small(state) => {
                return Some((state.position, state.bytes.to_vec(), state.kind));
            }
            StateRef::Large(page) => page,
        };
        drop(shard);
        let state = slab::state_of(&page);
        Some((state.position, state.bytes.to_vec(), state.kind))
    }
}

impl Tables {
    /// Returns the lowest rank above `after` in a list with ranks, or the lowest of all without `after`; downwards,
    /// the highest rank below it. The cost does not depend on the number of ranks.
    #[must_use]
    pub fn next_rank(&self, list: IndexKey, after: Option<&Rank>, downwards: bool) -> Option<Rank> {
        let shard = self.secondary.shard(list.0).read();
        shard.get(list.0)?.next_rank(after, downwards).cloned()
    }
}

impl Tables {
    /// Returns the resource with this half of a key that has a name. A name is entered after its holder's state has
    /// it, and removed before the state loses it; so the holder of an entered name is always found.
    pub(super) fn has(&self, holder: HalfKey, name: IndexKey) -> Option<Digest> {
        let shard = self.states.shard(holder.alike()).read();
        shard.key_like(holder, |state| {
            let look = || self.look(state, name);
            self.names.has(name, state.key, state.position, look)
        })
    }

    /// Whether a state has a name. The resource that has it is kept decoded, since it is mostly read next.
    fn look(&self, state: StoredState<'_>, name: IndexKey) -> bool {
        let kind = catalogue::resource(state.kind);
        let looked = kind.and_then(|kind| kind.decode_with_name(state.bytes, name).ok());
        let Some((true, resource)) = looked else {
            return false;
        };
        let kept = Kept {
            position: state.position,
            bytes: state.bytes.len(),
            resource,
        };
        self.names.keep(state.key, kept);
        true
    }
}

impl Source for Tables {
    fn read(&self, key: Digest, read: &mut dyn FnMut(&[u8])) -> Option<u64> {
        thread_local! {
            /// Buffer for copies of small states, so that no lock is held while a state is read.
            static COPY: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
        }
        let shard = self.states.shard(key).read();
        match shard.look(key)? {
            StateRef::Small(state) => {
                let position = state.position;
                let mut copy = COPY.take();
                copy.clear();
                copy.extend_from_slice(state.bytes);
                drop(shard);
                read(&copy);
                COPY.set(copy);
                Some(position)
            }
            StateRef::Large(page) => {
                drop(shard);
                let state = slab::state_of(&page);
                read(state.bytes);
                Some(state.position)
            }
        }
    }

    fn holder(&self, name: IndexKey) -> Option<Digest> {
        let shard = self.unique.shard(name.0).read();
        shard.holder(name.0, |holder| self.has(holder, name))
    }

    fn secondary_touched(&self, name: IndexKey) -> u64 {
        self.secondary.shard(name.0).read().touched(name.0)
    }

    fn listed(&self, name: IndexKey) -> Vec<Digest> {
        let (mut keys, mut most) = (Vec::new(), FEW);
        loop {
            keys.reserve(most);
            let shard = self.secondary.shard(name.0).read();
            let list = shard.get(name.0);
            if !list.is_some_and(|list| list.copy_on(&mut keys, most)) {
                return keys;
            }
            most = LIST_CHUNK;
        }
    }

    fn last_ranked(&self, name: IndexKey) -> Option<Digest> {
        let shard = self.secondary.shard(name.0).read();
        shard.get(name.0)?.last_ranked()
    }

    fn ranked(&self, name: IndexKey) -> Vec<Digest> {
        let mut ranked = Vec::new();
        loop {
            ranked.reserve(LIST_CHUNK);
            let shard = self.secondary.shard(name.0).read();
            let list = shard.get(name.0);
            if !list.is_some_and(|list| list.copy_ranked_on(&mut ranked, LIST_CHUNK)) {
                return ranked.into_iter().map(|(_, key)| key).collect();
            }
        }
    }

    fn take_decoded(&self, key: Digest) -> Option<Kept> {
        let is_current = |position| self.position(key) == position;
        self.names.take(key, is_current)
    }

    fn keep_decoded(&self, key: Digest, kept: Kept) {
        self.names.keep(key, kept);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::Value;
    use uuid::Uuid;

    use super::*;
    use crate::base::codec;
    use crate::base::revision::Revision;
    use crate::base::time::Timestamp;
    use crate::domain::change::Change;
    use crate::domain::mother::state::MotherProfile;
    use crate::domain::reference::kinds::mother_profile::MotherProfileFact;
    use crate::domain::reference::{FactHolder as _, samples};
    use crate::domain::resource::{ReadView, Resource as _};
    use crate::domain::stored::Versioned;

    /// Returns the change that applies the sample fact at this revision.
    fn put(before: Option<&[u8]>, revision: Revision) -> Change {
        let lines = samples::NDJSON.lines();
        let mut facts = lines.map(|line| serde_json::from_str::<Value>(line).unwrap());
        let fact = facts.find(|fact| fact["kind"] == "mother-profile").unwrap();
        let fact: MotherProfileFact = serde_json::from_value(fact["facts"].clone()).unwrap();
        let id = Uuid::from_u128(1).to_string();
        let event = MotherProfile::put(None, &id, revision, &fact).unwrap();
        let kind = catalogue::resource(MotherProfile::KIND.tag).unwrap();
        let event = Versioned {
            version: kind.version(),
            bytes: &codec::encode(&event),
        };
        kind.change(before, event, Timestamp::default()).unwrap()
    }

    #[test]
    fn a_name_is_held_by_who_has_it_and_not_by_who_has_one_that_looks_alike() {
        let tables = Tables::default();
        let change = put(None, Revision::FIRST);
        let (name, key) = (change.unique_taken[0], change.key);
        assert_eq!(tables.holder(name), None);
        tables.publish(1, change);
        assert_eq!(tables.holder(name), Some(key));
        // These bytes are stored neither in the index nor with the name.
        for byte in [2, 3, 9, 10, 11, 12, 13, 15] {
            let mut alike = name;
            alike.0.0[byte] ^= 1;
            assert_eq!(tables.holder(alike), None, "{byte}");
        }
        let digest = tables.digest();
        tables.unique.shard(name.0).write().leave(name.0, key);
        assert_eq!(tables.holder(name), None);
        assert_ne!(tables.digest(), digest, "a name that is not entered");
        tables.unique.shard(name.0).write().enter(name.0, key);
        assert_eq!(tables.digest(), digest);
        tables.unique.shard(name.0).write().enter(name.0, key);
        assert_ne!(tables.digest(), digest, "one that is entered twice");
    }

    #[test]
    fn a_resource_found_by_name_is_decoded_once_until_a_commit_changes_it() {
        let tables = Tables::default();
        let born = put(None, Revision::FIRST);
        let (name, key, state) = (born.unique_taken[0], born.key, born.state.clone());
        tables.publish(1, born);
        let read = || {
            let view = ReadView::new(&tables);
            let profile: MotherProfile = view.at(key).unwrap();
            let revision = profile.fact_revision.number();
            (revision, view.seen(), view.decoded_bytes() > 0)
        };
        assert_eq!(tables.holder(name), Some(key));
        let kept = tables.take_decoded(key).unwrap();
        assert_eq!((kept.position, kept.bytes), (1, state.len()));
        tables.keep_decoded(key, kept);
        assert_eq!(read(), (1, vec![(key, 1)], true));
        assert!(tables.take_decoded(key).is_none(), "the read has taken it");

        let view = ReadView::new(&tables);
        let profile: MotherProfile = view.at(key).unwrap();
        view.keep(profile);
        assert!(tables.take_decoded(key).is_some());
        let profile: MotherProfile = view.at(key).unwrap();
        view.keep(profile);
        tables.publish(2, put(Some(&state), Revision::new(2)));
        assert!(tables.take_decoded(key).is_none(), "it has changed since");
        assert_eq!(read(), (2, vec![(key, 2)], true));
        assert_eq!(tables.holder(name), Some(key));
        let kept = tables.take_decoded(key).unwrap();
        assert_eq!(kept.position, 2);
        tables.keep_decoded(key, kept);
        assert_eq!(read(), (2, vec![(key, 2)], true));
        assert!(tables.take_decoded(key).is_none(), "the read has taken it");
    }
}
