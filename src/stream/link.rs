//! The process's hold on the journal: whether it writes, what it has appended, and what it is told
//! of trouble.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::sleep;
use wal::WakeUp;

use super::append::{Appended, Appending, Watched};
use super::chain::Tail;
use super::connection::Connection;
use super::error::StreamError;
use super::figures::Figures;
use super::holding::Holding;
use super::message::{Content, Message, MessageDigest, NODE_BYTES_MAX, Node};
use crate::engine::right::{Confirming, Right};

/// How often the stream's room is asked for, and who wrote last.
const LOOK: Duration = Duration::from_secs(1);
/// Free room of the stream below which commands are refused: what is decided still finds room.
const RESERVE_BYTES: u64 = 96 << 20;

/// What a writer goes on from.
struct Pen {
    tail: Tail,
    log_id: [u8; 16],
    epoch: u64,
}

/// What is known of this process's right to write.
#[derive(Clone, Copy, Debug, Default)]
struct Confirmed {
    /// When the last append that is acknowledged began.
    began: Option<Instant>,
    /// Nothing more will be.
    ended: bool,
}

/// The process's hold on the journal.
pub struct Link {
    connection: Arc<Connection>,
    /// Random bytes of this process.
    token: [u8; 16],
    node: String,
    /// `None` while another process writes, or nobody does.
    pen: tokio::sync::Mutex<Option<Pen>>,
    writes: AtomicBool,
    confirmed: watch::Sender<Confirmed>,
    /// When a barrier has to have begun at the earliest, for those that wait for one.
    wanted: Mutex<Option<Instant>>,
    barrier: Notify,
    lease: Mutex<Option<Arc<Holding>>>,
    /// Whether answers rest on the lease while it holds, and not on appends.
    relies: AtomicBool,
    ended: OnceLock<StreamError>,
    /// Wakes the journal's thread, so that it asks for the end.
    wake_up: OnceLock<WakeUp>,
    /// Why nothing is taken just now.
    trouble: Mutex<Option<Arc<str>>>,
    /// No more is taken: what is queued is not waited for where there is no room.
    draining: AtomicBool,
    /// Free bytes of the stream, as of the last look less what was appended since.
    room: AtomicU64,
    reserve: AtomicU64,
    figures: Figures,
}

impl Link {
    /// A hold on the journal that does not write yet. `token` is random.
    #[must_use]
    pub fn new(connection: Arc<Connection>, node: &str, token: [u8; 16]) -> Arc<Self> {
        let mut node = node.to_owned();
        node.truncate(node.floor_char_boundary(NODE_BYTES_MAX));
        let link = Arc::new(Self {
            connection,
            token,
            node,
            pen: tokio::sync::Mutex::new(None),
            writes: AtomicBool::new(false),
            confirmed: watch::Sender::new(Confirmed::default()),
            wanted: Mutex::new(None),
            barrier: Notify::new(),
            lease: Mutex::new(None),
            relies: AtomicBool::new(false),
            ended: OnceLock::new(),
            wake_up: OnceLock::new(),
            trouble: Mutex::new(None),
            draining: AtomicBool::new(false),
            room: AtomicU64::new(u64::MAX),
            reserve: AtomicU64::new(0),
            figures: Figures::default(),
        });
        let handle = link.connection.handle();
        handle.spawn(barriers(Arc::downgrade(&link)));
        handle.spawn(looks(Arc::downgrade(&link)));
        link
    }

    /// The connection to the servers.
    #[must_use]
    pub fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    /// The name of this node.
    #[must_use]
    pub fn node(&self) -> &str {
        &self.node
    }

    /// This process, as no other one is named.
    #[must_use]
    pub fn process(&self) -> String {
        crate::base::digest::hex(&self.token)
    }

    /// What was counted.
    #[must_use]
    pub fn figures(&self) -> &Figures {
        &self.figures
    }

    /// Whether this process writes.
    #[must_use]
    pub fn writes(&self) -> bool {
        self.writes.load(Ordering::Acquire) && self.ended.get().is_none()
    }

    /// Why this process does not go on, when that is so.
    #[must_use]
    pub fn ended(&self) -> Option<&StreamError> {
        self.ended.get()
    }

    /// This process has the lease; where it `relies` on it, answers rest on it while it holds, and
    /// not on appends.
    pub(super) fn has_lease(&self, lease: Arc<Holding>, relies: bool) {
        *self.lease.lock() = Some(lease);
        self.relies.store(relies, Ordering::Release);
    }

    /// How long ago the lease was renewed; `None` when this process never had it.
    #[must_use]
    pub fn lease_age(&self) -> Option<Duration> {
        self.lease.lock().as_ref()?.age()
    }

