//! The identifier of a public event.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::base::json::{FaultCode, FromJson, Json, Reader, Shape};

/// An event's identifier: the position of its commit, and the event's number in the commit.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct EventId {
    /// The commit's position; 0 only in [`EventId::NONE`].
    pub position: u64,
    /// The number among the events of the commit, counted from 0.
    pub number: u32,
}

impl EventId {
    /// The identifier before that of the first event.
    pub const NONE: Self = Self {
        position: 0,
        number: 0,
    };

    /// Makes an identifier after those of all events of the commit at this position.
    #[must_use]
    pub fn behind(position: u64) -> Self {
        Self {
            position,
            number: u32::MAX,
        }
    }

    /// Returns the position of the first commit that may have events after this one: its own commit, unless this was
    /// made by [`EventId::behind`]. The number does not say whether an event is the last of its commit.
    #[must_use]
    pub fn goes_on_at(self) -> u64 {
        (self.position + u64::from(self.number == u32::MAX)).max(1)
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.position, self.number)
    }
}

/// The error of a text that is no event's identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoEventId;

impl FromStr for EventId {
    type Err = NoEventId;

    /// Parses exactly the text that an [`EventId`] is displayed as: no signs, no leading zeros.
    fn from_str(text: &str) -> Result<Self, NoEventId> {
        let (position, number) = text.split_once('-').ok_or(NoEventId)?;
        let is_plain = |digits: &str| {
            digits.bytes().all(|byte| byte.is_ascii_digit())
                && (digits == "0" || !digits.starts_with('0'))
        };
        if !is_plain(position) || !is_plain(number) {
            return Err(NoEventId);
        }
        Ok(Self {
            position: position.parse().map_err(|_| NoEventId)?,
            number: number.parse().map_err(|_| NoEventId)?,
        })
    }
}

impl FromJson for EventId {
    fn read(value: &Json<'_>, at: &mut Reader) -> Option<Self> {
        let text = at.text(value)?;
        match text.parse() {
            Ok(id) => Some(id),
            Err(NoEventId) => at.fault(FaultCode::Pattern),
        }
    }

    fn shape() -> Shape {
        Shape::Text {
            shortest: 1,
            longest: 31,
            blank: false,
            form: "`{position}-{number}`",
            pattern: "^(0|[1-9][0-9]{0,19})-(0|[1-9][0-9]{0,9})$",
            known: &[],
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn an_identifier_is_read_as_it_is_written_and_in_no_other_way() {
        for id in [
            EventId::NONE,
            EventId::behind(7),
            EventId {
                position: u64::MAX,
                number: 3,
            },
        ] {
            assert_eq!(id.to_string().parse(), Ok(id));
        }
        for bad in [
            "",
            "1",
            "1-",
            "-1",
            "01-0",
            "1-00",
            "+1-0",
            "1-0 ",
            "1-0-0",
            "a-b",
            "18446744073709551616-0",
            "1-4294967296",
        ] {
            assert_eq!(bad.parse::<EventId>(), Err(NoEventId), "{bad}");
        }
    }
}
