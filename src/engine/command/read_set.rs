//! The read set of a decision or a read, and its validation.

use crate::base::digest::Digest;
use crate::domain::change::Change;
use crate::domain::index::IndexKey;
use crate::domain::resource::{ReadView, Source as _};
use crate::engine::core::Shared;

/// What a decision has read, and the position that was durable before.
pub(crate) struct ReadSet {
    pub(super) durable_before: u64,
    pub(super) seen: Vec<(Digest, u64)>,
    pub(super) unique: Vec<(IndexKey, Option<Digest>)>,
    pub(super) secondary: Vec<(IndexKey, u64)>,
    /// How many resources were read through these secondary keys.
    pub(super) in_secondary: usize,
}

impl ReadSet {
    /// Adds the resources that are to be changed, also those that were not read: a resource that
    /// the commit creates must not exist yet.
    pub(super) fn add_changed(&mut self, changes: &[Change], view: &ReadView<'_>) {
        for change in changes {
            if !self.seen.iter().any(|(key, _)| *key == change.key) {
                self.seen.push((change.key, view.position(change.key)));
            }
        }
    }
}

impl Shared {
    /// The read set of `view`, which was created after `durable_before` was read.
    pub(crate) fn read_set(durable_before: u64, view: &ReadView<'_>) -> ReadSet {
        ReadSet {
            durable_before,
            seen: view.seen(),
            unique: view.unique_seen(),
            secondary: view.secondary_seen(),
            in_secondary: view.read_in_secondary(),
        }
    }

    /// Whether at one instant since then the read set was valid. For responses without a commit; a
    /// commit validates with [`Shared::is_valid`] under the sequencer.
    pub(crate) fn is_valid_at_one_instant(&self, read_set: &ReadSet) -> bool {
        let is_valid = self.tables.try_at_one_instant(|| self.is_valid(read_set));
        is_valid.unwrap_or_else(|| {
            // Commits interfered too often: the sequencer keeps further ones out.
            let _alone = self.journal.sequence();
            self.is_valid(read_set)
        })
    }

    /// Whether nothing that was read has changed.
    pub(crate) fn is_valid(&self, read_set: &ReadSet) -> bool {
        let tables = &self.tables;
        read_set
            .seen
            .iter()
            .all(|(key, position)| tables.position(*key) == *position)
            && read_set
                .unique
                .iter()
                .all(|(name, holder)| tables.holder(*name) == *holder)
            && read_set
                .secondary
                .iter()
                .all(|(list, touched)| tables.secondary_touched(*list) == *touched)
    }

    /// The position that a response without a change depends on.
    pub(crate) fn position_of(&self, read_set: &ReadSet) -> u64 {
        let seen = read_set.seen.iter().map(|(_, position)| *position);
        let holders = read_set.unique.iter().filter_map(|(_, holder)| *holder);
        let holders = holders.map(|holder| self.tables.position(holder));
        let secondary = read_set.secondary.iter().map(|(_, touched)| *touched);
        let positions = seen.chain(holders).chain(secondary);
        let highest = positions.fold(read_set.durable_before, u64::max);
        // The absence of a unique key has no position of its own.
        if read_set.unique.iter().any(|(_, holder)| holder.is_none()) {
            return highest.max(self.journal.appended());
        }
        highest
    }
}
