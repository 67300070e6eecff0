//! Everything as of one position, as a source that reads read from.

use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::Past;
use super::listed::{Listed, Stay};
use super::ranked::{Ranked, RanksAsOf};
use super::resource_change::Lost;
use crate::base::digest::Digest;
use crate::domain::index::IndexKey;
use crate::domain::resource::Source;

/// Everything as of one position. A resource that could not be rebuilt is noted, and counts as absent.
pub struct AsOf<'p, 'a> {
    past: &'p Past<'a>,
    position: u64,
    lost: RefCell<Option<Lost>>,
}

impl<'p, 'a> AsOf<'p, 'a> {
    /// Creates the source as of this position, which must be durable.
    #[must_use]
    pub fn new(past: &'p Past<'a>, position: u64) -> Self {
        Self {
            past,
            position,
            lost: RefCell::default(),
        }
    }

    /// Whether all that was read is the state as of the position.
    ///
    /// # Errors
    /// Why the first resource that failed could not be rebuilt.
    pub fn check(&self) -> Result<(), Lost> {
        self.lost.borrow().clone().map_or(Ok(()), Err)
    }

    fn unless_lost<T: Default>(&self, found: Result<T, Lost>) -> T {
        found.unwrap_or_else(|lost| {
            self.lost.borrow_mut().get_or_insert(lost);
            T::default()
        })
    }
}

impl Source for AsOf<'_, '_> {
    fn read(&self, key: Digest, read: &mut dyn FnMut(&[u8])) -> Option<u64> {
        let moment = self.unless_lost(self.past.as_of(key, self.position))?;
        read(&moment.state);
        Some(moment.position)
    }

    /// Returns the present holder: names always refer to the resource that has them now.
    fn holder(&self, name: IndexKey) -> Option<Digest> {
        self.past.tables.holder(name)
    }

    fn secondary_touched(&self, _: IndexKey) -> u64 {
        0
    }

    /// Considers only the resources that are in the list now: those that have left it since are not found.
    fn listed(&self, list: IndexKey) -> Vec<Digest> {
        self.listed_within(list, list)
    }

    fn listed_within(&self, list: IndexKey, wider: IndexKey) -> Vec<Digest> {
        self.unless_lost(self.past.listed(list, wider, self.position))
    }

    fn last_ranked(&self, list: IndexKey) -> Option<Digest> {
        self.unless_lost(self.past.highest(list, self.position))
    }

    fn ranked(&self, list: IndexKey) -> Vec<Digest> {
        let keys = self.past.tables.ranked(list).into_iter();
        let rank = |key: Digest| {
            let entries = self.unless_lost(self.past.entries(key, self.position))?;
            let mut ranks = entries.ranks.into_iter();
            let (_, rank) = ranks.find(|(of, _)| *of == list)?;
            Some((rank, key))
        };
        let mut ranked: Vec<_> = keys.filter_map(rank).collect();
        ranked.sort();
        ranked.into_iter().map(|(_, key)| key).collect()
    }
}

/// The findings about lists of one piece of a look, for the next piece.
#[derive(Default)]
pub struct KnownLists(HashMap<(IndexKey, IndexKey), Listed>);

impl Past<'_> {
    /// Makes this one piece of a look, with the findings about lists of the pieces before it. Once about
    /// `list_reads_max` records are read for lists, a list that needs more is [`Lost::Unfinished`].
    #[must_use]
    pub fn in_pieces(self, known: KnownLists, list_reads_max: usize) -> Self {
        self.set_list_reads_max(list_reads_max);
        Self {
            memberships: RefCell::new(known.0),
            ..self
        }
    }

    /// Sets the number of records that are read for lists in this piece, with those that were.
    pub fn set_list_reads_max(&self, most: usize) {
        self.list_reads_max.set(most);
    }

    /// Returns the findings about lists, for the next piece.
    #[must_use]
    pub fn into_known_lists(self) -> KnownLists {
        KnownLists(self.memberships.into_inner())
    }

    /// Returns the ranks of the resource with this key as of a durable position.
    ///
    /// # Errors
    /// Why they cannot be rebuilt.
    pub fn ranks_as_of(&self, key: Digest, upto: u64) -> Result<RanksAsOf, Lost> {
        let Some(moment) = self.as_of(key, upto)? else {
            return Ok(RanksAsOf::unborn(upto));
        };
        Ok(RanksAsOf {
            from: moment.position,
            upto,
            ranks: self.entries_in(key, &moment)?.ranks,
        })
    }

    /// Notes ranks of the resource with this key that are known already, so that they need not be rebuilt.
    pub fn note_ranks(&self, key: Digest, ranks: RanksAsOf) {
        self.ranks.borrow_mut().insert(key, ranks);
    }

    /// Returns those of the resources in the list `wider` that were in `list` as of a durable position. The cost of the
    /// first call grows with the length of `wider`, that of later ones with the number of resources that are found or
    /// were changed since the position.
    fn listed(&self, list: IndexKey, wider: IndexKey, upto: u64) -> Result<Vec<Digest>, Lost> {
        let mut memberships = self.memberships.borrow_mut();
        let listed = match memberships.entry((list, wider)) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(entry) => entry.insert(Listed::of(self.members(list, wider)?)),
        };
        listed.as_of(upto, |key| {
            if self.list_reads.get() >= self.list_reads_max.get() {
                return Err(Lost::Unfinished);
            }
            let before = self.reads();
            let moment = self.as_of(key, upto)?;
            let reads = self.reads() - before;
            self.list_reads.set(self.list_reads.get() + reads);
            let Some(moment) = moment else {
                return Ok(Stay::unborn(upto));
            };
            let entries = self.entries_in(key, &moment)?;
            Ok(Stay {
                from: moment.position,
                upto,
                is_in: entries.secondary.contains(&list),
            })
        })
    }

    /// Returns the resources in the list `wider`, each with the position of its last change and whether it has been in
    /// `list` since. That is taken from its state, since lists are changed before states.
    fn members(&self, list: IndexKey, wider: IndexKey) -> Result<Vec<(u64, Digest, bool)>, Lost> {
        let mut members = Vec::new();
        for key in self.tables.listed(wider) {
            // The resource has joined by a commit that is being published, and has no state yet.
            let Some((tip, state, kind)) = self.tables.copied(key) else {
                continue;
            };
            let resource = (self.kinds)(kind).ok_or(Lost::Gone)?;
            let entries = resource.entries(&state).map_err(Lost::Damaged)?;
            members.push((tip, key, entries.secondary.contains(&list)));
        }
        Ok(members)
    }

    /// Returns the resource that ranked highest in a list as of a durable position. The cost of the first call grows
    /// with the length of the list, that of later ones with the number of changes since the position of the call
    /// before; where that one is lower, with the number of resources that were changed since the position.
    fn highest(&self, list: IndexKey, upto: u64) -> Result<Option<Digest>, Lost> {
        let mut lists = self.lists.borrow_mut();
        let ranked = lists.entry(list).or_insert_with(|| {
            let mut known = self.ranks.borrow_mut();
            let keys = self.tables.ranked(list);
            Ranked::of(keys, |key| self.tip(key), |key| known.remove(&key))
        });
        ranked.highest(list, upto, |key| self.ranks_as_of(key, upto))
    }
}
