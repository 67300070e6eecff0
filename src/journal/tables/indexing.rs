//! The unique and secondary indexes, which recovery makes of all states.

use super::{SHARDS, Tables};
use crate::base::digest::Digest;
use crate::domain::registered::Entries;
use crate::domain::resource::IndexKey;

impl Tables {
    /// Enters resources under those of their unique keys that belong to one shard, which are found
    /// among all of them: each of these is in the order of shards.
    ///
    /// # Errors
    /// Two resources with the same unique key.
    pub(in crate::journal) fn index_unique(
        &self,
        shard: usize,
        all: &[Vec<(IndexKey, Digest)>],
    ) -> Result<(), [Digest; 2]> {
        let mut table = self.unique.0[shard].write();
        for names in all {
            let first = names.partition_point(|(name, _)| name.0.shard(SHARDS) < shard);
            let of_shard = |(name, _): &&(IndexKey, Digest)| name.0.shard(SHARDS) == shard;
            for (name, key) in names[first..].iter().take_while(of_shard) {
                match table.holder(name.0, |holder| self.has(holder, *name)) {
                    None => table.enter(name.0, *key),
                    Some(other) if other != *key => return Err([*key, other]),
                    Some(_) => {}
                }
            }
        }
        Ok(())
    }

    /// Enters the resource with this key under its secondary keys, in no order.
    pub(in crate::journal) fn index(&self, entries: &Entries) {
        for list in &entries.secondary {
            let mut shard = self.secondary.shard(list.0).write();
            let list = shard.get_mut(list.0, &self.later_lists);
            list.push(entries.key);
        }
        for (list, rank) in &entries.ranks {
            let mut shard = self.secondary.shard(list.0).write();
            let list = shard.get_mut(list.0, &self.later_lists);
            list.rank(entries.key, None, Some(rank));
        }
    }

    /// Orders the secondary keys' lists of one shard, as their readers expect them.
    pub(in crate::journal) fn sort_secondary(&self, shard: usize) {
        for list in self.secondary.0[shard].write().iter_mut() {
            list.order();
        }
    }
}
