//! Where some of the frames of a log are, so that one record is found again.

/// Bytes of log between two entries of the index, at least.
const STRIDE: u64 = 32 << 10;

#[derive(Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) position: u64,
    pub(crate) segment: u64,
    pub(crate) offset: u64,
}

/// Where some of the frames are: the first data frame of each segment and one
/// in each 32 KiB.
pub(crate) struct Index {
    entries: Vec<Entry>,
}

impl Index {
    pub(crate) fn new() -> Self {
        Self {
            entries: Vec::new(),
        }
    }

    /// Notes a data frame; frames come in order.
    pub(crate) fn note(&mut self, position: u64, segment: u64, offset: u64) {
        let close = |last: &Entry| last.segment == segment && offset - last.offset < STRIDE;
        if !self.entries.last().is_some_and(close) {
            self.entries.push(Entry {
                position,
                segment,
                offset,
            });
        }
    }

    pub(crate) fn forget_before(&mut self, position: u64) {
        self.entries.retain(|entry| entry.position >= position);
    }

    /// The last entry that is not behind a position.
    pub(crate) fn before(&self, position: u64) -> Option<Entry> {
        let behind = self
            .entries
            .partition_point(|entry| entry.position <= position);
        self.entries.get(behind.checked_sub(1)?).copied()
    }
}
