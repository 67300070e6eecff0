//! Ways through a list: in order, from any place, by whatever leads past the fewest resources.

use super::born::Born;
use super::lists::{KindList, Set};
use super::short::Noted;

/// Resources that are looked at while a list is locked.
const LOOKED_AT: usize = 64;

/// What is looked for in a list.
#[derive(Clone, Debug, Default)]
pub struct ListPlan {
    /// What has one of these values; `None`: whatever there is.
    pub scope: Option<Vec<Set>>,
    /// What has all of these.
    pub filters: Vec<Set>,
    /// Whether the newest comes first.
    pub newest_first: bool,
}

/// What a look into a list has found.
#[derive(Debug)]
pub struct Found<C> {
    /// Some that come next.
    pub candidates: Vec<C>,
    /// How many were looked at for that.
    pub examined: usize,
    /// The place to go on from, if something may lie beyond.
    pub on: Option<Born>,
}

/// Some of what is looked for in a list, after this place; at most `most` resources are looked at.
pub(super) fn look(
    list: &KindList,
    plan: &ListPlan,
    after: Option<Born>,
    most: usize,
) -> Found<(Noted, Born)> {
    let mut walk = Walk::new(list, plan, after);
    let mut found = Found {
        candidates: Vec::new(),
        examined: 0,
        on: None,
    };
    let mut last = None;
    while let Some(number) = walk.next() {
        if found.examined == most.min(LOOKED_AT) {
            found.on = last;
            return found;
        }
        found.examined += 1;
        let born = list.born_of(number);
        last = Some(born);
        if walk.has_the_rest(number) {
            found.candidates.push((list.entry(number), born));
        }
    }
    found
}

/// A way through a list, in order: by whatever leads past the fewest.
struct Walk<'a> {
    list: &'a KindList,
    newest_first: bool,
    /// Where it goes on if everything is looked at.
    next: Option<u32>,
    /// Or else what it goes by, each with its next number.
    heads: Option<Vec<(Set, Option<u32>)>>,
    /// One of which it must have, where it does not go by them.
    scope: Option<&'a [Set]>,
    /// All of which it must have.
    filters: Vec<Set>,
}

impl<'a> Walk<'a> {
    fn new(list: &'a KindList, plan: &'a ListPlan, after: Option<Born>) -> Self {
        let mut filters = plan.filters.clone();
        let mut scope = plan.scope.as_deref();
        let counts = filters.iter().map(|filter| list.count(*filter));
        let fewest = counts.enumerate().min_by_key(|(_, count)| *count);
        let in_scope = scope.map(|scope| {
            let counts = scope.iter().map(|set| list.count(*set));
            counts.fold(0, u64::saturating_add)
        });
        let sets = match (in_scope, fewest) {
            (Some(count), fewest) if fewest.is_none_or(|(_, fewest)| count <= fewest) => {
                let mut sets = scope.take().unwrap_or_default().to_vec();
                sets.sort_unstable_by_key(|(_, value)| *value);
                sets.dedup();
                Some(sets)
            }
            (_, Some((index, _))) => Some(vec![filters.swap_remove(index)]),
            (_, None) => None,
        };
        let newest_first = plan.newest_first;
        let next = match (newest_first, after) {
            (true, after) => {
                let end = after.map_or(list.len(), |after| list.born_before(after, false));
                end.checked_sub(1)
            }
            (false, after) => {
                let start = after.map_or(0, |after| list.born_before(after, true));
                (start < list.len()).then_some(start)
            }
        };
        let head = |set: Set| {
            let next = next?;
            match newest_first {
                // There is no number as high as that.
                true => list.last(set, next + 1),
                false => list.first(set, Some(next)),
            }
        };
        Self {
            list,
            newest_first,
            next,
            heads: sets.map(|sets| sets.into_iter().map(|set| (set, head(set))).collect()),
            scope,
            filters,
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

    fn has_the_rest(&self, number: u32) -> bool {
        let has = |set: &Set| self.list.has(*set, number);
        self.filters.iter().all(has) && self.scope.is_none_or(|scope| scope.iter().any(has))
    }
}
