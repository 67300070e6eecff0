//! A connection that is given up when its peer takes too long: to take bytes of an answer, or to
//! send the head of a request. hyper has no limit for the first. It has one for the second, which
//! sets up a timer for every request and wakes its own thread by a system call for most of them;
//! this one sets up a timer when a connection begins to wait, and looks at it when it is over.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// How long the heads of a connection's requests may take: each from the answer before it, so
/// that it bounds how long the connection may be idle, too.
pub struct HeadLimit {
    limit: Duration,
    began: Instant,
    /// Since when a head is waited for, in milliseconds after `began`.
    waiting: AtomicU64,
}

/// No head is waited for: a request is on its way through.
const NOT_WAITING: u64 = u64::MAX;
/// Nor is one yet: the answer is made and not written.
const ANSWERING: u64 = u64::MAX - 1;

impl HeadLimit {
    /// The first head is waited for from now on.
    #[must_use]
    pub fn new(limit: Duration) -> Arc<Self> {
        Arc::new(Self {
            limit,
            began: Instant::now(),
            waiting: AtomicU64::new(0),
        })
    }

    /// A head has arrived: from here on the request has limits of its own.
    pub fn arrived(&self) {
        self.waiting.store(NOT_WAITING, Ordering::Relaxed);
    }

    /// Its answer is made: the next head is waited for once that is written.
    pub fn answered(&self) {
        self.waiting.store(ANSWERING, Ordering::Relaxed);
    }

    /// Something was written; whether that was of an answer.
    fn written(&self) -> bool {
        if self.waiting.load(Ordering::Relaxed) == NOT_WAITING {
            return false;
        }
        let since = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(0);
        self.waiting.store(since, Ordering::Relaxed);
        true
    }

    /// When the head that is waited for is late.
    fn deadline(&self) -> Option<Instant> {
        match self.waiting.load(Ordering::Relaxed) {
            NOT_WAITING | ANSWERING => None,
            since => Some(self.began + Duration::from_millis(since) + self.limit),
        }
    }
}

/// Wraps a stream; a write that makes no progress for `limit`, and a read that waits for a head
/// for longer than it may, fail with `TimedOut`. It is polled by one task.
pub struct TimedIo<S> {
    stream: S,
    limit: Duration,
    /// Runs while a write waits.
    stalled: Option<Pin<Box<Sleep>>>,
    head: Option<Arc<HeadLimit>>,
    /// Ends when a head that was waited for at some time would have been late.
    late: Option<Pin<Box<Sleep>>>,
}

impl<S> TimedIo<S> {
    /// The stream, with a limit on how long a write may wait, and perhaps one on heads.
    pub fn new(stream: S, limit: Duration, head: Option<Arc<HeadLimit>>) -> Self {
        Self {
            stream,
            limit,
            stalled: None,
            head,
            late: None,
        }
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
        let limit = self.limit;
        let stalled = self
            .stalled
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(Instant::now() + limit)));
        match stalled.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }

    /// As [`TimedIo::watch`], for bytes. hyper looks for the next head when there is something to
    /// read, and not before: who never sends one is found by the timer that is set here.
    fn watch_bytes(
        &mut self,
        context: &mut Context<'_>,
        polled: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let written = matches!(polled, Poll::Ready(Ok(1..)));
        if written && self.head.as_ref().is_some_and(|head| head.written()) {
            self.is_late(context);
        }
        self.watch(context, polled)
    }

    /// Whether the head that is waited for is late; if not, the task is woken when it may be.
    fn is_late(&mut self, context: &mut Context<'_>) -> bool {
        let is_asleep = |late: &Pin<Box<Sleep>>| !late.is_elapsed();
        if self.late.as_ref().is_some_and(is_asleep) {
            return false;
        }
        let Some(deadline) = self.head.as_ref().and_then(|head| head.deadline()) else {
            return false;
        };
        if deadline <= Instant::now() {
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

impl<S: AsyncRead + Unpin> AsyncRead for TimedIo<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        if polled.is_pending() && self.is_late(context) {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TimedIo<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watch_bytes(context, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.watch_bytes(context, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(context);
        self.watch(context, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_shutdown(context);
        self.watch(context, polled)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    const LIMIT: Duration = Duration::from_millis(20);

    #[tokio::test]
    async fn a_peer_that_takes_nothing_is_given_up() {
        let (near, _far) = tokio::io::duplex(16);
        let mut timed = TimedIo::new(near, LIMIT, None);
        timed.write_all(&[0; 16]).await.unwrap();
        let error = timed.write_all(&[0]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn a_head_that_trickles_in_does_not_put_its_end_off() {
        let (near, mut far) = tokio::io::duplex(16);
        let began = Instant::now();
        let mut timed = TimedIo::new(near, LIMIT, Some(HeadLimit::new(LIMIT)));
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
    async fn a_request_on_its_way_is_not_ended_and_the_next_head_has_all_the_time_again() {
        let (near, mut far) = tokio::io::duplex(16);
        let head = HeadLimit::new(LIMIT);
        let mut timed = TimedIo::new(near, LIMIT, Some(Arc::clone(&head)));
        for _ in 0..3 {
            // What is there is taken, whatever the time.
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
        // In whole milliseconds, rounded down.
        assert!(answered.elapsed() + Duration::from_millis(1) >= LIMIT);
    }

    /// A connection as the server has it: hyper over the limits, and a service that takes its time.
    fn served(takes: Duration) -> tokio::io::DuplexStream {
        use hyper::service::service_fn;
        let (near, far) = tokio::io::duplex(4_096);
        let head = HeadLimit::new(LIMIT);
        let timed = TimedIo::new(near, LIMIT, Some(Arc::clone(&head)));
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
    async fn hyper_closes_what_is_silent_or_half_said_and_waits_for_an_answer_that_takes_longer() {
        let all = tokio::time::timeout(Duration::from_secs(30), closing());
        all.await.expect("each of them is closed");
    }

    async fn closing() {
        let mut silent = served(Duration::ZERO);
        assert_eq!(silent.read(&mut [0; 9]).await.unwrap(), 0);

        let mut half = served(Duration::ZERO);
        half.write_all(b"GET / HTTP/1.1\r\nhost:").await.unwrap();
        assert_eq!(half.read(&mut [0; 9]).await.unwrap(), 0);

        // The second head trickles in for as long as it is let.
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
}
