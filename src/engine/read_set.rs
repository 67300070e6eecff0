//! What a decision or a read rests on, and whether that still stands.

use super::core::Shared;
use crate::base::digest::Digest;
use crate::domain::operation::Change;
use crate::domain::resource::{Name, Source as _, View};

/// What a decision has read, and the position on which it rests.
pub(crate) struct Basis {
    pub(super) durable_before: u64,
    pub(super) seen: Vec<(Digest, u64)>,
    pub(super) names: Vec<(Name, Option<Digest>)>,
    pub(super) lists: Vec<(Name, u64)>,
}

impl Basis {
    /// It rests on where each resource stands that is to be changed, too, also of those that were
    /// not read: what comes into being with the commit is not there yet.
    pub(super) fn also_of(&mut self, changes: &[Change], view: &View<'_>) {
        for change in changes {
            if !self.seen.iter().any(|(key, _)| *key == change.key) {
                self.seen.push((change.key, view.position(change.key)));
            }
        }
    }
}

impl Shared {
    /// What `view` has read since `durable_before` was looked at.
    pub(crate) fn basis(durable_before: u64, view: &View<'_>) -> Basis {
        Basis {
            durable_before,
            seen: view.seen(),
            names: view.names_seen(),
            lists: view.lists_seen(),
        }
    }

    /// Whether all that was read stood so at one instant since, as a whole: what an answer that
    /// changes nothing needs. A commit asks [`Shared::stands`] under the sequencer.
    pub(crate) fn stood(&self, basis: &Basis) -> bool {
        let stands = self.tables.try_at_one_instant(|| self.stands(basis));
        stands.unwrap_or_else(|| {
            // So many commits came in between that it has to keep the next ones out.
            let _alone = self.journal.sequence();
            self.stands(basis)
        })
    }

    /// Whether all that was read still stands so.
    pub(crate) fn stands(&self, basis: &Basis) -> bool {
        let tables = &self.tables;
        basis
            .seen
            .iter()
            .all(|(key, position)| tables.position(*key) == *position)
            && basis
                .names
                .iter()
                .all(|(name, holder)| tables.holder(*name) == *holder)
            && basis
                .lists
                .iter()
                .all(|(list, touched)| tables.list_touched(*list) == *touched)
    }

    /// The position on which an answer rests that changes nothing.
    pub(crate) fn rests_on(&self, basis: &Basis) -> u64 {
        let seen = basis.seen.iter().map(|(_, position)| *position);
        let holders = basis.names.iter().filter_map(|(_, holder)| *holder);
        let holders = holders.map(|holder| self.tables.position(holder));
        let lists = basis.lists.iter().map(|(_, touched)| *touched);
        let positions = seen.chain(holders).chain(lists);
        let highest = positions.fold(basis.durable_before, u64::max);
        // That nobody holds a name any more has no position of its own.
        if basis.names.iter().any(|(_, holder)| holder.is_none()) {
            return highest.max(self.journal.appended());
        }
        highest
    }
}
