//! Format of a message of the stream, version 1 or 2. Numbers are little endian.
//!
//! | at | bytes | what |
//! |---|---|---|
//! | 0 | 4 | `CBKJ` |
//! | 4 | 2 | version: 1, or 2 where byte 7 is not zero |
//! | 6 | 1 | kind: 1 batch, 2 fence, 3 barrier |
//! | 7 | 1 | how many messages of its writer before it were not acknowledged yet when it was made, 0 to 3 |
//! | 8 | 16 | the log's id |
//! | 24 | 8 | epoch |
//! | 32 | 8 | position of the first record, or of the next record where it has none |
//! | 40 | 4 | number of records: 0 unless it is a batch |
//! | 44 | 4 | bytes of the content |
//! | 48 | 32 | digest of the message before that is not void; zero in the first one |
//! | 80 | | content of a batch: the records, each preceded by its length (4 bytes) |
//! | 80 | | content of a fence: 16 random bytes of the process, then the name of its node, UTF-8 |
//! | 80 | | content of a barrier: none |
//! | | 32 | digest: BLAKE3 of all before it |
//!
//! Each message by itself shows whether it is intact, and names its predecessor: a missing, altered, doubled or
//! foreign message breaks the chain.

use std::fmt;

use bytes::{BufMut as _, Bytes, BytesMut};

/// Maximum size of a message, including its format: the default limit of a NATS server, less the room for headers, in
/// bytes.
pub const MESSAGE_BYTES_MAX: usize = (1 << 20) - HEADERS_BYTES;
/// Room for the headers of a message, in bytes.
pub const HEADERS_BYTES: usize = 512;
/// Bytes that the format adds to the content.
pub const FORM_BYTES: usize = HEAD_BYTES + DIGEST_BYTES;
/// Bytes that the format adds to each record.
pub const RECORD_FORM_BYTES: usize = 4;
/// Maximum length of a node's name, in bytes.
pub const NODE_BYTES_MAX: usize = 128;

const MAGIC: [u8; 4] = *b"CBKJ";
/// Version of a message created when all earlier ones were acknowledged.
const VERSION: u16 = 1;
/// Version of a message created when earlier ones were not acknowledged yet.
const VERSION_AHEAD: u16 = 2;
/// Maximum number of a writer's messages that are not acknowledged yet.
pub const IN_FLIGHT_MAX: u8 = 4;
/// Highest epoch, position and sequence, so that each can be increased by one everywhere.
pub(super) const NUMBER_MAX: u64 = i64::MAX as u64;
pub(super) const HEAD_BYTES: usize = 80;
pub(super) const DIGEST_BYTES: usize = 32;
const TOKEN_BYTES: usize = 16;

/// BLAKE3 of a message.
pub type MessageDigest = [u8; DIGEST_BYTES];

/// Content of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content<'a> {
    /// Records, which the message commits.
    Batch(Records<'a>),
    /// Beginning of an epoch: from here on this node is the writer.
    Fence(Node<'a>),
    /// Proof that the writer still is the writer.
    Barrier,
}

/// The process that begins an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node<'a> {
    /// Random bytes of the process, so that fences of two nodes with one name differ.
    pub token: [u8; TOKEN_BYTES],
    /// Name of the node, for people.
    pub name: &'a str,
}

/// Records one after the other, each preceded by its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Records<'a> {
    /// Bytes whose format was checked.
    bytes: &'a [u8],
    count: u32,
}

impl<'a> Records<'a> {
    /// Checks that these bytes are `count` records; `None` when they are not.
    #[must_use]
    pub fn of(bytes: &'a [u8], count: u32) -> Option<Self> {
        let mut rest = bytes;
        for _ in 0..count {
            let (length, behind) = rest.split_first_chunk::<RECORD_FORM_BYTES>()?;
            let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
            rest = behind.get(length..)?;
        }
        (count > 0 && rest.is_empty()).then_some(Self { bytes, count })
    }

