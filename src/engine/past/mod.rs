//! Histories, and how things were: what a read gave at earlier commits, made from the log.
//!
//! Who may read the resource now may read what was; an old body is rendered by the same read, on
//! everything as of its position. The log is read on threads where nobody waits for it, few at a
//! time, and a long way back in pieces, so that those who ask for little have their turn between.

mod page;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::spawn_blocking;

use self::page::revisions;
use super::Engine;
use super::core::{CommandResult, Shared};
use crate::base::actor::Actor;
use crate::base::digest::Digest;
use crate::base::panics::unless_its_future_panics;
use crate::base::revision::Revision;
use crate::base::time::Instant;
use crate::catalogue::{self, ReadRow};
use crate::domain::read::{Numbered, ReadRequest, Representation, Trail};
use crate::domain::rejection::Rejection;
use crate::domain::resource::ReadView;
use crate::journal::past::{AsOf, Below, Descent, Lost, Past, Records, Wanted};

/// Looks at the past that are under way at once: each holds a thread, and some memory.
pub(super) const LOOKS_MAX: usize = 2;
/// Changes that are passed on a way back before others have their turn.
const PIECE: usize = 2_048;
/// Changes that are looked at together for the one that made a revision.
const STRETCH: usize = 64;
/// How often a page goes on where nothing was to be shown.
const ROUNDS_MAX: usize = 16;
/// How long the log's thread may take until what was committed is durable.
const DURABLE_WITHIN: Duration = Duration::from_secs(5);

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PastQuery {
    /// Revisions, newest first.
    History {
        /// The position of the first one to show; `None` for the present one.
        from: Option<u64>,
        /// The most revisions.
        limit: usize,
    },
    /// The body at a revision.
    Revision(i64),
    /// The body at a time.
    At(Instant),
}

/// What there was.
#[derive(Debug, PartialEq, Eq)]
pub enum PastFound {
    /// The body.
    Body(Representation),
    /// A page of the history.
    Page(HistoryPage),
}

/// A page of a history.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct HistoryPage {
    /// Its revisions in JSON, newest first.
    pub revisions: Vec<String>,
    /// The position of the revision with which the next page begins; `None` when there is none.
    pub next: Option<u64>,
    /// Whether no revision is missing where the history ends.
    pub is_complete: bool,
}

/// Why there is nothing to show.
#[derive(Debug)]
pub enum NoPast {
    /// The log no longer has it.
    Gone {
        /// The position that this rests on.
        position: u64,
    },
    /// The place to go on from is not one of this history.
    NoSuchPlace,
    /// As with any read.
    Answered(CommandResult),
}

/// Why a look at the past comes to nothing.
enum Stop {
    Lost(Lost),
    NotFound,
    NoSuchPlace,
}

impl From<Lost> for Stop {
    fn from(lost: Lost) -> Self {
        Self::Lost(lost)
    }
}

/// The log's records.
struct LogRecords<'a>(&'a wal::Appender);

