//! The requests of an HTTP/2 connection, from when their heads have come until their responses are handed over.

use std::sync::Arc;

use hyper::body::{Body as _, Incoming};
use hyper::{Method, Request, Response};

use crate::http::caller::Caller;
use crate::http::early_rejections::HeadRefusal;
use crate::http::limits::portions::{Portioned, ResponseBudget};
use crate::http::limits::request_room::{Begun, Charge, RequestRoomOf, head_bytes};
use crate::http::limits::response_room::SMALL_BYTES_MAX;
use crate::http::request::body::pause_before_shedding;
use crate::http::response;
use crate::http::response::answer_body::{Answer, AnswerBody};
use crate::http::service::Service;

/// The most fields that a head may have; over HTTP/1 that is the library's own bound.
const HEAD_FIELDS_MAX: usize = 100;

/// What the requests of one connection share.
pub(super) struct Requests {
    pub(super) service: Arc<Service>,
    pub(super) caller: Arc<Caller>,
    /// What its untaken responses share.
    pub(super) held: ResponseBudget,
    /// What it shares with all other connections.
    pub(super) room: Arc<RequestRoomOf>,
}

/// A response, or the reason for which its stream is reset.
pub(super) type Answered = Result<Response<Portioned<AnswerBody>>, h2::Error>;

impl Requests {
    /// Charges a request as soon as its head is there.
    pub(super) fn begin(&self, request: &Request<Incoming>) -> Begun {
        self.room.begin(head_bytes(request))
    }

    /// Returns the response to a request that has begun so. The response keeps what is charged until its last byte is
    /// taken; a request that ends otherwise drops it with this future.
    pub(super) async fn answer(
        self: Arc<Self>,
        begun: Begun,
        request: Request<Incoming>,
    ) -> Answered {
        let (charge, refusal) = match begun {
            Begun::Admitted(charge) if request.headers().len() > HEAD_FIELDS_MAX => {
                (charge, HeadRefusal::TooManyFields)
            }
            Begun::Admitted(charge) => return Ok(self.handled(charge, request).await),
            Begun::Refused(charge) => (charge, HeadRefusal::Overloaded),
            // A client may send it again: nothing was done (RFC 9113 8.7).
            Begun::Reset => {
                drop(request);
                pause_before_shedding().await;
                return Err(h2::Reason::REFUSED_STREAM.into());
            }
        };
        // The body is dropped unread.
        let (head, _) = request.into_parts();
        let answer = self.service.refused(&self.caller, &head, refusal);
        drop(head);
        if refusal == HeadRefusal::Overloaded {
            pause_before_shedding().await;
        }
        let answer = charged(answer, charge);
        Ok(answer.map(|body| self.held.portioned(body, None)))
    }

    async fn handled(
        &self,
        charge: Charge,
        request: Request<Incoming>,
    ) -> Response<Portioned<AnswerBody>> {
        let room = self.held.room().await;
        // Over HTTP/1 the library leaves it out.
        let is_without_body = request.method() == Method::HEAD;
        let mut answer = self.service.handle(&self.caller, request).await;
        if is_without_body {
            answer = response::without_body(answer);
        }
        let answer = charged(self.caller.timed(answer), charge);
        answer.map(|body| self.held.portioned(body, room))
    }
}

/// Returns the response, which keeps the charge for as long as it holds anything. A stream is charged to the budget of
/// streams when it begins, and keeps nothing.
fn charged(answer: Answer, mut charge: Charge) -> Answer {
    answer.map(|body| match body.size_hint().exact() {
        Some(bytes) => {
            // A larger one has a budget of its own.
            let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
            charge.answered(if bytes > SMALL_BYTES_MAX { 0 } else { bytes });
            body.with(charge)
        }
        None => body,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::net::IpAddr;

    use http_body_util::BodyExt as _;
    use hyper::StatusCode;

    use super::*;
    use crate::http::limits::request_room::RequestRoom;
    use crate::http::response::json;
    use crate::http::response::pieces::pieces;

    /// Returns how many more requests without fields the address may have in flight.
    fn left(room: &Arc<RequestRoomOf>) -> usize {
        let mut charges = Vec::new();
        while let Begun::Admitted(charge) = room.begin(0) {
            charges.push(charge);
        }
        charges.len()
    }

    #[tokio::test]
    async fn a_response_is_charged_until_its_last_byte_is_taken_but_a_stream_is_not() {
        let room = RequestRoom::default().of_connection(IpAddr::from([127, 0, 0, 1]));
        let charge = || match room.begin(12 << 10) {
            Begun::Admitted(charge) => charge,
            Begun::Refused(_) | Begun::Reset => panic!("there is room"),
        };
        let all = left(&room);
        let answer = charged(json(StatusCode::OK, vec![7; 16 << 10]), charge());
        assert_eq!(left(&room), all - 3, "8 KiB of its own, and the body");
        let large = charged(json(StatusCode::OK, vec![7; 1 << 20]), charge());
        assert_eq!(left(&room), all - 4, "8 KiB of its own");
        drop(large);
        let mut whole = answer.into_body().collect().await.unwrap().to_bytes();
        let last = whole.split_off((16 << 10) - 1);
        drop(whole);
        assert_eq!(left(&room), all - 3);
        drop(last);
        assert_eq!(left(&room), all);
        let (_sender, stream) = pieces(1);
        let stream = charged(Answer::new(AnswerBody::Stream(stream)), charge());
        assert_eq!(left(&room), all);
        drop(stream);
        let empty = charged(response::empty(StatusCode::NO_CONTENT), charge());
        assert!(empty.body().is_end_stream());
        drop(empty);
        assert_eq!(left(&room), all);
    }
}
