//! The id of a request, which its response and its log lines have: the client's own, or a new one.

use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use uuid::fmt::Hyphenated;

use crate::engine::Engine;

/// The header that carries it, both ways.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The most characters of a client's own id.
const LENGTH_MAX: usize = 128;

/// The client's own id, where it is sent once and has 1 to 128 visible characters; else a new one.
#[must_use]
pub fn request_id(engine: &Engine, headers: &HeaderMap) -> HeaderValue {
    let mut values = headers.get_all(REQUEST_ID).iter();
    if let (Some(value), None) = (values.next(), values.next()) {
        let bytes = value.as_bytes();
        let visible = bytes.iter().all(|byte| matches!(byte, b'!'..=b'~'));
        if visible && (1..=LENGTH_MAX).contains(&bytes.len()) {
            return value.clone();
        }
    }
    new_request_id(engine)
}

/// A new one.
#[must_use]
pub fn new_request_id(engine: &Engine) -> HeaderValue {
    let mut text = [0; Hyphenated::LENGTH];
    let text = engine.new_id().hyphenated().encode_lower(&mut text);
    HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static("-"))
}
