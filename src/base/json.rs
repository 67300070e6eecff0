//! JSON as it comes in: read strictly, every fault of a body found at once, each with its place.
//!
//! A body is first parsed into a [`Json`] tree that borrows from the bytes and keeps what a map
//! would hide (repeated members, numbers that are no integers); then a [`Member`] reads itself
//! from the tree and tells a [`Reader`] of each fault on the way. [`members!`] writes that for a
//! struct, so that a request's shape stands in one place.
//!
//! [`members!`]: crate::members

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;

use super::time::Instant;

/// How deep arrays and objects may be nested; the body itself is level 1.
pub const NESTING_MAX: usize = 32;
/// How many values one body may have, itself and those within others included. A value of two
/// bytes takes some 60 in the tree: this bounds what a body takes while it is read.
pub const VALUES_MAX: usize = 200_000;
/// How many faults of one body are reported; a body with more is reported with the first ones.
pub const FAULTS_MAX: usize = 1_000;
/// How many bytes the places of the faults may have in all. A place repeats the names that lead to
/// it, so a thousand faults far within would repeat a long way a thousand times.
const PLACES_BYTES_MAX: usize = 1 << 20;
/// Objects among so many first values are given room for the members of a usual one at once;
/// later ones grow with what they hold, so that empty ones take nothing.
const ROOMY_VALUES: usize = 256;
/// The members of a usual object.
const USUAL_MEMBERS: usize = 16;
/// 2^63: the magnitude from which on a number is beyond 64 bits.
const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;
/// 2^53 − 1: the largest integer up to which every integer is a double (RFC 8785 section 3.2.2.3
/// has JSON's numbers be doubles).
const SAFE_INTEGER_MAX: u64 = (1 << 53) - 1;
/// 10^21: from here on ECMAScript, and RFC 8785 with it, writes an exponent.
const EXPONENT_FROM: f64 = 1e21;
/// How much of an unknown member's name a fault repeats, in characters.
const NAME_SHOWN_MAX: usize = 128;

/// One value of a JSON text.
#[derive(Clone, Debug, PartialEq)]
pub enum Json<'a> {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number without fraction and exponent, within 64 bits.
    Int(i64),
    /// A number that is out of range wherever one is due: an integer of 64 bits without a sign, or
    /// what no double holds.
    TooLarge,
    /// A number with a fraction or an exponent, or of more digits than 64 bits hold: the double
    /// nearest to it.
    Fraction(f64),
    /// A string, without its escapes.
    Text(Cow<'a, str>),
    /// An array.
    Array(Vec<Json<'a>>),
    /// An object: its members as they came, the repeated ones too.
    Object(Vec<(Cow<'a, str>, Json<'a>)>),
}

/// Why bytes are no JSON text that is read here.
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
    /// When the bytes are no JSON text, nest deeper than [`NESTING_MAX`], or hold more than
    /// [`VALUES_MAX`] values.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        Self::parse_counted(bytes).map(|(value, _)| value)
    }

    /// As [`Json::parse`], with how many values there are, the text itself included: what the tree
    /// takes of memory goes by that.
    ///
    /// # Errors
    /// As [`Json::parse`].
    pub fn parse_counted(bytes: &'a [u8]) -> Result<(Self, usize), Malformed> {
        Self::parse_up_to(VALUES_MAX, bytes)
    }

    /// As [`Json::parse`], of a text that this program wrote: however many values it has.
    ///
    /// # Errors
    /// When the bytes are no JSON text, or nest deeper than [`NESTING_MAX`].
    pub fn parse_own(bytes: &'a [u8]) -> Result<Self, Malformed> {
        Self::parse_up_to(usize::MAX, bytes).map(|(value, _)| value)
    }

    fn parse_up_to(values_max: usize, bytes: &'a [u8]) -> Result<(Self, usize), Malformed> {
        match Self::parse_in_range(values_max, bytes) {
            // JSON numbers have no bounds, the parser's have those of a double: a number beyond
            // them is read as one that is too large, with a place of its own.
            Err(Malformed(fault)) if fault.starts_with("number out of range") => {
                let capped = with_numbers_capped(bytes);
                let (value, values) = Json::parse_in_range(values_max, &capped)?;
                Ok((value.into_owned(), values))
            }
            parsed => parsed,
        }
    }

    fn parse_in_range(values_max: usize, bytes: &'a [u8]) -> Result<(Self, usize), Malformed> {
        let mut deserializer = serde_json::Deserializer::from_slice(bytes);
        let values = Cell::new(0);
        let level = Level {
            depth: 0,
            values: &values,
            values_max,
        };
        let value = level
            .deserialize(&mut deserializer)
            .map_err(|error| Malformed(error.to_string()))?;
        deserializer
            .end()
            .map_err(|error| Malformed(error.to_string()))?;
        Ok((value, values.get()))
    }

    /// The same tree, which borrows from nothing.
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

