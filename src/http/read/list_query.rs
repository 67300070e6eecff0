//! The query of a list: page size, order, cursor, filters.

use super::cursor::{self, CursorOwner, Cursors};
use super::query::Query;
use crate::base::json::FaultCode;
use crate::base::text::is_blank;
use crate::domain::rejection::Rejection;

/// The most characters of an identifier.
const VALUE_MAX: usize = 512;

/// The query as the body of a command that has none: `{"query": {…}}`, a text of digits, of whatever
/// size, as a number. A duplicate parameter becomes a duplicate field. `dryRun` is judged by itself, and
/// left out.
#[must_use]
pub fn as_body(query: Option<&str>) -> Vec<u8> {
    let pairs = form_urlencoded::parse(query.unwrap_or_default().as_bytes());
    let pairs = pairs.filter(|(name, _)| name != "dryRun");
    let members = pairs.map(|(name, value)| {
        let name = serde_json::Value::from(name.as_ref());
        match json_number(&value) {
            Some(number) => format!("{name}:{number}"),
            None => format!("{name}:{}", serde_json::Value::from(value.as_ref())),
        }
    });
    let members: Vec<_> = members.collect();
    format!("{{\"query\":{{{}}}}}", members.join(",")).into_bytes()
}

/// Writes a text of digits, with or without a minus sign, as a JSON number: without leading zeros.
fn json_number(text: &str) -> Option<String> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let sign = if digits.len() < text.len() { "-" } else { "" };
    Some(match digits.trim_start_matches('0') {
        "" => "0".to_owned(),
        digits => format!("{sign}{digits}"),
    })
}

