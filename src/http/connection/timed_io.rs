//! The byte stream of a connection, between the socket and hyper. It closes a connection whose client takes too long
//! to take bytes of a response, to take all of it, to send the head of a request, or to send anything. It has the
//! framing of HTTP/1 checked before hyper sees the bytes. It gathers small responses to pipelined requests, but never
//! delays a response until another one is made. It writes a head and a short body as one piece, and replaces hyper's
//! own response to a head that cannot be parsed by a problem.
//!
//! hyper has no timeout for clients that do not read. Its timeout for heads sets up a timer for every request, which
//! mostly wakes its own thread by a system call; here a timer is set up when a connection begins to wait, and checked
//! when it expires. hyper gathers responses, too, but without bound, and keeps them back for as long as a byte of the
//! next request is there.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use super::frames::Frames;
use super::framing::{Ended, Fault, Framing, REFUSED};
use super::head_limit::HeadLimit;
use super::unparsed::{Bare, Unparsed};
use crate::base::output;
use crate::http::client_end::ClientSocket;
use crate::http::response::deadlines::Deadlines;

/// What is tracked of a connection besides its bytes, by its protocol.
enum Protocol {
    /// Nothing is tracked.
    None,
    Http1(Box<Http1>),
    Http2(Box<Frames>),
}

struct Http1 {
    limit: Arc<HeadLimit>,
    /// Makes the response to a head that cannot be parsed.
    unparsed: Unparsed,
    framing: Framing,
    /// When the first byte of an unfinished head came.
    begun: Option<Instant>,
    /// What hyper reads instead of a rejected head, or of the rest of a malformed body. Once this is set, no further
    /// received byte is passed on.
    ended: Option<Ended>,
    /// Responses that wait to be written together, because the next request has arrived already.
    gathered: Vec<u8>,
    /// Whether a response was added to `gathered` since hyper flushed last.
    is_added_to: bool,
}

/// Maximum number of gathered response bytes.
const GATHERED_BYTES_MAX: usize = 16 * 1024;
/// Maximum total size of several slices that are copied to be written as one, in bytes.
const TOGETHER_BYTES_MAX: usize = 4 * 1024;
/// Limits for reading from a client that goes on sending while its connection is being closed, in bytes and in time.
/// Without that reading the system would reset the connection, and the last response might be lost.
const LINGER_BYTES_MAX: usize = 1 << 20;
const LINGER_TIMEOUT: Duration = Duration::from_secs(1);

/// When the service began to stop; empty until then.
pub type Stop = Arc<OnceLock<Instant>>;

/// How long an idle HTTP/2 client has to learn that the service stops.
const FAREWELL: Duration = Duration::from_millis(250);

/// Wraps a stream so that a write that makes no progress for `limit`, and a read that waits longer than allowed, fail
/// with `TimedOut`. Only one task polls it.
pub struct TimedIo<S> {
    stream: S,
    limit: Duration,
    protocol: Protocol,
    deadlines: Option<Arc<Deadlines>>,
    client: Option<ClientSocket<S>>,
    stop: Stop,
    /// Timer that runs while a write waits.
    stalled: Option<Pin<Box<Sleep>>>,
    /// Timer that ends when the earliest deadline that was ever set has passed.
    late: Option<Pin<Box<Sleep>>>,
    closing: Closing,
}

enum Closing {
    Not,
    /// Nothing is sent any more. Holds the number of bytes read since then, and the timer that ends the reading.
    Lingering(usize, Pin<Box<Sleep>>),
}

impl Http1 {
    /// Whether a response may wait for the next one: the head of the next request is complete, and hyper has it.
    fn may_gather(&self) -> bool {
        self.framing.heads() > self.limit.all_arrived()
            // hyper does not flush a connection that it hands over.
            && !self.framing.asks_for_upgrade()
    }

