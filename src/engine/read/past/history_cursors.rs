//! The cursors of several resources of which the latest is shown: they go back in pieces to the changes as of one
//! position, and from there on as one, from the latest change of all of them down.

use std::collections::{BTreeMap, BinaryHeap};

use super::query::Stop;
use super::revisions::Candidates;
use crate::base::digest::Digest;
use crate::domain::read::Numbered;
use crate::journal::past::{Descent, Lost, Past, RanksAsOf, Stretch, Wanted};

/// Changes that a cursor passes before others have their turn.
pub(super) const PIECE: usize = 256;
/// Resources that are gone back with in one piece: for most of them no record is read.
const KEYS_OF_PIECE: usize = 4_096;

/// How far several resources have been gone back with.
#[derive(Default)]
pub(super) struct HistoryCursors {
    /// Of the first of them: the change at which each is, and the position of the change after it. A
    /// change at 0 is none: the resource did not exist.
    at: Vec<(u64, u64)>,
    /// Where the next one is, if it has not come there yet.
    further: Option<(u64, u64)>,
    /// The ranks of those that were changed since, as of then.
    ranks: Vec<(Digest, RanksAsOf)>,
    /// Whether the log no longer has some of their changes.
    is_gone: bool,
    /// The changes from which they go on as one: positions, those of the changes after them, and
    /// which of the resources it is.
    latest: BinaryHeap<(u64, u64, usize)>,
}

/// Some changes of one resource, one after the other.
struct Run {
    /// The last one, and the position of the change after it.
    begin: (u64, u64),
    count: usize,
}

impl HistoryCursors {
    /// Goes back a piece to the changes at `upto` or before, which is the same for each piece; whether
    /// all resources have come there.
    pub(super) fn descended(
        &mut self,
        past: &Past<'_>,
        keys: &[Digest],
        upto: u64,
    ) -> Result<bool, Lost> {
        let mut passed = 0;
        while let Some(key) = keys.get(self.at.len()).copied() {
            if past.reads() >= PIECE || passed == KEYS_OF_PIECE {
                return Ok(false);
            }
            passed += 1;
            let begin = self.further.take();
            let begin = begin.unwrap_or_else(|| (past.tip(key), u64::MAX));
            let at = match past.descend(key, begin, Wanted::Upto(upto), PIECE)? {
                Descent::At(position, above) => {
                    self.latest.push((position, above, self.at.len()));
                    (position, above)
                }
                Descent::Unborn => (0, upto + 1),
                Descent::Further(position, above) => {
                    self.further = Some((position, above));
                    return Ok(false);
                }
                Descent::Gone(last) => {
                    self.is_gone = true;
                    // The last change that could be read: it may have the state before it.
                    match last.min(begin.1) {
                        u64::MAX => begin,
                        last => (last, last + 1),
                    }
                }
            };
            if at.0 > 0 && at.1 != u64::MAX {
                past.begin_at(key, at.0, at.1);
                // Why they are not known is said again to who asks for them.
                if let Ok(ranks) = past.ranks_as_of(key, upto) {
                    self.ranks.push((key, ranks));
                }
            }
            self.at.push(at);
        }
        Ok(true)
    }

    /// Tells where the resources are, so that no record is read twice.
    pub(super) fn tell(&self, past: &Past<'_>, keys: &[Digest]) {
        for (key, (position, above)) in keys.iter().zip(&self.at) {
            past.begin_at(*key, *position, *above);
            if *position == 0 {
                past.note_ranks(*key, RanksAsOf::unborn(above - 1));
            }
        }
        for (key, ranks) in &self.ranks {
            past.note_ranks(*key, ranks.clone());
        }
    }

    /// The revisions that the latest changes of all resources make, from the position `top` down:
    /// more than `limit` of them, if there are.
    pub(super) fn candidates(
        &mut self,
        past: &Past<'_>,
        keys: &[Digest],
        (top, limit): (u64, usize),
        numbered: Numbered,
    ) -> Result<Candidates, Stop> {
        // Some changes are no revisions of what is shown.
        let (runs, next) = self.run_down(past, keys, top, 2 * limit + 1)?;
        let mut candidates = Candidates::down_to(next, next > 0 || !self.is_gone);
        let mut stretches = Vec::new();
        for (index, run) in &runs {
            match past.stretch(keys[*index], run.begin, run.count, numbered) {
                Ok(stretch) => {
                    candidates.add(&stretch, numbered);
                    stretches.push((*index, run.begin.1, stretch));
                }
                Err(Lost::Gone) => candidates.is_complete = false,
                Err(lost) => return Err(lost.into()),
            }
        }
        if candidates.floor > next {
            self.go_up(&runs, &stretches, candidates.floor);
        }
        Ok(candidates.within(top))
    }

    /// Goes down over the `most` latest changes at `top` or below. Gives them for each resource, and
    /// the position of the change where it ends; 0 when there are no more.
    fn run_down(
        &mut self,
        past: &Past<'_>,
        keys: &[Digest],
        top: u64,
        most: usize,
    ) -> Result<(BTreeMap<usize, Run>, u64), Lost> {
        let mut runs: BTreeMap<usize, Run> = BTreeMap::new();
        let mut count = 0;
        while let Some((position, above, index)) = self.latest.peek().copied() {
            if position <= top {
                if count == most {
                    return Ok((runs, position));
                }
                count += 1;
                let begin = (position, above);
                let run = runs.entry(index).or_insert(Run { begin, count: 0 });
                run.count += 1;
            }
            self.latest.pop();
            let before = Wanted::Upto(position - 1);
            match past.descend(keys[index], (position, above), before, 2)? {
                Descent::At(position, above) => self.latest.push((position, above, index)),
                Descent::Unborn => {}
                Descent::Further(..) | Descent::Gone(_) => self.is_gone = true,
            }
        }
        Ok((runs, 0))
    }