/// The text with each number that no double holds replaced by one beyond 64 bits. What is no
/// number of JSON's stays as it is, to be refused.
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

/// Whether it is a number of JSON's form (RFC 8259 section 6, without its sign) that is larger
/// than every double.
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

/// Where the value that comes next stands.
#[derive(Clone, Copy)]
struct Level<'c> {
    /// How many arrays and objects stand around it.
    depth: usize,
    /// How many values there were before it.
    values: &'c Cell<usize>,
    /// How many there may be in all.
    values_max: usize,
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

    /// A list for items or members, of which `usual` are made room for among the first values.
    fn list<T>(self, usual: usize) -> Vec<T> {
        let roomy = self.values.get() <= ROOMY_VALUES;
        Vec::with_capacity(if roomy { usual } else { 0 })
    }
}

/// Adds to a list that most often has no more than one: the first item takes its own room only,
/// where a list would make room for four.
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
        if values > self.values_max {
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

/// A member's name, borrowed where it has no escapes.
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

crate::words! {
    /// What is wrong with one member.
    pub enum FaultCode {
        /// A member that must be there is absent.
        Required = "required",
        /// A member that the request does not know.
        UnknownField = "unknown_field",
        /// A member given twice.
        DuplicateField = "duplicate_field",
        /// Another JSON type than the member's, null where a value is due, a number with a
        /// fraction where an integer is due.
        WrongType = "wrong_type",
        /// Fewer characters or items than the least allowed.
        TooShort = "too_short",
        /// More characters or items than the most allowed.
        TooLong = "too_long",
        /// White space only.
        Blank = "blank",
        /// Not of the form that the member has.
        Pattern = "pattern",
        /// A number, day or sum outside its range, or in the wrong order with another.
        OutOfRange = "out_of_range",
        /// A value outside the enumeration, or other than what it must equal.
        NotAllowed = "not_allowed",
        /// An item, or a key, given more than once.
        NotUnique = "not_unique",
        /// The body is no JSON text.
        MalformedJson = "malformed_json",
    }
}

impl FaultCode {
    /// A sentence for people.
    #[must_use]
    pub fn message(self) -> &'static str {
        match self {
            Self::Required => "This member is required.",
            Self::UnknownField => "This member is not known here.",
            Self::DuplicateField => "This member is given more than once.",
            Self::WrongType => "The value has the wrong JSON type.",
            Self::TooShort => "The value is too short.",
            Self::TooLong => "The value is too long.",
            Self::Blank => "The value must not be blank.",
            Self::Pattern => "The value does not have the required form.",
            Self::OutOfRange => "The value is out of range.",
            Self::NotAllowed => "The value is not allowed here.",
            Self::NotUnique => "The value is given more than once.",
            Self::MalformedJson => "The body is not a well-formed JSON text.",
        }
    }
}

