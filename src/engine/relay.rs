//! The relay: tells an external directory of the side effects of a branch's creation, until it has
//! accepted each of them.
//!
//! ```text
//! commit: branch, side effects pending ──durable──▶ first attempt, 2 s in all
//!     all accepted in time ──▶ commit: completed, the final response      ──▶ 201
//!     otherwise            ──▶ commit of what was accepted, if anything   ──▶ 202
//!                              then: pause, try again, commit … until nothing is pending
//! ```
//!
//! A message is sent only once the commit that causes it is durable, so the directory never hears
//! of a branch that a crash takes away. It may hear of one twice: after a crash, or when its
//! response was late; the message's number, with the log in which it was created, identifies it. A
//! branch's messages are delivered in their order, each after the one before was accepted.
//!
//! The command's key stays locked until its response is final. A crash before that leaves the first
//! commit's response, in which all is pending, under the key: no other response was sent.
//!
//! What is to be delivered is a secondary index in the tables, which commits and recovery maintain.
//! Only an external directory completes it: in a process without one, what an earlier process has
//! left pending stays so.

use std::future::Future;
use std::pin::Pin;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::base::digest::Digest;
use crate::base::panics::unless_its_future_panics;
use crate::domain::branch::deliveries::branches_in_repair;
use crate::domain::branch::directory_message::DirectoryMessage;
use crate::domain::resource::Source as _;
use crate::journal::births::Births;
use crate::journal::tables::Tables;

/// Later attempts that may be in flight at once.
const ATTEMPTS_AT_ONCE: usize = 32;

/// The outcome of an attempt at delivering.
pub type Delivery<'a> = Pin<Box<dyn Future<Output = Result<(), String>> + Send + 'a>>;

/// An external directory.
pub trait ExternalDirectory: Send + Sync {
    /// Delivers the message. It may have been delivered before: `id` identifies it, `{log
    /// id}-{number}` with the log in which the message was created.
    ///
    /// # Errors
    /// When the directory has not accepted it, or that is unknown; why.
    fn deliver<'a>(&'a self, id: String, message: &'a DirectoryMessage) -> Delivery<'a>;
}

/// What the relay delivers to, and its counters.
pub(crate) struct Relay {
    /// The deliveries that recovery found with something pending. Those of branches created since
    /// have a task of their own.
    pub(super) left_over: Mutex<Vec<Digest>>,
    pub(super) outside: OnceLock<Outside>,
    pub(super) births: Births,
    pub(super) turns: Semaphore,
    pub(super) deliveries: AtomicU64,
    pub(super) failures: AtomicU64,
}

pub(super) struct Outside {
    pub(super) directory: Arc<dyn ExternalDirectory>,
    pub(super) first_pause: Duration,
}

impl Relay {
    /// A relay for what recovery left in the tables.
    pub(crate) fn new(tables: &Tables, births: Births) -> Self {
        Self {
            left_over: Mutex::new(tables.listed(branches_in_repair())),
            outside: OnceLock::new(),
            births,
            turns: Semaphore::new(ATTEMPTS_AT_ONCE),
            deliveries: AtomicU64::new(0),
            failures: AtomicU64::new(0),
        }
    }

    pub(crate) fn deliver_to(&self, directory: Arc<dyn ExternalDirectory>, first_pause: Duration) {
        let outside = Outside {
            directory,
            first_pause,
        };
        if self.outside.set(outside).is_err() {
            tracing::error!("a directory was set before: that one stays");
        }
    }

    /// Whether there is an external directory.
    pub(crate) fn is_external(&self) -> bool {
        self.outside.get().is_some()
    }

    pub(crate) fn deliveries(&self) -> u64 {
        self.deliveries.load(Ordering::Relaxed)
    }

    pub(crate) fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// One attempt; whether the directory has accepted the message. Without a directory, it has
    /// not.
    pub(super) async fn deliver(&self, message: &DirectoryMessage) -> bool {
        let Some(outside) = self.outside.get() else {
            return false;
        };
        let id = self.births.message_id(message.number);
        let attempt = async { outside.directory.deliver(id, message).await };
        let fault = || Err("it panicked".to_owned());
        match unless_its_future_panics(pin!(attempt))
            .await
            .unwrap_or_else(fault)
        {
            Ok(()) => {
                self.deliveries.fetch_add(1, Ordering::Relaxed);
                true
            }
            Err(error) => {
                self.failed(message, &error);
                false
            }
        }
    }

    pub(super) fn failed(&self, message: &DirectoryMessage, error: &str) {
        self.failures.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(
            message = message.number,
            error,
            "the directory has not accepted a message, which stays pending"
        );
    }
}