    /// Checks the bytes that were read into `buffer` after its first `before` bytes. A rejected head is replaced; an
    /// empty read, the end of the stream, follows. After the valid bytes of a malformed body an error follows.
    fn read(&mut self, buffer: &mut ReadBuf<'_>, before: usize) -> io::Result<()> {
        match self.framing.follow(&buffer.filled()[before..]) {
            Ok(()) => {}
            Err(Fault::Body(at)) => {
                buffer.set_filled(before + at);
                self.ended = Some(Ended::Body);
            }
            Err(Fault::Head(at)) => {
                buffer.set_filled(before + at);
                self.ended.insert(Ended::Head(REFUSED)).read(buffer)?;
            }
        }
        if !self.framing.is_within_head() {
            self.begun = None;
        } else if self.begun.is_none() {
            self.begun = Some(Instant::now());
        }
        Ok(())
    }
}

impl<S> TimedIo<S> {
    /// Wraps a stream, with a limit on how long a write may wait. Once `stop` is set, no further request is waited
    /// for.
    pub fn new(stream: S, limit: Duration, stop: Stop) -> Self {
        Self {
            stream,
            limit,
            protocol: Protocol::None,
            deadlines: None,
            client: None,
            stop,
            stalled: None,
            late: None,
            closing: Closing::Not,
        }
    }

    /// Makes this an HTTP/1 stream. Heads are waited for within `limit`, and `unparsed` makes the response to one
    /// that cannot be parsed.
    #[must_use]
    pub fn http1(mut self, limit: Arc<HeadLimit>, unparsed: Unparsed) -> Self {
        self.protocol = Protocol::Http1(Box::new(Http1 {
            limit,
            unparsed,
            framing: Framing::default(),
            begun: None,
            ended: None,
            gathered: Vec::new(),
            is_added_to: false,
        }));
        self
    }

    /// Makes this an HTTP/2 stream.
    #[must_use]
    pub fn http2(mut self, frames: Frames) -> Self {
        self.protocol = Protocol::Http2(Box::new(frames));
        self
    }

    /// Returns this stream with the deadlines by which its large responses have to be taken.
    #[must_use]
    pub fn within(mut self, deadlines: Arc<Deadlines>) -> Self {
        self.deadlines = Some(deadlines);
        self
    }

    /// Returns this stream with the means to notice that its client may have left.
    #[must_use]
    pub fn noticing(mut self, client: ClientSocket<S>) -> Self {
        self.client = Some(client);
        self
    }

    /// When the first response has to be taken that has a time of its own.
    fn due(&self) -> Option<Instant> {
        let deadlines = self.deadlines.as_ref()?;
        deadlines.earliest()
    }

    fn watch<T>(
        &mut self,
        context: &mut Context<'_>,
        polled: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.stalled = None;
            return polled;
        }
        let (limit, due) = (self.limit, self.due());
        let stalled = self.stalled.get_or_insert_with(|| {
            let until = Instant::now() + limit;
            let until = due.map_or(until, |due| due.min(until));
            Box::pin(tokio::time::sleep_until(until))
        });
        match stalled.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }

    /// Does what [`TimedIo::watch`] does, after a write of some bytes. hyper looks for the next head only when there
    /// is something to read, so the timer that is set here finds a client that never sends one.
    fn watch_bytes(
        &mut self,
        context: &mut Context<'_>,
        polled: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if let (Poll::Ready(Ok(1..)), Protocol::Http1(http1)) = (&polled, &self.protocol)
            && http1.limit.written()
        {
            self.is_late(context);
        }
        self.watch(context, polled)
    }

    /// Whether the wait has exceeded its limit. If not, the task is woken when the limit may be exceeded.
    fn is_late(&mut self, context: &mut Context<'_>) -> bool {
        // Over HTTP/1 a response that is not taken shows as a write that waits.
        let due = match &self.protocol {
            Protocol::Http2(_) => self.due(),
            Protocol::None | Protocol::Http1(_) => None,
        };
        let sooner = |deadline: Instant| due.map_or(deadline, |due| due.min(deadline));
        let stop = self.stop.get();
        let earliest = match &self.protocol {
            Protocol::None => return false,
            Protocol::Http1(http1) => {
                let deadline = http1.limit.deadline(http1.begun);
                deadline.map(|deadline| *stop.unwrap_or(&deadline))
            }
            Protocol::Http2(frames) => match stop {
                Some(stop) if frames.is_idle() => Some(*stop + FAREWELL),
                _ => Some(sooner(frames.earliest())),
            },
        };
        let Some(earliest) = earliest else {
            return false;
        };
        let is_in_time = |late: &Pin<Box<Sleep>>| !late.is_elapsed() && late.deadline() <= earliest;
        if self.late.as_ref().is_some_and(is_in_time) {
            return false;
        }
        let now = Instant::now();
        let deadline = match &mut self.protocol {
            Protocol::Http2(frames) if earliest == frames.earliest() => {
                sooner(frames.deadline(now))
            }
            _ => earliest,
        };
        if deadline <= now {
            return true;
        }
        match &mut self.late {
            Some(late) => late.as_mut().reset(deadline),
            None => self.late = Some(Box::pin(tokio::time::sleep_until(deadline))),
        }
        let polled = self.late.as_mut().map(|late| late.as_mut().poll(context));
        polled.is_some_and(|polled| polled.is_ready())
    }
}

