//! Writes JSON byte for byte as `serde_json` does, in half as many instructions. Most strings of a
//! response are short and have nothing to escape: they are searched for escapes eight bytes at a
//! time, and the names of a struct's fields not at all.

use std::fmt::{Display, Write as _};

use serde::{Serialize, ser};

use super::plain::{copy_if_plain, is_plain};
use crate::base::output::Output;

/// The error of a value that has no JSON form; `serde_json`'s own.
type Error = serde_json::Error;

/// The name of a struct, and of its one field, by which `serde_json` passes a text that is already
/// JSON through a serializer.
pub(super) const RAW: &str = "$serde_json::private::RawValue";

/// Writes `value` to the end of `text` as JSON.
///
/// # Errors
/// When the value has no JSON form: a map has a key that is neither a string nor a number nor a
/// Boolean, or the value's `Serialize` returns an error.
pub fn write_json<T: Serialize + ?Sized>(value: &T, text: &mut Output) -> Result<(), Error> {
    value.serialize(Writer { text })
}

/// Writes one value.
struct Writer<'t> {
    text: &'t mut Output,
}

/// Writes the fields or items of one value.
struct Inside<'t> {
    text: &'t mut Output,
    /// The byte that is written before the next one: the opening bracket, and then a comma.
    before: u8,
    /// The bytes that end the value.
    end: &'static [u8],
}

impl Inside<'_> {
    /// Begins the next item, or field.
    fn next(&mut self) {
        self.text.byte(self.before);
        self.before = b',';
    }

    fn item<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.next();
        write_json(value, self.text)
    }

    /// Writes a field whose name is in the program: such a name has nothing to escape, and a known
    /// length.
    #[inline(always)]
    fn field<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) -> Result<(), Error> {
        debug_assert!(is_plain(name.as_bytes()), "a field's name is plain: {name}");
        let length = name.len();
        let place = self.text.room(length + 4);
        place[0] = self.before;
        place[1] = b'"';
        place[2..length + 2].copy_from_slice(name.as_bytes());
        place[length + 2] = b'"';
        place[length + 3] = b':';
        self.before = b',';
        write_json(value, self.text)
    }

    fn close(self) -> Result<(), Error> {
        if self.before != b',' {
            self.text.byte(self.before);
        }
        self.text.put(self.end);
        Ok(())
    }
}

fn write_text(value: &str, text: &mut Output) -> Result<(), Error> {
    let begin = text.len();
    let place = text.room(value.len() + 2);
    if let [first, between @ .., last] = place {
        *first = b'"';
        *last = b'"';
        if copy_if_plain(value.as_bytes(), between) {
            return Ok(());
        }
    }
    text.truncate(begin);
    serde_json::to_writer(text, value)
}

/// Writes numbers as `serde_json` does.
macro_rules! numbers {
    ($($function:ident: $type:ty),+ $(,)?) => {
        $(
            fn $function(self, value: $type) -> Result<(), Error> {
                serde_json::to_writer(&mut *self.text, &value)
            }
        )+
    };
}

impl<'t> ser::Serializer for Writer<'t> {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = Inside<'t>;
    type SerializeTuple = Inside<'t>;
    type SerializeTupleStruct = Inside<'t>;
    type SerializeTupleVariant = Inside<'t>;
    type SerializeMap = Inside<'t>;
    type SerializeStruct = Fields<'t>;
    type SerializeStructVariant = Inside<'t>;

    numbers! {
        serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64,
        serialize_i128: i128, serialize_u8: u8, serialize_u16: u16, serialize_u32: u32,
        serialize_u64: u64, serialize_u128: u128, serialize_f32: f32, serialize_f64: f64,
    }

    fn serialize_bool(self, value: bool) -> Result<(), Error> {
        let word: &[u8] = if value { b"true" } else { b"false" };
        self.text.put(word);
        Ok(())
    }

    fn serialize_char(self, value: char) -> Result<(), Error> {
        write_text(value.encode_utf8(&mut [0; 4]), self.text)
    }

    fn serialize_str(self, value: &str) -> Result<(), Error> {
        write_text(value, self.text)
    }

