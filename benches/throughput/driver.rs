//! The load generator: as little work as possible beside the server's on the same machine.
//!
//! A closed loop finds the capacity: each connection sends its next request when the answer to the
//! one before has come. An open loop finds the latency: requests are due at points of time that
//! were drawn before (a Poisson process, as many independent clients make one), and each latency
//! is counted from the point at which its request was due. A server that stalls therefore pays for
//! every request that was due meanwhile, and not for one alone.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use crate::check::{Checker, Request};
use crate::http::Connection;
use crate::samples::{Figures, Load, Sample, Samples};
use crate::server::Server;
use crate::timer::Timer;

/// Where the requests come from.
pub(crate) type Source = Box<dyn Iterator<Item = Request> + Send>;

/// How long answers may take after the last request has left.
const PATIENCE: Duration = Duration::from_secs(60);
/// Requests that may wait for a connection in an open loop; further ones are not sent, as by a
/// client that gives up. No request should have to wait: that is reported as a doubt.
pub(crate) const BACKLOG_MAX: usize = 100_000;
/// By how much the threads that keep to a schedule come before others, where that is allowed: on a
/// machine that the server keeps busy they would otherwise be late, and the server would pay.
const NICENESS: i32 = -10;
/// Requests that are sent one after the other, when they are late, before answers are looked at.
const BURST: usize = 32;
/// How far apart the sender wakes up at the least. At some 20,000 requests a second each wake-up of
/// its own for every one of them would take a quarter of a processor from the server; the wait is
/// part of the latency, and reported as lag.
const TICK: Duration = Duration::from_micros(250);

/// A run to be carried out.
pub(crate) struct Run {
    pub(crate) load: Load,
    /// The requests, a source for each thread that drives.
    pub(crate) sources: Vec<Source>,
    /// In an open loop: connections at the start, and at the most.
    pub(crate) connections: (usize, usize),
    /// In an open loop: requests that may wait for a connection.
    pub(crate) backlog: usize,
    /// In an open loop: when it ends, whatever was not sent.
    pub(crate) at_most: Option<Duration>,
    /// Of the points at which requests are due.
    pub(crate) seed: u64,
    /// Whether the bodies of the answers are kept.
    pub(crate) keep_bodies: bool,
}

impl Run {
    /// A closed loop of so many connections, driven by one thread.
    pub(crate) fn closed(connections: usize, source: Source) -> Self {
        Self {
            load: Load::Closed(connections),
            sources: vec![source],
            connections: (0, 0),
            backlog: BACKLOG_MAX,
            at_most: None,
            seed: 0,
            keep_bodies: false,
        }
    }
}

/// What the connections of one thread share.
struct Shared {
    source: Source,
    checker: Checker,
    samples: Samples,
    failure: Option<String>,
    keep_bodies: bool,
    /// In an open loop: connections that wait for a request, and requests for a connection.
    idle: Vec<Connection>,
    backlog: VecDeque<(Instant, Request)>,
    open: usize,
    in_flight: usize,
    started: Instant,
}

impl Shared {
    /// Whether every connection that there may be has a request on its way.
    fn is_full(&self, most: usize) -> bool {
        self.idle.is_empty() && self.open >= most
    }

    /// Checks a response and keeps what is to be reported of it.
    fn take(&mut self, request: &Request, status: u16, body: &[u8], since: Instant) {
        let now = Instant::now();
        let micros = |span: Duration| u32::try_from(span.as_micros()).unwrap_or(u32::MAX);
        let outcome = match self.checker.check(request, status, body) {
            Ok(outcome) => outcome,
            Err(wrong) => {
                self.failure.get_or_insert(wrong);
                return;
            }
        };
        self.samples.answers.push(Sample {
            at: micros(now - self.started),
            latency: micros(now - since),
            outcome,
        });
        self.samples.sent += request.body_bytes();
        self.samples.received += body.len();
        if self.keep_bodies {
            self.samples.bodies.push(body.to_vec());
        }
    }
}

