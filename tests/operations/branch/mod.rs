//! Branches, and what belongs to them.

mod accept_invitation;
mod create;
mod durable_first;
pub mod external_directory;
mod snapshot_settlement_account;
mod update_profile;
