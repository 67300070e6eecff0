//! The use of idempotency keys by a record. A snapshot stores it as a note for each record that it keeps, so that a
//! start needs no other part of those records.

use serde::{Deserialize, Serialize};

use super::record::{self, Record, RecordOutcome};
use crate::base::codec::{self, DecodeError};
use crate::base::digest::Digest;

/// Version of the layout of notes. A note of another version is rejected.
pub const SCHEMA: u8 = 1;
// A start reads no record that has a note. So a new layout of records needs a new version of notes, by which an older
// program rejects the newer record.
const _: () = assert!(SCHEMA == 1 && record::SCHEMA == 4);
/// Size in bytes of the note of a record that uses a key and has the key's response.
pub const NOTE_BYTES: usize = 20;

/// The use of idempotency keys by a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyUse {
    /// Digest of the key that the record uses, a [`crate::base::digest::KeyDigest`].
    pub key: Option<Digest>,
    /// Position of the commit whose response the key leads to, where that is another commit.
    pub shares: Option<u64>,
    /// Position of the commit whose response this record replaces for its key.
    pub instead_of: Option<u64>,
}

impl KeyUse {
    /// Returns the use of keys by this record.
    #[must_use]
    pub fn of(record: &Record<'_>) -> Self {
        let (shares, instead_of) = match record.outcome {
            RecordOutcome::SameAs(first) => (Some(first), None),
            RecordOutcome::Instead { of, .. } => (None, Some(of)),
            _ => (None, None),
        };
        Self {
            key: record.key_digest().map(|key| key.0),
            shares,
            instead_of,
        }
    }

    /// Encodes the snapshot's note into `note`, replacing its content.
    pub fn encode_into(self, note: &mut Vec<u8>) {
        codec::encode_into(&(SCHEMA, self), note);
    }

    /// Decodes a note.
    ///
    /// # Errors
    /// When the bytes are no note, or one of an unknown version.
    pub fn decode(note: &[u8]) -> Result<Self, DecodeError> {
        match note.first() {
            Some(&SCHEMA) => codec::decode(note).map(|(_, used): (u8, Self)| used),
            Some(other) => {
                let (found, known) = (u16::from(*other), u16::from(SCHEMA));
                Err(DecodeError::other_version("a note", found, known))
            }
            None => Err(DecodeError::Malformed("an empty note".to_owned())),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::base::hex::hex;

    #[test]
    fn the_layout_of_version_1_never_changes() {
        let used = KeyUse {
            key: Some(Digest([0xab; 16])),
            shares: None,
            instead_of: None,
        };
        let others = [
            (Some(300), None, "01 fb2c01 00"),
            (None, Some(41), "00 01 29"),
            (None, None, "00 00"),
        ];
        let mut note = Vec::new();
        for (shares, instead_of, rest) in others {
            let used = KeyUse {
                shares,
                instead_of,
                ..used
            };
            used.encode_into(&mut note);
            let expected = format!("01 01 {} {rest}", "ab".repeat(16));
            assert_eq!(hex(&note), expected.replace(' ', ""));
            assert_eq!(KeyUse::decode(&note).unwrap(), used);
        }
        assert_eq!(note.len(), NOTE_BYTES);
        let without = KeyUse { key: None, ..used };
        without.encode_into(&mut note);
        assert_eq!(hex(&note), "01000000");
        note[0] = 2;
        let told = KeyUse::decode(&note).unwrap_err().to_string();
        assert!(told.contains("a note of version 2"), "{told}");
        assert!(KeyUse::decode(&[]).is_err());
    }
}
