//! Responses to requests of HTTP/2 that are refused by their heads alone: nothing of such a request is waited for, and
//! nothing of it is kept.

use std::time::Duration;

use hyper::http::request::Parts;
use hyper::{Method, StatusCode};

use super::caller::Caller;
use super::observed::{Ended, RequestOutcome, Times, observe};
use super::request::request_id::{REQUEST_ID, request_id};
use super::response::{self, Answer, Problems};
use super::service::Service;
use crate::engine::CommandResult;

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeadRefusal {
    /// Too much of requests is in flight.
    Overloaded,
    /// The head has too many fields.
    TooManyFields,
}

impl Service {
    /// Returns the response to a request that is refused; it has the headers of every other response, and is counted
    /// and logged as they are.
    pub(super) fn refused(&self, caller: &Caller, head: &Parts, refusal: HeadRefusal) -> Answer {
        let request_id = request_id(&self.engine, &head.headers);
        let observed = observe(&self.upkeep, || self.engine.now(), &head.headers);
        let outcome = RequestOutcome {
            series: self.metrics.elsewhere(),
            route: None,
            command: Times::asked(observed.as_ref()),
        };
        let mut answer = match refusal {
            HeadRefusal::Overloaded => {
                self.response_for_path(head.uri.path(), CommandResult::Overloaded)
            }
            HeadRefusal::TooManyFields => Problems::PLAIN.problem(
                StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
                "request_invalid",
                "The head of the request has more than 16 KiB or more than 100 fields.",
            ),
        };
        let ended = Ended {
            method: &head.method,
            outcome: &outcome,
            operation: self.metrics.name(outcome.series),
            request_id: &request_id,
            answer: &answer,
            took: Duration::ZERO,
            is_secure: caller.is_secure,
        };
        self.count_and_tell(observed, &ended);
        answer.headers_mut().insert(REQUEST_ID, request_id);
        self.add_common_headers(&mut answer, caller, head);
        match head.method == Method::HEAD {
            true => response::without_body(answer),
            false => answer,
        }
    }
}
