//! Walks through a list: in order, from any place, by the values that lead past the fewest resources.

use super::half_key::Noted;
use super::listed_at::ListedAt;
use super::lists::{KindList, Set};

/// Number of resources examined while a list is locked.
const LOOKED_AT: usize = 64;

/// The search of a reader in a list.
#[derive(Clone, Debug, Default)]
pub struct ListPlan {
    /// Values of which a resource must have one; `None`: no such condition.
    pub scope: Option<Vec<Set>>,
    /// Values of which a resource must have all.
    pub filters: Vec<Set>,
    /// Whether the newest resource comes first.
    pub newest_first: bool,
}

/// Result of a search in a list.
#[derive(Debug)]
pub struct Found<C> {
    /// The next candidates.
    pub candidates: Vec<C>,
    /// Number of resources examined.
    pub examined: usize,
    /// Place to continue from, if more may follow.
    pub on: Option<ListedAt>,
}

/// A plan, and the values by which the list is walked: those that lead past the fewest resources. Choosing them takes
/// a look at each value, so it is done once for a page.
#[derive(Clone, Debug)]
pub struct AccessPath {
    newest_first: bool,
    /// Values whose resources the walk visits; `None`: it visits all resources.
    by: Option<Vec<Set>>,
    /// Values of which a resource must have one, where the walk does not go by them.
    scope: Option<Vec<Set>>,
    /// Values of which a resource must have all.
    filters: Vec<Set>,
}

impl AccessPath {
    pub(super) fn of(list: &KindList, plan: ListPlan) -> Self {
        let ListPlan {
            scope,
            mut filters,
            newest_first,
        } = plan;
        let scope = scope.map(|mut sets| {
            sets.sort_unstable_by_key(|(_, value)| *value);
            sets.dedup();
            sets
        });
        let counts = filters.iter().map(|filter| list.count(*filter));
        let fewest = counts.enumerate().min_by_key(|(_, count)| *count);
        let is_narrow =
            |sets: &[Set]| fewest.is_none_or(|(_, most)| have_at_most(list, sets, most));
        let (by, scope) = match (scope, fewest) {
            (Some(sets), _) if is_narrow(&sets) => (Some(sets), None),
            (scope, Some((index, _))) => (Some(vec![filters.swap_remove(index)]), scope),
            (scope, None) => (None, scope),
        };
        Self {
            newest_first,
            by,
            scope,
            filters,
        }
    }
}

/// Whether at most `most` resources have one of these values; a resource with two of them counts twice.
fn have_at_most(list: &KindList, sets: &[Set], most: u64) -> bool {
    let mut count: u64 = 0;
    sets.iter().all(|set| {
        count = count.saturating_add(list.count(*set));
        count <= most
    })
}

/// Searches a list after this place; examines at most `most` resources.
pub(super) fn look(
    list: &KindList,
    path: &AccessPath,
    after: Option<ListedAt>,
    most: usize,
) -> Found<(Noted, ListedAt)> {
    let mut walk = Walk::new(list, path, after);
    let mut numbers = Vec::new();
    let mut on = None;
    while let Some(number) = walk.next() {
        if numbers.len() == most.min(LOOKED_AT) {
            on = numbers.last().map(|last| list.listed_at_of(*last));
            break;
        }
        numbers.push(number);
    }
    let examined = numbers.len();
    numbers.retain(|number| path.filters.iter().all(|set| list.has(*set, *number)));
    if let Some(scope) = &path.scope {
        let in_scope = list.with_any(scope, &numbers);
        numbers.retain(|number| in_scope.contains(*number));
    }
    let candidate = |number| (list.entry(number), list.listed_at_of(number));
    Found {
        candidates: numbers.into_iter().map(candidate).collect(),
        examined,
        on,
    }
}

/// A walk along an access path of a list, in order.
struct Walk<'a> {
    list: &'a KindList,
    newest_first: bool,
    /// Next number, where the walk visits all resources.
    next: Option<u32>,
    /// Otherwise the values that the walk goes by, each with its next number.
    heads: Option<Vec<(Set, Option<u32>)>>,
}

impl<'a> Walk<'a> {
    fn new(list: &'a KindList, path: &AccessPath, after: Option<ListedAt>) -> Self {
        let newest_first = path.newest_first;
        let next = match (newest_first, after) {
            (true, after) => {
                let end = after.map_or(list.len(), |after| list.listed_before(after, false));
                end.checked_sub(1)
            }
            (false, after) => {
                let start = after.map_or(0, |after| list.listed_before(after, true));
                (start < list.len()).then_some(start)
            }
        };
        let head = |set: Set| {
            let next = next?;
            match newest_first {
                // No number is as high as `u32::MAX`.
                true => list.last(set, next + 1),
                false => list.first(set, Some(next)),
            }
        };
        let sets = path.by.as_ref();
        Self {
            list,
            newest_first,
            next,
            heads: sets.map(|sets| sets.iter().map(|set| (*set, head(*set))).collect()),
        }
    }

