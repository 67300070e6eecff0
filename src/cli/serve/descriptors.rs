//! The file descriptors of the process: their number, and how many connections may use. Without a file for its next
//! segment the log cannot go on, so descriptors for files are reserved.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::cli::exit::Failure;
use crate::engine::channel::Bounds;
use crate::http::client::room::OutgoingRoom;
use crate::http::limits::connections::INTERNAL_PLACES;

/// Descriptors reserved for the log and its next segment, a snapshot being written and one being read, tools,
/// listeners, connections to the identity provider, to NATS and to the collector of traces, and connections that are
/// closed at once.
const RESERVED: u64 = 128;
/// Descriptors reserved for each runtime: its poll and wake-up descriptors, and files that it reads.
const RESERVED_PER_LANE: u64 = 8;
/// Receivers get at most one in this many of the descriptors that files leave.
const OUTGOING_ONE_IN: usize = 4;

/// Descriptors that connections may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptors {
    /// Connections of clients, besides the places of the internal listener.
    pub clients: usize,
    /// Connections to the receivers of webhooks.
    pub webhooks: OutgoingRoom,
    /// Connections to the receivers of messages.
    pub messages: OutgoingRoom,
}

/// Raises the limit of the process as far as allowed; returns what the connections may take, besides the places of the
/// internal listener, if there is one. `receivers` get messages.
#[must_use]
pub fn room_for_connections(lanes: usize, has_internal: bool, receivers: usize) -> Descriptors {
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
    let left = current.map_or(usize::MAX, |limit| {
        left_for_connections(limit, lanes, places)
    });
    let descriptors = Descriptors::of(left, receivers);
    let lowered = [
        ("webhooks", descriptors.webhooks, OutgoingRoom::default()),
        ("messages", descriptors.messages, of_messages(receivers)),
    ];
    for (what, has, wanted) in lowered {
        if has != wanted {
            let OutgoingRoom {
                requests,
                idle,
                drains,
                lookups,
            } = has;
            tracing::warn!(
                what,
                requests,
                idle,
                drains,
                lookups,
                wanted_requests = wanted.requests,
                "the limit of file descriptors allows fewer connections to receivers"
            );
        }
    }
    descriptors
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

/// What the connections to the receivers of messages would take.
fn of_messages(receivers: usize) -> OutgoingRoom {
    OutgoingRoom::of_receivers(receivers, Bounds::default().on_way_max)
}

impl Descriptors {
    /// Divides the descriptors that are left: connections to receivers have what they want, up to their part, and
    /// clients have the rest.
    fn of(left: usize, receivers: usize) -> Self {
        let (webhooks, messages) = (OutgoingRoom::default(), of_messages(receivers));
        let most = left / OUTGOING_ONE_IN;
        let of_webhooks = webhooks.descriptors();
        let wanted = of_webhooks.saturating_add(messages.descriptors());
        let (webhooks, messages) = match wanted <= most {
            true => (webhooks, messages),
            false => {
                let part = of_webhooks.saturating_mul(most) / wanted;
                (webhooks.within(part), messages.within(most - part))
            }
        };
        let taken = webhooks
            .descriptors()
            .saturating_add(messages.descriptors());
        Self {
            // Where hardly any are left, the few that go out in any case are of those for files.
            clients: left.saturating_sub(taken.min(most)).max(1),
            webhooks,
            messages,
        }
    }
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
        assert_eq!(Descriptors::of(1, 3).clients, 1);
    }

    #[test]
    fn receiver_connections_are_reserved_and_reduced_if_descriptors_are_few() {
        let taken = |all: &Descriptors| all.webhooks.descriptors() + all.messages.descriptors();
        let wide = Descriptors::of(left_for_connections(65_536, 2, 64), 2);
        assert_eq!(wide.webhooks, OutgoingRoom::default());
        assert_eq!(wide.messages, of_messages(2));
        assert_eq!(
            wide.clients + taken(&wide),
            left_for_connections(65_536, 2, 64)
        );
        assert!(wide.clients > 20_000);
        for receivers in [0, 1, 40] {
            let left = left_for_connections(1_024, 2, 64);
            let narrow = Descriptors::of(left, receivers);
            assert!(narrow.clients >= left * 3 / 4, "{narrow:?}");
            assert!(narrow.clients + taken(&narrow) <= left + 20, "{narrow:?}");
            assert!(narrow.webhooks.requests >= 16, "{narrow:?}");
            assert!(narrow.webhooks.requests < 1_024, "{narrow:?}");
            assert!(narrow.webhooks.lookups >= 20, "{narrow:?}");
            assert_eq!(narrow.messages.requests > 0, receivers > 0);
        }
    }
}
