//! States of resources as of earlier positions: rebuilt from the log, by the back pointers of
//! changes.
//!
//! A change's record names the position of the resource's change before it. From a known change
//! these lead back to one whose record has the state before it (a *base*, see [`super::bases`]), or
//! to the resource's creation, and from there the events are applied again. The cost depends on the
//! resource's own changes in between, not on the log.
//!
//! [`Past`] reads at one position after the other; as of one it is a
//! [`Source`](crate::domain::resource::Source) like the tables, with all state as of then.

mod as_of;
mod listed;
mod own;
mod ranked;
#[cfg(test)]
pub(crate) mod samples;
mod stretch;

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

pub use self::as_of::AsOf;
use self::listed::Listed;
pub use self::own::{CommitSaid, Lost};
use self::own::{Own, change_of, decode, said};
use self::ranked::Ranked;
pub use self::ranked::RanksAsOf;
use super::messages;
use super::record::Record;
use super::tables::Tables;
use crate::base::digest::Digest;
use crate::base::revision::Revision;
use crate::base::time::Timestamp;
use crate::domain::read::Numbered;
use crate::domain::registered::{Entries, Kinds, known};
use crate::domain::resource::IndexKey;

/// How many changes are searched for a base at most: beyond it the states count as given up. Bases
/// lie much closer; records that were written before there were any may have none.
const BACK_MAX: usize = 250_000;
/// How many states are kept of a resource that is read only as part of another one's read.
const JOINED: usize = 64;

/// The records of a log, by their positions.
pub trait Records {
    /// The first position that is kept as a record.
    fn first(&self) -> u64;

    /// The record at a position that was committed; waits until it is durable.
    ///
    /// # Errors
    /// [`Lost::Gone`] when it is no longer kept.
    fn read(&self, position: u64) -> Result<Vec<u8>, Lost>;
}

/// A resource after one of its changes.
#[derive(Clone, Debug)]
pub struct Moment {
    /// The position of the change.
    pub position: u64,
    /// From its record; `None` for a state that is known from the change after it.
    pub commit: Option<Rc<CommitSaid>>,
    /// The state after it.
    pub state: Rc<[u8]>,
    /// The revision of that state.
    pub revision: Revision,
}

/// Which states of a resource there are below those that were rebuilt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Below {
    /// None: the lowest one is of its creation.
    Born,
    /// There are more, below this change.
    More,
    /// There were more, and the log no longer has them.
    Gone,
}

/// Some states of a resource, one change after the other.
#[derive(Clone, Debug)]
pub struct Stretch {
    /// In ascending order of their positions.
    pub moments: VecDeque<Moment>,
    /// What comes before them.
    pub below: Below,
    /// The position of the next change, which is not among them.
    above: u64,
    /// Whether further ones were left out for their bytes.
    is_cut: bool,
}

/// A change as it is passed on the way back.
#[derive(Clone, Copy, Debug)]
struct Passed {
    before: u64,
    /// The revision after it, where the record has it.
    revision: Option<Revision>,
}

/// How far a way back has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Descent {
    /// To the change that was looked for: its position, and that of the change after it.
    At(u64, u64),
    /// To the creation: there is none.
    Unborn,
    /// Not yet: it goes on with this change, after which comes the other one.
    Further(u64, u64),
    /// To what the log no longer has; this is the last change that was looked at, [`u64::MAX`] for
    /// none.
    Gone(u64),
}

/// What is looked for on a way back.
#[derive(Clone, Copy, Debug)]
pub enum Wanted {
    /// The last change at this position or before.
    Upto(u64),
    /// The last change after which the resource is at this revision or a lower one, or one that does
    /// not say.
    Revision(Revision),
}

/// Reads past states of resources.
pub struct Past<'a> {
    records: &'a dyn Records,
    tables: &'a Tables,
    kinds: Kinds,
    log_id: [u8; 16],
    stretches: RefCell<HashMap<Digest, Stretch>>,
    /// Changes from which the way back may begin, each with the position of the change after it.
    known: RefCell<HashMap<Digest, (u64, u64)>>,
    /// Lists with ranks that were asked for.
    lists: RefCell<HashMap<IndexKey, Ranked>>,
    /// Ranks that are known, of lists that were not asked for yet.
    ranks: RefCell<HashMap<Digest, RanksAsOf>>,
    /// Lists that were asked for, each with the wider one in which it was looked for.
    memberships: RefCell<HashMap<(IndexKey, IndexKey), Listed>>,
    /// How many records were read.
    reads: Cell<usize>,
    /// How many states were asked for.
    states: Cell<usize>,
}

