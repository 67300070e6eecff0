//! What stands behind the `?` of a path.

use std::borrow::Cow;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use percent_encoding::percent_decode_str;

use crate::base::digest::Fingerprint;
use crate::base::json::{Fault, FaultCode};
use crate::domain::rejection::Rejection;

/// The most items of a page, and how many it has where nothing is said.
const LIMIT_MAX: usize = 500;
const LIMIT: usize = 50;

/// The parameters in their order, percent-decoded; `None` where one is no UTF-8.
#[must_use]
pub fn parameters(query: Option<&str>) -> Option<Vec<(Cow<'_, str>, Cow<'_, str>)>> {
    let pairs = query.unwrap_or_default().split('&');
    let pairs = pairs.filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let decoded = |text| percent_decode_str(text).decode_utf8().ok();
            Some((decoded(name)?, decoded(value)?))
        })
        .collect()
}

/// The query as the body of a command that has none: `{"query": {…}}`, a text of digits as the
/// number that it is. What is given twice stands there twice.
#[must_use]
pub fn as_body(query: Option<&str>) -> Vec<u8> {
    let mut body = String::from("{\"query\":{");
    for (index, (name, value)) in parameters(query).unwrap_or_default().iter().enumerate() {
        if index > 0 {
            body.push(',');
        }
        let name = serde_json::Value::from(name.as_ref());
        let is_number = value.parse::<i64>().is_ok_and(|number| number.to_string() == **value);
        let value = match is_number {
            true => value.to_string(),
            false => serde_json::Value::from(value.as_ref()).to_string(),
        };
        body.push_str(&format!("{name}:{value}"));
    }
    body.push_str("}}");
    body.into_bytes()
}

/// What is asked for of a list.
#[derive(Debug, PartialEq, Eq)]
pub struct ListQuery {
    /// The most items.
    pub limit: usize,
    /// `newest` or `oldest`.
    pub order: &'static str,
    /// What the page before gave as the place to go on from; empty for the first page.
    pub after: String,
    /// The list's own parameters that were given.
    pub own: Vec<(&'static str, String)>,
    /// What the cursor of this list is bound to.
    bound_to: String,
}

impl ListQuery {
    /// Reads the query of the list so named, which is asked for by `subject`, and has parameters of
    /// its own beside `limit`, `order` and `cursor`: each with its words, of which the first one is
    /// meant where nothing is said.
    ///
    /// # Errors
    /// `request_invalid` with every fault.
    pub fn read(
        query: Option<&str>,
        list: &str,
        subject: &str,
        own: &[(&'static str, &'static [&'static str])],
    ) -> Result<Self, Rejection> {
        let mut faults = Vec::new();
        let mut fault = |name: &str, code| {
            let name: String = name.chars().take(64).collect();
            faults.push(Fault {
                path: format!("query.{name}"),
                code,
            });
        };
        let mut read = Self {
            limit: LIMIT,
            order: "newest",
            after: String::new(),
            own: own.iter().map(|(name, words)| (*name, words[0].to_owned())).collect(),
            bound_to: String::new(),
        };
        let mut cursor = None;
        let Some(parameters) = parameters(query) else {
            return Err(Rejection::invalid_at("query", FaultCode::Pattern));
        };
        let mut seen = Vec::new();
        for (name, value) in &parameters {
            if seen.contains(&name) {
                fault(name, FaultCode::DuplicateField);
                continue;
            }
            seen.push(name);
            let known = read.own.iter_mut().zip(own);
            let mut known = known.filter(|((known, _), _)| known == name);
            match (name.as_ref(), known.next()) {
                ("limit", _) => match value.parse::<usize>() {
                    Ok(limit) if (1..=LIMIT_MAX).contains(&limit) => read.limit = limit,
                    Ok(_) => fault(name, FaultCode::OutOfRange),
                    Err(_) => fault(name, FaultCode::WrongType),
                },
                ("order", _) => match value.as_ref() {
                    "newest" => read.order = "newest",
                    "oldest" => read.order = "oldest",
                    _ => fault(name, FaultCode::NotAllowed),
                },
                ("cursor", _) => cursor = Some(value),
                (_, Some((own, (_, words)))) => match words.contains(&value.as_ref()) {
                    true => own.1 = value.to_string(),
                    false => fault(name, FaultCode::NotAllowed),
                },
                _ => fault(name, FaultCode::UnknownField),
            }
        }
        let bound_to = format!("{list}\n{}\n{:?}\n{subject}", read.order, read.own);
        read.bound_to = Fingerprint::of(bound_to.as_bytes()).to_hex()[..16].to_owned();
        if let Some(cursor) = cursor {
            let text = BASE64_URL_SAFE_NO_PAD.decode(cursor.as_bytes()).ok();
            let text = text.and_then(|bytes| String::from_utf8(bytes).ok());
            let after = text.as_deref().and_then(|text| text.strip_prefix(&*read.bound_to));
            match after {
                Some(after) => after.clone_into(&mut read.after),
                None => fault("cursor", FaultCode::Pattern),
            }
        }
        match faults.is_empty() {
            true => Ok(read),
            false => Err(Rejection::invalid(faults)),
        }
    }

    /// The cursor of the page that goes on after this.
    #[must_use]
    pub fn cursor(&self, after: &str) -> String {
        BASE64_URL_SAFE_NO_PAD.encode(format!("{}{after}", self.bound_to))
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
            body(Some("a=1&a=01&b=%22&c")),
            r#"{"query":{"a":1,"a":"01","b":"\"","c":""}}"#
        );
    }

    #[test]
    fn every_fault_of_a_list_s_query_is_told_with_its_place() {
        let own: &[(&str, &[&str])] = &[("state", &["waiting", "dead"])];
        let read = |query| ListQuery::read(Some(query), "list", "subject", own);
        let faults = |query| -> Vec<_> {
            let faults = read(query).unwrap_err().faults.into_iter();
            faults.map(|fault| (fault.path, fault.code.as_str())).collect()
        };
        assert_eq!(
            faults("limit=0&order=up&state=x&more=1&cursor=x&limit=1"),
            [
                ("query.limit".to_owned(), "out_of_range"),
                ("query.order".to_owned(), "not_allowed"),
                ("query.state".to_owned(), "not_allowed"),
                ("query.more".to_owned(), "unknown_field"),
                ("query.limit".to_owned(), "duplicate_field"),
                ("query.cursor".to_owned(), "pattern"),
            ]
        );
        assert_eq!(faults("limit=501")[0].1, "out_of_range");
        let plain = read("").unwrap();
        assert_eq!((plain.limit, plain.order), (50, "newest"));
        assert_eq!(plain.own, [("state", "waiting".to_owned())]);
    }

    #[test]
    fn a_cursor_is_good_for_its_list_order_filters_and_reader_alone() {
        let own: &[(&str, &[&str])] = &[("state", &["waiting", "dead"])];
        let first = ListQuery::read(Some("state=dead"), "list", "me", own).unwrap();
        let cursor = first.cursor("7-1");
        let again = format!("state=dead&limit=3&cursor={cursor}");
        let next = ListQuery::read(Some(&again), "list", "me", own).unwrap();
        assert_eq!((next.after.as_str(), next.limit), ("7-1", 3));
        for (query, list, subject) in [
            (format!("cursor={cursor}"), "list", "me"),
            (format!("state=dead&order=oldest&cursor={cursor}"), "list", "me"),
            (again.clone(), "other", "me"),
            (again, "list", "you"),
        ] {
            assert!(ListQuery::read(Some(&query), list, subject, own).is_err(), "{query}");
        }
    }
}