/// One fault of a request: where, and what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The member's place: `scope.collection`, `lineAcknowledgements[2].settlementLineKey`,
    /// `header.Idempotency-Key`; empty for the body itself.
    pub path: String,
    /// What is wrong there.
    pub code: FaultCode,
}

impl Serialize for Fault {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(3))?;
        map.serialize_entry("fieldPath", &self.path)?;
        map.serialize_entry("code", self.code.as_str())?;
        map.serialize_entry("message", self.code.message())?;
        map.end()
    }
}

/// One step of the way from the body to a member.
#[derive(Clone, Debug)]
enum Step {
    Name(&'static str),
    Item(usize),
    Entry(String),
}

/// Where the reading of a request stands, and the faults found so far.
#[derive(Debug)]
pub struct Reader {
    now: Instant,
    path: Vec<Step>,
    faults: Vec<Fault>,
    /// The bytes of the faults' places.
    places_bytes: usize,
}

impl Reader {
    /// A reader at the body, which begins to read at `now`.
    #[must_use]
    pub fn new(now: Instant) -> Self {
        Self {
            now,
            path: Vec::with_capacity(8),
            faults: Vec::new(),
            places_bytes: 0,
        }
    }

    /// The time of reading, for rules like "not in the future".
    #[must_use]
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Whether nothing was found wrong so far.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.faults.is_empty()
    }

    /// The faults found, in the order of their finding.
    #[must_use]
    pub fn into_faults(self) -> Vec<Fault> {
        self.faults
    }

    /// Notes a fault at the present place. Returns `None`, so that a reading can end with it.
    pub fn fault<T>(&mut self, code: FaultCode) -> Option<T> {
        if self.faults.len() < FAULTS_MAX && self.places_bytes < PLACES_BYTES_MAX {
            let path = self.place();
            self.places_bytes += path.len();
            self.faults.push(Fault { path, code });
        }
        None
    }

    /// Notes a fault at the member `name` of the present place.
    pub fn fault_at<T>(&mut self, name: &'static str, code: FaultCode) -> Option<T> {
        self.inside(name, |at| at.fault(code))
    }

    /// Reads on at the member `name`.
    pub fn inside<T>(&mut self, name: &'static str, read: impl FnOnce(&mut Self) -> T) -> T {
        self.step(Step::Name(name), read)
    }

    /// Reads on at the item numbered `index`.
    pub fn item<T>(&mut self, index: usize, read: impl FnOnce(&mut Self) -> T) -> T {
        self.step(Step::Item(index), read)
    }

    /// Reads on at the member `name` of a map, whose names are the sender's.
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

    /// The string at the present place, at least one character long.
    pub fn text<'v>(&mut self, value: &'v Json<'_>) -> Option<&'v str> {
        match value {
            Json::Text(text) if text.is_empty() => self.fault(FaultCode::TooShort),
            Json::Text(text) => Some(text),
            _ => self.fault(FaultCode::WrongType),
        }
    }