impl<S: AsyncRead + Unpin> TimedIo<S> {
    /// Reads what the client still sends, until the end of its stream or until a limit is reached.
    fn poll_linger(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Closing::Lingering(taken, until) = &mut self.closing else {
            return Poll::Ready(());
        };
        let is_mute = match &self.protocol {
            Protocol::Http1(http1) => http1.ended.is_none() && http1.framing.is_between_messages(),
            _ => true,
        };
        loop {
            let mut room = [std::mem::MaybeUninit::uninit(); 4_096];
            let mut buffer = ReadBuf::uninit(&mut room);
            match Pin::new(&mut self.stream).poll_read(context, &mut buffer) {
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {
                    *taken += buffer.filled().len();
                    if *taken > LINGER_BYTES_MAX {
                        return Poll::Ready(());
                    }
                }
                Poll::Ready(_) => return Poll::Ready(()),
                // The client was not in the middle of a request.
                Poll::Pending if is_mute && *taken == 0 => return Poll::Ready(()),
                Poll::Pending => return until.as_mut().poll(context),
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> TimedIo<S> {
    /// Writes the gathered responses.
    fn poll_gathered(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            let Protocol::Http1(http1) = &mut self.protocol else {
                return Poll::Ready(Ok(()));
            };
            if http1.gathered.is_empty() {
                return Poll::Ready(Ok(()));
            }
            let polled = Pin::new(&mut self.stream).poll_write(context, &http1.gathered);
            if let Poll::Ready(Ok(written)) = &polled {
                if *written == 0 {
                    return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
                }
                http1.gathered.drain(..*written);
                if http1.gathered.is_empty() {
                    // An idle connection keeps no buffer.
                    http1.gathered = Vec::new();
                }
            }
            ready!(self.watch_bytes(context, polled))?;
        }
    }

    /// Writes several slices. Few bytes are copied into one buffer, which costs less than to have the system put a
    /// head and its body together.
    fn poll_together(
        &mut self,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let stream = Pin::new(&mut self.stream);
        if let [bytes] = slices {
            return stream.poll_write(context, bytes);
        }
        let length: usize = slices.iter().map(|slice| slice.len()).sum();
        if length > TOGETHER_BYTES_MAX {
            return stream.poll_write_vectored(context, slices);
        }
        output::in_scratch(|all| {
            slices.iter().for_each(|slice| all.put(slice));
            stream.poll_write(context, all.as_slice())
        })
    }

    /// Replaces these bytes if they are a response that hyper has made by itself; returns how many bytes are
    /// replaced.
    fn replaces(&mut self, slices: &[io::IoSlice<'_>]) -> Option<usize> {
        let (Protocol::Http1(http1), [bytes]) = (&mut self.protocol, slices) else {
            return None;
        };
        let bare = Bare::of(bytes)?;
        let answer = (http1.unparsed)(bare.status);
        http1.gathered.extend(bare.replaced_by(&answer));
        Some(bytes.len())
    }

    /// Gathers these bytes of a response if the next response can be made at once, or if some are gathered already.
    /// Returns how many bytes were gathered.
    fn gathers(&mut self, slices: &[io::IoSlice<'_>]) -> Option<usize> {
        let Protocol::Http1(http1) = &mut self.protocol else {
            return None;
        };
        if http1.gathered.is_empty() && !http1.may_gather() {
            return None;
        }
        let length: usize = slices.iter().map(|slice| slice.len()).sum();
        if http1.gathered.len() + length > GATHERED_BYTES_MAX {
            return None;
        }
        for slice in slices {
            http1.gathered.extend_from_slice(slice);
        }
        http1.is_added_to = true;
        Some(length)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TimedIo<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Protocol::Http1(http1) = &mut self.protocol
            && let Some(ended) = &mut http1.ended
        {
            return Poll::Ready(ended.read(buffer));
        }
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        if let Poll::Ready(Ok(())) = &polled {
            match &mut self.protocol {
                Protocol::None => {}
                Protocol::Http1(http1) => http1.read(buffer, before)?,
                Protocol::Http2(frames) => {
                    frames.received(&buffer.filled()[before..], Instant::now());
                    if frames.is_flooded() {
                        let why = "more control frames than there is reason for";
                        return Poll::Ready(Err(io::Error::other(why)));
                    }
                }
            }
        }
        if polled.is_pending() && self.is_late(context) {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        polled
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for TimedIo<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[io::IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let kept = self.replaces(slices).or_else(|| self.gathers(slices));
        if let Some(kept) = kept {
            return Poll::Ready(Ok(kept));
        }
        ready!(self.poll_gathered(context))?;
        let polled = self.poll_together(context, slices);
        if let (Poll::Ready(Ok(written)), Protocol::Http2(frames)) = (&polled, &mut self.protocol) {
            let now = Instant::now();
            let mut left = *written;
            for slice in slices {
                let taken = left.min(slice.len());
                frames.written(&slice[..taken], now);
                left -= taken;
            }
        }
        self.watch_bytes(context, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Protocol::Http1(http1) = &mut self.protocol
            && std::mem::take(&mut http1.is_added_to)
            && http1.may_gather()
        {
            // hyper turns to the next request, or is woken. If nothing was added to `gathered` by the next flush, the
            // gathered bytes are written.
            context.waker().wake_by_ref();
            return Poll::Ready(Ok(()));
        }
        ready!(self.poll_gathered(context))?;
        if let Some(client) = &self.client {
            client.look(&self.stream, context)?;
        }
        let polled = Pin::new(&mut self.stream).poll_flush(context);
        self.watch(context, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Closing::Not = self.closing {
            ready!(self.poll_gathered(context))?;
            let polled = Pin::new(&mut self.stream).poll_shutdown(context);
            ready!(self.watch(context, polled))?;
            let until = Box::pin(tokio::time::sleep(LINGER_TIMEOUT));
            self.closing = Closing::Lingering(0, until);
        }
        self.poll_linger(context).map(Ok)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    const LIMIT: Duration = Duration::from_millis(20);

    /// An [`Unparsed`] for tests whose heads can all be parsed.
    fn never() -> Unparsed {
        Arc::new(|status| panic!("a response of its own: {status}"))
    }

    #[tokio::test]
    async fn a_peer_that_takes_nothing_is_given_up() {
        let (near, _far) = tokio::io::duplex(16);
        let mut timed = TimedIo::new(near, LIMIT, Stop::default());
        timed.write_all(&[0; 16]).await.unwrap();
        let error = timed.write_all(&[0]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    /// A stream that accepts some bytes at each write, and notes what it was given.
    #[derive(Default)]
    struct Noted {
        takes: usize,
        alone: Vec<Vec<u8>>,
        vectored: usize,
    }

    impl AsyncRead for Noted {
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            _: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    impl AsyncWrite for Noted {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            self.alone.push(bytes.to_vec());
            Poll::Ready(Ok(bytes.len().min(self.takes)))
        }

        fn poll_write_vectored(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            slices: &[io::IoSlice<'_>],
        ) -> Poll<io::Result<usize>> {
            self.vectored += 1;
            Poll::Ready(Ok(slices.iter().map(|slice| slice.len()).sum()))
        }

        fn is_write_vectored(&self) -> bool {
            true
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[tokio::test]
    async fn a_head_and_short_body_are_written_together_and_a_long_body_uncopied() {
        let noted = |takes| Noted {
            takes,
            ..Noted::default()
        };
        for takes in [1, 5, 100] {
            let mut timed = TimedIo::new(noted(takes), LIMIT, Stop::default());
            let slices = [b"head".as_slice(), b"", b"body"].map(io::IoSlice::new);
            assert_eq!(timed.write_vectored(&slices).await.unwrap(), takes.min(8));
            assert_eq!(timed.stream.alone, [b"headbody"]);
            assert_eq!(timed.stream.vectored, 0);
        }
        let mut timed = TimedIo::new(noted(100), LIMIT, Stop::default());
        let long = [0; TOGETHER_BYTES_MAX];
        let slices = [b"head".as_slice(), &long].map(io::IoSlice::new);
        let written = timed.write_vectored(&slices).await.unwrap();
        assert_eq!(written, TOGETHER_BYTES_MAX + 4);
        assert!(timed.stream.alone.is_empty());
        assert_eq!(timed.stream.vectored, 1);
    }

    #[tokio::test]
    async fn a_head_that_trickles_in_does_not_put_its_end_off() {
        let (near, mut far) = tokio::io::duplex(16);
        let began = Instant::now();
        let mut timed =
            TimedIo::new(near, LIMIT, Stop::default()).http1(HeadLimit::new(LIMIT, LIMIT), never());
        let trickle = async {
            while far.write_all(&[0]).await.is_ok() {
                tokio::time::sleep(LIMIT / 8).await;
            }
        };
        let read = async {
            let error = loop {
                if let Err(error) = timed.read_u8().await {
                    break error;
                }
            };
            drop(timed);
            error
        };
        let (_, error) = tokio::join!(trickle, read);
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(began.elapsed() >= LIMIT);
    }

    #[tokio::test]
    async fn a_request_under_way_is_not_timed_out_and_the_next_head_has_full_time() {
        let (near, mut far) = tokio::io::duplex(16);
        let head = HeadLimit::new(LIMIT, LIMIT);
        let mut timed =
            TimedIo::new(near, LIMIT, Stop::default()).http1(Arc::clone(&head), never());
        for _ in 0..3 {
            // A byte that has arrived is read, however late.
            far.write_all(&[0]).await.unwrap();
            timed.read_u8().await.unwrap();
            head.arrived();
            let body = async {
                tokio::time::sleep(LIMIT * 2).await;
                far.write_all(&[0]).await.unwrap();
            };
            let (_, read) = tokio::join!(body, timed.read_u8());
            read.unwrap();
            head.answered();
            timed.write_all(&[0]).await.unwrap();
            far.read_u8().await.unwrap();
        }
        let answered = Instant::now();
        let error = timed.read_u8().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        // The limit counts whole milliseconds, rounded down.
        assert!(answered.elapsed() + Duration::from_millis(1) >= LIMIT);
    }

    /// Serves a connection as the server does: hyper over the limits, with a service whose response takes `takes`.
    fn served(takes: Duration) -> tokio::io::DuplexStream {
        use hyper::service::service_fn;
        let (near, far) = tokio::io::duplex(4_096);
        let head = HeadLimit::new(LIMIT, LIMIT);
        let timed = TimedIo::new(near, LIMIT, Stop::default()).http1(Arc::clone(&head), never());
        let respond = service_fn(move |_: hyper::Request<hyper::body::Incoming>| {
            let head = Arc::clone(&head);
            async move {
                head.arrived();
                tokio::time::sleep(takes).await;
                head.answered();
                let body = http_body_util::Full::new(bytes::Bytes::from_static(b"done"));
                Ok::<_, std::convert::Infallible>(hyper::Response::new(body))
            }
        });
        let connection = hyper::server::conn::http1::Builder::new()
            .header_read_timeout(None)
            .serve_connection(hyper_util::rt::TokioIo::new(timed), respond);
        tokio::spawn(async move {
            let _ = connection.await;
        });
        far
    }

    async fn answer(far: &mut tokio::io::DuplexStream) -> Vec<u8> {
        far.write_all(b"GET / HTTP/1.1\r\nhost: here\r\n\r\n")
            .await
            .unwrap();
        let mut text = Vec::new();
        while !text.ends_with(b"done") {
            text.push(far.read_u8().await.unwrap());
        }
        text
    }

    #[tokio::test]
    async fn hyper_closes_silent_or_half_sent_requests_and_awaits_slow_responses() {
        let all = tokio::time::timeout(Duration::from_secs(30), closing());
        all.await.expect("each of them is closed");
    }

    async fn closing() {
        let mut silent = served(Duration::ZERO);
        assert_eq!(silent.read(&mut [0; 9]).await.unwrap(), 0);

        let mut half = served(Duration::ZERO);
        half.write_all(b"GET / HTTP/1.1\r\nhost:").await.unwrap();
        assert_eq!(half.read(&mut [0; 9]).await.unwrap(), 0);

        // The second head trickles in until the connection is closed.
        let mut trickling = served(Duration::ZERO);
        answer(&mut trickling).await;
        let mut byte = b"GET / HTTP/1.1\r\nhost: h"
            .iter()
            .chain(std::iter::repeat(&b'h'));
        while trickling.write_all(&[*byte.next().unwrap()]).await.is_ok() {
            let mut said = [0; 9];
            let silence = tokio::time::timeout(LIMIT / 8, trickling.read(&mut said));
            if silence.await.is_ok() {
                break;
            }
        }

        let mut slow = served(LIMIT * 3);
        for _ in 0..2 {
            assert!(answer(&mut slow).await.starts_with(b"HTTP/1.1 200 OK"));
        }
        assert_eq!(slow.read(&mut [0; 9]).await.unwrap(), 0, "idle in the end");
    }

    /// Serves as [`served`] does, over HTTP/2, with a body that the peer has to open its windows for.
    fn served_http2(stop: Stop, takes: Duration) -> tokio::io::DuplexStream {
        use hyper::service::service_fn;
        let (near, far) = tokio::io::duplex(65_536);
        let patience = crate::http::connection::frames::Patience {
            idle: LIMIT * 3,
            head: LIMIT,
            answer: LIMIT,
        };
        let frames = Frames::new(patience, Instant::now());
        let timed = TimedIo::new(near, LIMIT, stop).http2(frames);
        let respond = service_fn(move |_: hyper::Request<hyper::body::Incoming>| async move {
            tokio::time::sleep(takes).await;
            let body = http_body_util::Full::new(bytes::Bytes::from_static(b"done"));
            Ok::<_, std::convert::Infallible>(hyper::Response::new(body))
        });
        let executor = hyper_util::rt::TokioExecutor::new();
        let connection = hyper::server::conn::http2::Builder::new(executor)
            .serve_connection(hyper_util::rt::TokioIo::new(timed), respond);
        tokio::spawn(async move {
            let _ = connection.await;
        });
        far
    }

    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

    fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
        let length = u8::try_from(payload.len()).unwrap();
        [&[0, 0, length, kind, flags, 0, 0, 0, stream], payload].concat()
    }

    /// `GET http://a/`, by the static table and a literal.
    const GET: &[u8] = &[0x82, 0x84, 0x86, 0x01, 1, b'a'];
    const NO_WINDOW: &[u8] = &[0, 4, 0, 0, 0, 0];

    /// Returns how long a connection lives after it has received these bytes.
    async fn lives(bytes: &[u8]) -> Duration {
        // The connection's time begins when it is made.
        let begun = Instant::now();
        let mut far = served_http2(Stop::default(), Duration::ZERO);
        far.write_all(PREFACE).await.unwrap();
        far.write_all(bytes).await.unwrap();
        let mut said = Vec::new();
        let all = far.read_to_end(&mut said);
        let ended = tokio::time::timeout(Duration::from_secs(30), all);
        ended.await.expect("it is closed").unwrap();
        begun.elapsed()
    }

    #[tokio::test]
    async fn http2_closes_silent_or_pinging_clients_and_stalled_ones_sooner() {
        let settings = frame(4, 0, 0, &[]);
        assert!(lives(&[]).await >= LIMIT * 3);
        assert!(lives(&settings).await >= LIMIT * 3);
        // Half a head comes.
        let begun = [settings.clone(), frame(1, 1, 1, GET)].concat();
        assert!(lives(&begun).await >= LIMIT);
        // A whole head comes, but the client opens no window for the answer.
        let taken = [frame(4, 0, 0, NO_WINDOW), frame(1, 5, 1, GET)].concat();
        assert!(lives(&taken).await >= LIMIT);
        // Pings do not count.
        let begun = Instant::now();
        let mut pinging = served_http2(Stop::default(), Duration::ZERO);
        pinging.write_all(PREFACE).await.unwrap();
        pinging.write_all(&settings).await.unwrap();
        while pinging.write_all(&frame(6, 0, 0, &[0; 8])).await.is_ok() {
            assert!(begun.elapsed() < Duration::from_secs(30));
            let mut said = [0; 64];
            let silence = tokio::time::timeout(LIMIT / 8, pinging.read(&mut said));
            if matches!(silence.await, Ok(Ok(0) | Err(_))) {
                break;
            }
            // Slow enough not to be taken for a flood.
            tokio::time::sleep(LIMIT / 8).await;
        }
        assert!(begun.elapsed() >= LIMIT * 3);
    }

    #[tokio::test]
    async fn over_http_2_a_flood_of_pings_ends_its_connection_at_once() {
        let mut flooding = served_http2(Stop::default(), Duration::ZERO);
        flooding.write_all(PREFACE).await.unwrap();
        flooding.write_all(&frame(4, 0, 0, &[])).await.unwrap();
        let begun = Instant::now();
        let (mut reader, mut writer) = tokio::io::split(flooding);
        let reading = tokio::spawn(async move {
            let mut said = Vec::new();
            let _ = reader.read_to_end(&mut said).await;
            said.len()
        });
        let pings = frame(6, 0, 0, &[0; 8]).repeat(100);
        let mut sent = 0;
        while sent < 1_000 && writer.write_all(&pings).await.is_ok() {
            sent += 1;
        }
        let answered = tokio::time::timeout(Duration::from_secs(30), reading);
        assert!(answered.await.expect("it is closed").unwrap() < 100_000 * 17);
        assert!(sent < 1_000 || begun.elapsed() < LIMIT * 3, "{sent}");
    }

    /// Returns an HTTP/1 connection whose timeouts do not expire while a test lasts.
    fn patient(stream: tokio::io::DuplexStream) -> TimedIo<tokio::io::DuplexStream> {
        let hour = Duration::from_secs(3_600);
        TimedIo::new(stream, hour, Stop::default()).http1(HeadLimit::new(hour, hour), never())
    }

    #[tokio::test]
    async fn pipelined_responses_are_gathered_in_order_up_to_a_bound() {
        let (near, mut far) = tokio::io::duplex(1 << 20);
        let hour = Duration::from_secs(3_600);
        let limit = HeadLimit::new(hour, hour);
        let mut timed =
            TimedIo::new(near, hour, Stop::default()).http1(Arc::clone(&limit), never());
        let request = b"GET / HTTP/1.1\r\nhost: here\r\n\r\n";
        far.write_all(&request.repeat(2)).await.unwrap();
        let mut asked = vec![0; 2 * request.len()];
        timed.read_exact(&mut asked).await.unwrap();
        limit.arrived();
        let is_silent = async |far: &mut tokio::io::DuplexStream| {
            let heard = tokio::time::timeout(Duration::ZERO, far.read_u8()).await;
            heard.is_err()
        };
        let much = [b'a'; GATHERED_BYTES_MAX - 1];
        timed.write_all(&much).await.unwrap();
        assert!(is_silent(&mut far).await);
        timed.write_all(b"b").await.unwrap();
        assert!(is_silent(&mut far).await, "no more than may be");
        // One byte more exceeds the bound: it is written at once, and so are the gathered ones before it.
        timed.write_all(b"c").await.unwrap();
        let mut heard = vec![0; GATHERED_BYTES_MAX + 1];
        far.read_exact(&mut heard).await.unwrap();
        assert_eq!(heard, [&much[..], b"bc"].concat());
        // One more is gathered; then hyper has the second request, and flushes its answer.
        timed.write_all(b"d").await.unwrap();
        assert!(is_silent(&mut far).await);
        limit.arrived();
        timed.write_all(b"e").await.unwrap();
        timed.flush().await.unwrap();
        far.read_exact(&mut heard[..2]).await.unwrap();
        assert_eq!(heard[..2], *b"de");
        // No further request has arrived.
        timed.write_all(b"f").await.unwrap();
        assert_eq!(far.read_u8().await.unwrap(), b'f');
    }

    #[tokio::test]
    async fn a_closing_connection_reads_at_most_a_mebibyte_from_a_sending_client() {
        const HELD: usize = 4_096;
        let (near, mut far) = tokio::io::duplex(HELD);
        let mut timed = patient(near);
        far.write_all(&[0]).await.unwrap();
        let closed = async {
            timed.shutdown().await.unwrap();
            drop(timed);
        };
        let sent = async {
            let mut sent = 0;
            while far.write_all(&[0; HELD]).await.is_ok() {
                sent += HELD;
            }
            sent
        };
        let ((), sent) = tokio::join!(closed, sent);
        assert!(sent > 3 * HELD, "{sent}");
        assert!(sent <= LINGER_BYTES_MAX + 2 * HELD, "{sent}");
    }

    #[tokio::test]
    async fn a_closing_connection_reads_an_unfinished_request_to_its_end() {
        let closes_at_once = async |timed: &mut TimedIo<_>| {
            let closed = tokio::time::timeout(Duration::ZERO, timed.shutdown()).await;
            closed.map(|closed| closed.unwrap()).is_ok()
        };
        // Nothing was sent, or everything was read.
        let (near, mut far) = tokio::io::duplex(64);
        assert!(closes_at_once(&mut patient(near)).await);
        assert_eq!(far.read(&mut [0]).await.unwrap(), 0);
        // Half a head was read, or bytes have not been read yet.
        for is_read in [true, false] {
            let (near, mut far) = tokio::io::duplex(64);
            let mut timed = patient(near);
            far.write_all(b"GET").await.unwrap();
            if is_read {
                timed.read_exact(&mut [0; 3]).await.unwrap();
            }
            assert!(!closes_at_once(&mut timed).await, "read: {is_read}");
            drop(far);
            assert!(closes_at_once(&mut timed).await, "read: {is_read}");
        }
        // A malformed request may be followed by more bytes of it.
        let (near, mut far) = tokio::io::duplex(64);
        let mut timed = patient(near);
        far.write_all(b"GET\n").await.unwrap();
        let mut said = [0; 64];
        let read = timed.read(&mut said).await.unwrap();
        assert_eq!(&said[..read], REFUSED);
        assert!(!closes_at_once(&mut timed).await);
    }

    #[tokio::test]
    async fn malformed_chunks_end_in_an_error_and_not_like_a_body_that_broke_off() {
        let (near, mut far) = tokio::io::duplex(1_024);
        let mut timed = patient(near);
        let head = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
        // hyper accepts a blank before the end of the line.
        far.write_all(&[&head[..], b"3 \r\nabc\r\n"].concat())
            .await
            .unwrap();
        let mut passed = Vec::new();
        let error = timed.read_to_end(&mut passed).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert_eq!(passed, [&head[..], b"3 \r"].concat());
    }

    #[tokio::test]
    async fn over_http_2_an_answer_may_take_longer_than_a_head_and_than_silence() {
        let mut far = served_http2(Stop::default(), LIMIT * 5);
        let asked = [PREFACE, &frame(4, 0, 0, &[]), &frame(1, 5, 1, GET)].concat();
        far.write_all(&asked).await.unwrap();
        let mut said = Vec::new();
        let all = far.read_to_end(&mut said);
        let ended = tokio::time::timeout(Duration::from_secs(30), all);
        ended.await.expect("it is closed, idle").unwrap();
        assert!(said.windows(4).any(|bytes| bytes == b"done"));
    }

    #[tokio::test]
    async fn when_the_service_stops_a_head_that_has_begun_is_not_waited_for() {
        let stop = Stop::default();
        let (near, mut far) = tokio::io::duplex(64);
        let hour = Duration::from_secs(3_600);
        let head = HeadLimit::new(hour, hour);
        let mut timed =
            TimedIo::new(near, hour, Arc::clone(&stop)).http1(Arc::clone(&head), never());
        far.write_all(b"GET").await.unwrap();
        timed.read_exact(&mut [0; 3]).await.unwrap();
        stop.set(Instant::now()).unwrap();
        let error = timed.read_u8().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        // A request that has arrived is waited for.
        head.arrived();
        far.write_all(b"body").await.unwrap();
        timed.read_exact(&mut [0; 4]).await.unwrap();
    }
}
