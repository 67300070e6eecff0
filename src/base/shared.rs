//! Serializes a part of a state that never changes and is shared with the event that brought it: it is
//! stored like the value itself, and cloned without being copied.
//!
//! Use it as `#[serde(with = "crate::base::shared")]`. serde's own support for `Arc` is a feature that
//! every crate with serde would be built with.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Serializes the value alone.
///
/// # Errors
/// Those of the value.
pub fn serialize<T: Serialize, S: Serializer>(
    value: &Arc<T>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    T::serialize(value, serializer)
}

/// Deserializes the value alone.
///
/// # Errors
/// Those of the value.
pub fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Arc<T>, D::Error> {
    T::deserialize(deserializer).map(Arc::new)
}

/// Does the same for a part that a state need not have: `#[serde(with = "crate::base::shared::optional")]`.
pub mod optional {
    use std::sync::Arc;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// Serializes the value alone, if there is one.
    ///
    /// # Errors
    /// Those of the value.
    #[allow(clippy::ref_option, reason = "it is passed the field as it is")]
    pub fn serialize<T: Serialize, S: Serializer>(
        value: &Option<Arc<T>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        value.as_deref().serialize(serializer)
    }

    /// Deserializes the value alone, if there is one.
    ///
    /// # Errors
    /// Those of the value.
    pub fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Arc<T>>, D::Error> {
        Option::<T>::deserialize(deserializer).map(|value| value.map(Arc::new))
    }
}
