//! The places at which the frames of a segment do not go on as they were written.

use super::runs::{Run, SegmentRuns};
use crate::error::Error;
use crate::format::{self, Chain, FIRST_FRAME, LogId, to_usize};
use crate::manifest::{Manifest, Seal, Segment};
use crate::scan::{self, Expected, Step, header_fault};
use crate::storage::Storage;
use crate::survey::{MISSING, OTHER_RECORDS, ends_early};
use crate::window::{Window, nonzero};

const ALTERED: &str = "the frames behind this place do not go on from those before it";
const NOT_THERE: &str = "the records before this segment are missing";

/// Collects the damage of a log's segments.
pub(super) struct Breaks<'a> {
    storage: &'a dyn Storage,
    log: LogId,
    manifest: Option<&'a Manifest>,
    /// The position after the last record of the segments before, without a manifest.
    before: Option<u64>,
    /// The highest position that is known to have been durable.
    durable: u64,
    found: Vec<Break>,
}

struct Break {
    damage: Error,
    /// It is damage only if this position was durable, else a torn tail.
    lost: Option<u64>,
}

/// Where frames end, and what the next one has to match.
#[derive(Clone, Copy)]
struct End {
    offset: u64,
    next: u64,
    chain: Chain,
}

impl<'a> Breaks<'a> {
    pub(super) fn new(
        storage: &'a dyn Storage,
        log: LogId,
        manifest: Option<&'a Manifest>,
    ) -> Self {
        let durable = manifest.map_or(0, |manifest| {
            let seals = manifest.segments.iter().filter_map(|segment| segment.seal);
            let snapshots = manifest.snapshots.iter().map(|snapshot| snapshot.upto);
            let listed = seals.map(|seal| seal.last).chain(snapshots);
            listed.max().unwrap_or(0).max(manifest.first_position - 1)
        });
        Self {
            storage,
            log,
            manifest,
            before: None,
            durable,
            found: Vec::new(),
        }
    }

    /// Looks at the next segment, in which these runs were found.
    pub(super) fn look(
        &mut self,
        number: u64,
        name: &str,
        found: &SegmentRuns,
    ) -> Result<(), Error> {
        self.durable = self.durable.max(found.durable);
        let Some(manifest) = self.manifest else {
            self.unsealed(name, &found.runs, self.before);
            self.before = found.runs.last().map(|last| last.next).or(self.before);
            return Ok(());
        };
        let listed = &manifest.segments;
        let Some(at) = listed.iter().position(|one| one.number == number) else {
            return Ok(());
        };
        let before = match at.checked_sub(1) {
            None => Some((manifest.first_position, manifest.first_chain)),
            Some(before) => listed[before].seal.map(|seal| (seal.last + 1, seal.chain)),
        };
        match (listed[at].seal, before) {
            (Some(seal), Some((next, chain))) => {
                let begin = End {
                    offset: FIRST_FRAME,
                    next,
                    chain,
                };
                self.sealed((&listed[at], &seal), name, &found.runs, begin)
            }
            _ => {
                self.unsealed(name, &found.runs, before.map(|(next, _)| next));
                Ok(())
            }
        }
    }

    /// Returns the damage that was found; `there` are the segments in the directory.
    pub(super) fn damage(mut self, there: &[(u64, String)]) -> Vec<Error> {
        let manifest = self.manifest;
        for segment in manifest.into_iter().flat_map(|listed| &listed.segments) {
            if !there.iter().any(|(number, _)| *number == segment.number) {
                let name = format::segment_name(segment.number);
                let first = segment.seal.map(|seal| seal.first);
                self.add(&name, 0, first, "the file is missing");
            }
        }
        let durable = self.durable;
        let is_damage = |found: &Break| found.lost.is_none_or(|lost| lost <= durable);
        let damage = self.found.into_iter().filter(is_damage);
        damage.map(|found| found.damage).collect()
    }

