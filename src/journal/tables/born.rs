//! When resources came to be listed.

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
pub struct Born {
    /// The commit's position.
    pub position: u64,
    /// The number of the change within it, from 0.
    pub number: u32,
}

impl fmt::Display for Born {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.position, self.number)
    }
}

/// A text that says no such place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoBirth;

impl FromStr for Born {
    type Err = NoBirth;

    fn from_str(text: &str) -> Result<Self, NoBirth> {
        let (position, number) = text.split_once('-').ok_or(NoBirth)?;
        let born = Self {
            position: position.parse().map_err(|_| NoBirth)?,
            number: number.parse().map_err(|_| NoBirth)?,
        };
        // One text for one place.
        (born.to_string() == text).then_some(born).ok_or(NoBirth)
    }
}

/// When items that are several resources came to be listed, each with their kind.
pub(super) type Births = HashMap<Digest, (u16, Born)>;
