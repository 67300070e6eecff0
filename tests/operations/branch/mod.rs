//! Branches, and what belongs to them.

mod accept_manager_invitation;
mod create_branch;
mod durable_first;
pub mod external_directory;
mod snapshot_settlement_account;
mod update_branch_office_profile;
