//! Masks personal data, which is shown only with --reveal; and finds differences by field.

use std::borrow::Cow;
use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use crate::journal::personal::{self, Masking};

/// Text that is shown instead of masked values.
pub(super) const MASK: &str = "•••";

/// Whether personal data is shown.
#[derive(Clone, Copy, Debug)]
pub(in crate::cli) struct Mask {
    pub(in crate::cli) reveal: bool,
}

/// A difference between two states in one field.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Difference {
    /// The path of fields and list indexes to the field: `fact.address`, `lines[2]`.
    pub(super) path: String,
    /// The value before; `None` if the field did not exist.
    pub(super) before: Option<Value>,
    /// The value after; `None` if the field was removed.
    pub(super) after: Option<Value>,
}

impl Difference {
    /// Returns `added`, `changed` or `removed`.
    pub(super) fn kind(&self) -> &'static str {
        match (&self.before, &self.after) {
            (None, _) => "added",
            (_, None) => "removed",
            _ => "changed",
        }
    }

    pub(super) fn json(&self) -> Value {
        let mut json = Map::new();
        json.insert("path".into(), json!(self.path));
        json.insert("change".into(), json!(self.kind()));
        if let Some(before) = &self.before {
            json.insert("before".into(), before.clone());
        }
        if let Some(after) = &self.after {
            json.insert("after".into(), after.clone());
        }
        Value::Object(json)
    }
}

impl Mask {
    /// Returns an identifier, a subject or a key, masked if it looks personal.
    pub(in crate::cli) fn opaque<'a>(self, text: &'a str) -> Cow<'a, str> {
        if !self.reveal && personal::looks_personal(text) {
            return MASK.into();
        }
        text.into()
    }

    /// Returns the identifier of a resource of this kind, masked if it is or looks personal.
    pub(in crate::cli) fn id<'a>(self, kind: &str, id: &'a str) -> Cow<'a, str> {
        // The identifier of a search is the text that was searched for.
        if !self.reveal && kind == "gateway-search" {
            return MASK.into();
        }
        self.opaque(id)
    }

    /// Returns a value with its personal parts masked.
    pub(super) fn json(self, value: Value) -> Value {
        if self.reveal {
            return value;
        }
        self.member(Masking::Plain, value)
    }

    /// Returns the value of bytes that should be JSON; other bytes are masked.
    pub(super) fn bytes(self, bytes: &[u8]) -> Value {
        match serde_json::from_slice(bytes) {
            Ok(value) => self.json(value),
            Err(_) if self.reveal => json!(crate::base::hex::hex(bytes)),
            Err(_) => json!(MASK),
        }
    }

    fn member(self, shown: Masking, value: Value) -> Value {
        match value {
            Value::Null => Value::Null,
            _ if shown == Masking::Hidden => json!(MASK),
            Value::Bool(_) | Value::Number(_) => value,
            Value::String(text) => {
                let open = match shown {
                    Masking::Plain => !personal::looks_personal(&text),
                    Masking::IfCode => personal::is_code(&text),
                    Masking::Hidden => false,
                };
                Value::String(if open { text } else { MASK.to_owned() })
            }
            Value::Array(items) => items
                .into_iter()
                .map(|item| self.member(shown, item))
                .collect(),
            Value::Object(members) => members
                .into_iter()
                .map(|(name, value)| {
                    let value = self.member(personal::shown(&name), value);
                    (self.opaque(&name).into_owned(), value)
                })
                .collect::<Map<_, _>>()
                .into(),
        }
    }

    /// Returns the differences between two values by field. A changed personal field is listed, but its values are
    /// masked.
    pub(super) fn differences(self, before: &Value, after: &Value) -> Vec<Difference> {
        let mut found = Vec::new();
        self.compare(Masking::Plain, "", Some(before), Some(after), &mut found);
        found
    }

    fn compare(
        self,
        shown: Masking,
        path: &str,
        before: Option<&Value>,
        after: Option<&Value>,
        found: &mut Vec<Difference>,
    ) {
        if before == after {
            return;
        }
        let open = self.reveal || shown != Masking::Hidden;
        match (members(before), members(after)) {
            (Some(old), Some(new)) if open && !(old.is_empty() && new.is_empty()) => {
                let mut names: Vec<&String> = old.keys().chain(new.keys()).collect();
                names.sort();
                names.dedup();
                for name in names {
                    let shown = personal::shown(name);
                    let name_shown = self.opaque(name);
                    let dot = if path.is_empty() { "" } else { "." };
                    let path = format!("{path}{dot}{name_shown}");
                    self.compare(shown, &path, old.get(name), new.get(name), found);
                }
                return;
            }
            _ => {}
        }
        match (items(before), items(after)) {
            (Some(old), Some(new)) if open && !(old.is_empty() && new.is_empty()) => {
                let same = |pair: &(&Value, &Value)| pair.0 == pair.1;
                let front = old.iter().zip(new).take_while(same).count();
                let (old_rest, new_rest) = (&old[front..], &new[front..]);
                let back = old_rest
                    .iter()
                    .rev()
                    .zip(new_rest.iter().rev())
                    .take_while(same)
                    .count();
                let old_rest = &old_rest[..old_rest.len() - back];
                let new_rest = &new_rest[..new_rest.len() - back];
                for index in 0..old_rest.len().max(new_rest.len()) {
                    let path = format!("{path}[{}]", front + index);
                    self.compare(
                        shown,
                        &path,
                        old_rest.get(index),
                        new_rest.get(index),
                        found,
                    );
                }
                return;
            }
            _ => {}
        }
        let masked = |value: Option<&Value>| {
            let value = value?.clone();
            Some(if self.reveal {
                value
            } else {
                self.member(shown, value)
            })
        };
        found.push(Difference {
            path: path.to_owned(),
            before: masked(before),
            after: masked(after),
        });
    }
}

