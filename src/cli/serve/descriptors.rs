//! The file descriptors of the process: their number, and how many connections may use. Without a file for its next
//! segment the log cannot go on, so descriptors for files are reserved.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::cli::exit::Failure;

/// Descriptors reserved for the log and its next segment, a snapshot being written and one being read, tools,
/// listeners, and connections that are closed at once.
const SET_ASIDE: u64 = 128;
/// Descriptors reserved for each runtime: its poll and wake-up descriptors, and files that it reads.
const SET_ASIDE_PER_LANE: u64 = 8;

/// Raises the limit of the process as far as allowed; returns the maximum number of connections.
#[must_use]
pub fn room_for_connections(lanes: usize) -> usize {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: maximum,
        maximum,
    };
    let current = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => maximum,
        // Some systems allow less than the limit that they report.
        Err(_) => current,
    };
    current.map_or(usize::MAX, |limit| beside(limit, lanes))
}

/// Returns why this number of lanes cannot be started, and what to do.
pub(super) fn cannot_start(lanes: usize, error: &std::io::Error) -> Failure {
    Failure::other(format!(
        "{lanes} lanes cannot be started: {error}; give a smaller number with --runtimes"
    ))
}

/// Returns how many of `limit` descriptors are left for connections.
fn beside(limit: u64, lanes: usize) -> usize {
    let lanes = u64::try_from(lanes).unwrap_or(u64::MAX);
    let aside = SET_ASIDE.saturating_add(lanes.saturating_mul(SET_ASIDE_PER_LANE));
    usize::try_from(limit.saturating_sub(aside).max(1)).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_take_what_files_leave_and_there_is_always_one() {
        assert_eq!(beside(1_024, 2), 1_024 - 128 - 16);
        assert_eq!(beside(100, 2), 1);
        assert_eq!(beside(u64::MAX, usize::MAX), 1);
    }
}
