//! The versions in which a resource is stored, and how bytes of an older one are read.

use serde::de::DeserializeOwned;

use crate::base::codec::{self, DecodeError};

/// Bytes of a state or an event as they are stored, and the version of the form that they have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versioned<'a> {
    /// The version of the resource's stored form when they were written.
    pub version: u16,
    /// The bytes.
    pub bytes: &'a [u8],
}

/// How bytes of an older version of a resource's stored form are read: at once as what they are by
/// now.
pub struct Older<S, E> {
    /// Reads a state.
    pub state: fn(&[u8]) -> Result<S, DecodeError>,
    /// Reads an event.
    pub event: fn(&[u8]) -> Result<E, DecodeError>,
}

impl<S: DeserializeOwned, E: DeserializeOwned> Older<S, E> {
    /// Of a version after which something was added at an end that older bytes cannot have: another
    /// event, another word of an enumeration. What there was before is read as it is now.
    pub const ADDED_TO: Self = Self {
        state: codec::decode,
        event: codec::decode,
    };
}
