//! The network side of webhooks: the requests that manage them, their secrets, their sender and their metrics.

pub mod figures;
pub mod managing;
pub mod secret;
pub mod sender;
