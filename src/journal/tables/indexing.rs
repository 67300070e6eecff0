//! The unique and secondary indexes, as recovery builds them from all states.

use super::{SHARDS, Tables};
use crate::base::digest::Digest;
use crate::domain::index::IndexKey;
use crate::domain::registered::Entries;

impl Tables {
    /// Enters resources into one shard of the unique index. Each list in `all` is in the order of the shards, and has
    /// the names of this shard among others.
    ///
    /// # Errors
    /// Two resources with the same unique key.
    pub(in crate::journal) fn index_unique(
        &self,
        shard: usize,
        all: &[Vec<(IndexKey, Digest)>],
    ) -> Result<(), [Digest; 2]> {
        let mut of_shard = Vec::new();
        for names in all {
            let first = names.partition_point(|(name, _)| name.0.shard(SHARDS) < shard);
            let names = names[first..].iter().map(|(name, key)| (name.0, *key));
            of_shard.extend(names.take_while(|(name, _)| name.shard(SHARDS) == shard));
        }
        let mut table = self.unique.0[shard].write();
        if table.fill(&of_shard) {
            return Ok(());
        }
        // One by one, which shows which resources share a name.
        for (name, key) in of_shard {
            match table.holder(name, |holder| self.has(holder, IndexKey(name))) {
                None => table.enter(name, key),
                Some(other) if other != key => return Err([key, other]),
                Some(_) => {}
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

    /// Sorts the secondary keys' lists of one shard, as their readers expect them.
    pub(in crate::journal) fn sort_secondary(&self, shard: usize) {
        for list in self.secondary.0[shard].write().iter_mut() {
            list.order();
        }
    }
}
