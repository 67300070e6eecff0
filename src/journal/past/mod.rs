//! Rebuilds states of resources as of earlier positions from the log, along the back pointers of changes.
//!
//! A change's record names the position of the resource's previous change. From a known change these pointers lead
//! back to one whose record has the state before it (a *base*, see [`super::bases`]), or to the resource's creation;
//! from there the events are applied again. The cost depends on the resource's own changes in between, not on the
//! log.
//!
//! [`Past`] reads at several positions; as of one of them it is a [`Source`](crate::domain::resource::Source) like
//! the tables, with all state as of then.

mod as_of;
mod listed;
mod ranked;
mod resource_change;
#[cfg(test)]
pub(crate) mod samples;
mod stretch;

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

pub use self::as_of::{AsOf, KnownLists};
use self::listed::Listed;
use self::ranked::Ranked;
pub use self::ranked::RanksAsOf;
pub use self::resource_change::{CommitInfo, Lost};
use self::resource_change::{ResourceChange, change_of, commit_info, decode};
use super::messages;
use super::record::Record;
use super::tables::Tables;
use crate::base::digest::Digest;
use crate::base::revision::Revision;
use crate::base::time::Timestamp;
use crate::domain::index::IndexKey;
use crate::domain::read::Numbered;
use crate::domain::registered::{Entries, Kinds, known};

/// Maximum number of changes searched for a base; beyond it the states count as given up. Bases lie much closer, but
/// records written before there were bases may have none.
const BACK_MAX: usize = 250_000;
/// Number of states kept of a resource that is only read as part of another resource's read.
const JOINED: usize = 64;

/// The records of a log, by their positions.
pub trait Records {
    /// Returns the first position that is kept as a record.
    fn first(&self) -> u64;

    /// Reads the record at a committed position; waits until it is durable.
    ///
    /// # Errors
    /// [`Lost::Gone`] when the record is no longer kept.
    fn read(&self, position: u64) -> Result<Vec<u8>, Lost>;
}

/// A resource after one of its changes.
#[derive(Clone, Debug)]
pub struct Moment {
    /// Position of the change.
    pub position: u64,
    /// Commit data from the change's record; `None` for a state known only from the base of the next change.
    pub commit: Option<Rc<CommitInfo>>,
    /// State after the change.
    pub state: Rc<[u8]>,
    /// Revision of that state.
    pub revision: Revision,
}

/// What precedes the rebuilt states of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Below {
    /// Nothing: the lowest rebuilt state is that of its creation.
    Born,
    /// More states, before the lowest change.
    More,
    /// More states, which the log no longer has.
    Gone,
}

/// The states of a resource after some consecutive changes.
#[derive(Clone, Debug)]
pub struct Stretch {
    /// States in ascending order of their positions.
    pub moments: VecDeque<Moment>,
    /// What precedes these states.
    pub below: Below,
    /// Position of the next change, which is not part of the stretch.
    above: u64,
    /// Whether further states were left out because of their size.
    is_cut: bool,
}

/// Data of a change passed on the way back.
#[derive(Clone, Copy, Debug)]
struct Passed {
    before: u64,
    /// Revision after the change, where the record has it.
    revision: Option<Revision>,
}

/// How far a way back has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Descent {
    /// To the wanted change: its position, and that of the next change.
    At(u64, u64),
    /// To the creation: the wanted change does not exist.
    Unborn,
    /// Not to the end yet: the search continues at the first position; the second is that of the next change.
    Further(u64, u64),
    /// To changes that the log no longer has: the position of the last change examined, [`u64::MAX`] for none.
    Gone(u64),
}

/// Goal of a way back.
#[derive(Clone, Copy, Debug)]
pub enum Wanted {
    /// The last change at this position or before.
    Upto(u64),
    /// The last change after which the resource is at this revision or a lower one, or whose record has no revision.
    Revision(Revision),
}

/// Reads past states of resources.
pub struct Past<'a> {
    records: &'a dyn Records,
    tables: &'a Tables,
    kinds: Kinds,
    log_id: [u8; 16],
    stretches: RefCell<HashMap<Digest, Stretch>>,
    /// Changes from which a way back may begin, each with the position of the next change.
    known: RefCell<HashMap<Digest, (u64, u64)>>,
    /// Lists with ranks that have been read.
    lists: RefCell<HashMap<IndexKey, Ranked>>,
    /// Known ranks of resources whose lists have not been read yet.
    ranks: RefCell<HashMap<Digest, RanksAsOf>>,
    /// The lists that were requested, each under its name and that of the wider list that was searched for it.
    memberships: RefCell<HashMap<(IndexKey, IndexKey), Listed>>,
    /// Number of records that were read.
    reads: Cell<usize>,
    /// Number of records that were read for lists, and the number after which no further one is.
    list_reads: Cell<usize>,
    list_reads_max: Cell<usize>,
    /// Number of states that were requested.
    states: Cell<usize>,
}

