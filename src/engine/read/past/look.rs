//! One look at the past: what a read gave, as of a position.

use std::sync::Arc;

use super::history_cursors::{HistoryCursors, PIECE};
use super::query::Stop;
use super::revisions::{earliest_known, making, number_in};
use crate::base::actor::Actor;
use crate::base::digest::Digest;
use crate::base::revision::Revision;
use crate::base::time::Timestamp;
use crate::catalogue::ReadRow;
use crate::domain::read::{HistorySource, ReadRequest, Representation};
use crate::domain::resource::ReadView;
use crate::engine::core::Shared;
use crate::journal::past::{AsOf, Descent, KnownLists, Lost, Past, Wanted};

/// One look: who looks, at what.
pub(super) struct Look {
    pub(super) shared: Arc<Shared>,
    pub(super) row: &'static ReadRow,
    pub(super) history: HistorySource,
    pub(super) actor: Arc<Actor>,
    pub(super) path: Vec<(String, String)>,
    /// Whether it has had a turn.
    pub(super) is_begun: bool,
    /// The resources whose past is read. Empty before the first turn: many looks may wait, and each would hold all
    /// keys.
    pub(super) keys: Vec<Digest>,
    /// Everything up to here is durable; what comes after is not looked at.
    pub(super) upto: u64,
    /// The tag of the present body.
    pub(super) present: String,
    pub(super) now: Timestamp,
    /// The last position of the requested time, once it is found.
    pub(super) at: Option<u64>,
    /// Where the search back continues, and the position of the change after that.
    pub(super) begin: Option<(u64, u64)>,
    /// How far the search has come for several resources.
    pub(super) cursors: HistoryCursors,
    /// What the pieces so far have found of the lists that the body rests on.
    pub(super) lists: KnownLists,
    /// Where the page begins that takes the place of one with nothing to show, and how many such pages there were.
    pub(super) instead: (Option<u64>, usize),
}

impl Look {
    /// Finds the keys, in the first turn.
    pub(super) fn begin(&mut self) {
        if !self.is_begun {
            self.is_begun = true;
            self.keys = self.keys_now();
        }
    }

    /// The key of the resource that is read; `None` where it is the latest of several, though only one of them may be
    /// left.
    pub(super) fn alone(&self) -> Option<Digest> {
        match &*self.keys {
            [key] if !self.history.shows_latest => Some(*key),
            _ => None,
        }
    }

    fn keys_now(&self) -> Vec<Digest> {
        let view = ReadView::new(&self.shared.tables);
        let path = self.path.iter();
        let path: Vec<_> = path.map(|(name, value)| (&**name, &**value)).collect();
        (self.history.keys)(&ReadRequest {
            actor: &self.actor,
            now: self.now,
            path: &path,
            view: &view,
            access_checked: true,
        })
    }

    /// Goes back a piece from where it has come to, where there is one resource alone.
    pub(super) fn descended(
        &mut self,
        past: &Past<'_>,
        wanted: Wanted,
    ) -> Result<Option<Descent>, Lost> {
        let Some(key) = self.alone() else {
            return Ok(None);
        };
        let begin = self.begin.unwrap_or_else(|| (past.tip(key), u64::MAX));
        let descent = past.descend(key, begin, wanted, PIECE)?;
        if let Descent::At(position, above) | Descent::Further(position, above) = descent {
            self.begin = Some((position, above));
        }
        Ok(Some(descent))
    }

    /// Goes back a piece to `upto`, which is the same for each piece, where there are several resources;
    /// whether they have come there.
    pub(super) fn all_descended(&mut self, past: &Past<'_>, upto: u64) -> Result<bool, Lost> {
        if self.alone().is_some() {
            return Ok(true);
        }
        let have_come = self.cursors.descended(past, &self.keys, upto)?;
        if have_come {
            self.cursors.tell(past, &self.keys);
        }
        Ok(have_come)
    }

    /// What the read gives as of a position, for the time `now`; `None` when it finds nothing. Where a clock was ahead,
    /// commits have times that are still to come, at which nothing was read: rules are judged by the present, then.
    pub(super) fn body(
        &self,
        past: &Past<'_>,
        upto: u64,
        now: Timestamp,
    ) -> Result<Option<Representation>, Lost> {
        let source = AsOf::new(past, upto);
        let view = ReadView::new(&source);
        let path = self.path.iter();
        let path: Vec<_> = path.map(|(name, value)| (&**name, &**value)).collect();
        let found = (self.row.read)(&ReadRequest {
            actor: &self.actor,
            now: now.min(self.now),
            path: &path,
            view: &view,
            access_checked: true,
        });
        source.check()?;
        // A list is known for one position at a time: what has a body goes on in this piece, lest it come back to it.
        past.set_list_reads_max(usize::MAX);
        Ok(found.ok())
    }

    /// The body that had this position for its tag. Where one of several resources is shown, that may
    /// lie above the present one's. `None` when others shall have their turn.
    pub(super) fn at_position(
        &mut self,
        past: &Past<'_>,
        number: i64,
    ) -> Result<Option<Representation>, Stop> {
        let position = u64::try_from(number).unwrap_or(0);
        let present = u64::try_from(number_in(&self.present)).unwrap_or(0);
        let last = match self.alone() {
            Some(_) => present,
            None => self.upto,
        };
        if position == 0 || position > last {
            return Err(Stop::NotFound);
        }
        let (mut at, mut changed) = (self.now, Vec::new());
        if position >= past.first() {
            let commit = past.commit_of(position, &self.keys)?;
            let (commit, keys) = commit.ok_or(Stop::NotFound)?;
            (at, changed) = (commit.at, keys);
        } else if position != present {
            return Err(Lost::Gone.into());
        }
        if !self.all_descended(past, position)? {
            return Ok(None);
        }
        for key in changed {
            past.begin_at(key, position, position + 1);
        }
        let body = self.body(past, position, at)?;
        let body = body.filter(|body| number_in(&body.tag) == number);
        body.map(Some).ok_or(Stop::NotFound)
    }

    /// The body at this revision of the resource; `None` when others shall have their turn.
    pub(super) fn at_revision(
        &mut self,
        past: &Past<'_>,
        number: i64,
    ) -> Result<Option<Representation>, Stop> {
        let present = number_in(&self.present);
        let &[key] = &*self.keys else {
            return Err(Stop::NotFound);
        };
        if number < 1 || number > present {
            return Err(Stop::NotFound);
        }
        let wanted = Revision::new(number);
        let made = match self.descended(past, Wanted::Revision(wanted))? {
            Some(Descent::Further(..)) => return Ok(None),
            Some(Descent::At(position, above)) => making(past, key, (position, above), wanted),
            Some(Descent::Gone(u64::MAX)) => Err(Lost::Gone.into()),
            // Its record may say that the number was passed over.
            Some(Descent::Gone(last)) => making(past, key, (last, last + 1), wanted),
            Some(Descent::Unborn) | None => Err(Stop::NotFound),
        };
        let (position, at) = match made {
            Ok(made) => made,
            // Whatever became of its record, the present state is known. What is joined to it is
            // known where it has not changed since, or where the log has its earlier state.
            Err(Stop::Lost(Lost::Gone)) if number == present => {
                (earliest_known(past, key, wanted)?, self.now)
            }
            Err(stop) => return Err(stop),
        };
        let body = self.body(past, position, at)?;
        body.map(Some).ok_or(Stop::NotFound)
    }
}
