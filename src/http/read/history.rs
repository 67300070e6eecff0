//! Histories and earlier bodies: parses their queries, and answers them.

use bytes::Bytes;
use hyper::{StatusCode, Uri};

use super::conditional::found_answer;
use super::cursor::{self, CursorOwner, Cursors};
use super::query::{Query, whole_number};
use crate::base::json::FaultCode;
use crate::base::time::Timestamp;
use crate::catalogue::Success;
use crate::domain::rejection::Rejection;
use crate::engine::read::past::{HistoryPage, NoPast, PastFound, PastQuery};
use crate::http::limits::response_room::ResponseRoomOf;
use crate::http::response::{Answer, Problems, at_position};
use hyper::header::HeaderMap;

/// Maximum size of a page without its revisions, in bytes.
const AROUND_BYTES: usize = 256;

/// Returns which earlier body a read's query requests, if any. As with every read, other parameters are ignored.
///
/// # Errors
/// `request_invalid` with every fault.
pub(in crate::http) fn asked_of_read(query: Option<&str>) -> Result<Option<PastQuery>, Rejection> {
    let Some(text) = query else {
        return Ok(None);
    };
    let pairs = form_urlencoded::parse(text.as_bytes());
    let own = pairs.filter(|(name, _)| name == "revision" || name == "at");
    let own = form_urlencoded::Serializer::new(String::new())
        .extend_pairs(own)
        .finish();
    let mut query = Query::read(Some(&own), &["revision", "at"]);
    let revision = query.one("revision", whole_number);
    let at = query.one("at", time);
    let both = ["revision", "at"].map(|name| !query.all(name).is_empty());
    if both == [true, true] {
        query.fault("at", FaultCode::NotAllowed);
    }
    query.finish()?;
    let revision = revision.map(PastQuery::Revision);
    Ok(revision.or(at.map(PastQuery::At)))
}

/// Parses a time in a query. The `+` of its offset, where it was not percent-encoded, has become a blank, and no time
/// has another blank.
fn time(text: &str) -> Result<Timestamp, FaultCode> {
    Timestamp::parse(&text.replace(' ', "+")).ok_or(FaultCode::Pattern)
}

/// The parsed query of a history.
pub(in crate::http) struct HistoryQuery {
    pub(in crate::http) query: PastQuery,
    cursors: Cursors,
}

impl HistoryQuery {
    /// Parses the query that `owner` sends to the history at this path.
    ///
    /// # Errors
    /// `request_invalid` with every fault.
    pub(in crate::http) fn read(uri: &Uri, owner: CursorOwner<'_>) -> Result<Self, Rejection> {
        let mut query = Query::read(uri.query(), &["limit", "cursor"]);
        let limit = cursor::limit(&mut query);
        let cursors = Cursors::bound_to(&format!("{}\n{owner}", uri.path()));
        let from = cursors.place(&mut query, |from| {
            from.parse().ok().filter(|from| *from > 0)
        });
        query.finish()?;
        Ok(Self {
            query: PastQuery::History { from, limit },
            cursors,
        })
    }

    /// Returns the position at which the page begins, from the cursor.
    pub(in crate::http) fn place(&self) -> Option<u64> {
        match self.query {
            PastQuery::History { from, .. } => from,
            PastQuery::Revision(_) | PastQuery::At(_) => None,
        }
    }

    /// Returns the page's body; `None` if the budget of unsent bodies is used up.
    fn body(&self, page: &HistoryPage, outgoing: ResponseRoomOf<'_>) -> Option<Bytes> {
        let revisions = page.revisions.iter();
        let bytes: usize = revisions.map(|revision| revision.len() + 1).sum();
        outgoing.body(bytes + AROUND_BYTES, || self.written(page).into_bytes())
    }

    fn written(&self, page: &HistoryPage) -> String {
        let cursor = |from: u64| format!("\"{}\"", self.cursors.at(from));
        format!(
            "{{\"revisions\":[{}],\"next\":{},\"complete\":{}}}",
            page.revisions.join(","),
            page.next.map_or_else(|| "null".to_owned(), cursor),
            page.is_complete
        )
    }
}

