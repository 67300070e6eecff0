//! The identifier of a request, in its response and its log lines: the client's own, or a new one.

use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use uuid::fmt::Hyphenated;

use crate::engine::Engine;

/// The header with the identifier, in requests and responses.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Maximum length of a client's own identifier, in characters.
const LENGTH_MAX: usize = 128;

/// Returns the client's own identifier if it is sent once and has 1 to 128 visible characters; else a new one.
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

/// Returns a new identifier.
#[must_use]
pub fn new_request_id(engine: &Engine) -> HeaderValue {
    let mut text = [0; Hyphenated::LENGTH];
    let text = engine.new_id().hyphenated().encode_lower(&mut text);
    HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static("-"))
}
