//! Forged signatures: a limit on the cost of verifying them.
//!
//! Verifying a signature costs more than sending an invalid one, so a forger could keep the server
//! from doing anything else. Only tokens that have never been verified successfully are limited
//! here; a token in the cache never waits, even on an address that is shared with a forger. For the
//! rest:
//!
//! - A connection that has sent [`FORGED_OF_CONNECTION_MAX`] forged signatures is closed after its
//!   responses.
//! - An address (IPv6: a /64) may send a burst of invalid ones, and a number per second; beyond that,
//!   its next unknown tokens wait for their turn, [`WAIT_MAX`] at most. A connection has one turn at
//!   a time: over HTTP/2, its next tokens wait for that first, [`BEHIND_OF_CONNECTION_MAX`] of them and
//!   [`BEHIND_MAX`] of all connections, and that is part of the same time. A token that is correctly
//!   signed but rejected costs as much, and counts as invalid here, though it is not forged.
//! - All addresses that sent invalid ones in the last minute share another such limit.
//!
//! Signatures are counted by their cost, so an expensive key does not evade the limit. An address that has sent no
//! invalid one never waits. A valid new token from an address that is shared with a forger (a proxy's) waits for its
//! turn once, and its charge is refunded. The response is 429 only when more tokens wait than can be verified within
//! [`WAIT_MAX`], or too many wait behind others of their connections.
//!
//! At most [`NETWORKS_MAX`] addresses are kept. While more than that send invalid ones, unknown
//! tokens of all addresses share one queue.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{MutexGuard, Notify};
use tokio::time::Instant;

use super::connections::place;
use crate::engine::limits::admission::{Admission, Permit};

/// Number of forged signatures after which a connection is closed.
pub const FORGED_OF_CONNECTION_MAX: u32 = 16;
/// Maximum time that an unknown token waits for its turn.
pub const WAIT_MAX: Duration = Duration::from_secs(5);
/// Maximum number of unknown tokens that wait behind others of their connections, over all connections.
pub const BEHIND_MAX: usize = 1_024;
/// Maximum number of unknown tokens of one connection that wait behind another one: all that it can have in flight.
pub const BEHIND_OF_CONNECTION_MAX: usize = 128;
/// Maximum number of remembered addresses that sent bad signatures.
pub const NETWORKS_MAX: usize = 4_096;

/// How long an address is remembered after its last invalid signature.
const REMEMBERED: Duration = Duration::from_secs(60);

/// A rate limit on verification cost: a burst, and a rate per second.
#[derive(Clone, Copy)]
struct Allowance {
    at_once: f64,
    per_second: f64,
}

/// The rate limit of one address. For comparison: a processor verifies some ten thousand signatures a second.
const OF_NETWORK: Allowance = Allowance {
    at_once: 256.0,
    per_second: 1_000.0,
};
/// The rate limit of all remembered addresses together.
const OF_ALL: Allowance = Allowance {
    at_once: 1_024.0,
    per_second: 3_000.0,
};

/// The verification cost that was used; it decreases with time at the allowed rate.
#[derive(Clone, Copy)]
struct Debt {
    units: f64,
    at: Instant,
}

impl Debt {
    fn none(now: Instant) -> Self {
        Self {
            units: 0.0,
            at: now,
        }
    }

    fn settle(&mut self, allowance: Allowance, now: Instant) {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.units = (self.units - passed * allowance.per_second).max(0.0);
        self.at = self.at.max(now);
    }

    /// Returns how long to wait until `units` more are within the allowance.
    fn wait(&mut self, units: f64, allowance: Allowance, now: Instant) -> Duration {
        self.settle(allowance, now);
        let beyond = (self.units + units - allowance.at_once).max(0.0);
        Duration::from_secs_f64(beyond / allowance.per_second)
    }
}

/// An address that sent bad signatures.
struct Network {
    debt: Debt,
    last_bad: Instant,
}

struct Table {
    networks: HashMap<IpAddr, Network>,
    all: Debt,
    /// When the table was last full, so that a new address was not remembered.
    overflowed: Option<Instant>,
}

/// Tracks the addresses that have sent invalid signatures.
pub struct Forgeries {
    table: Mutex<Table>,
    bad: AtomicU64,
    waited: AtomicU64,
    /// Tokens that wait behind others of their connections.
    behind: Arc<Admission>,
}

