//! A change that is ready to be published.

use super::StoredState;
use super::lists::PreparedLists;
use super::slab::{self, Alone};
use crate::domain::change::Change;

/// A change with everything that publishing needs, prepared before the log's sequencer is taken, and freed after it
/// is released: so the work in between does not grow with the state.
pub struct PreparedChange {
    pub(super) change: Change,
    /// Page of a large state; after publishing, that of its previous state.
    pub(super) page: Option<Alone>,
    /// Number of the change within its commit.
    pub(super) number: u32,
    /// Prepared effects on lists.
    pub(super) lists: PreparedLists,
}

impl PreparedChange {
    /// Prepares a change.
    #[must_use]
    pub fn new(change: Change) -> Self {
        let page = slab::alone(StoredState {
            kind: change.kind,
            key: change.key,
            position: 0,
            bytes: &change.state,
        });
        Self {
            change,
            page,
            number: 0,
            lists: PreparedLists::default(),
        }
    }

    /// Prepares the changes of a commit.
    #[must_use]
    pub fn all(changes: Vec<Change>) -> Vec<Self> {
        let numbered = |(number, change)| Self {
            number,
            ..Self::new(change)
        };
        (0..).zip(changes).map(numbered).collect()
    }
}
