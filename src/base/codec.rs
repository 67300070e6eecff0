//! The encoding of records and states: bincode. Only this file names it.
//!
//! The bytes are those of bincode 2 with its standard configuration: little-endian, integers of
//! variable length. A settlement statement with one line measured 335 bytes, instead of 520 with
//! fixed-width integers. The package is no longer maintained, so no other file may name it: to
//! change the codec, it is enough to replace this file and the format version of the record.

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::output::{Output, in_scratch};

/// Maximum number of bytes that decoding one value may take, so that a hostile length cannot
/// exhaust memory. A list counts with the memory of its items, which is more than their encoded
/// bytes.
const VALUE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Maximum number of encoded bytes of one state or event. A larger one could be written and not be
/// decoded again.
pub const STATE_BYTES_MAX: usize = VALUE_BYTES_MAX / 8;
/// Maximum number of encoded bytes of one record, which also carries a response; see
/// [`STATE_BYTES_MAX`].
pub const RECORD_BYTES_MAX: usize = VALUE_BYTES_MAX / 4 * 3;

fn config() -> bincode::config::Configuration<
    bincode::config::LittleEndian,
    bincode::config::Varint,
    bincode::config::Limit<VALUE_BYTES_MAX>,
> {
    bincode::config::standard().with_limit::<VALUE_BYTES_MAX>()
}

/// Why bytes are not a value of the type asked for.
#[derive(Debug)]
pub enum DecodeError {
    /// The bytes do not decode.
    Malformed(String),
    /// The bytes decode, and `0` of them are left over.
    Trailing(usize),
    /// The bytes have the form of another version of this program. The sentence says which version,
    /// and what to do.
    OtherVersion(String),
}

impl DecodeError {
    /// Returns the error that `what` has the version `found`, while this program reads only the
    /// version `known`, or none above it.
    #[must_use]
    pub fn other_version(what: impl std::fmt::Display, found: u16, known: u16) -> Self {
        let whose = if found > known {
            "a newer carebook"
        } else {
            "a carebook from before the first release"
        };
        Self::OtherVersion(format!(
            "{what} of version {found}, and this carebook knows version {known}: it was written by \
             {whose}, run that one"
        ))
    }
}

impl std::fmt::Display for DecodeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Malformed(why) => write!(f, "bytes do not decode: {why}"),
            Self::Trailing(count) => write!(f, "{count} bytes are left over after the value"),
            Self::OtherVersion(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for DecodeError {}

/// Encodes `value`, a state or an event.
///
/// # Panics
/// When the encoded value has more than [`STATE_BYTES_MAX`] bytes: the command that builds it fails
/// with 500, before anything is written. Also when the type cannot be encoded at all (a map of
/// unknown length, say), which the tests of each type would have shown.
#[must_use]
pub fn encode<T: Serialize>(value: &T) -> Vec<u8> {
    encoded(value, STATE_BYTES_MAX, <[u8]>::to_vec)
}

/// Encodes `value`, a record.
///
/// # Panics
/// As [`encode`], with [`RECORD_BYTES_MAX`].
#[must_use]
pub fn encode_record<T: Serialize>(value: &T) -> Vec<u8> {
    encoded(value, RECORD_BYTES_MAX, <[u8]>::to_vec)
}

/// The error of a value whose encoding has more bytes than allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLarge {
    /// Number of bytes of the encoding.
    pub bytes: usize,
}

/// Encodes `value`, a record, if it is not too large.
///
/// # Errors
/// [`TooLarge`] when the encoding has more than `most` bytes, or more than [`RECORD_BYTES_MAX`].
///
/// # Panics
/// When the type cannot be encoded at all, as [`encode`].
pub fn encode_record_within<T: Serialize>(value: &T, most: usize) -> Result<Vec<u8>, TooLarge> {
    encoded(value, usize::MAX, |bytes| {
        if bytes.len() > most.min(RECORD_BYTES_MAX) {
            return Err(TooLarge { bytes: bytes.len() });
        }
        Ok(bytes.to_vec())
    })
}

/// Encodes like [`encode`], into `bytes`, whose earlier content is replaced: for a writer of many
/// values.
///
/// # Panics
/// As [`encode`].
pub fn encode_into<T: Serialize>(value: &T, bytes: &mut Vec<u8>) {
    bytes.clear();
    encoded(value, STATE_BYTES_MAX, |encoded| {
        bytes.extend_from_slice(encoded)
    });
}

/// Encodes like [`encode_record`], into `bytes`, whose earlier content is replaced.
///
/// # Panics
/// As [`encode_record`].
pub fn encode_record_into<T: Serialize>(value: &T, bytes: &mut Vec<u8>) {
    bytes.clear();
    encoded(value, RECORD_BYTES_MAX, |encoded| {
        bytes.extend_from_slice(encoded)
    });
}

/// The writer that bincode encodes into. bincode's own writer counts the bytes written and goes
/// through `std::io::Write`, byte by byte.
struct End<'o>(&'o mut Output);

impl bincode::enc::write::Writer for End<'_> {
    #[inline(always)]
    fn write(&mut self, bytes: &[u8]) -> Result<(), bincode::error::EncodeError> {
        self.0.put(bytes);
        Ok(())
    }
}

/// Encodes `value`, which may have up to `max` bytes, and returns what `take` makes of these bytes.
fn encoded<T: Serialize, R>(value: &T, max: usize, take: impl FnOnce(&[u8]) -> R) -> R {
    in_scratch(|output| {
        bincode::serde::encode_into_writer(value, End(output), config())
            .expect("a value that this program builds can be encoded");
        assert!(
            output.len() <= max,
            "a value of {} bytes is too large: the limit is {max}",
            output.len()
        );
        take(output.as_slice())
    })
}

