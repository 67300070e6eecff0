//! Finds the identifiers of the resources that a record changes. A record names a resource by the digest of its
//! identifier; the identifier itself is searched for in the record and verified by the digest.

use std::collections::HashMap;

use serde_json::Value;

use crate::base::digest::Digest;
use crate::domain::resource::Kind;

/// Maximum number of cached identifiers.
const REMEMBERED_MAX: usize = 100_000;
/// Maximum number of a record's texts that are combined in pairs and triples.
const TRIED_MAX: usize = 24;

/// Identifiers found so far.
#[derive(Default)]
pub(in crate::cli) struct Ids {
    found: HashMap<Digest, Vec<String>>,
}

impl Ids {
    /// Returns the parts of the identifier of the resource with this key, if they occur in `values`.
    pub(super) fn find(&mut self, kind: Kind, key: Digest, values: &[&Value]) -> Option<&[String]> {
        if !self.found.contains_key(&key) {
            let mut texts = vec![kind.name];
            for value in values {
                collect(value, &mut texts);
            }
            let id = search(kind, key, &texts)?;
            if self.found.len() >= REMEMBERED_MAX {
                self.found.clear();
            }
            self.found.insert(key, id);
        }
        self.found.get(&key).map(Vec::as_slice)
    }
}

/// Collects every text in a value, in order.
fn collect<'a>(value: &'a Value, texts: &mut Vec<&'a str>) {
    match value {
        Value::String(text) => texts.push(text),
        Value::Array(items) => items.iter().for_each(|item| collect(item, texts)),
        Value::Object(members) => members.values().for_each(|value| collect(value, texts)),
        _ => {}
    }
}

fn search(kind: Kind, key: Digest, texts: &[&str]) -> Option<Vec<String>> {
    let is = |parts: &[&str]| {
        let owned = || parts.iter().map(|part| (*part).to_owned()).collect();
        (kind.key(parts) == key).then(owned)
    };
    if let Some(found) = texts.iter().find_map(|text| is(&[text])) {
        return Some(found);
    }
    // Identifiers of several parts, such as a family's authority for a booking, or a caregiver's payout.
    let mut few = Vec::with_capacity(TRIED_MAX);
    for text in texts {
        if few.len() < TRIED_MAX && !few.contains(text) {
            few.push(*text);
        }
    }
    let mut pairs = few
        .iter()
        .flat_map(|first| few.iter().map(move |second| [*first, *second]));
    pairs.find_map(|pair| {
        is(&pair).or_else(|| few.iter().find_map(|third| is(&[pair[0], pair[1], third])))
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    const KIND: Kind = Kind {
        tag: 7,
        name: "thing",
    };

    #[test]
    fn an_identifier_is_found_where_it_stands_proved_and_remembered() {
        let mut ids = Ids::default();
        let event = json!({"Put": {"x": "a", "inner": [{"id": "b"}], "number": 4}});
        for parts in [&["b"][..], &["a", "b"], &["b", "a", "thing"], &["thing"]] {
            let key = KIND.key(parts);
            assert_eq!(ids.find(KIND, key, &[&event]).unwrap(), parts);
            assert_eq!(ids.find(KIND, key, &[]).unwrap(), parts, "remembered");
        }
        assert_eq!(ids.find(KIND, KIND.key(&["c"]), &[&event]), None);
    }
}
