//! A whole service in this process, on a simulated disk and a clock that is set: what a server cannot
//! be made to do from outside. Its answers are judged by the API document, as those of every server.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use carebook::base::time::Timestamp;
use carebook::cli::open::Replaying;
use carebook::engine::channel::Bounds;
use carebook::engine::channel::schedule::Failure;
use carebook::engine::clock::Clock;
use carebook::engine::role::Role;
use carebook::engine::webhooks::handle::{Delivered, OutgoingEvent, Sender, Sending, Webhooks};
use carebook::engine::{Engine, Limits};
use carebook::http::service::Service;
use carebook::http::token::{KeyRequests, TokenVerifier};
use carebook::http::webhooks::managing::WebhookFront;
use carebook::http::webhooks::secret::MasterKey;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body, Frame};
use serde_json::Value;
use wal::storage::Storage;
use wal::storage::sim::SimDisk;
use wal::{Log, Options};

use super::document::{Sent, judge};
use super::gated::{Gate, OpenInTheEnd, syncing_through};
use super::watched::Watched;
use super::{AUDIENCE, Answer, ISSUER, World, until};

/// The system's clock, which can be set to run ahead, to be ahead, and to panic.
#[derive(Default)]
pub struct OddClock {
    panics: AtomicBool,
    panicked: AtomicBool,
    ahead: AtomicI64,
    /// Milliseconds by which it is wrong, which the steady clock is not.
    wrong: AtomicI64,
}

impl OddClock {
    /// Reading it panics from here on, or no longer.
    pub fn panic(&self, panics: bool) {
        self.panics.store(panics, Ordering::SeqCst);
    }

    /// Whether reading it has panicked.
    pub fn has_panicked(&self) -> bool {
        self.panicked.load(Ordering::SeqCst)
    }

    /// So much time passes.
    pub fn run(&self, time: Duration) {
        let millis = i64::try_from(time.as_millis()).unwrap();
        self.ahead.fetch_add(millis, Ordering::SeqCst);
    }

    /// It is ahead of the time by so much from here on.
    pub fn set_ahead(&self, time: Duration) {
        let millis = i64::try_from(time.as_millis()).unwrap();
        self.wrong.store(millis, Ordering::SeqCst);
    }

    fn since_1970(&self) -> Duration {
        let ahead = u64::try_from(self.ahead.load(Ordering::SeqCst)).unwrap();
        let system = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        system.unwrap() + Duration::from_millis(ahead)
    }
}

impl Clock for OddClock {
    fn now(&self) -> Timestamp {
        if self.panics.load(Ordering::SeqCst) {
            self.panicked.store(true, Ordering::SeqCst);
            panic!("in a clock, as it was told to");
        }
        let wrong = self.wrong.load(Ordering::SeqCst);
        Timestamp::from_millis(i64::try_from(self.since_1970().as_millis()).unwrap() + wrong)
    }

    fn steady(&self) -> Duration {
        self.since_1970()
    }
}

/// What brings webhooks nowhere: each is refused, or its receiver is gone.
#[derive(Default)]
pub struct Nowhere {
    is_gone: AtomicBool,
    sent: parking_lot::Mutex<Vec<OutgoingEvent>>,
}

impl Nowhere {
    /// The events that were to be brought, each once, in the order of their first attempts.
    pub fn sent(&self) -> Vec<OutgoingEvent> {
        self.sent.lock().clone()
    }

    /// From here on receivers say that they are gone.
    pub fn go(&self) {
        self.is_gone.store(true, Ordering::SeqCst);
    }
}

impl Sender for Nowhere {
    fn send(self: Arc<Self>, outgoing: OutgoingEvent) -> Sending {
        {
            let mut sent = self.sent.lock();
            if sent.iter().all(|before| before.id != outgoing.id) {
                sent.push(outgoing);
            }
        }
        let delivered = match self.is_gone.load(Ordering::SeqCst) {
            true => Delivered::Gone,
            false => Delivered::Failed(Failure {
                status: Some(500),
                error: "it was told to".into(),
                retry_after: None,
            }),
        };
        Box::pin(async { delivered })
    }
}

/// How a service in this process is to be.
pub struct Wanted {
    pub disk: SimDisk,
    pub commands_max: usize,
    pub keys: Option<Arc<KeyRequests>>,
    pub role: Role,
    /// What syncs go through.
    pub gate: Arc<Gate>,
}

impl Default for Wanted {
    fn default() -> Self {
        Self {
            disk: SimDisk::new(),
            commands_max: Limits::default().commands_max,
            keys: None,
            role: Role::Writer,
            gate: Arc::default(),
        }
    }
}

/// A service in this process; what it does is to be done on a lane of its engine's.
pub struct Inside {
    pub clock: Arc<OddClock>,
    pub disk: SimDisk,
    failing: Arc<AtomicBool>,
    pub service: Service,
    pub receivers: Arc<Nowhere>,
    pub dispatcher: Webhooks,
    /// Delivers webhooks for as long as it is polled.
    pub deliveries: parking_lot::Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>,
}

