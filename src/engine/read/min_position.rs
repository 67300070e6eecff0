//! Waits until the engine has reached a position that a reader knows from elsewhere.

use crate::engine::Engine;
pub use crate::engine::position_waiters::{Reached, WAITED_MAX, WAITING_MAX};

impl Engine {
    /// Waits until this engine has reached `position`: until everything that it shows as of there is durable.
    pub async fn reached(&self, position: u64) -> Reached {
        let shared = &self.shared;
        if position == 0 {
            return Reached::Yes;
        }
        shared
            .awaited
            .wait(position, || shared.journal.durable())
            .await
    }
}
