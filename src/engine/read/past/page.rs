//! A page of a history: which commits make revisions, and what each of them changed.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::history_cursors::HistoryCursors;
use super::look::Look;
use super::query::{HistoryPage, Stop};
use super::revisions::{Candidates, Shown, number_in};
use crate::base::actor::ActorKind;
use crate::base::json::{Difference, differences};
use crate::base::time::Timestamp;
use crate::catalogue;
use crate::domain::operation::to_json;
use crate::domain::read::{Numbered, Representation};
use crate::journal::past::{CommitInfo, Lost, Past};

/// Maximum number of further searches below a page for the revision before its last one.
const SEARCHED_MAX: usize = 100;
/// Number of bytes of a page above which it ends early.
const PAGE_BYTES_MAX: usize = 4 << 20;

/// Number of states that the bodies of a page rest on above which it ends early.
pub(super) const PAGE_STATES_MAX: usize = 1 << 16;
/// Maximum number of records that a page reads before it ends early.
const PAGE_READS_MAX: usize = 1 << 13;

/// A revision as a history shows it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "HistoryRevision")]
#[serde(rename_all = "camelCase")]
pub struct HistoryEntry<'a> {
    revision: u64,
    position: u64,
    at: Timestamp,
    operation: &'static str,
    actor_kind: Option<ActorKind>,
    actor_profile_id: Option<&'a str>,
    changes: Vec<Difference>,
}

impl Look {
    /// The revisions from the position `top` down, `limit` of one resource.
    fn candidates(
        &self,
        past: &Past<'_>,
        cursors: &mut HistoryCursors,
        top: u64,
        limit: usize,
    ) -> Result<Candidates, Stop> {
        let numbered = self.history.numbered;
        let Some(key) = self.alone() else {
            return cursors.candidates(past, &self.keys, (top, limit), numbered);
        };
        let mut candidates = Candidates::down_to(0, true);
        match past.stretch_upto(key, top, limit, numbered) {
            Ok(None) => {}
            Ok(Some(stretch)) => candidates.add(&stretch, numbered),
            Err(Lost::Gone) => candidates.is_complete = false,
            Err(lost) => return Err(lost.into()),
        }
        Ok(candidates.within(top))
    }

    /// Lets a page begin at `from`, where the resource has to have been changed. Of several of which the latest is
    /// shown, the one that was changed there may no longer be among them: then the page goes down from there all the
    /// same.
    fn begin_page(&self, past: &Past<'_>, from: Option<u64>) -> Result<(), Stop> {
        if let (Some(from), Some(key)) = (from, self.alone())
            && from >= past.first()
        {
            match past.commit(from, key) {
                Ok(commit) => {
                    commit.ok_or(Stop::NoSuchPlace)?;
                    past.begin_at(key, from, from + 1);
                }
                // It is given up at this moment: as if that had been before.
                Err(Lost::Gone) => {}
                Err(lost) => return Err(lost.into()),
            }
        }
        Ok(())
    }

    /// At most `limit` revisions from the one at `from` down; of several resources, from where their cursors are.
    pub(super) fn page(
        &self,
        past: &Past<'_>,
        cursors: &mut HistoryCursors,
        from: Option<u64>,
        limit: usize,
    ) -> Result<HistoryPage, Stop> {
        let numbered = self.history.numbered;
        let top = from.unwrap_or(self.upto).min(self.upto);
        self.begin_page(past, from)?;
        let Candidates {
            shown,
            mut floor,
            is_complete,
        } = self.candidates(past, cursors, top, limit)?;
        let mut page = HistoryPage {
            next: Some(floor).filter(|floor| *floor > 0 && is_complete),
            is_complete,
            ..HistoryPage::default()
        };
        // What was told before the newer one is not known yet.
        let (mut bytes, mut newer) = (0, None::<(&Shown, Representation)>);
        for one in &shown {
            let body = match self.body(past, one.position, one.commit.at) {
                Ok(body) => body.filter(|body| self.is_revision(one.position, body)),
                // What is joined to it is not known as of then.
                Err(Lost::Gone) => return self.ended(past, page, newer, one.position),
                // What is told already is enough for a page.
                Err(Lost::Unfinished) if !page.revisions.is_empty() => {
                    let next = newer.map(|(newer, _)| newer.position);
                    (page.next, page.is_complete) = (next, true);
                    return Ok(page);
                }
                Err(lost) => return Err(lost.into()),
            };
            let Some(body) = body else { continue };
            if let Some((newer, its)) = newer.take() {
                let entry = entry_json(newer, numbered, Some(&body), &its);
                bytes += entry.len();
                page.revisions.push(entry);
                past.set_list_reads_max(PAGE_READS_MAX);
            }
            let is_much = past.states() > PAGE_STATES_MAX || past.reads() > PAGE_READS_MAX;
            let is_long = is_much && !page.revisions.is_empty();
            if page.revisions.len() == limit || bytes > PAGE_BYTES_MAX || is_long {
                (page.next, page.is_complete) = (Some(one.position), true);
                return Ok(page);
            }
            newer = Some((one, body));
        }
        if let Some((last, its)) = newer {
            let below = match floor == 0 && !is_complete {
                true => Err(Lost::Gone.into()),
                false => self.told_below(past, cursors, (&mut floor, limit), last.commit.at),
            };
            match below {
                Ok(body) => {
                    let entry = entry_json(last, numbered, body.as_ref(), &its);
                    page.revisions.push(entry);
                }
                Err(Stop::Lost(Lost::Gone)) => {
                    return self.ended(past, page, Some((last, its)), floor);
                }
                Err(Stop::Lost(Lost::Unfinished)) if !page.revisions.is_empty() => {
                    (page.next, page.is_complete) = (Some(last.position), true);
                }
                Err(stop) => return Err(stop),
            }
        }
        Ok(page)
    }

