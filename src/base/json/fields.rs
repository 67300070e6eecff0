//! The types of fields: numbers, lists, maps, times; and which fields may be absent or null.

use std::collections::{BTreeMap, HashSet};

use serde::{Deserialize, Serialize};

use super::fault::FaultCode;
use super::from_json::FromJson;
use super::reader::Reader;
use super::scanner::Scanner;
use super::shape::{Presence, Shape};
use super::value::Json;
use crate::base::time::{Date, Timestamp};
use crate::schema_of_shape;

/// 2^63: the smallest magnitude beyond the integers of 64 bits.
const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;

impl FromJson for bool {
    fn read(value: &Json<'_>, at: &mut Reader) -> Option<Self> {
        match value {
            Json::Bool(value) => Some(*value),
            _ => at.fault(FaultCode::WrongType),
        }
    }

    fn shape() -> Shape {
        Shape::Flag
    }
}

impl FromJson for i64 {
    fn read(value: &Json<'_>, at: &mut Reader) -> Option<Self> {
        match value {
            Json::Int(value) => Some(*value),
            Json::TooLarge => at.fault(FaultCode::OutOfRange),
            // The double does not tell an integer of many digits from a number with a fraction or
            // an exponent, so its magnitude decides the fault.
            Json::Fraction(value) if value.abs() >= TWO_TO_63 => at.fault(FaultCode::OutOfRange),
            _ => at.fault(FaultCode::WrongType),
        }
    }

    fn shape() -> Shape {
        Shape::Integer {
            least: i64::MIN,
            most: i64::MAX,
        }
    }
}

/// An integer that is at least `MIN`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AtLeast<const MIN: i64>(pub i64);

impl<const MIN: i64> FromJson for AtLeast<MIN> {
    fn read(value: &Json<'_>, at: &mut Reader) -> Option<Self> {
        let number = i64::read(value, at)?;
        if number < MIN {
            return at.fault(FaultCode::OutOfRange);
        }
        Some(Self(number))
    }

    fn shape() -> Shape {
        Shape::Integer {
            least: MIN,
            most: i64::MAX,
        }
    }
}

impl<const MIN: i64> schemars::JsonSchema for AtLeast<MIN> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "AtLeast".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        Self::answered()
    }
}

/// An integer in a query, whose text is empty where nothing stands behind the parameter's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct QueryInteger(pub i64);

impl FromJson for QueryInteger {
    fn read(value: &Json<'_>, at: &mut Reader) -> Option<Self> {
        match value {
            Json::Text(text) if text.is_empty() => at.fault(FaultCode::TooShort),
            value => i64::read(value, at).map(Self),
        }
    }

    fn shape() -> Shape {
        i64::shape()
    }
}

/// An optional field: absent and null mean the same.
impl<T: FromJson> FromJson for Option<T> {
    fn read(value: &Json<'_>, at: &mut Reader) -> Option<Self> {
        match value {
            Json::Null => Some(None),
            value => T::read(value, at).map(Some),
        }
    }

    fn read_straight(from: &mut Scanner<'_>) -> Option<Self> {
        if from.null()? {
            return Some(None);
        }
        T::read_straight(from).map(Some)
    }

    fn absent(_: &mut Reader) -> Option<Self> {
        Some(None)
    }

    fn shape() -> Shape {
        T::shape()
    }

    fn presence() -> Presence {
        Presence::Optional
    }
}

/// A required field that may be null.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Nullable<T>(pub Option<T>);

impl<T: FromJson> FromJson for Nullable<T> {
    fn read(value: &Json<'_>, at: &mut Reader) -> Option<Self> {
        Option::read(value, at).map(Self)
    }

    fn read_straight(from: &mut Scanner<'_>) -> Option<Self> {
        Option::read_straight(from).map(Self)
    }

    fn shape() -> Shape {
        T::shape()
    }

    fn presence() -> Presence {
        Presence::Nullable
    }
}

impl<T: FromJson> FromJson for Vec<T> {
    fn read(value: &Json<'_>, at: &mut Reader) -> Option<Self> {
        let Json::Array(items) = value else {
            return at.fault(FaultCode::WrongType);
        };
        let mut values = Self::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            values.extend(at.item(index, |at| T::read(item, at)));
        }
        (values.len() == items.len()).then_some(values)
    }

    fn read_straight(from: &mut Scanner<'_>) -> Option<Self> {
        from.items()
    }

    fn shape() -> Shape {
        Shape::List {
            of: Box::new(T::shape()),
            shortest: 0,
            longest: None,
            unique: false,
        }
    }
}

/// An array of at least one item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NonEmpty<T>(pub Vec<T>);

impl<T: FromJson> FromJson for NonEmpty<T> {
    fn read(value: &Json<'_>, at: &mut Reader) -> Option<Self> {
        let items = Vec::read(value, at)?;
        if items.is_empty() {
            return at.fault(FaultCode::TooShort);
        }
        Some(Self(items))
    }

    fn read_straight(from: &mut Scanner<'_>) -> Option<Self> {
        let items = Vec::read_straight(from)?;
        (!items.is_empty()).then_some(Self(items))
    }

    fn shape() -> Shape {
        Shape::List {
            of: Box::new(T::shape()),
            shortest: 1,
            longest: None,
            unique: false,
        }
    }
}

/// An array of at most `MOST` items: for items that each cost work under a lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AtMost<T, const MOST: usize>(pub Vec<T>);

impl<T: FromJson, const MOST: usize> FromJson for AtMost<T, MOST> {
    fn read(value: &Json<'_>, at: &mut Reader) -> Option<Self> {
        if let Json::Array(items) = value
            && items.len() > MOST
        {
            return at.fault(FaultCode::TooLong);
        }
        Vec::read(value, at).map(Self)
    }