/// A connection, as the limit on forgeries sees it.
pub struct Peer {
    forgeries: Arc<Forgeries>,
    network: IpAddr,
    forged: AtomicU32,
    /// Notified when the connection is to be closed.
    closing: Notify,
    turn: tokio::sync::Mutex<()>,
    /// Tokens that wait behind another one of this connection.
    behind: Arc<Admission>,
}

/// The right to have one unknown token verified.
#[must_use]
pub struct Turn<'p> {
    peer: &'p Peer,
    units: f64,
    /// Whether the units were charged in advance.
    charged: bool,
    _alone: MutexGuard<'p, ()>,
}

/// The result of a reservation: how long to wait, and whether the units were charged in advance.
struct Reserved {
    wait: Duration,
    charged: bool,
}

impl Forgeries {
    /// Creates the limit, with no address remembered yet.
    #[must_use]
    pub fn new() -> Arc<Self> {
        let table = Table {
            networks: HashMap::new(),
            all: Debt::none(Instant::now()),
            overflowed: None,
        };
        Arc::new(Self {
            table: Mutex::new(table),
            bad: AtomicU64::new(0),
            waited: AtomicU64::new(0),
            behind: Arc::new(Admission::new(BEHIND_MAX)),
        })
    }

    /// Returns the peer of a new connection from `address`.
    #[must_use]
    pub fn peer(self: &Arc<Self>, address: IpAddr) -> Peer {
        Peer {
            forgeries: Arc::clone(self),
            network: place(address),
            forged: AtomicU32::new(0),
            closing: Notify::new(),
            turn: tokio::sync::Mutex::new(()),
            behind: Arc::new(Admission::new(BEHIND_OF_CONNECTION_MAX)),
        }
    }

    /// Number of bad signatures so far.
    #[must_use]
    pub fn bad(&self) -> u64 {
        self.bad.load(Ordering::Relaxed)
    }

    /// Number of unknown tokens that had to wait.
    #[must_use]
    pub fn waited(&self) -> u64 {
        self.waited.load(Ordering::Relaxed)
    }

    /// Reserves a turn that costs `units`; `None` if the wait would be longer than `wait_max`.
    fn reserve_within(
        &self,
        wait_max: Duration,
        network: IpAddr,
        units: f64,
        now: Instant,
    ) -> Option<Reserved> {
        let mut table = self.table.lock();
        let table = &mut *table;
        let is_recent = |at: Instant| now.saturating_duration_since(at) < REMEMBERED;
        let known = table.networks.get_mut(&network);
        let known = known.filter(|known| is_recent(known.last_bad));
        if known.is_none() && !table.overflowed.is_some_and(is_recent) {
            return Some(Reserved {
                wait: Duration::ZERO,
                charged: false,
            });
        }
        let mut wait = table.all.wait(units, OF_ALL, now);
        let mut own = None;
        if let Some(known) = known {
            wait = wait.max(known.debt.wait(units, OF_NETWORK, now));
            own = Some(&mut known.debt);
        }
        if wait > wait_max {
            return None;
        }
        table.all.units += units;
        if let Some(own) = own {
            own.units += units;
        }
        Some(Reserved {
            wait,
            charged: true,
        })
    }

    /// Refunds what a valid token was charged.
    fn give_back(&self, network: IpAddr, units: f64) {
        let mut table = self.table.lock();
        table.all.units = (table.all.units - units).max(0.0);
        if let Some(known) = table.networks.get_mut(&network) {
            known.debt.units = (known.debt.units - units).max(0.0);
        }
    }

    /// Records a bad signature, and charges its cost unless it was charged in advance.
    fn note(&self, network: IpAddr, units: f64, charged: bool, now: Instant) {
        self.bad.fetch_add(1, Ordering::Relaxed);
        let mut table = self.table.lock();
        let table = &mut *table;
        if !charged {
            table.all.settle(OF_ALL, now);
            table.all.units += units;
        }
        if let Some(known) = table.networks.get_mut(&network) {
            known.last_bad = now;
            if !charged {
                known.debt.settle(OF_NETWORK, now);
                known.debt.units += units;
            }
            return;
        }
        if table.networks.len() >= NETWORKS_MAX {
            // Expired addresses are removed once a second at most.
            let looked = table
                .overflowed
                .is_some_and(|at| now.saturating_duration_since(at) < Duration::from_secs(1));
            if !looked {
                table
                    .networks
                    .retain(|_, known| now.saturating_duration_since(known.last_bad) < REMEMBERED);
            }
            if table.networks.len() >= NETWORKS_MAX {
                if !looked {
                    table.overflowed = Some(now);
                }
                return;
            }
        }
        let debt = Debt { units, at: now };
        let last_bad = now;
        table.networks.insert(network, Network { debt, last_bad });
    }
}

