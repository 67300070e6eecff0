//! Amounts of money.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::json::{AtLeast, FromJson, Json, Reader, Shape};

/// An amount in won, which has no smaller unit. It is a type of its own, so that no amount is added
/// to a revision by mistake, and each computation has to say what happens where 64 bits do not
/// suffice. Sums of several amounts are computed in 128 bits (`i128::from`), in which none
/// overflows.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Won(i64);

impl Won {
    /// 0 won.
    pub const ZERO: Self = Self(0);
    /// The largest amount.
    pub const MAX: Self = Self(i64::MAX);

    /// Makes an amount of `number` won.
    #[must_use]
    pub const fn new(number: i64) -> Self {
        Self(number)
    }

    /// Returns the number of won.
    #[must_use]
    pub const fn number(self) -> i64 {
        self.0
    }

    /// Returns the amount of a sum; `None` where it does not fit in 64 bits.
    #[must_use]
    pub fn of_sum(sum: i128) -> Option<Self> {
        i64::try_from(sum).ok().map(Self)
    }

    /// Returns the sum of both; `None` where it does not fit in 64 bits.
    #[must_use]
    pub fn checked_add(self, other: Self) -> Option<Self> {
        self.0.checked_add(other.0).map(Self)
    }
}

impl From<Won> for i128 {
    fn from(amount: Won) -> Self {
        amount.0.into()
    }
}

impl<const MIN: i64> From<AtLeast<MIN>> for Won {
    fn from(AtLeast(number): AtLeast<MIN>) -> Self {
        Self(number)
    }
}

impl fmt::Display for Won {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromJson for Won {
    fn read(value: &Json<'_>, at: &mut Reader) -> Option<Self> {
        i64::read(value, at).map(Self)
    }

    fn shape() -> Shape {
        i64::shape()
    }
}

crate::schema_of_shape!(Won);

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_beyond_64_bits_is_no_amount() {
        let sum = i128::from(Won::MAX) + 1;
        assert_eq!(Won::of_sum(sum), None);
        assert_eq!(Won::of_sum(sum - 1), Some(Won::MAX));
        assert_eq!(Won::MAX.checked_add(Won::new(1)), None);
        assert_eq!(Won::new(1).checked_add(Won::new(-3)), Some(Won::new(-2)));
    }
}