/// Returns the fields of an object; an empty list for a missing value.
fn members(value: Option<&Value>) -> Option<&Map<String, Value>> {
    static NONE: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);
    match value {
        None | Some(Value::Null) => Some(&NONE),
        Some(Value::Object(members)) => Some(members),
        Some(_) => None,
    }
}

/// Returns the items of an array; an empty list for a missing value.
fn items(value: Option<&Value>) -> Option<&[Value]> {
    match value {
        None | Some(Value::Null) => Some(&[]),
        Some(Value::Array(items)) => Some(items),
        Some(_) => None,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::base::codec;
    use crate::base::json::{Json, Reader};
    use crate::base::time::Timestamp;
    use crate::catalogue::RESOURCES;
    use crate::domain::fact_kinds::FACTS;
    use crate::domain::reference::put::read_fact;
    use crate::domain::reference::samples;
    use crate::domain::stored::Versioned;

    const CLOSED: Mask = Mask { reveal: false };
    const OPEN: Mask = Mask { reveal: true };

    #[test]
    fn a_hidden_member_shows_that_it_changed_and_not_what_it_is() {
        let before = json!({"full_name": "김하늘", "revision": 1, "address": {"postalCode": "04524"}, "memo": null});
        let after = json!({"full_name": "김바다", "revision": 2, "address": {"postalCode": "06236"}, "memo": "x"});
        let told: Vec<_> = CLOSED
            .differences(&before, &after)
            .iter()
            .map(|difference| difference.json().to_string())
            .collect();
        assert_eq!(
            told,
            [
                r#"{"after":"•••","before":"•••","change":"changed","path":"address"}"#,
                r#"{"after":"•••","before":"•••","change":"changed","path":"full_name"}"#,
                r#"{"after":"•••","before":null,"change":"changed","path":"memo"}"#,
                r#"{"after":2,"before":1,"change":"changed","path":"revision"}"#,
            ]
        );
        let open = OPEN.differences(&before, &after);
        assert_eq!(open[0].path, "address.postalCode");
        assert_eq!(open[1].after, Some(json!("김바다")));
    }

    #[test]
    fn an_item_that_comes_into_a_list_is_told_by_its_place_and_its_members() {
        let before = json!({"lines": [{"id": "a"}, {"id": "b"}]});
        let after = json!({"lines": [{"id": "x"}, {"id": "a"}, {"id": "b"}]});
        let differences = OPEN.differences(&before, &after);
        assert_eq!(differences.len(), 1);
        assert_eq!(
            (differences[0].path.as_str(), differences[0].kind()),
            ("lines[0].id", "added")
        );
        let back = OPEN.differences(&after, &before);
        assert_eq!(
            (back[0].path.as_str(), back[0].kind()),
            ("lines[0].id", "removed")
        );
        assert_eq!(OPEN.differences(&after, &after), []);
    }

    #[test]
    fn text_of_a_member_that_nobody_has_classified_is_hidden() {
        let value = json!({"whatever": ["text", 7, true, null], "other": {"inner": "2025-01-01T00:00:00.000Z"}});
        assert_eq!(
            CLOSED.json(value),
            json!({"whatever": [MASK, 7, true, null], "other": {"inner": "2025-01-01T00:00:00.000Z"}})
        );
    }

    #[test]
    fn contacts_are_hidden_in_identifiers_and_names_of_members_too() {
        assert_eq!(CLOSED.opaque("hq-1"), "hq-1");
        assert_eq!(CLOSED.opaque("mina@example.org"), MASK);
        assert_eq!(OPEN.opaque("mina@example.org"), "mina@example.org");
        assert_eq!(CLOSED.id("gateway-search", "anything"), MASK);
        let value = json!({"amounts": {"010-1234-5678": 1}, "subject": "mina@example.org"});
        assert_eq!(
            CLOSED.json(value),
            json!({"amounts": {MASK: 1}, "subject": MASK})
        );
    }

    #[test]
    fn bytes_that_are_no_json_are_masked_unless_values_are_revealed() {
        assert_eq!(CLOSED.bytes(b"\xff\x00"), json!(MASK));
        assert_eq!(OPEN.bytes(b"\xff\x00"), json!("ff00"));
    }

    /// Texts of the samples that are personal data.
    const PERSONAL: &[&str] = &[
        "김하늘",
        "1992-03-14",
        "mother-1@example.com",
        "seoul-1@example.com",
        "+8210",
        "+8221",
        "04524",
        "세종대로",
        "1001호",
        "서울",
        "한빛은행",
        "***456",
        "***789",
        "business-registration-1",
        "careDays",
    ];

    #[test]
    fn no_kind_of_fact_shows_what_is_personal_in_its_sample() {
        let mut kinds = std::collections::BTreeSet::new();
        let (mut shown, mut revealed) = (String::new(), String::new());
        for line in samples::lines() {
            let json = Json::parse(line.as_bytes()).unwrap();
            let envelope = read_fact(&json, FACTS, &mut Reader::new(Timestamp::default()));
            let kind = envelope.kind.unwrap().kind();
            kinds.insert(kind.tag);
            let value: Value = serde_json::from_str(line).unwrap();
            shown.push_str(&CLOSED.json(value.clone()).to_string());
            revealed.push_str(&OPEN.json(value).to_string());
        }
        assert_eq!(kinds.len(), FACTS.len());
        for text in PERSONAL {
            assert!(revealed.contains(text), "{text} is in no sample");
            assert!(!shown.contains(text), "{text} is shown");
        }
        for text in [
            "mother-profile-1",
            "member-mother-1",
            "branch-seoul-1",
            "300000",
            "card",
        ] {
            assert!(shown.contains(text), "{text} is needed to find anything");
        }
    }

    #[test]
    fn bytes_that_are_no_state_or_event_of_a_kind_are_refused() {
        for resource in RESOURCES {
            let name = resource.kind().name;
            for bytes in [&[][..], &[0xff; 40]] {
                assert!(resource.state_json(bytes).is_err(), "{name}");
                let version = resource.version();
                assert!(
                    resource.event_json(Versioned { version, bytes }).is_err(),
                    "{name}"
                );
                assert!(resource.id(bytes).is_err(), "{name}");
            }
        }
        assert!(codec::decode::<u8>(&[]).is_err());
    }
}
