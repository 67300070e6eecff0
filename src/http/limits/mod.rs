//! The bounds of the front: how many connections and how much of their bytes there may be at once,
//! and how long they may take.

pub mod connections;
pub mod forgeries;
pub mod front_limits;
pub mod pace;
pub mod portions;
pub mod response_room;