    /// Begins the next epoch after everything that was read; `false` when something was appended
    /// meanwhile, which is to be read first. Whoever wrote before writes nothing more once this is
    /// true.
    ///
    /// # Errors
    /// When it is not known in time whether it has begun, or the servers refuse it.
    pub async fn fence(&self, tail: &Tail, log_id: [u8; 16]) -> Result<bool, StreamError> {
        let mut pen = self.pen.lock().await;
        if let Some(ended) = self.ended.get() {
            return Err(ended.clone());
        }
        let epoch = tail.epoch + 1;
        let node = Node {
            token: self.token,
            name: &self.node,
        };
        let mut begins = Pen {
            tail: tail.clone(),
            log_id,
            epoch,
        };
        let began = Instant::now();
        if let Appended::Other(_) = self.append_by(&mut begins, Content::Fence(node)).await? {
            return Ok(false);
        }
        *pen = Some(begins);
        self.figures.begins(epoch);
        self.writes.store(true, Ordering::Release);
        self.acknowledged(began);
        Ok(true)
    }

    /// Appends, and goes on once that is acknowledged.
    ///
    /// # Errors
    /// The end of this process's hold: whether it was appended is told by the error.
    pub async fn append(&self, content: Content<'_>) -> Result<(), StreamError> {
        self.append_unless(content, || false).await
    }

    /// As [`Link::append`], unless it is needless when its turn has come.
    async fn append_unless(
        &self,
        content: Content<'_>,
        is_needless: impl Fn() -> bool,
    ) -> Result<(), StreamError> {
        let mut pen = self.pen.lock().await;
        if let Some(ended) = self.ended.get() {
            return Err(ended.clone());
        }
        let Some(pen) = pen.as_mut() else {
            return Err(StreamError::Stopped);
        };
        if is_needless() {
            return Ok(());
        }
        let began = Instant::now();
        let appended = match self.append_by(pen, content).await {
            Ok(Appended::Ours) => Ok(()),
            Ok(Appended::Other(by)) => Err(StreamError::Fenced { by }),
            Err(error) => Err(error),
        };
        match appended {
            Ok(()) => {
                self.acknowledged(began);
                Ok(())
            }
            Err(error) => {
                self.end(error.clone());
                Err(error)
            }
        }
    }