    /// Number of records, at least one.
    #[must_use]
    pub fn count(self) -> u32 {
        self.count
    }

    /// Iterates over the records in order.
    pub fn iter(self) -> impl Iterator<Item = &'a [u8]> {
        let mut rest = self.bytes;
        std::iter::from_fn(move || {
            let (length, behind) = rest.split_first_chunk::<RECORD_FORM_BYTES>()?;
            let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
            let (record, behind) = behind.split_at_checked(length)?;
            rest = behind;
            Some(record)
        })
    }
}

/// A message whose format and digest were checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// Id of the message's log.
    pub log_id: [u8; 16],
    /// Epoch of the message's writer.
    pub epoch: u64,
    /// Position of the first record, or of the next record where the message has none.
    pub first: u64,
    /// Digest of the previous message that is not void.
    pub before: MessageDigest,
    /// Number of earlier messages of its writer that were not acknowledged when it was created.
    pub ahead: u8,
    /// Content of the message.
    pub content: Content<'a>,
    /// Digest of the message.
    pub digest: MessageDigest,
}

/// Reason why bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// The bytes are of something else.
    Foreign,
    /// The bytes have an unknown version.
    Version(u16),
    /// The length is not the stated one, or a value is invalid.
    Form,
    /// The bytes differ from what was written.
    Digest,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Foreign => f.write_str("it is no message of a journal of carebook"),
            Self::Version(version) => write!(
                f,
                "it has version {version}, this release reads versions {VERSION} and {VERSION_AHEAD}; use a \
                 newer release"
            ),
            Self::Form => f.write_str("its form is broken"),
            Self::Digest => f.write_str("its bytes are not those that were written"),
        }
    }
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], Malformed> {
    let bytes = bytes.get(at..at + N).ok_or(Malformed::Form)?;
    bytes.try_into().map_err(|_| Malformed::Form)
}

impl<'a> Message<'a> {
    /// Reads a message, without copying or allocating.
    ///
    /// # Errors
    /// The reason why the bytes are no message.
    pub fn read(bytes: &'a [u8]) -> Result<Self, Malformed> {
        if bytes.get(..4) != Some(&MAGIC) {
            return Err(Malformed::Foreign);
        }
        let version = u16::from_le_bytes(array(bytes, 4)?);
        if version != VERSION && version != VERSION_AHEAD {
            return Err(Malformed::Version(version));
        }
        let content_bytes = u32::from_le_bytes(array(bytes, 44)?);
        let content_bytes = usize::try_from(content_bytes).map_err(|_| Malformed::Form)?;
        let length = content_bytes.checked_add(FORM_BYTES);
        if length != Some(bytes.len()) || bytes.len() > MESSAGE_BYTES_MAX {
            return Err(Malformed::Form);
        }
        let (said, digest) = bytes.split_at(bytes.len() - DIGEST_BYTES);
        let digest: MessageDigest = array(digest, 0)?;
        if *blake3::hash(said).as_bytes() != digest {
            return Err(Malformed::Digest);
        }
        let count = u32::from_le_bytes(array(bytes, 40)?);
        let content = &said[HEAD_BYTES..];
        let content = match (bytes[6], count) {
            (1, count) => Content::Batch(Records::of(content, count).ok_or(Malformed::Form)?),
            (2, 0) if content.len() <= TOKEN_BYTES + NODE_BYTES_MAX => Content::Fence(Node {
                token: array(content, 0)?,
                name: std::str::from_utf8(&content[TOKEN_BYTES..]).map_err(|_| Malformed::Form)?,
            }),
            (3, 0) if content.is_empty() => Content::Barrier,
            _ => return Err(Malformed::Form),
        };
        let ahead = bytes[7];
        if ahead >= IN_FLIGHT_MAX || (ahead > 0) != (version == VERSION_AHEAD) {
            return Err(Malformed::Form);
        }
        let epoch = u64::from_le_bytes(array(bytes, 24)?);
        let first = u64::from_le_bytes(array(bytes, 32)?);
        if epoch > NUMBER_MAX || first > NUMBER_MAX {
            return Err(Malformed::Form);
        }
        Ok(Self {
            log_id: array(bytes, 8)?,
            epoch,
            first,
            before: array(bytes, 48)?,
            ahead,
            content,
            digest,
        })
    }

