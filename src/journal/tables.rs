//! Committed state in memory: what replaying the log makes, and what every read is answered from.
//!
//! Four tables, each in shards: states (a resource's bytes and the position of its last commit),
//! names (who holds what must be unique), lists (which resources belong together), keys of
//! idempotency (where their commit is). A resource at rest costs its bytes and one table entry,
//! a key 24 bytes and its share of the table.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;

use crate::base::digest::{Digest, DigestBuild};
use crate::domain::operation::Change;
use crate::domain::resource::{Name, Source};

/// How many shards a table has: enough that two threads seldom meet.
const SHARDS: usize = 256;

struct Shards<V>(Box<[RwLock<HashMap<Digest, V, DigestBuild>>]>);

impl<V> Default for Shards<V> {
    fn default() -> Self {
        Self((0..SHARDS).map(|_| RwLock::default()).collect())
    }
}

impl<V> Shards<V> {
    fn shard(&self, key: Digest) -> &RwLock<HashMap<Digest, V, DigestBuild>> {
        &self.0[key.shard(SHARDS)]
    }

    fn len(&self) -> usize {
        self.0.iter().map(|shard| shard.read().len()).sum()
    }
}

struct State {
    position: u64,
    kind: u16,
    bytes: Box<[u8]>,
}

/// The tables.
#[derive(Default)]
pub struct Tables {
    /// Odd while a commit is being published: between two equal even readings, no commit was
    /// half there.
    publishing: AtomicU64,
    states: Shards<State>,
    names: Shards<Digest>,
    lists: Shards<Vec<Digest>>,
    keys: Shards<u64>,
}

/// A commit being published; it is whole when this is dropped.
pub struct Publishing<'a>(&'a Tables);

impl Drop for Publishing<'_> {
    fn drop(&mut self) {
        self.0.publishing.fetch_add(1, Ordering::Release);
    }
}

impl Tables {
    /// Begins to publish a commit of several changes. One commit is published at a time: callers
    /// hold the log's sequencer.
    pub fn begin(&self) -> Publishing<'_> {
        self.publishing.fetch_add(1, Ordering::AcqRel);
        Publishing(self)
    }

    /// What `look` sees at one instant, with no commit half published.
    pub fn at_one_instant<T>(&self, look: impl Fn() -> T) -> T {
        loop {
            let before = self.publishing.load(Ordering::Acquire);
            if before.is_multiple_of(2) {
                let seen = look();
                std::sync::atomic::fence(Ordering::Acquire);
                if self.publishing.load(Ordering::Acquire) == before {
                    return seen;
                }
            }
            std::hint::spin_loop();
        }
    }

    /// Puts a change in place that was committed at `position`.
    pub fn publish(&self, position: u64, change: Change) {
        for name in &change.names_left {
            self.names.shard(name.0).write().remove(&name.0);
        }
        for name in &change.names_taken {
            self.names.shard(name.0).write().insert(name.0, change.key);
        }
        for list in &change.lists_left {
            let mut shard = self.lists.shard(list.0).write();
            if let Some(members) = shard.get_mut(&list.0) {
                members.retain(|member| *member != change.key);
            }
        }
        for list in &change.lists_joined {
            let mut shard = self.lists.shard(list.0).write();
            let members = shard.entry(list.0).or_default();
            if let Err(place) = members.binary_search(&change.key) {
                members.insert(place, change.key);
            }
        }
        let state = State {
            position,
            kind: change.kind,
            bytes: change.state.into_boxed_slice(),
        };
        self.states
            .shard(change.key)
            .write()
            .insert(change.key, state);
    }

    /// Notes that the key with this digest was taken by the commit at `position`.
    pub fn take_key(&self, key: Digest, position: u64) {
        self.keys.shard(key).write().insert(key, position);
    }

    /// The position of the commit that took the key with this digest.
    #[must_use]
    pub fn key(&self, key: Digest) -> Option<u64> {
        self.keys.shard(key).read().get(&key).copied()
    }

    /// The position of the last commit to a resource; 0 when there is none.
    #[must_use]
    pub fn position(&self, key: Digest) -> u64 {
        let shard = self.states.shard(key).read();
        shard.get(&key).map_or(0, |state| state.position)
    }

    /// How many resources there are.
    #[must_use]
    pub fn resources(&self) -> usize {
        self.states.len()
    }

    /// How many keys of idempotency are taken.
    #[must_use]
    pub fn keys(&self) -> usize {
        self.keys.len()
    }

    /// 256 bits that two sets of tables share only when they hold the same: every state with its
    /// kind and position, every name's holder, every list's members, every key's commit.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        // Tables have no order, so the entries' hashes are added up, each table under its number.
        let mut sum = [0_u64; 4];
        let mut add = |table: u8, key: Digest, parts: &[&[u8]]| {
            let mut hasher = blake3::Hasher::new();
            hasher.update(&[table]).update(&key.0);
            for part in parts {
                hasher.update(part);
            }
            let hash = hasher.finalize();
            for (sum, part) in sum.iter_mut().zip(hash.as_bytes().chunks_exact(8)) {
                let mut half = [0; 8];
                half.copy_from_slice(part);
                *sum = sum.wrapping_add(u64::from_le_bytes(half));
            }
        };
        self.each(|kind, key, position, bytes| {
            add(
                1,
                key,
                &[&kind.to_le_bytes(), &position.to_le_bytes(), bytes],
            );
        });
        for shard in &self.names.0 {
            for (name, holder) in shard.read().iter() {
                add(2, *name, &[&holder.0]);
            }
        }
        for shard in &self.lists.0 {
            for (list, members) in shard.read().iter() {
                // A list that everybody left is as one that nobody ever joined.
                if !members.is_empty() {
                    let members: Vec<u8> = members.iter().flat_map(|member| member.0).collect();
                    add(3, *list, &[&members]);
                }
            }
        }
        for shard in &self.keys.0 {
            for (key, position) in shard.read().iter() {
                add(4, *key, &[&position.to_le_bytes()]);
            }
        }
        let mut digest = [0; 32];
        for (place, part) in digest.chunks_exact_mut(8).zip(sum) {
            place.copy_from_slice(&part.to_le_bytes());
        }
        digest
    }

    /// Hands every resource to `visit`: kind, key, position of its last commit, bytes.
    pub fn each(&self, mut visit: impl FnMut(u16, Digest, u64, &[u8])) {
        for shard in &self.states.0 {
            for (key, state) in shard.read().iter() {
                visit(state.kind, *key, state.position, &state.bytes);
            }
        }
    }
}

