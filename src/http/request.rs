//! Reading a request: its body, its headers, its command; every fault found, none passed over.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Body;
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName};
use tokio::time::error::Elapsed;

use crate::base::json::{FaultCode, Json, Reader};
use crate::base::time::Instant;
use crate::catalogue::{KeySource, Row};
use crate::domain::operation::{AnyCommand, Parts};
use crate::domain::rejection::Rejection;
use crate::engine::admission::{Admission, Permit};

/// The most bytes that the body of a command may have.
pub const BODY_BYTES_MAX: usize = 1 << 20;
/// How long a body may take to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(20);
/// The most characters that a key of idempotency in a header may have.
const KEY_CHARS_MAX: usize = 255;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Why a body was not read.
#[derive(Debug, PartialEq, Eq)]
pub enum BodyError {
    /// As many bytes of bodies are in flight as may be.
    Overloaded,
    /// It has more bytes than it may.
    TooLarge,
    /// It did not arrive in time, or broke off.
    Broken,
}

/// Whether the body is of the media type `expected`, with or without parameters.
#[must_use]
pub fn is_media_type(headers: &HeaderMap, expected: &str) -> bool {
    let mut values = headers.get_all(CONTENT_TYPE).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return false;
    };
    let Ok(value) = value.to_str() else {
        return false;
    };
    let essence = value.split(';').next().unwrap_or_default();
    essence.trim().eq_ignore_ascii_case(expected)
}

/// The whole body, when it has at most [`BODY_BYTES_MAX`] bytes, and its share of `budget`, the
/// bytes of bodies that may be in flight.
///
/// # Errors
/// When it is larger, slower, or breaks off, or the budget is used up.
pub async fn whole_body<B>(
    headers: &HeaderMap,
    body: B,
    budget: &Arc<Admission>,
) -> Result<(Bytes, Permit), BodyError>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let announced = headers
        .get(CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok());
    let announced: Option<usize> = announced.and_then(|length| length.parse().ok());
    if announced.is_some_and(|length| length > BODY_BYTES_MAX) {
        return Err(BodyError::TooLarge);
    }
    // A body that does not say how long it is may be as long as any.
    let share = Admission::admit(budget, announced.unwrap_or(BODY_BYTES_MAX));
    let share = share.ok_or(BodyError::Overloaded)?;
    let collected = Limited::new(body, BODY_BYTES_MAX).collect();
    match within(BODY_TIMEOUT, collected).await {
        Ok(Ok(collected)) => Ok((collected.to_bytes(), share)),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(BodyError::TooLarge),
        Ok(Err(_)) | Err(_) => Err(BodyError::Broken),
    }
}

/// As [`tokio::time::timeout`], for what is mostly there at the second look: only then is there
/// a timer, which costs a system call.
async fn within<F: Future>(limit: Duration, future: F) -> Result<F::Output, Elapsed> {
    let mut future = pin!(future);
    let mut looked = false;
    let early = poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending if looked => Poll::Ready(None),
        Poll::Pending => {
            looked = true;
            context.waker().wake_by_ref();
            Poll::Pending
        }
    });
    match early.await {
        Some(output) => Ok(output),
        None => tokio::time::timeout(limit, future).await,
    }
}

/// A command and, where its key is there, the key from the header.
pub struct ReadCommand {
    /// The command.
    pub command: Box<dyn AnyCommand>,
    /// The key from the header.
    pub header_key: Option<Box<str>>,
}

/// Parses a body that has to be a JSON object.
///
/// # Errors
/// One fault, alone: it is no JSON, or no object.
pub fn parse_object(body: &[u8]) -> Result<Json<'_>, Rejection> {
    match Json::parse(body) {
        Ok(json @ Json::Object(_)) => Ok(json),
        Ok(_) => Err(Rejection::invalid_at("", FaultCode::WrongType)),
        Err(_) => Err(Rejection::invalid_at("", FaultCode::MalformedJson)),
    }
}

/// Reads the command of `row` from the parts of a request.
///
/// # Errors
/// `request_invalid` with every fault of path, headers and body.
pub fn read_command(
    row: &'static Row,
    path: &[(&str, &str)],
    headers: &HeaderMap,
    body: &[u8],
    now: Instant,
) -> Result<ReadCommand, Rejection> {
    let json = parse_object(body)?;
    let mut at = Reader::new(now);
    let header_key = match row.key {
        KeySource::Header => read_key(headers, &mut at),
        _ => None,
    };
    let command = row
        .operation
        .read(row.name, &Parts { path, body: &json }, &mut at);
    match command {
        Some(command) if at.is_clean() => Ok(ReadCommand {
            command,
            header_key,
        }),
        _ => Err(Rejection::invalid(at.into_faults())),
    }
}

