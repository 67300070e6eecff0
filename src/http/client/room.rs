//! How many file descriptors the connections of this service to others may take.

use crate::engine::webhooks::attempt_slots::{ATTEMPTS_MAX, ATTEMPTS_MIN};

/// Connections that are kept for the next request.
const IDLE_MAX: usize = 1_024;
/// Connections on which the rest of a response is passed over.
const DRAINS_MAX: usize = 256;
/// Names that are looked up at once. A look-up holds a thread until the system gives up, however early its caller
/// does, and others need threads, too.
const LOOKUPS_MAX: usize = 128;
/// Look-ups that remain where there are few descriptors, unless they are more than half of these: with fewer, some
/// silent names delay all others.
const LOOKUPS_MIN: usize = 32;
/// Descriptors of a look-up: its socket, and a file of the system's settings.
const OF_LOOKUP: usize = 2;

/// The maxima of a client's connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutgoingRoom {
    /// Requests in flight.
    pub requests: usize,
    /// Connections that are kept for the next request.
    pub idle: usize,
    /// Connections on which the rest of a response is passed over.
    pub drains: usize,
    /// Names that are looked up at once.
    pub lookups: usize,
}

impl Default for OutgoingRoom {
    fn default() -> Self {
        Self {
            requests: ATTEMPTS_MAX,
            idle: IDLE_MAX,
            drains: DRAINS_MAX,
            lookups: LOOKUPS_MAX,
        }
    }
}

impl OutgoingRoom {
    /// The maxima of a client of so many receivers, each of which has up to `requests` in flight.
    #[must_use]
    pub fn of_receivers(receivers: usize, requests: usize) -> Self {
        let requests = receivers.saturating_mul(requests);
        Self {
            requests,
            idle: requests.min(IDLE_MAX),
            drains: requests.min(DRAINS_MAX),
            // Half of them are for doubtful hosts: so each receiver has one in any case.
            lookups: receivers.saturating_mul(2).min(LOOKUPS_MAX),
        }
    }

    /// Number of descriptors that all of it takes.
    #[must_use]
    pub fn descriptors(&self) -> usize {
        let connections = [self.requests, self.idle, self.drains];
        let lookups = self.lookups.saturating_mul(OF_LOOKUP);
        connections.into_iter().fold(lookups, usize::saturating_add)
    }

    /// Returns the same, lowered in proportion to take no more than `most` descriptors; a few remain in any case. What
    /// look-ups keep beyond their part, connections do without.
    #[must_use]
    pub fn within(self, most: usize) -> Self {
        let all = self.descriptors();
        if all <= most {
            return self;
        }
        let half = most / 2 / OF_LOOKUP;
        let least = LOOKUPS_MIN.min(half).max(1);
        let part = self.lookups.saturating_mul(most) / all;
        let lookups = part.max(least).min(self.lookups);
        let left = most.saturating_sub(lookups * OF_LOOKUP);
        let of_connections = all.saturating_sub(self.lookups.saturating_mul(OF_LOOKUP));
        let lowered = |count: usize, least: usize| {
            let part = count.saturating_mul(left) / of_connections.max(1);
            part.max(least).min(count)
        };
        Self {
            requests: lowered(self.requests, ATTEMPTS_MIN),
            idle: lowered(self.idle, 1),
            drains: lowered(self.drains, 1),
            lookups,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outgoing_limits_shrink_in_proportion_and_keep_some_of_each() {
        let all = OutgoingRoom::default();
        assert_eq!(all.descriptors(), 1_024 + 1_024 + 256 + 2 * 128);
        assert_eq!(all.within(usize::MAX), all);
        assert_eq!(all.within(all.descriptors()), all);
        let half = OutgoingRoom {
            requests: 512,
            idle: 512,
            drains: 128,
            lookups: 64,
        };
        assert_eq!(all.within(all.descriptors() / 2), half);
        let least = OutgoingRoom {
            requests: ATTEMPTS_MIN,
            idle: 1,
            drains: 1,
            lookups: 1,
        };
        assert_eq!(all.within(0), least);
    }

    #[test]
    fn look_ups_keep_a_minimum_at_the_cost_of_connections() {
        let all = OutgoingRoom::default();
        for most in [512, 256, 204] {
            let few = all.within(most);
            assert_eq!(few.lookups, LOOKUPS_MIN, "{few:?}");
            assert!(few.descriptors() <= most, "{few:?}");
            assert!(few.requests > ATTEMPTS_MIN, "{few:?}");
        }
        // They leave half of the descriptors to connections.
        assert_eq!(all.within(100).lookups, 100 / 2 / OF_LOOKUP);
        // Where fewer are wanted, none are added.
        let two = OutgoingRoom::of_receivers(2, 32);
        assert_eq!(two.within(two.descriptors() - 1).lookups, two.lookups);
    }

    #[test]
    fn receivers_reserve_their_in_flight_maximum_and_no_receivers_nothing() {
        assert_eq!(OutgoingRoom::of_receivers(0, 32).descriptors(), 0);
        assert_eq!(OutgoingRoom::of_receivers(0, 32).within(0).descriptors(), 0);
        let two = OutgoingRoom::of_receivers(2, 32);
        assert_eq!(two.descriptors(), 64 + 64 + 64 + 2 * 4);
        let many = OutgoingRoom::of_receivers(1_000, 32);
        assert_eq!((many.requests, many.idle), (32_000, IDLE_MAX));
        assert_eq!((many.drains, many.lookups), (DRAINS_MAX, LOOKUPS_MAX));
        // Doubtful hosts have half of them, which is one for each receiver.
        for receivers in [1, 2, 64] {
            let lookups = OutgoingRoom::of_receivers(receivers, 32).lookups;
            assert_eq!(lookups / 2, receivers);
        }
    }
}