impl Records for LogRecords<'_> {
    fn first(&self) -> u64 {
        self.0.first()
    }

    fn read(&self, position: u64) -> Result<Vec<u8>, Lost> {
        let asked = std::time::Instant::now();
        // What stands in the tables may be on its way to the disk.
        while self.0.durable() < position {
            if asked.elapsed() > DURABLE_WITHIN {
                return Err(Lost::Unavailable);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let read = self.0.read(position);
        // What a snapshot keeps of a record does not say what it changed.
        if position < self.0.first() {
            return Err(Lost::Gone);
        }
        match read {
            Ok(Some(payload)) => Ok(payload),
            Ok(None) => Err(Lost::Unavailable),
            Err(error) => {
                tracing::error!(%error, position, "the log cannot be read for what was");
                Err(Lost::Unavailable)
            }
        }
    }
}

impl Engine {
    /// What was of what `row` reads, which has a history that `trail` finds.
    ///
    /// # Errors
    /// Why there is nothing to show.
    pub async fn past(
        &self,
        row: &'static ReadRow,
        trail: Trail,
        actor: &Arc<Actor>,
        path: &[(&str, &str)],
        query: PastQuery,
    ) -> Result<(PastFound, u64), NoPast> {
        let looked = pin!(self.shared.past(row, trail, actor, path, query));
        let looked = unless_its_future_panics(looked).await;
        looked.unwrap_or(Err(NoPast::Answered(CommandResult::Fault)))
    }
}

/// One look: who looks, at what.
struct Look {
    shared: Arc<Shared>,
    row: &'static ReadRow,
    trail: Trail,
    actor: Arc<Actor>,
    path: Vec<(String, String)>,
    keys: Vec<Digest>,
    /// Everything up to here is durable; what comes after is not looked at.
    upto: u64,
    /// The tag of the present body.
    present: String,
    now: Instant,
    /// From where the way back goes on, and the position of the change after it.
    begin: Option<(u64, u64)>,
}

impl Shared {
    /// What was, of what this row reads.
    pub(super) async fn past(
        self: &Arc<Self>,
        row: &'static ReadRow,
        trail: Trail,
        actor: &Arc<Actor>,
        path: &[(&str, &str)],
        query: PastQuery,
    ) -> Result<(PastFound, u64), NoPast> {
        // Who may read now, and what there is now.
        let present = self.read(row.read, actor, path).await;
        let (present, position) = present.map_err(NoPast::Answered)?;
        let now = self.clock.now();
        if matches!(query, PastQuery::At(time) if time >= now) {
            return Ok((PastFound::Body(present), position));
        }
        let keys = {
            let view = ReadView::new(&self.tables);
            (trail.keys)(&ReadRequest {
                actor,
                now,
                path,
                view: &view,
                is_judged: true,
            })
        };
        let path = path.iter();
        let mut look = Look {
            shared: Arc::clone(self),
            row,
            trail,
            actor: Arc::clone(actor),
            path: path
                .map(|(name, value)| ((*name).into(), (*value).into()))
                .collect(),
            keys,
            upto: self.journal.durable().max(position),
            present: present.tag,
            now,
            begin: None,
        };
        let position = look.upto;
        let found = loop {
            // It is never closed.
            let _turn = self.looks.acquire().await;
            let looked = spawn_blocking(move || {
                let found = look.at(query);
                (look, found)
            });
            match looked.await {
                Ok((further, Ok(None))) => look = further,
                Ok((_, Ok(Some(found)))) => break Ok(found),
                Ok((_, Err(stop))) => break Err(stop),
                Err(_) => return Err(NoPast::Answered(CommandResult::Fault)),
            }
        };
        // Time has passed.
        let may_act = self.may_act(&actor.subject).await;
        may_act.map_err(NoPast::Answered)?;
        found
            .map(|found| (found, position))
            .map_err(|stop| match stop {
                Stop::Lost(Lost::Gone) => NoPast::Gone { position },
                Stop::Lost(Lost::Unavailable) => NoPast::Answered(CommandResult::Unavailable),
                Stop::Lost(Lost::Damaged(what)) => {
                    tracing::error!(what, "the log does not tell how things were");
                    NoPast::Answered(CommandResult::Fault)
                }
                Stop::NoSuchPlace => NoPast::NoSuchPlace,
                Stop::NotFound => NoPast::Answered(CommandResult::Refused {
                    rejection: Box::new(Rejection::not_found()),
                    position,
                }),
            })
    }
}

impl Look {
    /// What is asked for; `None` when others shall have their turn before it goes on.
    fn at(&mut self, query: PastQuery) -> Result<Option<PastFound>, Stop> {
        let shared = Arc::clone(&self.shared);
        let records = LogRecords(&shared.journal);
        let past = Past::new(&records, &shared.tables, catalogue::resource, shared.log_id);
        match query {
            PastQuery::History { from, limit } => {
                let mut from = from;
                let mut page = self.page(&past, from, limit)?;
                for _ in 1..ROUNDS_MAX {
                    if !page.revisions.is_empty() || page.next.is_none() {
                        break;
                    }
                    from = page.next;
                    page = self.page(&past, from, limit)?;
                }
                Ok(Some(PastFound::Page(page)))
            }
            PastQuery::Revision(number) => {
                let body = match self.trail.numbered {
                    Numbered::ByPosition => self.at_position(&past, number).map(Some),
                    Numbered::ByRevision => self.at_revision(&past, number),
                };
                Ok(body?.map(PastFound::Body))
            }
            PastQuery::At(time) => {
                let upto = past.position_at(time, self.upto)?;
                if let Some(Descent::Further(..)) = self.descended(&past, Wanted::Upto(upto))? {
                    return Ok(None);
                }
                if let ([key], Some((position, above))) = (&*self.keys, self.begin) {
                    past.begin_at(*key, position, above);
                }
                let body = self.body(&past, upto, time)?;
                body.map(|body| Some(PastFound::Body(body)))
                    .ok_or(Stop::NotFound)
            }
        }
    }

    /// Goes back a piece from where it has come to, where there is one resource alone.
    fn descended(&mut self, past: &Past<'_>, wanted: Wanted) -> Result<Option<Descent>, Lost> {
        let [key] = *self.keys else {
            return Ok(None);
        };
        let begin = self.begin.unwrap_or_else(|| (past.tip(key), u64::MAX));
        let descent = past.descend(key, begin, wanted, PIECE)?;
        if let Descent::At(position, above) | Descent::Further(position, above) = descent {
            self.begin = Some((position, above));
        }
        Ok(Some(descent))
    }

    /// What the read gives as of a position, for the time `now`; `None` when it finds nothing.
    fn body(
        &self,
        past: &Past<'_>,
        upto: u64,
        now: Instant,
    ) -> Result<Option<Representation>, Lost> {
        let source = AsOf::new(past, upto);
        let view = ReadView::new(&source);
        let path = self.path.iter();
        let path: Vec<_> = path.map(|(name, value)| (&**name, &**value)).collect();
        let found = (self.row.read)(&ReadRequest {
            actor: &self.actor,
            now,
            path: &path,
            view: &view,
            is_judged: true,
        });
        source.check()?;
        Ok(found.ok())
    }

    /// The body that had this position for its tag.
    fn at_position(&self, past: &Past<'_>, number: i64) -> Result<Representation, Stop> {
        let position = u64::try_from(number).unwrap_or(0);
        let present = u64::try_from(number_in(&self.present)).unwrap_or(0);
        if position == 0 || position > present {
            return Err(Stop::NotFound);
        }
        let mut at = self.now;
        if position >= past.first() {
            let mut commit = None;
            for key in &self.keys {
                if let Some(said) = past.commit(position, *key)? {
                    past.begin_at(*key, position, position + 1);
                    commit = Some(said);
                }
            }
            at = commit.ok_or(Stop::NotFound)?.at;
        } else if position != present {
            return Err(Lost::Gone.into());
        }
        let body = self.body(past, position, at)?;
        let body = body.filter(|body| number_in(&body.tag) == number);
        body.ok_or(Stop::NotFound)
    }

    /// The body at this revision of the resource; `None` when others shall have their turn.
    fn at_revision(
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
            // Whatever became of its record, the present one is known.
            Err(Stop::Lost(Lost::Gone)) if number == present => (self.upto, self.now),
            Err(stop) => return Err(stop),
        };
        let body = self.body(past, position, at)?;
        body.map(Some).ok_or(Stop::NotFound)
    }
}

/// The position and the time of the commit that made this revision, at the change at `begin` or
/// below.
fn making(
    past: &Past<'_>,
    key: Digest,
    begin: (u64, u64),
    wanted: Revision,
) -> Result<(u64, Instant), Stop> {
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

/// The revision or position in an entity tag, which may have more behind it.
fn number_in(tag: &str) -> i64 {
    let digits = tag.split('-').next().unwrap_or_default();
    digits.parse().unwrap_or(0)
}