impl<'a> Past<'a> {
    /// On these tables, which are current, and the log that they come from, with its identity.
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
            states: Cell::default(),
        }
    }

    /// The first position that is kept as a record.
    #[must_use]
    pub fn first(&self) -> u64 {
        self.records.first()
    }

    /// How many records were read so far.
    #[must_use]
    pub fn reads(&self) -> usize {
        self.reads.get()
    }

    /// How many states were asked for so far.
    #[must_use]
    pub fn states(&self) -> usize {
        self.states.get()
    }

    fn record(&self, position: u64) -> Result<Vec<u8>, Lost> {
        self.reads.set(self.reads.get() + 1);
        self.records.read(position)
    }

    /// The position of the last change of the resource with this key; 0 when there is none.
    #[must_use]
    pub fn tip(&self, key: Digest) -> u64 {
        self.tables.position(key)
    }

    /// What the record at this position says of its commit, when it changes the resource with this
    /// key.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub fn commit(&self, position: u64, key: Digest) -> Result<Option<CommitSaid>, Lost> {
        let payload = self.record(position)?;
        let record = decode(position, &payload)?;
        Ok(change_of(&record, key, self.log_id)
            .is_some()
            .then(|| said(&record)))
    }

    /// As [`Past::commit`], of several resources: with those of them that the record changes.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub fn commit_of(
        &self,
        position: u64,
        keys: &[Digest],
    ) -> Result<Option<(CommitSaid, Vec<Digest>)>, Lost> {
        let payload = self.record(position)?;
        let record = decode(position, &payload)?;
        let is_changed = |key: &Digest| change_of(&record, *key, self.log_id).is_some();
        let changed: Vec<_> = keys.iter().copied().filter(is_changed).collect();
        Ok((!changed.is_empty()).then(|| (said(&record), changed)))
    }

    /// When the commit at this position was decided.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub fn at(&self, position: u64) -> Result<Timestamp, Lost> {
        let payload = self.record(position)?;
        Ok(decode(position, &payload)?.at)
    }

    /// The last position of a commit at this time or before, up to `upto`; 0 when the first one that
    /// is kept is later.
    ///
    /// # Errors
    /// Why it cannot be said.
    pub fn position_at(&self, time: Timestamp, upto: u64) -> Result<u64, Lost> {
        // The times of commits never fall.
        let (mut known, mut later) = (self.first().saturating_sub(1), upto + 1);
        let begin = known;
        // Where all up to `upto` was given up meanwhile, there is nothing between.
        while later.saturating_sub(known) > 1 {
            let middle = known + (later - known) / 2;
            match self.at(middle) {
                Ok(at) if at <= time => known = middle,
                Ok(_) => later = middle,
                // Given up meanwhile: what is asked for may be, too.
                Err(Lost::Gone) => known = middle,
                Err(lost) => return Err(lost),
            }
        }
        match known == begin || known < self.first() {
            true => Ok(0),
            false => Ok(known),
        }
    }

    /// Goes back from the change of the resource with this key at `from` (after which comes the one
    /// at `above`, [`u64::MAX`] for none), over `most` changes at most.
    ///
    /// # Errors
    /// Why it cannot go on.
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
    ) -> Result<Own<'r>, Lost> {
        let change = change_of(record, key, self.log_id);
        change
            .filter(|change| change.before < position)
            .ok_or_else(|| {
                // Messages that were no resources yet have no changes of their own.
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

    /// Remembers that a way back to states as of a position below `above` may begin at this change of the
    /// resource, since it has none between.
    pub fn begin_at(&self, key: Digest, position: u64, above: u64) {
        self.known.borrow_mut().insert(key, (position, above));
    }

    /// The states of the resource with this key down from the change at `from` (after which comes the
    /// one at `above`): those of `count` changes that make a revision, and of the one before them, or
    /// as many as there are and are not too large. They are remembered.
    ///
    /// # Errors
    /// [`Lost::Gone`] when not even the state after that change can be made.
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

    /// As [`Past::stretch`], down from the last change at `upto` or before; `None` when the resource
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

    /// The resource with this key as of a durable position; `None` when it did not exist.
    ///
    /// # Errors
    /// Why it cannot be said.
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
            // Its own record is given up, and the next one may still have the state.
            Err(Lost::Gone) if above != u64::MAX => self.before_first(key, above, upto).map(Some),
            Err(lost) => Err(lost),
        }
    }

    /// The state before the change at `last`, if its record has it and it is the one as of `upto`.
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

    /// What the indexes hold of the resource with this key as of a position.
    fn entries(&self, key: Digest, upto: u64) -> Result<Option<Entries>, Lost> {
        let Some(moment) = self.as_of(key, upto)? else {
            return Ok(None);
        };
        self.entries_in(key, &moment).map(Some)
    }

    /// What the indexes hold of the resource with this key in a past state.
    fn entries_in(&self, key: Digest, moment: &Moment) -> Result<Entries, Lost> {
        let kind = self.tables.copied(key).map_or(0, |(.., kind)| kind);
        let resource = (self.kinds)(kind).ok_or(Lost::Gone)?;
        resource.entries(&moment.state).map_err(Lost::Damaged)
    }
}

impl Stretch {
    /// The state as of a position, where it is among these.
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

    /// A log of which all was given up but what comes after this position.
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
