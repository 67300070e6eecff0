//! The response to a head that hyper cannot parse. hyper answers such a head by itself, with a bare status; here a
//! problem takes the place of that response, with the headers of every other response.

use std::sync::Arc;
use std::time::Duration;

use hyper::StatusCode;
use hyper::body::Body as _;
use hyper::header::STRICT_TRANSPORT_SECURITY;

use crate::http::request::request_id::{REQUEST_ID, new_request_id};
use crate::http::response::answer_body::AnswerBody;
use crate::http::response::{Answer, Problems};
use crate::http::service::{Service, TLS_ONLY};

/// Makes the response with this status to a head that cannot be parsed.
pub type Unparsed = Arc<dyn Fn(StatusCode) -> Answer + Send + Sync>;

impl Service {
    /// Returns the function that makes these responses for the service's clients.
    #[must_use]
    pub fn unparsed(self: &Arc<Self>, is_secure: bool) -> Unparsed {
        let service = Arc::clone(self);
        Arc::new(move |status| service.cannot_parse(status, is_secure))
    }

    fn cannot_parse(&self, status: StatusCode, is_secure: bool) -> Answer {
        let message = match status {
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => {
                "The head of the request has more than 16 KiB or more than 100 fields. \
                 The connection is closed."
            }
            _ => {
                "The head of the request is not one that HTTP/1.1 and this service allow: its first \
                 line, `Host`, its lengths, or a field. The connection is closed."
            }
        };
        let mut answer = Problems::PLAIN.problem(status, "request_invalid", message);
        self.metrics
            .count(self.metrics.elsewhere(), status, Duration::ZERO);
        self.metrics.count_refusal("request_invalid");
        let headers = answer.headers_mut();
        headers.insert(REQUEST_ID, new_request_id(&self.engine));
        if is_secure {
            headers.insert(STRICT_TRANSPORT_SECURITY, TLS_ONLY);
        }
        answer
    }
}

/// A response that hyper has made by itself.
#[derive(Debug, PartialEq, Eq)]
pub struct Bare<'b> {
    /// The response's status.
    pub status: StatusCode,
    /// The lines of the head with their line ends, without `content-length`.
    lines: Vec<&'b [u8]>,
}

impl<'b> Bare<'b> {
    /// Parses these bytes as a response that hyper made by itself, and nothing else: a client error whose only fields
    /// are those that hyper gives each response. The service's own responses have more fields.
    #[must_use]
    pub fn of(bytes: &'b [u8]) -> Option<Self> {
        let status = bytes.strip_prefix(b"HTTP/1.")?.get(2..5)?;
        if status.first() != Some(&b'4') {
            return None;
        }
        let status = StatusCode::from_bytes(status).ok()?;
        let head = bytes.strip_suffix(b"\r\n")?;
        if !head.ends_with(b"\r\n") {
            return None;
        }
        let mut lines: Vec<&[u8]> = head.split_inclusive(|byte| *byte == b'\n').collect();
        let is_empty = |line: &[u8]| line == b"content-length: 0\r\n";
        let all = lines.len();
        lines.retain(|line| !is_empty(line));
        let is_common =
            |line: &&[u8]| line.starts_with(b"connection: ") || line.starts_with(b"date: ");
        (lines.len() + 1 == all && lines.iter().skip(1).all(is_common))
            .then_some(Self { status, lines })
    }

    /// Returns the bytes of `answer`, which is complete, in the place of this response.
    #[must_use]
    pub fn replaced_by(&self, answer: &Answer) -> Vec<u8> {
        let mut bytes = self.lines.concat();
        let length = answer.body().size_hint().lower();
        bytes.extend_from_slice(format!("content-length: {length}\r\n").as_bytes());
        for (name, value) in answer.headers() {
            for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
                bytes.extend_from_slice(part);
            }
        }
        bytes.extend_from_slice(b"\r\n");
        if let AnswerBody::Whole(body) | AnswerBody::Problem(body, _) = answer.body() {
            bytes.extend_from_slice(body);
        }
        bytes
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const BARE: &[u8] = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\n\
        content-length: 0\r\ndate: Fri, 27 Nov 2026 13:33:55 GMT\r\n\r\n";

    #[test]
    fn a_response_of_hyper_s_own_gets_the_fields_and_the_body_of_a_problem() {
        let bare = Bare::of(BARE).unwrap();
        assert_eq!(bare.status, StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
        let answer = Problems::PLAIN.problem(bare.status, "request_invalid", "Too large.");
        let text = String::from_utf8(bare.replaced_by(&answer)).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let mut lines: Vec<&str> = head.split("\r\n").collect();
        assert_eq!(
            lines.remove(0),
            "HTTP/1.1 431 Request Header Fields Too Large"
        );
        lines.sort_unstable();
        assert_eq!(
            lines,
            [
                "connection: close",
                &format!("content-length: {}", body.len()),
                "content-type: application/json",
                "date: Fri, 27 Nov 2026 13:33:55 GMT",
            ]
        );
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(
            (&body["status"], &body["code"]),
            (&431.into(), &"request_invalid".into())
        );
    }

    #[test]
    fn no_other_response_is_taken_for_one_of_hyper_s_own() {
        let text = std::str::from_utf8(BARE).unwrap();
        for other in [
            text.replace("431 Request Header Fields Too Large", "200 OK"),
            text.replace("date", "x-request-id: 1\r\ndate"),
            text.replace("content-length: 0", "content-length: 2"),
            text.replace("content-length: 0\r\n", ""),
            text.replace("\r\n\r\n", "\r\n\r\n{}"),
            text.replace("\r\n\r\n", "\r\n\r\n\r\n"),
            text.replace("\r\n\r\n", "\r\n"),
            text.replace("HTTP/1.1", "http/1.1"),
            format!("HTTP/1.1 100 Continue\r\n\r\n{text}"),
        ] {
            assert_eq!(Bare::of(other.as_bytes()), None, "{other}");
        }
    }
}
