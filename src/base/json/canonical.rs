//! The canonical form of JSON (RFC 8785), and objects that are kept in it.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::ops::RangeInclusive;

use serde::ser::SerializeStruct as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::fault::FaultCode;
use super::from_json::FromJson;
use super::reader::Reader;
use super::shape::Shape;
use super::value::Json;
use super::writer::{RAW, write_json};
use crate::base::output::{Output, in_scratch};

/// 2^53 − 1: every integer up to this one is exactly a double (RFC 8785 section 3.2.2.3 treats
/// JSON's numbers as doubles).
const SAFE_INTEGER_MAX: u64 = (1 << 53) - 1;
/// 10^21: from here on ECMAScript, and RFC 8785 with it, writes an exponent.
const EXPONENT_FROM: f64 = 1e21;

/// An object of free content, kept in canonical form (RFC 8785).
///
/// Its numbers are doubles. A number whose canonical form is an integer beyond ±(2^53 − 1) is
/// rejected in every spelling: a double cannot distinguish it from its neighbours. All other
/// content stays the same however often it is read and written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnyObject(Box<str>);

impl AnyObject {
    /// The object's text in canonical form.
    #[must_use]
    pub fn canonical(&self) -> &str {
        &self.0
    }
}

impl FromJson for AnyObject {
    fn read(value: &Json<'_>, at: &mut Reader) -> Option<Self> {
        if !matches!(value, Json::Object(_)) {
            return at.fault(FaultCode::WrongType);
        }
        text_of(value, at).map(|text| Self(text.into()))
    }

    fn shape() -> Shape {
        Shape::Any
    }
}

crate::schema_of_shape!(AnyObject);

impl Serialize for AnyObject {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            // The text is JSON that this program has written, so it is passed on as it is, and not parsed again.
            let mut raw = serializer.serialize_struct(RAW, 1)?;
            raw.serialize_field(RAW, &*self.0)?;
            raw.end()
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

/// Returns the text of `value` as RFC 8785 writes it: fields sorted by their UTF-16 code units, no
/// white space, numbers as ECMAScript writes them. `None` after at least one fault was noted.
fn text_of(value: &Json<'_>, at: &mut Reader) -> Option<String> {
    in_scratch(|text| {
        let is_whole = write_value(value, at, text);
        is_whole.then(|| {
            let text = String::from_utf8(text.as_slice().to_vec());
            text.expect("JSON is UTF-8")
        })
    })
}

/// Writes `value` to `text`. Notes a fault for each duplicate field and each number that is not
/// accepted; after one, it returns `false`, and the text must not be used.
fn write_value(value: &Json<'_>, at: &mut Reader, text: &mut Output) -> bool {
    match value {
        Json::Null => text.put(b"null"),
        Json::Bool(value) => write(value, text),
        Json::Text(value) => write(value, text),
        Json::Int(number) if number.unsigned_abs() > SAFE_INTEGER_MAX => {
            at.fault::<()>(FaultCode::OutOfRange);
            return false;
        }
        Json::Int(number) => write(number, text),
        Json::Fraction(number) if is_unsafe_integer(*number) => {
            at.fault::<()>(FaultCode::OutOfRange);
            return false;
        }
        Json::Fraction(number) => {
            text.put(ryu_js::Buffer::new().format_finite(*number).as_bytes());
        }
        Json::TooLarge => {
            at.fault::<()>(FaultCode::OutOfRange);
            return false;
        }
        Json::Array(items) => return write_array(items, at, text),
        Json::Object(members) => return write_object(members, at, text),
    }
    true
}

fn write_array(items: &[Json<'_>], at: &mut Reader, text: &mut Output) -> bool {
    let mut whole = true;
    text.byte(b'[');
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            text.byte(b',');
        }
        whole &= at.item(index, |at| write_value(item, at, text));
    }
    text.byte(b']');
    whole
}