    /// Sorts an object's members into the slots of `names`; faults for what is no object, for
    /// unknown members and for repeated ones.
    pub fn slots<'v, 'a, const N: usize>(
        &mut self,
        value: &'v Json<'a>,
        names: &[&'static str; N],
    ) -> Option<[Option<&'v Json<'a>>; N]> {
        let Json::Object(members) = value else {
            return self.fault(FaultCode::WrongType);
        };
        let mut slots = [None; N];
        // Members mostly come in the order in which they are declared: look there first.
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

/// What can be read from a member of a request.
pub trait Member: Sized {
    /// Reads the value; `None` after at least one fault was noted.
    fn read(value: &Json<'_>, at: &mut Reader) -> Option<Self>;

    /// What an absent member stands for: by default, a fault.
    fn absent(at: &mut Reader) -> Option<Self> {
        at.fault(FaultCode::Required)
    }
}

/// A member's value, or what its absence stands for.
pub fn member<T: Member>(
    value: Option<&Json<'_>>,
    name: &'static str,
    at: &mut Reader,
) -> Option<T> {
    at.inside(name, |at| match value {
        Some(value) => T::read(value, at),
        None => T::absent(at),
    })
}

impl Member for bool {
    fn read(value: &Json<'_>, at: &mut Reader) -> Option<Self> {
        match value {
            Json::Bool(value) => Some(*value),
            _ => at.fault(FaultCode::WrongType),
        }
    }
}

impl Member for i64 {
    fn read(value: &Json<'_>, at: &mut Reader) -> Option<Self> {
        match value {
            Json::Int(value) => Some(*value),
            Json::TooLarge => at.fault(FaultCode::OutOfRange),
            // Nothing tells an integer of many digits from a number with an exponent here; either
            // is outside.
            Json::Fraction(value) if value.abs() >= TWO_TO_63 => at.fault(FaultCode::OutOfRange),
            _ => at.fault(FaultCode::WrongType),
        }
    }
}

/// An integer that is at least `MIN`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AtLeast<const MIN: i64>(pub i64);

impl<const MIN: i64> Member for AtLeast<MIN> {
    fn read(value: &Json<'_>, at: &mut Reader) -> Option<Self> {
        let number = i64::read(value, at)?;
        if number < MIN {
            return at.fault(FaultCode::OutOfRange);
        }
        Some(Self(number))
    }
}

/// An optional member: absent and null mean the same.
impl<T: Member> Member for Option<T> {
    fn read(value: &Json<'_>, at: &mut Reader) -> Option<Self> {
        match value {
            Json::Null => Some(None),
            value => T::read(value, at).map(Some),
        }
    }

    fn absent(_: &mut Reader) -> Option<Self> {
        Some(None)
    }
}

/// A member that must be there and may be null.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Nullable<T>(pub Option<T>);

impl<T: Member> Member for Nullable<T> {
    fn read(value: &Json<'_>, at: &mut Reader) -> Option<Self> {
        Option::read(value, at).map(Self)
    }
}

impl<T: Member> Member for Vec<T> {
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
}

/// An array of at least one item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NonEmpty<T>(pub Vec<T>);

impl<T: Member> Member for NonEmpty<T> {
    fn read(value: &Json<'_>, at: &mut Reader) -> Option<Self> {
        let items = Vec::read(value, at)?;
        if items.is_empty() {
            return at.fault(FaultCode::TooShort);
        }
        Some(Self(items))
    }
}

/// An array of at most so many items: of what is looked up, or kept up, for each of them while others
/// wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AtMost<T, const MOST: usize>(pub Vec<T>);

impl<T: Member, const MOST: usize> Member for AtMost<T, MOST> {
    fn read(value: &Json<'_>, at: &mut Reader) -> Option<Self> {
        if let Json::Array(items) = value
            && items.len() > MOST
        {
            return at.fault(FaultCode::TooLong);
        }
        Vec::read(value, at).map(Self)
    }
}

/// Notes `not_unique` at each item of the member `name` that equals an earlier one.
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

/// A map whose names are the sender's; sorted, so that equal maps have equal forms.
impl<T: Member> Member for BTreeMap<Box<str>, T> {
    fn read(value: &Json<'_>, at: &mut Reader) -> Option<Self> {
        let Json::Object(members) = value else {
            return at.fault(FaultCode::WrongType);
        };
        let mut map = Self::new();
        let mut faulty = BTreeSet::new();
        let mut repeats = false;
        for (name, value) in members {
            let name = name.as_ref();
            at.entry(name, |at| {
                let repeated = map.contains_key(name) || faulty.contains(name);
                match T::read(value, at) {
                    Some(value) if !repeated => {
                        map.insert(name.into(), value);
                    }
                    Some(_) => {}
                    None => {
                        faulty.insert(name);
                    }
                }
                if repeated {
                    repeats = true;
                    at.fault::<()>(FaultCode::DuplicateField);
                }
            });
        }
        (faulty.is_empty() && !repeats).then_some(map)
    }
}

/// An object with members of the sender's choice, kept in canonical form (RFC 8785).
///
/// Its numbers are doubles. One whose canonical form is an integer beyond ±(2^53 − 1) is refused,
/// however it is written: read again, it could stand for its neighbours too. What is left reads and
/// writes the same any number of times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnyObject(Box<str>);

impl AnyObject {
    /// The object's text in canonical form.
    #[must_use]
    pub fn canonical(&self) -> &str {
        &self.0
    }
}

impl Member for AnyObject {
    fn read(value: &Json<'_>, at: &mut Reader) -> Option<Self> {
        if !matches!(value, Json::Object(_)) {
            return at.fault(FaultCode::WrongType);
        }
        let mut text = String::new();
        let canonical = Canonical {
            integers: Integers::Safe,
        };
        canonical
            .write(value, at, &mut text)
            .then(|| Self(text.into()))
    }
}

impl Serialize for AnyObject {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            // The text is JSON of our own writing: it stands as it is, number by number.
            let text: &RawValue =
                serde_json::from_str(&self.0).map_err(serde::ser::Error::custom)?;
            text.serialize(serializer)
        } else {
            serializer.serialize_str(&self.0)
        }
    }
}

impl<'de> Deserialize<'de> for AnyObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| Self(text.into()))
    }
}

