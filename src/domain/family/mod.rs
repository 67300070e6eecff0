//! The rights that a mother gives to members of her family, for one reservation at a time.
//!
//! ```text
//!  (none) ──grant_payment_authority────▶ a payment delegation at revision 1
//!  (none) ──grant_care_history_access──▶ a care-history access grant at revision 1
//!  a payment delegation ──authorize_payment──▶ the same: proving authority changes nothing
//! ```
//!
//! Both end when they expire. Revoking them is the work of another system: a revocation is stored
//! and shown, and no operation here makes one.
//!
//! Each grant is a resource of its own. The grants of one member for one booking have a *book*
//! beside them: whether a new grant overlaps one in force is decided on this one state, so two
//! overlapping grants cannot both be committed. The book names only the latest grant, so that it
//! does not grow with its history.

pub mod authorize_payment;
pub mod care_history_authority;
pub mod grant;
pub mod grant_care_history_access;
pub mod grant_payment_authority;
pub mod payment_authority;
pub mod read_care_history_grant;
pub mod read_payment_delegation;

#[cfg(test)]
mod samples;