/// The header `Idempotency-Key`: once, 1 to 255 characters of visible ASCII and inner spaces.
fn read_key(headers: &HeaderMap, at: &mut Reader) -> Option<Box<str>> {
    at.inside("header", |at| {
        at.inside("Idempotency-Key", |at| {
            let mut values = headers.get_all(IDEMPOTENCY_KEY).iter();
            let Some(value) = values.next() else {
                return at.fault(FaultCode::Required);
            };
            if values.next().is_some() {
                return at.fault(FaultCode::NotUnique);
            }
            let bytes = value.as_bytes();
            if bytes.is_empty() {
                return at.fault(FaultCode::TooShort);
            }
            let visible = |byte: &u8| matches!(byte, b' '..=b'~');
            let padded = bytes.first() == Some(&b' ') || bytes.last() == Some(&b' ');
            let Some(text) = std::str::from_utf8(bytes).ok() else {
                return at.fault(FaultCode::Pattern);
            };
            if text.chars().count() > KEY_CHARS_MAX {
                return at.fault(FaultCode::TooLong);
            }
            if text.bytes().all(|byte| byte == b' ') {
                return at.fault(FaultCode::Blank);
            }
            if padded || !bytes.iter().all(visible) {
                return at.fault(FaultCode::Pattern);
            }
            Some(text.into())
        })
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn key_fault(values: &[&[u8]]) -> Option<(String, &'static str)> {
        let mut headers = HeaderMap::new();
        for value in values {
            let value = hyper::header::HeaderValue::from_bytes(value).unwrap();
            headers.append(IDEMPOTENCY_KEY, value);
        }
        let mut at = Reader::new(Instant::default());
        let key = read_key(&headers, &mut at);
        let fault = at.into_faults().into_iter().next();
        assert_eq!(key.is_some(), fault.is_none());
        fault.map(|fault| (fault.path, fault.code.as_str()))
    }

    #[test]
    fn a_key_in_the_header_is_visible_ascii_of_1_to_255_characters_sent_once() {
        let path = "header.Idempotency-Key".to_owned();
        let fault = |code| Some((path.clone(), code));
        assert_eq!(key_fault(&[b"a key"]), None);
        assert_eq!(key_fault(&[&[b'k'; 255]]), None);
        assert_eq!(key_fault(&[]), fault("required"));
        assert_eq!(key_fault(&[b""]), fault("too_short"));
        assert_eq!(key_fault(&[&[b'k'; 256]]), fault("too_long"));
        assert_eq!(key_fault(&[b"a", b"a"]), fault("not_unique"));
        assert_eq!(key_fault(&["\u{e9}".as_bytes()]), fault("pattern"));
        assert_eq!(key_fault(&[b"a\tb"]), fault("pattern"));
    }

    #[tokio::test]
    async fn a_body_takes_its_share_of_those_in_flight_and_gives_it_back() {
        let budget = Arc::new(Admission::new(BODY_BYTES_MAX + 3));
        let read = async |announced: Option<&str>| {
            let mut headers = HeaderMap::new();
            if let Some(length) = announced {
                headers.append(CONTENT_LENGTH, length.parse().unwrap());
            }
            let body = http_body_util::Full::new(Bytes::from_static(b"body"));
            whole_body(&headers, body, &budget).await
        };
        // One that does not say how long it is may be as long as any.
        let (body, share) = read(None).await.unwrap();
        assert_eq!(&body[..], b"body");
        assert_eq!(read(Some("4")).await.err(), Some(BodyError::Overloaded));
        drop(share);
        let (_, _share) = read(Some("4")).await.unwrap();
        assert_eq!(read(None).await.err(), Some(BodyError::Overloaded));
        let longer = (BODY_BYTES_MAX + 1).to_string();
        assert_eq!(read(Some(&longer)).await.err(), Some(BodyError::TooLarge));
    }

    #[tokio::test]
    async fn what_comes_at_the_first_or_second_look_or_later_is_had_and_what_does_not_come_is_given_up()
     {
        let none = Duration::ZERO;
        assert_eq!(within(none, async { 1 }).await, Ok(1));
        // Even without any time there are two looks before there is a timer.
        let second = async {
            tokio::task::yield_now().await;
            2
        };
        assert_eq!(within(none, second).await, Ok(2));
        let later = async {
            tokio::time::sleep(Duration::from_millis(5)).await;
            3
        };
        assert_eq!(within(BODY_TIMEOUT, later).await, Ok(3));
        let never = std::future::pending::<()>();
        assert!(within(Duration::from_millis(5), never).await.is_err());
    }

    #[test]
    fn media_types_are_compared_without_parameters_and_case() {
        let is_json = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.append(CONTENT_TYPE, value.parse().unwrap());
            is_media_type(&headers, "application/json")
        };
        assert!(is_json("application/json"));
        assert!(is_json("Application/JSON; charset=utf-8"));
        assert!(!is_json("application/jsonx"));
        assert!(!is_json("text/plain"));
        assert!(!is_media_type(&HeaderMap::new(), "application/json"));
    }
}
