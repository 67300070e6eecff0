//! Limits on open connections: in total, over all listeners, and per client address. The internal listener has some
//! places of its own, and addresses are counted for each listener apart: to a proxy on this machine all clients have its
//! address, and whatever they do, who watches and operates the service has to come in.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;

/// Connections to the internal listener that may be open besides the maximum.
pub const INTERNAL_PLACES: usize = 64;

/// The listener that a connection comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Entrance {
    /// The one for everybody.
    Public,
    /// The internal one.
    Internal,
}

/// Counts open connections.
pub struct Connections {
    most: usize,
    most_of_one: usize,
    open: Mutex<Open>,
    counts: Arc<ConnectionCounts>,
}

/// Why a connection is refused, or closed before its first request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionRefusal {
    /// The maximum of connections is open.
    TooMany,
    /// The maximum of connections from the client's address is open.
    TooManyOfAddress,
    /// The system could not accept the connection for this process, most likely for lack of file descriptors.
    NotAccepted,
    /// The TLS handshake failed.
    TlsFailed,
    /// The TLS handshake took too long.
    TlsTooSlow,
}

impl ConnectionRefusal {
    /// All reasons.
    pub const ALL: [Self; 5] = [
        Self::TooMany,
        Self::TooManyOfAddress,
        Self::NotAccepted,
        Self::TlsFailed,
        Self::TlsTooSlow,
    ];

    /// Returns the reason as one word, for counters.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::TooMany => "too_many",
            Self::TooManyOfAddress => "too_many_of_address",
            Self::NotAccepted => "not_accepted",
            Self::TlsFailed => "tls_failed",
            Self::TlsTooSlow => "tls_too_slow",
        }
    }
}

/// The counts of connections.
#[derive(Debug, Default)]
pub struct ConnectionCounts {
    open: AtomicUsize,
    refused: [AtomicU64; ConnectionRefusal::ALL.len()],
    streams_reset: AtomicU64,
}

impl ConnectionCounts {
    /// Number of open connections.
    #[must_use]
    pub fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Number of connections refused for this reason.
    #[must_use]
    pub fn refused(&self, refusal: ConnectionRefusal) -> u64 {
        self.refused[refusal as usize].load(Ordering::Relaxed)
    }

    /// Numbers of refused connections for each reason, by its word.
    #[must_use]
    pub fn all_refused(&self) -> Vec<(&'static str, u64)> {
        let all = ConnectionRefusal::ALL.into_iter();
        all.map(|refusal| (refusal.code(), self.refused(refusal)))
            .collect()
    }

    /// Number of streams of HTTP/2 that were reset because there was no room even for a refusal.
    #[must_use]
    pub fn streams_reset(&self) -> u64 {
        self.streams_reset.load(Ordering::Relaxed)
    }

    /// Counts a stream that is reset so.
    pub fn reset_stream(&self) {
        self.streams_reset.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a refused connection.
    pub fn refuse(&self, refusal: ConnectionRefusal) {
        self.refused[refusal as usize].fetch_add(1, Ordering::Relaxed);
    }
}

#[derive(Default)]
struct Open {
    /// Connections that count among the maximum.
    all: usize,
    /// Connections in the places of the internal listener.
    internal: usize,
    by_place: HashMap<(Entrance, IpAddr), usize>,
}

impl Open {
    fn count(&mut self, is_in_own_place: bool) -> &mut usize {
        match is_in_own_place {
            true => &mut self.internal,
            false => &mut self.all,
        }
    }
}

/// A counted open connection; dropping it decrements the counts.
pub struct Counted {
    connections: Arc<Connections>,
    address: IpAddr,
    place: (Entrance, IpAddr),
    /// Whether it has one of the places of the internal listener.
    is_in_own_place: bool,
}

impl Connections {
    /// Creates a limit of `most` open connections in total, besides the places of the internal listener, and
    /// `most_of_one` from one address to one listener.
    #[must_use]
    pub fn new(most: usize, most_of_one: usize, counts: Arc<ConnectionCounts>) -> Arc<Self> {
        Arc::new(Self {
            most,
            most_of_one,
            open: Mutex::default(),
            counts,
        })
    }

    /// Returns the counts of connections.
    #[must_use]
    pub fn counts(&self) -> &Arc<ConnectionCounts> {
        &self.counts
    }

