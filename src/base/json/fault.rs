//! The faults that a field of a request can have.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

/// What is wrong with a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FaultCode {
    /// A required field is absent.
    Required,
    /// The request has no field of this name.
    UnknownField,
    /// A field is there twice.
    DuplicateField,
    /// Another JSON type than the field's, null where a value is required, a number with a fraction
    /// where an integer is required.
    WrongType,
    /// Fewer characters or items than the least allowed.
    TooShort,
    /// More characters or items than the most allowed.
    TooLong,
    /// White space only.
    Blank,
    /// The text does not have the field's format.
    Pattern,
    /// A number, day or sum outside its range, or in the wrong order with another.
    OutOfRange,
    /// A value outside the enumeration, or different from the value that it must equal.
    NotAllowed,
    /// An item, or a key, given more than once.
    NotUnique,
    /// The body is absent, not a JSON text in UTF-8, too deep, or has too many values.
    MalformedJson,
}

impl FaultCode {
    /// All codes.
    pub const ALL: [Self; 12] = [
        Self::Required,
        Self::UnknownField,
        Self::DuplicateField,
        Self::WrongType,
        Self::TooShort,
        Self::TooLong,
        Self::Blank,
        Self::Pattern,
        Self::OutOfRange,
        Self::NotAllowed,
        Self::NotUnique,
        Self::MalformedJson,
    ];

    /// Returns the code in the response.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        self.texts().0
    }

    /// Returns a sentence for people.
    #[must_use]
    pub const fn message(self) -> &'static str {
        self.texts().1
    }

    const fn texts(self) -> (&'static str, &'static str) {
        match self {
            Self::Required => ("required", "This field is required."),
            Self::UnknownField => ("unknown_field", "This field is not known."),
            Self::DuplicateField => ("duplicate_field", "This field is given more than once."),
            Self::WrongType => ("wrong_type", "The value has the wrong JSON type."),
            Self::TooShort => ("too_short", "The value is too short."),
            Self::TooLong => ("too_long", "The value is too long."),
            Self::Blank => ("blank", "The value must not be blank."),
            Self::Pattern => ("pattern", "The value does not have the required form."),
            Self::OutOfRange => ("out_of_range", "The value is out of range."),
            Self::NotAllowed => ("not_allowed", "The value is not allowed here."),
            Self::NotUnique => ("not_unique", "The value is given more than once."),
            Self::MalformedJson => (
                "malformed_json",
                "The body is not a JSON text in UTF-8 of at most 32 levels and 200,000 values.",
            ),
        }
    }
}

/// One fault of a request: its path and its code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The field's path: `scope.collection`, `lineAcknowledgements[2].settlementLineKey`,
    /// `header.Idempotency-Key`; empty for the body itself.
    pub path: String,
    /// What is wrong there.
    pub code: FaultCode,
}

impl Serialize for Fault {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(3))?;
        map.serialize_entry("fieldPath", &self.path)?;
        map.serialize_entry("code", self.code.as_str())?;
        map.serialize_entry("message", self.code.message())?;
        map.end()
    }
}

impl JsonSchema for Fault {
    fn schema_name() -> Cow<'static, str> {
        "FieldError".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let codes = FaultCode::ALL.map(FaultCode::as_str);
        json_schema!({
            "type": "object",
            "description": "One fault of a request.",
            "properties": {
                "fieldPath": {
                    "type": "string",
                    "description": "Where: `scope.collection`, `lineAcknowledgements[2].settlementLineKey`, \
                                    `header.Idempotency-Key`; empty for the body itself."
                },
                "code": {"type": "string", "enum": codes},
                "message": {"type": "string", "description": "A sentence for people."}
            },
            "required": ["fieldPath", "code", "message"]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::json::{NESTING_MAX, VALUES_MAX};

    #[test]
    fn a_malformed_body_is_told_the_bounds_of_one() {
        let says = FaultCode::MalformedJson.message();
        let values = format!("{},{:03} values", VALUES_MAX / 1_000, VALUES_MAX % 1_000);
        for bound in [format!("{NESTING_MAX} levels"), values] {
            assert!(says.contains(&bound), "{says}");
        }
    }
}