impl Source for Tables {
    fn read(&self, key: Digest, read: &mut dyn FnMut(&[u8])) -> Option<u64> {
        let shard = self.states.shard(key).read();
        let state = shard.get(&key)?;
        read(&state.bytes);
        Some(state.position)
    }

    fn holder(&self, name: Name) -> Option<Digest> {
        self.names.shard(name.0).read().get(&name.0).copied()
    }

    fn listed(&self, name: Name) -> Vec<Digest> {
        let shard = self.lists.shard(name.0).read();
        shard.get(&name.0).cloned().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(key: u8, state: &[u8]) -> Change {
        Change {
            kind: 100,
            key: Digest([key; 16]),
            event: Vec::new(),
            state: state.to_vec(),
            names_taken: Vec::new(),
            names_left: Vec::new(),
            lists_joined: Vec::new(),
            lists_left: Vec::new(),
        }
    }

    #[test]
    fn a_commit_of_two_changes_is_seen_whole_or_not_at_all() {
        let tables = Tables::default();
        let keys = [1, 2];
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for position in 1..=20_000 {
                    let _whole = tables.begin();
                    tables.publish(position, change(keys[0], b""));
                    tables.publish(position, change(keys[1], b""));
                }
            });
            let mut last = 0;
            while last < 20_000 {
                let seen =
                    tables.at_one_instant(|| keys.map(|key| tables.position(Digest([key; 16]))));
                assert_eq!(seen[0], seen[1]);
                assert!(seen[0] >= last);
                last = seen[0];
            }
        });
    }

    #[test]
    fn the_digest_does_not_depend_on_the_order_and_tells_every_difference() {
        let (one, other) = (Tables::default(), Tables::default());
        assert_eq!(one.digest(), [0; 32]);
        one.publish(1, change(1, b"a"));
        one.publish(2, change(2, b"b"));
        other.publish(2, change(2, b"b"));
        other.publish(1, change(1, b"a"));
        assert_eq!(one.digest(), other.digest());
        let mut seen = std::collections::BTreeSet::from([one.digest()]);
        one.publish(3, change(1, b"c"));
        assert!(seen.insert(one.digest()), "a state");
        one.publish(4, change(1, b"c"));
        assert!(seen.insert(one.digest()), "a position");
        one.take_key(Digest([3; 16]), 5);
        assert!(seen.insert(one.digest()), "a key");
        one.take_key(Digest([3; 16]), 6);
        assert!(seen.insert(one.digest()), "a key's position");
    }
}
