//! Committed state in memory: replay builds it, and every read is answered from it.
//!
//! Four sharded tables: states (a resource's bytes and the position of its last commit), the unique index (the
//! resource with a unique key), the secondary index (the resources that share a secondary key), and idempotency keys
//! (the positions of their commits).
//!
//! All of them are compact, since they take most of a server's memory. States lie side by side in pages (`slab`), and
//! are found by a hash index with five bytes per state (`states`, `hash_index`). Idempotency keys lie side by side in
//! chunks, with a hash index of the same kind (`compact`). So do unique keys, of which only the bytes that lead to
//! their holders are stored (`unique`), and the lists of secondary keys (`secondary`). Lists are kept up to date with
//! commits (`listing`), and store half of each key (`half_key`). Large tables lie in huge pages (`memory`).
//!
//! Idempotency keys are forgotten by one number, the watermark: a key used at or below it counts as never used. Its
//! entry is swept from the table afterwards.

mod chunked_vec;
mod compact;
mod content;
mod extent;
mod half_key;
mod hash_index;
mod indexing;
mod list_walk;
mod listed;
mod listed_at;
mod listing;
mod lists;
mod memory;
mod name_cache;
mod ordered;
mod pair;
mod pieces;
mod prepared;
mod secondary;
mod slab;
mod slot;
mod source;
mod states;
mod stored_state;
mod sweep;
mod tags;
mod unique;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};

use self::compact::CompactMap;
use self::half_key::HalfKeyCollisions;
pub use self::list_walk::{AccessPath, Found, ListPlan};
pub(super) use self::listed::{AllListed, FoundLists};
use self::listed_at::Births;
pub use self::listed_at::{InvalidListedAt, ListedAt};
use self::lists::Lists;
pub use self::lists::{Candidate, Set};
pub use self::memory::keep_ready as keep_memory_ready;
pub(super) use self::pieces::Pieces;
pub use self::prepared::PreparedChange;
use self::secondary::{List, SecondaryIndex};
use self::states::{StateRef, States};
pub use self::stored_state::StoredState;
use self::unique::UniqueIndex;
use crate::base::digest::{Digest, KeyDigest};
use crate::domain::change::Change;

/// Number of shards of a table: enough that two threads seldom need the same one.
pub(super) const SHARDS: usize = 256;
/// Number of entries processed while a shard is locked for housekeeping.
const CHUNK: usize = 64;
/// Bytes of states at which a chunk ends early.
const CHUNK_BYTES: usize = 32 << 10;
/// Number of pages of states visited while their shard is locked.
const CHUNK_PAGES: usize = 4;
/// Number of keys of a list copied while its shard is locked.
const LIST_CHUNK: usize = 256;
/// Number of attempts at a consistent read of several entries.
const READ_ATTEMPTS_MAX: usize = 64;

/// The highest position of a commit that the tables can hold.
pub(super) const POSITION_MAX: u64 = slot::POSITION_MAX;

/// A table, sharded by the digest's first bytes; the hash indexes of a shard use other bytes.
struct Shards<T>(Box<[RwLock<T>]>);

impl<T: Default> Default for Shards<T> {
    fn default() -> Self {
        Self((0..SHARDS).map(|_| RwLock::default()).collect())
    }
}

impl<T> Shards<T> {
    fn shard(&self, key: Digest) -> &RwLock<T> {
        &self.0[key.shard(SHARDS)]
    }

    fn len(&self, of: impl Fn(&T) -> usize) -> usize {
        self.0.iter().map(|shard| of(&shard.read())).sum()
    }
}