impl Peer {
    /// Waits for the turn of an unknown token that costs `units`; `None` if the wait would be too long, or too many
    /// wait already.
    pub async fn turn(&self, units: u32) -> Option<Turn<'_>> {
        let until = Instant::now() + WAIT_MAX;
        let alone = match self.turn.try_lock() {
            Ok(alone) => alone,
            Err(_) => self.turn_behind_others(until).await?,
        };
        let units = f64::from(units);
        let now = Instant::now();
        let left = until.saturating_duration_since(now);
        let reserved = self
            .forgeries
            .reserve_within(left, self.network, units, now)?;
        let turn = Turn {
            peer: self,
            units,
            charged: reserved.charged,
            _alone: alone,
        };
        if !reserved.wait.is_zero() {
            self.forgeries.waited.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(reserved.wait).await;
        }
        Some(turn)
    }

    /// Waits until the turns of this connection's earlier tokens are over; `None` if that takes longer than until
    /// `until`, or too many wait already.
    async fn turn_behind_others(&self, until: Instant) -> Option<MutexGuard<'_, ()>> {
        let _waits: [Permit; 2] = [
            Admission::admit(&self.behind, 1)?,
            Admission::admit(&self.forgeries.behind, 1)?,
        ];
        tokio::time::timeout_at(until, self.turn.lock()).await.ok()
    }

    /// Whether the connection is to be closed.
    #[must_use]
    pub fn is_to_go(&self) -> bool {
        self.forged.load(Ordering::Relaxed) >= FORGED_OF_CONNECTION_MAX
    }

    /// Waits until the connection is to be closed.
    pub async fn until_closing(&self) {
        self.closing.notified().await;
    }
}