impl<'a> Past<'a> {
    /// Creates a reader on these current tables and on the log with this identity that they come from.
    #[must_use]
    pub fn new(
        records: &'a dyn Records,
        tables: &'a Tables,
        kinds: Kinds,
        log_id: [u8; 16],
    ) -> Self {
        Self {
            records,
            tables,
            kinds,
            log_id,
            stretches: RefCell::default(),
            known: RefCell::default(),
            lists: RefCell::default(),
            ranks: RefCell::default(),
            memberships: RefCell::default(),
            reads: Cell::default(),
            list_reads: Cell::default(),
            list_reads_max: Cell::new(usize::MAX),
            states: Cell::default(),
        }
    }

    /// Returns the first position that is kept as a record.
    #[must_use]
    pub fn first(&self) -> u64 {
        self.records.first()
    }

    /// Returns how many records were read so far.
    #[must_use]
    pub fn reads(&self) -> usize {
        self.reads.get()
    }

    /// Returns the number of states that were requested so far.
    #[must_use]
    pub fn states(&self) -> usize {
        self.states.get()
    }

    fn record(&self, position: u64) -> Result<Vec<u8>, Lost> {
        self.reads.set(self.reads.get() + 1);
        self.records.read(position)
    }

    /// Returns the position of the last change of the resource with this key; 0 when there is none.
    #[must_use]
    pub fn tip(&self, key: Digest) -> u64 {
        self.tables.position(key)
    }

    /// Returns the commit data of the record at this position, if it changes the resource with this key.
    ///
    /// # Errors
    /// The reason why the record cannot be read.
    pub fn commit(&self, position: u64, key: Digest) -> Result<Option<CommitInfo>, Lost> {
        let payload = self.record(position)?;
        let record = decode(position, &payload)?;
        Ok(change_of(&record, key, self.log_id)
            .is_some()
            .then(|| commit_info(&record)))
    }

    /// Does what [`Past::commit`] does for several resources; also returns those that the record changes.
    ///
    /// # Errors
    /// The reason why the record cannot be read.
    pub fn commit_of(
        &self,
        position: u64,
        keys: &[Digest],
    ) -> Result<Option<(CommitInfo, Vec<Digest>)>, Lost> {
        let payload = self.record(position)?;
        let record = decode(position, &payload)?;
        let is_changed = |key: &Digest| change_of(&record, *key, self.log_id).is_some();
        let changed: Vec<_> = keys.iter().copied().filter(is_changed).collect();
        Ok((!changed.is_empty()).then(|| (commit_info(&record), changed)))
    }

    /// Returns when the commit at this position was decided.
    ///
    /// # Errors
    /// The reason why the record cannot be read.
    pub fn at(&self, position: u64) -> Result<Timestamp, Lost> {
        let payload = self.record(position)?;
        Ok(decode(position, &payload)?.at)
    }

    /// Returns the last position up to `upto` of a commit at this time or before; 0 when the first kept commit is
    /// later.
    ///
    /// # Errors
    /// The reason why the position cannot be determined.
    pub fn position_at(&self, time: Timestamp, upto: u64) -> Result<u64, Lost> {
        // The times of commits never decrease.
        let (mut known, mut later) = (self.first().saturating_sub(1), upto + 1);
        let begin = known;
        // Where everything up to `upto` was given up meanwhile, the range is empty.
        while later.saturating_sub(known) > 1 {
            let middle = known + (later - known) / 2;
            match self.at(middle) {
                Ok(at) if at <= time => known = middle,
                Ok(_) => later = middle,
                // The record was given up meanwhile; the result may be, too.
                Err(Lost::Gone) => known = middle,
                Err(lost) => return Err(lost),
            }
        }
        match known == begin || known < self.first() {
            true => Ok(0),
            false => Ok(known),
        }
    }

