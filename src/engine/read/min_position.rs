//! Waits until the engine has reached a position that a reader knows from elsewhere.

use crate::engine::Engine;
pub use crate::engine::position_waiters::{Reached, WAITED_MAX, WAITING_MAX, WAITING_OF_ONE_MAX};

impl Engine {
    /// Waits, for a reader of this subject, until the engine has reached `position` and everything up to there is
    /// durable.
    pub async fn reached(&self, subject: &str, position: u64) -> Reached {
        let shared = &self.shared;
        if position == 0 {
            return Reached::Yes;
        }
        shared
            .awaited
            .wait(subject, position, || shared.journal.durable())
            .await
    }
}
