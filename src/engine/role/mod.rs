//! Whether the engine writes, or follows what another one writes.

pub(super) mod lag;
pub mod writer_proof;

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use tokio::sync::watch;

/// What an engine is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// It decides and commits.
    #[default]
    Writer,
    /// It follows: it applies what a writer has committed, and answers reads.
    Standby,
}

impl Role {
    /// As metrics and readiness name it.
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
    /// The highest number of a message when the engine began to write: what it finds unsettled up to
    /// there is delivered by it, and what comes later is queued as it is committed.
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

    /// The engine writes from here on, after messages up to this number.
    pub(crate) fn write_after(&self, last_message: i64) {
        self.messages_before.store(last_message, Ordering::Release);
        self.is_standby.store(false, Ordering::Release);
        self.turned.send_replace(Role::Writer);
    }

    /// See [`RoleNow::write_after`].
    pub(crate) fn messages_before(&self) -> i64 {
        self.messages_before.load(Ordering::Acquire)
    }

    /// Waits until the engine writes.
    pub(crate) async fn until_writer(&self) {
        let mut turned = self.turned.subscribe();
        // It lives as long as the engine does.
        let _ = turned.wait_for(|role| *role == Role::Writer).await;
    }
}
