//! Digests: short keys of fixed size, and fingerprints of request content.

use std::cell::Cell;
use std::thread::LocalKey;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::array;
use super::hex::hex;

/// 128 bits of BLAKE3 over a few labelled parts: the key of the in-memory indexes. Finding two
/// different inputs with one digest would take 2^64 tries.
///
/// Formats for people and tools show it as hexadecimal digits; records contain its bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 16]);

/// Maximum length of the bytes (label, parts and their lengths) of most names. A command looks the same names up
/// several times, and many commands have one actor or one branch, so their digests are cached.
const SHORT: usize = 64;
/// Maximum length of the bytes whose digests are cached: that of names of two or three identifiers.
const LONG: usize = 192;

/// The cache of a thread: `COUNT` digests of up to `BYTES` bytes.
type Cache<const BYTES: usize, const COUNT: usize> = [Cell<Recent<BYTES>>; COUNT];

thread_local! {
    static OF_SHORT: Cache<SHORT, 128> = const { [const { Cell::new(Recent::NONE) }; 128] };
    static OF_LONG: Cache<LONG, 32> = const { [const { Cell::new(Recent::NONE) }; 32] };
}

/// A cached digest, with the bytes that it was computed from.
#[derive(Clone, Copy)]
struct Recent<const BYTES: usize> {
    bytes: [u8; BYTES],
    /// Number of bytes in use; 0 in an entry that is empty.
    length: usize,
    digest: Digest,
}

impl<const BYTES: usize> Recent<BYTES> {
    const NONE: Self = Self {
        bytes: [0; BYTES],
        length: 0,
        digest: Digest([0; 16]),
    };
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.serialize_str(&hex(&self.0))
        } else {
            array::serialize(&self.0, serializer)
        }
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        array::deserialize_newtype("Digest", deserializer).map(Self)
    }
}

impl Digest {
    /// Returns the digest of `parts`, each preceded by its length, under a label that distinguishes
    /// kinds of digests.
    #[must_use]
    pub fn of<S: AsRef<str>>(label: u16, parts: &[S]) -> Self {
        // One buffer and one call: hashing in pieces costs more than copying short strings.
        let length: usize = 2 + parts
            .iter()
            .map(|part| 8 + part.as_ref().len())
            .sum::<usize>();
        let fill = |bytes: &mut [u8]| {
            bytes[..2].copy_from_slice(&label.to_le_bytes());
            let mut end = 2;
            for part in parts {
                let part = part.as_ref();
                bytes[end..end + 8].copy_from_slice(&(part.len() as u64).to_le_bytes());
                end += 8;
                bytes[end..end + part.len()].copy_from_slice(part.as_bytes());
                end += part.len();
            }
        };
        let mut short = [0; SHORT];
        if let Some(bytes) = short.get_mut(..length) {
            fill(bytes);
            return Self::cached(&OF_SHORT, short, length);
        }
        let mut long = [0; LONG];
        if let Some(bytes) = long.get_mut(..length) {
            fill(bytes);
            return Self::cached(&OF_LONG, long, length);
        }
        let mut bytes = vec![0; length];
        fill(&mut bytes);
        Self::of_bytes(&bytes)
    }

    fn of_bytes(bytes: &[u8]) -> Self {
        let mut digest = [0; 16];
        digest.copy_from_slice(&blake3::hash(bytes).as_bytes()[..16]);
        Self(digest)
    }

    /// Returns the digest of the first `length` bytes, maybe from the cache; all others are 0.
    fn cached<const BYTES: usize, const COUNT: usize>(
        cache: &'static LocalKey<Cache<BYTES, COUNT>>,
        bytes: [u8; BYTES],
        length: usize,
    ) -> Self {
        let (words, _) = bytes.as_chunks::<8>();
        let mixed = words.iter().fold(0_u64, |mixed, word| {
            (mixed.rotate_left(5) ^ u64::from_le_bytes(*word)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        });
        // The higher bits of `mixed` depend on all bytes.
        let place = (mixed >> 32) as usize % COUNT;
        cache.with(|recent| {
            let known = recent[place].get();
            if known.length == length && known.bytes == bytes {
                return known.digest;
            }
            let digest = Self::of_bytes(&bytes[..length]);
            recent[place].set(Recent {
                bytes,
                length,
                digest,
            });
            digest
        })
    }

    /// Returns the shard that the digest belongs to, of `count` shards (a power of two).
    #[must_use]
    pub fn shard(self, count: usize) -> usize {
        usize::from(u16::from_le_bytes([self.0[0], self.0[1]])) & (count - 1)
    }
}

impl std::fmt::Debug for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

/// A hasher for tables keyed by [`Digest`]: uses the last eight bytes of the digest as the hash.
#[derive(Clone, Copy, Debug, Default)]
pub struct DigestHasher(u64);

impl std::hash::Hasher for DigestHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        let mut half = [0; 8];
        let tail = bytes.len().min(8);
        half[..tail].copy_from_slice(&bytes[bytes.len() - tail..]);
        self.0 = u64::from_le_bytes(half);
    }
}

