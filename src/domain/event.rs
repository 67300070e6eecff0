//! Public events: how other systems see a commit, one event for each resource that it changed. Each
//! is declared beside the resource's own event, with [`public_events!`], and carries identifiers,
//! states, dates and amounts, never personal data: a receiver that needs personal data reads the
//! resource, with a right to it.
//!
//! [`public_events!`]: crate::public_events

use std::fmt::Write as _;

use serde::Serialize;
use uuid::Uuid;

use super::resource::Resource;
use crate::base::json::{FromJson, Presence, Shape};
use crate::base::revision::Revision;

/// The type of the event of a fact that came in from the system that owns it.
pub const FACT_APPLIED: EventType = EventType {
    name: Name {
        kind: "reference-fact",
        what: "applied",
    },
    description: "A fact came in from the system that owns it.",
    fields: || vec![EventField::of::<Box<str>>("kind")],
};

/// The name of an event's type: `carebook.{kind}.{what}`, in lower case with dashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name {
    /// The kind of resource.
    pub kind: &'static str,
    /// What happened to the resource.
    pub what: &'static str,
}

impl Name {
    /// Returns the name of the type as it is sent.
    #[must_use]
    pub fn event_type(self) -> String {
        // Names of the kinds of facts contain underscores.
        format!("carebook.{}.{}", self.kind.replace('_', "-"), self.what)
    }
}

/// A type of event, as its receivers know it.
#[derive(Clone, Copy, Debug)]
pub struct EventType {
    /// Its name.
    pub name: Name,
    /// Its meaning, in a sentence.
    pub description: &'static str,
    /// The fields of its data, apart from operation, revision and actor.
    pub fields: fn() -> Vec<EventField>,
}

impl EventType {
    /// Makes the type of a fact of this kind that an operation has made or changed.
    #[must_use]
    pub const fn fact_put(kind: &'static str) -> Self {
        Self {
            name: Name { kind, what: "put" },
            description: "An operation has made the fact, or changed it.",
            fields: Vec::new,
        }
    }
}

/// A field of an event's data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventField {
    /// Its name.
    pub name: &'static str,
    /// Whether it may be null.
    pub is_nullable: bool,
    /// The shape of its value.
    pub shape: Shape,
}

impl EventField {
    /// Makes a field with values of the type `T`.
    #[must_use]
    pub fn of<T: EventValue>(name: &'static str) -> Self {
        Self {
            name,
            is_nullable: T::is_nullable(),
            shape: T::event_shape(),
        }
    }
}

/// A type whose values may be in an event's data.
pub trait EventValue: Serialize {
    /// Returns the shape of such values.
    fn event_shape() -> Shape;
    /// Returns whether null is one of the values.
    fn is_nullable() -> bool {
        false
    }
}

impl<T: FromJson + Serialize> EventValue for T {
    fn event_shape() -> Shape {
        T::shape()
    }

    fn is_nullable() -> bool {
        T::presence() != Presence::Required
    }
}

impl EventValue for Uuid {
    fn event_shape() -> Shape {
        Shape::Text {
            shortest: 1,
            longest: 36,
            blank: false,
            form: "a UUID",
            pattern: "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$",
            known: &[],
        }
    }
}

impl EventValue for Option<Uuid> {
    fn event_shape() -> Shape {
        Uuid::event_shape()
    }

    fn is_nullable() -> bool {
        true
    }
}

impl EventValue for Vec<Uuid> {
    fn event_shape() -> Shape {
        Shape::List {
            of: Box::new(Uuid::event_shape()),
            shortest: 0,
            longest: None,
            unique: false,
        }
    }
}

impl EventValue for Revision {
    fn event_shape() -> Shape {
        Shape::Integer {
            least: 0,
            most: i64::MAX,
        }
    }
}

/// An identifier as tokens contain it.
impl EventValue for Box<str> {
    fn event_shape() -> Shape {
        Shape::Text {
            shortest: 1,
            longest: 512,
            blank: false,
            form: "",
            pattern: "",
            known: &[],
        }
    }
}

/// The context of a resource's event, as its record has it.
#[derive(Clone, Copy, Debug)]
pub struct Changed<'a> {
    /// Whether a fact came in; otherwise an operation made the change.
    pub is_fact: bool,
    /// Whether the change has advanced the resource's own revision.
    pub advances: bool,
    /// The values of the parameters of the path at which the resource is read.
    pub path: &'a [&'a str],
    /// The resource's revision after the change.
    pub revision: Revision,
}

/// A public event of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicEvent {
    /// The type.
    pub name: Name,
    /// The path at which the changed resource is read, without its first slash, percent-encoded.
    pub subject: String,
    /// The revision after the change; `None` where the resource has none of its own.
    pub revision: Option<Revision>,
    /// Further fields of the data, as JSON members, each with a comma before it.
    pub fields: String,
}

impl PublicEvent {
    /// Makes an event without fields of its own.
    #[must_use]
    pub fn new(name: Name, subject: String, revision: Option<Revision>) -> Self {
        Self {
            name,
            subject,
            revision,
            fields: String::new(),
        }
    }

