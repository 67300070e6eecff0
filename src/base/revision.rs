//! Revisions: the numbers that optimistic concurrency compares.

use serde::{Deserialize, Serialize};

/// The number of commits that a resource has seen. It begins at 1 and advances by exactly one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Revision(i64);

impl Revision {
    /// The revision of a resource that has no commit yet.
    pub const NONE: Self = Self(0);
    /// The revision of a resource's first commit.
    pub const FIRST: Self = Self(1);

    /// The revision numbered `number`, as another system counted it.
    #[must_use]
    pub const fn new(number: i64) -> Self {
        Self(number)
    }

    /// Returns this revision, if the resource has any commit; `None` for [`Revision::NONE`].
    #[must_use]
    pub fn known(self) -> Option<Self> {
        (self >= Self::FIRST).then_some(self)
    }

    /// The revision after this one.
    ///
    /// # Panics
    /// After 2^63 - 1 commits, which no resource reaches: facts come in with revisions of at most
    /// 2^62.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.checked_add(1).expect("fewer than 2^63 commits"))
    }

    /// The number in requests and responses.
    #[must_use]
    pub const fn number(self) -> i64 {
        self.0
    }
}

impl std::fmt::Display for Revision {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl schemars::JsonSchema for Revision {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Revision".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"type": "integer", "format": "int64", "minimum": 0})
    }
}