    fn read_straight(from: &mut Scanner<'_>) -> Option<Self> {
        let items = Vec::read_straight(from)?;
        (items.len() <= MOST).then_some(Self(items))
    }

    fn shape() -> Shape {
        Shape::List {
            of: Box::new(T::shape()),
            shortest: 0,
            longest: Some(MOST),
            unique: false,
        }
    }
}

/// Notes `not_unique` at each item of the field `name` that equals an earlier one.
pub fn refuse_repeats<T: Ord>(items: &[T], name: &'static str, at: &mut Reader) {
    let mut seen = std::collections::BTreeSet::new();
    for (index, item) in items.iter().enumerate() {
        if !seen.insert(item) {
            at.inside(name, |at| {
                at.item(index, |at| at.fault::<()>(FaultCode::NotUnique))
            });
        }
    }
}

/// Whether no text occurs twice.
pub fn all_differ<'t>(texts: impl ExactSizeIterator<Item = &'t str>) -> bool {
    let count = texts.len();
    count < 2 || texts.collect::<HashSet<_>>().len() == count
}

/// A map with names of the sender's choice. It is sorted, so that equal maps have equal canonical
/// forms.
impl<T: FromJson> FromJson for BTreeMap<Box<str>, T> {
    fn read(value: &Json<'_>, at: &mut Reader) -> Option<Self> {
        let Json::Object(members) = value else {
            return at.fault(FaultCode::WrongType);
        };
        let mut seen = HashSet::with_capacity(members.len());
        let mut entries = Vec::with_capacity(members.len());
        for (name, value) in members {
            let name = name.as_ref();
            at.entry(name, |at| {
                let value = T::read(value, at);
                if !seen.insert(name) {
                    return at.fault(FaultCode::DuplicateField);
                }
                entries.extend(value.map(|value| (name.into(), value)));
                Some(())
            });
        }
        (entries.len() == members.len()).then(|| entries.into_iter().collect())
    }

    fn read_straight(from: &mut Scanner<'_>) -> Option<Self> {
        from.entries(|name, _| Some(name))
    }

    fn shape() -> Shape {
        Shape::Map {
            names: Box::new(Shape::Any),
            of: Box::new(T::shape()),
        }
    }
}

impl FromJson for Timestamp {
    fn read(value: &Json<'_>, at: &mut Reader) -> Option<Self> {
        let text = at.text(value)?;
        match Self::parse(text) {
            Some(instant) => Some(instant),
            None => at.fault(FaultCode::Pattern),
        }
    }

    fn read_straight(from: &mut Scanner<'_>) -> Option<Self> {
        from.by_text(|text, _| Self::parse(text))
    }

    fn shape() -> Shape {
        Shape::Time
    }
}

impl FromJson for Date {
    fn read(value: &Json<'_>, at: &mut Reader) -> Option<Self> {
        let text = at.text(value)?;
        match Self::parse(text) {
            Some(date) => Some(date),
            None => at.fault(FaultCode::Pattern),
        }
    }

    fn read_straight(from: &mut Scanner<'_>) -> Option<Self> {
        from.by_text(|text, _| Self::parse(text))
    }

    fn shape() -> Shape {
        Shape::Date
    }
}

schema_of_shape!(Timestamp);
schema_of_shape!(Date);

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::from_json::tests::faults;
    use super::*;

    #[test]
    fn numbers_are_integers_of_64_bits_or_faults() {
        for (text, code) in [
            ("1.0", "wrong_type"),
            ("1e3", "wrong_type"),
            // The double nearest to the first number is below 2^63, the one nearest to the second
            // is 2^63.
            ("9223372036854774784.0", "wrong_type"),
            ("9223372036854775807.0", "out_of_range"),
            ("9223372036854775808", "out_of_range"),
            ("-9223372036854775809", "out_of_range"),
            ("123456789012345678901234567890", "out_of_range"),
            ("\"1\"", "wrong_type"),
            ("null", "wrong_type"),
        ] {
            assert_eq!(faults::<i64>(text), [(String::new(), code)], "{text}");
        }
        for text in ["9223372036854775807", "-9223372036854775808", "-0"] {
            let json = Json::parse(text.as_bytes()).unwrap();
            let mut at = Reader::new(Timestamp::default());
            let read = i64::read(&json, &mut at);
            // RFC 8259 allows a minus before zero; a JSON reader may read it as a fraction.
            assert!(read.is_some() || text == "-0", "{text}");
        }
    }

    #[test]
    fn an_empty_query_integer_is_too_short_and_others_fail_as_in_a_body() {
        for (text, code) in [
            ("\"\"", "too_short"),
            ("\"x\"", "wrong_type"),
            ("9223372036854775808", "out_of_range"),
        ] {
            assert_eq!(
                faults::<QueryInteger>(text),
                [(String::new(), code)],
                "{text}"
            );
        }
    }

    #[test]
    fn a_duplicate_map_member_is_a_fault_whether_or_not_values_are_valid() {
        for (text, told) in [
            (r#"{"a":1,"a":2}"#, &[("a", "duplicate_field")][..]),
            (
                r#"{"a":"","a":2}"#,
                &[("a", "wrong_type"), ("a", "duplicate_field")],
            ),
            (
                r#"{"a":1,"a":"","a":3}"#,
                &[
                    ("a", "wrong_type"),
                    ("a", "duplicate_field"),
                    ("a", "duplicate_field"),
                ],
            ),
        ] {
            let told: Vec<_> = told
                .iter()
                .map(|(path, code)| ((*path).to_owned(), *code))
                .collect();
            assert_eq!(faults::<BTreeMap<Box<str>, i64>>(text), told, "{text}");
        }
    }
}
