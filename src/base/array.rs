//! Arrays of bytes, encoded as those bytes.
//!
//! serde has no such encoding: it makes a call for each byte of an array, and writes a length in front
//! of a slice. The codec writes an integer in as many bytes as its value needs, but a floating-point
//! number always as its eight bytes, in order, unchanged. So eight bytes at a time are passed to serde
//! as the number that has these bits, and the encoding is that of the array.

use serde::de::{Error, SeqAccess, Visitor};
use serde::ser::SerializeTuple as _;
use serde::{Deserializer, Serializer};

/// Bytes that are passed to serde as one floating-point number.
const WORD: usize = 8;

/// # Errors
/// The serializer's.
///
/// # Panics
/// Does not compile when `N` is no multiple of eight.
pub fn serialize<const N: usize, S: Serializer>(
    bytes: &[u8; N],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    const { assert!(N.is_multiple_of(WORD)) }
    let (words, _) = bytes.as_chunks::<WORD>();
    let mut tuple = serializer.serialize_tuple(words.len())?;
    for word in words {
        tuple.serialize_element(&f64::from_bits(u64::from_le_bytes(*word)))?;
    }
    tuple.end()
}

/// Decodes the bytes of a newtype named `name` that contains nothing but an array.
///
/// # Errors
/// The deserializer's.
///
/// # Panics
/// Does not compile when `N` is no multiple of eight.
pub fn deserialize_newtype<'de, const N: usize, D: Deserializer<'de>>(
    name: &'static str,
    deserializer: D,
) -> Result<[u8; N], D::Error> {
    deserializer.deserialize_newtype_struct(name, Words)
}

/// # Errors
/// The deserializer's.
///
/// # Panics
/// Does not compile when `N` is no multiple of eight.
pub fn deserialize<'de, const N: usize, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<[u8; N], D::Error> {
    const { assert!(N.is_multiple_of(WORD)) }
    deserializer.deserialize_tuple(N / WORD, Words)
}

struct Words<const N: usize>;

impl<'de, const N: usize> Visitor<'de> for Words<N> {
    type Value = [u8; N];

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{N} bytes")
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(
        self,
        deserializer: D,
    ) -> Result<[u8; N], D::Error> {
        deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut read: A) -> Result<[u8; N], A::Error> {
        let mut bytes = [0; N];
        let (words, _) = bytes.as_chunks_mut::<WORD>();
        for (at, word) in words.iter_mut().enumerate() {
            let number = read.next_element::<f64>()?;
            let number = number.ok_or_else(|| A::Error::invalid_length(at * WORD, &self))?;
            *word = number.to_bits().to_le_bytes();
        }
        Ok(bytes)
    }
}