/// Builds [`DigestHasher`]s.
pub type DigestBuild = std::hash::BuildHasherDefault<DigestHasher>;

/// The digest of an idempotency key in its scope. It is a type of its own, so that no resource is
/// looked up as an idempotency key, and no idempotency key as a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeyDigest(pub Digest);

/// SHA-256 over the canonical form of a command. It is written in the same formats as a [`Digest`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint(pub [u8; 32]);

impl Serialize for Fingerprint {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.serialize_str(&self.to_hex())
        } else {
            array::serialize(&self.0, serializer)
        }
    }
}

impl<'de> Deserialize<'de> for Fingerprint {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        array::deserialize_newtype("Fingerprint", deserializer).map(Self)
    }
}

impl Fingerprint {
    /// The fingerprint of commands that need none: a reference fact has no idempotency key.
    pub const NONE: Self = Self([0; 32]);

    /// SHA-256 of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, bytes);
        let mut fingerprint = [0; 32];
        fingerprint.copy_from_slice(digest.as_ref());
        Self(fingerprint)
    }

    /// 64 lower-case hexadecimal digits.
    #[must_use]
    pub fn to_hex(self) -> String {
        hex(&self.0)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn parts_cannot_run_into_each_other() {
        assert_ne!(Digest::of(1, &["ab", "c"]), Digest::of(1, &["a", "bc"]));
        assert_ne!(Digest::of(1, &["abc"]), Digest::of(2, &["abc"]));
        assert_eq!(
            Digest::of(1, &["x".repeat(900)]),
            Digest::of(1, &["x".repeat(900)])
        );
    }

    #[test]
    fn a_digest_is_the_hash_of_its_bytes_whatever_is_cached() {
        let hashed = |label: u16, parts: &[&str]| {
            let mut bytes = label.to_le_bytes().to_vec();
            for part in parts {
                bytes.extend_from_slice(&(part.len() as u64).to_le_bytes());
                bytes.extend_from_slice(part.as_bytes());
            }
            blake3::hash(&bytes).as_bytes()[..16].to_vec()
        };
        // Inputs whose bytes are all 0, so that only their lengths distinguish them: without the length
        // they would be alike, and share one place in the cache.
        let zeros: Vec<Vec<&str>> = (0..8).map(|count| vec![""; count]).collect();
        let names: Vec<String> = (0..1_000).map(|number| format!("name-{number}")).collect();
        let long = [SHORT, LONG].map(|most| [most - 11, most - 10, most - 9]);
        let long = long.as_flattened().iter().map(|length| "x".repeat(*length));
        let long: Vec<String> = long.collect();
        let named = names.iter().chain(&long).map(|name| vec![name.as_str()]);
        let asked: Vec<_> = zeros.into_iter().chain(named).collect();
        for _ in 0..2 {
            for parts in &asked {
                for label in [0, 1] {
                    let digest = Digest::of(label, parts);
                    assert_eq!(digest.0.to_vec(), hashed(label, parts), "{label} {parts:?}");
                    assert_eq!(Digest::of(label, parts), digest, "{label} {parts:?}");
                }
            }
        }
    }

    #[test]
    fn bytes_are_digits_in_json_and_bytes_in_records() {
        use crate::base::codec::{decode, encode};
        let (digest, fingerprint) = (Digest([0xab; 16]), Fingerprint([0x0c; 32]));
        let json = serde_json::to_string(&(digest, fingerprint)).unwrap();
        assert_eq!(
            json,
            format!("[\"{}\",\"{}\"]", "ab".repeat(16), "0c".repeat(32))
        );
        let bytes = encode(&(digest, fingerprint));
        assert_eq!(bytes, [vec![0xab; 16], vec![0x0c; 32]].concat());
        assert_eq!(
            decode::<(Digest, Fingerprint)>(&bytes).unwrap(),
            (digest, fingerprint)
        );
    }

    #[test]
    fn a_fingerprint_is_sha_256() {
        assert_eq!(
            Fingerprint::of(b"abc").to_hex(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }
}
