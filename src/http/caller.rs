//! The client of a connection.

use super::forgeries::Peer;
use super::portions::ResponseBudget;
use super::token::LastToken;

/// The client of a connection.
pub struct Caller {
    pub(super) peer: Peer,
    pub(super) last_token: LastToken,
    /// Whether the connection is over TLS.
    pub(super) is_secure: bool,
    /// Whether it comes from this machine.
    pub(super) is_near: bool,
    /// What its responses share, over HTTP/2.
    pub(super) held: Option<ResponseBudget>,
}

impl Caller {
    /// The same over HTTP/2, where the responses that it has not taken share this.
    #[must_use]
    pub fn sharing(mut self, held: ResponseBudget) -> Self {
        self.held = Some(held);
        self
    }

    /// Whether the connection is to be closed when its requests in flight are answered.
    #[must_use]
    pub fn is_to_go(&self) -> bool {
        self.peer.is_to_go()
    }

    /// Whether the client is on this machine, judged by its address.
    #[must_use]
    pub fn is_on_this_machine(&self) -> bool {
        self.is_near
    }

    /// Waits until the connection is to be closed.
    pub async fn is_told_to_go(&self) {
        self.peer.is_told_to_go().await;
    }
}
