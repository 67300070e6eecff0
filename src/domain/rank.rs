//! Ranks: the places of resources in a list that has an order of its own.

use std::fmt;
use std::str::FromStr;

use crate::base::time::Timestamp;

/// A resource's place in a list: a time, and an identifier that orders resources of one time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank(Box<[u8]>);

impl Rank {
    /// Makes the rank of a resource with the time `at`; among ranks of one time, the one with the
    /// largest `id` is the highest.
    #[must_use]
    pub fn new(at: Timestamp, id: &str) -> Self {
        // The sign bit is inverted, so that negative numbers come first when the bytes are
        // compared.
        let time = (at.millis() ^ i64::MIN).to_be_bytes();
        Self([time.as_slice(), id.as_bytes()].concat().into())
    }

    /// Returns the identifier that orders ranks of one time.
    #[must_use]
    pub fn id(&self) -> &str {
        let id = self.0.get(size_of::<i64>()..).unwrap_or_default();
        std::str::from_utf8(id).unwrap_or_default()
    }
}

/// Writes the milliseconds of the time in 20 digits, and the identifier.
impl fmt::Display for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time: [u8; 8] = self.0.first_chunk().copied().unwrap_or_default();
        let millis = i64::from_be_bytes(time) ^ i64::MIN;
        write!(f, "{millis:020}/{}", self.id())
    }
}

/// The error of a text that is no rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRank;

impl FromStr for Rank {
    type Err = NoRank;

    fn from_str(text: &str) -> Result<Self, NoRank> {
        let (millis, id) = text.split_once('/').ok_or(NoRank)?;
        let millis = millis.parse::<i64>().map_err(|_| NoRank)?;
        let rank = Self::new(Timestamp::from_millis(millis), id);
        // Each rank has only one accepted text.
        (rank.to_string() == text).then_some(rank).ok_or(NoRank)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_times_rank_higher_and_at_equal_times_the_larger_identifier() {
        let rank = |millis, id| Rank::new(Timestamp::from_millis(millis), id);
        let ascending = [
            rank(i64::MIN, "z"),
            rank(-2, "a"),
            rank(-1, ""),
            rank(0, "z"),
            rank(1, "a"),
            rank(1, "aa"),
            rank(1, "b"),
            rank(256, "a"),
            rank(i64::MAX, ""),
        ];
        assert!(ascending.is_sorted_by(|one, next| one < next));
        for rank in ascending {
            assert_eq!(rank.to_string().parse::<Rank>(), Ok(rank));
        }
        let rank = rank(1_700_000_000_000, "a/b");
        assert_eq!(rank.to_string(), "00000001700000000000/a/b");
        assert_eq!(rank.id(), "a/b");
        for text in ["", "1", "1/a", "x/a", "99999999999999999999/a"] {
            assert_eq!(text.parse::<Rank>(), Err(NoRank), "{text}");
        }
    }
}
