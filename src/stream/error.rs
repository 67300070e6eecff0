//! Errors of a journal, each as a sentence: what is wrong, where, and what to do.

use std::fmt;

use crate::base::hex::hex;

/// Reason why a journal cannot be used, or not any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamError {
    /// The servers cannot be reached, or do not answer.
    Unreachable {
        /// The attempted request, and its result.
        what: String,
    },
    /// The stream does not exist.
    Missing {
        /// Name of the stream.
        stream: String,
    },
    /// The stream has no first message.
    Empty {
        /// Name of the stream.
        stream: String,
    },
    /// The stream's settings do not protect what is acknowledged.
    Weak {
        /// Name of the stream.
        stream: String,
        /// Each wrong setting, with its present and its required value.
        faults: Vec<String>,
    },
    /// Messages are missing.
    Gap {
        /// The first missing sequence.
        missing: u64,
        /// The next existing sequence.
        sequence: u64,
    },
    /// The journal belongs to another log.
    Foreign {
        /// The expected log id.
        expected: [u8; 16],
        /// The journal's log id.
        found: [u8; 16],
    },
    /// A message does not fit its place.
    Broken {
        /// Sequence of the message.
        sequence: u64,
        /// Description of the message.
        what: String,
    },
    /// The directory has more records than the journal.
    Ahead {
        /// The last position of the directory.
        directory: u64,
        /// The last position of the journal.
        journal: u64,
    },
    /// The list beside the journal names more records than the journal has.
    Lost {
        /// The last position of a snapshot, or of the purged records.
        snapshot: u64,
        /// The last position of the journal.
        journal: u64,
    },
    /// A listed snapshot belongs to another history than the journal's.
    Other {
        /// The last position that the snapshot covers.
        covers: u64,
    },
    /// The records needed next were purged.
    Purged {
        /// The last position that the directory has.
        end: u64,
        /// The first position that the journal has.
        first: u64,
    },
    /// The directory has another record than the journal.
    Differs {
        /// Position of the record.
        position: u64,
    },
    /// The journal's messages differ from those that this process has read or written.
    Replaced {
        /// The last position of this process.
        position: u64,
    },
    /// Another process writes the journal now.
    Fenced {
        /// Epoch of that process, and its node's name, where they are known.
        by: Option<(u64, String)>,
    },
    /// It is unknown whether the last append is stored.
    Unknown {
        /// How long the outcome was sought, in seconds, and the result.
        what: String,
    },
    /// The servers refused a request.
    Refused {
        /// The request, and the reason.
        what: String,
    },
    /// The process is stopping.
    Stopped,
}

impl StreamError {
    /// Whether the journal, or the directory, is damaged or was replaced, so that an operator has to act.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        matches!(
            self,
            Self::Gap { .. }
                | Self::Foreign { .. }
                | Self::Broken { .. }
                | Self::Ahead { .. }
                | Self::Lost { .. }
                | Self::Other { .. }
                | Self::Differs { .. }
                | Self::Replaced { .. }
        )
    }

    /// Whether another process has taken over.
    #[must_use]
    pub fn is_fenced(&self) -> bool {
        matches!(self, Self::Fenced { .. })
    }
}

const NOTHING_CHANGED: &str = "Nothing was changed";

fn taken_over(by: Option<&(u64, String)>) -> String {
    let by = by.map(|(epoch, node)| format!(": {node}, with epoch {epoch}"));
    format!(
        "another process has taken the journal over{}. What was acknowledged here is kept there",
        by.unwrap_or_default()
    )
}

impl StreamError {
    /// Describes errors of the list beside the journal.
    fn of_snapshots(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost { snapshot, journal } => write!(
                f,
                "the list of the journal's snapshots has position {snapshot}, and the journal ends at \
                 position {journal}: the journal has lost what was acknowledged. {NOTHING_CHANGED}. Keep \
                 all directories: the one that ends last has most of what is missing"
            ),
            Self::Other { covers } => write!(
                f,
                "the listed snapshot up to position {covers} is of another history than the journal: one \
                 of them was replaced by an older copy that was written on. {NOTHING_CHANGED}. Keep both, \
                 and find out which one answered clients; without the list the journal is taken as it is"
            ),
            Self::Purged { end, first } => write!(
                f,
                "the directory ends at position {end}, and the journal begins at position {first}: what \
                 came before was purged, since snapshots have it. {NOTHING_CHANGED}. Move the directory \
                 away and start with an empty one, which begins with a snapshot"
            ),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for StreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable { what } => write!(
                f,
                "the journal is not reached: {what}; see that its servers run, and that a majority \
                 of them reach each other"
            ),
            Self::Missing { stream } => write!(
                f,
                "the servers have no stream {stream}; make it with `carebook journal create`"
            ),
            Self::Empty { stream } => write!(
                f,
                "the stream {stream} has no message, not even the first one, which gives the log its \
                 id: begin it with `carebook journal create`"
            ),
            Self::Weak { stream, faults } => write!(
                f,
                "the stream {stream} could lose acknowledged commits, or refuse new ones: {}; \
                 change these settings where they are: of the stream or bucket, and max_payload of each server. \
                 A setting that the servers do not change needs a journal of another name (`carebook journal create`, \
                 with --from for a directory)",
                faults.join("; ")
            ),
            Self::Gap { missing, sequence } => write!(
                f,
                "the journal has a gap: message {missing} is missing, the next one is {sequence}. \
                 {NOTHING_CHANGED}. Restore the stream from a copy that has it, or import the directory that \
                 ends last into a journal of another name (`carebook journal create --from`)"
            ),
            Self::Foreign { expected, found } => write!(
                f,
                "the journal is that of another service: its log is {}, the directory's is {}. \
                 {NOTHING_CHANGED}. See that --journal-name and --data belong together",
                hex(found),
                hex(expected)
            ),
            Self::Broken { sequence, what } => write!(
                f,
                "the journal is damaged at message {sequence}: {what}. {NOTHING_CHANGED}. Restore \
                 the stream from a copy that is whole"
            ),
            Self::Ahead { directory, journal } => write!(
                f,
                "the directory has position {directory}, and the journal ends at position {journal}: \
                 the journal has lost what was acknowledged. {NOTHING_CHANGED}. Keep the directory: \
                 it has what is missing"
            ),
            Self::Lost { .. } | Self::Other { .. } | Self::Purged { .. } => self.of_snapshots(f),
            Self::Differs { position } => write!(
                f,
                "the directory has another record at position {position} than the journal: one of \
                 them was replaced by an older copy that was written on. {NOTHING_CHANGED}. Keep \
                 both, and find out which one answered clients"
            ),
            Self::Replaced { position } => write!(
                f,
                "the journal has another history than this process, which has position {position}: it \
                 was replaced by an older copy that was written on. Nothing more is written. Keep it and \
                 the directory, and find out which one answered clients"
            ),
            Self::Fenced { by } => f.write_str(&taken_over(by.as_ref())),
            Self::Unknown { what } => write!(
                f,
                "it is unknown whether the last append is in the journal: {what}. The next \
                 start finds out"
            ),
            Self::Refused { what } => f.write_str(what),
            Self::Stopped => f.write_str("the process stops"),
        }
    }
}

impl std::error::Error for StreamError {}
