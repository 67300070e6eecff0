//! A running node. The writer holds the lease. A follower reads the journal, has its engine apply the other node's
//! records, and takes over when the lease is free.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio_rustls::rustls::ClientConfig;
use wal::{Report, Visitor as _};

use super::super::exit::Failure;
use super::super::open::Opening;
use super::JournalArgs;
use super::candidate::Candidate;
use super::snapshot_upload::SnapshotUpload;
use super::stop::{CHECK_INTERVAL, MESSAGE_WAIT, Stop, TAKEOVER_TIMEOUT};
use crate::engine::Engine;
use crate::engine::role::Role;
use crate::engine::role::writer_proof::WriterProof;
use crate::stream::beginning::StreamBeginning;
use crate::stream::connection::StreamInfo;
use crate::stream::continuity::JournalContinuity;
use crate::stream::error::StreamError;
use crate::stream::extent::{StreamState, tail_at};
use crate::stream::handle::JournalHandle;
use crate::stream::holder::Terms;
use crate::stream::lease::Lease;
use crate::stream::lease_term::{LeaseTerm, TTL};
use crate::stream::reader::{Reader, Received};
use crate::stream::settings::weaker;

/// Feeds an engine that follows with the records of the journal.
pub struct Follower {
    reader: Reader,
    link: Arc<JournalHandle>,
    log_id: [u8; 16],
    refreshed: Option<Instant>,
    continuity: JournalContinuity,
    beginning: StreamBeginning,
    /// Minimum number of copies of the stream.
    replicas: u64,
    /// Whether takeovers are postponed; read by the thread that waits for the lease.
    postponed: Arc<AtomicBool>,
}

/// The role of a node, with what it needs beside its engine.
pub enum Node {
    /// The node writes.
    Writer(Arc<JournalHandle>),
    /// The node follows.
    Standby(Box<Follower>),
}

/// A running node.
pub(in super::super) struct Running {
    link: Arc<JournalHandle>,
    lease: Arc<Mutex<Option<Lease>>>,
}

impl Running {
    /// Gives the lease up, so that another node can take over at once. Call it after the last response and the last
    /// write.
    pub(in super::super) fn give_up(self) {
        if let Some(lease) = self.lease.lock().take() {
            lease.give_up(self.link.connection());
        }
    }
}

impl Node {
    /// Returns the node's handle of the journal.
    #[must_use]
    pub fn link(&self) -> &Arc<JournalHandle> {
        match self {
            Self::Writer(link) => link,
            Self::Standby(follower) => &follower.link,
        }
    }

    /// Starts the node on this directory. A writer that has replaced another one waits until that one can no longer
    /// answer.
    ///
    /// # Errors
    /// When the lease cannot be taken, or a thread not be started.
    pub(in super::super) fn start(
        self,
        engine: &Arc<Engine>,
        terms: Terms,
        data: &Path,
    ) -> Result<Running, Failure> {
        SnapshotUpload::start(engine, self.link(), terms.replicas, data)?;
        let running = Running {
            link: Arc::clone(self.link()),
            lease: Arc::default(),
        };
        match self {
            Self::Writer(link) => {
                let seized = Lease::seize(&link, &terms);
                let (lease, until) = seized.map_err(|error| Failure::of_journal(&error))?;
                *running.lease.lock() = Some(lease);
                if let Some(until) = until {
                    thread::sleep(until.saturating_duration_since(Instant::now()));
                }
            }
            Self::Standby(follower) => {
                follower.start(engine, terms, &running.lease)?;
            }
        }
        Ok(running)
    }
}

impl JournalArgs {
    /// Opens the directory as the copy of the journal, for an engine that writes it or follows.
    ///
    /// # Errors
    /// When the journal cannot be used, does not belong to the directory, or is another's.
    pub(in super::super) fn open(
        &self,
        data: &Path,
        opening: Opening,
        trusted: &ClientConfig,
    ) -> Result<(Engine, Report, Node), Failure> {
        match self.standby {
            true => {
                let (engine, report, follower) = self.follow(data, opening, trusted)?;
                Ok((engine, report, Node::Standby(Box::new(follower))))
            }
            false => {
                let (engine, report, link) = self.write(data, opening, trusted)?;
                Ok((engine, report, Node::Writer(link)))
            }
        }
    }

