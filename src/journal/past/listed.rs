//! Determines which resources were in a list as of a position.
//!
//! A resource that was not changed since the position was in the list then if it is in it now. For a resource that was
//! changed since, membership is derived from its state as of the position. It holds back to the change before that, and
//! is kept for later requests.

use std::cmp::Reverse;

use super::resource_change::Lost;
use crate::base::digest::Digest;

/// Whether a resource was in the list, for all positions from one to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stay {
    pub(super) from: u64,
    pub(super) upto: u64,
    pub(super) is_in: bool,
}

impl Stay {
    /// For a resource that did not exist as of this position: it was not in the list, from the beginning on.
    pub(super) fn unborn(upto: u64) -> Self {
        Self {
            from: 0,
            upto,
            is_in: false,
        }
    }
}

/// The resources that may have been in a list.
pub(super) struct Listed {
    /// Ordered by last change, the latest first.
    members: Vec<Member>,
    /// The resources that are in the list now, each with the position of its last change, in the same order.
    present: Vec<(u64, Digest)>,
}

struct Member {
    key: Digest,
    /// The position of its last change.
    tip: u64,
    /// Its known membership at an earlier time.
    known: Option<Stay>,
}

impl Listed {
    /// Creates it from the resources, each with the position of its last change and whether it has been in the list
    /// since.
    pub(super) fn of(mut all: Vec<(u64, Digest, bool)>) -> Self {
        all.sort_unstable_by_key(|(tip, ..)| Reverse(*tip));
        let present = all.iter().filter(|(.., is_in)| *is_in);
        let present = present.map(|(tip, key, _)| (*tip, *key)).collect();
        let members = all.into_iter().map(|(tip, key, _)| Member {
            key,
            tip,
            known: None,
        });
        Self {
            members: members.collect(),
            present,
        }
    }

    /// Returns the keys of the resources that were in the list as of `upto`, in ascending order. `make` derives the
    /// membership of a resource if it is not known.
    pub(super) fn as_of(
        &mut self,
        upto: u64,
        make: impl Fn(Digest) -> Result<Stay, Lost>,
    ) -> Result<Vec<Digest>, Lost> {
        let others = self.present.partition_point(|(tip, _)| *tip > upto);
        let others = self.present[others..].iter();
        let mut keys: Vec<_> = others.map(|(_, key)| *key).collect();
        let changed = self.members.partition_point(|member| member.tip > upto);
        for member in &mut self.members[..changed] {
            let known = member.known;
            let stay = match known.filter(|known| known.from <= upto && upto <= known.upto) {
                Some(known) => known,
                None => make(member.key)?,
            };
            member.known = Some(stay);
            if stay.is_in {
                keys.push(member.key);
            }
        }
        keys.sort_unstable();
        Ok(keys)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::cell::Cell;

    use rand::rngs::SmallRng;
    use rand::{Rng as _, SeedableRng as _};

    use super::*;

    /// The changes of each resource: their positions, and whether it is in the list after them.
    struct Changes(Vec<Vec<(u64, bool)>>);

    impl Changes {
        /// Each of these positions is a change of one of the resources.
        fn random(random: &mut SmallRng, count: u64) -> Self {
            let mut all: Vec<Vec<(u64, bool)>> = vec![Vec::new(); 12];
            for position in 1..=count {
                let number: usize = random.random_range(0..12);
                all[number].push((position, random.random_ratio(1, 2)));
            }
            Self(all)
        }

        fn key(number: usize) -> Digest {
            Digest([u8::try_from(number).unwrap(); 16])
        }

        fn stay(&self, number: usize, upto: u64) -> Stay {
            let changes = self.0[number].iter().rev();
            let last = changes.copied().find(|(position, _)| *position <= upto);
            let (from, is_in) = last.unwrap_or((0, false));
            Stay { from, upto, is_in }
        }

        fn expected(&self, upto: u64) -> Vec<Digest> {
            let numbers = (0..12).filter(|number| self.stay(*number, upto).is_in);
            numbers.map(Self::key).collect()
        }

        fn listed(&self) -> Listed {
            let all = self.0.iter().enumerate();
            let all = all.filter_map(|(number, changes)| {
                let (tip, is_in) = *changes.last()?;
                Some((tip, Self::key(number), is_in))
            });
            Listed::of(all.collect())
        }
    }

    #[test]
    fn as_of_each_position_those_are_found_that_were_in_the_list() {
        let seed = crate::base::testing::seed();
        let mut random = SmallRng::seed_from_u64(seed);
        let count = 200;
        let changes = Changes::random(&mut random, count);
        let (mut from_above, mut at_random) = (changes.listed(), changes.listed());
        let made = Cell::new(0);
        for upto in (0..=count).rev() {
            let make = |key: Digest| {
                made.set(made.get() + 1);
                Ok(changes.stay(usize::from(key.0[0]), upto))
            };
            let found = from_above.as_of(upto, make);
            assert_eq!(found, Ok(changes.expected(upto)), "{upto} SEED={seed}");
        }
        // Going down, each change is passed once.
        assert!(made.get() <= count, "{} SEED={seed}", made.get());
        for _ in 0..count {
            let upto = random.random_range(0..=count);
            let make = |key: Digest| Ok(changes.stay(usize::from(key.0[0]), upto));
            let found = at_random.as_of(upto, make);
            assert_eq!(found, Ok(changes.expected(upto)), "{upto} SEED={seed}");
        }
    }

    #[test]
    fn nothing_is_made_of_what_was_not_changed_since() {
        let key = |number| Digest([number; 16]);
        let mut listed = Listed::of(vec![
            (3, key(1), true),
            (5, key(2), false),
            (9, key(3), true),
        ]);
        let make = |key: Digest| {
            assert_eq!(key.0[0], 3, "it was not changed since");
            Ok(Stay {
                from: 4,
                upto: 8,
                is_in: true,
            })
        };
        assert_eq!(listed.as_of(9, make), Ok(vec![key(1), key(3)]));
        for upto in (5..=8).rev() {
            assert_eq!(listed.as_of(upto, make), Ok(vec![key(1), key(3)]));
        }
    }
}
