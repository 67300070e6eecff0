//! The process's hold on the journal: whether it writes, what it has appended, and what trouble was
//! reported.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use wal::WakeUp;

use super::append::{Appended, Watched};
use super::chain::Tail;
use super::confirmations::Confirmations;
use super::connection::Connection;
use super::error::StreamError;
use super::figures::Figures;
use super::flight::{InFlightAppend, InFlightEvents, fly};
use super::lease_term::LeaseTerm;
use super::message::{Content, IN_FLIGHT_MAX, NODE_BYTES_MAX, Node};
use super::message_builder::{Made, MessageBuilder};
use super::room::Room;
use crate::engine::role::writer_proof::{Confirming, WriterProof};

/// How long a fence waits for room.
const FENCED_WITHIN: Duration = Duration::from_secs(10);

/// The process's hold on the journal.
pub struct JournalHandle {
    pub(super) connection: Arc<Connection>,
    /// Random bytes of this process.
    token: [u8; 16],
    node: String,
    /// `None` while this process does not write.
    pub(super) builder: Mutex<Option<MessageBuilder>>,
    /// Takes what is made, in order.
    flight: UnboundedSender<InFlightAppend>,
    /// How many messages may be in flight at the most.
    in_flight_max: AtomicUsize,
    writes: AtomicBool,
    pub(super) confirmations: Confirmations,
    lease: Mutex<Option<Arc<LeaseTerm>>>,
    /// Whether answers rest on the lease while it holds, and not on appends.
    relies: AtomicBool,
    pub(super) ended: OnceLock<StreamError>,
    /// Wakes the journal's thread, so that it asks for what is acknowledged, and for the end.
    wake_up: OnceLock<WakeUp>,
    /// Why nothing is taken just now.
    pub(super) trouble: Mutex<Option<Arc<str>>>,
    /// There was no room for the last append, and nothing was appended since.
    pub(super) is_full: AtomicBool,
    /// No more is taken: what is queued is not waited for where there is no room.
    draining: AtomicBool,
    /// Free bytes of the stream, as of the last look less what was appended since.
    pub(super) room: Room,
    pub(super) figures: Figures,
}

impl JournalHandle {
    /// A hold on the journal that does not write yet, and which nothing tends.
    pub(super) fn new(connection: Arc<Connection>, node: &str, token: [u8; 16]) -> Arc<Self> {
        let mut node = node.to_owned();
        node.truncate(node.floor_char_boundary(NODE_BYTES_MAX));
        let (flight, coming) = unbounded_channel();
        let link = Arc::new(Self {
            connection,
            token,
            node,
            builder: Mutex::new(None),
            flight,
            in_flight_max: AtomicUsize::new(IN_FLIGHT_MAX.into()),
            writes: AtomicBool::new(false),
            confirmations: Confirmations::default(),
            lease: Mutex::new(None),
            relies: AtomicBool::new(false),
            ended: OnceLock::new(),
            wake_up: OnceLock::new(),
            trouble: Mutex::new(None),
            is_full: AtomicBool::new(false),
            draining: AtomicBool::new(false),
            room: Room::default(),
            figures: Figures::default(),
        });
        let handle = link.connection.handle();
        handle.spawn(fly(Arc::downgrade(&link), coming));
        link
    }

    /// The connection to the servers.
    #[must_use]
    pub fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    /// So many messages may be in flight at the most, between 1 and [`IN_FLIGHT_MAX`].
    pub fn allow_in_flight(&self, count: usize) {
        let count = count.clamp(1, IN_FLIGHT_MAX.into());
        self.in_flight_max.store(count, Ordering::Relaxed);
    }

    /// The name of this node.
    #[must_use]
    pub fn node(&self) -> &str {
        &self.node
    }

