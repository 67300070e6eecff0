//! The file descriptors of the process: how many there are, and how many of them connections may
//! take. Without a file for its next segment the log cannot go on, so what files need is never
//! given to connections.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Set aside for the log and its next segment, a snapshot written and one read back, tools,
/// listeners, and connections that are refused.
const SET_ASIDE: u64 = 128;
/// Set aside for each runtime: what it polls with and is woken by, and files that it reads.
const SET_ASIDE_PER_LANE: u64 = 8;

/// Raises the limit of the process as far as it may, and says how many connections there may be.
#[must_use]
pub fn room_for_connections(lanes: usize) -> usize {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: maximum,
        maximum,
    };
    let current = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => maximum,
        // Some systems give less than the limit that they tell.
        Err(_) => current,
    };
    current.map_or(usize::MAX, |limit| beside(limit, lanes))
}

/// What of `limit` descriptors is left for connections.
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
