//! The process's handle of the journal: whether the process writes, its appends, and the reported troubles.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use wal::WakeUp;

use super::append::{Appended, Appending, Watched};
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
const FENCE_TIMEOUT: Duration = Duration::from_secs(10);

/// A message that the stream has: its sequence, and its bytes.
pub(super) type StoredMessage = (u64, Bytes);

/// The process's handle of the journal.
pub struct JournalHandle {
    pub(super) connection: Arc<Connection>,
    /// Random bytes of this process.
    token: [u8; 16],
    node: String,
    /// `None` while this process does not write.
    pub(super) builder: Mutex<Option<MessageBuilder>>,
    /// Queue to the flight, which sends the created messages in order.
    flight: UnboundedSender<InFlightAppend>,
    /// Maximum number of messages in flight.
    in_flight_max: AtomicUsize,
    writes: AtomicBool,
    pub(super) confirmations: Confirmations,
    /// The last acknowledged message of this process.
    pub(super) stored: Mutex<Option<StoredMessage>>,
    lease: Mutex<Option<Arc<LeaseTerm>>>,
    /// Whether responses rest on the lease while it holds, instead of on appends.
    relies: AtomicBool,
    pub(super) ended: OnceLock<StreamError>,
    /// Wakes the journal's thread, so that it checks for acknowledgements, and for the end.
    wake_up: OnceLock<WakeUp>,
    /// Reason why nothing is accepted at present.
    pub(super) trouble: Mutex<Option<Arc<str>>>,
    /// Whether there was no room for the last append, and nothing was appended since.
    pub(super) is_full: AtomicBool,
    /// Whether the process stops: queued messages are not waited for where there is no room.
    draining: AtomicBool,
    /// Free bytes of the stream: those last reported, less what was appended since.
    pub(super) room: Room,
    pub(super) figures: Figures,
}

impl JournalHandle {
    /// Creates a handle that does not write yet, without its background tasks.
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
            stored: Mutex::new(None),
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

    /// Returns the connection to the servers.
    #[must_use]
    pub fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    /// Sets the maximum number of messages in flight, between 1 and [`IN_FLIGHT_MAX`].
    pub fn allow_in_flight(&self, count: usize) {
        let count = count.clamp(1, IN_FLIGHT_MAX.into());
        self.in_flight_max.store(count, Ordering::Relaxed);
    }

    /// Returns the name of this node.
    #[must_use]
    pub fn node(&self) -> &str {
        &self.node
    }

    /// Returns the name of this process, which no other process has.
    #[must_use]
    pub fn process(&self) -> String {
        crate::base::hex::hex(&self.token)
    }

    /// Returns the counters.
    #[must_use]
    pub fn figures(&self) -> &Figures {
        &self.figures
    }

    /// Whether this process writes.
    #[must_use]
    pub fn writes(&self) -> bool {
        self.writes.load(Ordering::Acquire) && self.ended.get().is_none()
    }

    /// Returns why this process has stopped using the journal, if it has.
    #[must_use]
    pub fn ended(&self) -> Option<&StreamError> {
        self.ended.get()
    }

    /// Sets the lease that this process has; where it `relies` on it, responses rest on the lease while it holds,
    /// instead of on appends.
    pub(super) fn set_lease(&self, lease: Arc<LeaseTerm>, relies: bool) {
        *self.lease.lock() = Some(lease);
        self.relies.store(relies, Ordering::Release);
    }

    /// Returns how long ago the lease was renewed; `None` when this process never had it.
    #[must_use]
    pub fn lease_age(&self) -> Option<Duration> {
        self.lease.lock().as_ref()?.age()
    }