    /// Counts a connection from `address`; `None` if too many are open.
    pub fn count(self: &Arc<Self>, entrance: Entrance, address: IpAddr) -> Option<Counted> {
        let place = (entrance, place(address));
        let mut open = self.open.lock();
        let here = open.by_place.get(&place).copied().unwrap_or(0);
        let is_in_own_place = entrance == Entrance::Internal && open.internal < INTERNAL_PLACES;
        let is_full = !is_in_own_place && open.all >= self.most;
        let refusal = match (is_full, here >= self.most_of_one) {
            (true, _) => Some(ConnectionRefusal::TooMany),
            (false, true) => Some(ConnectionRefusal::TooManyOfAddress),
            (false, false) => None,
        };
        if let Some(refusal) = refusal {
            self.counts.refuse(refusal);
            return None;
        }
        *open.count(is_in_own_place) += 1;
        self.counts
            .open
            .store(open.all + open.internal, Ordering::Relaxed);
        open.by_place.insert(place, here + 1);
        Some(Counted {
            connections: Arc::clone(self),
            address,
            place,
            is_in_own_place,
        })
    }
}

impl Counted {
    /// Returns the client's address.
    #[must_use]
    pub fn address(&self) -> IpAddr {
        self.address
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut open = self.connections.open.lock();
        *open.count(self.is_in_own_place) -= 1;
        let counts = &self.connections.counts;
        counts
            .open
            .store(open.all + open.internal, Ordering::Relaxed);
        if let Some(here) = open.by_place.get_mut(&self.place) {
            *here -= 1;
            if *here == 0 {
                open.by_place.remove(&self.place);
            }
        }
    }
}

/// Returns the address range that one client controls: an IPv4 address, or the /64 network of an IPv6 address.
pub(super) fn place(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        address => address,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn one_place_has_its_bound_and_a_network_of_ipv6_is_one() {
        let connections = Connections::new(10, 2, Arc::default());
        for [one, same, other] in [
            ["10.0.0.1", "::ffff:10.0.0.1", "10.0.0.2"],
            ["2001:db8::1", "2001:db8::ffff:0:0:1", "2001:db8:0:1::1"],
        ] {
            let held =
                [one, same].map(|text| connections.count(Entrance::Public, address(text)).unwrap());
            // The full address is kept, because it shows whether the client is on this machine.
            assert_eq!(held[1].address(), address(same));
            assert!(
                connections.count(Entrance::Public, address(one)).is_none(),
                "{one}"
            );
            assert!(
                connections
                    .count(Entrance::Public, address(other))
                    .is_some(),
                "{other}"
            );
            assert_eq!(connections.counts.open(), 2);
            drop(held);
            assert_eq!(connections.counts.open(), 0);
            assert!(
                connections.count(Entrance::Public, address(one)).is_some(),
                "{one}"
            );
        }
    }

    #[test]
    fn rejected_connections_leave_no_entry() {
        let connections = Connections::new(1, 1, Arc::default());
        let held = connections
            .count(Entrance::Public, address("10.0.0.1"))
            .unwrap();
        for last in 2..=255 {
            let refused = IpAddr::from([10, 0, 0, last]);
            assert!(connections.count(Entrance::Public, refused).is_none());
        }
        assert_eq!(connections.open.lock().by_place.len(), 1);
        let refused = |refusal| connections.counts.refused(refusal);
        assert_eq!(refused(ConnectionRefusal::TooMany), 254);
        assert_eq!(refused(ConnectionRefusal::TooManyOfAddress), 0);
        drop(held);
        assert!(connections.open.lock().by_place.is_empty());
    }

    #[test]
    fn the_internal_listener_has_places_that_no_client_of_the_other_one_takes() {
        let connections = Connections::new(2, 100, Arc::default());
        let count = |entrance, number: u8| connections.count(entrance, [10, 0, 0, number].into());
        let mut public: Vec<_> = (1..=2)
            .map(|number| count(Entrance::Public, number).unwrap())
            .collect();
        assert!(count(Entrance::Public, 3).is_none());
        let internal: Vec<_> = (0..INTERNAL_PLACES)
            .map(|_| count(Entrance::Internal, 1).unwrap())
            .collect();
        assert_eq!(connections.counts.open(), 2 + INTERNAL_PLACES);
        // Beyond these it shares the maximum.
        assert!(count(Entrance::Internal, 1).is_none());
        public.pop();
        let shared = count(Entrance::Internal, 1).unwrap();
        assert!(count(Entrance::Public, 3).is_none());
        drop(internal);
        assert!(count(Entrance::Public, 3).is_none());
        drop(shared);
        public.push(count(Entrance::Public, 3).unwrap());
        assert_eq!(connections.counts.open(), 2);
    }

    #[test]
    fn an_address_has_its_bound_at_each_listener_apart() {
        let connections = Connections::new(10, 1, Arc::default());
        let count = |entrance| connections.count(entrance, address("127.0.0.1"));
        let held = [Entrance::Public, Entrance::Internal].map(|entrance| count(entrance).unwrap());
        assert!(count(Entrance::Public).is_none());
        assert!(count(Entrance::Internal).is_none());
        drop(held);
        assert!(connections.open.lock().by_place.is_empty());
    }
}
