//! When resources came to be listed: what the lists call their births.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::base::digest::Digest;

/// When a resource came to be listed: the position of the commit, and the number of the change
/// within it. No two of a kind have the same.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename = "Born")]
pub struct ListedAt {
    /// The commit's position.
    pub position: u64,
    /// The number of the change within it, from 0.
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
        // One text for one place.
        (listed_at.to_string() == text)
            .then_some(listed_at)
            .ok_or(InvalidListedAt)
    }
}

/// When items that are several resources came to be listed, each with their kind.
pub(super) type Births = HashMap<Digest, (u16, ListedAt)>;
