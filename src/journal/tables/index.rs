//! The index of a shard: from a key to the number of four bytes that says where its entry is.
//!
//! It is several hash tables of uneven shares. One table would double at one size, and so would
//! those of all shards within a moment, since digests fill them evenly: half-empty indexes just
//! after that, and each time a whole shard to hash again under its lock. Uneven ones take turns.

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use crate::base::digest::Digest;

/// Where the parts begin, but the first, of 256: each has 1.19 times the share of the one before,
/// so that four of them make a doubling.
const BEGINS: [u8; 3] = [48, 106, 174];
const PARTS: usize = BEGINS.len() + 1;

/// The index.
pub(super) struct Index<T>([HashTable<T>; PARTS]);

impl<T> Default for Index<T> {
    fn default() -> Self {
        Self([const { HashTable::new() }; PARTS])
    }
}

/// The part of this key. Neither the shard nor a hash table goes by the byte that is taken: the
/// shard by the first two, the table by [`Digest::tail`], of which the lowest bits say where to
/// look, and the highest seven what to compare before a key is looked at.
fn part(key: Digest) -> usize {
    let byte = key.0[14];
    BEGINS.iter().filter(|begin| byte >= **begin).count()
}

impl<T: Copy + PartialEq> Index<T> {
    /// What this key has; `key_of` says whose a thing in the index is.
    pub(super) fn find(&self, key: Digest, key_of: impl Fn(T) -> Digest) -> Option<T> {
        let table = &self.0[part(key)];
        table.find(key.tail(), |it| key_of(*it) == key).copied()
    }

    /// The entry of this key, there or not.
    pub(super) fn entry(&mut self, key: Digest, key_of: impl Fn(T) -> Digest) -> Entry<'_, T> {
        let table = &mut self.0[part(key)];
        table.entry(key.tail(), |it| key_of(*it) == key, |it| key_of(*it).tail())
    }

    /// Takes this key out; what it had.
    pub(super) fn remove(&mut self, key: Digest, key_of: impl Fn(T) -> Digest) -> Option<T> {
        let table = &mut self.0[part(key)];
        let entry = table.find_entry(key.tail(), |it| key_of(*it) == key);
        Some(entry.ok()?.remove().0)
    }

    /// This key, which has `from`, has `to` from here on.
    pub(super) fn moved(&mut self, key: Digest, from: T, to: T) {
        let table = &mut self.0[part(key)];
        let it = table.find_mut(key.tail(), |it| *it == from);
        *it.expect("what is moved is in the index") = to;
    }

    /// How many keys there are.
    pub(super) fn len(&self) -> usize {
        self.0.iter().map(HashTable::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn the_parts_have_growing_shares() {
        let mut shares = [0_u32; PARTS];
        for byte in 0..=u8::MAX {
            let mut key = Digest([0; 16]);
            key.0[14] = byte;
            shares[part(key)] += 1;
        }
        for pair in shares.windows(2) {
            let ratio = f64::from(pair[1]) / f64::from(pair[0]);
            assert!((1.16..1.22).contains(&ratio), "{shares:?}");
        }
    }

    #[test]
    fn the_keys_of_a_part_of_a_shard_differ_in_both_ends_of_their_hash() {
        let keys = (0..1 << 19).map(|number: u32| Digest::of(1, &[number.to_string()]));
        let hashes: Vec<u64> = keys
            .filter(|key| key.shard(16) == 5 && part(*key) == 2)
            .map(Digest::tail)
            .collect();
        for end in [|hash: u64| hash % 128, |hash: u64| hash >> 57] {
            let mut counts = HashMap::<u64, usize>::new();
            for hash in &hashes {
                *counts.entry(end(*hash)).or_default() += 1;
            }
            assert_eq!(counts.len(), 128);
            let expected = hashes.len() / 128;
            let about = expected / 2..expected * 2;
            assert!(counts.values().all(|count| about.contains(count)));
        }
    }
}
