//! The client of a connection.

use std::sync::Arc;

use super::client_end::ClientEnd;
use super::limits::forgeries::Peer;
use super::limits::portions::ResponseBudget;
use super::limits::request_room::RequestRoomOf;
use super::response::Answer;
use super::response::deadlines::Deadlines;
use super::token::LastToken;

/// The client of a connection.
pub struct Caller {
    pub(super) peer: Peer,
    pub(super) last_token: LastToken,
    /// Whether the connection is over TLS.
    pub(super) is_secure: bool,
    /// Whether the client is on this machine.
    pub(super) is_near: bool,
    /// The budget that the responses of one HTTP/2 connection share.
    pub(super) held: Option<ResponseBudget>,
    /// The budgets that the requests and the streams of events of all HTTP/2 connections share.
    pub(super) requests: Option<Arc<RequestRoomOf>>,
    /// The deadlines by which the client has to take its large responses, if there are any.
    pub(super) deadlines: Option<Arc<Deadlines>>,
    /// Notices that the caller may have left, over HTTP/1.
    pub(super) end: Option<Arc<ClientEnd>>,
}

impl Caller {
    /// Returns this caller over HTTP/2, whose untaken responses share the budget `held`, and whose requests those of
    /// `requests`.
    #[must_use]
    pub fn sharing(mut self, held: &ResponseBudget, requests: &Arc<RequestRoomOf>) -> Self {
        self.held = Some(held.clone());
        self.requests = Some(Arc::clone(requests));
        self
    }

    /// Returns this caller with the deadlines by which it has to take its large responses.
    #[must_use]
    pub fn within(mut self, deadlines: &Arc<Deadlines>) -> Self {
        self.deadlines = Some(Arc::clone(deadlines));
        self
    }

    /// Returns this caller, over HTTP/1, with what notices that its client may have left.
    #[must_use]
    pub fn noticing(mut self, end: &Arc<ClientEnd>) -> Self {
        self.end = Some(Arc::clone(end));
        self
    }

    /// The answer, with a deadline if it is large.
    #[must_use]
    pub fn timed(&self, answer: Answer) -> Answer {
        match &self.deadlines {
            Some(deadlines) => deadlines.timed(answer),
            None => answer,
        }
    }

    /// Whether the connection is to be closed once its requests in flight are answered.
    #[must_use]
    pub fn is_to_go(&self) -> bool {
        self.peer.is_to_go()
    }

    /// Whether the client is on this machine, judged by its address.
    #[must_use]
    pub fn is_on_this_machine(&self) -> bool {
        self.is_near
    }

    /// Whether the client may be a browser on this machine that was led here by another host's name: without TLS,
    /// this service has shown no certificate for its name.
    #[must_use]
    pub fn may_be_misled(&self) -> bool {
        self.is_near && !self.is_secure
    }

    /// Waits until the connection is to be closed.
    pub async fn until_closing(&self) {
        self.peer.until_closing().await;
    }
}
