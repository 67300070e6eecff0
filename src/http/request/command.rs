//! Reads the command of a request from its path, its headers and its body; reports every fault.

use hyper::header::{HeaderMap, HeaderName};

use super::DryRun;
use crate::base::json::{FaultCode, Json, Reader};
use crate::base::time::Timestamp;
use crate::catalogue::{KeySource, Row};
use crate::domain::erased::{AnyCommand, Untimely};
use crate::domain::operation::Parts;
use crate::domain::rejection::Rejection;
use crate::engine::limits::admission::Permit;

/// Maximum memory of one value of a body, in bytes: as a node of the tree, or as the value that is parsed from it.
pub const VALUE_BYTES: usize = 64;
/// Bodies with at most this many values are charged for their bytes only.
const VALUES_FREE: usize = 4_096;
/// Maximum length of an idempotency key in a header, in characters.
const KEY_CHARS_MAX: usize = 255;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// A command and, if there is one, the idempotency key from the header.
pub struct ReadCommand {
    /// The command.
    pub command: Box<dyn AnyCommand>,
    /// The key from the header.
    pub header_key: Option<Box<str>>,
    /// Why the command is refused unless its key was used before: for the time of the request alone
    /// ([`Untimely`]).
    pub refusal: Option<Box<Rejection>>,
}

/// Parses a body that has to be a JSON object, and charges its share for the memory of its values.
///
/// # Errors
/// A single fault: the body is not JSON, or not an object. [`Unread::Overloaded`] when the budget has no memory left
/// for the values.
pub fn parse_object<'b>(body: &'b [u8], share: &mut Permit) -> Result<Json<'b>, Unread> {
    let fault = |code| Err(Unread::Rejected(Rejection::invalid_at("", code)));
    let Ok((json, values)) = Json::parse_counted(body) else {
        return fault(FaultCode::MalformedJson);
    };
    if values > VALUES_FREE && !share.grow(values * VALUE_BYTES, 0) {
        return Err(Unread::Overloaded);
    }
    match json {
        Json::Object(_) => Ok(json),
        _ => fault(FaultCode::WrongType),
    }
}

/// Why a request was not read.
#[derive(Debug)]
pub enum Unread {
    /// The request is invalid.
    Rejected(Rejection),
    /// The request takes more memory than the budget of bodies has left.
    Overloaded,
}

/// Returns the command of `row` if the request has no fault, and its values fit in the memory that needs no further
/// charge.
fn read_straight(
    row: &'static Row,
    path: &[(&str, &str)],
    headers: &HeaderMap,
    body: &[u8],
    now: Timestamp,
) -> Option<ReadCommand> {
    let (command, values) = row.operation.read_straight(row.name, path, body, now)?;
    if values > VALUES_FREE {
        return None;
    }
    let mut at = Reader::new(now);
    let header_key = header_key(row, headers, &mut at);
    at.is_clean().then_some(ReadCommand {
        command,
        header_key,
        refusal: None,
    })
}

/// Reads the command of `row` from the parts of a request. `share` is the charge of the body, and grows with the
/// command's memory.
///
/// # Errors
/// `request_invalid` with every fault of path, headers and body, unless each is one of the time alone; and the errors
/// of [`parse_object`].
pub fn read_command(
    row: &'static Row,
    path: &[(&str, &str)],
    headers: &HeaderMap,
    dry_run: DryRun,
    body: &[u8],
    share: &mut Permit,
    now: Timestamp,
) -> Result<ReadCommand, Unread> {
    if dry_run != DryRun::Invalid
        && let Some(command) = read_straight(row, path, headers, body, now)
    {
        return Ok(command);
    }
    read_by_tree(row, path, headers, dry_run, body, share, now)
}

/// Does what [`read_command`] does, but always through the body's tree: only that way reports the faults of a
/// request.
///
/// # Errors
/// As [`read_command`].
pub fn read_by_tree(
    row: &'static Row,
    path: &[(&str, &str)],
    headers: &HeaderMap,
    dry_run: DryRun,
    body: &[u8],
    share: &mut Permit,
    now: Timestamp,
) -> Result<ReadCommand, Unread> {
    let json = parse_object(body, share)?;
    let mut at = Reader::new(now);
    dry_run.judged(&mut at);
    let header_key = header_key(row, headers, &mut at);
    let command = row
        .operation
        .read(row.name, &Parts { path, body: &json }, &mut at);
    match command {
        Some(command) if at.is_clean() => Ok(ReadCommand {
            command,
            header_key,
            refusal: None,
        }),
        Some(command) if at.is_untimely() => {
            let refusal = Rejection::invalid(at.into_faults());
            Ok(ReadCommand {
                refusal: Some(Box::new(refusal.clone())),
                command: Box::new(Untimely { command, refusal }),
                header_key,
            })
        }
        _ => Err(Unread::Rejected(Rejection::invalid(at.into_faults()))),
    }
}

/// Returns the idempotency key from the header, for an operation that takes it from there.
fn header_key(row: &Row, headers: &HeaderMap, at: &mut Reader) -> Option<Box<str>> {
    match row.key {
        KeySource::Header => read_key(headers, at),
        KeySource::HeaderIfSent => read_key_if_sent(headers, at),
        _ => None,
    }
}

/// Returns the key in the header; without the header, a new key that no other request has.
fn read_key_if_sent(headers: &HeaderMap, at: &mut Reader) -> Option<Box<str>> {
    match headers.contains_key(IDEMPOTENCY_KEY) {
        true => read_key(headers, at),
        false => Some(uuid::Uuid::new_v4().to_string().into()),
    }
}

/// Parses the header `Idempotency-Key`: sent once, 1 to 255 characters of visible ASCII and inner spaces.
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
    use std::sync::Arc;

    use super::*;
    use crate::engine::limits::admission::Admission;

    fn key_fault(values: &[&[u8]]) -> Option<(String, &'static str)> {
        let mut headers = HeaderMap::new();
        for value in values {
            let value = hyper::header::HeaderValue::from_bytes(value).unwrap();
            headers.append(IDEMPOTENCY_KEY, value);
        }
        let mut at = Reader::new(Timestamp::default());
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

    #[test]
    fn a_body_of_many_values_is_charged_what_they_take() {
        let budget = Arc::new(Admission::new(5_000 * VALUE_BYTES));
        let text = |values: usize| format!("{{\"a\":[{}0]}}", "0,".repeat(values - 3));
        let mut share = Permit::none(&budget);
        assert!(parse_object(text(5_000).as_bytes(), &mut share).is_ok());
        assert_eq!(share.amount(), 5_000 * VALUE_BYTES);
        let mut share = Permit::none(&budget);
        assert!(parse_object(text(VALUES_FREE).as_bytes(), &mut share).is_ok());
        let more = text(VALUES_FREE + 1);
        let mut share = Admission::admit(&budget, budget.free() / 2).unwrap();
        let refused = parse_object(more.as_bytes(), &mut share);
        assert!(matches!(refused, Err(Unread::Overloaded)));
    }
}