    /// Returns the position after this message.
    #[must_use]
    pub fn next(&self) -> u64 {
        match self.content {
            Content::Batch(records) => self.first.saturating_add(records.count.into()),
            Content::Fence(_) | Content::Barrier => self.first,
        }
    }
}

/// The place of a new message, and its link to the previous one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageHead {
    /// Id of the log.
    pub log_id: [u8; 16],
    /// Epoch of the writer.
    pub epoch: u64,
    /// Position of the next record.
    pub first: u64,
    /// Digest of the previous message that is not void.
    pub before: MessageDigest,
    /// Number of earlier messages of the writer that are not acknowledged yet.
    pub ahead: u8,
}

impl MessageHead {
    /// Returns the decoded message at this place with this content and digest.
    #[must_use]
    pub fn made<'a>(&self, content: Content<'a>, digest: MessageDigest) -> Message<'a> {
        Message {
            log_id: self.log_id,
            epoch: self.epoch,
            first: self.first,
            before: self.before,
            ahead: self.ahead,
            content,
            digest,
        }
    }

    /// Encodes a message at this place; returns its bytes and their digest.
    ///
    /// # Panics
    /// When the content exceeds the maximum of a message; callers refuse such content before.
    #[must_use]
    pub fn message(&self, content: Content<'_>) -> (Bytes, MessageDigest) {
        let (kind, count, token, content) = match content {
            Content::Batch(records) => (1, records.count, &[][..], records.bytes),
            Content::Fence(Node { token, name }) => (2, 0, &{ token }[..], name.as_bytes()),
            Content::Barrier => (3, 0, &[][..], &[][..]),
        };
        let length = token.len() + content.len();
        let mut bytes = BytesMut::with_capacity(FORM_BYTES + length);
        let length = u32::try_from(length).expect("a message is at most 1 MiB");
        bytes.put_slice(&MAGIC);
        bytes.put_u16_le(match self.ahead {
            0 => VERSION,
            _ => VERSION_AHEAD,
        });
        bytes.put_u8(kind);
        bytes.put_u8(self.ahead);
        bytes.put_slice(&self.log_id);
        bytes.put_u64_le(self.epoch);
        bytes.put_u64_le(self.first);
        bytes.put_u32_le(count);
        bytes.put_u32_le(length);
        bytes.put_slice(&self.before);
        bytes.put_slice(token);
        bytes.put_slice(content);
        let digest = *blake3::hash(&bytes).as_bytes();
        bytes.put_slice(&digest);
        (bytes.freeze(), digest)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng as _, SeedableRng as _};

    use super::*;

    fn some_place(random: &mut StdRng) -> MessageHead {
        MessageHead {
            log_id: random.random(),
            epoch: random.random_range(0..=NUMBER_MAX),
            first: random.random_range(0..=NUMBER_MAX),
            before: random.random(),
            ahead: random.random_range(0..IN_FLIGHT_MAX),
        }
    }

    fn some_records(random: &mut StdRng) -> (Vec<u8>, Vec<Vec<u8>>) {
        let records: Vec<Vec<u8>> = (0..random.random_range(1..9))
            .map(|_| vec![random.random(); random.random_range(0..300)])
            .collect();
        let mut bytes = Vec::new();
        for record in &records {
            bytes.extend(u32::try_from(record.len()).unwrap().to_le_bytes());
            bytes.extend(record);
        }
        (bytes, records)
    }

    #[test]
    fn any_message_written_is_read_back_unchanged() {
        let random = &mut StdRng::seed_from_u64(16);
        for _ in 0..300 {
            let place = some_place(random);
            let (bytes, records) = some_records(random);
            let count = u32::try_from(records.len()).unwrap();
            let batch = Records::of(&bytes, count).unwrap();
            assert!(batch.iter().eq(records.iter().map(Vec::as_slice)));
            for content in [
                Content::Batch(batch),
                Content::Fence(Node {
                    token: random.random(),
                    name: "the second node",
                }),
                Content::Barrier,
            ] {
                let (bytes, digest) = place.message(content);
                let read = Message::read(&bytes).unwrap();
                assert_eq!(read, place.made(content, digest));
                assert_eq!(read.content, content);
                assert_eq!((read.log_id, read.epoch), (place.log_id, place.epoch));
                assert_eq!((read.before, read.digest), (place.before, digest));
                assert_eq!(read.ahead, place.ahead);
                let has = matches!(content, Content::Batch(_));
                assert_eq!(
                    read.next(),
                    place.first + if has { count.into() } else { 0 }
                );
            }
        }
    }

    #[test]
    fn a_message_that_was_altered_cut_or_continued_anywhere_is_refused() {
        let random = &mut StdRng::seed_from_u64(17);
        let place = some_place(random);
        let (bytes, records) = some_records(random);
        let batch = Records::of(&bytes, u32::try_from(records.len()).unwrap()).unwrap();
        let (whole, _) = place.message(Content::Batch(batch));
        for at in 0..whole.len() {
            let mut altered = whole.to_vec();
            altered[at] ^= 1 << random.random_range(0..8);
            assert!(Message::read(&altered).is_err(), "byte {at}");
            assert!(Message::read(&whole[..at]).is_err(), "cut at {at}");
        }
        let longer = [&whole[..], &[0]].concat();
        assert_eq!(Message::read(&longer), Err(Malformed::Form));
    }

    #[test]
    fn false_lengths_are_refused_even_with_a_correct_digest() {
        let random = &mut StdRng::seed_from_u64(18);
        let place = some_place(random);
        let (bytes, records) = some_records(random);
        let count = u32::try_from(records.len()).unwrap();
        let batch = Records::of(&bytes, count).unwrap();
        let (whole, _) = place.message(Content::Batch(batch));
        let forged = |at: usize, number: u32| {
            let mut forged = whole[..whole.len() - DIGEST_BYTES].to_vec();
            forged[at..at + 4].copy_from_slice(&number.to_le_bytes());
            let digest = *blake3::hash(&forged).as_bytes();
            forged.extend(digest);
            Message::read(&forged).map(|_| ())
        };
        let length = u32::try_from(records[0].len()).unwrap();
        for number in [0, count - 1, count + 1, u32::MAX] {
            assert_eq!(forged(40, number), Err(Malformed::Form), "count {number}");
        }
        for number in [0, 1 << 20, u32::MAX - 1, u32::MAX] {
            assert_eq!(forged(44, number), Err(Malformed::Form), "bytes {number}");
        }
        for number in [length + 1, u32::MAX] {
            assert_eq!(forged(HEAD_BYTES, number), Err(Malformed::Form), "{number}");
        }
        // The upper halves of the epoch and of the first position.
        for at in [28, 36] {
            assert_eq!(forged(at, u32::MAX), Err(Malformed::Form), "at {at}");
            assert_eq!(forged(at, u32::MAX >> 1), Ok(()), "at {at}");
        }
        assert_eq!(Message::read(b""), Err(Malformed::Foreign));
        let mut newer = whole.to_vec();
        newer[4] = 3;
        assert_eq!(Message::read(&newer), Err(Malformed::Version(3)));
        for (version, ahead) in [(1, 1), (1, 3), (2, 0), (2, 4), (2, 255)] {
            let mut forged = whole[..whole.len() - DIGEST_BYTES].to_vec();
            (forged[4], forged[7]) = (version, ahead);
            let digest = *blake3::hash(&forged).as_bytes();
            forged.extend(digest);
            let read = Message::read(&forged);
            assert_eq!(read, Err(Malformed::Form), "version {version}, {ahead}");
        }
    }
}
