//! Logs when there is no room for commands, and when there is again: at once, and once a minute
//! while it lasts.

use std::time::{Duration, Instant};

use parking_lot::Mutex;
use wal::Lack;

/// How long after a line the next one comes.
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
    /// The line to log, given whether room is lacking, and whether a command was rejected for it.
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

/// Remembers what was logged.
#[derive(Default)]
pub(crate) struct RoomWatch(Mutex<Spell>);

impl RoomWatch {
    /// Takes note of the log's room: why it has none, if it has none.
    pub(crate) fn look(&self, lack: Option<&Lack>) {
        self.note(lack, false);
    }

    /// Takes note that a command was rejected.
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
    fn want_of_room_is_told_at_once_the_first_refusal_too_and_each_again_after_a_minute() {
        let mut spell = Spell::default();
        let begun = Instant::now();
        let mut hear = |seconds, is_lacking, is_refused| {
            spell.next_line(is_lacking, is_refused, begun + Duration::from_secs(seconds))
        };
        for _ in 0..2 {
            // Nothing is said of a log that has room.
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
        // A refusal may be the first that is heard.
        assert_eq!(hear(151, true, true), Some(Line::Refused));
        assert_eq!(hear(152, true, false), None);
    }
}
