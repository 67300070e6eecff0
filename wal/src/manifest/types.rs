//! The entries of a manifest.

use crate::format::{self, Chain, LogId};

/// Maximum number of snapshots that are kept.
pub(crate) const SNAPSHOTS_MAX: usize = 2;

/// The content of a sealed segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seal {
    /// End of the last frame, in bytes from the start of the file.
    pub(crate) length: u64,
    pub(crate) first: u64,
    pub(crate) last: u64,
    /// The digest after the last frame.
    pub(crate) chain: Chain,
}

/// One segment of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) number: u64,
    pub(crate) epoch: u64,
    /// `None` while frames may be appended.
    pub(crate) seal: Option<Seal>,
}

/// A sealed segment, with the facts that decide whether it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sealed {
    pub(crate) number: u64,
    /// Its last position.
    pub(crate) last: u64,
    /// Length of its file in bytes.
    pub(crate) length: u64,
}

/// One snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Snapshot {
    pub(crate) number: u64,
    /// Every record up to this position is in it.
    pub(crate) covers: u64,
    /// The last position whose record contributed to it.
    pub(crate) upto: u64,
    /// Length of the file in bytes.
    pub(crate) length: u64,
    /// The digest of its last block.
    pub(crate) chain: Chain,
}

/// A log that another one continues, as a restored log continues the one that it was restored from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ancestor {
    /// Its id.
    pub log_id: [u8; 16],
    /// The last position that was appended under this id.
    pub upto: u64,
}

/// Which log it is, and which logs it continues.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The log's random name. Every record after those of its ancestors was
    /// appended under it.
    pub log_id: [u8; 16],
    /// The logs that it was restored or recovered from, the oldest first: each has
    /// the records after those of the one before, up to its `upto`.
    pub ancestors: Vec<Ancestor>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub(crate) log: LogId,
    pub(crate) generation: u64,
    pub(crate) epoch: u64,
    pub(crate) next_number: u64,
    pub(crate) first_position: u64,
    pub(crate) first_chain: Chain,
    pub(crate) segments: Vec<Segment>,
    /// Oldest first; two at most.
    pub(crate) snapshots: Vec<Snapshot>,
    /// Oldest first.
    pub(crate) ancestors: Vec<Ancestor>,
}

impl Identity {
    /// Returns the ancestors of a log that is made of this one's records up to a position.
    pub(crate) fn handed_on(&self, last: u64) -> Vec<Ancestor> {
        let own = Ancestor {
            log_id: self.log_id,
            upto: last,
        };
        let mut ancestors: Vec<Ancestor> = Vec::new();
        for ancestor in self.ancestors.iter().chain([&own]) {
            let before = ancestors.last().map_or(0, |before| before.upto);
            let upto = ancestor.upto.min(last);
            if upto > before {
                ancestors.push(Ancestor { upto, ..*ancestor });
            }
        }
        ancestors
    }
}

impl Manifest {
    /// Returns the manifest of the segments from the one that holds a position on.
    pub(crate) fn part_from(&self, first: u64) -> Self {
        let mut part = self.clone();
        let before = |segment: &&Segment| segment.seal.is_some_and(|seal| seal.last < first);
        let count = part.segments.iter().take_while(before).count();
        let passed: Vec<_> = part.segments.drain(..count).collect();
        if let Some(seal) = passed.last().and_then(|last| last.seal) {
            part.first_position = seal.last + 1;
            part.first_chain = seal.chain;
        }
        part
    }

    pub(crate) fn identity(&self) -> Identity {
        Identity {
            log_id: self.log,
            ancestors: self.ancestors.clone(),
        }
    }

    /// The sealed segments that come before the first open one, oldest first.
    pub(crate) fn sealed(&self) -> Vec<Sealed> {
        let sealed = self.segments.iter().map_while(|segment| {
            let seal = segment.seal?;
            Some(Sealed {
                number: segment.number,
                last: seal.last,
                length: seal.length,
            })
        });
        sealed.collect()
    }

    /// Returns the position up to which every snapshot covers the records; `None` while there are
    /// fewer than two.
    pub(crate) fn covered(&self) -> Option<u64> {
        match self.snapshots.as_slice() {
            [older, _] => Some(older.covers),
            _ => None,
        }
    }

    /// Creates the manifest of a log without segments.
    pub(crate) fn new(log: LogId) -> Self {
        Self {
            log,
            generation: 0,
            epoch: 0,
            next_number: 1,
            first_position: 1,
            first_chain: format::first_chain(&log),
            segments: Vec::new(),
            snapshots: Vec::new(),
            ancestors: Vec::new(),
        }
    }
}