/// Carries a run out.
///
/// # Errors
/// The first answer that was wrong, or what broke.
pub(crate) fn run(server: &Server, run: Run) -> Result<(Figures, Vec<Vec<u8>>), String> {
    let threads = run.sources.len();
    let ready = Arc::new(Barrier::new(threads + 1));
    let workers: Vec<_> = run
        .sources
        .into_iter()
        .enumerate()
        .map(|(index, source)| {
            let part = Part {
                address: server.address().to_owned(),
                load: run.load,
                connections: run.connections,
                backlog: run.backlog,
                at_most: run.at_most,
                threads,
                index,
                seed: run.seed,
                keep_bodies: run.keep_bodies,
                ready: Arc::clone(&ready),
            };
            std::thread::spawn(move || part.drive(source))
        })
        .collect();
    ready.wait();
    let before = (
        server.process().usage(),
        crate::proc::Process::this().usage(),
    );
    let (syncs, written) = (server.syncs(), server.device_written());
    ready.wait();
    let started = Instant::now();
    let mut samples = Samples::default();
    let mut last = started;
    for worker in workers {
        let (part, ended) = worker.join().map_err(|_| "a driving thread panicked")??;
        samples = samples.merge(part);
        last = last.max(ended);
    }
    let after = (
        server.process().usage(),
        crate::proc::Process::this().usage(),
    );
    let bodies = std::mem::take(&mut samples.bodies);
    let mut figures = Figures::new(run.load, last - started, samples);
    figures.server = after.0.since(before.0);
    figures.driver = after.1.since(before.1);
    let since = |(after, before): (u64, u64)| after.saturating_sub(before);
    figures.syncs = server.syncs().zip(syncs).map(since);
    figures.written = server.device_written().zip(written).map(since);
    Ok((figures, bodies))
}

/// What one thread does of a run.
struct Part {
    address: String,
    load: Load,
    connections: (usize, usize),
    backlog: usize,
    at_most: Option<Duration>,
    threads: usize,
    index: usize,
    seed: u64,
    keep_bodies: bool,
    ready: Arc<Barrier>,
}

impl Part {
    /// This thread's share of `all`.
    fn share(&self, all: usize) -> usize {
        all / self.threads + usize::from(self.index < all % self.threads)
    }

