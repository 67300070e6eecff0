//! What tables hold, as one number to compare.

use super::unique::UniqueIndex;
use super::{SHARDS, Tables};
use crate::base::digest::Digest;
use crate::catalogue;
use crate::domain::resource::{IndexKey, Source as _};

impl Tables {
    /// A 256-bit digest that two sets of tables share only if they are equal: every state with its
    /// kind and position, every unique key's resource, every secondary key's resources, every
    /// idempotency key's commit.
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
            // Entries of names that no state has, or has once less.
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
                // A forgotten key is like one that was never used.
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

    /// The names that the resources of a shard have.
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
