//! Reading a request straight from its text into its type, for the many that have no fault.
//!
//! What is read here is what [`FromJson::read`] reads from the tree of the same text, or nothing at
//! all: an error of any kind says only that the tree has to be read, which tells each fault. Both ways
//! share the parser, and every rule of a single value: a value that has no way of its own is parsed
//! into a small tree and read from there.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::marker::PhantomData;

use serde::de::{self, DeserializeSeed, Deserializer, SeqAccess, Visitor};

use super::reader::{FromJson, Reader};
use super::value::{Level, NESTING_MAX, VALUES_MAX};
use crate::base::time::Instant;

/// What the values of one text share.
struct Shared {
    /// Where the faults of values go; the first one ends the reading.
    reader: RefCell<Reader>,
    /// How many values there were.
    values: Cell<usize>,
}

/// A place in a text that is read straight.
#[derive(Clone, Copy)]
pub struct Straight<'c> {
    shared: &'c Shared,
    /// How many arrays and objects are around it.
    depth: usize,
}

/// A value of the type `T` at this place.
struct Value<'c, T>(Straight<'c>, PhantomData<T>);

impl<'de, T: FromJson> DeserializeSeed<'de> for Value<'_, T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<T, D::Error> {
        T::read_straight(from, self.0)
    }
}

/// The one error there is: the tree has to be read.
fn unread<E: de::Error>() -> E {
    E::custom("not read straight")
}

impl<'c> Straight<'c> {
    /// Counts an array or object, and goes inside.
    ///
    /// # Errors
    /// When there are too many values, or they nest too deep.
    pub fn inside<E: de::Error>(self) -> Result<Self, E> {
        let values = self.shared.values.get() + 1;
        if values > VALUES_MAX || self.depth == NESTING_MAX {
            return Err(unread());
        }
        self.shared.values.set(values);
        Ok(Self {
            depth: self.depth + 1,
            ..self
        })
    }

    /// Reads a value by way of its tree.
    ///
    /// # Errors
    /// When it is malformed, or has a fault.
    pub(super) fn by_tree<'de, T: FromJson, D: Deserializer<'de>>(
        self,
        from: D,
    ) -> Result<T, D::Error> {
        let level = Level::new(self.depth, &self.shared.values, VALUES_MAX);
        let json = level.deserialize(from)?;
        self.without_fault(|at| T::read(&json, at))
    }

    /// What `read` gives, unless it notes a fault.
    ///
    /// # Errors
    /// When it does.
    pub fn without_fault<T, E: de::Error>(
        self,
        read: impl FnOnce(&mut Reader) -> Option<T>,
    ) -> Result<T, E> {
        let mut at = self.shared.reader.borrow_mut();
        match read(&mut at) {
            Some(value) if at.is_clean() => Ok(value),
            _ => Err(unread()),
        }
    }

    /// The value of the next field of an object, which has none of this name yet.
    ///
    /// # Errors
    /// When it has one, or the value is malformed or has a fault.
    pub fn field<'de, T: FromJson, A: de::MapAccess<'de>>(
        self,
        slot: &mut Option<T>,
        fields: &mut A,
    ) -> Result<(), A::Error> {
        if slot.is_some() {
            return Err(unread());
        }
        *slot = Some(fields.next_value_seed(Value(self, PhantomData))?);
        Ok(())
    }

    /// A field's value, or what its absence means.
    ///
    /// # Errors
    /// When it may not be absent.
    pub fn or_absent<T: FromJson, E: de::Error>(self, slot: Option<T>) -> Result<T, E> {
        match slot {
            Some(value) => Ok(value),
            None => self.without_fault(T::absent),
        }
    }

    /// A field that no object of this type has.
    ///
    /// # Errors
    /// Always.
    pub fn unknown_field<E: de::Error>(self) -> Result<(), E> {
        Err(unread())
    }
}

/// Reads `null`, or a value.
pub(super) struct OrNull<'c, T>(pub(super) Straight<'c>, pub(super) PhantomData<T>);

impl<'de, T: FromJson> Visitor<'de> for OrNull<'_, T> {
    type Value = Option<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value or null")
    }

    fn visit_none<E: de::Error>(self) -> Result<Option<T>, E> {
        let Straight { shared, .. } = self.0;
        shared.values.set(shared.values.get() + 1);
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Option<T>, D::Error> {
        T::read_straight(from, self.0).map(Some)
    }
}

/// Reads the items of an array.
pub(super) struct Items<'c, T>(pub(super) Straight<'c>, pub(super) PhantomData<T>);

impl<'de, T: FromJson> Visitor<'de> for Items<'_, T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Vec<T>, A::Error> {
        let inside = self.0.inside()?;
        let mut items = Vec::new();
        while let Some(item) = from.next_element_seed(Value(inside, PhantomData))? {
            items.push(item);
        }
        Ok(items)
    }
}

