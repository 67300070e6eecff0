//! A JSON text as a tree that borrows from its bytes and keeps what a map would hide: duplicate
//! fields, and numbers that are not integers.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;

use serde::Deserialize;
use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

/// Maximum depth of nested arrays and objects; the body itself is level 1.
pub const NESTING_MAX: usize = 32;
/// Maximum number of values of one body, itself and nested ones included. A value of two bytes
/// takes some 60 in the tree, so this bounds the memory of a body while it is read.
pub const VALUES_MAX: usize = 200_000;
/// Number of first values of a text among which objects get the capacity of a usual one at once;
/// later ones grow with their content, so that empty ones take no memory.
const ROOMY_VALUES: usize = 256;
/// Number of fields of a usual object.
const USUAL_MEMBERS: usize = 16;

/// One value of a JSON text.
#[derive(Clone, Debug, PartialEq)]
pub enum Json<'a> {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number without fraction and exponent, within 64 bits.
    Int(i64),
    /// A number that is out of range for every field: an integer that needs 64 bits without a sign,
    /// or a number beyond all doubles.
    TooLarge,
    /// A number with a fraction or an exponent, or an integer of more than 64 bits: the double
    /// nearest to it.
    Fraction(f64),
    /// A string, without its escapes.
    Text(Cow<'a, str>),
    /// An array.
    Array(Vec<Json<'a>>),
    /// An object: its fields as they came, duplicates included.
    Object(Vec<(Cow<'a, str>, Json<'a>)>),
}

/// Why bytes are not an accepted JSON text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed(String);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'a> Json<'a> {
    /// Parses one JSON text (RFC 8259, UTF-8, nothing after it).
    ///
    /// # Errors
    /// When the bytes are not a JSON text, nest deeper than [`NESTING_MAX`], or have more than
    /// [`VALUES_MAX`] values.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        Self::parse_counted(bytes).map(|(value, _)| value)
    }

    /// Parses like [`Json::parse`], and also returns the number of values, the text itself
    /// included: the memory of the tree depends on it.
    ///
    /// # Errors
    /// As [`Json::parse`].
    pub fn parse_counted(bytes: &'a [u8]) -> Result<(Self, usize), Malformed> {
        match Self::parse_in_range(bytes) {
            // JSON numbers have no bounds, but the parser's have those of a double: a number beyond
            // them is replaced, so that it is read as too large, at its own path.
            Err(Malformed(fault)) if fault.starts_with("number out of range") => {
                let capped = with_numbers_capped(bytes);
                let (value, values) = Json::parse_in_range(&capped)?;
                Ok((value.into_owned(), values))
            }
            parsed => parsed,
        }
    }

    fn parse_in_range(bytes: &'a [u8]) -> Result<(Self, usize), Malformed> {
        // UTF-8 is validated once for all strings, which costs less than one by one.
        let text = std::str::from_utf8(bytes).map_err(|error| Malformed(error.to_string()))?;
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let values = Cell::new(0);
        let level = Level::new(0, &values);
        let value = level
            .deserialize(&mut deserializer)
            .map_err(|error| Malformed(error.to_string()))?;
        deserializer
            .end()
            .map_err(|error| Malformed(error.to_string()))?;
        Ok((value, values.get()))
    }

    /// Returns the same tree, borrowing nothing.
    fn into_owned(self) -> Json<'static> {
        let text = |text: Cow<'_, str>| Cow::Owned(text.into_owned());
        match self {
            Self::Null => Json::Null,
            Self::Bool(value) => Json::Bool(value),
            Self::Int(value) => Json::Int(value),
            Self::TooLarge => Json::TooLarge,
            Self::Fraction(value) => Json::Fraction(value),
            Self::Text(value) => Json::Text(text(value)),
            Self::Array(items) => Json::Array(items.into_iter().map(Json::into_owned).collect()),
            Self::Object(members) => Json::Object(
                members
                    .into_iter()
                    .map(|(name, value)| (text(name), value.into_owned()))
                    .collect(),
            ),
        }
    }
}