/// The tables.
#[derive(Default)]
pub struct Tables {
    /// Odd while a commit is being published: between two equal even values, no commit was partly published.
    publishing: AtomicU64,
    states: Shards<States>,
    unique: Shards<UniqueIndex>,
    secondary: Shards<SecondaryIndex>,
    keys: Shards<CompactMap>,
    /// Resource keys that are later, as defined in `half_key`; `later_lists` has the names of such lists with ranks.
    later: HalfKeyCollisions,
    later_lists: HalfKeyCollisions,
    /// Idempotency keys used at this position or before are forgotten.
    forgotten: AtomicU64,
    /// Commits whose response a second key leads to, each with the last position of such a key.
    firsts: Mutex<BTreeMap<u64, u64>>,
    /// Held while the places of states are visited.
    going_through: Mutex<()>,
    lists: Lists,
    names: name_cache::NameCache,
    /// Births of listed resources while tables are built, in no order, by shard.
    births: Shards<Vec<(Digest, ListedAt)>>,
    /// Births of items of several resources, while tables are built.
    together: Mutex<Births>,
    has_guessed_births: AtomicBool,
}

/// A commit being published; dropping this guard completes it.
pub struct Publishing<'a>(&'a Tables);

impl Drop for Publishing<'_> {
    fn drop(&mut self) {
        self.0.publishing.fetch_add(1, Ordering::Release);
    }
}