/// Decodes a value from `bytes`, all of which must belong to it.
///
/// # Errors
/// When the bytes are not the encoding of such a value, or when bytes are left over.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, DecodeError> {
    let decoded = bincode::serde::decode_from_slice(bytes, config());
    whole(decoded, bytes)
}

/// Decodes a value from `bytes`, all of which must belong to it; its strings and byte slices are
/// borrowed from them.
///
/// # Errors
/// As [`decode`].
pub fn decode_borrowed<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, DecodeError> {
    let decoded = bincode::serde::borrow_decode_from_slice(bytes, config());
    whole(decoded, bytes)
}

/// Decodes a value with which `bytes` begin, such as a tuple of the first fields of a struct.
///
/// # Errors
/// When the bytes do not begin with the encoding of such a value.
pub fn decode_prefix<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, DecodeError> {
    let decoded = bincode::serde::borrow_decode_from_slice(bytes, config());
    let (value, _) = decoded.map_err(|error| DecodeError::Malformed(error.to_string()))?;
    Ok(value)
}

/// Returns the decoded value, if decoding it took all of `bytes`.
fn whole<T>(
    decoded: Result<(T, usize), bincode::error::DecodeError>,
    bytes: &[u8],
) -> Result<T, DecodeError> {
    let (value, read) = decoded.map_err(|error| DecodeError::Malformed(error.to_string()))?;
    if read == bytes.len() {
        Ok(value)
    } else {
        Err(DecodeError::Trailing(bytes.len() - read))
    }
}

/// Bytes that are encoded in one piece, not one by one. Formats for people and tools show them as
/// hexadecimal digits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Blob<B = Vec<u8>>(pub B);

impl<B: AsRef<[u8]>> Serialize for Blob<B> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.serialize_str(&super::hex::hex(self.0.as_ref()))
        } else {
            serializer.serialize_bytes(self.0.as_ref())
        }
    }
}

impl<'de> Deserialize<'de> for Blob {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bytes;
        impl serde::de::Visitor<'_> for Bytes {
            type Value = Vec<u8>;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("bytes")
            }
            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
                Ok(bytes.to_vec())
            }
            fn visit_byte_buf<E>(self, bytes: Vec<u8>) -> Result<Vec<u8>, E> {
                Ok(bytes)
            }
        }
        deserializer.deserialize_byte_buf(Bytes).map(Self)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Blob<&'a [u8]> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <&'a [u8]>::deserialize(deserializer).map(Self)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_must_belong_to_the_value() {
        let mut bytes = encode(&("a", 7_u32));
        assert_eq!(
            decode::<(String, u32)>(&bytes).unwrap(),
            ("a".to_owned(), 7)
        );
        bytes.push(0);
        assert!(matches!(
            decode::<(String, u32)>(&bytes),
            Err(DecodeError::Trailing(1))
        ));
        assert!(matches!(
            decode::<(String, u32)>(&bytes[..1]),
            Err(DecodeError::Malformed(_))
        ));
    }

    #[test]
    fn a_prefix_is_the_first_fields_of_a_value() {
        let bytes = encode(&("a", 7_u32, vec![1_u64, 2]));
        assert_eq!(decode_prefix::<(&str, u32)>(&bytes).unwrap(), ("a", 7));
        assert_eq!(decode_prefix::<&str>(&bytes).unwrap(), "a");
        assert!(matches!(
            decode_prefix::<(&str, u32)>(&bytes[..2]),
            Err(DecodeError::Malformed(_))
        ));
    }

    #[test]
    fn values_within_the_bound_decode_and_larger_ones_are_never_encoded() {
        let many = vec![String::from("x"); STATE_BYTES_MAX / 2 - 4];
        assert_eq!(decode::<Vec<String>>(&encode(&many)).unwrap(), many);
        let large = Blob(vec![7; RECORD_BYTES_MAX - 16]);
        assert_eq!(decode::<Blob>(&encode_record(&large)).unwrap(), large);
        let too_large = Blob(vec![7; STATE_BYTES_MAX]);
        assert!(std::panic::catch_unwind(|| encode(&too_large)).is_err());
    }

    #[test]
    fn an_array_of_bytes_is_encoded_as_its_bytes_whatever_they_are() {
        #[derive(Debug, PartialEq, Serialize, Deserialize)]
        struct Words(#[serde(with = "crate::base::array")] [u8; 16]);
        // Not-a-number with and without its quiet bit, subnormal, infinite, minus zero.
        for high in [
            0x7ff0, 0x7ff8, 0xfff0, 0xfff7, 0x8000, 0x0000, 0x000f, 0x3ff0_u16,
        ] {
            for low in [0_u64, 1, 0xffff_ffff_ffff, 0x0123_4567_89ab] {
                let word = (u64::from(high) << 48 | low).to_le_bytes();
                let mut bytes = [0; 16];
                bytes[..8].copy_from_slice(&word);
                bytes[8..].copy_from_slice(&word.map(|byte| !byte));
                let words = Words(bytes);
                let encoded = encode(&words);
                assert_eq!(encoded, bytes);
                assert_eq!(encoded, encode(&bytes));
                assert_eq!(decode::<Words>(&bytes).unwrap(), words);
                assert!(decode::<Words>(&bytes[..15]).is_err());
            }
        }
    }

    #[test]
    fn a_hostile_length_is_an_error_and_takes_no_memory() {
        let bytes = [253, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f];
        assert!(decode::<String>(&bytes).is_err());
        assert!(decode::<Vec<u64>>(&bytes).is_err());
    }
}