    fn next(&mut self) -> Option<u32> {
        let Some(heads) = &mut self.heads else {
            let number = self.next?;
            self.next = match self.newest_first {
                true => number.checked_sub(1),
                false => Some(number + 1).filter(|next| *next < self.list.len()),
            };
            return Some(number);
        };
        let numbers = heads.iter().filter_map(|(_, head)| *head);
        let number = match self.newest_first {
            true => numbers.max(),
            false => numbers.min(),
        }?;
        for (set, head) in heads.iter_mut().filter(|(_, head)| *head == Some(number)) {
            *head = match self.newest_first {
                true => self.list.last(*set, number),
                false => self.list.first(*set, number.checked_add(1)),
            };
        }
        Some(number)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::BTreeSet;

    use rand::rngs::SmallRng;
    use rand::{Rng as _, SeedableRng as _};

    use super::super::half_key::HalfKey;
    use super::*;
    use crate::base::digest::Digest;
    use crate::domain::listing::{Shared, ValueHash};

    fn by_many(value: u64) -> Set {
        (Shared::ByMany, ValueHash(value))
    }

    fn by_few(value: u64) -> Set {
        (Shared::ByFew, ValueHash(value))
    }

    /// Builds a list of items with these values, listed one after the other.
    fn list_of(items: &[BTreeSet<u64>]) -> KindList {
        let mut list = KindList::default();
        for (position, values) in (1..).zip(items) {
            let key = Digest::of(1, &[position.to_string()]);
            list.reserve(key);
            let listed_at = ListedAt {
                position,
                number: 0,
            };
            let (number, _) = list.enter(Noted::First(HalfKey::of(key)), listed_at);
            for value in values {
                list.add(set(*value), number);
            }
        }
        list
    }

    /// Even values are shared by many items.
    fn set(value: u64) -> Set {
        match value.is_multiple_of(2) {
            true => by_many(value),
            false => by_few(value),
        }
    }

    #[test]
    fn any_access_path_finds_items_matching_filters_and_scope_in_order() {
        let seed = crate::base::testing::seed();
        let mut random = SmallRng::seed_from_u64(seed);
        let items: Vec<BTreeSet<u64>> = (0..700)
            .map(|_| (0..4).map(|_| random.random_range(0..12)).collect())
            .collect();
        let list = list_of(&items);
        for _ in 0..100 {
            let mut values = |most| -> Vec<u64> {
                let count = random.random_range(0..=most);
                (0..count).map(|_| random.random_range(0..15)).collect()
            };
            let (filters, scope) = (values(2), values(6));
            let scope = Some(scope).filter(|_| random.random());
            let newest_first = random.random();
            let plan = ListPlan {
                scope: scope
                    .as_ref()
                    .map(|scope| scope.iter().copied().map(set).collect()),
                filters: filters.iter().copied().map(set).collect(),
                newest_first,
            };
            let path = AccessPath::of(&list, plan);
            let (mut found, mut after) = (Vec::new(), None);
            loop {
                let looked = look(&list, &path, after, random.random_range(1..100));
                assert!(looked.examined <= LOOKED_AT, "SEED={seed}");
                found.extend(
                    looked
                        .candidates
                        .iter()
                        .map(|(_, listed_at)| listed_at.position),
                );
                let Some(on) = looked.on else { break };
                after = Some(on);
            }
            let is_meant = |values: &BTreeSet<u64>| {
                let is_in = |scope: &Vec<u64>| scope.iter().any(|value| values.contains(value));
                filters.iter().all(|value| values.contains(value))
                    && scope.as_ref().is_none_or(is_in)
            };
            let all = (1_u64..).zip(&items);
            let mut expected: Vec<_> = all
                .filter(|(_, values)| is_meant(values))
                .map(|(position, _)| position)
                .collect();
            if newest_first {
                expected.reverse();
            }
            assert_eq!(found, expected, "{path:?} SEED={seed}");
        }
    }

    #[test]
    fn the_most_selective_values_are_chosen_once_for_all_looks_of_a_page() {
        let items: Vec<BTreeSet<u64>> = (0..100)
            .map(|number| BTreeSet::from([2 * (number % 10), 101]))
            .collect();
        let mut list = list_of(&items);
        let plan = |filters| ListPlan {
            scope: Some(vec![set(4), set(2), set(4)]),
            filters,
            newest_first: false,
        };
        let narrow = AccessPath::of(&list, plan(vec![set(101)]));
        assert_eq!(narrow.by, Some(vec![set(2), set(4)]));
        assert_eq!((narrow.scope, narrow.filters), (None, vec![set(101)]));
        let wide = AccessPath::of(&list, plan(vec![set(101), set(6)]));
        assert_eq!(wide.by, Some(vec![set(6)]));
        assert_eq!(wide.scope, Some(vec![set(2), set(4)]));
        // Many items with this value come meanwhile; the path stays the same, and its results stay correct.
        for number in 0..100 {
            list.add(set(6), number);
        }
        let looked = look(&list, &wide, None, 64);
        assert_eq!((looked.examined, looked.candidates.len()), (64, 14));
    }
}
