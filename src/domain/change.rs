//! The changes that a commit makes in one resource: its event and its state, and the changes of
//! indexes that follow from the states before and after.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::index::IndexKey;
use super::listing::{BookingHash, LeadMove, ListMove, ValueHash};
use super::rank::Rank;
use super::resource::Resource;
use super::version::version;
use crate::base::codec;
use crate::base::digest::Digest;
use crate::base::revision::Revision;

/// A change of one resource, ready for the log.
#[derive(Debug, PartialEq, Eq)]
pub struct Change {
    /// The resource's kind.
    pub kind: u16,
    /// The version of its stored form.
    pub version: u16,
    /// Its key.
    pub key: Digest,
    /// The resource's revision after the change, as its readers know it.
    pub revision: Revision,
    /// Whether the change advances the resource's own revision.
    pub advances: bool,
    /// The values of the parameters of the path at which the resource is read.
    pub path: Vec<String>,
    /// The event's bytes.
    pub event: Vec<u8>,
    /// The bytes of the state after the change.
    pub state: Vec<u8>,
    /// The unique keys that the resource held before and no longer holds.
    pub unique_left: Vec<IndexKey>,
    /// The unique keys that the resource holds now and did not hold before.
    pub unique_taken: Vec<IndexKey>,
    /// The lists (secondary index keys) that the resource has left.
    pub secondary_left: Vec<IndexKey>,
    /// The lists that the resource has joined.
    pub secondary_joined: Vec<IndexKey>,
    /// The lists in which the resource stays.
    pub secondary_kept: Vec<IndexKey>,
    /// The lists in which the resource has, or had, a rank.
    pub ranks: Vec<RankChange>,
    /// The change of its place in the list of its kind, if there is one.
    pub list: Option<ListMove>,
    /// The change of the values by which other resources are found in lists, if there is one.
    pub lead: Option<LeadMove>,
}

/// The change of a resource's rank in a list.
#[derive(Debug, PartialEq, Eq)]
pub struct RankChange {
    /// The list.
    pub list: IndexKey,
    /// The rank before; `None` when the resource was not in the list.
    pub before: Option<Rank>,
    /// The rank after; `None` when the resource is no longer in the list.
    pub after: Option<Rank>,
}

impl RankChange {
    /// Returns the changes between the ranks that a resource had before and those that it has now.
    #[must_use]
    pub fn all(before: Vec<(IndexKey, Rank)>, after: Vec<(IndexKey, Rank)>) -> Vec<Self> {
        if before.is_empty() && after.is_empty() {
            return Vec::new();
        }
        let mut lists = BTreeMap::new();
        for (list, rank) in before {
            lists.insert(list, (Some(rank), None));
        }
        for (list, rank) in after {
            lists.entry(list).or_insert((None, None)).1 = Some(rank);
        }
        let all = lists.into_iter();
        all.map(|(list, (before, after))| Self {
            list,
            before,
            after,
        })
        .collect()
    }
}

/// The differences of two sets and their intersection, each value once.
struct Differences<T> {
    left: Vec<T>,
    taken: Vec<T>,
    kept: Vec<T>,
}

impl<T: Ord + Copy> Differences<T> {
    fn of(before: Vec<T>, after: Vec<T>) -> Self {
        let (mut before, mut after) = (before, after);
        before.sort_unstable();
        after.sort_unstable();
        let mut differences = Self {
            left: Vec::new(),
            taken: Vec::new(),
            kept: Vec::new(),
        };
        let (mut before, mut after) = (before.into_iter(), after.into_iter());
        let (mut one, mut other) = (before.next(), after.next());
        loop {
            match (one, other) {
                (Some(left), Some(taken)) => match left.cmp(&taken) {
                    Ordering::Less => {
                        differences.left.push(left);
                        one = before.next();
                    }
                    Ordering::Greater => {
                        differences.taken.push(taken);
                        other = after.next();
                    }
                    Ordering::Equal => {
                        differences.kept.push(taken);
                        (one, other) = (before.next(), after.next());
                    }
                },
                (Some(left), None) => {
                    differences.left.push(left);
                    one = before.next();
                }
                (None, Some(taken)) => {
                    differences.taken.push(taken);
                    other = after.next();
                }
                (None, None) => return differences,
            }
        }
    }
}

impl Change {
    /// Makes the change from `before` to `next`, the state after `event`.
    pub(crate) fn of<R: Resource>(before: Option<&R>, event: &R::Event, next: &R) -> Self {
        Self {
            event: codec::encode(event),
            ..Self::of_state(before, next)
        }
    }

    /// Makes the same change without its event, where that is not read.
    pub(crate) fn of_state<R: Resource>(before: Option<&R>, next: &R) -> Self {
        let (unique_left, unique_taken) = unique_keys_moved(before, next);
        let stood_in = before.map(R::secondary_keys).unwrap_or_default();
        let lists = Differences::of(stood_in, next.secondary_keys());
        let ranked = before.map(R::ranked).unwrap_or_default();
        let id = next.id();
        let key = R::KIND.key(&id);
        Self {
            kind: R::KIND.tag,
            version: const { version::<R>() },
            key,
            revision: next.read_revision(),
            advances: before.map(R::revision) != Some(next.revision()),
            path: next.path_by(id),
            event: Vec::new(),
            state: codec::encode(next),
            unique_left,
            unique_taken,
            secondary_left: lists.left,
            secondary_joined: lists.taken,
            secondary_kept: lists.kept,
            ranks: RankChange::all(ranked, next.ranked()),
            list: list_move(before, next, key),
            lead: lead_move(before, next),
        }
    }
}

