//! A digest of the tables' content, for comparison.

use super::unique::UniqueIndex;
use super::{SHARDS, Tables};
use crate::base::digest::Digest;
use crate::catalogue;
use crate::domain::index::IndexKey;
use crate::domain::resource::Source as _;

impl Tables {
    /// Returns a 256-bit digest that two sets of tables share only if they are equal. It covers every state with its
    /// kind and position, the resource of every unique key, the resources of every secondary key, and the commit of
    /// every idempotency key.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        // Tables have no order, so the hashes of their entries are added up, each with the number of its table.
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
        let mut surplus = self.unique.len(UniqueIndex::len);
        for shard in 0..SHARDS {
            for (name, holder) in self.names_of_shard(shard) {
                if self.holder(name) == Some(holder) {
                    add(2, name.0, &[&holder.0]);
                    surplus = surplus.wrapping_sub(1);
                }
            }
        }
        if surplus != 0 {
            // Entries in excess of the names that states have.
            add(5, Digest([0; 16]), &[&surplus.to_le_bytes()]);
        }
        for shard in &self.secondary.0 {
            for (name, list) in shard.read().iter() {
                // An empty list equals one that never had an item.
                if list.len() > 0 {
                    let members: Vec<u8> = list.iter().flat_map(|member| member.0).collect();
                    add(3, name, &[&members]);
                }
            }
        }
        for shard in &self.keys.0 {
            for (key, position) in shard.read().iter() {
                // A forgotten key counts as one that was never used.
                if position > self.forgotten() {
                    add(4, key, &[&position.to_le_bytes()]);
                }
            }
        }
        let mut digest = [0; 32];
        for (place, part) in digest.chunks_exact_mut(8).zip(sum) {
            place.copy_from_slice(&part.to_le_bytes());
        }
        digest
    }

    /// Returns the names of a shard's resources.
    fn names_of_shard(&self, shard: usize) -> Vec<(IndexKey, Digest)> {
        let mut all = Vec::new();
        let Ok(()) = self.each_of_shard(shard, |state| {
            let kind = catalogue::resource(state.kind);
            let names = kind.and_then(|kind| kind.unique_keys(state.bytes).ok());
            let names = names.into_iter().flatten();
            all.extend(names.map(|name| (name, state.key)));
            Ok::<_, std::convert::Infallible>(())
        });
        all
    }
}
