//! Pages of lists, histories and messages: their sizes, and the cursors of the next pages.

use std::fmt::{self, Display};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;

use super::query::Query;
use crate::base::actor::Actor;
use crate::base::digest::Fingerprint;
use crate::base::json::FaultCode;
use crate::engine::Engine;

/// Maximum number of items on a page; `LIMIT` is the default.
const LIMIT_MAX: usize = 500;
const LIMIT: usize = 50;
/// Length of the digest that binds a cursor to its list, in characters.
const BOUND: usize = 16;

/// Returns the requested page size.
pub(in crate::http) fn limit(query: &mut Query<'_>) -> usize {
    query.number("limit", 1, LIMIT_MAX).unwrap_or(LIMIT)
}

/// Whom a cursor is good for: a subject, in one log. A restored log counts its positions on from where it was
/// restored to, so a place of the log before is another place there.
#[derive(Clone, Copy, Debug)]
pub(in crate::http) struct CursorOwner<'a> {
    pub(in crate::http) log_id: &'a str,
    pub(in crate::http) subject: &'a str,
}

impl<'a> CursorOwner<'a> {
    /// Returns the owner of the cursors that this actor gets from this engine.
    pub(in crate::http) fn of(engine: &'a Engine, actor: &'a Actor) -> Self {
        Self {
            log_id: engine.feed().log_id(),
            subject: &actor.subject,
        }
    }

    /// Returns the owner of a test's cursors.
    #[cfg(test)]
    pub(in crate::http) fn named(subject: &'a str) -> Self {
        Self {
            log_id: "a log",
            subject,
        }
    }
}

impl Display for CursorOwner<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n{}", self.log_id, self.subject)
    }
}

/// The cursors of one list, bound to it by a digest.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::http) struct Cursors(String);

impl Cursors {
    /// Returns cursors that are bound to this text.
    pub(in crate::http) fn bound_to(what: &str) -> Self {
        let mut bound = Fingerprint::of(what.as_bytes()).to_hex();
        bound.truncate(BOUND);
        Self(bound)
    }

    /// Returns the position in the query's cursor, parsed by `place`; `None` without a cursor, or with an invalid
    /// one, whose fault is noted.
    pub(in crate::http) fn place<T>(
        &self,
        query: &mut Query<'_>,
        place: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        query.one("cursor", |cursor| {
            let text = BASE64_URL_SAFE_NO_PAD.decode(cursor).ok();
            let text = text.and_then(|bytes| String::from_utf8(bytes).ok());
            let text = text.as_deref().and_then(|text| text.strip_prefix(&*self.0));
            text.and_then(place).ok_or(FaultCode::Pattern)
        })
    }

    /// Returns the cursor of the page that begins at this place.
    pub(in crate::http) fn at(&self, place: impl Display) -> String {
        BASE64_URL_SAFE_NO_PAD.encode(format!("{}{place}", self.0))
    }
}