    fn follow(
        &self,
        data: &Path,
        opening: Opening,
        trusted: &ClientConfig,
    ) -> Result<(Engine, Report, Follower), Failure> {
        let mut begun = self.begin(data, opening, trusted)?;
        let position = begun.opened.log.last_position();
        let all = begun.filling.end();
        all.map_err(|source| Failure::of_log(&wal::Error::Visitor { position, source }))?;
        let (link, log_id) = (Arc::clone(&begun.link), begun.opened.log_id);
        tracing::info!(
            position,
            node = link.node(),
            "this process follows the journal"
        );
        let (engine, report, reader) = begun.start(Role::Standby)?;
        let follower = Follower {
            reader,
            link,
            log_id,
            refreshed: None,
            continuity: JournalContinuity::default(),
            beginning: StreamBeginning::default(),
            replicas: self.place.journal_replicas,
            postponed: Arc::default(),
        };
        Ok((engine, report, follower))
    }
}

impl Follower {
    /// Starts a thread that follows until the service ends or this node has become the writer.
    ///
    /// # Errors
    /// When a thread cannot be started.
    fn start(
        self: Box<Self>,
        engine: &Arc<Engine>,
        terms: Terms,
        lease: &Arc<Mutex<Option<Lease>>>,
    ) -> Result<(), Failure> {
        let (sender, taken) = channel();
        let candidate = Candidate {
            engine: Arc::clone(engine),
            link: Arc::clone(&self.link),
            terms,
            taken: sender,
            postponed: Arc::clone(&self.postponed),
        };
        let named = |name: &str| thread::Builder::new().name(name.to_owned());
        let spawned = named("candidate").spawn(move || candidate.run());
        spawned.map_err(Failure::from_error)?;
        let (engine, lease) = (Arc::clone(engine), Arc::clone(lease));
        let spawned = named("following").spawn(move || {
            if let Err(stop) = self.run(&engine, &taken, &lease) {
                stop.end();
            }
        });
        spawned.map(drop).map_err(Failure::from_error)
    }

    fn run(
        mut self,
        engine: &Engine,
        taken: &Receiver<Lease>,
        lease: &Mutex<Option<Lease>>,
    ) -> Result<(), Stop> {
        while !engine.feed().has_ended() {
            if let Ok(taken) = taken.try_recv() {
                let term = Arc::clone(taken.term());
                *lease.lock() = Some(taken);
                let taken_over = self.take_over(engine, &term);
                // Otherwise another node would have to wait until the servers forget the lease.
                let in_vain = lease.lock().take_if(|_| taken_over.is_err());
                if let Some(in_vain) = in_vain {
                    in_vain.give_up(self.link.connection());
                }
                match taken_over {
                    // The settings were changed since the last check. Nothing was appended, so the node keeps
                    // following.
                    Err(Stop::Journal(weak @ StreamError::Weak { .. })) => {
                        self.note_settings(&Err(weak));
                        self.postponed.store(true, Ordering::Release);
                    }
                    taken_over => return taken_over,
                }
            }
            self.refresh_end(engine)?;
            self.take_next(engine, MESSAGE_WAIT)?;
        }
        // The service ends: another node may take the lease at once.
        if let Ok(taken) = taken.try_recv() {
            taken.give_up(self.link.connection());
        }
        Ok(())
    }

    /// Becomes the writer: applies everything up to the journal's end, and begins the next epoch there. Fails if the
    /// journal lacks records that this node has read, or its settings are too weak. The node serves once no other node
    /// can answer because of an earlier lease.
    fn take_over(&mut self, engine: &Engine, lease: &LeaseTerm) -> Result<(), Stop> {
        let began = Instant::now();
        let connection = Arc::clone(self.link.connection());
        while began.elapsed() < TAKEOVER_TIMEOUT && !engine.feed().has_ended() {
            let last = match StreamState::read(&connection) {
                Ok(found) => {
                    self.expect_settings(&found.info)?;
                    found.extent.last
                }
                Err(error) if error.is_damage() => return Err(error.into()),
                Err(_) => {
                    thread::sleep(MESSAGE_WAIT);
                    continue;
                }
            };
            while self.reader.tail().sequence < last && began.elapsed() < TAKEOVER_TIMEOUT {
                if !self.take_next(engine, MESSAGE_WAIT)? {
                    self.ask_up_to(engine, last)?;
                }
            }
            // Records from the journal must be in the directory before this node writes: from then on, appended records
            // go to the journal.
            engine.until_applied_is_durable()?;
            let fence = self.link.fence(self.reader.tail(), self.log_id);
            if connection.block(fence)? {
                if !lease.holds() {
                    // Another node may have held the lease, and may still answer because of it.
                    thread::sleep(TTL);
                }
                engine.answer_by(Arc::clone(&self.link) as Arc<dyn WriterProof>);
                engine.promote()?;
                if self.link.figures().set_other_key(false) {
                    Terms::warn_of_other_key();
                }
                let epoch = self.link.figures().counted().epoch;
                tracing::info!(
                    epoch,
                    node = self.link.node(),
                    "this process writes the journal"
                );
                return Ok(());
            }
        }
        Err(match engine.feed().has_ended() {
            true => Stop::Ended,
            false => Stop::too_late(),
        })
    }