/// The canonical form (RFC 8785) of a value of our own making, whose integers have 64 bits and are
/// written with all their digits; `None` when it has a member twice or a number of more.
#[must_use]
pub fn canonical_text(value: &Json<'_>) -> Option<String> {
    let mut text = String::new();
    let canonical = Canonical {
        integers: Integers::Of64Bits,
    };
    let whole = canonical.write(value, &mut Reader::new(Instant::default()), &mut text);
    whole.then_some(text)
}

/// Which integers are taken.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Integers {
    /// Those that a double tells from their neighbours.
    Safe,
    /// All of 64 bits, exactly.
    Of64Bits,
}

/// Writes values as RFC 8785 does: members sorted by their UTF-16 code units, no white space,
/// numbers as ECMAScript writes them.
#[derive(Clone, Copy)]
struct Canonical {
    integers: Integers,
}

impl Canonical {
    /// Writes `value` to `text`. Faults for repeated members and for numbers that are not taken,
    /// for each of them; after one, what was written is of no use, and `false` says so.
    fn write(self, value: &Json<'_>, at: &mut Reader, text: &mut String) -> bool {
        match value {
            Json::Null => text.push_str("null"),
            Json::Bool(value) => text.push_str(if *value { "true" } else { "false" }),
            Json::Text(value) => text.push_str(&json_text(value)),
            Json::Int(number) => {
                let safe = number.unsigned_abs() <= SAFE_INTEGER_MAX;
                if !safe && self.integers == Integers::Safe {
                    at.fault::<()>(FaultCode::OutOfRange);
                    return false;
                }
                text.push_str(&number.to_string());
            }
            Json::Fraction(number) if is_unsafe_integer(*number) => {
                at.fault::<()>(FaultCode::OutOfRange);
                return false;
            }
            Json::Fraction(number) => {
                text.push_str(ryu_js::Buffer::new().format_finite(*number));
            }
            Json::TooLarge => {
                at.fault::<()>(FaultCode::OutOfRange);
                return false;
            }
            Json::Array(items) => return self.write_array(items, at, text),
            Json::Object(members) => return self.write_object(members, at, text),
        }
        true
    }

