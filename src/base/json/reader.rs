//! Reading a request from its tree: each field reads itself, and reports each fault.

use std::fmt;

use super::fault::{Fault, FaultCode};
use super::schema::Side;
use super::shape::{Presence, Shape};
use super::straight::Straight;
use super::value::Json;
use crate::base::time::Instant;

/// How many faults of one body are reported; a body with more is reported with the first ones.
pub const FAULTS_MAX: usize = 1_000;
/// How many bytes the paths of the faults may have in all. A path repeats the names that lead to
/// it, so a thousand deeply nested faults would repeat a long path a thousand times.
const PLACES_BYTES_MAX: usize = 1 << 20;
/// How much of an unknown field's name a fault repeats, in characters.
const NAME_SHOWN_MAX: usize = 128;

/// One step of the path from the body to a field.
#[derive(Clone, Debug)]
enum Step {
    Name(&'static str),
    Item(usize),
    Entry(String),
}

/// The present path in a request, and the faults found so far.
#[derive(Debug)]
pub struct Reader {
    now: Instant,
    path: Vec<Step>,
    faults: Vec<Fault>,
    /// The bytes of the faults' paths.
    places_bytes: usize,
}

impl Reader {
    /// A reader at the body; `now` is the time of the request.
    #[must_use]
    pub fn new(now: Instant) -> Self {
        Self {
            now,
            path: Vec::with_capacity(8),
            faults: Vec::new(),
            places_bytes: 0,
        }
    }

    /// The time of the request, for rules like "not in the future".
    #[must_use]
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Whether no fault was found so far.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.faults.is_empty()
    }

    /// The faults, in the order in which they were found.
    #[must_use]
    pub fn into_faults(self) -> Vec<Fault> {
        self.faults
    }

    /// Notes a fault at the present path. Returns `None`, so that a function can end with it.
    pub fn fault<T>(&mut self, code: FaultCode) -> Option<T> {
        if self.faults.len() < FAULTS_MAX && self.places_bytes < PLACES_BYTES_MAX {
            let path = self.place();
            self.places_bytes += path.len();
            self.faults.push(Fault { path, code });
        }
        None
    }

    /// Notes a fault at the field `name` of the present path.
    pub fn fault_at<T>(&mut self, name: &'static str, code: FaultCode) -> Option<T> {
        self.inside(name, |at| at.fault(code))
    }

    /// Continues at the field `name`.
    pub fn inside<T>(&mut self, name: &'static str, read: impl FnOnce(&mut Self) -> T) -> T {
        self.step(Step::Name(name), read)
    }

    /// Continues at the item numbered `index`.
    pub fn item<T>(&mut self, index: usize, read: impl FnOnce(&mut Self) -> T) -> T {
        self.step(Step::Item(index), read)
    }

    /// Continues at the entry `name` of a map with names of the sender's choice.
    pub fn entry<T>(&mut self, name: &str, read: impl FnOnce(&mut Self) -> T) -> T {
        let shown = name.chars().take(NAME_SHOWN_MAX).collect();
        self.step(Step::Entry(shown), read)
    }

    fn step<T>(&mut self, step: Step, read: impl FnOnce(&mut Self) -> T) -> T {
        self.path.push(step);
        let value = read(self);
        self.path.pop();
        value
    }

    fn place(&self) -> String {
        use fmt::Write as _;
        let mut text = String::new();
        for step in &self.path {
            let name = match step {
                Step::Name(name) => *name,
                Step::Entry(name) => name,
                Step::Item(index) => {
                    let _ = write!(text, "[{index}]");
                    continue;
                }
            };
            if !text.is_empty() {
                text.push('.');
            }
            text.push_str(name);
        }
        text
    }

    /// The string at the present path, at least one character long.
    pub fn text<'v>(&mut self, value: &'v Json<'_>) -> Option<&'v str> {
        match value {
            Json::Text(text) if text.is_empty() => self.fault(FaultCode::TooShort),
            Json::Text(text) => Some(text),
            _ => self.fault(FaultCode::WrongType),
        }
    }