    async fn append_by(
        &self,
        pen: &mut Pen,
        content: Content<'_>,
    ) -> Result<Appended, StreamError> {
        let (bytes, digest) = pen.tail.place(pen.log_id, pen.epoch).message(content);
        let message = Message::read(&bytes).map_err(|_| StreamError::Refused {
            what: format!("a message of {} bytes is too large", bytes.len()),
        })?;
        let tail = Tail::after(pen.tail.sequence + 1, &message);
        debug_assert_eq!(tail.digest, digest);
        let length = bytes.len() as u64;
        let id = self.id(pen.epoch, pen.tail.next, &digest);
        let appending = Appending {
            connection: &self.connection,
            after: pen.tail.sequence,
            id: &id,
            bytes: bytes.clone(),
        };
        let _counted = self.figures.begins_append();
        let appended = appending.run(self).await?;
        if appended == Appended::Ours {
            pen.tail = tail;
            let _ = self
                .room
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |room| {
                    (room != u64::MAX).then(|| room.saturating_sub(length))
                });
            self.trouble.lock().take();
        }
        Ok(appended)
    }

    /// By which the servers know a message again: no other process has it, and no other message.
    fn id(&self, epoch: u64, first: u64, digest: &MessageDigest) -> String {
        let token = crate::base::digest::hex(&self.token[..8]);
        let digest = crate::base::digest::hex(&digest[..8]);
        format!("{epoch}:{first}:{token}:{digest}")
    }

    fn acknowledged(&self, began: Instant) {
        self.confirmed.send_modify(|confirmed| {
            confirmed.began = Some(began);
        });
    }

    /// This process does not write any more.
    pub fn end(&self, error: StreamError) {
        if self.ended.set(error).is_err() {
            return;
        }
        self.confirmed
            .send_modify(|confirmed| confirmed.ended = true);
        if let Some(wake_up) = self.wake_up.get() {
            wake_up();
        }
    }

    /// How the journal's thread is woken.
    pub(super) fn wake_by(&self, wake_up: WakeUp) {
        let _ = self.wake_up.set(wake_up);
    }

    /// What is queued is not waited for any more where there is no room.
    pub(super) fn drain(&self) {
        self.draining.store(true, Ordering::Release);
    }

    /// Why nothing new is to be appended; `None` when something may.
    #[must_use]
    pub fn lack(&self) -> Option<Arc<str>> {
        if self.ended.get().is_some() {
            return Some("this process does not write it any more".into());
        }
        if !self.writes() {
            // Nothing of its own is appended here.
            return None;
        }
        if let Some(trouble) = self.trouble.lock().clone() {
            return Some(trouble);
        }
        if !self.connection.is_up() {
            return Some(self.connection.fault().into());
        }
        let (room, reserve) = (&self.room, &self.reserve);
        let (room, reserve) = (
            room.load(Ordering::Relaxed),
            reserve.load(Ordering::Relaxed),
        );
        (room < reserve).then(|| {
            format!(
                "{room} bytes are free in the stream, and {reserve} are the reserve: raise its \
                 max_bytes"
            )
            .into()
        })
    }

    /// Whether this process still is the one that writes, so that what it answers rests on the
    /// newest state: once an append that began no sooner than `came` is acknowledged, or while its
    /// lease holds.
    async fn confirm_since(&self, came: Instant) -> bool {
        if self.relies.load(Ordering::Acquire)
            && self
                .lease
                .lock()
                .as_ref()
                .is_some_and(|lease| lease.holds())
        {
            return self.ended.get().is_none();
        }
        let is_after = |confirmed: &Confirmed| {
            confirmed.ended || confirmed.began.is_some_and(|began| began >= came)
        };
        let mut confirmed = self.confirmed.subscribe();
        let known = *confirmed.borrow();
        if is_after(&known) {
            return !known.ended;
        }
        {
            let mut wanted = self.wanted.lock();
            *wanted = Some(wanted.map_or(came, |wanted| wanted.max(came)));
        }
        self.barrier.notify_one();
        match confirmed.wait_for(is_after).await {
            Ok(confirmed) => !confirmed.ended,
            Err(_) => false,
        }
    }

    async fn look(&self) -> Result<(), StreamError> {
        let before = self.room.load(Ordering::Relaxed);
        let info = self.connection.info_now().await?;
        let room = info.bytes_max.saturating_sub(info.bytes);
        // What was appended while the servers answered is counted again at the next look.
        let _ = self
            .room
            .compare_exchange(before, room, Ordering::Relaxed, Ordering::Relaxed);
        let reserve = RESERVE_BYTES.min(info.bytes_max / 4);
        self.reserve.store(reserve, Ordering::Relaxed);
        self.figures.stream_has(info.bytes, info.bytes_max);
        let Ok(pen) = self.pen.try_lock() else {
            return Ok(());
        };
        self.trouble.lock().take();
        let Some(tail) = pen.as_ref().map(|pen| &pen.tail) else {
            return Ok(());
        };
        if info.last <= tail.sequence {
            return Ok(());
        }
        // Somebody else has written: that is found out by the next append, which need not come.
        drop(pen);
        let _ = self.append(Content::Barrier).await;
        Ok(())
    }
}

impl Watched for Link {
    fn tries_again(&self, why: &str, is_full: bool) -> bool {
        self.figures.tries_again();
        *self.trouble.lock() = Some(why.into());
        !(is_full && self.draining.load(Ordering::Acquire))
    }
}

/// Appends a barrier whenever somebody waits for one and no append has come in time.
async fn barriers(link: Weak<Link>) {
    loop {
        let Some(strong) = link.upgrade() else {
            return;
        };
        let wanted = *strong.wanted.lock();
        let is_needless = || {
            let began = strong.confirmed.borrow().began;
            wanted.is_none_or(|wanted| began.is_some_and(|began| began >= wanted))
        };
        if !is_needless() && strong.ended.get().is_none() {
            let appended = strong.append_unless(Content::Barrier, is_needless).await;
            match appended {
                Ok(()) => strong.figures.barrier(),
                // Nobody writes here yet.
                Err(_) => sleep(Duration::from_millis(10)).await,
            }
            continue;
        }
        if strong.ended.get().is_some() {
            return;
        }
        // The link may be dropped while nobody asks.
        let _ = tokio::time::timeout(LOOK, strong.barrier.notified()).await;
    }
}

async fn looks(link: Weak<Link>) {
    loop {
        {
            let Some(link) = link.upgrade() else {
                return;
            };
            if link.ended.get().is_some() {
                return;
            }
            if let Err(error) = link.look().await {
                // Nobody knows whether an append would come to anything.
                *link.trouble.lock() = Some(error.to_string().into());
            }
        }
        sleep(LOOK).await;
    }
}

impl Right for Link {
    fn confirm(&self, came: Instant) -> Confirming<'_> {
        Box::pin(self.confirm_since(came))
    }
}
