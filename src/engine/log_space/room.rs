//! Logs when the disk has no room for commands, and when it has room again: at once, and once a minute while the lack
//! lasts.

use std::time::{Duration, Instant};

use parking_lot::Mutex;
use wal::Lack;

/// Interval between repetitions of a line.
const AGAIN: Duration = Duration::from_secs(60);

/// A line in the service's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    /// There is no room; commands will be rejected.
    NoRoom,
    /// Commands are rejected.
    Refused,
    /// There is room again.
    Room,
}

/// What was logged so far during one lack of room.
#[derive(Clone, Copy, Debug, Default)]
struct Spell {
    said: Option<Instant>,
    /// Whether it was logged that commands are rejected.
    refused: bool,
}

impl Spell {
    /// Returns the line to log, given whether room is lacking, and whether a command was rejected for that.
    fn next_line(&mut self, is_lacking: bool, is_refused: bool, now: Instant) -> Option<Line> {
        if !is_lacking {
            let spell = std::mem::take(self);
            return spell.said.map(|_| Line::Room);
        }
        let is_first = is_refused && !self.refused;
        let is_late = self
            .said
            .is_none_or(|said| now.duration_since(said) >= AGAIN);
        if !is_first && !is_late {
            return None;
        }
        self.said = Some(now);
        self.refused |= is_refused;
        Some(match self.refused {
            true => Line::Refused,
            false => Line::NoRoom,
        })
    }
}

/// The lack of room at present, and what was logged of it.
#[derive(Default)]
pub(crate) struct RoomWatch(Mutex<Spell>);

impl RoomWatch {
    /// Notes whether the log has room; `lack` says why it has none.
    pub(crate) fn look(&self, lack: Option<&Lack>) {
        self.note(lack, false);
    }

    /// Notes that a command was rejected for lack of room.
    pub(crate) fn refused(&self, lack: Option<&Lack>) {
        self.note(lack, true);
    }

    fn note(&self, lack: Option<&Lack>, is_refused: bool) {
        let line = self
            .0
            .lock()
            .next_line(lack.is_some(), is_refused, Instant::now());
        let why = lack.map(ToString::to_string).unwrap_or_default();
        match line {
            None => {}
            Some(Line::NoRoom) => {
                tracing::warn!("there is no room for commands, which will be rejected: {why}");
            }
            Some(Line::Refused) => {
                tracing::warn!("commands are rejected (503) for lack of room: {why}");
            }
            Some(Line::Room) => tracing::info!("there is room again: commands are accepted"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lack_of_room_and_first_refusal_are_logged_at_once_then_each_minute() {
        let mut spell = Spell::default();
        let begun = Instant::now();
        let mut hear = |seconds, is_lacking, is_refused| {
            spell.next_line(is_lacking, is_refused, begun + Duration::from_secs(seconds))
        };
        for _ in 0..2 {
            // Nothing is logged while the log has room.
            assert_eq!(hear(0, false, false), None);
            assert_eq!(hear(1, true, false), Some(Line::NoRoom));
            assert_eq!(hear(60, true, false), None);
            assert_eq!(hear(61, true, false), Some(Line::NoRoom));
            assert_eq!(hear(62, true, true), Some(Line::Refused));
            assert_eq!(hear(63, true, true), None);
            assert_eq!(hear(121, true, true), None);
            assert_eq!(hear(122, true, false), Some(Line::Refused));
            assert_eq!(hear(150, false, false), Some(Line::Room));
        }
        // A rejection may be the first sign of the lack.
        assert_eq!(hear(151, true, true), Some(Line::Refused));
        assert_eq!(hear(152, true, false), None);
    }
}
