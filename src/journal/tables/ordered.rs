//! Merges items from several sorted runs into one order, on all processors.

use crate::journal::parallel;

/// Approximate number of items of a range: few enough to fit into a processor's cache together.
const RANGE: usize = 16 << 10;

/// Calls `make` for each range of positions; returns the results in order. Each range is sorted by itself: it has
/// some consecutive items of every run.
///
/// The runs are sorted by `place`, which begins with a position. `make` gets the number of items before the range,
/// and its items, each with the number of its run.
pub(super) fn in_ranges<'a, T: Sync, P: Ord + Send, R: Send>(
    runs: &[&'a [T]],
    (position, place): (impl Fn(&T) -> u64 + Sync, impl Fn(&T) -> P + Sync),
    make: impl Fn(usize, &mut dyn Iterator<Item = (usize, &'a T)>) -> R + Sync,
) -> Vec<R> {
    let count: usize = runs.iter().map(|run| run.len()).sum();
    let lowest = runs
        .iter()
        .filter_map(|run| run.first())
        .map(&position)
        .min();
    let highest = runs
        .iter()
        .filter_map(|run| run.last())
        .map(&position)
        .max();
    let (Some(lowest), Some(highest)) = (lowest, highest) else {
        return Vec::new();
    };
    let ranges = count.div_ceil(RANGE);
    let width = (highest - lowest) / ranges as u64 + 1;
    // The start of each range in each run, and the end of the last range.
    let cuts: Vec<Vec<usize>> = (0..=ranges as u64)
        .map(|range| {
            let begins = lowest.saturating_add(width.saturating_mul(range));
            let before = |run: &&[T]| match range == ranges as u64 {
                true => run.len(),
                false => run.partition_point(|item| position(item) < begins),
            };
            runs.iter().map(before).collect()
        })
        .collect();
    parallel::map(ranges, |range| {
        let (begins, ends) = (&cuts[range], &cuts[range + 1]);
        let mut items = Vec::new();
        for (number, run) in runs.iter().enumerate() {
            let of_run = &run[begins[number]..ends[number]];
            items.extend(of_run.iter().map(|item| (place(item), number, item)));
        }
        items.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        let mut items = items.into_iter().map(|(_, number, item)| (number, item));
        make(begins.iter().sum(), &mut items)
    })
}

#[cfg(test)]
mod tests {
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    #[test]
    fn runs_become_one_order_however_their_positions_lie() {
        let seed = crate::base::testing::seed();
        let mut random = SmallRng::seed_from_u64(seed);
        for (count, highest) in [(0, 9), (1, 9), (300, 1), (100_000, 1), (100_000, u64::MAX)] {
            let mut runs = vec![Vec::new(); 7];
            for number in 0..count {
                let run = random.random_range(1..7);
                runs[run].push((random.random_range(0..=highest), number));
            }
            runs.iter_mut().for_each(|run| run.sort_unstable());
            let runs: Vec<&[(u64, u32)]> = runs.iter().map(Vec::as_slice).collect();
            let ranges = in_ranges(&runs, (|item| item.0, |item| *item), |first, items| {
                let items: Vec<_> = items.map(|(run, item)| (run, *item)).collect();
                (first, items)
            });
            let mut all = Vec::new();
            for (first, items) in ranges {
                assert_eq!(first, all.len(), "SEED={seed}");
                let is_of_run = |(run, item): &(usize, (u64, u32))| runs[*run].binary_search(item);
                assert!(items.iter().all(|it| is_of_run(it).is_ok()), "SEED={seed}");
                all.extend(items.into_iter().map(|(_, item)| item));
            }
            let mut expected: Vec<_> = runs.into_iter().flatten().copied().collect();
            expected.sort_unstable();
            assert!(all == expected, "SEED={seed}");
        }
    }
}
