//! Determines the ways out of damage. Each is a snapshot, or the log's beginning, with the runs that continue it, and
//! the runs before it that lead there without a gap.

use std::cmp::Reverse;

use super::found::WayOut;
use super::runs::Run;
use crate::error::Error;
use crate::format::{self, LogId};
use crate::manifest::{SNAPSHOTS_MAX, Snapshot};
use crate::storage::Storage;
use crate::visitor::SnapshotInfo;

/// A way out, and its runs in order.
pub(super) struct Way {
    pub(super) out: WayOut,
    pub(super) path: Vec<usize>,
}

/// The runs and snapshots from which ways are built.
pub(super) struct Parts<'a> {
    pub(super) storage: &'a dyn Storage,
    pub(super) log: &'a LogId,
    pub(super) runs: &'a [Run],
    pub(super) snapshots: &'a [Snapshot],
}

/// Returns a way for every base, with the runs around it, the best first: the one that reaches
/// farthest; of those, the one that begins earliest; of those, the one that rests on the newest
/// snapshot.
pub(super) fn find(parts: &Parts<'_>) -> Result<Vec<Way>, Error> {
    let mut ways = Vec::new();
    let bases = parts.snapshots.iter().map(Some).chain([None]);
    for base in bases {
        ways.extend(parts.around(base)?);
    }
    ways.sort_by_key(|way| {
        let covers = way.out.snapshot.map_or(0, |snapshot| snapshot.covers);
        (
            Reverse(way.out.keep_to),
            way.out.first_position,
            Reverse(covers),
        )
    });
    Ok(ways)
}

/// Returns the ways that are shown to people: of those that reach equally far, only the best one.
pub(super) fn distinct(ways: &[Way]) -> Vec<WayOut> {
    let mut distinct: Vec<_> = ways.iter().map(|way| way.out).collect();
    distinct.dedup_by_key(|out| out.keep_to);
    distinct
}

/// Returns the way by which the log can be brought to a position: the one that begins earliest, and
/// of those the one that rests on the newest snapshot.
pub(super) fn to(ways: &[Way], position: u64) -> Option<&Way> {
    let reaching = ways.iter().filter(|way| {
        let upto = way.out.snapshot.map_or(0, |snapshot| snapshot.upto);
        way.out.keep_to >= position && upto <= position
    });
    reaching.min_by_key(|way| {
        let covers = way.out.snapshot.map_or(0, |snapshot| snapshot.covers);
        (way.out.first_position, Reverse(covers))
    })
}

/// Returns the snapshots that a log from position `first` to `last` keeps, oldest first: those that
/// its records continue.
pub(super) fn kept(snapshots: &[Snapshot], first: u64, last: u64) -> Vec<Snapshot> {
    let fits = |one: &&Snapshot| first <= one.covers + 1 && one.upto <= last;
    let mut kept: Vec<_> = snapshots.iter().filter(fits).copied().collect();
    kept.sort_by_key(|one| (one.covers, one.number));
    kept.drain(..kept.len().saturating_sub(SNAPSHOTS_MAX));
    kept
}

impl Parts<'_> {
    /// Returns the way that rests on a snapshot, or on the log's own beginning.
    fn around(&self, base: Option<&Snapshot>) -> Result<Option<Way>, Error> {
        let begins = base.map_or(1, |base| base.covers + 1);
        let first_chain = format::first_chain(self.log);
        let mut best = (begins - 1, Reverse(begins), Vec::new());
        for (index, run) in self.runs.iter().enumerate() {
            let fits = match base {
                // A run that ends where the snapshot does leads there, too.
                Some(_) => run.first <= begins && begins <= run.next,
                None => run.first == 1 && self.follows(run, &first_chain)?,
            };
            if !fits {
                continue;
            }
            let mut path = self.before(index)?;
            path.extend(self.behind(index)?);
            let first = path.first().map_or(begins, |first| self.runs[*first].first);
            let next = path.last().map_or(begins, |last| self.runs[*last].next);
            let found = (next - 1, Reverse(first), path);
            if best.2.is_empty() || (found.0, found.1) > (best.0, best.1) {
                best = found;
            }
        }
        let (keep_to, Reverse(first_position), path) = best;
        if base.is_some_and(|base| base.upto > keep_to) {
            return Ok(None);
        }
        let out = WayOut {
            keep_to,
            snapshot: base.map(SnapshotInfo::from),
            first_position,
            readable_before: readable_before(self.runs, first_position),
        };
        Ok(Some(Way { out, path }))
    }

    /// Returns the runs that lead to a run without a gap, in order, without itself.
    fn before(&self, index: usize) -> Result<Vec<usize>, Error> {
        let mut path = vec![index];
        loop {
            let first = &self.runs[path[path.len() - 1]];
            let mut before = None;
            for (index, run) in self.runs.iter().enumerate() {
                if run.next == first.first
                    && !path.contains(&index)
                    && self.follows(first, &run.chain)?
                {
                    before = Some(index);
                    break;
                }
            }
            match before {
                Some(index) => path.push(index),
                None => break,
            }
        }
        path.reverse();
        path.pop();
        Ok(path)
    }

    /// Returns the runs that continue from a run, itself first.
    fn behind(&self, index: usize) -> Result<Vec<usize>, Error> {
        let mut path = vec![index];
        loop {
            let last = &self.runs[path[path.len() - 1]];
            let mut followed = None;
            for (index, run) in self.runs.iter().enumerate() {
                if run.first == last.next
                    && !path.contains(&index)
                    && self.follows(run, &last.chain)?
                {
                    followed = Some(index);
                    break;
                }
            }
            match followed {
                Some(index) => path.push(index),
                None => return Ok(path),
            }
        }
    }

    fn follows(&self, run: &Run, before: &format::Chain) -> Result<bool, Error> {
        run.follows(self.storage, format::crc_seed(self.log), before)
    }
}

/// Returns how many positions before `first` have records that can be read.
fn readable_before(runs: &[Run], first: u64) -> u64 {
    let mut parts: Vec<_> = runs
        .iter()
        .map(|run| (run.first, run.next.min(first)))
        .collect();
    parts.sort_unstable();
    let (mut readable, mut counted) = (0, 1);
    for (from, to) in parts {
        let from = from.max(counted);
        if to > from {
            readable += to - from;
            counted = to;
        }
    }
    readable
}