    /// Makes the event of a fact that came in, or that an operation has made or changed.
    #[must_use]
    pub fn fact(kind: &'static str, id: &str, revision: Revision, changed: &Changed<'_>) -> Self {
        let subject = subject("reference-facts/{}/{}", &[kind, id]);
        if changed.is_fact {
            return Self::new(FACT_APPLIED.name, subject, Some(revision)).with("kind", kind);
        }
        Self::new(EventType::fact_put(kind).name, subject, Some(revision))
    }

    /// Adds a field.
    ///
    /// # Panics
    /// When the value has no JSON form, which a test over all events would show.
    #[must_use]
    pub fn with<T: Serialize + ?Sized>(mut self, name: &str, value: &T) -> Self {
        let value = serde_json::to_string(value).expect("an event's value has a JSON form");
        let _ = write!(self.fields, ",\"{name}\":{value}");
        self
    }
}

/// Fills a path, which has `{}` for each parameter, with these values, percent-encoded.
#[must_use]
pub fn subject(path: &str, values: &[&str]) -> String {
    /// The characters to encode: all but those that RFC 3986 (2.3) calls unreserved.
    const ENCODED: &percent_encoding::AsciiSet = &percent_encoding::NON_ALPHANUMERIC
        .remove(b'-')
        .remove(b'.')
        .remove(b'_')
        .remove(b'~');
    let is_unreserved =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
    // The exact length, if no value has a character to encode.
    let length = path.len() + values.iter().map(|value| value.len()).sum::<usize>();
    let mut subject = String::with_capacity(length.saturating_sub(2 * values.len()));
    let mut values = values.iter();
    let mut pieces = path.split("{}");
    subject.push_str(pieces.next().unwrap_or_default());
    for piece in pieces {
        let value = values.next().copied().unwrap_or_default();
        // Counting all bytes takes less time than looking for the first one to encode.
        let unreserved = value.bytes().filter(|byte| is_unreserved(*byte)).count();
        if unreserved == value.len() {
            subject.push_str(value);
        } else {
            subject.extend(percent_encoding::utf8_percent_encode(value, ENCODED));
        }
        subject.push_str(piece);
    }
    subject
}

/// The public events of a resource.
pub trait PublicEvents: Resource {
    /// The path at which it is read, without its first slash, with `{}` for each parameter;
    /// `{kind}/{}` where nothing reads it.
    const READ_AT: &'static str;

    /// The types of its events.
    const TYPES: &'static [EventType];

