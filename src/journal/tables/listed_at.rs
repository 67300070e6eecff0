//! When resources were first listed; the lists call that their births.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::base::digest::Digest;

/// When a resource was first listed: the position of the commit, and the number of the change within it. No two
/// resources of a kind have the same.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename = "Born")]
pub struct ListedAt {
    /// Position of the commit.
    pub position: u64,
    /// Number of the change within the commit, from 0.
    pub number: u32,
}

impl fmt::Display for ListedAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.position, self.number)
    }
}

/// A text that is no [`ListedAt`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidListedAt;

impl FromStr for ListedAt {
    type Err = InvalidListedAt;

    fn from_str(text: &str) -> Result<Self, InvalidListedAt> {
        let (position, number) = text.split_once('-').ok_or(InvalidListedAt)?;
        let listed_at = Self {
            position: position.parse().map_err(|_| InvalidListedAt)?,
            number: number.parse().map_err(|_| InvalidListedAt)?,
        };
        // Each place has exactly one text.
        (listed_at.to_string() == text)
            .then_some(listed_at)
            .ok_or(InvalidListedAt)
    }
}

/// When items that consist of several resources were first listed, each with its kind.
pub(super) type Births = HashMap<Digest, (u16, ListedAt)>;
