//! The file descriptors of the process: their number, and how many connections may use. Without a file for its next
//! segment the log cannot go on, so descriptors for files are reserved.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::cli::exit::Failure;
use crate::http::limits::connections::INTERNAL_PLACES;

/// Descriptors reserved for the log and its next segment, a snapshot being written and one being read, tools,
/// listeners, and connections that are closed at once.
const RESERVED: u64 = 128;
/// Descriptors reserved for each runtime: its poll and wake-up descriptors, and files that it reads.
const RESERVED_PER_LANE: u64 = 8;

/// Raises the limit of the process as far as allowed; returns the maximum number of connections, besides the places of
/// the internal listener, if there is one.
#[must_use]
pub fn room_for_connections(lanes: usize, has_internal: bool) -> usize {
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
    let places = if has_internal { INTERNAL_PLACES } else { 0 };
    current.map_or(usize::MAX, |limit| {
        left_for_connections(limit, lanes, places)
    })
}

/// Returns why this number of lanes cannot be started, and what to do.
pub(super) fn cannot_start(lanes: usize, error: &std::io::Error) -> Failure {
    Failure::other(format!(
        "{lanes} lanes cannot be started: {error}; give a smaller number with --runtimes"
    ))
}

/// Returns how many of `limit` descriptors are left for connections besides `places`.
fn left_for_connections(limit: u64, lanes: usize, places: usize) -> usize {
    let [lanes, places] = [lanes, places].map(|count| u64::try_from(count).unwrap_or(u64::MAX));
    let aside = RESERVED.saturating_add(lanes.saturating_mul(RESERVED_PER_LANE));
    let aside = aside.saturating_add(places);
    usize::try_from(limit.saturating_sub(aside).max(1)).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_take_what_files_leave_and_there_is_always_one() {
        assert_eq!(left_for_connections(1_024, 2, 0), 1_024 - 128 - 16);
        assert_eq!(left_for_connections(1_024, 2, 64), 1_024 - 128 - 16 - 64);
        assert_eq!(left_for_connections(100, 2, 64), 1);
        assert_eq!(left_for_connections(u64::MAX, usize::MAX, 64), 1);
    }
}