    fn drive(self, source: Source) -> Result<(Samples, Instant), String> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| error.to_string())?;
        tokio::task::LocalSet::new().block_on(&runtime, async move {
            let first = match self.load {
                Load::Closed(connections) => self.share(connections),
                Load::Open(_) => self.share(self.connections.0),
            };
            let mut idle = Vec::with_capacity(first);
            let mut failure = None;
            for _ in 0..first {
                match Connection::open(&self.address).await {
                    Ok(connection) => idle.push(connection),
                    Err(error) => failure = Some(error),
                }
            }
            // A thread that failed takes part in the start too, or the others would wait for ever.
            self.ready.wait();
            self.ready.wait();
            if let Some(failure) = failure {
                return Err(failure);
            }
            let shared = Rc::new(RefCell::new(Shared {
                source,
                checker: Checker::default(),
                samples: Samples::default(),
                failure: None,
                keep_bodies: self.keep_bodies,
                open: idle.len(),
                idle,
                backlog: VecDeque::new(),
                in_flight: 0,
                started: Instant::now(),
            }));
            match self.load {
                Load::Closed(_) => self.closed(&shared).await,
                Load::Open(rate) => self.open(&shared, rate / self.threads as f64).await?,
            }
            let ended = Instant::now();
            let mut shared = shared.borrow_mut();
            if let Some(failure) = shared.failure.take() {
                return Err(failure);
            }
            let mut samples = std::mem::take(&mut shared.samples);
            samples.connections = shared.open;
            Ok((samples, ended))
        })
    }

    async fn closed(&self, shared: &Rc<RefCell<Shared>>) {
        let connections = std::mem::take(&mut shared.borrow_mut().idle);
        let tasks: Vec<_> = connections
            .into_iter()
            .map(|connection| tokio::task::spawn_local(in_turn(connection, Rc::clone(shared))))
            .collect();
        for task in tasks {
            if task.await.is_err() {
                shared.borrow_mut().failure = Some("a connection's task panicked".to_owned());
            }
        }
    }

    async fn open(&self, shared: &Rc<RefCell<Shared>>, rate: f64) -> Result<(), String> {
        let mut timer = Timer::new().map_err(|error| format!("no timer: {error}"))?;
        let mut random = StdRng::seed_from_u64(self.seed ^ (self.index as u64) << 32);
        let most = self.share(self.connections.1).max(1);
        if self.backlog > 0 {
            // Only a privileged process may; the lag shows the effect. Where more is offered than
            // can be sent, it would take from the server what it needs to answer.
            let _ = rustix::process::setpriority_process(None, NICENESS);
        }
        let started = shared.borrow().started;
        let mut due = started;
        let mut woken = started;
        let mut late = 0;
        loop {
            // The gaps of a Poisson process are exponential.
            let gap = -(1.0 - random.random::<f64>()).ln() / rate;
            due += Duration::from_secs_f64(gap);
            if due > Instant::now() {
                let wake = due.max(woken + TICK);
                timer.until(wake).await.map_err(|error| error.to_string())?;
                woken = wake;
            }
            let now = Instant::now();
            if self.at_most.is_some_and(|most| now - started > most) {
                break;
            }
            let lag = now.saturating_duration_since(due);
            late = if lag.is_zero() { 0 } else { late + 1 };
            if self.backlog == 0 && shared.borrow().is_full(most) {
                // Not even made: that would take longer than to find no connection. Nor would all
                // the others that were due by now find one.
                let others = lag.as_secs_f64() * rate;
                shared.borrow_mut().samples.unsent += 1 + others as usize;
                woken = now + TICK;
                timer
                    .until(woken)
                    .await
                    .map_err(|error| error.to_string())?;
                due = now;
                late = 0;
            } else {
                let Some(request) = shared.borrow_mut().source.next() else {
                    break;
                };
                let drawn = random.random::<u32>() as usize;
                self.send(shared, most, (due, lag), request, drawn);
            }
            if late % BURST == BURST - 1 {
                tokio::task::yield_now().await;
            }
            if shared.borrow().failure.is_some() {
                return Ok(());
            }
        }
        let last = Instant::now();
        while shared.borrow().in_flight > 0 && shared.borrow().failure.is_none() {
            if last.elapsed() > PATIENCE {
                return Err(format!(
                    "answers are missing after {} s",
                    PATIENCE.as_secs()
                ));
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Ok(())
    }

    /// Hands a request to a free connection, to a new one, or to the next that is free. Which of
    /// the free ones is drawn, as it is with many clients: the one that was used last would have
    /// whatever part of a server is slow get the next request, too.
    fn send(
        &self,
        shared: &Rc<RefCell<Shared>>,
        most: usize,
        (due, lag): (Instant, Duration),
        request: Request,
        drawn: usize,
    ) {
        let mut state = shared.borrow_mut();
        let lag = u32::try_from(lag.as_micros()).unwrap_or(u32::MAX);
        state.samples.lags.push(lag);
        state.in_flight += 1;
        let full = state.is_full(most);
        let free = state.idle.len();
        let connection = (free > 0).then(|| state.idle.swap_remove(drawn % free));
        if full {
            if state.backlog.len() < self.backlog {
                state.samples.waited += 1;
                state.backlog.push_back((due, request));
            } else {
                state.in_flight -= 1;
                state.samples.unsent += 1;
            }
            return;
        }
        state.open += usize::from(connection.is_none());
        drop(state);
        let (shared, address) = (Rc::clone(shared), self.address.clone());
        tokio::task::spawn_local(async move {
            let connection = match connection {
                Some(connection) => Ok(connection),
                None => Connection::open(&address).await,
            };
            match connection {
                Ok(connection) => when_due(connection, shared, due, request).await,
                Err(error) => shared.borrow_mut().failure = Some(error),
            }
        });
    }
}

/// Sends one request after the other, until there are none.
async fn in_turn(mut connection: Connection, shared: Rc<RefCell<Shared>>) {
    loop {
        let request = {
            let mut shared = shared.borrow_mut();
            if shared.failure.is_some() {
                return;
            }
            shared.source.next()
        };
        let Some(request) = request else {
            return;
        };
        let started = Instant::now();
        let answer = connection.exchange(&request.bytes).await;
        let mut shared = shared.borrow_mut();
        match answer {
            Ok(answer) => {
                let body = connection.body(&answer);
                shared.take(&request, answer.status, body, started);
            }
            Err(error) => {
                shared.failure.get_or_insert(error);
            }
        }
    }
}

/// Sends a request that is due, then those that wait for a connection.
async fn when_due(
    mut connection: Connection,
    shared: Rc<RefCell<Shared>>,
    mut due: Instant,
    mut request: Request,
) {
    loop {
        let answer = connection.exchange(&request.bytes).await;
        let mut shared = shared.borrow_mut();
        shared.in_flight -= 1;
        match answer {
            Ok(answer) => {
                let body = connection.body(&answer);
                shared.take(&request, answer.status, body, due);
            }
            Err(error) => {
                shared.failure.get_or_insert(error);
                return;
            }
        }
        match shared.backlog.pop_front() {
            Some(next) => (due, request) = next,
            None => {
                shared.idle.push(connection);
                return;
            }
        }
    }
}
