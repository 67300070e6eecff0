//! The thread of a follower that waits for the writer's lease, in order to take over.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SendError, Sender};
use std::thread;
use std::time::Instant;

use super::stop::{CHECK_INTERVAL, MESSAGE_WAIT, Stop, TAKEOVER_TIMEOUT};
use crate::engine::Engine;
use crate::stream::error::StreamError;
use crate::stream::handle::JournalHandle;
use crate::stream::holder::Terms;
use crate::stream::lease::{Claim, Lease};

/// Waits for the writer's lease.
pub(super) struct Candidate {
    pub(super) engine: Arc<Engine>,
    pub(super) link: Arc<JournalHandle>,
    pub(super) terms: Terms,
    pub(super) taken: Sender<Lease>,
    /// Whether the takeover is postponed, so that the lease may be taken again.
    pub(super) postponed: Arc<AtomicBool>,
}

impl Candidate {
    /// Runs until this node has become the writer, or the service ends. A node that lags behind, lacks disk space, or
    /// could not start on the stream with its present settings leaves the lease to others.
    pub(super) fn run(self) {
        let mut was_refused = false;
        let mut claim = Claim::new(&self.link, self.terms.clone());
        while !self.engine.feed().has_ended() {
            self.note_writer();
            let is_behind = self.engine.lag().is_none_or(|lag| lag.is_behind());
            let is_weak = self.link.figures().has_weak_settings();
            if is_behind || is_weak || !self.engine.has_disk_room() {
                // The fault that the last attempt found may have been repaired; the next attempt checks.
                self.link.figures().set_weak_lease(false);
                thread::sleep(MESSAGE_WAIT);
                continue;
            }
            let taken = claim.take_within(CHECK_INTERVAL);
            match &taken {
                Ok(_) => self.link.figures().set_weak_lease(false),
                Err(StreamError::Weak { .. }) => self.link.figures().set_weak_lease(true),
                Err(_) => {}
            }
            match taken {
                // This became known while the lease was requested.
                Ok(Some(lease)) if self.link.figures().has_weak_settings() => {
                    lease.give_up(self.link.connection());
                }
                Ok(Some(lease)) => {
                    // The service has ended meanwhile: the lease is left to others.
                    if let Err(SendError(lease)) = self.taken.send(lease) {
                        lease.give_up(self.link.connection());
                        return;
                    }
                    if !self.is_postponed() {
                        return;
                    }
                }
                Ok(None) => was_refused = false,
                Err(error) => {
                    if !was_refused {
                        tracing::warn!(%error, "the writer's lease cannot be requested");
                    }
                    was_refused = true;
                    thread::sleep(CHECK_INTERVAL);
                }
            }
        }
    }

    /// Waits until this node has become the writer, or the service ends; returns `true` when the takeover is postponed
    /// instead. Ends the process, and with it the lease, if that takes too long: the thread that follows may wait for
    /// space on a disk that has just become full.
    fn is_postponed(&self) -> bool {
        let taken = Instant::now();
        while self.engine.is_standby() && !self.engine.feed().has_ended() {
            if self.postponed.swap(false, Ordering::AcqRel) {
                return true;
            }
            if taken.elapsed() > 2 * TAKEOVER_TIMEOUT {
                Stop::too_late().end();
                return false;
            }
            thread::sleep(MESSAGE_WAIT);
        }
        false
    }

    /// Passes the writer's address, for clients, to the engine, and compares the writer's key of webhooks with this
    /// node's.
    fn note_writer(&self) {
        let holder = Lease::other_holder(&self.link, &self.terms).ok().flatten();
        let other = holder
            .as_ref()
            .and_then(|holder| self.terms.have_other_key_than(holder));
        if let Some(is_other) = other {
            let was_other = self.link.figures().set_other_key(is_other);
            if is_other && !was_other {
                tracing::warn!(
                    "the key of webhooks differs from the writer's: if this process takes over, the secret of every \
                    subscription changes. Give every node the same key"
                );
            }
        }
        let address = holder.and_then(|holder| holder.address);
        self.engine.set_writer_address(address.as_deref());
    }
}