    /// Goes back from the change at `from` of the resource with this key, over at most `most` changes. The next
    /// change is at `above`, or [`u64::MAX`] for none.
    ///
    /// # Errors
    /// The reason why the search cannot continue.
    pub fn descend(
        &self,
        key: Digest,
        (from, above): (u64, u64),
        wanted: Wanted,
        most: usize,
    ) -> Result<Descent, Lost> {
        let (mut position, mut above) = (from, above);
        let mut last = u64::MAX;
        let mut passed = 0;
        loop {
            if position == 0 {
                return Ok(Descent::Unborn);
            }
            if matches!(wanted, Wanted::Upto(upto) if position <= upto) {
                return Ok(Descent::At(position, above));
            }
            if passed == most {
                return Ok(Descent::Further(position, above));
            }
            let here = match self.passed(key, position) {
                Ok(here) => here,
                Err(Lost::Gone) => return Ok(Descent::Gone(last)),
                Err(lost) => return Err(lost),
            };
            if let Wanted::Revision(wanted) = wanted
                && here.revision.is_none_or(|revision| revision <= wanted)
            {
                return Ok(Descent::At(position, above));
            }
            (last, above, position) = (position, position, here.before);
            passed += 1;
        }
    }

    fn own_change<'r>(
        &self,
        position: u64,
        record: &'r Record<'_>,
        key: Digest,
    ) -> Result<ResourceChange<'r>, Lost> {
        let change = change_of(record, key, self.log_id);
        change
            .filter(|change| change.before < position)
            .ok_or_else(|| {
                // Messages of the time when they were no resources have no changes of their own.
                if record.changes.iter().any(messages::completes_old) {
                    return Lost::Gone;
                }
                let what =
                    "a change names it as the one before, and it does not change the resource";
                Lost::Damaged(format!("position {position}: {what}"))
            })
    }

    fn passed(&self, key: Digest, position: u64) -> Result<Passed, Lost> {
        let payload = self.record(position)?;
        let record = decode(position, &payload)?;
        let change = self.own_change(position, &record, key)?;
        Ok(Passed {
            before: change.before,
            revision: change.revision,
        })
    }

    /// Remembers that the way back to states as of positions below `above` may begin at this change, since the
    /// resource has no change in between.
    pub fn begin_at(&self, key: Digest, position: u64, above: u64) {
        self.known.borrow_mut().insert(key, (position, above));
    }

    /// Rebuilds the states of the resource with this key, downwards from the change at `from`, whose next change is
    /// at `above`: those after `count` changes that make a revision, and the state before them; fewer where there are
    /// not so many, or where they are too large. Remembers them.
    ///
    /// # Errors
    /// [`Lost::Gone`] when not even the state after that change can be rebuilt.
    pub fn stretch(
        &self,
        key: Digest,
        (from, above): (u64, u64),
        count: usize,
        numbered: Numbered,
    ) -> Result<Stretch, Lost> {
        let made = self.make(key, (from, above), count, numbered)?;
        self.stretches.borrow_mut().insert(key, made.clone());
        Ok(made)
    }

    /// Does what [`Past::stretch`] does, downwards from the last change at `upto` or before; `None` when the resource
    /// did not exist.
    ///
    /// # Errors
    /// As [`Past::stretch`].
    pub fn stretch_upto(
        &self,
        key: Digest,
        upto: u64,
        count: usize,
        numbered: Numbered,
    ) -> Result<Option<Stretch>, Lost> {
        let known = self.known.borrow().get(&key).copied();
        let begin = known.filter(|(_, above)| upto < *above);
        let begin = begin.unwrap_or_else(|| (self.tip(key), u64::MAX));
        match self.descend(key, begin, Wanted::Upto(upto), BACK_MAX)? {
            Descent::At(position, above) => self
                .stretch(key, (position, above), count, numbered)
                .map(Some),
            Descent::Unborn => Ok(None),
            Descent::Further(..) | Descent::Gone(_) => Err(Lost::Gone),
        }
    }

    fn moment(&self, kind: u16, position: u64, state: Vec<u8>) -> Result<Moment, Lost> {
        let unknown = || Lost::Damaged(format!("resource kind {kind} is not known here"));
        let resource = (self.kinds)(kind).ok_or_else(unknown)?;
        let revision = resource.revision(&state);
        Ok(Moment {
            position,
            commit: None,
            revision: revision.map_err(|error| Lost::Damaged(error.to_string()))?,
            state: state.into(),
        })
    }

    /// Returns the resource with this key as of a durable position; `None` when it did not exist.
    ///
    /// # Errors
    /// The reason why the state cannot be rebuilt.
    pub fn as_of(&self, key: Digest, upto: u64) -> Result<Option<Moment>, Lost> {
        self.states.set(self.states.get() + 1);
        let Some((tip, state, kind)) = self.tables.copied(key) else {
            return Ok(None);
        };
        if tip <= upto {
            return self.moment(kind, tip, state).map(Some);
        }
        let mut begin = (tip, u64::MAX);
        if let Some(stretch) = self.stretches.borrow().get(&key) {
            if let Some(moment) = stretch.at(upto) {
                return Ok(Some(moment.clone()));
            }
            if let Some(lowest) = stretch.moments.front()
                && upto < lowest.position
            {
                match stretch.below {
                    Below::Born => return Ok(None),
                    Below::Gone => return Err(Lost::Gone),
                    Below::More => begin = (lowest.position, u64::MAX),
                }
            }
        }
        if let Some((position, above)) = self.known.borrow().get(&key).copied()
            && position < begin.0
            && upto < above
        {
            begin = (position, above);
        }
        let (position, above) = match self.descend(key, begin, Wanted::Upto(upto), BACK_MAX)? {
            Descent::At(position, above) => (position, above),
            Descent::Unborn => return Ok(None),
            Descent::Further(..) | Descent::Gone(u64::MAX) => return Err(Lost::Gone),
            Descent::Gone(last) => return self.before_first(key, last, upto).map(Some),
        };
        match self.stretch(key, (position, above), JOINED, Numbered::ByPosition) {
            Ok(made) => {
                let moment = made.moments.back().cloned().ok_or(Lost::Gone)?;
                Ok(Some(moment))
            }
            // The change's own record is given up; the next change's record may still have the state as its base.
            Err(Lost::Gone) if above != u64::MAX => self.before_first(key, above, upto).map(Some),
            Err(lost) => Err(lost),
        }
    }

    /// Returns the state before the change at `last`, if its record has it as a base and it is the state as of
    /// `upto`.
    fn before_first(&self, key: Digest, last: u64, upto: u64) -> Result<Moment, Lost> {
        let payload = self.record(last)?;
        let record = decode(last, &payload)?;
        let change = self.own_change(last, &record, key)?;
        let resource = known(self.kinds, change.kind, change.version);
        let resource = resource.map_err(|error| Lost::Damaged(error.to_string()))?;
        match change.base {
            Some(base) if change.before <= upto => {
                let state = resource.present(base);
                let state = state.map_err(|error| Lost::Damaged(error.to_string()))?;
                self.moment(change.kind, change.before, state.into_owned())
            }
            _ => Err(Lost::Gone),
        }
    }

    /// Returns the index entries of the resource with this key as of a position.
    fn entries(&self, key: Digest, upto: u64) -> Result<Option<Entries>, Lost> {
        let Some(moment) = self.as_of(key, upto)? else {
            return Ok(None);
        };
        self.entries_in(key, &moment).map(Some)
    }

    /// Returns the index entries of the resource with this key in a past state.
    fn entries_in(&self, key: Digest, moment: &Moment) -> Result<Entries, Lost> {
        let kind = self.tables.copied(key).map_or(0, |(.., kind)| kind);
        let resource = (self.kinds)(kind).ok_or(Lost::Gone)?;
        resource.entries(&moment.state).map_err(Lost::Damaged)
    }
}

impl Stretch {
    /// Returns the state as of a position, if the stretch contains it.
    fn at(&self, upto: u64) -> Option<&Moment> {
        if upto >= self.above {
            return None;
        }
        let after = self
            .moments
            .partition_point(|moment| moment.position <= upto);
        self.moments.get(after.checked_sub(1)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue;

    /// A log of which only the records after this position are kept.
    struct GivenUp(u64);

    impl Records for GivenUp {
        fn first(&self) -> u64 {
            self.0 + 1
        }

        fn read(&self, _: u64) -> Result<Vec<u8>, Lost> {
            Err(Lost::Gone)
        }
    }

    #[test]
    fn no_time_has_a_position_where_all_was_given_up_meanwhile() {
        let tables = Tables::default();
        for given_up in [10, 11, 12, 20] {
            let records = GivenUp(given_up);
            let past = Past::new(&records, &tables, catalogue::resource, [0; 16]);
            let found = past.position_at(Timestamp::default(), 10);
            assert!(matches!(found, Ok(0)), "{given_up}: {found:?}");
        }
    }
}
