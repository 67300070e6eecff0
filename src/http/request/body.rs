//! Reads request bodies, and handles the rest of a body after an early response.

use std::borrow::Cow;
use std::error::Error;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::StatusCode;
use hyper::body::Body;
use hyper::header::{CONNECTION, CONTENT_TYPE, EXPECT, HeaderMap, HeaderValue};
use tokio::time::{sleep, timeout};

use super::arriving::{BodyError, is_media_type, whole_body};
use crate::base::json::FaultCode;
use crate::domain::rejection::Rejection;
use crate::engine::feed::Feed;
use crate::engine::limits::admission::{Admission, Permit};
use crate::http::limits::pace::Pace;
use crate::http::response::{Answer, Problems};

/// Limits for draining the rest of a body after an early response: bytes, total time, and time without a byte.
const REST_BYTES_MAX: usize = 8 << 20;
const REST_TIMEOUT: Duration = Duration::from_secs(2);
const REST_SILENCE_MAX: Duration = Duration::from_millis(250);
/// The time for draining once the service stops, and for a body that is still arriving then: the response has to be
/// sent before the stop is over (`FrontLimits::drain_timeout`).
const REST_TIMEOUT_AT_STOP: Duration = Duration::from_millis(250);
const ARRIVING_AT_STOP: Duration = Duration::from_millis(600);
/// Delay of a 429 for a command.
const SHED_PAUSE: Duration = Duration::from_millis(20);

/// Returns 429, after a pause.
pub(in crate::http) async fn shed(problems: Problems) -> Answer {
    pause_before_shedding().await;
    problems.overloaded()
}

/// Waits as long as a 429 is delayed. Without the pause, clients that retry at once would get so many 429s that little
/// capacity is left for the commands that were admitted.
pub(in crate::http) async fn pause_before_shedding() {
    sleep(SHED_PAUSE).await;
}

/// Returns the body of a request as JSON, or 415, 413, 408; or `request_invalid`, if its chunks or trailers are
/// malformed; or 503, if the service stops (which ends `feed`) before the body is there.
pub(in crate::http) async fn read_json_body<B>(
    headers: &HeaderMap,
    body: B,
    budget: &Arc<Admission>,
    feed: &Feed,
    problems: Problems,
) -> Result<(Bytes, Permit), Box<Answer>>
where
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>>,
{
    if !is_media_type(headers, "application/json") {
        // Without a body no media type is missing, but the body itself.
        return match body.is_end_stream() && !headers.contains_key(CONTENT_TYPE) {
            true => Ok((Bytes::new(), Permit::none(budget))),
            false => Err(no_json(problems)),
        };
    }
    let stop = || feed.ended_for(ARRIVING_AT_STOP);
    let whole = whole_body(headers, body, budget, Pace::OF_COMMANDS, stop).await;
    whole.map_err(|error| not_arrived(&error, problems))
}

/// Reads the body of a request that does not need one, and returns an empty body. Returns 415 if the request has a
/// body without the media type that it should have.
pub(in crate::http) async fn no_body<B>(
    headers: &HeaderMap,
    body: B,
    budget: &Arc<Admission>,
    feed: &Feed,
    problems: Problems,
) -> Result<(Bytes, Permit), Box<Answer>>
where
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>>,
{
    // A body in chunks, or over HTTP/2, may turn out to be empty.
    if !body.is_end_stream() {
        let stop = || feed.ended_for(ARRIVING_AT_STOP);
        let whole = whole_body(headers, body, budget, Pace::OF_COMMANDS, stop).await;
        let (body, _) = whole.map_err(|error| not_arrived(&error, problems))?;
        if !body.is_empty() {
            return Err(no_json(problems));
        }
    }
    Ok((Bytes::new(), Permit::none(budget)))
}

fn no_json(problems: Problems) -> Box<Answer> {
    let message = "The body must be application/json.";
    Box::new(unsupported_media_type(problems, message))
}

/// Returns the 429, 413, 408 or 503 for a body that did not arrive, or what a body that is no JSON gets for one that
/// cannot be read.
fn not_arrived(error: &BodyError, problems: Problems) -> Box<Answer> {
    Box::new(match error {
        BodyError::Overloaded => problems.overloaded(),
        BodyError::TooLarge => problems.problem(
            StatusCode::PAYLOAD_TOO_LARGE,
            "body_too_large",
            "The body is larger than 1 MiB.",
        ),
        BodyError::Broken => problems.problem(
            StatusCode::REQUEST_TIMEOUT,
            "request_invalid",
            "The body did not arrive whole and in time; nothing was done.",
        ),
        BodyError::Malformed => {
            let message =
                "The chunks or trailers of the body are malformed, or too long; nothing was done.";
            let rejection = Rejection {
                message: Cow::Borrowed(message),
                ..Rejection::invalid_at("", FaultCode::MalformedJson)
            };
            last(problems.rejected(&rejection))
        }
        BodyError::Stopping => problems.problem(
            StatusCode::SERVICE_UNAVAILABLE,
            "service_unavailable",
            "The service stops, and the body was not whole yet; nothing was done.",
        ),
    })
}

/// Makes this the last response of its connection: after malformed chunks nobody knows where the next request begins.
/// Over HTTP/2 there are none.
pub(in crate::http) fn last(mut answer: Answer) -> Answer {
    let headers = answer.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    answer
}

/// Returns 415, with a message that names the accepted media types.
pub(in crate::http) fn unsupported_media_type(problems: Problems, message: &'static str) -> Answer {
    problems.problem(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "unsupported_media_type",
        message,
    )
}

/// Reads the body of a request that was answered early to its end, so that the connection can be reused. Returns
/// whether the end was reached; if not, an HTTP/1 connection has to be closed.
pub(in crate::http) async fn end<B>(body: &mut B, headers: &HeaderMap, feed: &Feed) -> bool
where
    B: Body<Data = Bytes> + Unpin,
{
    if !headers.contains_key(EXPECT) {
        return drain(body, feed).await;
    }
    // A client that waits for 100 (Continue) has not sent the body yet, and need not. A body in chunks may have been
    // read already, which only a poll for its end shows; waiting for that end would make the client send the body.
    poll_fn(|context| {
        let next = Pin::new(&mut *body).poll_frame(context);
        Poll::Ready(matches!(next, Poll::Ready(None)))
    })
    .await
}

/// Drains the rest of the body of a request that was answered early, up to 8 MiB. Returns whether that was all of it.
/// Closing the connection with unread bytes would reset it, and the client might not see the response. A stop, which
/// ends `feed`, leaves little time for this.
async fn drain<B>(body: &mut B, feed: &Feed) -> bool
where
    B: Body<Data = Bytes> + Unpin,
{
    let draining = async {
        let mut taken = 0;
        while !body.is_end_stream() {
            if taken >= REST_BYTES_MAX {
                return false;
            }
            match timeout(REST_SILENCE_MAX, body.frame()).await {
                Ok(Some(Ok(frame))) => taken += frame.data_ref().map_or(0, Bytes::len),
                Ok(None) => return true,
                Ok(Some(Err(_))) | Err(_) => return false,
            }
        }
        true
    };
    // A client that has not sent the rest by then loses the connection.
    tokio::select! {
        is_all = draining => is_all,
        () = sleep(REST_TIMEOUT) => false,
        () = feed.ended_for(REST_TIMEOUT_AT_STOP) => false,
    }
}
