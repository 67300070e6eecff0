//! The shapes that values of a request may have, as data: declared where the value is read, shown
//! in docs/operations.md, and tried bound by bound by a test over all of them.

/// What a value may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// True or false.
    Flag,
    /// An integer within these bounds, both inclusive.
    Integer {
        /// The least.
        least: i64,
        /// The greatest.
        most: i64,
    },
    /// A string.
    Text {
        /// The fewest characters that it may have.
        shortest: usize,
        /// The most characters that it may have.
        longest: usize,
        /// Whether it may consist of white space.
        blank: bool,
        /// The format that it has beyond that, in words; empty if it has none.
        form: &'static str,
        /// The same as a regular expression (ECMA-262), as far as one can say it; empty if it has
        /// no format.
        pattern: &'static str,
        /// The only words that are accepted; empty where any are. Others are read, and then refused by a
        /// rule of the operation, not as a fault of form.
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
        /// The fewest items that it may have.
        shortest: usize,
        /// The most, unless only the body's size bounds them.
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
    /// The same list, whose items have to be distinct.
    #[must_use]
    pub fn unique(mut self) -> Self {
        if let Self::List { unique, .. } = &mut self {
            *unique = true;
        }
        self
    }

    /// The same text, or list of texts, of which there are these words alone.
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
    /// What it is, in words.
    pub says: &'static str,
    /// Whether it may be absent, or null.
    pub presence: Presence,
    /// What its value may be.
    pub shape: Shape,
    /// What it says of a person, where it says anything.
    pub personal: Option<Personal>,
}

/// What a field says of a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Personal {
    /// A person's name. Businesses too: many carry their owner's name.
    Name,
    /// How a person is reached.
    Contact,
    /// Where a person lives or works, or the region of it.
    Address,
    /// When a person was born.
    Birth,
    /// Whose bank account, and which.
    Bank,
    /// A number in a register that leads to a person or to a business of one.
    Register,
    /// Free text: people write names, numbers and health into it.
    FreeText,
    /// Fields of the sender's choice: they may contain anything.
    Open,
    /// A word to search for, which may be a name or a number.
    Search,
}

/// Whether a field may be absent, or null.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It is required, with a value.
    Required,
    /// It is required, and may be null.
    Nullable,
    /// Absent and null mean the same.
    Optional,
}
