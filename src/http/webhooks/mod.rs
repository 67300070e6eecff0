//! The network side of webhooks: their secrets and signatures, the addresses that they may be sent to, and the
//! requests.

pub mod address;
pub mod client;
pub mod figures;
pub mod managing;
pub mod secret;
pub mod sender;
