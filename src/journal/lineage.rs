//! The log in which each message to another system was created.
//!
//! Message numbers are unique within a log. A log restored from another one continues counting after the messages
//! that it took over, so it may use numbers that the other log also used after that point. Receivers therefore get
//! the number together with the identity of the log in which the message was created; a message keeps that identity
//! in every log derived from that one.

/// A log's identity, and the logs that it continues.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lineage {
    /// The log's id, which is random.
    pub log_id: [u8; 16],
    /// Logs that this log was derived from, the oldest first.
    pub ancestors: Vec<Ancestor>,
}

/// A log that another log was derived from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ancestor {
    /// Its id.
    pub log_id: [u8; 16],
    /// The last position that was appended under that id.
    pub upto: u64,
}

impl Lineage {
    /// Returns the identity of the log under which the record at `position` was appended.
    #[must_use]
    pub fn log_at(&self, position: u64) -> [u8; 16] {
        let mut ancestors = self.ancestors.iter();
        let born = ancestors.find(|ancestor| position <= ancestor.upto);
        born.map_or(self.log_id, |ancestor| ancestor.log_id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_of_the_log_that_it_was_appended_under() {
        let ancestor = |number, upto| Ancestor {
            log_id: [number; 16],
            upto,
        };
        let lineage = Lineage {
            log_id: [0xcc; 16],
            ancestors: vec![ancestor(0xaa, 10), ancestor(0xab, 10), ancestor(0xbb, 30)],
        };
        for (position, log) in [(1, 0xaa), (10, 0xaa), (11, 0xbb), (30, 0xbb), (31, 0xcc)] {
            assert_eq!(lineage.log_at(position), [log; 16], "{position}");
        }
    }
}
