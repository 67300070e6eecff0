//! A memory budget for the requests of HTTP/2 that are in flight: their heads, their tasks and streams, and the small
//! responses that wait to be taken. Over HTTP/1 a connection has one request at a time, so the number of connections
//! bounds all that; over HTTP/2 each connection may have a hundred.
//!
//! A request is charged when its head has come, before it waits for anything, until the last byte of its response is
//! taken, or until it ends otherwise: the charge is dropped with what it was made for. Where there is no room, one
//! request of each connection goes on all the same, as one of HTTP/1 does: however much others take, nobody is kept
//! from being served. Any other one is refused. A part of the budget is kept for such refusals, since they wait to be
//! taken, too; when that is used up, a stream is reset instead, which holds nothing. A stream of events may stay open
//! for ever, so it has a budget of its own, and leaves that of the requests when it begins.
//!
//! An address (IPv6: a /64) may use a quarter of each budget, and only little while half of it is used, so that a few
//! addresses do not keep others from being served.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use hyper::Request;
use parking_lot::Mutex;

use super::connections::{ConnectionCounts, place};
use crate::engine::limits::admission::{Admission, Permit};

/// Capacity of the budget for requests, in bytes.
const IN_FLIGHT_BYTES_MAX: usize = 256 << 20;
/// Capacity of the budget for streams of events, in bytes.
const STREAMS_BYTES_MAX: usize = 128 << 20;
/// One address may use so much of each budget: a quarter.
const ADDRESSES: usize = 4;
/// Bytes of requests that an address may hold while half of the budget is used.
const OWN_BYTES: usize = 4 << 20;
/// So much of the budget for requests, and of an address's part of it, is kept for refusals: a sixteenth.
const REFUSALS: usize = 16;
/// What a request takes besides its head: its task, and its stream in the library.
const REQUEST_BYTES: usize = 8 << 10;
/// What the library takes for a byte of a head: a field keeps the buffer that it has come in, and those grow by
/// doubling.
const PER_HEAD_BYTE: usize = 3;
/// What a field takes besides its bytes, as HTTP/2 counts it (RFC 9113 6.5.2).
const FIELD_BYTES: usize = 32;
/// What a stream of events takes: what a request does, and a task that follows the events.
const STREAM_BYTES: usize = 16 << 10;

/// The budgets that all connections of HTTP/2 share.
#[derive(Clone)]
pub struct RequestRoom(Arc<Budget>);

struct Budget {
    requests: Arc<Admission>,
    streams: Arc<Admission>,
    /// The parts of the addresses that have connections.
    addresses: Mutex<HashMap<IpAddr, Own>>,
    /// Counts the streams that are to be reset.
    counts: Arc<ConnectionCounts>,
}

/// The part of one address.
struct Own {
    connections: usize,
    requests: Arc<Admission>,
    streams: Arc<Admission>,
}

/// The budgets as one connection sees them.
pub struct RequestRoomOf {
    budget: Arc<Budget>,
    address: IpAddr,
    requests: Arc<Admission>,
    streams: Arc<Admission>,
    /// The one request that needs no room.
    roomless: Arc<Admission>,
}

/// What a request or a stream takes; dropping it gives that back.
#[must_use]
pub struct Charge {
    own: Permit,
    all: Permit,
    /// Whether it is the one of its connection that needed no room.
    roomless: Option<Permit>,
    /// Keeps the address's part known for as long as something is charged to it.
    _of: Arc<RequestRoomOf>,
}

/// How a request begins.
pub enum Begun {
    /// It is charged, and may be handled.
    Admitted(Charge),
    /// There is no room for it; its refusal is charged.
    Refused(Charge),
    /// There is no room for a refusal either: its stream is to be reset.
    Reset,
}

impl Default for RequestRoom {
    fn default() -> Self {
        Self::new(Arc::default())
    }
}

impl RequestRoom {
    /// Creates budgets of which nothing is used; streams that have to be reset are counted among `counts`.
    #[must_use]
    pub fn new(counts: Arc<ConnectionCounts>) -> Self {
        Self(Arc::new(Budget {
            requests: Arc::new(Admission::new(IN_FLIGHT_BYTES_MAX)),
            streams: Arc::new(Admission::new(STREAMS_BYTES_MAX)),
            addresses: Mutex::default(),
            counts,
        }))
    }

    /// Returns the budgets for a connection from `address`.
    #[must_use]
    pub fn of_connection(&self, address: IpAddr) -> Arc<RequestRoomOf> {
        let address = place(address);
        let mut addresses = self.0.addresses.lock();
        let own = addresses.entry(address).or_insert_with(|| Own {
            connections: 0,
            requests: Arc::new(Admission::new(self.0.requests.max() / ADDRESSES)),
            streams: Arc::new(Admission::new(self.0.streams.max() / ADDRESSES)),
        });
        own.connections += 1;
        Arc::new(RequestRoomOf {
            budget: Arc::clone(&self.0),
            address,
            requests: Arc::clone(&own.requests),
            streams: Arc::clone(&own.streams),
            roomless: Arc::new(Admission::new(1)),
        })
    }
}

