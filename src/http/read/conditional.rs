//! Conditional reads: entity tags and `If-None-Match` (RFC 9110 13.1.2).

use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::{CACHE_CONTROL, HeaderMap, HeaderValue, IF_NONE_MATCH};

use crate::domain::read::Representation;
use crate::http::limits::response_room::ResponseRoomOf;
use crate::http::response::{self, Answer, json, tagged};

/// Length of an entity tag that is a digest, in characters.
const TAG: usize = 32;

/// Returns 200 with the entity tag, or 304 if the client has this version already; `None` if the budget of unsent
/// bodies is used up.
pub(in crate::http) fn found_answer(
    found: Representation,
    headers: &HeaderMap,
    outgoing: ResponseRoomOf<'_>,
) -> Option<Answer> {
    if has_tag(headers, &found.tag) {
        return Some(unchanged(&found.tag));
    }
    let body = outgoing.body(found.body.len(), || found.body)?;
    Some(tagged(json(StatusCode::OK, body), &found.tag))
}

/// Does what [`found_answer`] does, for a body that is charged already, or that all answers share.
pub(super) fn found_body(tag: &str, body: impl Into<Bytes>, headers: &HeaderMap) -> Answer {
    if has_tag(headers, tag) {
        return unchanged(tag);
    }
    tagged(json(StatusCode::OK, body), tag)
}

fn unchanged(tag: &str) -> Answer {
    tagged(response::empty(StatusCode::NOT_MODIFIED), tag)
}

/// Returns the tag of a body, made from its content alone.
pub(in crate::http) fn tag_of(body: &[u8]) -> String {
    let mut tag = blake3::hash(body).to_hex().to_string();
    tag.truncate(TAG);
    tag
}

/// A body that does not change while the program runs; all answers share it.
pub(in crate::http) struct Unchanging {
    tag: String,
    body: Bytes,
}

impl Unchanging {
    pub(in crate::http) fn new(body: Bytes) -> Self {
        let tag = tag_of(&body);
        Self { tag, body }
    }

    /// Returns 200, or 304 if the client has the body already. Caches may keep it but must revalidate it: another
    /// version of the program may have another body.
    pub(in crate::http) fn answer(&self, headers: &HeaderMap) -> Answer {
        let mut answer = found_body(&self.tag, self.body.clone(), headers);
        let kept = HeaderValue::from_static("no-cache");
        answer.headers_mut().insert(CACHE_CONTROL, kept);
        answer
    }
}

/// Whether `If-None-Match` contains the tag, compared weakly; `*` matches any tag (RFC 9110 13.1.2).
pub(in crate::http) fn has_tag(headers: &HeaderMap, tag: &str) -> bool {
    headers.get_all(IF_NONE_MATCH).iter().any(|value| {
        let Ok(value) = value.to_str() else {
            return false;
        };
        value.split(',').map(str::trim).any(|candidate| {
            let opaque = candidate.strip_prefix("W/").unwrap_or(candidate);
            candidate == "*"
                || opaque
                    .strip_prefix('"')
                    .and_then(|rest| rest.strip_suffix('"'))
                    == Some(tag)
        })
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_large_body_that_the_client_already_has_needs_no_room() {
        let found = |bytes| Representation {
            tag: "7".into(),
            body: vec![b'7'; bytes],
        };
        let (outgoing, _all) = crate::http::limits::response_room::taken();
        let outgoing = outgoing.to("me");
        let mut headers = HeaderMap::new();
        assert!(found_answer(found(17 << 10), &headers, outgoing).is_none());
        let small = found_answer(found(16 << 10), &headers, outgoing);
        assert_eq!(small.unwrap().status(), StatusCode::OK);
        headers.insert(IF_NONE_MATCH, HeaderValue::from_static("\"7\""));
        let same = found_answer(found(17 << 10), &headers, outgoing);
        assert_eq!(same.unwrap().status(), StatusCode::NOT_MODIFIED);
    }

    #[test]
    fn a_tag_is_matched_weakly_in_a_list_or_by_a_star() {
        let matches = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.append(IF_NONE_MATCH, value.parse().unwrap());
            has_tag(&headers, "7")
        };
        for value in ["\"7\"", "W/\"7\"", "\"1\", \"7\"", "*"] {
            assert!(matches(value), "{value}");
        }
        for value in ["7", "\"77\"", "\"\"", "\"7"] {
            assert!(!matches(value), "{value}");
        }
    }
}