    /// The page where the body at `floor`, the one before its last revision, is not known in full. The
    /// log has the change that made that revision: where the log begins after `floor`, it is told with
    /// what has changed since the log begins. No revision was made in between.
    fn ended(
        &self,
        past: &Past<'_>,
        mut page: HistoryPage,
        last: Option<(&Shown, Representation)>,
        floor: u64,
    ) -> Result<HistoryPage, Stop> {
        (page.next, page.is_complete) = (None, false);
        // As of the last position that the log no longer has.
        let begin = past.first().saturating_sub(1);
        let last = last.filter(|(last, _)| (floor..last.position).contains(&begin));
        let Some((last, its)) = last else {
            return Ok(page);
        };
        let at = past.at(past.first()).unwrap_or(last.commit.at);
        match self.body(past, begin, at) {
            Ok(before) => {
                let entry = entry_json(last, self.history.numbered, before.as_ref(), &its);
                page.revisions.push(entry);
            }
            Err(Lost::Gone) => {}
            // What is told already is enough for a page; the next one begins with this revision.
            Err(Lost::Unfinished) if !page.revisions.is_empty() => {
                (page.next, page.is_complete) = (Some(last.position), true);
            }
            Err(lost) => return Err(lost.into()),
        }
        Ok(page)
    }

    /// The body of the newest revision at `floor` or below it, `None` where there is none. Of several
    /// resources of which one is shown, what is committed there may be another one, or none may be shown as of then,
    /// as while the only one was elsewhere: `floor` comes down to where there is no revision above it.
    fn told_below(
        &self,
        past: &Past<'_>,
        cursors: &mut HistoryCursors,
        (floor, limit): (&mut u64, usize),
        unless_known: Timestamp,
    ) -> Result<Option<Representation>, Stop> {
        let mut known = None;
        for _ in 0..SEARCHED_MAX {
            if *floor == 0 {
                return Ok(None);
            }
            let at = past.at(*floor).unwrap_or(unless_known);
            let body = self.body(past, *floor, at)?;
            let is_found = match &body {
                Some(body) => self.is_revision(*floor, body),
                // What is read alone, and could not be as of this commit, could not be before it either.
                None => self.alone().is_some(),
            };
            if is_found {
                return Ok(body);
            }
            known = known.or(body);
            let below = self.candidates(past, cursors, *floor - 1, limit)?;
            for one in &below.shown {
                let body = self.body(past, one.position, one.commit.at)?;
                if body
                    .as_ref()
                    .is_some_and(|body| self.is_revision(one.position, body))
                {
                    return Ok(body);
                }
            }
            *floor = below.floor;
            if !below.is_complete {
                return Err(Lost::Gone.into());
            }
        }
        Ok(known)
    }

    /// Whether the commit at this position, as of which this is the body, has made a revision of it.
    /// Of several resources of which one is shown, the commits of the others have not.
    fn is_revision(&self, position: u64, body: &Representation) -> bool {
        self.history.numbered == Numbered::ByRevision
            || i64::try_from(position) == Ok(number_in(&body.tag))
    }
}

/// Returns the JSON of a revision, with what has changed since the body before it.
fn entry_json(
    one: &Shown,
    numbered: Numbered,
    before: Option<&Representation>,
    body: &Representation,
) -> String {
    let json = |body: &Representation| serde_json::from_slice(&body.body).unwrap_or_default();
    let CommitInfo {
        at,
        operation,
        actor,
    } = &*one.commit;
    let entry = HistoryEntry {
        revision: match numbered {
            Numbered::ByPosition => one.position,
            Numbered::ByRevision => u64::try_from(one.revision.number()).unwrap_or(0),
        },
        position: one.position,
        at: *at,
        operation: catalogue::operation_name(*operation),
        actor_kind: actor.as_ref().map(|(kind, _)| *kind),
        actor_profile_id: actor.as_ref().map(|(_, profile)| &**profile),
        changes: differences(&before.map_or(Value::Null, json), &json(body)),
    };
    String::from_utf8(to_json(&entry)).unwrap_or_default()
}
