//! Reads a body as it arrives, and charges it to the budget of bodies in flight.

use std::error::Error;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Body;
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap};
use tokio::time::{MissedTickBehavior, interval_at};
use tokio_rustls::rustls::Error as TlsError;

use crate::engine::limits::admission::{Admission, Permit};
use crate::http::limits::pace::Pace;

/// Maximum size of a command's body, in bytes.
pub const BODY_BYTES_MAX: usize = 1 << 20;
/// Maximum bytes of bodies in flight; beyond that, requests are rejected.
pub const BODIES_BYTES_MAX: usize = 256 << 20;
/// Part of [`BODIES_BYTES_MAX`] that is kept for bodies that have arrived completely: an arriving body grows only
/// while at least as much stays free.
pub const AT_ONCE_BYTES: usize = 64 << 20;
/// An arriving body that holds at most this many bytes may use half of the part that is kept for complete bodies.
const SMALL_BYTES_MAX: usize = 16 << 10;
/// Minimum capacity of the buffer for a body that comes in pieces, in bytes.
const PIECE_BYTES_MIN: usize = 1_024;

/// Why a body was not read.
#[derive(Debug, PartialEq, Eq)]
pub enum BodyError {
    /// Too many bytes of bodies are in flight.
    Overloaded,
    /// The body is too large.
    TooLarge,
    /// The body did not arrive in time, or broke off.
    Broken,
    /// The chunks or the trailers of the body are malformed, or exceed their limits.
    Malformed,
    /// The service stops, and the body has not arrived yet.
    Stopping,
}

impl BodyError {
    /// Returns why a body with this error was not read. hyper reports chunks and trailers that it rejects as an I/O
    /// error of one of two kinds, and so does a connection that rejects chunks itself
    /// ([`Ended`](crate::http::connection::framing::Ended)). A damaged record of TLS has one of these kinds, too. Over
    /// HTTP/2 a stream with such a fault is reset, and no response to it can be sent.
    #[must_use]
    pub fn of<E>(error: E) -> Self
    where
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let error = error.into();
        let mut next: Option<&(dyn Error + 'static)> = Some(&*error);
        while let Some(error) = next {
            if let Some(error) = error.downcast_ref::<io::Error>() {
                let is_of_tls = error.get_ref().is_some_and(|inner| inner.is::<TlsError>());
                return match error.kind() {
                    io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput if !is_of_tls => {
                        Self::Malformed
                    }
                    _ => Self::Broken,
                };
            }
            next = error.source();
        }
        Self::Broken
    }
}

/// Creates the budget for the bodies of a service.
#[must_use]
pub fn bodies_budget() -> Arc<Admission> {
    Arc::new(Admission::new(BODIES_BYTES_MAX))
}

/// Whether the body is of the media type `expected`, with or without parameters.
#[must_use]
pub fn is_media_type(headers: &HeaderMap, expected: &str) -> bool {
    let mut values = headers.get_all(CONTENT_TYPE).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return false;
    };
    let Ok(value) = value.to_str() else {
        return false;
    };
    let essence = value.split(';').next().unwrap_or_default();
    essence.trim().eq_ignore_ascii_case(expected)
}

/// Reads the whole body, if it has at most [`BODY_BYTES_MAX`] bytes. Returns it with its share of `budget`, the bytes
/// of bodies that may be in flight.
///
/// # Errors
/// When the body is too large, is slower than `pace`, breaks off, is malformed, would hold more than it may, or is
/// incomplete at the end of `stop`.
pub async fn whole_body<B, S>(
    headers: &HeaderMap,
    body: B,
    budget: &Arc<Admission>,
    pace: Pace,
    stop: impl FnOnce() -> S,
) -> Result<(Bytes, Permit), BodyError>
where
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>>,
    S: Future<Output = ()>,
{
    let announced = headers
        .get(CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok());
    let announced: Option<usize> = announced.and_then(|length| length.parse().ok());
    if announced.is_some_and(|length| length > BODY_BYTES_MAX) {
        return Err(BodyError::TooLarge);
    }
    let mut body = pin!(body);
    let mut arriving = Arriving {
        only: Bytes::new(),
        pieces: Vec::new(),
        ceiling: announced.unwrap_or(BODY_BYTES_MAX).max(1),
        share: Permit::none(budget),
        waited: false,
    };
    if let Some(whole) = at_once(arriving.take_all(body.as_mut())).await {
        whole?;
        return Ok(arriving.whole());
    }
    // From here on a timer is needed, which costs a system call.
    arriving.wait()?;
    // Boxed, because most bodies do not come here: otherwise every request's future would reserve memory for it.
    Box::pin(until_whole(arriving, body, pace, stop())).await
}

