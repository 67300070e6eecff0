//! The shapes that values of a request may have, as data: declared where the value is read, shown in
//! docs/operations.md, and tested at each bound by a test over all of them.

/// The values that are accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// True or false.
    Flag,
    /// An integer within these bounds, both inclusive.
    Integer {
        /// The least value.
        least: i64,
        /// The greatest value.
        most: i64,
    },
    /// A string.
    Text {
        /// Minimum number of characters.
        shortest: usize,
        /// Maximum number of characters.
        longest: usize,
        /// Whether it may consist of white space only.
        blank: bool,
        /// The format beyond these bounds, in words; empty if there is none.
        form: &'static str,
        /// The format as a regular expression (ECMA-262), as far as one can express it; empty if there
        /// is no format.
        pattern: &'static str,
        /// The only words that are accepted; empty where any are. Other words are read, and then
        /// refused by a rule of the operation, not as a fault of form.
        known: &'static [&'static str],
    },
    /// One of these names.
    Words(Vec<&'static str>),
    /// A point in time (RFC 3339, with an offset).
    Time,
    /// A day (`2026-01-31`).
    Date,
    /// An array.
    List {
        /// The shape of its items.
        of: Box<Shape>,
        /// Minimum number of items.
        shortest: usize,
        /// Maximum number of items; `None` when only the body's size bounds them.
        longest: Option<usize>,
        /// Whether its items have to be distinct.
        unique: bool,
    },
    /// An object with names of the sender's choice.
    Map {
        /// The shape of the names.
        names: Box<Shape>,
        /// The shape of its values.
        of: Box<Shape>,
    },
    /// Any object.
    Any,
    /// An object with these fields and no others.
    Object(Vec<Field>),
}

impl Shape {
    /// Returns the same list, whose items have to be distinct.
    #[must_use]
    pub fn unique(mut self) -> Self {
        if let Self::List { unique, .. } = &mut self {
            *unique = true;
        }
        self
    }

    /// Returns the same text, or list of texts, for which only these words are accepted.
    #[must_use]
    pub fn known(mut self, words: &'static [&'static str]) -> Self {
        let mut shape = &mut self;
        while let Self::List { of, .. } = shape {
            shape = of;
        }
        if let Self::Text { known, .. } = shape {
            *known = words;
        }
        self
    }
}

/// A field of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// Its meaning, in words.
    pub says: &'static str,
    /// Whether it may be absent, or null.
    pub presence: Presence,
    /// What its value may be.
    pub shape: Shape,
    /// The kind of personal data that it contains, if any.
    pub personal: Option<Personal>,
}

/// The kinds of personal data in fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Personal {
    /// A person's name; also a business's, since many carry their owner's name.
    Name,
    /// A way to reach a person.
    Contact,
    /// The place, or the region, where a person lives or works.
    Address,
    /// A date of birth.
    Birth,
    /// A bank account, or its holder.
    Bank,
    /// A number in a register that identifies a person or a person's business.
    Register,
    /// Free text: people write names, numbers and facts about health into it.
    FreeText,
    /// Fields of the sender's choice: they may contain anything.
    Open,
    /// A word to search for, which may be a name or a number.
    Search,
}

/// Whether a field may be absent, or null.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// The field is required, with a value.
    Required,
    /// The field is required, and may be null.
    Nullable,
    /// The field may be absent or null, which mean the same.
    Optional,
}
