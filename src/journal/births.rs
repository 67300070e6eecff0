//! The log in which each message to another system was created.
//!
//! A message's number counts within a log. A log that was restored from another one continues
//! counting after the messages that it has from it, so it may use a number again that the other one
//! used after that point. Receivers are therefore given the number together with the identity of
//! the log in which the message was created; a message keeps that identity in every log that is
//! made from that one.
//!
//! Each log uses higher numbers than those that it began with. So it is enough to know the highest
//! number that each ancestor has passed on, and that is found while records are replayed.

use crate::base::digest::hex;

/// Which log it is, and which ones it continues.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lineage {
    /// The log's id, which is random.
    pub log_id: [u8; 16],
    /// The logs that it was made from, the oldest first.
    pub ancestors: Vec<Ancestor>,
}

/// A log that another one was made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ancestor {
    /// Its id.
    pub log_id: [u8; 16],
    /// The last position that was appended under that id.
    pub upto: u64,
}

/// The logs in which messages were created.
#[derive(Clone, Debug, Default)]
pub struct Births {
    lineage: Lineage,
    /// The highest number that each ancestor has passed on; 0 when there is none.
    highest: Vec<i64>,
}

impl Births {
    /// For the messages of this log.
    #[must_use]
    pub fn new(lineage: Lineage) -> Self {
        Self {
            highest: vec![0; lineage.ancestors.len()],
            lineage,
        }
    }

    /// The same log, with nothing noted yet.
    #[must_use]
    pub fn anew(&self) -> Self {
        Self::new(self.lineage.clone())
    }

    /// The random name of the log.
    #[must_use]
    pub fn log_id(&self) -> [u8; 16] {
        self.lineage.log_id
    }

    /// The record at `position` has a message of this number.
    pub fn note(&mut self, position: u64, number: i64) {
        let mut ancestors = self.lineage.ancestors.iter();
        if let Some(born) = ancestors.position(|ancestor| position <= ancestor.upto) {
            self.highest[born] = self.highest[born].max(number);
        }
    }

    /// The identifier that receivers are given: `{log id}-{number}`.
    #[must_use]
    pub fn message_id(&self, number: i64) -> String {
        let born = self.highest.iter().position(|highest| number <= *highest);
        let log = born.map_or(self.lineage.log_id, |born| {
            self.lineage.ancestors[born].log_id
        });
        format!("{}-{number}", hex(&log))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_keeps_the_log_that_it_was_born_in() {
        let ancestor = |number, upto| Ancestor {
            log_id: [number; 16],
            upto,
        };
        let mut births = Births::new(Lineage {
            log_id: [0xcc; 16],
            ancestors: vec![ancestor(0xaa, 10), ancestor(0xab, 20), ancestor(0xbb, 30)],
        });
        // Numbers are taken before positions are.
        for (position, number) in [(3, 2), (9, 1), (10, 4), (25, 7), (30, 5), (31, 8)] {
            births.note(position, number);
        }
        let log = |number| births.message_id(number)[..2].to_owned();
        assert_eq!([1, 2, 4].map(log), ["aa", "aa", "aa"]);
        assert_eq!([5, 7].map(log), ["bb", "bb"], "none was born in the second");
        assert_eq!([8, 9].map(log), ["cc", "cc"]);
        assert_eq!(births.message_id(8), format!("{}-8", "cc".repeat(16)));
        assert_eq!(
            births.anew().message_id(1),
            format!("{}-1", "cc".repeat(16))
        );
    }
}
