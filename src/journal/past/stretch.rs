//! Rebuilds the states of a resource after consecutive changes: goes back to a base or to the creation, and forward
//! from there.

use std::collections::VecDeque;
use std::rc::Rc;

use super::resource_change::{commit_info, decode};
use super::{BACK_MAX, Below, CommitInfo, Lost, Moment, Past, Stretch};
use crate::base::digest::Digest;
use crate::base::revision::Revision;
use crate::domain::read::Numbered;
use crate::domain::registered::{Retracing, known};

/// Maximum bytes of records held between the ways back and forward; others are read again.
const HELD_BYTES_MAX: usize = 4 << 20;
/// Maximum bytes of states kept of one resource.
const STATES_BYTES_MAX: usize = 16 << 20;

impl Past<'_> {
    pub(super) fn make(
        &self,
        key: Digest,
        (from, above): (u64, u64),
        count: usize,
        numbered: Numbered,
    ) -> Result<Stretch, Lost> {
        let mut back = Back::default();
        let mut position = from;
        let mut counted = 0;
        let is_gone = loop {
            if back.steps.len() >= BACK_MAX {
                break true;
            }
            let payload = match self.record(position) {
                Ok(payload) => payload,
                Err(Lost::Gone) => break true,
                Err(lost) => return Err(lost),
            };
            let record = decode(position, &payload)?;
            let change = self.own_change(position, &record, key)?;
            let (before, has_base) = (change.before, change.base.is_some());
            let makes_revision = match numbered {
                Numbered::ByPosition => true,
                Numbered::ByRevision => change.advances,
            };
            counted += usize::from(makes_revision);
            back.push(position, payload);
            // One more state is shown: the one before the others.
            if counted <= count {
                back.shown = back.steps.len() + 1;
            }
            if has_base || before == 0 {
                back.ground = back.steps.len();
            }
            if before == 0 || has_base && counted > count {
                break false;
            }
            position = before;
        };
        let Some(steps) = back
            .steps
            .get(..back.ground)
            .filter(|steps| !steps.is_empty())
        else {
            return self.only_tip(key, from);
        };
        let mut stretch = self.retraced(key, steps, back.shown)?;
        stretch.above = above;
        let is_all = back.shown > back.ground && stretch.below == Below::More;
        if is_gone && is_all && !stretch.is_cut {
            stretch.below = Below::Gone;
        }
        Ok(stretch)
    }

    /// Applies the events of these changes, given with the latest first, and keeps the states after the latest
    /// `shown` changes.
    fn retraced(&self, key: Digest, steps: &[Step], shown: usize) -> Result<Stretch, Lost> {
        let mut moments = Moments::default();
        let mut states: Option<Box<dyn Retracing>> = None;
        let mut below = Below::More;
        for (index, step) in steps.iter().enumerate().rev() {
            let position = step.position;
            let read;
            let payload = match &step.payload {
                Some(payload) => payload,
                None => {
                    read = self.record(position)?;
                    &read
                }
            };
            let record = decode(position, payload)?;
            let change = self.own_change(position, &record, key)?;
            let misfit = |error: &dyn std::fmt::Display| {
                Lost::Damaged(format!("position {position}: {error}"))
            };
            if states.is_none() {
                let resource = known(self.kinds, change.kind, change.version);
                let resource = resource.map_err(|error| misfit(&error))?;
                let base = change.base;
                let begun = resource.retrace(base).map_err(|error| misfit(&error))?;
                match begun.state() {
                    Some(state) if steps.len() < shown => {
                        moments.push(change.before, None, state, begun.revision());
                    }
                    None if steps.len() <= shown => below = Below::Born,
                    _ => {}
                }
                states = Some(begun);
            }
            let Some(states) = &mut states else {
                continue;
            };
            let applied = states.apply(change.stored(), record.at);
            applied.map_err(|error| misfit(&error))?;
            if index < shown
                && let Some(state) = states.state()
            {
                let commit = Some(Rc::new(commit_info(&record)));
                moments.push(position, commit, state, states.revision());
            }
        }
        if moments.is_cut {
            below = Below::More;
        }
        Ok(Stretch {
            moments: moments.all,
            below,
            above: u64::MAX,
            is_cut: moments.is_cut,
        })
    }

    /// Returns the last state alone, where no earlier one can be rebuilt.
    fn only_tip(&self, key: Digest, from: u64) -> Result<Stretch, Lost> {
        let (position, state, kind) = self.tables.copied(key).ok_or(Lost::Gone)?;
        if position != from {
            return Err(Lost::Gone);
        }
        let commit = match self.record(position) {
            Ok(payload) => Some(Rc::new(commit_info(&decode(position, &payload)?))),
            Err(Lost::Gone) => None,
            Err(lost) => return Err(lost),
        };
        let moment = self.moment(kind, position, state)?;
        Ok(Stretch {
            moments: [Moment { commit, ..moment }].into(),
            below: Below::Gone,
            above: u64::MAX,
            is_cut: false,
        })
    }
}

/// The changes passed on a way back.
#[derive(Default)]
struct Back {
    steps: Vec<Step>,
    held: usize,
    /// Number of changes down to the lowest one from which states can be rebuilt.
    ground: usize,
    /// Number of changes whose states are shown.
    shown: usize,
}

struct Step {
    position: u64,
    payload: Option<Vec<u8>>,
}

impl Back {
    fn push(&mut self, position: u64, payload: Vec<u8>) {
        let is_held = self.held + payload.len() <= HELD_BYTES_MAX;
        if is_held {
            self.held += payload.len();
        }
        self.steps.push(Step {
            position,
            payload: is_held.then_some(payload),
        });
    }
}

/// States in ascending order; only the latest ones if the total size is too large.
#[derive(Default)]
struct Moments {
    all: VecDeque<Moment>,
    bytes: usize,
    is_cut: bool,
}

impl Moments {
    fn push(
        &mut self,
        position: u64,
        commit: Option<Rc<CommitInfo>>,
        state: Vec<u8>,
        revision: Revision,
    ) {
        self.bytes += state.len();
        self.all.push_back(Moment {
            position,
            commit,
            state: state.into(),
            revision,
        });
        // At least two states are kept, since a change is shown with the state before it.
        while self.bytes > STATES_BYTES_MAX && self.all.len() > 2 {
            if let Some(cut) = self.all.pop_front() {
                self.bytes -= cut.state.len();
                self.is_cut = true;
            }
        }
    }
}