/// Returns the text with each number beyond all doubles replaced by an integer beyond 64 bits.
/// Tokens that are not JSON numbers stay as they are, to be rejected.
fn with_numbers_capped(bytes: &[u8]) -> Vec<u8> {
    const BEYOND_64_BITS: &[u8] = b"18446744073709551615";
    let mut text = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    let mut in_string = false;
    while let Some((&first, after)) = rest.split_first() {
        let length = match first {
            b'\\' if in_string => 2.min(rest.len()),
            b'0'..=b'9' if !in_string => {
                let is_number =
                    |byte: &u8| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-');
                let length = rest.iter().take_while(|byte| is_number(byte)).count();
                if is_beyond_doubles(&rest[..length]) {
                    text.extend_from_slice(BEYOND_64_BITS);
                    rest = &rest[length..];
                    continue;
                }
                length
            }
            b'"' => {
                in_string = !in_string;
                1
            }
            _ => 1,
        };
        debug_assert!(length > 0 && length <= 1 + after.len());
        text.extend_from_slice(&rest[..length]);
        rest = &rest[length..];
    }
    text
}

/// Whether the token has the form of a JSON number (RFC 8259 section 6, without its sign) and is
/// larger than every double.
fn is_beyond_doubles(token: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(token) else {
        return false;
    };
    let all_digits =
        |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (text, None),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    let exponent = exponent.map(|exponent| exponent.strip_prefix(['+', '-']).unwrap_or(exponent));
    all_digits(whole)
        && (whole == "0" || !whole.starts_with('0'))
        && fraction.is_none_or(all_digits)
        && exponent.is_none_or(all_digits)
        && text.parse::<f64>().is_ok_and(f64::is_infinite)
}

/// The place of the next value in the tree.
#[derive(Clone, Copy)]
pub(super) struct Level<'c> {
    /// Number of arrays and objects around it.
    depth: usize,
    /// Number of values before it.
    values: &'c Cell<usize>,
}

impl<'c> Level<'c> {
    /// Makes the place of a value inside `depth` arrays and objects.
    pub(super) fn new(depth: usize, values: &'c Cell<usize>) -> Self {
        Self { depth, values }
    }
}

impl Level<'_> {
    fn deeper<E: de::Error>(self) -> Result<Self, E> {
        if self.depth == NESTING_MAX {
            return Err(E::custom("nested too deep"));
        }
        Ok(Self {
            depth: self.depth + 1,
            ..self
        })
    }

    /// Makes a list for items or fields; among the first values of a text, with capacity for
    /// `usual` of them.
    fn list<T>(self, usual: usize) -> Vec<T> {
        let roomy = self.values.get() <= ROOMY_VALUES;
        Vec::with_capacity(if roomy { usual } else { 0 })
    }
}

/// Adds to a list that most often has only one item: the first item gets capacity for itself alone,
/// where a `Vec` would reserve four.
fn push<T>(list: &mut Vec<T>, item: T) {
    if list.capacity() == 0 {
        list.reserve_exact(1);
    }
    list.push(item);
}