impl RequestRoomOf {
    /// Charges a request whose head has so many bytes, or its refusal.
    #[must_use]
    pub fn begin(self: &Arc<Self>, head_bytes: usize) -> Begun {
        let all = &self.budget.requests;
        let bytes = REQUEST_BYTES + PER_HEAD_BYTE * head_bytes;
        let left = match self.requests.in_flight() + bytes <= OWN_BYTES {
            true => all.max() / REFUSALS,
            false => all.max() / 2,
        };
        let mut charge = Charge::none(self, &self.requests, all);
        if charge.grow(bytes, self.requests.max() / REFUSALS, left) {
            return Begun::Admitted(charge);
        }
        charge.roomless = Admission::admit(&self.roomless, 1);
        if charge.roomless.is_some() {
            return Begun::Admitted(charge);
        }
        if charge.grow(REQUEST_BYTES, 0, 0) {
            return Begun::Refused(charge);
        }
        self.budget.counts.reset_stream();
        Begun::Reset
    }

    /// Charges a stream of events; `None` while there is no room for one more.
    #[must_use]
    pub fn stream(self: &Arc<Self>) -> Option<Charge> {
        let mut charge = Charge::none(self, &self.streams, &self.budget.streams);
        charge.grow(STREAM_BYTES, 0, 0).then_some(charge)
    }
}

impl Drop for RequestRoomOf {
    fn drop(&mut self) {
        let mut addresses = self.budget.addresses.lock();
        if let Some(own) = addresses.get_mut(&self.address) {
            own.connections -= 1;
            if own.connections == 0 {
                addresses.remove(&self.address);
            }
        }
    }
}

impl Charge {
    fn none(of: &Arc<RequestRoomOf>, own: &Arc<Admission>, all: &Arc<Admission>) -> Self {
        Self {
            own: Permit::none(own),
            all: Permit::none(all),
            roomless: None,
            _of: Arc::clone(of),
        }
    }

    /// Grows by `bytes` if so much stays free of the address's part and of all; otherwise changes nothing. Returns
    /// whether it has grown.
    fn grow(&mut self, bytes: usize, left_of_own: usize, left_of_all: usize) -> bool {
        let before = self.own.amount();
        if !self.own.grow(bytes, left_of_own) {
            return false;
        }
        let grown = self.all.grow(bytes, left_of_all);
        if !grown {
            self.own.shrink_to(before);
        }
        grown
    }

    /// Notes that the head is gone, and that a response of which `bytes` bytes have no other budget waits to be taken.
    /// It exists already, so it takes what is left where that is less.
    pub fn answered(&mut self, bytes: usize) {
        let amount = REQUEST_BYTES + bytes;
        for permit in [&mut self.own, &mut self.all] {
            permit.shrink_to(amount);
            permit.grow_up_to(amount - permit.amount());
        }
    }
}