    fn write_array(self, items: &[Json<'_>], at: &mut Reader, text: &mut String) -> bool {
        let mut whole = true;
        text.push('[');
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                text.push(',');
            }
            whole &= at.item(index, |at| self.write(item, at, text));
        }
        text.push(']');
        whole
    }

    fn write_object(
        self,
        members: &[(Cow<'_, str>, Json<'_>)],
        at: &mut Reader,
        text: &mut String,
    ) -> bool {
        let mut sorted: Vec<_> = members.iter().collect();
        sorted.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
        let mut whole = true;
        let mut before = None;
        text.push('{');
        for (name, value) in sorted {
            if before.is_some() {
                text.push(',');
            }
            text.push_str(&json_text(name));
            text.push(':');
            whole &= at.entry(name, |at| {
                let repeated = before == Some(name);
                if repeated {
                    at.fault::<()>(FaultCode::DuplicateField);
                }
                self.write(value, at, text) && !repeated
            });
            before = Some(name);
        }
        text.push('}');
        whole
    }
}

/// Whether ECMAScript writes the number as digits alone, and there are more of them than a double
/// tells apart.
fn is_unsafe_integer(number: f64) -> bool {
    // Every double of this size is an integer.
    const TWO_TO_53: f64 = 9_007_199_254_740_992.0;
    (TWO_TO_53..EXPONENT_FROM).contains(&number.abs())
}

fn json_text<T: Serialize + ?Sized>(value: &T) -> String {
    serde_json::to_string(value).expect("scalars and strings are always JSON")
}