/// Returns the answer to a request for a history or an earlier body; 429 if the budget of unsent bodies is used up.
pub(in crate::http) fn answer(
    problems: Problems,
    found: Result<(PastFound, u64), NoPast>,
    asked: Option<&HistoryQuery>,
    headers: &HeaderMap,
    outgoing: ResponseRoomOf<'_>,
) -> Answer {
    match (found, asked) {
        (Ok((PastFound::Body(body), position)), _) => {
            problems.sent(found_answer(body, headers, outgoing), position)
        }
        (Ok((PastFound::Page(page), position)), Some(asked)) => {
            problems.sent_body(asked.body(&page, outgoing), position)
        }
        (Err(NoPast::Gone { position }), _) => {
            let gone = "The log no longer has the resource's state of that time.";
            at_position(
                problems.problem(StatusCode::GONE, "revision_gone", gone),
                position,
            )
        }
        (Err(NoPast::Answered(result)), _) => problems.reply(result, Success::Ok),
        (Err(NoPast::NoSuchPlace) | Ok(_), _) => {
            problems.rejected(&Rejection::invalid_at("query.cursor", FaultCode::Pattern))
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn parameters_of_the_past_are_read_strictly_and_others_are_ignored() {
        let asked = |query: &str| asked_of_read(Some(query));
        fn faults(query: &str) -> Vec<(String, &'static str)> {
            let faults = asked_of_read(Some(query)).unwrap_err().faults.into_iter();
            faults
                .map(|fault| (fault.path, fault.code.as_str()))
                .collect()
        }
        let one = |path: &str, code| vec![(path.to_owned(), code)];
        assert_eq!(asked_of_read(None).unwrap(), None);
        assert_eq!(asked("limit=7&x").unwrap(), None);
        assert_eq!(asked("revision=7&x").unwrap(), Some(PastQuery::Revision(7)));
        let at = Timestamp::parse("2026-11-20T09:00:00+09:00").unwrap();
        for offset in ["%2B09:00", "+09:00", "%2b09%3A00", "%2009:00"] {
            let query = format!("at=2026-11-20T09:00:00{offset}");
            assert_eq!(asked(&query).unwrap(), Some(PastQuery::At(at)), "{query}");
        }
        for bad in ["x", "-", "%2B1", "1.0"] {
            let bad = format!("revision={bad}");
            assert_eq!(faults(&bad), one("query.revision", "wrong_type"), "{bad}");
        }
        for bad in ["-1", "9223372036854775808"] {
            let bad = format!("revision={bad}");
            assert_eq!(faults(&bad), one("query.revision", "out_of_range"), "{bad}");
        }
        for name in ["revision", "at"] {
            let path = format!("query.{name}");
            assert_eq!(faults(&format!("{name}=")), one(&path, "too_short"));
        }
        for bad in [
            "now",
            "2026-11-20",
            "2026-11-20T09:00:00",
            "2026-11-20+09:00:00Z",
            "2026-11-20T09:00:00+Z",
            "2026-11-20T09:00:00++09:00",
            "2026-11-20T09:00:00+%2B09:00",
            "+2026-11-20T09:00:00Z",
            "2026-11-20T09:00:00Z+",
        ] {
            let bad = format!("at={bad}");
            assert_eq!(faults(&bad), one("query.at", "pattern"), "{bad}");
        }
        let both = "revision=1&at=2026-11-20T09:00:00Z";
        assert_eq!(faults(both), one("query.at", "not_allowed"));
        assert_eq!(
            faults("at=x&revision=1&revision=2"),
            [
                ("query.revision".to_owned(), "duplicate_field"),
                ("query.at".to_owned(), "pattern"),
            ]
        );
    }

    #[test]
    fn a_cursor_is_good_for_its_history_its_reader_and_its_log_alone() {
        let read = |uri: &str, subject: &str| {
            HistoryQuery::read(&uri.parse().unwrap(), CursorOwner::named(subject))
        };
        let first = read("/things/1/history", "me").unwrap();
        let page = HistoryPage {
            revisions: vec!["{}".into()],
            next: Some(7),
            is_complete: true,
        };
        let body: serde_json::Value = serde_json::from_str(&first.written(&page)).unwrap();
        let cursor = body["next"].as_str().unwrap();
        let next = read(&format!("/things/1/history?limit=3&cursor={cursor}"), "me");
        let expected = PastQuery::History {
            from: Some(7),
            limit: 3,
        };
        assert_eq!(next.unwrap().query, expected);
        let before_all = first.cursors.at(0);
        for (uri, subject) in [
            (format!("/things/1/history?cursor={before_all}"), "me"),
            (format!("/things/2/history?cursor={cursor}"), "me"),
            (format!("/things/1/history?cursor={cursor}"), "you"),
            (format!("/things/1/history?cursor={cursor}A"), "me"),
            ("/things/1/history?cursor=".to_owned(), "me"),
            ("/things/1/history?limit=501".to_owned(), "me"),
            ("/things/1/history?order=oldest".to_owned(), "me"),
        ] {
            assert!(read(&uri, subject).is_err(), "{uri}");
        }
        let restored = CursorOwner {
            log_id: "its restored log",
            ..CursorOwner::named("me")
        };
        let uri = format!("/things/1/history?cursor={cursor}");
        assert!(HistoryQuery::read(&uri.parse().unwrap(), restored).is_err());
    }

    #[test]
    fn a_refused_past_read_succeeds_once_an_unsent_response_is_sent() {
        let large = "7".repeat(17 << 10);
        let asked = HistoryQuery::read(
            &"/things/1/history".parse().unwrap(),
            CursorOwner::named("me"),
        )
        .unwrap();
        let page = || HistoryPage {
            revisions: vec![large.clone()],
            ..HistoryPage::default()
        };
        let body = || crate::domain::read::Representation {
            tag: "7".into(),
            body: large.clone().into_bytes(),
        };
        let (outgoing, all) = crate::http::limits::response_room::taken();
        let answers = || {
            [PastFound::Page(page()), PastFound::Body(body())].map(|found| {
                let (found, headers) = (Ok((found, 1)), HeaderMap::new());
                answer(
                    Problems::PLAIN,
                    found,
                    Some(&asked),
                    &headers,
                    outgoing.to("me"),
                )
            })
        };
        for refused in answers() {
            assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
            assert_eq!(refused.body().code(), Some("overloaded"));
            assert_eq!(refused.headers()["retry-after"], "1");
        }
        drop(all);
        for told in answers() {
            assert_eq!(told.status(), StatusCode::OK);
        }
    }
}
