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

    /// Its answer is made: the next head is waited for.
    pub fn answered(&self) {
        let waited = self.began.elapsed().as_millis();
        let waited = u64::try_from(waited).unwrap_or(NOT_WAITING);
        self.waiting.store(waited, Ordering::Relaxed);
    }

    /// When the head that is waited for is late.
    fn deadline(&self) -> Option<Instant> {
        match self.waiting.load(Ordering::Relaxed) {
            NOT_WAITING => None,
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
        self.watch(context, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.watch(context, polled)
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
        }
        let answered = Instant::now();
        let error = timed.read_u8().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        // In whole milliseconds, rounded down.
        assert!(answered.elapsed() + Duration::from_millis(1) >= LIMIT);
    }
}