/// Returns the unique keys that a commit leaves, and those that it takes.
fn unique_keys_moved<R: Resource>(before: Option<&R>, next: &R) -> (Vec<IndexKey>, Vec<IndexKey>) {
    let compared = || {
        let held = before.map(R::unique_keys).unwrap_or_default();
        let names = Differences::of(held, next.unique_keys());
        (names.left, names.taken)
    };
    let Some(moved) = before.and_then(|before| R::unique_keys_moved(before, next)) else {
        return compared();
    };
    debug_assert_eq!(moved, compared(), "of a {}", R::KIND.name);
    moved
}

fn list_move<R: Resource>(before: Option<&R>, next: &R, key: Digest) -> Option<ListMove> {
    let list = const { &R::LIST };
    list.as_ref()?.moved(before, next, key)
}

fn lead_move<R: Resource>(before: Option<&R>, next: &R) -> Option<LeadMove> {
    let leads = next.filter_values();
    if leads.is_empty() {
        return None;
    }
    let led = before.map(R::filter_values).unwrap_or_default();
    if led == leads {
        return None;
    }
    let led = |filter| {
        let found = led.iter().find(|(known, _)| *known == filter);
        found.map(|(filter, value)| ValueHash::of(*filter, value))
    };
    let leads = leads.iter();
    Some(LeadMove {
        bound: BookingHash::of(&next.id().concat()).value,
        leads: leads
            .map(|(filter, value)| (*filter, led(*filter), ValueHash::of(*filter, value)))
            .filter(|(_, before, after)| *before != Some(*after))
            .collect(),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::cell::Cell;

    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    use super::*;
    use crate::base::time::Timestamp;

    thread_local! {
        static COMPARED: Cell<usize> = const { Cell::new(0) };
    }

    /// A value that counts how often it is compared.
    #[derive(Clone, Copy, Debug)]
    struct Counted(u32);

    impl Ord for Counted {
        fn cmp(&self, other: &Self) -> Ordering {
            COMPARED.set(COMPARED.get() + 1);
            self.0.cmp(&other.0)
        }
    }

    impl PartialOrd for Counted {
        fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
            Some(self.cmp(other))
        }
    }

    impl PartialEq for Counted {
        fn eq(&self, other: &Self) -> bool {
            self.cmp(other) == Ordering::Equal
        }
    }

    impl Eq for Counted {}

    #[test]
    fn differences_of_large_sets_are_found_without_comparing_all_pairs() {
        let of = |numbers: std::ops::Range<u32>| numbers.rev().map(Counted).collect::<Vec<_>>();
        COMPARED.set(0);
        let found = Differences::of(of(0..8_000), of(4_000..12_000));
        let compared = COMPARED.get();
        assert_eq!(
            [found.left.len(), found.taken.len(), found.kept.len()],
            [4_000; 3]
        );
        assert!(compared < 16_000 * 20, "{compared}");
    }

    #[test]
    fn differences_and_common_elements_equal_those_of_sets() {
        let mut random = SmallRng::seed_from_u64(crate::base::testing::seed());
        for _ in 0..2_000 {
            let [before, after] = [(); 2].map(|()| {
                let count = random.random_range(0..6);
                let numbers = (0..count).map(|_| random.random_range(0..8_u32));
                numbers.collect::<std::collections::BTreeSet<_>>()
            });
            let mut shuffled = [&before, &after].map(|set| {
                let mut numbers: Vec<_> = set.iter().copied().collect();
                let turns = random.random_range(0..=numbers.len());
                numbers.rotate_left(turns);
                numbers
            });
            let [one, other] = shuffled.each_mut().map(std::mem::take);
            let found = Differences::of(one, other);
            let sorted = |mut numbers: Vec<u32>| {
                numbers.sort_unstable();
                numbers
            };
            assert!(sorted(found.left).iter().eq(before.difference(&after)));
            assert!(sorted(found.taken).iter().eq(after.difference(&before)));
            assert!(sorted(found.kept).iter().eq(after.intersection(&before)));
        }
    }

    #[test]
    fn a_change_of_rank_tells_both_and_one_that_stays_tells_that() {
        use crate::domain::index::Index;
        let list = |id: &str| IndexKey::new(Index::BookingAdjustments, &[id]);
        let rank = |millis| Rank::new(Timestamp::from_millis(millis), "a");
        let [left, moved, stays, joined] = ["left", "moved", "stays", "joined"].map(list);
        let before = vec![(left, rank(1)), (moved, rank(2)), (stays, rank(3))];
        let after = vec![(joined, rank(4)), (stays, rank(3)), (moved, rank(5))];
        let changes = RankChange::all(before, after);
        let of = |wanted: IndexKey| {
            let change = changes.iter().find(|change| change.list == wanted).unwrap();
            (change.before.clone(), change.after.clone())
        };
        assert_eq!(changes.len(), 4);
        assert_eq!(of(left), (Some(rank(1)), None));
        assert_eq!(of(moved), (Some(rank(2)), Some(rank(5))));
        assert_eq!(of(stays), (Some(rank(3)), Some(rank(3))));
        assert_eq!(of(joined), (None, Some(rank(4))));
    }
}
