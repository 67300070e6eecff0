//! The versions in which a resource is stored, and the reading of bytes of an older one.

use serde::de::DeserializeOwned;

use crate::base::codec::{self, DecodeError};

/// Bytes of a state or an event as they are stored, with the version of their form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versioned<'a> {
    /// The version of the resource's stored form when they were written.
    pub version: u16,
    /// The bytes.
    pub bytes: &'a [u8],
}

/// Reads bytes of an older version of a resource's stored form, directly into the present types.
pub struct Older<S, E> {
    /// Reads a state.
    pub state: fn(&[u8]) -> Result<S, DecodeError>,
    /// Reads an event.
    pub event: fn(&[u8]) -> Result<E, DecodeError>,
}

impl<S: DeserializeOwned, E: DeserializeOwned> Older<S, E> {
    /// For a version after which something was added only at an end: another event, another word of
    /// an enumeration. Older bytes cannot contain the addition, and everything else is read as now.
    pub const ADDED_TO: Self = Self {
        state: codec::decode,
        event: codec::decode,
    };
}