/// The disk, on which the next batch of records fails to be synced once that is said. Segments that
/// are made ahead of need are synced by another thread, which tries again.
fn failing_when_told(disk: &SimDisk, failing: &Arc<AtomicBool>) -> Arc<dyn Storage> {
    let (disk, failing) = (disk.clone(), Arc::clone(failing));
    let storage = disk.storage();
    Arc::new(Watched::new(storage, move |call, _| {
        let is_journal = std::thread::current().name() == Some("wal-journal");
        if call == "sync" && is_journal && failing.swap(false, Ordering::SeqCst) {
            disk.fail_sync(0);
        }
    }))
}

impl Inside {
    /// The next commit fails to be synced.
    pub fn fail_next_commit(&self) {
        self.failing.store(true, Ordering::SeqCst);
    }

    /// The same, whose syncs go through a gate; that is opened when what comes last is dropped.
    pub fn gated(world: &World) -> (Self, Arc<Gate>, OpenInTheEnd) {
        let gate: Arc<Gate> = Arc::default();
        let wanted = Wanted {
            gate: Arc::clone(&gate),
            ..Wanted::default()
        };
        let inside = Self::start(world, wanted);
        // Whoever waits at the gate from here on waits for a record, not for the segment that is made ahead.
        let is_segment = |name: &String| name.starts_with("segment-") && name.ends_with(".log");
        let segments = || inside.disk.names().into_iter().filter(is_segment).count();
        until("the next segment is made", || segments() == 2);
        (inside, Arc::clone(&gate), OpenInTheEnd(gate))
    }

    /// A service whose tokens the world's key signs.
    pub fn start(world: &World, wanted: Wanted) -> Self {
        let Wanted {
            disk,
            commands_max,
            keys,
            role,
            gate,
        } = wanted;
        let mut replaying = Replaying::new("recovering");
        // No sync is that of a seal, which no command waits for.
        let options = Options {
            seal_after: Duration::from_secs(3_600),
            ..Options::default()
        };
        let failing = Arc::new(AtomicBool::new(false));
        let storage = syncing_through(&gate, failing_when_told(&disk, &failing));
        let (log, _) = Log::open(storage, options, &mut replaying).unwrap();
        let limits = Limits {
            commands_max,
            ..Limits::default()
        };
        let clock = Arc::new(OddClock::default());
        let time = Arc::clone(&clock) as _;
        let on_fatal = Box::new(|_: &wal::Error| ());
        let engine = Engine::start_as(role, log, replaying.finish(), 1, limits, time, on_fatal);
        let engine = Arc::new(engine.unwrap());
        let verifier = TokenVerifier::new(world.key.jwks().as_bytes(), ISSUER, AUDIENCE);
        let verifier = verifier.unwrap();
        let verifier = Arc::new(match keys {
            Some(keys) => verifier.asking(keys),
            None => verifier,
        });
        let receivers = Arc::new(Nowhere::default());
        let sender = Arc::clone(&receivers) as _;
        // A delivery that is refused is dead soon.
        let bounds = Bounds {
            hurry: 1_000_000,
            ..Bounds::default()
        };
        let (dispatcher, deliveries) = engine.deliver_webhooks(sender, bounds, 1_000);
        let front = WebhookFront {
            key: Arc::new(MasterKey::new(&[7; 32])),
            dispatcher: dispatcher.clone(),
        };
        Self {
            dispatcher,
            clock,
            disk,
            failing,
            service: Service::new(engine, verifier).with_webhooks(front),
            receivers,
            deliveries: parking_lot::Mutex::new(Some(Box::pin(deliveries))),
        }
    }

    pub fn engine(&self) -> &Arc<Engine> {
        self.service.engine()
    }

    /// Sends JSON, or nothing, with an idempotency key; its answer, as of [`Inside::send`].
    pub async fn send_json(
        &self,
        method: &str,
        path: &str,
        token: &str,
        key: &str,
        body: Option<Value>,
    ) -> Answer {
        let bearer = format!("Bearer {token}");
        let mut headers = vec![("Authorization", bearer.as_str())];
        headers.extend(body.as_ref().map(|_| ("Content-Type", "application/json")));
        headers.push(("Idempotency-Key", key));
        let body = body.map_or_else(String::new, |body| body.to_string());
        let body = Full::new(Bytes::from(body));
        self.send(method, path, &headers, body).await
    }

    /// Sends a request; its answer, which the API document has. A body whose content is not known
    /// beforehand is not judged.
    pub async fn send<B>(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: B,
    ) -> Answer
    where
        B: Body<Data = Bytes> + Unpin,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let mut request = hyper::Request::builder().method(method).uri(path);
        // One of its own takes the clock.
        request = request.header("x-request-id", "inside");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let caller = self.service.caller([127, 0, 0, 1].into(), false);
        let answer = self.service.handle(&caller, request.body(body).unwrap());
        let (head, body) = answer.await.into_parts();
        let told = |(name, value): (&hyper::header::HeaderName, &hyper::header::HeaderValue)| {
            (name.to_string(), value.to_str().unwrap().to_owned())
        };
        let answer = Answer {
            status: head.status.as_u16(),
            headers: head.headers.iter().map(told).collect(),
            body: body.collect().await.unwrap().to_bytes().to_vec(),
        };
        let sent = Sent {
            method,
            path,
            headers,
            body: &[],
        };
        judge(sent, answer.received());
        answer
    }
}

/// A body that fails with an error of this kind when it is asked for.
pub struct Broken(pub std::io::ErrorKind);

impl Body for Broken {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Poll::Ready(Some(Err(self.0.into())))
    }
}
