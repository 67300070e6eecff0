//! Finds how two JSON values differ, scalar by scalar.

use serde::Serialize;
use serde_json::Value;

/// The value of an absent field or item.
static NULL: Value = Value::Null;

/// One scalar that is different, or there in one of the values only. What is absent is null.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Difference {
    /// Its place, written as the path of a fault: `scope.periods[2].start`.
    pub path: String,
    /// What it was.
    pub before: Value,
    /// What it is.
    pub after: Value,
}

/// Returns every scalar in which the values differ, in document order; items of arrays are compared
/// by index.
#[must_use]
pub fn differences(before: &Value, after: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    compare(String::new(), before, after, &mut found);
    found
}

fn compare(path: String, before: &Value, after: &Value, found: &mut Vec<Difference>) {
    if before == after {
        return;
    }
    let scalar = |value: &Value| match value {
        Value::Object(_) | Value::Array(_) => Value::Null,
        scalar => scalar.clone(),
    };
    let (was, is) = (scalar(before), scalar(after));
    if was != is {
        found.push(Difference {
            path: path.clone(),
            before: was,
            after: is,
        });
    }
    fn names(value: &Value) -> impl Iterator<Item = &str> {
        let members = value.as_object().into_iter().flatten();
        members.map(|(name, _)| name.as_str())
    }
    let gone = names(before).filter(|name| after.get(name).is_none());
    for name in names(after).chain(gone) {
        let dot = if path.is_empty() { "" } else { "." };
        let [was, is] = [before, after].map(|value| value.get(name).unwrap_or(&NULL));
        compare(format!("{path}{dot}{name}"), was, is, found);
    }
    let items = |value: &Value| value.as_array().map_or(0, Vec::len);
    for index in 0..items(before).max(items(after)) {
        let [was, is] = [before, after].map(|value| value.get(index).unwrap_or(&NULL));
        compare(format!("{path}[{index}]"), was, is, found);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(before: &Value, after: &Value) -> Vec<(String, Value, Value)> {
        let all = differences(before, after).into_iter();
        all.map(|one| (one.path, one.before, one.after)).collect()
    }

    #[test]
    fn each_scalar_that_differs_is_told_with_its_place() {
        let before = json!({"a": 1, "b": {"c": "x", "d": null}, "e": [1, {"f": 2}], "g": true});
        let after = json!({"a": 1, "b": {"c": "y"}, "e": [1, {"f": 3}, 4], "h": null});
        let of = |path: &str, before, after| (path.to_owned(), before, after);
        assert_eq!(
            told(&before, &after),
            [
                of("b.c", json!("x"), json!("y")),
                of("e[1].f", json!(2), json!(3)),
                of("e[2]", json!(null), json!(4)),
                of("g", json!(true), json!(null)),
            ]
        );
        assert_eq!(told(&after, &after), []);
    }

    #[test]
    fn from_nothing_everything_is_told_that_is_not_null() {
        let after = json!({"a": {"b": [false, null, ""]}, "c": null, "d": []});
        let of = |path: &str, after| (path.to_owned(), json!(null), after);
        assert_eq!(
            told(&Value::Null, &after),
            [of("a.b[0]", json!(false)), of("a.b[2]", json!(""))]
        );
    }

    #[test]
    fn a_scalar_that_becomes_a_group_is_told_with_all_that_is_in_it() {
        let of = |path: &str, before, after| (path.to_owned(), before, after);
        assert_eq!(
            told(&json!({"a": 1}), &json!({"a": {"b": 2}})),
            [
                of("a", json!(1), json!(null)),
                of("a.b", json!(null), json!(2))
            ]
        );
    }
}
