//! Rules for a standby, and for a writer that may have been replaced: which requests it accepts, and which responses
//! it may send.

use std::sync::Arc;
use std::time::Instant;

use hyper::header::HeaderMap;
use hyper::http::request::Parts;

use super::caller::Caller;
use super::response::{Answer, POSITION, Problems};
use super::service::Service;
use crate::base::actor::Actor;
use crate::engine::CommandResult;

impl Service {
    /// Returns the answer to a request that came at `came`, if it may be sent. One that depends on this service's
    /// state may not be sent once another service has begun to write.
    pub(super) async fn unless_replaced(
        &self,
        answer: Answer,
        head: &Parts,
        came: Instant,
    ) -> Answer {
        if !answer.headers().contains_key(POSITION) || self.engine.may_answer(came).await {
            return answer;
        }
        let found = self.routes.find(head.uri.path());
        let may_commit = found.is_some_and(|found| found.place.may_commit(&head.method));
        let result = match may_commit {
            true => CommandResult::OutcomeUnknown,
            false => CommandResult::Unavailable,
        };
        self.response_for_path(head.uri.path(), result)
    }

    /// Returns the actor that sends facts, if this service is the writer.
    pub(super) async fn writing_actor(
        &self,
        caller: &Caller,
        headers: &HeaderMap,
    ) -> Result<Arc<Actor>, Box<Answer>> {
        let actor = self.actor(caller, headers, Problems::PLAIN).await?;
        match self.not_writer(Problems::PLAIN) {
            None => Ok(actor),
            Some(answer) => Err(Box::new(answer)),
        }
    }

    /// Returns the response to a command if this service is a standby.
    pub(super) fn not_writer(&self, problems: Problems) -> Option<Answer> {
        let is_standby = self.engine.is_standby();
        is_standby.then(|| problems.not_writer(self.engine.writer().as_deref()))
    }
}
