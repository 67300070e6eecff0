//! Deadlines by which the client has to take the large responses of a connection. A timeout between two reads is not
//! enough: with one byte every half minute a client would hold a response, and its share of the budget of all
//! clients, for as long as it likes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hyper::body::Body as _;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::answer_body::Answer;
use crate::http::limits::response_room::SMALL_BYTES_MAX;

/// Minimum rate at which a response has to be taken, after the patience with an idle client is over.
const BYTES_PER_SECOND: u64 = 64 << 10;
/// Value of `earliest` without a deadline.
const NONE: u64 = u64::MAX;

/// The deadlines of a connection's responses.
pub struct Deadlines {
    patience: Duration,
    began: Instant,
    /// All deadlines, in milliseconds after `began`.
    all: Mutex<Vec<u64>>,
    /// The earliest of all deadlines; an atomic, because each read checks it.
    earliest: AtomicU64,
}

impl Deadlines {
    /// Creates the deadlines of a connection whose client has `patience` for any response, and longer for a large
    /// one.
    #[must_use]
    pub fn new(patience: Duration) -> Arc<Self> {
        Arc::new(Self {
            patience,
            began: Instant::now(),
            all: Mutex::default(),
            earliest: AtomicU64::new(NONE),
        })
    }

    /// Returns the answer; a large one has a deadline from now on until the last of it is taken. A stream has no
    /// deadline, because its length is unknown.
    #[must_use]
    pub fn timed(self: &Arc<Self>, answer: Answer) -> Answer {
        match answer.body().size_hint().exact() {
            Some(bytes) if bytes > SMALL_BYTES_MAX as u64 => {
                let deadline = self.begin(bytes);
                answer.map(|body| body.with(deadline))
            }
            _ => answer,
        }
    }

    /// Returns the earliest deadline.
    #[must_use]
    pub fn earliest(&self) -> Option<Instant> {
        let earliest = self.earliest.load(Ordering::Relaxed);
        (earliest != NONE).then(|| self.began + Duration::from_millis(earliest))
    }

    fn begin(self: &Arc<Self>, bytes: u64) -> Deadline {
        let its_time = Duration::from_millis(bytes.saturating_mul(1_000) / BYTES_PER_SECOND);
        let at = self.began.elapsed() + self.patience + its_time;
        let at = u64::try_from(at.as_millis()).unwrap_or(NONE);
        self.change(|all| all.push(at));
        Deadline {
            of: Arc::clone(self),
            at,
        }
    }

    fn change(&self, change: impl FnOnce(&mut Vec<u64>)) {
        let mut all = self.all.lock();
        change(&mut all);
        let earliest = all.iter().min().copied().unwrap_or(NONE);
        self.earliest.store(earliest, Ordering::Relaxed);
    }
}

/// The deadline of one response, which is removed on drop.
struct Deadline {
    of: Arc<Deadlines>,
    at: u64,
}