/// Reads the rest of a body that is still arriving.
async fn until_whole<B>(
    mut arriving: Arriving,
    mut body: Pin<&mut B>,
    pace: Pace,
    stop: impl Future<Output = ()>,
) -> Result<(Bytes, Permit), BodyError>
where
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>>,
{
    let mut stop = pin!(stop);
    let budget = Arc::clone(arriving.share.admission());
    let begin = tokio::time::Instant::now() + pace.tick;
    let mut ticks = interval_at(begin, pace.tick);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut held, mut silent) = (arriving.len(), 0);
    for _ in 0..pace.ticks_max {
        tokio::select! {
            biased;
            whole = arriving.take_all(body.as_mut()) => {
                whole?;
                return Ok(arriving.whole());
            }
            () = &mut stop => return Err(BodyError::Stopping),
            _ = ticks.tick() => {}
        }
        let came = arriving.len() - held;
        held = arriving.len();
        silent = if came == 0 { silent + 1 } else { 0 };
        let free = budget.free();
        let slow = held > pace.tick_bytes && came < pace.tick_bytes;
        if silent == pace.silent_max
            || (slow && free < budget.max() / 2)
            || (came == 0 && free < kept_for_at_once(&budget))
        {
            return Err(BodyError::Broken);
        }
    }
    Err(BodyError::Broken)
}

/// Returns how much of a budget is kept for bodies that have arrived completely.
fn kept_for_at_once(budget: &Admission) -> usize {
    AT_ONCE_BYTES.min(budget.max() / 4)
}

/// The part of a body that has arrived.
struct Arriving {
    /// The body, as long as it is a single chunk that was not waited for.
    only: Bytes,
    /// Copy of the received bytes otherwise: a chunk may keep its connection's whole buffer alive.
    pieces: Vec<u8>,
    /// Maximum size of the buffer, in bytes.
    ceiling: usize,
    share: Permit,
    /// Whether the body had to be waited for.
    waited: bool,
}

impl Arriving {
    fn len(&self) -> usize {
        self.only.len() + self.pieces.len()
    }

    /// Reads all chunks until the end. The received bytes stay in `self` when the future is dropped.
    async fn take_all<B>(&mut self, mut body: Pin<&mut B>) -> Result<(), BodyError>
    where
        B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>>,
    {
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(BodyError::of)?;
            if let Ok(chunk) = frame.into_data() {
                self.take(chunk)?;
            }
        }
        Ok(())
    }

    fn take(&mut self, chunk: Bytes) -> Result<(), BodyError> {
        let length = self.len() + chunk.len();
        if length > BODY_BYTES_MAX {
            return Err(BodyError::TooLarge);
        }
        if self.len() == 0 && !self.waited {
            self.charge(chunk.len())?;
            self.only = chunk;
            return Ok(());
        }
        self.keep()?;
        self.make_room(length)?;
        self.pieces.extend_from_slice(&chunk);
        Ok(())
    }

    /// Notes that the body is waited for, and copies the received bytes.
    fn wait(&mut self) -> Result<(), BodyError> {
        self.waited = true;
        self.keep()
    }

    fn keep(&mut self) -> Result<(), BodyError> {
        if !self.only.is_empty() {
            let only = std::mem::take(&mut self.only);
            self.make_room(only.len())?;
            self.pieces.extend_from_slice(&only);
        }
        Ok(())
    }

    /// Reserves and charges a capacity of `length` bytes; of twice the old capacity if that is more.
    fn make_room(&mut self, length: usize) -> Result<(), BodyError> {
        let room = self.pieces.capacity();
        if length <= room {
            return Ok(());
        }
        let twice = (2 * room).max(PIECE_BYTES_MIN).min(self.ceiling);
        let wanted = length.max(twice);
        self.charge(wanted.saturating_sub(self.share.amount()))?;
        self.pieces.reserve_exact(wanted - self.pieces.len());
        Ok(())
    }

    fn charge(&mut self, bytes: usize) -> Result<(), BodyError> {
        let held = self.share.amount() + bytes;
        let kept = kept_for_at_once(self.share.admission());
        let left = match self.waited {
            false => 0,
            true if held <= SMALL_BYTES_MAX => kept / 2,
            true => kept + held,
        };
        if bytes == 0 || self.share.grow(bytes, left) {
            Ok(())
        } else {
            Err(BodyError::Overloaded)
        }
    }

    fn whole(self) -> (Bytes, Permit) {
        let body = if self.pieces.is_empty() {
            self.only
        } else {
            self.pieces.into()
        };
        (body, self.share)
    }
}

