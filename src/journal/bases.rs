//! Decides which changes the log stores together with the whole state before them, their *base*.
//!
//! A resource's earlier states are rebuilt from its events, beginning at a base: the way back from a change ends at
//! the first one with a base, or at the birth. So the cost of reading one revision does not grow with the number of
//! revisions. And everything that the log keeps can be shown, even where the resource is older than the log's
//! beginning:
//!
//! - A change has a base when the resource's previous change is in an older part of the log, which may be given up
//!   while this part is kept. A rarely changed resource stores its state with each change; a busy one once for each
//!   segment.
//! - Some of the other changes have one, by chance: on average the events between two bases have eight times as many
//!   bytes as the state, but there are at most [`APART`] changes between them. So bases add about an eighth to the
//!   events, however large a state is.
//!
//! A birth needs none.

use crate::base::digest::Digest;

/// Highest average number of a resource's changes between two bases.
pub const APART: u64 = 512;
/// Average bytes of the events between two bases, as a multiple of the state's bytes.
const EVENTS_TO_STATE: u64 = 8;

/// A change that is about to be recorded.
#[derive(Clone, Copy, Debug)]
pub struct Recording {
    /// The resource's key.
    pub key: Digest,
    /// Position of the resource's previous change; 0 if there is none.
    pub before: u64,
    /// Size of the change's event, in bytes.
    pub event: usize,
    /// Size of the resource's state, in bytes.
    pub state: usize,
}

/// Whether the change gets a base; `newest_part` is the first position of the log's newest part.
#[must_use]
pub fn is_due(change: Recording, newest_part: u64) -> bool {
    let Recording {
        key, before, event, ..
    } = change;
    if before == 0 {
        return false;
    }
    let long = |bytes: usize| u64::try_from(bytes).unwrap_or(u64::MAX);
    let apart = long(change.state).saturating_mul(EVENTS_TO_STATE) / long(event).max(1);
    before < newest_part || draw(key, before).is_multiple_of(apart.clamp(1, APART))
}

/// Returns a pseudo-random number, which is always the same for the same change.
fn draw(key: Digest, before: u64) -> u64 {
    let (_, half) = key.0.split_at(8);
    let half = half.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    // The finalizer of splitmix64.
    let mixed = half ^ before.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recording(before: u64, event: usize, state: usize) -> Recording {
        Recording {
            key: Digest::of(100, &["s-1"]),
            before,
            event,
            state,
        }
    }

    #[test]
    fn a_birth_has_no_base_and_what_follows_on_an_older_part_always_has_one() {
        assert!(!is_due(recording(0, 10, 10), u64::MAX));
        assert!((1..100).all(|before| is_due(recording(before, 1, 1_000_000), 100)));
    }

    #[test]
    fn bases_are_an_eighth_of_the_events_and_never_far_apart() {
        for (event, state, least, most) in [
            // A state of 1,000 bytes, with every 40th change.
            (200, 1_000, 2_300, 2_700),
            (1_000, 100, 100_000, 100_000),
            (100, 8 << 20, 120, 280),
        ] {
            let of = (1..=100_000).filter(|before| is_due(recording(*before, event, state), 0));
            let count = of.count();
            assert!((least..=most).contains(&count), "{event} {state}: {count}");
        }
    }
}