    /// Adds the places at which a sealed segment differs from its seal, each once.
    fn sealed(
        &mut self,
        (segment, seal): (&Segment, &Seal),
        name: &str,
        runs: &[Run],
        begin: End,
    ) -> Result<(), Error> {
        let storage = self.storage;
        let failed = |source| Error::io("read", storage.describe(name))(source);
        let file = storage.open_read(name).map_err(failed)?;
        let length = file.length().map_err(failed)?;
        let mut window = Window::with_piece(file.as_ref(), length, to_usize(FIRST_FRAME));
        let block = window.get(0, to_usize(FIRST_FRAME)).map_err(failed)?;
        let is_short = length < seal.length;
        if let Ok(Some((offset, what))) = header_fault(block, segment, self.log, length) {
            self.add(name, offset, Some(begin.next), what);
        } else if is_short {
            self.add(name, length, Some(begin.next), &ends_early(seal.length));
        }
        let known = self.found.len();
        let mut end = begin;
        let within = runs.iter().filter(|run| run.offset < seal.length);
        for run in within {
            if let Some(what) = self.fault(&mut window, segment, seal, end)? {
                self.add(name, end.offset, Some(end.next), what);
            }
            end = End {
                offset: run.end,
                next: run.next,
                chain: run.chain,
            };
        }
        if end.offset < seal.length && !is_short {
            let what = self.fault(&mut window, segment, seal, end)?;
            self.add(name, end.offset, Some(end.next), what.unwrap_or(MISSING));
        }
        let is_whole = end.offset == seal.length && self.found.len() == known;
        if is_whole && (end.next, end.chain) != (seal.last + 1, seal.chain) {
            self.add(name, FIRST_FRAME, Some(begin.next), OTHER_RECORDS);
        }
        if let Some((offset, _)) = nonzero(&mut window, seal.length, length).map_err(failed)? {
            let what = "there are bytes behind the end of a sealed segment";
            self.add(name, offset, Some(seal.last + 1), what);
        }
        Ok(())
    }

    /// Returns why no frame of a sealed segment continues from an end of frames; `None` if one does.
    fn fault(
        &self,
        window: &mut Window<'_>,
        segment: &Segment,
        seal: &Seal,
        end: End,
    ) -> Result<Option<&'static str>, Error> {
        let expected = Expected {
            segment,
            limit: seal.length.max(end.offset),
            seed: format::crc_seed(&self.log),
            next: end.next,
            chain: &end.chain,
        };
        let name = format::segment_name(segment.number);
        let step = scan::step(window, end.offset, &expected, &mut 0, &mut Vec::new());
        let step = step.map_err(Error::io("read", self.storage.describe(&name)))?;
        Ok(match step {
            Step::Frame(_) => None,
            Step::End(end) => Some(end.what().unwrap_or(MISSING)),
        })
    }

    /// Adds the places between the runs of a segment whose seal is not known, behind which a torn tail may begin.
    fn unsealed(&mut self, name: &str, runs: &[Run], before: Option<u64>) {
        let (mut end, mut next) = (FIRST_FRAME, before);
        for run in runs {
            let is_begin = (end, run.offset) == (FIRST_FRAME, FIRST_FRAME);
            let goes_on = is_begin && next.is_none_or(|next| run.first <= next);
            if !goes_on {
                let what = if is_begin { NOT_THERE } else { ALTERED };
                let damage = self.damaged(name, end, next, what);
                let lost = Some(next.unwrap_or(run.first));
                self.found.push(Break { damage, lost });
            }
            (end, next) = (run.end, Some(run.next));
        }
    }

    fn add(&mut self, name: &str, offset: u64, position: Option<u64>, what: &str) {
        let damage = self.damaged(name, offset, position, what);
        self.found.push(Break { damage, lost: None });
    }

    fn damaged(&self, name: &str, offset: u64, position: Option<u64>, what: &str) -> Error {
        Error::Damaged {
            file: self.storage.describe(name),
            offset,
            position,
            what: what.to_owned(),
        }
    }
}
