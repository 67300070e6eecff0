//! The limits of the front: on the number of connections, on the memory of their bodies, and on their durations.

pub mod connections;
pub mod forgeries;
pub mod front_limits;
pub mod pace;
pub mod portions;
pub mod request_room;
pub mod response_room;
