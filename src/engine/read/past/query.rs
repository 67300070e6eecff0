//! Queries for past states, and their results.

use crate::base::time::Timestamp;
use crate::domain::read::Representation;
use crate::journal::past::Lost;

/// A query for the past of a resource.
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
    At(Timestamp),
}

/// The result of such a query.
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

/// Why a look at the past comes to nothing.
pub(super) enum Stop {
    Lost(Lost),
    NotFound,
    NoSuchPlace,
}

impl From<Lost> for Stop {
    fn from(lost: Lost) -> Self {
        Self::Lost(lost)
    }
}