impl Drop for Deadline {
    fn drop(&mut self) {
        self.of.change(|all| {
            if let Some(place) = all.iter().position(|at| *at == self.at) {
                all.swap_remove(place);
            }
        });
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::convert::Infallible;
    use std::io;

    use http_body_util::BodyExt as _;
    use hyper::StatusCode;
    use hyper::server::conn::{http1, http2};
    use hyper::service::service_fn;
    use hyper_util::rt::{TokioExecutor, TokioIo};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
    use tokio::task::JoinHandle;

    use super::*;
    use crate::http::connection::frames::{Frames, Patience};
    use crate::http::connection::head_limit::HeadLimit;
    use crate::http::connection::timed_io::{Stop, TimedIo};
    use crate::http::limits::portions::ResponseBudget;
    use crate::http::response::answer_body::AnswerBody;
    use crate::http::response::json;
    use crate::http::response::pieces::pieces;

    const PATIENCE: Duration = Duration::from_secs(30);
    const HOUR: Duration = Duration::from_secs(3_600);
    /// Length of a body whose deadline is after 30 and 16 seconds.
    const BYTES: usize = 1 << 20;
    const DUE: Duration = Duration::from_secs(46);

    #[tokio::test(start_paused = true)]
    async fn a_large_answer_has_its_time_by_its_size_until_the_last_of_it_is_gone() {
        let deadlines = Deadlines::new(PATIENCE);
        let timed = |bytes: usize| deadlines.timed(json(StatusCode::OK, vec![7; bytes]));
        let begun = Instant::now();
        let left = || deadlines.earliest().map(|earliest| earliest - begun);
        let _small = timed(16 << 10);
        let (_sender, stream) = pieces(1);
        let _stream = deadlines.timed(Answer::new(AnswerBody::Stream(stream)));
        assert_eq!(left(), None);
        let large = timed(BYTES);
        let _larger = timed(4 * BYTES);
        assert_eq!(left(), Some(DUE));
        let mut whole = large.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(whole, vec![7; BYTES]);
        let last = whole.split_off(BYTES - 1);
        drop(whole);
        assert_eq!(left(), Some(DUE));
        drop(last);
        assert_eq!(left(), Some(PATIENCE + Duration::from_secs(64)));
    }

    /// The result of a connection, and when it ended.
    type Ended = JoinHandle<(Result<(), hyper::Error>, Instant)>;

    fn served_http1(deadlines: &Arc<Deadlines>) -> (DuplexStream, Ended) {
        let (near, far) = tokio::io::duplex(1_024);
        let timed = TimedIo::new(near, PATIENCE, Stop::default())
            .http1(
                HeadLimit::new(HOUR, HOUR),
                Arc::new(|_| unreachable!("all heads can be parsed")),
            )
            .within(Arc::clone(deadlines));
        let deadlines = Arc::clone(deadlines);
        let respond = service_fn(move |_| {
            let answer = deadlines.timed(json(StatusCode::OK, vec![7; BYTES]));
            async move { Ok::<_, Infallible>(answer) }
        });
        let connection = http1::Builder::new()
            .header_read_timeout(None)
            .serve_connection(TokioIo::new(timed), respond);
        let ended = tokio::spawn(async { (connection.await, Instant::now()) });
        (far, ended)
    }

    async fn is_late(ended: Ended, begun: Instant, deadlines: &Deadlines) {
        let (ended, at) = ended.await.unwrap();
        let error = format!("{:?}", ended.unwrap_err());
        let late = format!("{:?}", io::ErrorKind::TimedOut);
        assert!(error.contains(&late), "{error}");
        let took = at - begun;
        assert!(
            (DUE..DUE + Duration::from_secs(1)).contains(&took),
            "{took:?}"
        );
        assert_eq!(deadlines.earliest(), None, "what it held is free");
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_reading_byte_by_byte_is_cut_off_at_the_deadline() {
        let deadlines = Deadlines::new(PATIENCE);
        let begun = Instant::now();
        let (mut far, ended) = served_http1(&deadlines);
        far.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
            .await
            .unwrap();
        while !ended.is_finished() {
            assert!(begun.elapsed() < HOUR);
            far.read_u8().await.unwrap();
            tokio::time::sleep(Duration::from_secs(10)).await;
        }
        is_late(ended, begun, &deadlines).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_reading_in_time_gets_large_responses_one_after_another() {
        let deadlines = Deadlines::new(PATIENCE);
        let (mut far, ended) = served_http1(&deadlines);
        for _ in 0..3 {
            far.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
                .await
                .unwrap();
            let (mut piece, mut taken) = ([0; 1_024], 0);
            while taken < BYTES {
                let read = far.read(&mut piece).await.unwrap();
                taken += piece[..read].iter().filter(|byte| **byte == 7).count();
                tokio::time::sleep(Duration::from_millis(30)).await;
            }
            assert_eq!(taken, BYTES);
            assert_eq!(deadlines.earliest(), None);
            tokio::time::sleep(DUE * 2).await;
        }
        assert!(!ended.is_finished());
    }

    fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
        let length = u8::try_from(payload.len()).unwrap();
        [&[0, 0, length, kind, flags, 0, 0, 0, stream], payload].concat()
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_opening_its_window_byte_by_byte_is_cut_off_at_the_deadline() {
        let deadlines = Deadlines::new(PATIENCE);
        let begun = Instant::now();
        let (near, far) = tokio::io::duplex(65_536);
        let patience = Patience {
            idle: HOUR,
            head: HOUR,
            answer: PATIENCE,
        };
        let timed = TimedIo::new(near, PATIENCE, Stop::default())
            .http2(Frames::new(patience, begun))
            .within(Arc::clone(&deadlines));
        let (its, held) = (Arc::clone(&deadlines), ResponseBudget::default());
        let respond = service_fn(move |_| {
            let answer = its.timed(json(StatusCode::OK, vec![7; BYTES]));
            let answer = answer.map(|body| held.portioned(body, None));
            async move { Ok::<_, Infallible>(answer) }
        });
        let connection = http2::Builder::new(TokioExecutor::new())
            .serve_connection(TokioIo::new(timed), respond);
        let ended = tokio::spawn(async { (connection.await, Instant::now()) });
        let (mut said, mut far) = tokio::io::split(far);
        let heard = tokio::spawn(async move {
            let mut all = Vec::new();
            said.read_to_end(&mut all).await.map(|_| all)
        });
        far.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
            .await
            .unwrap();
        // Settings without a window for streams; then `GET http://a/`.
        let windows = frame(4, 0, 0, &[0, 4, 0, 0, 0, 0]);
        let asked = frame(1, 5, 1, &[0x82, 0x84, 0x86, 0x01, 1, b'a']);
        far.write_all(&[windows, asked].concat()).await.unwrap();
        while !ended.is_finished() {
            assert!(begun.elapsed() < HOUR);
            let _ = far.write_all(&frame(8, 0, 1, &[0, 0, 0, 1])).await;
            tokio::time::sleep(Duration::from_secs(10)).await;
        }
        is_late(ended, begun, &deadlines).await;
        let heard = heard.await.unwrap().unwrap();
        let taken = heard.iter().filter(|byte| **byte == 7).count();
        assert!(taken >= 4, "it was sent as it was taken: {taken}");
    }
}
