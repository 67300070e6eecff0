//! A value and a number, in twelve bytes and with an order that is cheap.

use std::cmp::Ordering;

use crate::domain::listing::ValueHash;

/// A value of a filter and a resource that has it: the value's 64 bits in halves, and the resource's number.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Pair([u32; 2], u32);

impl Pair {
    pub(super) fn new(value: ValueHash, number: u32) -> Self {
        let [a, b, c, d, e, f, g, h] = value.0.to_be_bytes();
        let halves = [
            u32::from_be_bytes([a, b, c, d]),
            u32::from_be_bytes([e, f, g, h]),
        ];
        Self(halves, number)
    }

    pub(super) fn value(self) -> ValueHash {
        let Self([high, low], _) = self;
        ValueHash(u64::from(high) << 32 | u64::from(low))
    }

    pub(super) fn number(self) -> u32 {
        self.1
    }

    fn as_number(self) -> u128 {
        u128::from(self.value().0) << 32 | u128::from(self.1)
    }
}

impl Ord for Pair {
    /// The derived order is the same one, and takes several times as many instructions.
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_number().cmp(&other.as_number())
    }
}

impl PartialOrd for Pair {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_in_the_order_of_their_values_and_then_of_their_numbers() {
        let values = [0, 1, u64::from(u32::MAX), 1 << 32, u64::MAX];
        let numbers = [0, 1, u32::MAX];
        let all = values.map(|value| numbers.map(|number| (value, number)));
        for one in all.as_flattened() {
            for other in all.as_flattened() {
                let pair = |(value, number): (u64, u32)| Pair::new(ValueHash(value), number);
                assert_eq!(pair(*one).cmp(&pair(*other)), one.cmp(other));
            }
            let pair = Pair::new(ValueHash(one.0), one.1);
            assert_eq!((pair.value().0, pair.number()), *one);
        }
    }
}