    /// This process, as no other one is named.
    #[must_use]
    pub fn process(&self) -> String {
        crate::base::hex::hex(&self.token)
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
    pub(super) fn has_lease(&self, lease: Arc<LeaseTerm>, relies: bool) {
        *self.lease.lock() = Some(lease);
        self.relies.store(relies, Ordering::Release);
    }

    /// How long ago the lease was renewed; `None` when this process never had it.
    #[must_use]
    pub fn lease_age(&self) -> Option<Duration> {
        self.lease.lock().as_ref()?.age()
    }

    /// Begins the next epoch after everything that was read; `false` when something was appended
    /// meanwhile, which is to be read first. Once this is true, the previous writer can write
    /// nothing more.
    ///
    /// # Errors
    /// When it is not known in time whether it has begun, or the servers refuse it; when the stream does not
    /// have what was read.
    pub async fn fence(&self, tail: &Tail, log_id: [u8; 16]) -> Result<bool, StreamError> {
        if let Some(ended) = self.ended.get() {
            return Err(ended.clone());
        }
        let epoch = tail.epoch + 1;
        let node = Node {
            token: self.token,
            name: &self.node,
        };
        let mut builder = MessageBuilder {
            tail: tail.clone(),
            before: None,
            log_id,
            epoch,
            made: 0,
            connection: Arc::clone(&self.connection),
            token: self.token,
        };
        let began = Instant::now();
        let appending = builder.make(Content::Fence(node), 0)?;
        let _counted = self.figures.begins_append();
        let fencing = Fencing { link: self, began };
        match appending.run(&fencing).await? {
            Appended::Ours => self.took(appending.bytes.len()),
            Appended::Other(_) => return Ok(false),
        }
        // The stream may have been replaced since it showed that.
        appending.until_known_to_follow().await?;
        builder.begins();
        *self.builder.lock() = Some(builder);
        self.figures.begins(epoch);
        self.writes.store(true, Ordering::Release);
        self.confirmations.begins(began);
        Ok(true)
    }

    /// Appends, and goes on once that and all before it is acknowledged.
    ///
    /// # Errors
    /// The end of this process's hold; the error says whether it was appended.
    pub async fn append(&self, content: Content<'_>) -> Result<(), StreamError> {
        let made = self.begin_in_turn(content).await?.number;
        self.until_known(made).await
    }

    /// Begins to append, once no more are in flight than may be.
    ///
    /// # Errors
    /// The end of this process's hold.
    pub(crate) async fn begin_in_turn(&self, content: Content<'_>) -> Result<Made, StreamError> {
        let mut changes = self.confirmations.changes();
        loop {
            changes.borrow_and_update();
            if let Some(made) = self.begin(content)? {
                return Ok(made);
            }
            let _ = changes.changed().await;
        }
    }

    /// Begins to append; `None` while there are as many messages in flight as allowed.
    ///
    /// # Errors
    /// The end of this process's hold.
    pub(super) fn begin(&self, content: Content<'_>) -> Result<Option<Made>, StreamError> {
        let mut builder = self.builder.lock();
        if let Some(ended) = self.ended.get() {
            return Err(ended.clone());
        }
        let Some(builder) = builder.as_mut() else {
            return Err(StreamError::Stopped);
        };
        let Some(ahead) = self.ahead(builder) else {
            return Ok(None);
        };
        let is_barrier = matches!(content, Content::Barrier);
        let appending = builder.make(content, ahead)?;
        let made = Made {
            number: builder.made,
            bytes: appending.bytes.clone(),
        };
        let sent = self.flight.send(InFlightAppend {
            appending,
            epoch: builder.epoch,
            log_id: builder.log_id,
            is_barrier,
            began: Instant::now(),
            _counted: self.figures.begins_append(),
        });
        // Nothing is taken once something has failed, which is about to be reported.
        sent.map(|()| Some(made)).map_err(|_| StreamError::Stopped)
    }

    /// The position of the next record, while this process writes.
    ///
    /// # Errors
    /// When it does not.
    pub fn next_position(&self) -> Result<u64, StreamError> {
        let builder = self.builder.lock();
        builder
            .as_ref()
            .map(|builder| builder.tail.next)
            .ok_or(StreamError::Stopped)
    }

    /// Waits until everything that was begun is acknowledged.
    ///
    /// # Errors
    /// The end of this process's hold.
    pub async fn until_acknowledged(&self) -> Result<(), StreamError> {
        let made = self
            .builder
            .lock()
            .as_ref()
            .map_or(0, |builder| builder.made);
        self.until_known(made).await
    }

    async fn until_known(&self, made: u64) -> Result<(), StreamError> {
        self.confirmations.until(made).await;
        match self.ended.get() {
            Some(ended) if self.acknowledged() < made => Err(ended.clone()),
            _ => Ok(()),
        }
    }

    fn ahead(&self, builder: &MessageBuilder) -> Option<u8> {
        let in_flight_max = self.in_flight_max.load(Ordering::Relaxed);
        builder.ahead(self.acknowledged(), in_flight_max)
    }

    /// How many of the messages that were made are acknowledged, with all before them.
    pub(super) fn acknowledged(&self) -> u64 {
        self.confirmations.count()
    }

    /// Whether another message may be made before those in flight are acknowledged.
    pub(super) fn may_begin(&self) -> bool {
        let builder = self.builder.lock();
        builder
            .as_ref()
            .is_none_or(|builder| self.ahead(builder).is_some())
    }

    /// Whether messages are in flight.
    pub(super) fn has_in_flight(&self) -> bool {
        let builder = self.builder.lock();
        builder
            .as_ref()
            .is_some_and(|builder| builder.made > self.acknowledged())
    }

    /// The stream has so many bytes more.
    fn took(&self, bytes: usize) {
        self.room.took(bytes);
        self.is_full.store(false, Ordering::Release);
        self.trouble.lock().take();
    }

    /// There is no room for a barrier: it is withdrawn, and those who wait for one do so in vain.
    /// `false` where something was made after it, which goes on from it.
    fn withdraw(&self, why: &str) -> bool {
        let mut builder = self.builder.lock();
        let acknowledged = self.acknowledged();
        if !builder
            .as_mut()
            .is_some_and(|builder| builder.withdraw(acknowledged))
        {
            return false;
        }
        *self.trouble.lock() = Some(why.into());
        self.is_full.store(true, Ordering::Release);
        // Before another message is made.
        self.confirmations.withdrawn();
        drop(builder);
        self.confirmations.refuse();
        self.wake();
        true
    }

    /// This process does not write any more.
    pub fn end(&self, error: StreamError) {
        if self.ended.set(error).is_err() {
            return;
        }
        self.confirmations.end();
        self.wake();
    }

    fn wake(&self) {
        if let Some(wake_up) = self.wake_up.get() {
            wake_up();
        }
    }

    /// How the journal's thread is woken.
    pub(super) fn wake_by(&self, wake_up: WakeUp) {
        let _ = self.wake_up.set(wake_up);
    }

    /// What is queued is not waited for any more where there is no room.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Release);
    }