/// Returns the result of the future if it is ready at the first or the second poll: most bodies arrive with their
/// heads.
async fn at_once<F: Future>(future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut looked = false;
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending if looked => Poll::Ready(None),
        Poll::Pending => {
            looked = true;
            context.waker().wake_by_ref();
            Poll::Pending
        }
    })
    .await
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::future::pending;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;

    /// A body of which each poll gives the next step of a test: bytes, or `None` for pending.
    struct Slow {
        steps: std::collections::VecDeque<Option<Bytes>>,
        /// Whether the body ends after its steps; if not, it stays pending.
        ends: bool,
        /// Number of polls.
        looks: Arc<AtomicUsize>,
    }

    impl Slow {
        fn of(steps: impl IntoIterator<Item = Option<Bytes>>, ends: bool) -> Self {
            Self {
                steps: steps.into_iter().collect(),
                ends,
                looks: Arc::default(),
            }
        }
    }

    impl Body for Slow {
        type Data = Bytes;
        type Error = std::io::Error;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            context: &mut std::task::Context<'_>,
        ) -> Poll<Option<Result<hyper::body::Frame<Bytes>, std::io::Error>>> {
            self.looks.fetch_add(1, Ordering::Relaxed);
            match self.steps.pop_front() {
                Some(Some(chunk)) => Poll::Ready(Some(Ok(hyper::body::Frame::data(chunk)))),
                Some(None) => {
                    context.waker().wake_by_ref();
                    Poll::Pending
                }
                None if self.ends => Poll::Ready(None),
                None => Poll::Pending,
            }
        }
    }

    /// A pace that waits for every body that still comes; `HASTY` soon gives up one that does not.
    const PATIENT: Pace = Pace {
        tick: Duration::from_secs(100),
        ..Pace::OF_COMMANDS
    };
    const HASTY: Pace = Pace {
        tick: Duration::from_millis(2),
        silent_max: 2,
        ticks_max: 2,
        tick_bytes: 64 << 10,
    };

    fn announcing(length: usize) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.append(CONTENT_LENGTH, length.into());
        headers
    }

    #[tokio::test]
    async fn a_body_takes_its_share_of_those_in_flight_and_gives_it_back() {
        let budget = Arc::new(Admission::new(6));
        let read = async |headers: HeaderMap| {
            let body = http_body_util::Full::new(Bytes::from_static(b"body"));
            whole_body(&headers, body, &budget, PATIENT, pending).await
        };
        let (body, share) = read(HeaderMap::new()).await.unwrap();
        assert_eq!((&body[..], share.amount()), (&b"body"[..], 4));
        let refused = read(announcing(4)).await.err();
        assert_eq!(refused, Some(BodyError::Overloaded));
        drop(share);
        let (_, _share) = read(announcing(4)).await.unwrap();
        let longer = read(announcing(BODY_BYTES_MAX + 1)).await.err();
        assert_eq!(longer, Some(BodyError::TooLarge));
    }

    #[tokio::test]
    async fn an_announced_body_that_does_not_come_costs_nothing_and_is_given_up() {
        let budget = bodies_budget();
        let silent = (0..1_000).map(|_| {
            let body = Slow::of([None, None, None], false);
            let budget = Arc::clone(&budget);
            let headers = announcing(BODY_BYTES_MAX);
            tokio::spawn(async move {
                whole_body(&headers, body, &budget, HASTY, pending)
                    .await
                    .err()
            })
        });
        let silent: Vec<_> = silent.collect();
        tokio::task::yield_now().await;
        assert_eq!(budget.in_flight(), 0);
        for one in silent {
            assert_eq!(one.await.unwrap(), Some(BodyError::Broken));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_steady_body_is_read_and_a_silent_or_endless_one_is_given_up() {
        // Reads a body that comes byte by byte, `seconds` apart.
        let read = async |seconds: u64, bytes: usize| {
            let pause = Duration::from_secs(seconds);
            let body = futures_util::stream::unfold(bytes, |left| async move {
                tokio::time::sleep(pause).await;
                let byte = hyper::body::Frame::data(Bytes::from_static(b"x"));
                let byte = Ok::<_, std::convert::Infallible>(byte);
                (left > 0).then(|| (byte, left - 1))
            });
            let body = http_body_util::StreamBody::new(body);
            let (budget, headers) = (bodies_budget(), HeaderMap::new());
            let read = whole_body(&headers, body, &budget, Pace::OF_COMMANDS, pending).await;
            read.map(|(body, _)| body.len())
        };
        assert_eq!(read(15, 30).await, Ok(30));
        assert_eq!(read(25, 3).await, Err(BodyError::Broken));
        assert_eq!(read(5, 200).await, Err(BodyError::Broken));
    }

    #[test]
    fn an_error_that_refuses_a_body_is_told_from_one_that_breaks_it_off() {
        use io::ErrorKind::{ConnectionReset, InvalidData, InvalidInput, UnexpectedEof};
        for kind in [InvalidData, InvalidInput] {
            let refused = BodyError::of(io::Error::new(kind, "invalid chunk size"));
            assert_eq!(refused, BodyError::Malformed, "{kind}");
        }
        for kind in [UnexpectedEof, ConnectionReset] {
            assert_eq!(BodyError::of(io::Error::from(kind)), BodyError::Broken);
        }
        // The bytes were damaged on their way.
        let damaged = io::Error::new(InvalidData, TlsError::DecryptError);
        assert_eq!(BodyError::of(damaged), BodyError::Broken);
        assert_eq!(BodyError::of("connection error"), BodyError::Broken);
    }

    #[tokio::test(start_paused = true)]
    async fn at_a_stop_a_missing_body_is_refused_and_an_arriving_one_is_read() {
        let read = async |body: Slow| {
            let (budget, headers) = (bodies_budget(), HeaderMap::new());
            let stop = || tokio::time::sleep(Duration::from_secs(3));
            let read = whole_body(&headers, body, &budget, Pace::OF_COMMANDS, stop).await;
            read.map(|(body, _)| body.len())
        };
        let piece = || Some(Bytes::from_static(b"piece"));
        let silent = Slow::of([piece()], false);
        assert_eq!(read(silent).await, Err(BodyError::Stopping));
        let in_two = Slow::of([piece(), None, None, None, piece()], true);
        assert_eq!(read(in_two).await, Ok(10));
    }

    #[tokio::test]
    async fn a_body_in_one_byte_chunks_holds_its_charge_and_no_connection_buffer() {
        /// A buffer that counts how many of its kind are alive.
        struct Counted {
            bytes: [u8; 1],
            _alive: Arc<()>,
        }
        impl AsRef<[u8]> for Counted {
            fn as_ref(&self) -> &[u8] {
                &self.bytes
            }
        }
        let alive = Arc::new(());
        for waits in [false, true] {
            let chunk = || {
                let _alive = Arc::clone(&alive);
                Bytes::from_owner(Counted {
                    bytes: *b"x",
                    _alive,
                })
            };
            let steps = (0..5_000).flat_map(|_| [waits.then_some(None), Some(Some(chunk()))]);
            let body = Slow::of(steps.flatten(), true);
            let budget = bodies_budget();
            let headers = HeaderMap::new();
            let read = whole_body(&headers, body, &budget, PATIENT, pending).await;
            let (body, share) = read.unwrap();
            assert_eq!(body.len(), 5_000);
            assert_eq!(Arc::strong_count(&alive), 1, "chunks are not kept");
            assert!((5_000..=10_000).contains(&share.amount()));
            let held = Vec::from(body).capacity();
            assert!(
                held <= share.amount(),
                "{held} bytes for {}",
                share.amount()
            );
        }
    }

    #[tokio::test]
    async fn slow_clients_hold_no_more_than_leaves_room_for_others() {
        let budget = bodies_budget();
        let chunk = Bytes::from(vec![b'x'; 64 << 10]);
        // Each client sends all of its body but the end, piece by piece.
        let slow = (0..600).map(|_| {
            let steps = (0..15).flat_map(|_| [None, None, Some(chunk.clone())]);
            let body = Slow::of(steps, false);
            let budget = Arc::clone(&budget);
            let headers = announcing(BODY_BYTES_MAX);
            tokio::spawn(async move {
                whole_body(&headers, body, &budget, PATIENT, pending)
                    .await
                    .err()
            })
        });
        let slow: Vec<_> = slow.collect();
        // Runs until all clients have sent their pieces, or were rejected.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        let shed = slow.iter().filter(|one| one.is_finished()).count();
        assert!(shed > 0 && shed < slow.len(), "{shed} were shed");
        assert!(budget.free() > AT_ONCE_BYTES);
        // A well-behaved body is read, whether it comes at once or in two pieces.
        let good = || Bytes::from(vec![b'y'; 2_000]);
        for steps in [
            vec![Some(good())],
            vec![Some(good()), None, None, None, Some(good())],
        ] {
            let body = Slow::of(steps, true);
            let read = whole_body(&HeaderMap::new(), body, &budget, PATIENT, pending).await;
            assert!(read.is_ok());
        }
        let large = Slow::of([Some(Bytes::from(vec![b'z'; BODY_BYTES_MAX]))], true);
        let read = whole_body(&HeaderMap::new(), large, &budget, PATIENT, pending).await;
        assert!(read.is_ok());
        for one in slow {
            one.abort();
        }
    }

    #[tokio::test]
    async fn small_slow_bodies_may_use_half_of_the_reserve() {
        let budget = bodies_budget();
        let kept = kept_for_at_once(&budget);
        let _others = Admission::admit(&budget, BODIES_BYTES_MAX - kept).unwrap();
        let in_two = |length: usize| {
            let piece = Some(Bytes::from(vec![b'x'; length / 2]));
            Slow::of([piece.clone(), None, None, None, piece], true)
        };
        let read = async |length: usize| {
            let (body, headers) = (in_two(length), HeaderMap::new());
            whole_body(&headers, body, &budget, PATIENT, pending).await
        };
        assert!(read(SMALL_BYTES_MAX / 2).await.is_ok());
        let refused = read(SMALL_BYTES_MAX * 4).await;
        assert_eq!(refused.err(), Some(BodyError::Overloaded));
        let _more = Admission::admit(&budget, kept / 2).unwrap();
        let refused = read(SMALL_BYTES_MAX / 2).await;
        assert_eq!(refused.err(), Some(BodyError::Overloaded));
    }

    #[tokio::test]
    async fn while_memory_is_short_a_body_holding_much_and_sending_little_ends() {
        const TICKS: usize = 25;
        let ticks = u32::try_from(TICKS).unwrap();
        let pace = Pace {
            silent_max: ticks,
            ticks_max: ticks,
            ..HASTY
        };
        // Returns how often a body that brings `length` bytes and then nothing is polled until it is given up: once
        // per tick.
        let looks = async |length: usize, budget: &Arc<Admission>| {
            let piece = (length > 0).then(|| Bytes::from(vec![b'x'; length]));
            let body = Slow::of([None, None, piece], false);
            let looks = Arc::clone(&body.looks);
            let read = whole_body(&HeaderMap::new(), body, budget, pace, pending).await;
            assert_eq!(read.err(), Some(BodyError::Broken));
            looks.load(Ordering::Relaxed)
        };
        let early = |looks: usize| looks < TICKS / 2;
        let short = bodies_budget();
        let _others = Admission::admit(&short, BODIES_BYTES_MAX / 2 + 1).unwrap();
        assert!(early(looks(200_000, &short).await));
        // When memory is shorter still, a body that brings nothing may hold nothing.
        let scarce = bodies_budget();
        let kept = kept_for_at_once(&scarce);
        let _others_too = Admission::admit(&scarce, BODIES_BYTES_MAX - kept + 1).unwrap();
        assert!(early(looks(0, &scarce).await));
        // A body that holds little may take its time; so may any body while memory suffices.
        for (length, budget) in [(20_000, &short), (200_000, &bodies_budget())] {
            let looks = looks(length, budget).await;
            assert!(looks >= TICKS, "{length}: {looks}");
        }
    }

    #[tokio::test]
    async fn a_future_ready_at_the_first_or_second_poll_is_had_at_once() {
        assert_eq!(at_once(async { 1 }).await, Some(1));
        let second = async {
            tokio::task::yield_now().await;
            2
        };
        assert_eq!(at_once(second).await, Some(2));
        let third = async {
            tokio::task::yield_now().await;
            tokio::task::yield_now().await;
        };
        assert_eq!(at_once(third).await, None);
    }

    #[test]
    fn media_types_are_compared_without_parameters_and_case() {
        let is_json = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.append(CONTENT_TYPE, value.parse().unwrap());
            is_media_type(&headers, "application/json")
        };
        assert!(is_json("application/json"));
        assert!(is_json("Application/JSON; charset=utf-8"));
        assert!(!is_json("application/jsonx"));
        assert!(!is_json("text/plain"));
        assert!(!is_media_type(&HeaderMap::new(), "application/json"));
    }
}
