//! The role of the engine: the writer, or a standby that follows it.

pub(super) mod lag;
pub mod writer_proof;

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use tokio::sync::watch;

/// Role of an engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// The engine decides and commits.
    #[default]
    Writer,
    /// The engine applies what a writer has committed, and answers reads.
    Standby,
}

impl Role {
    /// Returns the role's name in metrics and readiness.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Writer => "writer",
            Self::Standby => "standby",
        }
    }
}

/// The role that an engine has now. A standby may become the writer; a writer stays one until its
/// process ends.
pub(crate) struct RoleNow {
    is_standby: AtomicBool,
    turned: watch::Sender<Role>,
    /// The highest message number when the engine became the writer. Unsettled messages up to it are queued from the
    /// tables; later ones are queued as they are committed.
    messages_before: AtomicI64,
}

impl RoleNow {
    pub(crate) fn new(role: Role, last_message: i64) -> Self {
        Self {
            is_standby: AtomicBool::new(role == Role::Standby),
            turned: watch::Sender::new(role),
            messages_before: AtomicI64::new(last_message),
        }
    }

    pub(crate) fn is_standby(&self) -> bool {
        self.is_standby.load(Ordering::Acquire)
    }

    pub(crate) fn get(&self) -> Role {
        match self.is_standby() {
            true => Role::Standby,
            false => Role::Writer,
        }
    }

    /// Makes the engine the writer from here on; `last_message` is the highest message number so far.
    pub(crate) fn write_after(&self, last_message: i64) {
        self.messages_before.store(last_message, Ordering::Release);
        self.is_standby.store(false, Ordering::Release);
        self.turned.send_replace(Role::Writer);
    }

    /// Returns the number given to [`RoleNow::write_after`].
    pub(crate) fn messages_before(&self) -> i64 {
        self.messages_before.load(Ordering::Acquire)
    }

    /// Waits until the engine is the writer.
    pub(crate) async fn until_writer(&self) {
        let mut turned = self.turned.subscribe();
        // The sender lives as long as the engine does.
        let _ = turned.wait_for(|role| *role == Role::Writer).await;
    }
}