    /// Why nothing new is to be appended beside so many bytes that were, and are not acknowledged yet;
    /// `None` when something may.
    #[must_use]
    pub fn lack(&self, queued: usize) -> Option<Arc<str>> {
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
        self.room.lack(queued).map(Into::into)
    }

    /// Whether this process still is the one that writes, so that what it answers rests on the
    /// newest state: once an append that began no sooner than `came` is acknowledged, or while its
    /// lease holds.
    async fn confirm_since(&self, came: Instant) -> bool {
        let holds = || {
            self.lease
                .lock()
                .as_ref()
                .is_some_and(|lease| lease.holds())
        };
        if self.relies.load(Ordering::Acquire) && holds() {
            return self.ended.get().is_none();
        }
        self.confirmations.confirm_since(came).await
    }
}

impl WriterProof for JournalHandle {
    fn confirm(&self, came: Instant) -> Confirming<'_> {
        Box::pin(self.confirm_since(came))
    }
}

impl Watched for JournalHandle {
    fn tries_again(&self, why: &str, is_full: bool) -> bool {
        self.figures.tries_again();
        *self.trouble.lock() = Some(why.into());
        if is_full {
            self.is_full.store(true, Ordering::Release);
        }
        !(is_full && self.draining.load(Ordering::Acquire))
    }
}

/// A fence on its way.
struct Fencing<'a> {
    link: &'a JournalHandle,
    began: Instant,
}

impl Watched for Fencing<'_> {
    /// Nothing is queued that could wait for room.
    fn tries_again(&self, why: &str, is_full: bool) -> bool {
        self.link.tries_again(why, is_full) && !(is_full && self.began.elapsed() > FENCED_WITHIN)
    }
}

impl Watched for Weak<JournalHandle> {
    fn tries_again(&self, why: &str, is_full: bool) -> bool {
        self.upgrade()
            .is_some_and(|link| link.tries_again(why, is_full))
    }
}

impl InFlightEvents for Weak<JournalHandle> {
    fn acknowledged(&self, append: InFlightAppend) {
        let Some(link) = self.upgrade() else {
            return;
        };
        link.took(append.appending.bytes.len());
        link.confirmations.acknowledged(append.began);
        if append.is_barrier {
            link.figures.barrier();
        }
        drop(append);
        link.wake();
    }

    fn put_off(&self) {
        if let Some(link) = self.upgrade()
            && let Some(builder) = link.builder.lock().as_mut()
        {
            builder.put_off();
        }
    }

    fn withdraw(&self, why: &str) -> bool {
        self.upgrade().is_some_and(|link| link.withdraw(why))
    }

    fn has_failed(&self, error: StreamError) {
        if let Some(link) = self.upgrade() {
            link.end(error);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