    /// Applies the records of the next message, if one comes in this time. Returns whether one came.
    fn take_next(&mut self, engine: &Engine, within: Duration) -> Result<bool, Stop> {
        let Some(received) = self.reader.next(within)? else {
            return Ok(false);
        };
        apply(engine, &received)?;
        if received.pending == 0 {
            engine.heard(self.reader.tail().next - 1);
        }
        Ok(true)
    }

    /// Requests existing messages that were not sent, one by one: the server that sends messages may hang.
    fn ask_up_to(&mut self, engine: &Engine, last: u64) -> Result<(), Stop> {
        self.reader
            .ask_up_to(last, |received| apply(engine, received))
    }

    /// Checks that the settings of the stream, and those of the connected server, still meet the requirements of a
    /// start: they may have been changed since.
    fn expect_settings(&self, info: &StreamInfo) -> Result<(), StreamError> {
        let connection = self.link.connection();
        let (names, payload_max) = (connection.names(), connection.payload_max());
        let faults = weaker(&info.config, names, self.replicas, payload_max);
        match faults.is_empty() {
            true => Ok(()),
            false => Err(StreamError::Weak {
                stream: names.stream.clone(),
                faults,
            }),
        }
    }

    /// Notes whether the settings hinder a takeover, for the thread that waits for the lease and for operators.
    fn note_settings(&self, settings: &Result<(), StreamError>) {
        let is_weak = settings.is_err();
        if self.link.figures().set_weak_settings(is_weak) == is_weak {
            return;
        }
        match settings {
            Err(error) => tracing::warn!(
                %error,
                "this process does not take over: the settings of the stream or of a server are too weak"
            ),
            Ok(()) => tracing::info!(
                "the settings of the stream and of the servers meet the requirements again"
            ),
        }
    }

    /// Reads the journal's end regularly, so that the lag of this node is known. While no server answers, or the
    /// journal ends before the last message that was read, the known end is not updated.
    fn refresh_end(&mut self, engine: &Engine) -> Result<(), Stop> {
        if self
            .refreshed
            .is_some_and(|refreshed| refreshed.elapsed() < CHECK_INTERVAL)
        {
            return Ok(());
        }
        let refreshed = self.refresh_end_now(engine);
        // Counted from the end of the request, so that a slow one leaves time for incoming messages.
        self.refreshed = Some(Instant::now());
        refreshed
    }

    fn refresh_end_now(&mut self, engine: &Engine) -> Result<(), Stop> {
        let connection = Arc::clone(self.link.connection());
        let Ok(info) = connection.block(connection.info_now()) else {
            self.continuity.interrupt();
            self.beginning.interrupt();
            return Ok(());
        };
        self.note_settings(&self.expect_settings(&info));
        if info.last > self.reader.tail().sequence && self.reader.is_silent() {
            self.ask_up_to(engine, info.last)?;
        }
        let tail = self.reader.tail();
        connection.block(self.beginning.check(&connection, &info, tail.log_id))?;
        if !self.continuity.check(&connection, tail, &info)? {
            return Ok(());
        }
        let last = match info.last > tail.sequence {
            false => tail.next - 1,
            true => match tail_at(&connection, tail, info.last) {
                Ok(end) => end.next - 1,
                Err(_) => return Ok(()),
            },
        };
        engine.heard(last);
        Ok(())
    }
}

/// Has the engine apply the records of a message.
fn apply(engine: &Engine, received: &Received) -> Result<(), Stop> {
    if let Some(records) = received.records() {
        engine.apply(received.first, records.iter())?;
    }
    Ok(())
}
