//! Branches of the one organization, their first managers, their public profiles, and the accounts
//! with which they settle.
//!
//! ```text
//!  organization  revision n ──create_branch──▶ n + 1
//!  branch        (none) ──create_branch──▶ invitation pending ──accept_manager_invitation──▶ manager active
//!  deliveries    (none) ──create_branch──▶ never change; joined with the messages they name
//!  profile       (none) ──first fact, or create_branch──▶ revision ──update_branch_office_profile, later fact──▶ …
//!  snapshot      (none) ──snapshot_settlement_account──▶ never changes
//! ```

pub mod accept_manager_invitation;
pub mod account_snapshot;
pub mod body;
pub mod business_registration;
pub mod create_branch;
pub mod deliveries;
pub mod directory_message;
pub mod office_profile;
pub mod onboarding;
pub mod organization;
pub mod read_account_snapshot;
pub mod read_branch;
pub mod read_office_profile;
pub mod read_organization;
#[cfg(test)]
mod samples;
pub mod snapshot_settlement_account;
pub mod state;
pub mod update_branch_office_profile;
