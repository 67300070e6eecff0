//! State of the connection to the servers.

use std::sync::atomic::{AtomicU64, Ordering};

use async_nats::Event;
use parking_lot::Mutex;
use tokio::sync::watch;

/// State of the connection to the servers.
pub(super) struct Health {
    is_up: watch::Sender<bool>,
    fault: Mutex<String>,
    losses: AtomicU64,
}

impl Health {
    /// Creates the state before a server was reached.
    pub(super) fn new() -> Self {
        Self {
            is_up: watch::Sender::new(false),
            fault: Mutex::new("no server was reached".to_owned()),
            losses: AtomicU64::new(0),
        }
    }

    pub(super) fn hear(&self, event: &Event) {
        match event {
            Event::Connected => {
                self.is_up.send_replace(true);
            }
            Event::Disconnected | Event::Closed => {
                self.losses.fetch_add(1, Ordering::AcqRel);
                "the connection was lost".clone_into(&mut self.fault.lock());
                self.is_up.send_replace(false);
            }
            Event::ClientError(error) => *self.fault.lock() = error.to_string(),
            Event::ServerError(error) => *self.fault.lock() = error.to_string(),
            _ => {}
        }
    }

    /// Whether a server is connected.
    pub(super) fn is_up(&self) -> bool {
        *self.is_up.borrow()
    }

    /// Returns a receiver of changes of that.
    pub(super) fn changes(&self) -> watch::Receiver<bool> {
        self.is_up.subscribe()
    }

    /// Returns the last error.
    pub(super) fn fault(&self) -> String {
        self.fault.lock().clone()
    }

    /// Returns how often the connection was lost.
    pub(super) fn losses(&self) -> u64 {
        self.losses.load(Ordering::Acquire)
    }
}
