//! Limits on connections, and on their durations.

use std::time::Duration;

/// The limits of the front.
#[derive(Clone, Copy, Debug)]
pub struct FrontLimits {
    /// Connections that may be open at once, over all listeners, besides the places of the internal one.
    pub connections_max: usize,
    /// Connections that may be open from one address (IPv6: one /64) to one listener.
    pub connections_per_address_max: usize,
    /// How long a connection may be idle: without the first byte of a request, or over HTTP/2
    /// without a complete head.
    pub idle_timeout: Duration,
    /// How long the head of a request may take to arrive, from its first byte.
    pub head_timeout: Duration,
    /// How long a client may take no byte of a response; also the base of the time that it has for the whole
    /// response, to which the response's size adds.
    pub write_timeout: Duration,
    /// How long requests in flight may take once the server stops.
    pub drain_timeout: Duration,
}

impl Default for FrontLimits {
    fn default() -> Self {
        Self {
            connections_max: 20_000,
            connections_per_address_max: 1_024,
            idle_timeout: Duration::from_secs(75),
            head_timeout: Duration::from_secs(15),
            write_timeout: Duration::from_secs(30),
            drain_timeout: Duration::from_millis(1_250),
        }
    }
}
