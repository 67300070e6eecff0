//! A part of a state that never changes, shared with the event that brought it: stored as what it is, and
//! cloned without being copied.
//!
//! For `#[serde(with = "crate::base::shared")]`; serde's own way for an `Arc` is a feature that every crate
//! with serde would be built with.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// As the value alone.
///
/// # Errors
/// Those of the value.
pub fn serialize<T: Serialize, S: Serializer>(
    value: &Arc<T>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    T::serialize(value, serializer)
}

/// As the value alone.
///
/// # Errors
/// Those of the value.
pub fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Arc<T>, D::Error> {
    T::deserialize(deserializer).map(Arc::new)
}