    fn collect_str<T: Display + ?Sized>(self, value: &T) -> Result<(), Error> {
        let mut written = String::new();
        write!(written, "{value}").map_err(ser::Error::custom)?;
        write_text(&written, self.text)
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<(), Error> {
        self.collect_seq(value)
    }

    fn serialize_none(self) -> Result<(), Error> {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Error> {
        self.text.put(b"null");
        Ok(())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), Error> {
        self.serialize_unit()
    }

    fn serialize_unit_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
    ) -> Result<(), Error> {
        write_text(variant, self.text)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        let mut object = self.begin(b'{', b"}");
        object.field(variant, value)?;
        object.close()
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Inside<'t>, Error> {
        Ok(self.begin(b'[', b"]"))
    }

    fn serialize_tuple(self, _: usize) -> Result<Inside<'t>, Error> {
        Ok(self.begin(b'[', b"]"))
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Inside<'t>, Error> {
        Ok(self.begin(b'[', b"]"))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Inside<'t>, Error> {
        Ok(self.begin_variant(variant, b'[', b"]}"))
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Inside<'t>, Error> {
        Ok(self.begin(b'{', b"}"))
    }

    fn serialize_struct(self, name: &'static str, _: usize) -> Result<Fields<'t>, Error> {
        Ok(match name {
            RAW => Fields::Raw(self.text),
            _ => Fields::Each(self.begin(b'{', b"}")),
        })
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Inside<'t>, Error> {
        Ok(self.begin_variant(variant, b'{', b"}}"))
    }
}

impl<'t> Writer<'t> {
    fn begin(self, begin: u8, end: &'static [u8]) -> Inside<'t> {
        Inside {
            text: self.text,
            before: begin,
            end,
        }
    }

    fn begin_variant(self, variant: &str, begin: u8, end: &'static [u8]) -> Inside<'t> {
        debug_assert!(is_plain(variant.as_bytes()), "a variant's name is plain");
        self.text.put(b"{\"");
        self.text.put(variant.as_bytes());
        self.text.put(b"\":");
        self.begin(begin, end)
    }
}

/// Implements the writing of values that consist of items.
macro_rules! items {
    ($($kind:ident :: $function:ident),+ $(,)?) => {
        $(
            impl ser::$kind for Inside<'_> {
                type Ok = ();
                type Error = Error;

                fn $function<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
                    self.item(value)
                }

                fn end(self) -> Result<(), Error> {
                    self.close()
                }
            }
        )+
    };
}

items! {
    SerializeSeq::serialize_element,
    SerializeTuple::serialize_element,
    SerializeTupleStruct::serialize_field,
    SerializeTupleVariant::serialize_field,
}

impl ser::SerializeStructVariant for Inside<'_> {
    type Ok = ();
    type Error = Error;

    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        name: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        self.field(name, value)
    }

    fn end(self) -> Result<(), Error> {
        self.close()
    }
}

impl ser::SerializeMap for Inside<'_> {
    type Ok = ();
    type Error = Error;

    /// Writes the key, in quotation marks whatever its type.
    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Error> {
        self.next();
        let begin = self.text.len();
        write_json(key, self.text)?;
        match self.text.as_slice().get(begin) {
            Some(b'"') => {}
            Some(b'-' | b'0'..=b'9' | b't' | b'f') => {
                let key = self.text.as_slice()[begin..].to_vec();
                self.text.truncate(begin);
                self.text.byte(b'"');
                self.text.put(&key);
                self.text.byte(b'"');
            }
            _ => return Err(ser::Error::custom("key must be a string")),
        }
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.text.byte(b':');
        write_json(value, self.text)
    }

    fn end(self) -> Result<(), Error> {
        self.close()
    }
}

/// The fields of a struct.
enum Fields<'t> {
    Each(Inside<'t>),
    /// A text that is already JSON, which is written as it is.
    Raw(&'t mut Output),
}

impl ser::SerializeStruct for Fields<'_> {
    type Ok = ();
    type Error = Error;

    #[inline(always)]
    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        name: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        match self {
            Self::Each(inside) => inside.field(name, value),
            Self::Raw(text) => serde_json::to_writer(&mut **text, &RawText(value)),
        }
    }

    fn end(self) -> Result<(), Error> {
        match self {
            Self::Each(inside) => inside.close(),
            Self::Raw(_) => Ok(()),
        }
    }
}

/// Passes a text that is already JSON to `serde_json`.
struct RawText<'v, T: ?Sized>(&'v T);

