//! What a decision or a read rests on, and whether that still stands.

use super::core::Shared;
use crate::base::digest::Digest;
use crate::domain::operation::Change;
use crate::domain::resource::{IndexKey, ReadView, Source as _};

/// What a decision has read, and the position on which it rests.
pub(crate) struct ReadSet {
    pub(super) durable_before: u64,
    pub(super) seen: Vec<(Digest, u64)>,
    pub(super) names: Vec<(IndexKey, Option<Digest>)>,
    pub(super) lists: Vec<(IndexKey, u64)>,
    /// How many resources were read in those lists.
    pub(super) in_lists: usize,
}

impl ReadSet {
    /// It rests on where each resource stands that is to be changed, too, also of those that were
    /// not read: what comes into being with the commit is not there yet.
    pub(super) fn also_of(&mut self, changes: &[Change], view: &ReadView<'_>) {
        for change in changes {
            if !self.seen.iter().any(|(key, _)| *key == change.key) {
                self.seen.push((change.key, view.position(change.key)));
            }
        }
    }
}

impl Shared {
    /// What `view` has read since `durable_before` was looked at.
    pub(crate) fn read_set(durable_before: u64, view: &ReadView<'_>) -> ReadSet {
        ReadSet {
            durable_before,
            seen: view.seen(),
            names: view.unique_seen(),
            lists: view.secondary_seen(),
            in_lists: view.read_in_secondary(),
        }
    }

    /// Whether all that was read stood so at one instant since, as a whole: what an answer that
    /// changes nothing needs. A commit asks [`Shared::stands`] under the sequencer.
    pub(crate) fn stood(&self, read_set: &ReadSet) -> bool {
        let stands = self.tables.try_at_one_instant(|| self.stands(read_set));
        stands.unwrap_or_else(|| {
            // So many commits came in between that it has to keep the next ones out.
            let _alone = self.journal.sequence();
            self.stands(read_set)
        })
    }

    /// Whether all that was read still stands so.
    pub(crate) fn stands(&self, read_set: &ReadSet) -> bool {
        let tables = &self.tables;
        read_set
            .seen
            .iter()
            .all(|(key, position)| tables.position(*key) == *position)
            && read_set
                .names
                .iter()
                .all(|(name, holder)| tables.holder(*name) == *holder)
            && read_set
                .lists
                .iter()
                .all(|(list, touched)| tables.secondary_touched(*list) == *touched)
    }

    /// The position on which an answer rests that changes nothing.
    pub(crate) fn rests_on(&self, read_set: &ReadSet) -> u64 {
        let seen = read_set.seen.iter().map(|(_, position)| *position);
        let holders = read_set.names.iter().filter_map(|(_, holder)| *holder);
        let holders = holders.map(|holder| self.tables.position(holder));
        let lists = read_set.lists.iter().map(|(_, touched)| *touched);
        let positions = seen.chain(holders).chain(lists);
        let highest = positions.fold(read_set.durable_before, u64::max);
        // That nobody holds a name any more has no position of its own.
        if read_set.names.iter().any(|(_, holder)| holder.is_none()) {
            return highest.max(self.journal.appended());
        }
        highest
    }
}