    /// Goes up again to the changes at `floor`, where states below it were too large to be made.
    fn go_up(
        &mut self,
        runs: &BTreeMap<usize, Run>,
        stretches: &[(usize, u64, Stretch)],
        floor: u64,
    ) {
        self.latest.retain(|(.., index)| !runs.contains_key(index));
        for (index, above, stretch) in stretches {
            let moments = &stretch.moments;
            let beyond = moments.partition_point(|moment| moment.position <= floor);
            if let Some(last) = beyond.checked_sub(1) {
                let above = moments.get(beyond).map_or(*above, |next| next.position);
                self.latest.push((moments[last].position, above, *index));
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use rand::rngs::SmallRng;
    use rand::{Rng as _, SeedableRng as _};

    use super::*;
    use crate::domain::resource::Source as _;
    use crate::journal::past::samples::{Adjustments, list};

    fn keys(adjustments: &Adjustments) -> Vec<Digest> {
        adjustments.tables.ranked(list("booking-1"))
    }

    /// Goes all the way to the changes at `upto` or before; how many records each piece reads.
    fn go(
        cursors: &mut HistoryCursors,
        adjustments: &Adjustments,
        keys: &[Digest],
        upto: u64,
    ) -> Vec<usize> {
        let mut pieces = Vec::new();
        loop {
            let past = adjustments.past();
            let have_come = cursors.descended(&past, keys, upto);
            pieces.push(past.reads());
            if have_come == Ok(true) {
                return pieces;
            }
        }
    }

    fn positions(candidates: &Candidates) -> Vec<u64> {
        candidates.shown.iter().map(|one| one.position).collect()
    }

    fn candidates(
        cursors: &mut HistoryCursors,
        past: &Past<'_>,
        keys: &[Digest],
        page: (u64, usize),
    ) -> Candidates {
        let found = cursors.candidates(past, keys, page, Numbered::ByPosition);
        found.ok().unwrap()
    }

    #[test]
    fn many_cursors_go_back_in_pieces_and_a_page_reads_only_what_it_shows() {
        let mut adjustments = Adjustments::default();
        for number in 0..600 {
            adjustments.put(&format!("{number:03}"), "booking-1", 1);
        }
        let (keys, mut cursors) = (keys(&adjustments), HistoryCursors::default());
        assert_eq!(go(&mut cursors, &adjustments, &keys, 10), [256, 256, 78]);
        let past = adjustments.past();
        cursors.tell(&past, &keys);
        let found = candidates(&mut cursors, &past, &keys, (10, 4));
        assert_eq!(positions(&found), [10, 9, 8, 7, 6, 5, 4, 3, 2]);
        assert_eq!((found.floor, found.is_complete), (1, true));
        // Each change for what comes before it, and for its state.
        assert_eq!(past.reads(), 18);
        let key = past.as_of(keys[599], 10);
        assert!(key.unwrap().is_none(), "it is known not to have existed");
        assert_eq!(past.reads(), 18);
    }

    #[test]
    fn a_piece_passes_a_bounded_number_of_unchanged_resources() {
        let (adjustments, mut cursors) = (Adjustments::default(), HistoryCursors::default());
        let keys = vec![Adjustments::key("none"); 2 * KEYS_OF_PIECE + 1];
        assert_eq!(go(&mut cursors, &adjustments, &keys, 1), [0, 0, 0]);
    }

    #[test]
    fn pages_have_the_changes_of_all_resources_once_and_from_the_latest_down() {
        let seed = crate::base::testing::seed();
        let mut random = SmallRng::seed_from_u64(seed);
        let mut adjustments = Adjustments::default();
        let mut booking: Vec<u64> = Vec::new();
        for position in 1..=300 {
            let is_other = random.random_ratio(1, 3);
            let (name, of) = match is_other {
                true => ("other", "booking-2"),
                false => ("adjustment", "booking-1"),
            };
            let id = format!("{name}-{}", random.random_range(0..20));
            adjustments.put(&id, of, random.random_range(1..=28));
            if !is_other {
                booking.push(position);
            }
        }
        let keys = keys(&adjustments);
        for limit in [1, 3, 50, 500] {
            let begin = random.random_range(1..=300);
            let mut cursors = HistoryCursors::default();
            go(&mut cursors, &adjustments, &keys, begin);
            let past = adjustments.past();
            cursors.tell(&past, &keys);
            let (mut told, mut top) = (Vec::new(), begin);
            while top > 0 {
                let found = candidates(&mut cursors, &past, &keys, (top, limit));
                assert!(found.is_complete && found.floor < top, "SEED={seed}");
                told.extend(positions(&found));
                top = found.floor;
            }
            let expected = booking.iter().rev().filter(|position| **position <= begin);
            assert!(told.iter().eq(expected), "SEED={seed}");
        }
    }
}