    /// Returns the public events of a change: none, where the resource is a part of another one
    /// that has them.
    fn public_events(event: &Self::Event, changed: &Changed<'_>) -> Vec<PublicEvent>;
}

/// Declares the public events of a resource's events.
///
/// ```text
/// public_events! {
///     Statement by StatementEvent, read at "settlement-statements/{}", revision own;
///
///     /// A branch is asked for its deposit.
///     DepositRequested(opening) => "deposit-requested" {
///         "statementCode": Ident = opening.statement_code,
///     },
///     /// The fact came in, and with it the profile is another one.
///     FactCameIn(came) => fact(&came.id, came.revision) and "revised" {},
///     Indexed(_) => nothing,
/// }
/// ```
///
/// `revision none` is written where the resource has no revision that its readers know. While a
/// resource's revision is [`Revision::NONE`](crate::base::revision::Revision::NONE), its events
/// have none either. An event of a fact that came in has the fact's own path. Where the fact also
/// changes what readers see of the resource itself, `and` is followed by a type with its fields:
/// that event is sent when the resource's own revision advances. `again` in place of `fact` is a fact
/// that came in, too, where another line has `fact`: both have one type. After a type,
/// `(at "path/{}", revision own)` names another path than the resource's. The value of a field has
/// the type given.
#[macro_export]
macro_rules! public_events {
    (
        $resource:ident by $event:ident, read at $read_at:literal, revision $revision:ident;
        $( $(#[doc = $says:literal])* $variant:ident $it:tt => $told:tt $( ( $($how:tt)* ) )?
            $(and $also:tt)? $( { $($fields:tt)* } )? ),+ $(,)?
    ) => {
        impl $crate::domain::event::PublicEvents for $resource {
            const READ_AT: &'static str = $read_at;

            const TYPES: &'static [$crate::domain::event::EventType] =
                $crate::public_events!(@types $resource [] $(
                    [$told $(and $also)? { concat!($($says),*) } { $($($fields)*)? }]
                )+);

            fn public_events(
                event: &$event,
                changed: &$crate::domain::event::Changed<'_>,
            ) -> Vec<$crate::domain::event::PublicEvent> {
                let mut told = Vec::new();
                match event {
                    $( $event::$variant $it => {
                        $crate::public_events!(
                            @tell told $resource changed $revision $told ( $( $($how)* )? )
                            $(and $also)? { $($($fields)*)? }
                        );
                    } )+
                }
                told
            }
        }
    };
    (@types $resource:ident [$($done:tt)*]) => { &[$($done)*] };
    (@types $resource:ident [$($done:tt)*] [nothing $($rest:tt)*] $($more:tt)*) => {
        $crate::public_events!(@types $resource [$($done)*] $($more)*)
    };
    (@types $resource:ident [$($done:tt)*] [fact { $says:expr } { }] $($more:tt)*) => {
        $crate::public_events!(@types $resource
            [$($done)* $crate::domain::event::EventType::fact_put(
                <$resource as $crate::domain::resource::Resource>::KIND.name,
            ),]
            $($more)*)
    };
    (@types $resource:ident [$($done:tt)*] [fact and $($rest:tt)*] $($more:tt)*) => {
        $crate::public_events!(@types $resource [$($done)*] [fact { "" } { }] [$($rest)*] $($more)*)
    };
    (@types $resource:ident [$($done:tt)*] [again and $($rest:tt)*] $($more:tt)*) => {
        $crate::public_events!(@types $resource [$($done)*] [$($rest)*] $($more)*)
    };
    (@types $resource:ident [$($done:tt)*]
        [$what:literal { $says:expr }
            { $($name:literal : $type:ty = $value:expr),* $(,)? }]
        $($more:tt)*
    ) => {
        $crate::public_events!(@types $resource
            [$($done)* $crate::domain::event::EventType {
                name: $crate::public_events!(@name $resource $what),
                description: $says,
                fields: || vec![ $( $crate::domain::event::EventField::of::<$type>($name) ),* ],
            },]
            $($more)*)
    };
    (@name $resource:ident $what:literal) => {
        $crate::domain::event::Name {
            kind: <$resource as $crate::domain::resource::Resource>::KIND.name,
            what: $what,
        }
    };
    (@revision own $changed:ident) => { $changed.revision.known() };
    (@revision none $changed:ident) => { None };
    (@tell $to:ident $resource:ident $changed:ident $revision:ident nothing () { }) => {
        let _ = (&mut $to, $changed);
    };
    (@tell $to:ident $resource:ident $changed:ident $revision:ident
        fact ($id:expr, $fact_revision:expr) { }
    ) => {
        $to.push($crate::domain::event::PublicEvent::fact(
            <$resource as $crate::domain::resource::Resource>::KIND.name,
            $id,
            $fact_revision,
            $changed,
        ));
    };
    (@tell $to:ident $resource:ident $changed:ident $revision:ident
        fact ($id:expr, $fact_revision:expr) and $also:literal { $($fields:tt)* }
    ) => {
        $crate::public_events!(
            @tell $to $resource $changed $revision fact ($id, $fact_revision) { }
        );
        if $changed.advances {
            $crate::public_events!(
                @tell $to $resource $changed $revision $also () { $($fields)* }
            );
        }
    };
    (@tell $to:ident $resource:ident $changed:ident $revision:ident
        again ($id:expr, $fact_revision:expr) and $also:literal { $($fields:tt)* }
    ) => {
        $crate::public_events!(@tell $to $resource $changed $revision
            fact ($id, $fact_revision) and $also { $($fields)* });
    };
    (@tell $to:ident $resource:ident $changed:ident $revision:ident
        $what:literal () { $($fields:tt)* }
    ) => {
        $crate::public_events!(@tell $to $resource $changed $revision $what
            (at <$resource as $crate::domain::event::PublicEvents>::READ_AT, revision $revision)
            { $($fields)* });
    };
    (@tell $to:ident $resource:ident $changed:ident $_revision:ident
        $what:literal (at $at:expr, revision $revision:ident)
        { $($name:literal : $type:ty = $value:expr),* $(,)? }
    ) => {
        $to.push(
            $crate::domain::event::PublicEvent::new(
                $crate::public_events!(@name $resource $what),
                $crate::domain::event::subject($at, $changed.path),
                $crate::public_events!(@revision $revision $changed),
            )
            $( .with::<$type>($name, &$value) )*
        );
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_is_written_as_in_a_path() {
        assert_eq!(subject("organization", &[]), "organization");
        assert_eq!(
            subject("a/{}/b/{}", &["x y/z", "~k-1._"]),
            "a/x%20y%2Fz/b/~k-1._"
        );
        assert_eq!(subject("a/{}", &["가"]), "a/%EA%B0%80");
    }

    #[test]
    fn a_subject_has_each_character_encoded_that_is_not_unreserved() {
        for character in '\0'..='\x7f' {
            let expected = match character {
                'A'..='Z' | 'a'..='z' | '0'..='9' | '-' | '.' | '_' | '~' => character.to_string(),
                _ => format!("%{:02X}", u32::from(character)),
            };
            let value = character.to_string();
            assert_eq!(subject("{}", &[&value]), expected);
            let among_others = ["a", &value, "z"].concat();
            assert_eq!(subject("{}", &[&among_others]), format!("a{expected}z"));
        }
    }

    #[test]
    fn a_type_is_written_in_lower_case_with_dashes() {
        let name = Name {
            kind: "payment_obligation",
            what: "put",
        };
        assert_eq!(name.event_type(), "carebook.payment-obligation.put");
    }
}
