//! Reading a type from a request, in two ways: from the tree of a body, which reports each fault, and
//! straight from the body's text, for the many bodies without a fault.
//!
//! Reading straight gives the same value as [`FromJson::read`] gives from the tree of the same text, or
//! it gives nothing, which means only that the tree has to be read. Both ways share every rule of a
//! single value: a value without code of its own for the text is parsed into a small tree and read from
//! there.

use std::collections::BTreeMap;

use super::fault::FaultCode;
use super::reader::Reader;
use super::scanner::Scanner;
use super::schema::Side;
use super::shape::{Presence, Shape};
use super::value::Json;
use crate::base::time::Timestamp;

/// A type that can be read from a field of a request.
pub trait FromJson: Sized {
    /// Reads the value; `None` after at least one fault was noted.
    fn read(value: &Json<'_>, at: &mut Reader) -> Option<Self>;

    /// Reads the value straight from its text, if it has no fault: the same value as [`FromJson::read`]
    /// reads from its tree, which is also the default. `None` where it cannot be read so; reading the
    /// tree then gives the reason.
    fn read_straight(from: &mut Scanner<'_>) -> Option<Self> {
        from.by_tree()
    }

    /// Returns the value of an absent field: by default, notes a fault.
    fn absent(at: &mut Reader) -> Option<Self> {
        at.fault(FaultCode::Required)
    }

    /// Returns the shape of the values that can be read.
    fn shape() -> Shape;

    /// Returns the schema of such a value in an answer.
    ///
    /// # Panics
    /// Never: the schema of a shape is an object.
    #[must_use]
    fn answered() -> schemars::Schema {
        let schema = Self::shape().schema(Side::Response);
        schema.try_into().expect("a schema is an object")
    }

    /// Returns whether the field may be absent, or null: by default, neither.
    fn presence() -> Presence {
        Presence::Required
    }
}

/// Reads a field's value, or the value that its absence stands for.
pub fn field<T: FromJson>(
    value: Option<&Json<'_>>,
    name: &'static str,
    at: &mut Reader,
) -> Option<T> {
    at.inside(name, |at| match value {
        Some(value) => T::read(value, at),
        None => T::absent(at),
    })
}

/// Declares a struct together with how it is read from a request and written into JSON: each field
/// once, with its type and its name in JSON.
///
/// ```text
/// json_object! {
///     /// The period that a statement covers.
///     pub struct Period {
///         /// Its first day.
///         pub first: Date = "periodStart",
///         /// Its last day.
///         pub last: Date = "periodEnd",
///     }
///     rules in_order(Fields)
/// }
/// ```
///
/// The type says whether its field is required (`T`), may be null (`Nullable<T>`) or may be absent
/// (`Option<T>`). `items unique` documents that a rule refuses repeats in a list (`refuse_repeats`).
/// `known` lists the accepted words of a text whose form does not restrict it, see
/// [`Shape::Text`](crate::base::json::Shape). `rules` names a function for faults between fields, and a
/// struct that is declared for it: the function is called with the reader and that struct, which has an
/// `Option<&_>` of each field under the field's name, `None` for a faulty one.
#[macro_export]
macro_rules! json_object {
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident {
            $( $(#[doc = $says:literal])* $field_vis:vis $field:ident : $type:ty = $json:literal
                $(personal $personal:ident)? $(items $items:ident)? $(known [$($known:expr),+])? ),+ $(,)?
        }
        $(rules $rules:ident ( $fields:ident ))?
    ) => {
        $crate::json_object!(@fields $($fields)? { $($field: $type),+ });

        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq, ::serde::Serialize, ::serde::Deserialize)]
        $vis struct $name {
            $( $(#[doc = $says])* #[serde(rename = $json)] $field_vis $field: $type ),+
        }

        impl $crate::base::json::FromJson for $name {
            fn read(
                value: &$crate::base::json::Json<'_>,
                at: &mut $crate::base::json::Reader,
            ) -> Option<Self> {
                let slots = at.slots(value, &[$($json),+])?;
                let mut slots = slots.into_iter();
                $(
                    let $field: Option<$type> =
                        $crate::base::json::field(slots.next().flatten(), $json, at);
                )+
                $crate::json_object!(@rules $($rules at $fields)? { $($field),+ });
                Some(Self { $($field: $field?),+ })
            }

            fn read_straight(from: &mut $crate::base::json::Scanner<'_>) -> Option<Self> {
                $( let mut $field: Option<$type> = None; )+
                let mut more = from.open_object()?;
                // Senders mostly write fields in the order of their declaration.
                $(
                    if more && from.is_named(concat!("\"", $json, "\"")) {
                        from.field(&mut $field)?;
                        more = from.more_fields()?;
                    }
                )+
                while more {
                    match from.name()? {
                        $( $json => from.field(&mut $field)?, )+
                        _ => return None,
                    }
                    more = from.more_fields()?;
                }
                $( let $field = Some(from.or_absent($field)?); )+
                from.without_fault(|at| {
                    let _ = &at;
                    $crate::json_object!(@rules $($rules at $fields)? { $($field),+ });
                    Some($name { $($field: $field?),+ })
                })
            }

            fn shape() -> $crate::base::json::Shape {
                $crate::base::json::Shape::Object(vec![
                    $( $crate::base::json::Field {
                        name: $json,
                        says: concat!($($says),*),
                        presence: <$type as $crate::base::json::FromJson>::presence(),
                        shape: <$type as $crate::base::json::FromJson>::shape()
                            $(.$items())?
                            $(.known(&[$($known),+]))?,
                        personal: <[$crate::base::json::Personal]>::first(
                            &[$($crate::base::json::Personal::$personal)?]
                        ).copied(),
                    } ),+
                ])
            }
        }

        $crate::schema_of_shape!(named $name);
    };
    (@fields { $($field:ident : $type:ty),+ }) => {};
    (@fields $fields:ident { $($field:ident : $type:ty),+ }) => {
        /// The fields, as the rules between them see them; `None` for a faulty one.
        #[allow(dead_code, reason = "rules are about some of the fields")]
        struct $fields<'f> {
            $( $field: Option<&'f $type> ),+
        }
    };
    (@rules { $($field:ident),+ }) => {};
    (@rules $rules:ident $at:ident $fields:ident { $($field:ident),+ }) => {
        $rules($at, &$fields { $( $field: $field.as_ref() ),+ });
    };
}

/// Implements the schema in answers, for the `schemars` crate, of a type that is read from requests;
/// with `named`, the schema is a component of its own in the document.
#[macro_export]
macro_rules! schema_of_shape {
    ($name:ident) => {
        $crate::schema_of_shape!(@ $name, true);
    };
    (named $name:ident) => {
        $crate::schema_of_shape!(@ $name, false);
    };
    (@ $name:ident, $is_inline:literal) => {
        impl ::schemars::JsonSchema for $name {
            fn inline_schema() -> bool {
                $is_inline
            }

            fn schema_name() -> ::std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn schema_id() -> ::std::borrow::Cow<'static, str> {
                concat!(module_path!(), "::", stringify!($name)).into()
            }

            fn json_schema(_: &mut ::schemars::SchemaGenerator) -> ::schemars::Schema {
                <Self as $crate::base::json::FromJson>::answered()
            }
        }
    };
}

