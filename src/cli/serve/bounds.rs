//! Limits on how much a server processes at once.

use clap::Args;
use clap::builder::RangedU64ValueParser;

use crate::engine::Limits;
use crate::http::limits::front_limits::FrontLimits;

/// The flags of bounds.
#[derive(Args)]
pub(super) struct BoundArgs {
    /// Commands in flight, beyond which further ones are answered 429.
    #[arg(long, value_name = "N", default_value_t = Limits::default().commands_max,
        value_parser = one_or_more())]
    commands_max: usize,
    /// Takes no command, as if too many were in flight.
    #[arg(long, hide = true)]
    commands_shed: bool,
    /// Open connections, on both listeners together and besides 64 for the internal one, beyond which
    /// further ones are closed; no more than the limit of file descriptors allows.
    #[arg(long, value_name = "N", default_value_t = FrontLimits::default().connections_max,
        value_parser = one_or_more())]
    connections_max: usize,
    /// Open connections from one address (IPv6: one /64) to one listener, beyond which further ones
    /// are closed.
    #[arg(long, value_name = "N",
        default_value_t = FrontLimits::default().connections_per_address_max,
        value_parser = one_or_more())]
    connections_per_address_max: usize,
}

/// Parses a number above zero: a server with a limit of zero is of no use.
pub(super) fn one_or_more() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..)
}

impl BoundArgs {
    /// Returns the limits of the engine.
    pub(super) fn engine(&self) -> Limits {
        Limits {
            commands_max: if self.commands_shed {
                0
            } else {
                self.commands_max
            },
            ..Limits::default()
        }
    }

    /// Returns the limits of the front, where the file descriptors leave `room` for this number of connections.
    pub(super) fn front(&self, room: usize) -> FrontLimits {
        if room < self.connections_max {
            tracing::warn!(
                wanted = self.connections_max,
                room,
                "the limit of file descriptors allows fewer connections"
            );
        }
        FrontLimits {
            connections_max: self.connections_max.min(room),
            connections_per_address_max: self.connections_per_address_max,
            ..FrontLimits::default()
        }
    }
}
