//! Connections: the server that accepts them, and the processing of their bytes before they are requests.

pub mod frames;
pub mod framing;
pub mod head_limit;
mod requests;
pub mod server;
pub mod timed_io;
pub mod unparsed;