/// Declares a struct together with how it is read from a request and written into JSON: each
/// member once, with its type and its name in JSON.
///
/// ```text
/// members! {
///     /// The period that a statement covers.
///     pub struct Period {
///         /// Its first day.
///         pub first: Date = "periodStart",
///         /// Its last day.
///         pub last: Date = "periodEnd",
///     }
///     rules in_order(first, last)
/// }
/// ```
///
/// A type says whether its member is required (`T`), may be null (`Nullable<T>`) or may be absent
/// (`Option<T>`). After `rules` stands the function for faults between members: it is called with
/// the reader and an `Option<&_>` of each member named, `None` for a faulty one.
#[macro_export]
macro_rules! members {
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident {
            $( $(#[$field_meta:meta])* $field_vis:vis $field:ident : $type:ty = $json:literal ),+ $(,)?
        }
        $(rules $rules:ident ( $($arg:ident),+ $(,)? ))?
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq, ::serde::Serialize, ::serde::Deserialize)]
        $vis struct $name {
            $( $(#[$field_meta])* #[serde(rename = $json)] $field_vis $field: $type ),+
        }

        impl $crate::base::json::Member for $name {
            fn read(
                value: &$crate::base::json::Json<'_>,
                at: &mut $crate::base::json::Reader,
            ) -> Option<Self> {
                let slots = at.slots(value, &[$($json),+])?;
                let mut slots = slots.into_iter();
                $(
                    let $field: Option<$type> =
                        $crate::base::json::member(slots.next().flatten(), $json, at);
                )+
                $( $rules(at, $($arg.as_ref()),+); )?
                Some(Self { $($field: $field?),+ })
            }
        }
    };
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    members! {
        #[allow(missing_docs)]
        struct Inner {
            count: AtLeast<1> = "count",
            flag: Option<bool> = "flag",
        }
    }

    members! {
        #[allow(missing_docs)]
        struct Outer {
            id: i64 = "id",
            note: Nullable<i64> = "note",
            inner: Inner = "inner",
            list: Vec<Inner> = "list",
            low: i64 = "low",
            high: i64 = "high",
        }
        rules in_order(low, high)
    }

    fn in_order(at: &mut Reader, low: Option<&i64>, high: Option<&i64>) {
        if let (Some(low), Some(high)) = (low, high)
            && low > high
        {
            at.fault_at::<()>("high", FaultCode::OutOfRange);
        }
    }

    fn faults<T: Member>(text: &str) -> Vec<(String, &'static str)> {
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
    fn numbers_are_integers_of_64_bits_or_faults() {
        for (text, code) in [
            ("1.0", "wrong_type"),
            ("1e3", "wrong_type"),
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
            let mut at = Reader::new(Instant::default());
            let read = i64::read(&json, &mut at);
            // RFC 8259 allows a minus before zero; a JSON reader may take it for a fraction.
            assert!(read.is_some() || text == "-0", "{text}");
        }
    }

    #[test]
    fn an_array_in_the_place_of_an_object_is_refused() {
        assert_eq!(faults::<Inner>("[1,true]"), [(String::new(), "wrong_type")]);
    }

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
    fn a_free_object_is_kept_in_canonical_form() {
        let json = Json::parse(
            r#"{"b":[1.50,1e2,-0.0,0.000001,1e-7],"a":{"\u20ac":"\u0041\n","é":null}}"#.as_bytes(),
        )
        .unwrap();
        let mut at = Reader::new(Instant::default());
        let object = AnyObject::read(&json, &mut at).unwrap();
        assert_eq!(
            object.canonical(),
            "{\"a\":{\"é\":null,\"€\":\"A\\n\"},\"b\":[1.5,100,0,0.000001,1e-7]}"
        );
        assert_eq!(
            faults::<AnyObject>(r#"{"a":{"b":1,"c":2,"b":3}}"#),
            [("a.b".to_owned(), "duplicate_field")]
        );
    }

    fn canonical(text: &str) -> Option<String> {
        let json = Json::parse(text.as_bytes()).unwrap();
        let mut at = Reader::new(Instant::default());
        let object = AnyObject::read(&json, &mut at)?;
        Some(object.canonical().to_owned())
    }

    #[test]
    fn all_faults_of_a_free_object_are_told_each_with_its_place() {
        assert_eq!(
            faults::<AnyObject>(
                r#"{"a":[1,9007199254740992,{"x":1e400}],"b":-1e17,"c":{"d":1,"d":1e20},"d":2,"c":3}"#
            ),
            [
                ("a[1]", "out_of_range"),
                ("a[2].x", "out_of_range"),
                ("b", "out_of_range"),
                ("c.d", "duplicate_field"),
                ("c.d", "out_of_range"),
                ("c", "duplicate_field"),
            ]
            .map(|(path, code)| (path.to_owned(), code))
        );
    }

    #[test]
    fn an_integer_that_a_double_does_not_tell_from_its_neighbour_is_out_of_range_however_written() {
        for number in [
            "9007199254740992",
            "-9007199254740992",
            "9007199254740993",
            "9007199254740991.5",
            "9007199254740992.0",
            "9.007199254740992e15",
            "0.9007199254740992E+16",
            "9223372036854775807",
            "9223372036854775808",
            "18446744073709551616",
            "295147905179352830000",
            "1e20",
            "999999999999999900000",
            "1e400",
        ] {
            assert_eq!(
                faults::<AnyObject>(&format!("{{\"n\":{number}}}")),
                [("n".to_owned(), "out_of_range")],
                "{number}"
            );
        }
        for (number, form) in [
            ("9007199254740991", "9007199254740991"),
            ("-9007199254740991.0", "-9007199254740991"),
            ("9007199254740991.4", "9007199254740991"),
            ("1e21", "1e+21"),
            ("1000000000000000000000", "1e+21"),
            ("1.7976931348623157e308", "1.7976931348623157e+308"),
        ] {
            let text = format!("{{\"n\":{number}}}");
            assert_eq!(canonical(&text), Some(format!("{{\"n\":{form}}}")));
        }
    }

    /// RFC 8785 appendix B, and numbers that a reader who does not round right gets wrong.
    #[test]
    fn numbers_are_read_correctly_rounded_and_written_as_ecmascript_does() {
        for (number, form) in [
            ("4.9e-324", "5e-324"),
            ("-5e-324", "-5e-324"),
            ("9.999999999999997e22", "9.999999999999997e+22"),
            ("1e23", "1e+23"),
            ("1.0000000000000001e23", "1.0000000000000001e+23"),
            ("333333333.3333332", "333333333.3333332"),
            ("333333333.33333325", "333333333.33333325"),
            ("0.0000033333333333333333", "0.0000033333333333333333"),
            ("0.000001", "0.000001"),
            ("0.0000001", "1e-7"),
            ("-0.0000033333333333333333", "-0.0000033333333333333333"),
            ("1424953923781206.2", "1424953923781206.2"),
            ("0.1", "0.1"),
            ("-0", "0"),
            ("-0.0e5", "0"),
            // Half way between two doubles, and a little beyond: even, then up.
            (
                "1.00000000000000011102230246251565404236316680908203125",
                "1",
            ),
            (
                "1.00000000000000011102230246251565404236316680908203126",
                "1.0000000000000002",
            ),
            ("2.2250738585072011e-308", "2.225073858507201e-308"),
            ("1.2345678901234567890123", "1.2345678901234567"),
            ("31.245270191439438", "31.245270191439438"),
            ("121.48791951161945", "121.48791951161945"),
        ] {
            let text = format!("{{\"n\":{number}}}");
            assert_eq!(
                canonical(&text),
                Some(format!("{{\"n\":{form}}}")),
                "{number}"
            );
        }
    }

    #[test]
    fn a_number_survives_any_number_of_round_trips() {
        use rand::{Rng as _, SeedableRng as _};
        let seed = std::env::var("SEED").map_or(8785, |seed| seed.parse().unwrap());
        println!("SEED={seed}");
        let mut random = rand::rngs::StdRng::seed_from_u64(seed);
        for _ in 0..20_000 {
            let number = f64::from_bits(random.random());
            if !number.is_finite() || is_unsafe_integer(number) {
                continue;
            }
            // Digits beyond those that a double needs, an exponent, or the shortest form.
            let written = match random.random_range(0..3) {
                0 => format!("{number:.25e}"),
                1 => format!("{number:e}"),
                _ => format!("{number}"),
            };
            let text = canonical(&format!("{{\"n\":{written}}}")).unwrap();
            let digits = text
                .strip_prefix("{\"n\":")
                .unwrap()
                .strip_suffix('}')
                .unwrap();
            assert_eq!(digits.parse::<f64>().unwrap(), number, "{written}");
            let object = AnyObject(text.clone().into());
            let answer = serde_json::to_string(&object).unwrap();
            assert_eq!(answer, text, "an answer repeats what is kept");
            assert_eq!(canonical(&answer), Some(text));
        }
    }

    #[test]
    fn what_was_kept_when_integers_of_64_bits_were_taken_is_still_read() {
        let old = r#"{"a":9223372036854775807,"b":1.5e-7,"c":[-9007199254740993]}"#;
        let bytes = crate::base::codec::encode(&AnyObject(old.into()));
        let object: AnyObject = crate::base::codec::decode(&bytes).unwrap();
        assert_eq!(serde_json::to_string(&object).unwrap(), old);
        let value = serde_json::to_value(&object).unwrap();
        assert_eq!(value["a"], i64::MAX);
    }

    #[test]
    fn a_member_of_a_map_given_twice_is_told_whether_or_not_its_values_are_good() {
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

    #[test]
    fn a_text_of_more_values_than_may_be_is_malformed() {
        // The text itself, its one member, and what is in that.
        let text = |items: usize| format!("{{\"a\":[{}0]}}", "0,".repeat(items - 1));
        let most = text(VALUES_MAX - 2);
        let (_, values) = Json::parse_counted(most.as_bytes()).unwrap();
        assert_eq!(values, VALUES_MAX);
        assert!(Json::parse(text(VALUES_MAX - 1).as_bytes()).is_err());
        // Also where numbers have to be read a second time.
        let capped = most.replacen("0,", "1e999,", 1);
        assert!(Json::parse(capped.as_bytes()).is_ok());
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
                // Out of range as well, wherever a number is due.
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
