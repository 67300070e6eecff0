//! Which commits make revisions.

use std::collections::VecDeque;
use std::rc::Rc;

use super::query::Stop;
use crate::base::digest::Digest;
use crate::base::revision::Revision;
use crate::base::time::Timestamp;
use crate::domain::read::Numbered;
use crate::journal::past::{Below, CommitInfo, Lost, Moment, Past, Stretch};

/// Changes that are looked at together for the one that made a revision.
const STRETCH: usize = 64;

/// One revision to show.
pub(super) struct Shown {
    pub(super) position: u64,
    pub(super) revision: Revision,
    pub(super) commit: Rc<CommitInfo>,
}

/// The revisions that a page may show.
pub(super) struct Candidates {
    /// Newest first, once they are [within](Candidates::within) a page.
    pub(super) shown: Vec<Shown>,
    /// Down to here they are all; at 0 nothing comes before them.
    pub(super) floor: u64,
    /// Whether what lies below is kept.
    pub(super) is_complete: bool,
}

impl Candidates {
    /// None yet, of all down to `floor`.
    pub(super) fn down_to(floor: u64, is_complete: bool) -> Self {
        Self {
            shown: Vec::new(),
            floor,
            is_complete,
        }
    }

    /// Adds those of one resource.
    pub(super) fn add(&mut self, stretch: &Stretch, numbered: Numbered) {
        let lowest = stretch.moments.front().map_or(0, |moment| moment.position);
        if stretch.below != Below::Born && lowest > self.floor {
            (self.floor, self.is_complete) = (lowest, stretch.below == Below::More);
        }
        let revisions = revisions(&stretch.moments, stretch.below, numbered);
        self.shown.extend(revisions);
    }

    /// Those of a page that begins at `top`.
    pub(super) fn within(mut self, top: u64) -> Self {
        let floor = self.floor;
        self.shown
            .retain(|one| one.position > floor && one.position <= top);
        self.shown
            .sort_by_key(|one| std::cmp::Reverse(one.position));
        self
    }
}

/// Those of these moments that make a revision, as far as what was before them is known.
pub(super) fn revisions<'m>(
    moments: &'m VecDeque<Moment>,
    below: Below,
    numbered: Numbered,
) -> impl Iterator<Item = Shown> + 'm {
    let before = std::iter::once(None).chain(moments.iter().map(Some));
    moments
        .iter()
        .zip(before)
        .filter_map(move |(moment, before)| {
            let is_one = match before {
                None => below == Below::Born,
                Some(before) => {
                    numbered == Numbered::ByPosition || moment.revision != before.revision
                }
            };
            let commit = moment.commit.as_ref().filter(|_| is_one)?;
            Some(Shown {
                position: moment.position,
                revision: moment.revision,
                commit: Rc::clone(commit),
            })
        })
}

/// The position and the time of the commit that made this revision, at the change at `begin` or
/// below.
pub(super) fn making(
    past: &Past<'_>,
    key: Digest,
    begin: (u64, u64),
    wanted: Revision,
) -> Result<(u64, Timestamp), Stop> {
    let mut begin = begin;
    loop {
        let stretch = past.stretch(key, begin, STRETCH, Numbered::ByRevision)?;
        let mut made = revisions(&stretch.moments, stretch.below, Numbered::ByRevision);
        if let Some(made) = made.find(|one| one.revision == wanted) {
            return Ok((made.position, made.commit.at));
        }
        let lowest = stretch.moments.front().ok_or(Lost::Gone)?;
        match stretch.below {
            // Numbers were passed over.
            _ if lowest.revision < wanted => return Err(Stop::NotFound),
            Below::Born => return Err(Stop::NotFound),
            Below::Gone => return Err(Lost::Gone.into()),
            Below::More => {
                let above = stretch.moments.get(1).map_or(begin.1, |next| next.position);
                begin = (lowest.position, above);
            }
        }
    }
}

/// The position of the earliest state of the resource that is known at this revision, where the log no
/// longer has the commit that made it.
pub(super) fn earliest_known(past: &Past<'_>, key: Digest, wanted: Revision) -> Result<u64, Lost> {
    let mut begin = (past.tip(key), u64::MAX);
    loop {
        let stretch = past.stretch(key, begin, STRETCH, Numbered::ByRevision)?;
        let lowest = stretch.moments.front().ok_or(Lost::Gone)?;
        if stretch.below == Below::More && lowest.revision == wanted {
            let above = stretch.moments.get(1).map_or(begin.1, |next| next.position);
            begin = (lowest.position, above);
            continue;
        }
        let mut moments = stretch.moments.iter();
        let earliest = moments.find(|moment| moment.revision == wanted);
        return earliest.map(|moment| moment.position).ok_or(Lost::Gone);
    }
}

/// The revision or position in an entity tag, which may have more behind it.
pub(super) fn number_in(tag: &str) -> i64 {
    let digits = tag.split('-').next().unwrap_or_default();
    digits.parse().unwrap_or(0)
}