/// Returns the bytes of a request's head, with what its fields take besides.
#[must_use]
pub fn head_bytes<B>(request: &Request<B>) -> usize {
    let fields = request.headers().iter();
    let fields = fields.map(|(name, value)| name.as_str().len() + value.len() + FIELD_BYTES);
    let target = request.uri().path_and_query();
    let target = target.map_or(0, |target| target.as_str().len());
    let authority = request.uri().authority();
    let authority = authority.map_or(0, |authority| authority.as_str().len());
    fields.sum::<usize>() + request.method().as_str().len() + authority + target
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn address(number: u32) -> IpAddr {
        std::net::Ipv4Addr::from_bits(number).into()
    }

    #[test]
    fn each_part_of_a_head_is_charged() {
        let request = || {
            Request::builder()
                .method("POST")
                .uri("https://localhost/events")
        };
        let small = head_bytes(&request().body(()).unwrap());
        let field = head_bytes(&request().header("x", "12345").body(()).unwrap());
        assert_eq!(field, small + 1 + 5 + FIELD_BYTES);
        let uri = "https://localhost.example/events?after=1-0";
        let target = head_bytes(&request().uri(uri).body(()).unwrap());
        assert_eq!(target, small + ".example".len() + "?after=1-0".len());
        let method = head_bytes(&request().method("POSTED").body(()).unwrap());
        assert_eq!(method, small + 2);
    }

    /// Begins requests with heads of so many bytes until there is no room for one more; returns them.
    fn fill(of: &Arc<RequestRoomOf>, head_bytes: usize) -> Vec<Charge> {
        let mut charges = Vec::new();
        while let Begun::Admitted(charge) = of.begin(head_bytes) {
            charges.push(charge);
        }
        charges
    }

    #[test]
    fn an_address_gets_a_quarter_on_any_connections_and_another_is_served() {
        let room = RequestRoom::default();
        let all = &room.0.requests;
        let connections = [(); 2].map(|()| room.of_connection(address(1)));
        let charges: Vec<_> = connections
            .iter()
            .flat_map(|of| fill(of, 12 << 10))
            .collect();
        let most = IN_FLIGHT_BYTES_MAX / ADDRESSES;
        assert!(all.in_flight() <= most - most / REFUSALS);
        assert!(all.in_flight() > most - most / REFUSALS - (44 << 10));
        let roomless = connections.len();
        assert_eq!(all.in_flight(), (charges.len() - roomless) * (44 << 10));
        let other = room.of_connection(address(2));
        assert!(matches!(other.begin(12 << 10), Begun::Admitted(_)));
        // A response, a reset and the end of a connection alike drop what was charged.
        drop(charges);
        assert_eq!(all.in_flight(), 0);
        assert!(matches!(connections[0].begin(12 << 10), Begun::Admitted(_)));
    }

    #[test]
    fn unread_refusals_are_bounded_and_beyond_the_bound_streams_are_reset() {
        let counts = Arc::<ConnectionCounts>::default();
        let room = RequestRoom::new(Arc::clone(&counts));
        let of = room.of_connection(address(1));
        let charges = fill(&of, 100);
        let mut refusals = Vec::new();
        while let Begun::Refused(charge) = of.begin(100) {
            refusals.push(charge);
        }
        let most = IN_FLIGHT_BYTES_MAX / ADDRESSES;
        assert!(refusals.len() >= most / REFUSALS / REQUEST_BYTES);
        assert!(room.0.requests.in_flight() <= most);
        assert!(matches!(of.begin(100), Begun::Reset));
        assert_eq!(
            counts.streams_reset(),
            2,
            "and the one that ended the refusals"
        );
        // One that is taken makes room for another one.
        refusals.pop();
        assert!(matches!(of.begin(100), Begun::Refused(_)));
        drop((charges, refusals));
        assert_eq!(room.0.requests.in_flight(), 0);
    }

    #[test]
    fn while_half_is_used_an_address_gets_little_and_others_get_the_rest() {
        let room = RequestRoom::default();
        let mut held = Vec::new();
        for number in 1..=4 {
            held.extend(fill(&room.of_connection(address(number)), 12 << 10));
        }
        let all = &room.0.requests;
        assert!(all.free() >= IN_FLIGHT_BYTES_MAX / 2 - 2 * OWN_BYTES);
        for number in 5..=8 {
            let before = all.in_flight();
            held.extend(fill(&room.of_connection(address(number)), 12 << 10));
            let own = all.in_flight() - before;
            assert!(own <= OWN_BYTES && own > OWN_BYTES - (44 << 10), "{own}");
        }
    }

    #[test]
    fn a_connection_has_one_request_at_a_time_however_much_others_take() {
        let room = RequestRoom::default();
        let mut held = fill(&room.of_connection(address(1)), 12 << 10);
        let before = room.0.requests.in_flight();
        for _ in 0..100 {
            let of = room.of_connection(address(1));
            let Begun::Admitted(charge) = of.begin(12 << 10) else {
                panic!("it is the only one of its connection");
            };
            assert!(matches!(of.begin(12 << 10), Begun::Refused(_)));
            drop(charge);
            let Begun::Admitted(charge) = of.begin(12 << 10) else {
                panic!("it is the only one again");
            };
            held.push(charge);
        }
        assert_eq!(room.0.requests.in_flight(), before);
    }

    #[test]
    fn once_its_head_is_gone_a_request_takes_what_its_small_response_does() {
        let room = RequestRoom::default();
        let of = room.of_connection(address(1));
        let Begun::Admitted(mut charge) = of.begin(12 << 10) else {
            panic!("there is room");
        };
        for (bytes, taken) in [(0, 8 << 10), (5 << 10, 13 << 10), (1 << 10, 9 << 10)] {
            charge.answered(bytes);
            assert_eq!(of.requests.in_flight(), taken);
            assert_eq!(room.0.requests.in_flight(), taken);
        }
        drop(charge);
        assert_eq!(room.0.requests.in_flight(), 0);
    }

    #[test]
    fn open_event_streams_take_nothing_from_requests_and_are_bounded() {
        let room = RequestRoom::default();
        let of = room.of_connection(address(1));
        let mut streams: Vec<_> = std::iter::from_fn(|| of.stream()).collect();
        assert_eq!(streams.len(), STREAMS_BYTES_MAX / ADDRESSES / STREAM_BYTES);
        assert_eq!(room.0.requests.in_flight(), 0);
        assert!(matches!(of.begin(100), Begun::Admitted(_)));
        assert!(room.of_connection(address(2)).stream().is_some());
        streams.pop();
        assert!(of.stream().is_some());
    }

    #[test]
    fn an_address_is_known_while_it_has_a_connection_or_a_charge() {
        let room = RequestRoom::default();
        let known = || room.0.addresses.lock().len();
        let one = room.of_connection("2001:db8::1".parse().unwrap());
        let same = room.of_connection("2001:db8::ffff:0:0:1".parse().unwrap());
        assert_eq!(known(), 1);
        let charge = one.stream().unwrap();
        drop((one, same));
        assert_eq!(known(), 1);
        drop(charge);
        assert_eq!(known(), 0);
    }
}