impl Tables {
    /// Begins to publish a commit of several changes. One commit is published at a time: callers hold the log's
    /// sequencer.
    pub fn begin(&self) -> Publishing<'_> {
        self.publishing.fetch_add(1, Ordering::AcqRel);
        Publishing(self)
    }

    /// Returns what `look` sees at one instant, with no commit partly published; `None` if commits were published
    /// during every attempt. Under the log's sequencer that never happens.
    pub fn try_at_one_instant<T>(&self, look: impl Fn() -> T) -> Option<T> {
        for _ in 0..READ_ATTEMPTS_MAX {
            let before = self.publishing.load(Ordering::Acquire);
            if before.is_multiple_of(2) {
                let seen = look();
                std::sync::atomic::fence(Ordering::Acquire);
                if self.publishing.load(Ordering::Acquire) == before {
                    return Some(seen);
                }
            }
            std::hint::spin_loop();
        }
        None
    }

    /// Publishes a change that was committed at `position`.
    pub fn publish(&self, position: u64, change: Change) {
        let mut prepared = PreparedChange::new(change);
        self.publish_prepared(position, &mut prepared);
        self.finish_lists(&[prepared]);
    }

    /// Publishes a prepared change, as [`Tables::publish`] does; the memory that it replaces is freed with it.
    pub fn publish_prepared(&self, position: u64, prepared: &mut PreparedChange) {
        let shown = self.shown_before(prepared);
        let PreparedChange { change, page, .. } = prepared;
        for name in &change.unique_left {
            self.unique.shard(name.0).write().leave(name.0, change.key);
        }
        for (lists, happens) in [
            (&change.secondary_left, List::leave as fn(&mut List, Digest)),
            (&change.secondary_joined, List::join),
            (&change.secondary_kept, |_, _| {}),
        ] {
            for list in lists {
                let mut shard = self.secondary.shard(list.0).write();
                let list = shard.get_mut(list.0, &self.later_lists);
                happens(list, change.key);
                list.touched = position;
            }
        }
        for ranked in &change.ranks {
            let mut shard = self.secondary.shard(ranked.list.0).write();
            let list = shard.get_mut(ranked.list.0, &self.later_lists);
            list.rank(change.key, ranked.before.as_ref(), ranked.after.as_ref());
            list.touched = position;
        }
        let mut page = page.take();
        if let Some(page) = &mut page {
            slab::committed_at(page, position);
        }
        let state = StoredState {
            kind: change.kind,
            key: change.key,
            position,
            bytes: &change.state,
        };
        let mut states = self.states.shard(change.key).write();
        prepared.page = states.put(state, page, &self.later);
        drop(states);
        for name in &change.unique_taken {
            self.unique.shard(name.0).write().enter(name.0, change.key);
        }
        self.publish_in_lists(position, prepared, shown);
    }

    /// Makes room for changes, and for the idempotency key of their command, before the sequencer is held: otherwise
    /// allocation, and the moves by which an index grows, would be most of the critical section. Changes nothing that
    /// anybody reads. Changes in between may use up the room, which is then made when it is needed.
    pub fn reserve(&self, changes: &mut [PreparedChange], key: Option<KeyDigest>) {
        for prepared in changes {
            self.reserve_in_lists(prepared);
            let PreparedChange { change, page, .. } = prepared;
            for name in &change.unique_taken {
                self.unique
                    .shard(name.0)
                    .write()
                    .reserve(name.0, change.key);
            }
            let lists = change.secondary_left.iter().chain(&change.secondary_joined);
            for list in lists.chain(&change.secondary_kept) {
                self.secondary
                    .shard(list.0)
                    .write()
                    .reserve(list.0, change.key);
            }
            for ranked in &change.ranks {
                let list = ranked.list.0;
                self.secondary.shard(list).write().reserve(list, change.key);
            }
            let state = StoredState {
                kind: change.kind,
                key: change.key,
                position: 0,
                bytes: &change.state,
            };
            let mut shard = self.states.shard(change.key).write();
            shard.reserve(state, page.is_some());
        }
        if let Some(KeyDigest(key)) = key {
            self.keys.shard(key).write().reserve(key, 0);
        }
    }

    /// Enters the idempotency key with this digest, used by the commit at `position`.
    pub fn take_key(&self, KeyDigest(key): KeyDigest, position: u64) {
        self.keys.shard(key).write().insert(key, position);
    }

    /// Enters a key as [`Tables::take_key`] does, for recovery: it is found once [`Tables::index_keys`] was called.
    pub(super) fn note_key(&self, KeyDigest(key): KeyDigest, position: u64) {
        self.keys.shard(key).write().note(key, position);
    }

    /// Enters a key, unless `may` rejects its previous use.
    ///
    /// # Errors
    /// The error of `may`.
    pub(super) fn take_key_if<E>(
        &self,
        KeyDigest(key): KeyDigest,
        position: u64,
        may: impl FnOnce(Option<u64>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut shard = self.keys.shard(key).write();
        shard.insert_if(key, position, may)
    }

    /// Builds an index of the keys noted in a shard, if `is_meant` and no key was noted twice.
    ///
    /// # Errors
    /// Otherwise returns the keys, each with its position, and empties the shard.
    pub(super) fn index_keys(
        &self,
        shard: usize,
        is_meant: bool,
    ) -> Result<(), Vec<(KeyDigest, u64)>> {
        let mut shard = self.keys.0[shard].write();
        if is_meant && shard.index_noted() {
            return Ok(());
        }
        let noted = std::mem::take(&mut *shard);
        let noted = noted
            .iter()
            .map(|(key, position)| (KeyDigest(key), position));
        Err(noted.collect())
    }

    /// Returns the position of the commit that used the key with this digest, unless the key is forgotten.
    #[must_use]
    pub fn key(&self, KeyDigest(key): KeyDigest) -> Option<u64> {
        let position = self.last_use(KeyDigest(key));
        position.filter(|position| *position > self.forgotten())
    }

    /// Returns the position of the last commit that used the key with this digest; also of a forgotten key that was
    /// not swept yet.
    #[must_use]
    pub fn last_use(&self, KeyDigest(key): KeyDigest) -> Option<u64> {
        self.keys.shard(key).read().get(key)
    }

    /// Returns the position up to which used idempotency keys are forgotten; 0: none is.
    #[must_use]
    pub fn forgotten(&self) -> u64 {
        self.forgotten.load(Ordering::Acquire)
    }

    /// Forgets the keys used at `through` or before. [`Tables::sweep`] frees them.
    pub fn forget(&self, through: u64) {
        self.forgotten.fetch_max(through, Ordering::AcqRel);
    }

    /// Returns the position of a resource's last commit; 0 if there is none.
    #[must_use]
    pub fn position(&self, key: Digest) -> u64 {
        let shard = self.states.shard(key).read();
        shard.get(key).map_or(0, |state| state.position)
    }

    /// Number of resources.
    #[must_use]
    pub fn resources(&self) -> usize {
        self.states.len(States::len)
    }

    /// Number of idempotency keys.
    #[must_use]
    pub fn keys(&self) -> usize {
        self.keys.len(CompactMap::len)
    }

    /// Passes every resource to `visit`: kind, key, position of its last commit, bytes.
    pub fn each(&self, mut visit: impl FnMut(u16, Digest, u64, &[u8])) {
        for shard in &self.states.0 {
            for state in shard.read().iter() {
                visit(state.kind, state.key, state.position, state.bytes);
            }
        }
    }

    /// Passes every resource that exists at the beginning to `copy`, in its state at the time of the copy. A shard is
    /// locked only while a few of its resources are copied; between such chunks `between` is called, with no lock
    /// held.
    ///
    /// # Errors
    /// The error of `between`, which ends the copying.
    pub fn copy_states<E>(
        &self,
        mut copy: impl FnMut(StoredState<'_>),
        mut between: impl FnMut() -> Result<(), E>,
    ) -> Result<(), E> {
        for shard in &self.states.0 {
            let keys = self.keys_of(shard);
            let mut keys = keys.as_slice();
            while !keys.is_empty() {
                let (mut count, mut bytes) = (0, 0);
                let mut large = None;
                {
                    let shard = shard.read();
                    for key in keys.iter().take(CHUNK) {
                        count += 1;
                        match shard.look(*key) {
                            // Cannot happen, since a resource is never removed.
                            None => {}
                            Some(StateRef::Small(state)) => {
                                copy(state);
                                bytes += state.bytes.len();
                            }
                            Some(StateRef::Large(page)) => large = Some(page),
                        }
                        if bytes >= CHUNK_BYTES || large.is_some() {
                            break;
                        }
                    }
                }
                if let Some(page) = large {
                    copy(slab::state_of(&page));
                }
                keys = &keys[count..];
                between()?;
            }
        }
        Ok(())
    }

    /// Returns the keys of all resources of a shard, each once. Locks the shard only for a few pages at a time;
    /// states that move in between are noted.
    fn keys_of(&self, shard: &RwLock<States>) -> Vec<Digest> {
        let _alone = self.going_through.lock();
        shard.write().watch();
        let mut keys = Vec::new();
        let mut page = 0;
        loop {
            let shard = shard.read();
            let end = shard.pages().min(page + CHUNK_PAGES);
            keys.extend((page..end).flat_map(|page| shard.keys_in(page)));
            page = end;
            if page == shard.pages() {
                break;
            }
        }
        keys.extend(shard.write().watched());
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// Replaces the resource with this key by the bytes that `change` returns, which are copied; leaves it if
    /// `change` returns none. [`Tables::index`] updates the indexes.
    pub(super) fn amend<'n, E>(
        &self,
        position: u64,
        kind: u16,
        key: Digest,
        change: impl FnOnce(Option<StoredState<'_>>) -> Result<Option<&'n [u8]>, E>,
    ) -> Result<(), E> {
        let mut shard = self.states.shard(key).write();
        shard.amend(position, kind, key, &self.later, change)
    }

    /// Adds a resource that is not found before [`Tables::index_states`], which is to be called before any other
    /// resource of its shard is added or changed.
    pub(super) fn note_state(&self, state: StoredState<'_>) {
        self.states.shard(state.key).write().note(state);
    }

    /// Builds an index of the noted resources of a shard.
    ///
    /// # Errors
    /// Of the resources noted twice, the kind and position of the one with the lowest position.
    pub(super) fn index_states(&self, shard: usize) -> Result<(), (u16, u64)> {
        let mut states = self.states.0[shard].write();
        let indexed = states.index_noted(&self.later);
        indexed.map_err(|twice| (twice.kind, twice.position))
    }

    /// Loads into the processor's cache the data that [`Tables::amend`] reads for these keys, in the shards for which
    /// `is_meant` holds: the waits for memory overlap, unlike during one change after the other.
    pub(super) fn prefetch(
        &self,
        keys: impl Iterator<Item = Digest>,
        is_meant: impl Fn(usize) -> bool,
    ) {
        // All shards are locked first, since taking a lock waits for earlier reads.
        let shards = self.states.0.iter().enumerate();
        let shards = shards.map(|(shard, states)| is_meant(shard).then(|| states.read()));
        let shards: Vec<_> = shards.collect();
        for key in keys {
            if let Some(states) = &shards[key.shard(SHARDS)] {
                states.prefetch(key);
            }
        }
    }

    /// Passes the resources of one shard to `visit`.
    ///
    /// # Errors
    /// The error of `visit`, which ends the visits.
    pub(super) fn each_of_shard<E>(
        &self,
        shard: usize,
        mut visit: impl FnMut(StoredState<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let shard = self.states.0[shard].read();
        shard.iter().try_for_each(&mut visit)
    }

    /// Returns what `look` sees of the resource with this key; `None` if there is none.
    pub(super) fn with_state<T>(
        &self,
        key: Digest,
        look: impl FnOnce(StoredState<'_>) -> T,
    ) -> Option<T> {
        self.states.shard(key).read().get(key).map(look)
    }

    /// Returns the kind and position of the resource with this key.
    pub(super) fn standing(&self, key: Digest) -> Option<(u16, u64)> {
        self.with_state(key, |state| (state.kind, state.position))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::base::revision::Revision;
    use crate::base::time::Timestamp;
    use crate::domain::change::RankChange;
    use crate::domain::index::IndexKey;
    use crate::domain::rank::Rank;
    use crate::domain::registered::Entries;
    use crate::domain::resource::Source as _;

    /// A change of a resource with this key, to this state.
    pub(crate) fn change(key: u8, state: &[u8]) -> Change {
        Change {
            kind: 100,
            version: 1,
            key: Digest([key; 16]),
            revision: Revision::FIRST,
            advances: true,
            path: Vec::new(),
            event: Vec::new(),
            state: state.to_vec(),
            unique_taken: Vec::new(),
            unique_left: Vec::new(),
            secondary_joined: Vec::new(),
            secondary_left: Vec::new(),
            secondary_kept: Vec::new(),
            ranks: Vec::new(),
            list: None,
            lead: None,
        }
    }

    /// Returns different keys, all of one shard.
    fn of_one_shard(number: u64) -> Digest {
        let mut key = Digest::of(1, &[number.to_string()]);
        key.0[..2].fill(0);
        key
    }

    #[test]
    fn the_highest_rank_is_the_last_and_a_rank_change_touches_the_list() {
        let tables = Tables::default();
        let list = IndexKey(Digest([7; 16]));
        let rank = |millis| Rank::new(Timestamp::from_millis(millis), "");
        let step = |position, key, before: Option<i64>, after: Option<i64>| {
            let ranks = vec![RankChange {
                list,
                before: before.map(rank),
                after: after.map(rank),
            }];
            let changed = Change {
                ranks,
                ..change(key, b"state")
            };
            tables.publish(position, changed);
            let last = tables.last_ranked(list).map(|key| key.0[0]);
            (tables.secondary_touched(list), last)
        };
        assert_eq!(tables.last_ranked(list), None);
        assert_eq!(step(1, 1, None, Some(10)), (1, Some(1)));
        assert_eq!(step(2, 2, None, Some(20)), (2, Some(2)));
        assert_eq!(step(3, 3, None, Some(15)), (3, Some(2)));
        assert_eq!(step(4, 2, Some(20), Some(12)), (4, Some(3)));
        assert_eq!(step(5, 3, Some(15), Some(15)), (5, Some(3)));
        let other = Tables::default();
        for (key, millis) in [(3, 15), (1, 10), (2, 12)] {
            let entries = Entries {
                key: Digest([key; 16]),
                unique: Vec::new(),
                secondary: Vec::new(),
                ranks: vec![(list, rank(millis))],
                place: None,
            };
            other.index(&entries);
        }
        (0..SHARDS).for_each(|shard| other.sort_secondary(shard));
        assert_eq!(other.last_ranked(list), Some(Digest([3; 16])));
        assert_eq!(step(6, 3, Some(15), None), (6, Some(2)));
        assert_eq!(step(7, 2, Some(12), None), (7, Some(1)));
        assert_eq!(step(8, 1, Some(10), None), (8, None));
    }

    #[test]
    fn keys_are_swept_with_pauses_however_few_of_them_are_forgotten() {
        let tables = Tables::default();
        for number in 0..10_000 {
            // Old keys among later ones.
            let position = if number % 100 == 7 { 1 } else { 2 };
            tables.take_key(KeyDigest(of_one_shard(number)), position);
            tables.note_first(number, position);
        }
        tables.forget(1);
        let pauses = Cell::new(0);
        let swept = tables.sweep(|| {
            pauses.set(pauses.get() + 1);
            Ok::<_, ()>(())
        });
        assert_eq!((swept, tables.keys()), (Ok(100), 9_900));
        assert_eq!(tables.firsts.lock().len(), 9_900);
        for number in 0..10_000 {
            let kept = (number % 100 != 7).then_some(2);
            assert_eq!(tables.key(KeyDigest(of_one_shard(number))), kept);
            assert_eq!(tables.is_first(number, 1), kept.is_some());
        }
        let chunks = 2 * (10_000 / CHUNK);
        assert!(pauses.get() >= chunks, "{} of {chunks}", pauses.get());
    }

    #[test]
    fn forgotten_keys_are_swept_while_new_keys_are_taken() {
        let tables = Tables::default();
        let mut number = 0;
        let mut take = |count: u64, position| {
            for _ in 0..count {
                tables.take_key(KeyDigest(of_one_shard(number)), position);
                number += 1;
            }
        };
        take(2_000, 1);
        take(100, 2);
        take(2_000, 1);
        tables.forget(1);
        let swept = tables.sweep(|| {
            take(5, 2);
            Ok::<_, ()>(())
        });
        assert_eq!(swept, Ok(4_000));
        let taken = tables.keys();
        assert!(taken > 100 && u64::try_from(taken).unwrap_or(0) == number - 4_000);
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
                let look = || keys.map(|key| tables.position(Digest([key; 16])));
                let Some(seen) = tables.try_at_one_instant(look) else {
                    continue;
                };
                assert_eq!(seen[0], seen[1]);
                assert!(seen[0] >= last);
                last = seen[0];
            }
        });
    }

    #[test]
    fn a_list_is_touched_only_by_joins_leaves_and_changes_of_its_members() {
        let tables = Tables::default();
        let (list, other) = (IndexKey(Digest([7; 16])), IndexKey(Digest([8; 16])));
        assert_eq!(
            (tables.secondary_touched(list), tables.listed(list)),
            (0, vec![])
        );
        let step = |position, key, lists: [&[IndexKey]; 3]| {
            let [secondary_left, secondary_joined, secondary_kept] =
                lists.map(<[IndexKey]>::to_vec);
            let changed = Change {
                secondary_left,
                secondary_joined,
                secondary_kept,
                ..change(key, b"state")
            };
            tables.publish(position, changed);
            (tables.secondary_touched(list), tables.listed(list).len())
        };
        assert_eq!(step(1, 1, [&[], &[list], &[]]), (1, 1));
        assert_eq!(step(2, 2, [&[], &[list, other], &[]]), (2, 2));
        assert_eq!(step(3, 3, [&[], &[], &[]]), (2, 2));
        assert_eq!(step(4, 2, [&[], &[], &[list, other]]), (4, 2));
        assert_eq!(step(5, 2, [&[list], &[], &[other]]), (5, 1));
        assert_eq!(step(6, 1, [&[list], &[], &[]]), (6, 0));
        assert_eq!(step(7, 2, [&[], &[], &[other]]), (6, 0));
    }

    #[test]
    fn a_list_is_copied_whole_and_takes_no_large_buffer_without_keys() {
        let list = IndexKey(Digest([7; 16]));
        for count in [0_u16, 1, 7, 8, 9, 263, 264, 265] {
            let tables = Tables::default();
            for number in 0..count {
                let mut key = Digest([1; 16]);
                key.0[..2].copy_from_slice(&number.to_be_bytes());
                let joining = Change {
                    key,
                    secondary_joined: vec![list],
                    ..change(1, b"state")
                };
                tables.publish(u64::from(number) + 1, joining);
            }
            let keys = tables.listed(list);
            assert_eq!(keys.len(), usize::from(count));
            assert!(keys.is_sorted());
            assert!(count > 0 || keys.capacity() < LIST_CHUNK);
        }
    }

    #[test]
    fn a_commit_touches_its_lists_even_if_they_are_swept_during_publication() {
        let tables = Tables::default();
        // All in one shard.
        let lists = [1, 2, 3].map(|number| IndexKey(of_one_shard(number)));
        let [left, joined, old] = lists;
        let in_lists = |secondary_left, secondary_joined| Change {
            secondary_left,
            secondary_joined,
            ..change(1, b"state")
        };
        tables.publish(1, in_lists(vec![], vec![left, old]));
        tables.publish(2, in_lists(vec![old], vec![]));
        let sweep = |upto| tables.sweep_lists(upto, || Ok::<_, ()>(()));
        // The commit at 3 is published in two steps here; up to 2 all are.
        tables.publish(3, in_lists(vec![left], vec![]));
        assert_eq!(sweep(2), Ok(1));
        let read = [left, joined, old].map(|list| tables.secondary_touched(list));
        assert_eq!(read, [3, 2, 2]);
        tables.publish(3, in_lists(vec![], vec![joined]));
        assert_eq!(tables.secondary_touched(joined), 3);
        assert_eq!(sweep(3), Ok(1));
        let read = [left, joined, old].map(|list| tables.secondary_touched(list));
        assert_eq!(read, [3, 3, 3]);
        assert_eq!(tables.listed(joined), [Digest([1; 16])]);
    }

    #[test]
    fn a_state_that_is_read_holds_up_no_change_of_it() {
        let tables = Tables::default();
        for length in [10, 100_000] {
            tables.publish(1, change(1, &vec![1; length]));
            let mut seen = Vec::new();
            let position = tables.read(Digest([1; 16]), &mut |bytes| {
                // This would wait for ever if the shard were still locked.
                tables.publish(2, change(1, &vec![2; length + 1]));
                seen = bytes.to_vec();
            });
            assert_eq!((position, seen), (Some(1), vec![1; length]));
            assert_eq!(tables.position(Digest([1; 16])), 2);
        }
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
        one.take_key(KeyDigest(Digest([3; 16])), 5);
        assert!(seen.insert(one.digest()), "a key");
        one.take_key(KeyDigest(Digest([3; 16])), 6);
        assert!(seen.insert(one.digest()), "a key's position");
    }

    #[test]
    fn a_forgotten_key_is_as_one_that_was_never_taken_and_can_be_taken_again() {
        let tables = Tables::default();
        for key in 1..=200 {
            tables.take_key(KeyDigest(Digest([key; 16])), u64::from(key));
        }
        let untouched = Tables::default();
        for key in 151..=200 {
            untouched.take_key(KeyDigest(Digest([key; 16])), u64::from(key));
        }
        tables.forget(150);
        assert_eq!(tables.key(KeyDigest(Digest([150; 16]))), None);
        assert_eq!(tables.key(KeyDigest(Digest([151; 16]))), Some(151));
        assert_eq!(tables.digest(), untouched.digest());
        tables.take_key(KeyDigest(Digest([7; 16])), 300);
        let swept = tables.sweep(|| Ok::<_, ()>(()));
        assert_eq!((swept, tables.keys()), (Ok(149), 51));
        assert_eq!(tables.key(KeyDigest(Digest([7; 16]))), Some(300));
        tables.forget(20);
        assert_eq!(tables.forgotten(), 150, "it never goes back");
    }

    #[test]
    fn a_first_answer_is_one_while_a_second_key_leads_to_it() {
        let tables = Tables::default();
        tables.note_first(1, 9);
        tables.note_first(1, 5);
        assert!(tables.is_first(1, 0) && !tables.is_first(5, 0));
        assert!(tables.is_first(1, 8));
        assert!(!tables.is_first(1, 9));
        tables.forget(9);
        let _ = tables.sweep(|| Ok::<_, ()>(()));
        assert!(tables.firsts.lock().is_empty());
    }

    #[test]
    fn every_state_is_copied_once_and_large_ones_hold_the_lock_for_less() {
        let tables = Tables::default();
        for number in 0..1_000_u64 {
            let mut key = Digest([0; 16]);
            key.0[8..].copy_from_slice(&number.to_le_bytes());
            let state = vec![7; if number < 10 { CHUNK_BYTES } else { 10 }];
            tables.publish(
                number + 1,
                Change {
                    key,
                    ..change(0, &state)
                },
            );
        }
        let mut copied = std::collections::BTreeSet::new();
        let (bytes, between) = (std::cell::Cell::new(0), std::cell::Cell::new(0));
        let done = tables.copy_states(
            |standing| {
                assert!(copied.insert(standing.position));
                bytes.set(bytes.get() + standing.bytes.len());
            },
            || {
                assert!(bytes.get() < 2 * CHUNK_BYTES);
                bytes.set(0);
                between.set(between.get() + 1);
                Ok::<_, ()>(())
            },
        );
        assert_eq!((done, copied.len()), (Ok(()), 1_000));
        assert!(between.get() >= 1_000 / CHUNK);
    }

    #[test]
    fn states_that_move_while_they_are_copied_are_copied_once() {
        let tables = Tables::default();
        let put = |number: u16, length: usize| {
            // All keys are in one shard, so that there are several chunks.
            let mut key = Digest([0; 16]);
            key.0[8..10].copy_from_slice(&number.to_le_bytes());
            let state = vec![7; length];
            let changed = Change {
                key,
                ..change(0, &state)
            };
            tables.publish(u64::from(number) + 1, changed);
        };
        for number in 0..1_000 {
            put(number, 100);
        }
        let mut copied = std::collections::BTreeSet::new();
        let mut length = 100;
        let done = tables.copy_states(
            |standing| assert!(copied.insert(standing.position)),
            || {
                length += 16;
                for number in (0..1_000).step_by(3) {
                    put(number, length);
                }
                Ok::<_, ()>(())
            },
        );
        assert_eq!((done, copied.len()), (Ok(()), 1_000));
        assert!(length > 300, "states moved in between");
    }

    #[test]
    fn states_that_move_while_their_keys_are_gone_through_are_all_found() {
        let tables = Tables::default();
        let count = 2_000_u16;
        let put = |number: u16, length: usize| {
            let mut key = Digest([0; 16]);
            key.0[8..10].copy_from_slice(&number.to_le_bytes());
            let state = vec![7; length];
            tables.publish(
                1,
                Change {
                    key,
                    ..change(0, &state)
                },
            );
        };
        for number in 0..count {
            put(number, 40 + usize::from(number % 5) * 64);
        }
        let is_done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut length = 0;
                while !is_done.load(Ordering::Relaxed) {
                    length = (length + 48) % 20_000;
                    for number in (0..count).step_by(7) {
                        put(number, length);
                    }
                }
            });
            for _ in 0..50 {
                let keys = tables.keys_of(&tables.states.0[Digest([0; 16]).shard(SHARDS)]);
                assert_eq!(keys.len(), usize::from(count));
            }
            is_done.store(true, Ordering::Relaxed);
        });
    }
}