impl<T: Serialize + ?Sized> Serialize for RawText<'_, T> {
    fn serialize<S: ser::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use ser::SerializeStruct as _;
        let mut raw = serializer.serialize_struct(RAW, 1)?;
        raw.serialize_field(RAW, self.0)?;
        raw.end()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::BTreeMap;

    use rand::rngs::StdRng;
    use rand::{Rng as _, SeedableRng as _};
    use serde_json::value::RawValue;
    use serde_json::{Value, json};

    use super::*;

    fn written<T: Serialize + ?Sized>(value: &T) -> String {
        let mut text = Output::default();
        text.put(b"before ");
        write_json(value, &mut text).unwrap();
        let text = String::from_utf8(text.as_slice().to_vec()).unwrap();
        text.strip_prefix("before ").unwrap().to_owned()
    }

    #[track_caller]
    fn same<T: Serialize + ?Sized>(value: &T) {
        assert_eq!(written(value), serde_json::to_string(value).unwrap());
    }

    #[derive(Serialize)]
    struct Unit;

    #[derive(Serialize)]
    struct Newtype(u8);

    #[derive(Serialize)]
    struct Pair(u8, &'static str);

    #[derive(Serialize)]
    enum Variants {
        Unit,
        Newtype(Option<char>),
        Tuple(u8, f64),
        Struct { a: (), b: Vec<u8> },
    }

    #[derive(Serialize)]
    struct Whole<'v> {
        #[serde(rename = "camelCase")]
        named: &'v str,
        #[serde(skip_serializing_if = "Option::is_none")]
        skipped: Option<u8>,
        raw: &'v RawValue,
        #[serde(flatten)]
        flat: BTreeMap<&'static str, Value>,
        each: Vec<Variants>,
    }

    #[test]
    fn every_kind_of_value_is_written_as_serde_json_writes_it() {
        let raw = RawValue::from_string("{ \"as\" : [1e3,\"it \\u0041 is\"] }".to_owned()).unwrap();
        same(&Whole {
            named: "a \"quoted\" \\ word\n",
            skipped: None,
            raw: &raw,
            flat: BTreeMap::from([("x", json!([null, true, -1, 1.5])), ("y", json!({}))]),
            each: vec![
                Variants::Unit,
                Variants::Newtype(Some('"')),
                Variants::Newtype(None),
                Variants::Tuple(7, 0.1),
                Variants::Struct {
                    a: (),
                    b: vec![1, 2],
                },
            ],
        });
        same(&(Unit, Newtype(3), Pair(1, "two"), ((), 'ü', false)));
        same(&(i8::MIN, i16::MIN, i32::MIN, i64::MIN, i128::MIN));
        same(&(u8::MAX, u16::MAX, u32::MAX, u64::MAX, u128::MAX));
        same(&(f32::MIN_POSITIVE, f64::MAX, 1e21, f64::NAN, f64::INFINITY));
        same(&BTreeMap::from([(-1, "integer"), (2, "keys")]));
        same(&BTreeMap::from([(true, 0), (false, 1)]));
        same(&BTreeMap::from([('"', 0)]));
        same(&BTreeMap::from([("a\tb", ())]));
        same(&uuid::Uuid::from_u128(5));
        same(&Vec::<u8>::new());
    }

    #[test]
    fn a_map_with_a_key_that_is_no_word_has_no_json_form() {
        let keyed = BTreeMap::from([(vec![1], 0)]);
        assert!(serde_json::to_string(&keyed).is_err());
        assert!(write_json(&keyed, &mut Output::default()).is_err());
    }

    /// Tests each byte that is escaped, and its neighbours that are not, at each place of strings
    /// with lengths around a chunk's.
    #[test]
    fn whatever_is_to_be_escaped_is_found_wherever_it_stands() {
        let around = "\u{0}\u{1}\u{1f} !\"#[\\]~\u{7f}\u{80}\u{a2}\u{dc}é한😀\u{2028}";
        for length in 0..26 {
            same(&"x".repeat(length));
            for place in 0..length {
                for character in around.chars() {
                    let mut text: String = "x".repeat(place);
                    text.push(character);
                    text.push_str(&"y".repeat(length - place - 1));
                    same(&text);
                }
            }
        }
    }

    #[test]
    fn random_values_are_written_as_serde_json_writes_them() {
        fn value(random: &mut StdRng, depth: usize) -> Value {
            let most = if depth == 0 { 4 } else { 6 };
            match random.random_range(0..most) {
                0 => Value::Null,
                1 => random.random::<bool>().into(),
                2 => random.random::<i64>().into(),
                3 => text(random).into(),
                4 => (0..random.random_range(0..5))
                    .map(|_| value(random, depth - 1))
                    .collect(),
                _ => (0..random.random_range(0..5))
                    .map(|_| (text(random), value(random, depth - 1)))
                    .collect(),
            }
        }
        fn text(random: &mut StdRng) -> String {
            let length = random.random_range(0..20);
            let most = if random.random_bool(0.5) { 0x7f } else { 0x300 };
            (0..length)
                .filter_map(|_| char::from_u32(random.random_range(0..most)))
                .collect()
        }
        let mut random = StdRng::seed_from_u64(20_261_123);
        for _ in 0..3_000 {
            same(&value(&mut random, 4));
        }
    }
}