fn write_object(members: &[(Cow<'_, str>, Json<'_>)], at: &mut Reader, text: &mut Output) -> bool {
    let mut sorted: Vec<_> = members.iter().collect();
    sorted.sort_by(|(a, _), (b, _)| in_utf16(a, b));
    let mut whole = true;
    let mut before = None;
    text.byte(b'{');
    for (name, value) in sorted {
        if before.is_some() {
            text.byte(b',');
        }
        write(name, text);
        text.byte(b':');
        whole &= at.entry(name, |at| {
            let repeated = before == Some(name);
            if repeated {
                at.fault::<()>(FaultCode::DuplicateField);
            }
            write_value(value, at, text) && !repeated
        });
        before = Some(name);
    }
    text.byte(b'}');
    whole
}

/// Whether ECMAScript writes the number as digits alone, and doubles do not represent all integers
/// of its size exactly.
fn is_unsafe_integer(number: f64) -> bool {
    // Every double of this size is an integer.
    const TWO_TO_53: f64 = 9_007_199_254_740_992.0;
    (TWO_TO_53..EXPONENT_FROM).contains(&number.abs())
}

/// Writes a string, an integer or a Boolean.
fn write<T: Serialize + ?Sized>(value: &T, text: &mut Output) {
    write_json(value, text).expect("scalars and strings are always JSON");
}

/// Compares two texts by their UTF-16 code units (RFC 8785, 3.2.3).
///
/// This is the order of their bytes, except where a character from U+10000 on meets one from U+E000
/// to U+FFFF: the first one has two code units, which are less than the other's.
fn in_utf16(one: &str, other: &str) -> Ordering {
    /// The first bytes of characters from U+E000 to U+FFFF.
    const LAST_OF_ONE_UNIT: RangeInclusive<u8> = 0xee..=0xef;
    let order = |byte: u8| match LAST_OF_ONE_UNIT.contains(&byte) {
        true => byte | 0x10,
        false => byte,
    };
    one.bytes().map(order).cmp(other.bytes().map(order))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::from_json::tests::faults;
    use super::*;
    use crate::base::time::Timestamp;

    #[test]
    fn a_free_object_is_kept_in_canonical_form() {
        let json = Json::parse(
            r#"{"b":[1.50,1e2,-0.0,0.000001,1e-7],"a":{"\u20ac":"\u0041\n","é":null}}"#.as_bytes(),
        )
        .unwrap();
        let mut at = Reader::new(Timestamp::default());
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
        let mut at = Reader::new(Timestamp::default());
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
    fn integers_beyond_double_precision_are_out_of_range_in_any_notation() {
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

    #[test]
    fn names_are_in_the_order_of_their_utf_16_code_units() {
        let firsts = [0, 0x7f, 0x80, 0x7ff, 0x800, 0xd7ff, 0xe000, 0xefff, 0xf000];
        let seconds = [0xfffd, 0xffff, 0x10000, 0x3ffff, 0x40000, 0x10ffff];
        let letters = firsts.into_iter().chain(seconds);
        let letters: Vec<char> = letters.map(|code| char::from_u32(code).unwrap()).collect();
        let longer = letters.iter().flat_map(|first| {
            let second = letters.iter();
            second.map(move |second| String::from_iter([first, second]))
        });
        let names: Vec<String> = longer
            .chain(letters.iter().map(char::to_string))
            .chain([String::new()])
            .collect();
        for one in &names {
            for other in &names {
                let expected = one.encode_utf16().cmp(other.encode_utf16());
                assert_eq!(in_utf16(one, other), expected, "{one:?} {other:?}");
            }
        }
        assert_eq!(
            canonical("{\"\u{e000}\":1,\"\u{10000}\":2}"),
            Some("{\"\u{10000}\":2,\"\u{e000}\":1}".to_owned())
        );
    }

    /// RFC 8785 appendix B, and numbers that a reader without correct rounding gets wrong.
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
            // Half way between two doubles rounds to the even one, a little more rounds up.
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
            // Writes more digits than a double needs, or an exponent, or the shortest form.
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
    fn stored_objects_with_64_bit_integers_are_still_read() {
        let old = r#"{"a":9223372036854775807,"b":1.5e-7,"c":[-9007199254740993]}"#;
        let bytes = crate::base::codec::encode(&AnyObject(old.into()));
        let object: AnyObject = crate::base::codec::decode(&bytes).unwrap();
        assert_eq!(serde_json::to_string(&object).unwrap(), old);
        let value = serde_json::to_value(&object).unwrap();
        assert_eq!(value["a"], i64::MAX);
    }
}