/// A parameter of a list's own: its name, and its words, of which the first is the default.
pub type OwnParameter = (&'static str, &'static [&'static str]);

/// The parsed query of a list.
#[derive(Debug, PartialEq, Eq)]
pub struct ListQuery {
    /// The most items.
    pub limit: usize,
    /// `newest` or `oldest`.
    pub order: &'static str,
    /// The place after which the page begins, from the cursor; empty for the first page.
    pub after: String,
    /// The list's own parameters.
    pub own: Vec<(&'static str, &'static str)>,
    /// The filters that are given, in the order of the list's.
    pub filters: Vec<(&'static str, String)>,
    cursors: Cursors,
}

impl ListQuery {
    /// Parses the query that `owner` sends to the list of this name. Beside `limit`, `order` and
    /// `cursor` the list has parameters of its own, and filters, each with an identifier's bounds.
    /// `is_place` says whether a cursor's place is valid.
    ///
    /// # Errors
    /// `request_invalid` with every fault.
    pub(in crate::http) fn read(
        query: Option<&str>,
        list: &str,
        owner: CursorOwner<'_>,
        own: &[OwnParameter],
        filters: &[&'static str],
        is_place: fn(&str) -> bool,
    ) -> Result<Self, Rejection> {
        let mut known = vec!["limit", "order", "cursor"];
        known.extend(own.iter().map(|(name, _)| name));
        known.extend(filters);
        let mut query = Query::read(query, &known);
        let limit = cursor::limit(&mut query);
        let mut word = |(name, words): &OwnParameter| {
            let allowed = |text: &str| {
                let found = words.iter().copied().find(|word| *word == text);
                found.ok_or(FaultCode::NotAllowed)
            };
            query.one(name, allowed).unwrap_or(words[0])
        };
        let order = word(&("order", &["newest", "oldest"]));
        let own: Vec<_> = own.iter().map(|own| (own.0, word(own))).collect();
        let mut given = Vec::new();
        for name in filters {
            let value = query.one(name, |text| {
                bounds(text).map_or_else(|| Ok(text.to_owned()), Err)
            });
            given.extend(value.map(|value| (*name, value)));
        }
        let bound_to = format!("{list}\n{order}\n{own:?}\n{given:?}\n{owner}");
        let cursors = Cursors::bound_to(&bound_to);
        let after = cursors.place(&mut query, |after| {
            is_place(after).then(|| after.to_owned())
        });
        query.finish()?;
        Ok(Self {
            limit,
            order,
            after: after.unwrap_or_default(),
            own,
            filters: given,
            cursors,
        })
    }

    /// The cursor of the page that begins after this place.
    #[must_use]
    pub fn cursor(&self, after: &str) -> String {
        self.cursors.at(after)
    }
}

/// The fault of a filter's value, which has an identifier's bounds.
fn bounds(text: &str) -> Option<FaultCode> {
    match text {
        "" => Some(FaultCode::TooShort),
        _ if text.chars().count() > VALUE_MAX => Some(FaultCode::TooLong),
        _ if is_blank(text) => Some(FaultCode::Blank),
        _ => None,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_query_becomes_a_body_in_which_nothing_is_lost() {
        let body = |query| String::from_utf8(as_body(query)).unwrap();
        assert_eq!(body(None), r#"{"query":{}}"#);
        assert_eq!(
            body(Some("expectedRevision=7")),
            r#"{"query":{"expectedRevision":7}}"#
        );
        assert_eq!(
            body(Some("a=1&a=01&dryRun=1&b=%22&c")),
            r#"{"query":{"a":1,"a":1,"b":"\"","c":""}}"#
        );
        assert_eq!(
            body(Some("a=-007&b=-00&c=%2B1&d=-&e=1.0&f=99999999999999999999")),
            r#"{"query":{"a":-7,"b":0,"c":"+1","d":"-","e":"1.0","f":99999999999999999999}}"#
        );
    }

    #[test]
    fn every_fault_of_a_list_s_query_is_told_with_its_place() {
        let own: &[(&str, &[&str])] = &[("state", &["waiting", "dead"])];
        let owner = CursorOwner::named("me");
        let read = |query| ListQuery::read(Some(query), "list", owner, own, &["by"], |_| true);
        let faults = |query| -> Vec<_> {
            let faults = read(query).unwrap_err().faults.into_iter();
            faults
                .map(|fault| (fault.path, fault.code.as_str()))
                .collect()
        };
        assert_eq!(
            faults("limit=0&order=up&state=x&more=1&cursor=x&limit=1"),
            [
                ("query.more".to_owned(), "unknown_field"),
                ("query.limit".to_owned(), "duplicate_field"),
                ("query.order".to_owned(), "not_allowed"),
                ("query.state".to_owned(), "not_allowed"),
                ("query.cursor".to_owned(), "pattern"),
            ]
        );
        assert_eq!(faults("limit=501")[0].1, "out_of_range");
        assert_eq!(faults("by=")[0].1, "too_short");
        assert_eq!(faults("by=+&")[0].1, "blank");
        let long = format!("by={}", "가".repeat(513));
        assert_eq!(faults(&long)[0].1, "too_long");
        assert_eq!(faults("by=a&by=a")[0].1, "duplicate_field");
        let most = "가".repeat(512);
        let by = format!("by={most}");
        assert_eq!(read(&by).unwrap().filters, [("by", most)]);
        let plain = read("").unwrap();
        assert_eq!((plain.limit, plain.order), (50, "newest"));
        assert_eq!(plain.own, [("state", "waiting")]);
    }

    #[test]
    fn a_cursor_is_good_for_its_list_order_filters_reader_and_log_alone() {
        let own: &[(&str, &[&str])] = &[("state", &["waiting", "dead"])];
        let me = CursorOwner::named("me");
        let first = ListQuery::read(Some("state=dead"), "list", me, own, &[], |_| true).unwrap();
        let cursor = first.cursor("7-1");
        let again = format!("state=dead&limit=3&cursor={cursor}");
        let next = ListQuery::read(Some(&again), "list", me, own, &[], |_| true).unwrap();
        assert_eq!((next.after.as_str(), next.limit), ("7-1", 3));
        let restored = CursorOwner {
            log_id: "its restored log",
            ..me
        };
        for (query, list, owner) in [
            (format!("cursor={cursor}"), "list", me),
            (
                format!("state=dead&order=oldest&cursor={cursor}"),
                "list",
                me,
            ),
            (again.clone(), "other", me),
            (again.clone(), "list", CursorOwner::named("you")),
            (again, "list", restored),
        ] {
            assert!(
                ListQuery::read(Some(&query), list, owner, own, &[], |_| true).is_err(),
                "{query}"
            );
        }
    }
}
