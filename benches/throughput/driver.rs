//! The load generator: as little work as possible beside the server's on the same machine.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::server::Server;
use crate::workload::Request;

/// What a run measured.
pub(crate) struct Figures {
    elapsed: Duration,
    /// Latencies in microseconds, ascending.
    latencies: Vec<u32>,
    /// The bodies of the answers, in the order in which they came.
    bodies: Vec<Vec<u8>>,
    /// Bytes of the bodies of all requests, and of all answers.
    sent: usize,
    received: usize,
    /// Processor time of the server, in user and in kernel mode, in microseconds.
    processor: (u64, u64),
}

impl Figures {
    /// Processor time of the server for one command, in user and in kernel mode, in microseconds.
    /// Unlike the rate, it hardly depends on what else the machine is doing.
    pub(crate) fn processor_per_command(&self) -> (f64, f64) {
        #[allow(clippy::cast_precision_loss)]
        let each = |micros: u64| micros as f64 / self.latencies.len() as f64;
        (each(self.processor.0), each(self.processor.1))
    }

    /// The mean length of a request's body and of an answer's, in bytes.
    pub(crate) fn body_bytes(&self) -> (f64, f64) {
        #[allow(clippy::cast_precision_loss)]
        let each = |bytes: usize| bytes as f64 / self.latencies.len() as f64;
        (each(self.sent), each(self.received))
    }

    /// The bodies of the answers, in the order in which they came; they are gone from here.
    pub(crate) fn take_bodies(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.bodies)
    }

    pub(crate) fn answers(&self) -> usize {
        self.latencies.len()
    }

    pub(crate) fn per_second(&self) -> f64 {
        #[allow(clippy::cast_precision_loss)]
        let answers = self.latencies.len() as f64;
        answers / self.elapsed.as_secs_f64()
    }

    /// The latency in microseconds that the share `quantile` of all answers did not exceed.
    pub(crate) fn percentile(&self, quantile: f64) -> u32 {
        #[allow(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss
        )]
        let rank = (self.latencies.len() as f64 * quantile).ceil() as usize;
        self.latencies[rank.saturating_sub(1).min(self.latencies.len() - 1)]
    }
}

/// What the connections share.
struct Shared {
    requests: std::vec::IntoIter<Request>,
    latencies: Vec<u32>,
    bodies: Vec<Vec<u8>>,
}

/// Sends the requests over `connections`, each of which waits for its answer before it sends the
/// next; every answer must have this status.
pub(crate) fn run(
    server: &Server,
    connections: usize,
    requests: Vec<Request>,
    status: u16,
) -> Figures {
    let count = requests.len();
    let sent = requests.iter().map(|request| body_of(request).len()).sum();
    let address = server.address();
    let before = server.processor_micros();
    let shared = Rc::new(RefCell::new(Shared {
        requests: requests.into_iter(),
        latencies: Vec::with_capacity(count),
        bodies: Vec::with_capacity(count),
    }));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let local = tokio::task::LocalSet::new();
    let elapsed = local.block_on(&runtime, async {
        let mut streams = Vec::new();
        for _ in 0..connections {
            let stream = TcpStream::connect(address).await.unwrap();
            stream.set_nodelay(true).unwrap();
            streams.push(stream);
        }
        let started = Instant::now();
        let tasks: Vec<_> = streams
            .into_iter()
            .map(|stream| tokio::task::spawn_local(connection(stream, Rc::clone(&shared), status)))
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        started.elapsed()
    });
    let after = server.processor_micros();
    let shared = Rc::into_inner(shared).unwrap().into_inner();
    let mut latencies = shared.latencies;
    latencies.sort_unstable();
    Figures {
        elapsed,
        latencies,
        received: shared.bodies.iter().map(Vec::len).sum(),
        bodies: shared.bodies,
        sent,
        processor: (after.0 - before.0, after.1 - before.1),
    }
}

async fn connection(mut stream: TcpStream, shared: Rc<RefCell<Shared>>, status: u16) {
    let expected = format!("HTTP/1.1 {status}");
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let Some(request) = shared.borrow_mut().requests.next() else {
            return;
        };
        let started = Instant::now();
        stream.write_all(&request).await.unwrap();
        let mut filled = 0;
        let body = loop {
            let read = stream.read(&mut buffer[filled..]).await.unwrap();
            assert_ne!(read, 0, "the server closed the connection");
            filled += read;
            if let Some(body) = whole(&buffer[..filled]) {
                break body;
            }
        };
        let latency = u32::try_from(started.elapsed().as_micros()).unwrap();
        assert!(
            buffer.starts_with(expected.as_bytes()),
            "{}",
            String::from_utf8_lossy(&buffer[..filled])
        );
        let mut shared = shared.borrow_mut();
        shared.latencies.push(latency);
        shared.bodies.push(buffer[body].to_vec());
    }
}

/// The body of a request: what comes after the blank line.
fn body_of(request: &[u8]) -> &[u8] {
    let head = request.windows(4).position(|window| window == b"\r\n\r\n");
    &request[head.unwrap() + 4..]
}

/// Where the body is, when the answer is there as a whole.
fn whole(answer: &[u8]) -> Option<std::ops::Range<usize>> {
    const NAME: &[u8] = b"content-length: ";
    let head = answer.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let at = answer[..head]
        .windows(NAME.len())
        .position(|window| window == NAME)?
        + NAME.len();
    let digits = answer[at..head]
        .iter()
        .take_while(|byte| byte.is_ascii_digit());
    let length = digits.fold(0, |sum, digit| sum * 10 + usize::from(digit - b'0'));
    (answer.len() >= head + length).then_some(head..head + length)
}