    /// Begins the next epoch after everything that was read; `false` when something was appended meanwhile, which
    /// must be read first. Once this returns `true`, the previous writer can write nothing more.
    ///
    /// # Errors
    /// When it does not become known in time whether the epoch has begun, when the servers refuse the fence, or when
    /// the stream lacks what was read.
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
            Appended::Ours => self.note_stored(&appending),
            Appended::Other(_) => return Ok(false),
        }
        // The stream may have been replaced since it showed its end.
        appending.until_known_to_follow().await?;
        builder.begins();
        *self.builder.lock() = Some(builder);
        self.figures.begins(epoch);
        self.writes.store(true, Ordering::Release);
        self.confirmations.begins(began);
        Ok(true)
    }

    /// Appends a message, and waits until it and all before it are acknowledged.
    ///
    /// # Errors
    /// The error that has ended this handle's use; it says whether the message was appended.
    pub async fn append(&self, content: Content<'_>) -> Result<(), StreamError> {
        let made = self.begin_in_turn(content).await?.number;
        self.until_known(made).await
    }

    /// Begins an append, once the number of messages in flight permits.
    ///
    /// # Errors
    /// The error that has ended this handle's use.
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

    /// Begins an append; `None` while the maximum number of messages is in flight.
    ///
    /// # Errors
    /// The error that has ended this handle's use.
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
        // The flight accepts nothing after a failure, which is about to be reported.
        sent.map(|()| Some(made)).map_err(|_| StreamError::Stopped)
    }

    /// Returns the position of the next record, while this process writes.
    ///
    /// # Errors
    /// When the process does not write.
    pub fn next_position(&self) -> Result<u64, StreamError> {
        let builder = self.builder.lock();
        builder
            .as_ref()
            .map(|builder| builder.tail.next)
            .ok_or(StreamError::Stopped)
    }

    /// Waits until every append begun is acknowledged.
    ///
    /// # Errors
    /// The error that has ended this handle's use.
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

    /// Returns how many of the created messages are acknowledged, with all before them.
    pub(super) fn acknowledged(&self) -> u64 {
        self.confirmations.count()
    }

    /// Whether another message may be created before those in flight are acknowledged.
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

    /// Notes that the stream has this message.
    fn note_stored(&self, appending: &Appending) {
        self.room.note_appended(appending.bytes.len());
        *self.stored.lock() = Some((appending.after + 1, appending.bytes.clone()));
        self.is_full.store(false, Ordering::Release);
        self.trouble.lock().take();
    }

    /// Withdraws a barrier for which there is no room, and refuses the requests that wait for one. Returns `false`
    /// where a message was created after the barrier, which builds on it.
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
        // Counted before another message can be created.
        self.confirmations.withdrawn();
        drop(builder);
        self.confirmations.refuse();
        self.wake();
        true
    }

    /// Ends the use of this handle: the process does not write any more.
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

    /// Sets how the journal's thread is woken.
    pub(super) fn wake_by(&self, wake_up: WakeUp) {
        let _ = self.wake_up.set(wake_up);
    }

    /// Stops waiting for queued messages where there is no room.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Release);
    }

    /// Returns why nothing more may be appended while `queued` bytes are not acknowledged yet; `None` when it may.
    #[must_use]
    pub fn lack(&self, queued: usize) -> Option<Arc<str>> {
        if self.ended.get().is_some() {
            return Some("this process does not write it any more".into());
        }
        if !self.writes() {
            // A process that does not write needs no room.
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

    /// Whether this process is still the writer, so that its responses rest on the newest state: true once an append
    /// that began no sooner than `came` is acknowledged, or while the lease holds.
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

/// A fence being appended.
struct Fencing<'a> {
    link: &'a JournalHandle,
    began: Instant,
}

impl Watched for Fencing<'_> {
    /// Gives up after a while without room, since a fence has no queue that waits for it.
    fn tries_again(&self, why: &str, is_full: bool) -> bool {
        self.link.tries_again(why, is_full) && !(is_full && self.began.elapsed() > FENCE_TIMEOUT)
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
        link.note_stored(&append.appending);
        link.confirmations.acknowledged(append.began);
        if append.is_barrier {
            link.figures.barrier();
        }
        drop(append);
        link.wake();
    }

    fn postpone(&self) {
        if let Some(link) = self.upgrade()
            && let Some(builder) = link.builder.lock().as_mut()
        {
            builder.postpone();
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
