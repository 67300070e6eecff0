//! The fields of a token's header and claims, as strict JSON.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::refusal::TokenRefusal;

/// The fields of a JSON object by name; an object with a duplicate name is rejected.
pub(in crate::http) struct Fields<'a>(HashMap<Cow<'a, str>, &'a RawValue>);

impl<'a> Fields<'a> {
    pub(in crate::http) fn read(json: &'a [u8]) -> Option<Self> {
        serde_json::from_slice(json).ok()
    }

    /// Returns the JSON text of a field.
    pub(in crate::http) fn raw(&self, name: &str) -> Option<&'a str> {
        self.0.get(name).map(|value| value.get())
    }

    /// Parses a required field.
    pub(super) fn required<T: Deserialize<'a>>(
        &self,
        name: &'static str,
    ) -> Result<T, TokenRefusal> {
        self.present(name)?.ok_or(TokenRefusal::ClaimMissing(name))
    }

    /// Parses a field if it is present; null is then a value like others.
    pub(super) fn present<T: Deserialize<'a>>(
        &self,
        name: &'static str,
    ) -> Result<Option<T>, TokenRefusal> {
        self.raw(name)
            .map(|json| serde_json::from_str(json).map_err(|_| TokenRefusal::ClaimInvalid(name)))
            .transpose()
    }

    /// Parses a field that may be absent. Null counts as absent, as in bodies: providers write it for an attribute
    /// that a user does not have, and it grants nothing.
    pub(super) fn optional<T: Deserialize<'a>>(
        &self,
        name: &'static str,
    ) -> Result<Option<T>, TokenRefusal> {
        Ok(self.present::<Option<T>>(name)?.flatten())
    }
}

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;

        impl<'de> Visitor<'de> for Object {
            type Value = Fields<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = HashMap::new();
                while let Some(Text(name)) = map.next_key()? {
                    let value: &'de RawValue = map.next_value()?;
                    if members.insert(name, value).is_some() {
                        return Err(serde::de::Error::custom("a field is repeated"));
                    }
                }
                Ok(Fields(members))
            }
        }

        deserializer.deserialize_map(Object)
    }
}

/// A JSON string, borrowed if it has no escapes.
#[derive(Deserialize)]
#[serde(transparent)]
pub(in crate::http) struct Text<'a>(#[serde(borrow)] pub(in crate::http) Cow<'a, str>);