/// Reads `text` straight into a `T`, and returns it with the number of values in the text; `None` where
/// the tree has to be read, to report a fault or for any other reason.
#[must_use]
pub fn read_straight<T: FromJson>(text: &[u8], now: Timestamp) -> Option<(T, usize)> {
    let mut from = Scanner::new(text, now)?;
    let value = T::read_straight(&mut from)?;
    from.end().map(|values| (value, values))
}

impl Scanner<'_> {
    /// Reads the value of a field into its place, after its name was read; `None` when it is a
    /// duplicate.
    pub fn field<T: FromJson>(&mut self, place: &mut Option<T>) -> Option<()> {
        if place.is_some() {
            return None;
        }
        self.take(b':')?;
        *place = Some(T::read_straight(self)?);
        Some(())
    }

    /// Returns the field, or its default where it is absent.
    pub fn or_absent<T: FromJson>(&mut self, place: Option<T>) -> Option<T> {
        place.or_else(|| self.without_fault(T::absent))
    }

    /// Reads all values of an array.
    pub(super) fn items<T: FromJson>(&mut self) -> Option<Vec<T>> {
        let mut items = Vec::new();
        let mut more = self.open(b'[', b']')?;
        while more {
            items.push(T::read_straight(self)?);
            more = self.more(b']')?;
        }
        Some(items)
    }

    /// Reads the entries of a map with names of the sender's choice, each of which `check` must accept.
    pub fn entries<T: FromJson>(
        &mut self,
        check: impl for<'n> Fn(&'n str, &mut Reader) -> Option<&'n str>,
    ) -> Option<BTreeMap<Box<str>, T>> {
        let mut entries = Vec::new();
        let mut more = self.open_object()?;
        while more {
            let name = self.name()?;
            let name = self.without_fault(|at| check(name, at))?;
            self.take(b':')?;
            entries.push((name.into(), T::read_straight(self)?));
            more = self.more_fields()?;
        }
        // Collecting sorts all entries at once, which is less work than inserting them one by one.
        let count = entries.len();
        let map: BTreeMap<_, _> = entries.into_iter().collect();
        (map.len() == count).then_some(map)
    }

    /// Reads the next value, which has to be a string.
    pub fn by_text<T>(&mut self, read: impl FnOnce(&str, &mut Reader) -> Option<T>) -> Option<T> {
        let text = self.text()?;
        self.without_fault(|at| read(&text, at))
    }

    /// Reads the next value from its tree.
    #[inline]
    pub(super) fn by_tree<T: FromJson>(&mut self) -> Option<T> {
        let tree = self.tree()?;
        self.without_fault(|at| T::read(&tree, at))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(super) mod tests {
    use super::super::faults::{FAULTS_MAX, PLACES_BYTES_MAX};
    use super::super::reader::NAME_SHOWN_MAX;
    use super::*;
    use crate::base::json::{AnyObject, AtLeast, NESTING_MAX, Nullable};

    json_object! {
        #[allow(missing_docs)]
        struct Inner {
            count: AtLeast<1> = "count",
            flag: Option<bool> = "flag",
        }
    }

    json_object! {
        #[allow(missing_docs)]
        struct Outer {
            id: i64 = "id",
            note: Nullable<i64> = "note",
            inner: Inner = "inner",
            list: Vec<Inner> = "list",
            low: i64 = "low",
            high: i64 = "high",
        }
        rules in_order(Fields)
    }

    fn in_order(at: &mut Reader, fields: &Fields<'_>) {
        if let (Some(low), Some(high)) = (fields.low, fields.high)
            && low > high
        {
            at.fault_at::<()>("high", FaultCode::OutOfRange);
        }
    }

    pub(in crate::base::json) fn faults<T: FromJson>(text: &str) -> Vec<(String, &'static str)> {
        let json = Json::parse(text.as_bytes()).unwrap();
        let mut at = Reader::new(Timestamp::default());
        let value = T::read(&json, &mut at);
        assert!(
            value.is_some() || !at.is_clean(),
            "a refusal names its fault: {text}"
        );
        at.into_faults()
            .into_iter()
            .map(|fault| (fault.path, fault.code.as_str()))
            .collect()
    }

    #[test]
    fn a_good_body_is_read_and_null_stands_for_absent_only_where_it_may() {
        let text =
            r#"{"id":1,"note":null,"inner":{"count":1,"flag":null},"list":[],"low":1,"high":1}"#;
        assert_eq!(faults::<Outer>(text), []);
    }

    #[test]
    fn all_faults_of_a_body_are_found_at_once_each_with_its_place() {
        let text = r#"{"id":1.0,"inner":{"count":0,"count":2,"x":1},
            "list":[{"count":1},{"count":99999999999999999999}],"low":2,"high":1,"more":{}}"#;
        assert_eq!(
            faults::<Outer>(text),
            [
                ("more", "unknown_field"),
                ("id", "wrong_type"),
                ("note", "required"),
                ("inner.count", "duplicate_field"),
                ("inner.x", "unknown_field"),
                ("inner.count", "out_of_range"),
                ("list[1].count", "out_of_range"),
                ("high", "out_of_range"),
            ]
            .map(|(path, code)| (path.to_owned(), code))
        );
    }

    #[test]
    fn an_array_in_the_place_of_an_object_is_refused() {
        assert_eq!(faults::<Inner>("[1,true]"), [(String::new(), "wrong_type")]);
    }

    #[test]
    fn the_places_of_faults_far_within_are_told_up_to_a_bound_of_their_bytes() {
        let way = format!("\"{}\":", "\u{1f600}".repeat(NAME_SHOWN_MAX));
        let leaves = vec!["1e20"; 5_000].join(",");
        let depth = NESTING_MAX - 2;
        let text = format!(
            "{{{}[{leaves}]{}",
            vec![way.as_str(); depth].join("{"),
            "}".repeat(depth)
        );
        let told = faults::<AnyObject>(&text);
        let bytes: usize = told.iter().map(|(path, _)| path.len()).sum();
        assert!(!told.is_empty());
        assert!(bytes <= PLACES_BYTES_MAX, "{bytes}");
    }

    #[test]
    fn a_name_that_a_map_may_have_is_repeated_whole_and_a_longer_one_in_part() {
        for (length, shown) in [(512, 512), (513, 513), (5_000, NAME_SHOWN_MAX)] {
            let text = format!("{{\"{}\":1e20}}", "n".repeat(length));
            let expected = [("n".repeat(shown), "out_of_range")];
            assert_eq!(faults::<AnyObject>(&text), expected, "{length}");
        }
    }

    #[test]
    fn a_body_of_nothing_but_faults_is_answered_with_a_bounded_list() {
        let members: Vec<_> = (0..5_000).map(|n| format!("\"m{n}\":0")).collect();
        let text = format!("{{{}}}", members.join(","));
        assert_eq!(faults::<Inner>(&text).len(), FAULTS_MAX);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod straight_tests {

    use rand::rngs::StdRng;
    use rand::{Rng as _, SeedableRng as _};

    use super::*;
    use crate::base::json::{
        AnyObject, AtLeast, AtMost, FaultCode, Json, NESTING_MAX, NonEmpty, Nullable, VALUES_MAX,
    };
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
        let mut at = Reader::new(Timestamp::default());
        let read = Sample::read(&json, &mut at);
        read.filter(|_| at.is_clean()).map(|read| (read, values))
    }

    const GOOD: &str = r#"{"number":7,"day":"2026-11-22","items":["a","b"],"few":[true],
        "map":{"y":2,"x":1},"free":{"any":[1.5,{}]},"inner":[{"flag":false},{"flag":true}]}"#;

    #[test]
    fn valid_bodies_read_without_a_tree_have_the_same_result_and_count() {
        for text in [
            GOOD,
            r#"{"day":null,"number":1,"items":["a"]}"#,
            r#"{"day":null,"number":1,"items":["a"],"note":null,"inner":null,"map":{}}"#,
            r#" {"items":["\u0061\n"],"number":9223372036854775807,"day":"2026-01-01","note":"n"} "#,
        ] {
            let straight = read_straight::<Sample>(text.as_bytes(), Timestamp::default());
            assert!(straight.is_some(), "{text}");
            assert_eq!(straight, by_tree(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn faulty_bodies_fall_back_to_the_tree_parser() {
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
            ("{\"y\":2,\"x\":1}", "{\"x\":2,\"x\":1}"),
            ("false}", "0}"),
            ("[{\"flag\":false}", "[null"),
            ("true}]}", "true}]} 1"),
            ("true}]}", "true}],}"),
        ] {
            assert!(GOOD.contains(from), "{from}");
            let text = GOOD.replacen(from, to, 1);
            let straight = read_straight::<Sample>(text.as_bytes(), Timestamp::default());
            assert_eq!(straight, None, "{text}");
            assert_eq!(by_tree(text.as_bytes()), None, "{text}");
        }
        assert!(read_straight::<Sample>(b"\"\xff\"", Timestamp::default()).is_none());
        assert!(read_straight::<Sample>(b"[1]", Timestamp::default()).is_none());
    }

    /// Returns texts of all sorts, made of pieces that matter to a JSON parser.
    fn any_text(random: &mut StdRng) -> Vec<u8> {
        const PIECES: &[&[u8]] = &[
            b"{",
            b"}",
            b"[",
            b"]",
            b",",
            b":",
            b"\"",
            b"\\",
            b" ",
            b"\n",
            b"\t",
            b"\r",
            b"\x0c",
            b"\x00",
            b"null",
            b"true",
            b"false",
            b"nul",
            b"-0",
            b"0",
            b"01",
            b"1.0",
            b"1e2",
            b"1E+2",
            b"1.",
            b".5",
            b"-",
            b"+1",
            b"9223372036854775807",
            b"9223372036854775808",
            b"1e400",
            b"\"number\":",
            b"\"day\":",
            b"\"items\":",
            b"\"\\u0061\"",
            b"\"\\ud800\"",
            b"\"\\x\"",
            b"\"a\x01\"",
            b"\"\\\"\"",
            b"\"note\"",
            b"\xff",
            "\u{ac00}".as_bytes(),
            b"\xed\xa0\x80",
            b"/",
            b"\xef\xbb\xbf",
        ];
        let mut text = GOOD.as_bytes().to_vec();
        for _ in 0..random.random_range(1..4) {
            let at = random.random_range(0..=text.len());
            let until = text.len().min(at + random.random_range(0..4));
            let piece = PIECES[random.random_range(0..PIECES.len())];
            text.splice(at..until, piece.iter().copied());
        }
        text
    }

    #[test]
    fn whatever_the_text_it_is_read_as_its_tree_says_or_not_at_all() {
        let mut random = StdRng::seed_from_u64(20_261_124);
        let mut read = 0;
        for _ in 0..40_000 {
            let text = any_text(&mut random);
            let straight = read_straight::<Sample>(&text, Timestamp::default());
            let by_tree = by_tree(&text);
            // A name with an escape is read from the tree only.
            if straight.is_some() || !text.contains(&b'\\') {
                assert_eq!(straight, by_tree, "{}", text.escape_ascii());
            }
            read += usize::from(by_tree.is_some());
        }
        assert!(read > 300, "{read} of them have no fault");
    }

    #[test]
    fn depth_and_number_of_values_have_the_same_bounds() {
        let nested = |depth: usize| {
            let free = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
            GOOD.replacen("[1.5,{}]", &free, 1)
        };
        // The body and the free object are two of the levels.
        for depth in [NESTING_MAX - 3, NESTING_MAX - 2, NESTING_MAX - 1] {
            let text = nested(depth);
            let straight = read_straight::<Sample>(text.as_bytes(), Timestamp::default());
            assert_eq!(straight, by_tree(text.as_bytes()));
            assert_eq!(straight.is_some(), depth <= NESTING_MAX - 2);
        }
        let many = |items: usize| {
            let list = vec!["\"i\""; items].join(",");
            format!(r#"{{"day":null,"number":1,"items":[{list}]}}"#)
        };
        for (items, read) in [(VALUES_MAX - 4, true), (VALUES_MAX - 3, false)] {
            let text = many(items);
            let straight = read_straight::<Sample>(text.as_bytes(), Timestamp::default());
            assert_eq!(straight.is_some(), read);
            assert_eq!(straight, by_tree(text.as_bytes()));
        }
    }
}