impl<'de> DeserializeSeed<'de> for Level<'_> {
    type Value = Json<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Json<'de>, D::Error> {
        let values = self.values.get() + 1;
        if values > VALUES_MAX {
            return Err(de::Error::custom("more values than are read"));
        }
        self.values.set(values);
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Level<'_> {
    type Value = Json<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Json<'de>, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json<'de>, E> {
        Ok(Json::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json<'de>, E> {
        Ok(Json::Int(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json<'de>, E> {
        Ok(i64::try_from(value).map_or(Json::TooLarge, Json::Int))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Json<'de>, E> {
        Ok(Json::Fraction(value))
    }

    fn visit_borrowed_str<E>(self, value: &'de str) -> Result<Json<'de>, E> {
        Ok(Json::Text(Cow::Borrowed(value)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Json<'de>, E> {
        Ok(Json::Text(Cow::Owned(value.to_owned())))
    }

    fn visit_string<E>(self, value: String) -> Result<Json<'de>, E> {
        Ok(Json::Text(Cow::Owned(value)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json<'de>, A::Error> {
        let level = self.deeper()?;
        let mut values = level.list(0);
        while let Some(value) = items.next_element_seed(level)? {
            push(&mut values, value);
        }
        Ok(Json::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Json<'de>, A::Error> {
        let level = self.deeper()?;
        let mut values = level.list(USUAL_MEMBERS);
        while let Some(Name(name)) = members.next_key()? {
            push(&mut values, (name, members.next_value_seed(level)?));
        }
        Ok(Json::Object(values))
    }
}

/// A field's name, borrowed if it has no escapes.
struct Name<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Name<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NameVisitor;
        impl<'de> Visitor<'de> for NameVisitor {
            type Value = Name<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a member's name")
            }
            fn visit_borrowed_str<E>(self, value: &'de str) -> Result<Name<'de>, E> {
                Ok(Name(Cow::Borrowed(value)))
            }
            fn visit_str<E>(self, value: &str) -> Result<Name<'de>, E> {
                Ok(Name(Cow::Owned(value.to_owned())))
            }
        }
        deserializer.deserialize_str(NameVisitor)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_are_no_json_or_nest_too_deep_are_malformed() {
        for text in [
            "",
            "{",
            "{}x",
            "{\"a\":\"\\ud800\"}",
            "[1,]",
            "NaN",
            "\u{feff}{}",
        ] {
            assert!(Json::parse(text.as_bytes()).is_err(), "{text}");
        }
        assert!(Json::parse(b"\"\xff\"").is_err());
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(Json::parse(nested(NESTING_MAX).as_bytes()).is_ok());
        assert!(Json::parse(nested(NESTING_MAX + 1).as_bytes()).is_err());
        assert!(Json::parse(nested(500_000).as_bytes()).is_err());
    }

    #[test]
    fn a_text_of_more_values_than_may_be_is_malformed() {
        // The values are the text itself, its one member, and the items of that.
        let text = |items: usize| format!("{{\"a\":[{}0]}}", "0,".repeat(items - 1));
        let most = text(VALUES_MAX - 2);
        let (_, values) = Json::parse_counted(most.as_bytes()).unwrap();
        assert_eq!(values, VALUES_MAX);
        assert!(Json::parse(text(VALUES_MAX - 1).as_bytes()).is_err());
        // The bound also holds where numbers have to be read a second time.
        let capped = most.replacen("0,", "1e999,", 1);
        assert!(Json::parse(capped.as_bytes()).is_ok());
    }

    #[test]
    fn a_number_that_no_double_holds_is_too_large_and_hides_nothing_else() {
        let nines = "9".repeat(400);
        let text = format!(
            r#"{{"a": {nines}, "b": -{nines}, "c": 1E400, "d": 1.5e+999, "e": "1e400 \" {nines}",
                "f": [1, -2.5, 1e-999], "1e400": true}}"#
        );
        let of = |name: &str, value| (Cow::Owned(name.to_owned()), value);
        let strings = format!("1e400 \" {nines}");
        assert_eq!(
            Json::parse(text.as_bytes()),
            Ok(Json::Object(vec![
                of("a", Json::TooLarge),
                // Also out of range, wherever a number is expected.
                of("b", Json::Fraction(-18_446_744_073_709_551_616.0)),
                of("c", Json::TooLarge),
                of("d", Json::TooLarge),
                of("e", Json::Text(Cow::Owned(strings))),
                of(
                    "f",
                    Json::Array(vec![
                        Json::Int(1),
                        Json::Fraction(-2.5),
                        Json::Fraction(0.0)
                    ])
                ),
                of("1e400", Json::Bool(true)),
            ]))
        );
        for malformed in [
            "[1e400, 01e999]",
            "[1e400, 1.e999]",
            "[1e400, +1e999]",
            "[1e400, 1e999e9]",
            "[1e400, 1e+]",
            "[1e400, \"]",
            "[1e400, \"\\",
            "1e400 1e400",
        ] {
            assert!(Json::parse(malformed.as_bytes()).is_err(), "{malformed}");
        }
    }
}
