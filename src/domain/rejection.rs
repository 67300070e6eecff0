//! Why a command or a read is refused. Rejections know no HTTP; the front turns a class into a
//! status.

use std::borrow::Cow;

use crate::base::json::{Fault, FaultCode};

/// What kind of refusal it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The request is at fault whatever the state of the service.
    Invalid,
    /// The actor lacks authority.
    Forbidden,
    /// What the command is about does not exist.
    Missing,
    /// It conflicts with the state of the service.
    Conflict,
}

/// A rejection as an operation declares it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Declared {
    /// Its class.
    pub class: Class,
    /// The contract's word for it.
    pub code: &'static str,
    /// The sentence for people.
    pub message: &'static str,
}

/// A refusal: nothing was changed, no key was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// Its class.
    pub class: Class,
    /// The contract's word for it.
    pub code: &'static str,
    /// A sentence for people, without personal data.
    pub message: Cow<'static, str>,
    /// Faults of single fields.
    pub faults: Vec<Fault>,
    /// Places of the fields that conflict with the state.
    pub conflicting: Vec<Cow<'static, str>>,
    /// The whole body of the answer, where the operation has a shape of its own.
    pub body: Option<Vec<u8>>,
}

impl Rejection {
    /// A refusal without faults and places.
    #[must_use]
    pub fn new(class: Class, code: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            class,
            code,
            message: message.into(),
            faults: Vec::new(),
            conflicting: Vec::new(),
            body: None,
        }
    }

    /// `permission_denied`.
    #[must_use]
    pub fn permission_denied(message: &'static str) -> Self {
        Self::new(Class::Forbidden, "permission_denied", message)
    }

    /// What a read says of what does not exist, and of what the actor may not see: one answer
    /// for both, so that existence is not given away.
    #[must_use]
    pub fn not_found() -> Self {
        Self::new(
            Class::Missing,
            "not_found",
            "There is nothing here that you may read.",
        )
    }

    /// `request_invalid` with these faults.
    #[must_use]
    pub fn invalid(faults: Vec<Fault>) -> Self {
        Self {
            faults,
            ..Self::new(
                Class::Invalid,
                "request_invalid",
                "The request is not valid; fieldErrors names each fault.",
            )
        }
    }

    /// `request_invalid` with one fault.
    #[must_use]
    pub fn invalid_at(path: impl Into<String>, code: FaultCode) -> Self {
        Self::invalid(vec![Fault {
            path: path.into(),
            code,
        }])
    }

    /// The same rejection, with the places of the fields that conflict with the state.
    #[must_use]
    pub fn at(mut self, members: &[&'static str]) -> Self {
        self.conflicting = members.iter().copied().map(Cow::Borrowed).collect();
        self
    }
}

/// Declares an operation's own rejections in the order in which they are tested: class, code,
/// fields that conflict with the state, and the sentence.
///
/// ```text
/// rejections! {
///     pub enum Reason {
///         /// Who may.
///         NotPermitted = Forbidden "permission_denied" [] "Only headquarters may do this.",
///         /// The code stands.
///         CodeTaken = Conflict "code_conflict" ["code"] "The code stands with other facts.",
///     }
/// }
/// ```
#[macro_export]
macro_rules! rejections {
    (
        $(#[$meta:meta])*
        $vis:vis enum $name:ident {
            $(
                $(#[$value_meta:meta])*
                $value:ident = $class:ident $code:literal [$($member:literal),*] $message:literal
            ),+ $(,)?
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $vis enum $name { $( $(#[$value_meta])* $value ),+ }

        impl $name {
            /// Each, in the order in which they are tested.
            $vis const TABLE: &'static [$crate::domain::rejection::Declared] = &[$(
                $crate::domain::rejection::Declared {
                    class: $crate::domain::rejection::Class::$class,
                    code: $code,
                    message: $message,
                }
            ),+];
        }

        impl From<$name> for $crate::domain::rejection::Rejection {
            fn from(refusal: $name) -> Self {
                match refusal {
                    $( $name::$value => Self::new(
                        $crate::domain::rejection::Class::$class, $code, $message,
                    ).at(&[$($member),*]) ),+
                }
            }
        }
    };
}