/// What the whole text says, when it has no fault, and how many values it has; `None` when the tree
/// has to be read. `now` is the time of the request.
#[must_use]
pub fn read_straight<T: FromJson>(text: &[u8], now: Instant) -> Option<(T, usize)> {
    let text = std::str::from_utf8(text).ok()?;
    let shared = Shared {
        reader: RefCell::new(Reader::new(now)),
        values: Cell::new(0),
    };
    let whole = Straight {
        shared: &shared,
        depth: 0,
    };
    let mut from = serde_json::Deserializer::from_str(text);
    let value = T::read_straight(&mut from, whole).ok()?;
    from.end().ok()?;
    Some((value, shared.values.get()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::base::json::{AnyObject, AtLeast, AtMost, FaultCode, Json, NonEmpty, Nullable};
    use crate::base::text::Ident;
    use crate::base::time::Date;

    crate::json_object! {
        /// A field of each sort.
        pub(super) struct Sample {
            /// A bounded number.
            pub number: AtLeast<1> = "number",
            /// One that may be absent.
            pub note: Option<Ident> = "note",
            /// One that may be null.
            pub day: Nullable<Date> = "day",
            /// Items.
            pub items: NonEmpty<Ident> = "items",
            /// At most two.
            pub few: Option<AtMost<bool, 2>> = "few",
            /// Names of the sender's choice.
            pub map: Option<BTreeMap<Box<str>, i64>> = "map",
            /// Anything.
            pub free: Option<AnyObject> = "free",
            /// Another of its kind.
            pub inner: Option<Vec<Inner>> = "inner",
        }
        rules no_note_without_day(SampleFields)
    }

    crate::json_object! {
        /// What is inside.
        pub(super) struct Inner {
            /// A flag.
            pub flag: bool = "flag",
        }
    }

    fn no_note_without_day(at: &mut Reader, fields: &SampleFields<'_>) {
        if matches!(
            (fields.note, fields.day),
            (Some(Some(_)), Some(Nullable(None)))
        ) {
            at.fault_at::<()>("note", FaultCode::NotAllowed);
        }
    }

    fn by_tree(text: &[u8]) -> Option<(Sample, usize)> {
        let (json, values) = Json::parse_counted(text).ok()?;
        let mut at = Reader::new(Instant::default());
        let read = Sample::read(&json, &mut at);
        read.filter(|_| at.is_clean()).map(|read| (read, values))
    }

    const GOOD: &str = r#"{"number":7,"day":"2026-11-22","items":["a","b"],"few":[true],
        "map":{"x":1},"free":{"any":[1.5,{}]},"inner":[{"flag":false},{"flag":true}]}"#;

    #[test]
    fn what_has_no_fault_is_read_without_a_tree_and_counted_alike() {
        for text in [
            GOOD,
            r#"{"day":null,"number":1,"items":["a"]}"#,
            r#"{"day":null,"number":1,"items":["a"],"note":null,"inner":null,"map":{}}"#,
            r#" {"items":["\u0061\n"],"number":9223372036854775807,"day":"2026-01-01","note":"n"} "#,
        ] {
            let straight = read_straight::<Sample>(text.as_bytes(), Instant::default());
            assert!(straight.is_some(), "{text}");
            assert_eq!(straight, by_tree(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn what_has_a_fault_is_left_to_the_tree() {
        for (from, to) in [
            ("7", "0"),
            ("7", "7.0"),
            ("7", "1e400"),
            ("\"number\":7,", ""),
            ("\"number\":7", "\"number\":7,\"number\":7"),
            ("\"number\":7", "\"number\":7,\"other\":7"),
            ("\"2026-11-22\"", "null,\"note\":\"n\""),
            ("[\"a\",\"b\"]", "[]"),
            ("[\"a\",\"b\"]", "[\"\"]"),
            ("[true]", "[true,true,true]"),
            ("{\"x\":1}", "{\"x\":1,\"x\":1}"),
            ("false}", "0}"),
            ("[{\"flag\":false}", "[null"),
            ("true}]}", "true}]} 1"),
            ("true}]}", "true}],}"),
        ] {
            assert!(GOOD.contains(from), "{from}");
            let text = GOOD.replacen(from, to, 1);
            let straight = read_straight::<Sample>(text.as_bytes(), Instant::default());
            assert_eq!(straight, None, "{text}");
            assert_eq!(by_tree(text.as_bytes()), None, "{text}");
        }
        assert!(read_straight::<Sample>(b"\"\xff\"", Instant::default()).is_none());
        assert!(read_straight::<Sample>(b"[1]", Instant::default()).is_none());
    }

    #[test]
    fn depth_and_number_of_values_have_the_same_bounds() {
        let nested = |depth: usize| {
            let free = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
            GOOD.replacen("[1.5,{}]", &free, 1)
        };
        // The body and the free object are two levels of the whole.
        for depth in [NESTING_MAX - 3, NESTING_MAX - 2, NESTING_MAX - 1] {
            let text = nested(depth);
            let straight = read_straight::<Sample>(text.as_bytes(), Instant::default());
            assert_eq!(straight, by_tree(text.as_bytes()));
            assert_eq!(straight.is_some(), depth <= NESTING_MAX - 2);
        }
        let many = |items: usize| {
            let list = vec!["\"i\""; items].join(",");
            format!(r#"{{"day":null,"number":1,"items":[{list}]}}"#)
        };
        for (items, read) in [(VALUES_MAX - 4, true), (VALUES_MAX - 3, false)] {
            let text = many(items);
            let straight = read_straight::<Sample>(text.as_bytes(), Instant::default());
            assert_eq!(straight.is_some(), read);
            assert_eq!(straight, by_tree(text.as_bytes()));
        }
    }
}