    /// Sorts an object's fields into the order of `names`; notes faults for a value that is not an
    /// object, for unknown fields and for duplicate ones.
    pub fn slots<'v, 'a, const N: usize>(
        &mut self,
        value: &'v Json<'a>,
        names: &[&'static str; N],
    ) -> Option<[Option<&'v Json<'a>>; N]> {
        let Json::Object(members) = value else {
            return self.fault(FaultCode::WrongType);
        };
        let mut slots = [None; N];
        // Fields mostly come in the order in which they are declared: look there first.
        let mut expected = 0;
        for (name, value) in members {
            let index = if names.get(expected).is_some_and(|known| known == name) {
                expected
            } else if let Some(index) = names.iter().position(|known| known == name) {
                index
            } else {
                self.entry(name, |at| at.fault::<()>(FaultCode::UnknownField));
                continue;
            };
            expected = index + 1;
            if slots[index].is_some() {
                self.fault_at::<()>(names[index], FaultCode::DuplicateField);
            } else {
                slots[index] = Some(value);
            }
        }
        Some(slots)
    }
}

/// A type that can be read from a field of a request.
pub trait FromJson: Sized {
    /// Reads the value; `None` after at least one fault was noted.
    fn read(value: &Json<'_>, at: &mut Reader) -> Option<Self>;

    /// Reads the value straight from its text, if it has no fault: what [`FromJson::read`] reads from
    /// its tree, which is also how it is read by default.
    ///
    /// # Errors
    /// Whatever keeps it from being read; the tree tells what.
    fn read_straight<'de, D: serde::Deserializer<'de>>(
        from: D,
        place: Straight<'_>,
    ) -> Result<Self, D::Error> {
        place.by_tree(from)
    }

    /// The value of an absent field: by default, a fault.
    fn absent(at: &mut Reader) -> Option<Self> {
        at.fault(FaultCode::Required)
    }

    /// The shape of the values that can be read.
    fn shape() -> Shape;

    /// The schema of such a value in an answer.
    ///
    /// # Panics
    /// Never: the schema of a shape is an object.
    #[must_use]
    fn answered() -> schemars::Schema {
        let schema = Self::shape().schema(Side::Answered);
        schema.try_into().expect("a schema is an object")
    }

    /// Whether the field may be absent, or null: by default, neither.
    fn presence() -> Presence {
        Presence::Required
    }
}

/// A field's value, or what its absence means.
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
/// (`Option<T>`). `items unique` says of a list that a rule refuses repeats (`refuse_repeats`).
/// `known` names the words that there are of a text that is read as any other is, see
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

            fn read_straight<'de, D: ::serde::Deserializer<'de>>(
                from: D,
                place: $crate::base::json::Straight<'_>,
            ) -> Result<Self, D::Error> {
                struct Visitor<'c>($crate::base::json::Straight<'c>);

                impl<'de> ::serde::de::Visitor<'de> for Visitor<'_> {
                    type Value = $name;

                    fn expecting(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                        f.write_str("an object")
                    }

                    fn visit_map<A: ::serde::de::MapAccess<'de>>(
                        self,
                        mut fields: A,
                    ) -> Result<$name, A::Error> {
                        let inside = self.0.inside()?;
                        $( let mut $field: Option<$type> = None; )+
                        while let Some(name) = fields.next_key::<&'de str>()? {
                            match name {
                                $( $json => inside.field(&mut $field, &mut fields)?, )+
                                _ => inside.unknown_field()?,
                            }
                        }
                        $( let $field = Some(inside.or_absent($field)?); )+
                        inside.without_fault(|at| {
                            let _ = &at;
                            $crate::json_object!(@rules $($rules at $fields)? { $($field),+ });
                            Some($name { $($field: $field?),+ })
                        })
                    }
                }

                from.deserialize_map(Visitor(place))
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
        /// The fields that the rules between them are about; `None` stands for a faulty one.
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

/// Gives a type that is read from requests its schema in answers, for the `schemars` crate:
/// `named`, where it is a component of the document of its own.
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(super) mod tests {
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
        let mut at = Reader::new(Instant::default());
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
        assert!(bytes < PLACES_BYTES_MAX + 20_000, "{bytes}");
    }

    #[test]
    fn a_body_of_nothing_but_faults_is_answered_with_a_bounded_list() {
        let members: Vec<_> = (0..5_000).map(|n| format!("\"m{n}\":0")).collect();
        let text = format!("{{{}}}", members.join(","));
        assert_eq!(faults::<Inner>(&text).len(), FAULTS_MAX);
    }
}
