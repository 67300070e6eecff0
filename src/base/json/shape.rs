//! What a value of a request may be, as data: declared where the value is read, told in the
//! document of the operations, and tried bound by bound by a test over all of them.

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
    /// A string of at least one character.
    Text {
        /// The most characters that it may have.
        longest: usize,
        /// Whether it may consist of white space.
        blank: bool,
        /// The form that it has beyond that, in words; empty where it has none.
        form: &'static str,
    },
    /// One of these words.
    Words(Vec<&'static str>),
    /// A point in time (RFC 3339, with an offset).
    Time,
    /// A day (`2026-01-31`).
    Date,
    /// An array.
    List {
        /// What its items are.
        of: Box<Shape>,
        /// The fewest items that it may have.
        shortest: usize,
        /// The most, where the body's size is not what bounds them.
        longest: Option<usize>,
    },
    /// An object with names of the sender's choice.
    Map {
        /// What its values are.
        of: Box<Shape>,
    },
    /// Any object.
    Any,
    /// An object with these members and no others.
    Object(Vec<Field>),
}

/// A member of an object.
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
}

/// Whether a member may be absent, or null.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It has to be there, with a value.
    Required,
    /// It has to be there, and may be null.
    Nullable,
    /// Absent and null mean the same.
    Optional,
}