impl Turn<'_> {
    /// Reports that the token is valid, which refunds its charge.
    pub fn was_good(self) {
        if self.charged {
            let forgeries = &self.peer.forgeries;
            forgeries.give_back(self.peer.network, self.units);
        }
    }

    /// Reports that the token was rejected after its signature was checked, because the signature was forged or for
    /// another reason.
    pub fn was_bad(self, forged: bool) {
        let forged = u32::from(forged);
        let before = self.peer.forged.fetch_add(forged, Ordering::Relaxed);
        if before + forged == FORGED_OF_CONNECTION_MAX {
            // The notification is stored, so that a later waiter receives it.
            self.peer.closing.notify_one();
        }
        let forgeries = &self.peer.forgeries;
        forgeries.note(self.peer.network, self.units, self.charged, Instant::now());
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::task::Poll;

    use super::*;

    impl Forgeries {
        fn reserve(&self, network: IpAddr, units: f64, now: Instant) -> Option<Reserved> {
            self.reserve_within(WAIT_MAX, network, units, now)
        }
    }

    /// Whether the future has to wait.
    async fn waits<F: Future + Unpin>(future: &mut F) -> bool {
        let mut future = std::pin::Pin::new(future);
        std::future::poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_pending()))
            .await
    }

    fn v4(number: u32) -> IpAddr {
        std::net::Ipv4Addr::from_bits(number).into()
    }

    /// Returns the verification cost when all of `networks` do nothing but send bad tokens for ten seconds, each on
    /// `connections` connections.
    fn flood(forgeries: &Forgeries, networks: u32, connections: u32, units: f64) -> f64 {
        let start = Instant::now();
        let mut cost = 0.0;
        let mut waiting: Vec<_> = (0..networks)
            .flat_map(|network| (0..connections).map(move |_| (start, network, None)))
            .collect();
        for millis in 0..10_000 {
            let now = start + Duration::from_millis(millis);
            for (until, number, held) in &mut waiting {
                if now < *until {
                    continue;
                }
                if let Some(charged) = held.take() {
                    cost += units;
                    forgeries.note(v4(*number), units, charged, now);
                }
                match forgeries.reserve(v4(*number), units, now) {
                    Some(reserved) => {
                        *until = now + reserved.wait;
                        *held = Some(reserved.charged);
                    }
                    None => *until = now + Duration::from_millis(20),
                }
            }
        }
        cost
    }

    #[tokio::test]
    async fn a_flooding_address_has_bounded_verification_on_any_connections_or_key() {
        let most = OF_NETWORK.at_once + 10.0 * OF_NETWORK.per_second;
        for (connections, units) in [(2, 1.0), (200, 1.0), (200, 4.0)] {
            let forgeries = Forgeries::new();
            let cost = flood(&forgeries, 1, connections, units);
            // The first tokens of each connection may all be verified at the same time.
            let under_way = f64::from(connections) * units;
            assert!(cost <= most + 2.0 * under_way, "{cost} of {most}");
            assert!(cost >= most / 2.0, "and no less than its share: {cost}");
        }
    }

    #[tokio::test]
    async fn verification_for_many_addresses_is_bounded_and_a_clean_one_never_waits() {
        let forgeries = Forgeries::new();
        let cost = flood(&forgeries, 50, 4, 1.0);
        let most = OF_ALL.at_once + 10.0 * OF_ALL.per_second;
        assert!(cost <= most + 2.0 * 200.0, "{cost} of {most}");
        let clean = forgeries.reserve(v4(1 << 30), 1.0, Instant::now());
        assert!(clean.unwrap().wait.is_zero());
    }

    #[tokio::test]
    async fn a_good_token_is_given_back_what_it_took() {
        let forgeries = Forgeries::new();
        let now = Instant::now();
        forgeries.note(v4(1), 1.0, false, now);
        // Far more than the allowance, all valid.
        for _ in 0..10_000 {
            let reserved = forgeries.reserve(v4(1), 1.0, now).unwrap();
            assert!(reserved.wait.is_zero() && reserved.charged);
            forgeries.give_back(v4(1), 1.0);
        }
    }

    #[tokio::test]
    async fn each_turn_puts_the_next_one_off_and_one_that_is_too_far_off_is_none() {
        let now = Instant::now();
        let wait = |forgeries: &Forgeries, address, units| {
            let reserved = forgeries.reserve(address, units, now)?;
            Some(reserved.wait.as_secs_f64())
        };
        let forgeries = Forgeries::new();
        forgeries.note(v4(1), OF_NETWORK.at_once, false, now);
        for unit in 1..=3 {
            let expected = f64::from(unit) / OF_NETWORK.per_second;
            assert_eq!(wait(&forgeries, v4(1), 1.0), Some(expected));
        }
        let forgeries = Forgeries::new();
        let longest = WAIT_MAX.as_secs_f64();
        let most = OF_NETWORK.at_once + longest * OF_NETWORK.per_second;
        forgeries.note(v4(1), most - 1.0, false, now);
        assert_eq!(wait(&forgeries, v4(1), 2.0), None);
        assert_eq!(wait(&forgeries, v4(1), 1.0), Some(longest));
        assert_eq!(wait(&forgeries, v4(1), 1.0), None);
        // The cost comes from several addresses, none of which has cost much.
        let forgeries = Forgeries::new();
        for address in 1..=8 {
            forgeries.note(v4(address), OF_ALL.at_once / 8.0, false, now);
        }
        for unit in 1..=3 {
            let expected = f64::from(unit) / OF_ALL.per_second;
            let waited = wait(&forgeries, v4(unit), 1.0).unwrap();
            assert!((waited - expected).abs() < 1e-6, "{waited}");
        }
    }

    #[tokio::test]
    async fn waiting_requests_are_counted_and_good_tokens_delay_nobody() {
        let forgeries = Forgeries::new();
        let peer = forgeries.peer(v4(1));
        peer.turn(1).await.unwrap().was_bad(false);
        for _ in 0..10_000 {
            peer.turn(1).await.unwrap().was_good();
        }
        assert_eq!(forgeries.waited(), 0);
        let seconds = 3.0 * OF_NETWORK.per_second;
        forgeries.note(v4(1), OF_NETWORK.at_once + seconds, false, Instant::now());
        for waited in 1..=2 {
            let turn = tokio::time::timeout(Duration::ZERO, peer.turn(1));
            assert!(turn.await.is_err(), "it is not at once");
            assert_eq!(forgeries.waited(), waited);
        }
    }

    #[tokio::test]
    async fn an_address_is_forgiven_after_a_while_and_a_network_of_ipv6_is_one() {
        let forgeries = Forgeries::new();
        let now = Instant::now();
        let address = |text: &str| place(text.parse().unwrap());
        let one = address("2001:db8:1:2::1");
        assert_eq!(one, address("2001:db8:1:2:ffff::9"));
        assert_ne!(one, address("2001:db8:1:3::1"));
        assert_eq!(address("::ffff:10.0.0.1"), address("10.0.0.1"));
        for _ in 0..10_000 {
            forgeries.note(one, 1.0, false, now);
        }
        assert!(forgeries.reserve(one, 1.0, now).is_none(), "too far off");
        let soon = now + Duration::from_secs(8);
        assert!(!forgeries.reserve(one, 1.0, soon).unwrap().wait.is_zero());
        let later = now + REMEMBERED;
        let reserved = forgeries.reserve(one, 1.0, later).unwrap();
        assert!(reserved.wait.is_zero() && !reserved.charged);
    }

    #[tokio::test]
    async fn addresses_are_kept_up_to_a_bound_and_beyond_it_all_share_a_turn() {
        let forgeries = Forgeries::new();
        let now = Instant::now();
        let kept = u32::try_from(NETWORKS_MAX).unwrap();
        for number in 0..kept {
            forgeries.note(v4(number), 1.0, false, now);
        }
        let other = v4(kept);
        assert!(!forgeries.reserve(other, 1.0, now).unwrap().charged);
        forgeries.note(other, 1.0, false, now);
        assert_eq!(forgeries.table.lock().networks.len(), NETWORKS_MAX);
        let soon = now + Duration::from_secs(1);
        assert!(forgeries.reserve(other, 1.0, soon).unwrap().charged);
        // When the other addresses are forgotten, a new one can be remembered again.
        let later = now + REMEMBERED;
        assert!(!forgeries.reserve(other, 1.0, later).unwrap().charged);
        forgeries.note(other, 1.0, false, later);
        assert_eq!(forgeries.table.lock().networks.len(), 1);
    }

    #[tokio::test]
    async fn a_connection_is_to_go_after_some_bad_ones_and_has_one_turn_at_a_time() {
        let forgeries = Forgeries::new();
        let peer = forgeries.peer(v4(7));
        for forged in 0..FORGED_OF_CONNECTION_MAX {
            assert!(!peer.is_to_go(), "after {forged}");
            peer.turn(1).await.unwrap().was_good();
            peer.turn(1).await.unwrap().was_bad(false);
            peer.turn(1).await.unwrap().was_bad(true);
        }
        assert!(peer.is_to_go());
        assert_eq!(forgeries.bad(), 2 * u64::from(FORGED_OF_CONNECTION_MAX));
        peer.until_closing().await;
        let first = peer.turn(1).await.unwrap();
        let mut second = Box::pin(peer.turn(1));
        assert!(waits(&mut second).await);
        first.was_good();
        assert!(second.await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_queued_behind_its_connection_waits_no_longer_than_one_alone() {
        let forgeries = Forgeries::new();
        let peer = forgeries.peer(v4(1));
        let first = peer.turn(1).await.unwrap();
        let begun = Instant::now();
        assert!(peer.turn(1).await.is_none());
        assert_eq!(begun.elapsed(), WAIT_MAX);
        // The time behind the first one is part of it.
        let begun = Instant::now();
        let mut second = Box::pin(peer.turn(1));
        assert!(waits(&mut second).await);
        let second_before_the_end = WAIT_MAX - Duration::from_secs(1);
        tokio::time::sleep(second_before_the_end).await;
        let seconds = 2.0 * OF_NETWORK.per_second;
        forgeries.note(v4(1), OF_NETWORK.at_once + seconds, false, Instant::now());
        first.was_good();
        assert!(second.await.is_none(), "its turn is two seconds off");
        assert_eq!(begun.elapsed(), second_before_the_end);
        assert!(peer.turn(1).await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn token_queues_are_bounded_per_connection_and_overall_and_refuse_at_once() {
        let forgeries = Forgeries::new();
        let connections = BEHIND_MAX / BEHIND_OF_CONNECTION_MAX;
        let peers: Vec<_> = (0..=connections).map(|_| forgeries.peer(v4(1))).collect();
        let (last, peers) = peers.split_last().unwrap();
        let begun = Instant::now();
        let mut turns = Vec::new();
        let mut waiting = Vec::new();
        for peer in peers {
            turns.push(peer.turn(1).await.unwrap());
            for _ in 0..BEHIND_OF_CONNECTION_MAX {
                let mut turn = Box::pin(peer.turn(1));
                assert!(waits(&mut turn).await);
                waiting.push(turn);
            }
            assert!(peer.turn(1).await.is_none());
        }
        // Who waits behind nobody is not among them.
        let _turn = last.turn(1).await.unwrap();
        assert!(last.turn(1).await.is_none());
        assert_eq!(begun.elapsed(), Duration::ZERO);
        // One that is gone makes room for another one.
        waiting.pop();
        let mut turn = Box::pin(last.turn(1));
        assert!(waits(&mut turn).await);
    }
}
