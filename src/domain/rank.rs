//! Ranks: the places of resources in a list that is kept in an order of its own.

use std::fmt;
use std::str::FromStr;

use crate::base::time::Timestamp;

/// A resource's place among those of a list: a time, and what orders those of one time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank(Box<[u8]>);

impl Rank {
    /// The rank of what is as of `at`; of several at one time, the one whose `id` is the largest
    /// ranks highest.
    #[must_use]
    pub fn new(at: Timestamp, id: &str) -> Self {
        // As bytes, which are compared from the first on, negative numbers come first.
        let time = (at.millis() ^ i64::MIN).to_be_bytes();
        Self([time.as_slice(), id.as_bytes()].concat().into())
    }

    /// What orders those of one time.
    #[must_use]
    pub fn id(&self) -> &str {
        let id = self.0.get(size_of::<i64>()..).unwrap_or_default();
        std::str::from_utf8(id).unwrap_or_default()
    }
}

/// The milliseconds of the time in 20 digits, and the identifier.
impl fmt::Display for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time: [u8; 8] = self.0.first_chunk().copied().unwrap_or_default();
        let millis = i64::from_be_bytes(time) ^ i64::MIN;
        write!(f, "{millis:020}/{}", self.id())
    }
}

/// A text that is no rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRank;

impl FromStr for Rank {
    type Err = NoRank;

    fn from_str(text: &str) -> Result<Self, NoRank> {
        let (millis, id) = text.split_once('/').ok_or(NoRank)?;
        let millis = millis.parse::<i64>().map_err(|_| NoRank)?;
        let rank = Self::new(Timestamp::from_millis(millis), id);
        // One text for one rank.
        (rank.to_string() == text).then_some(rank).ok_or(NoRank)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_later_ranks_higher_and_of_one_time_the_larger_identifier() {
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
