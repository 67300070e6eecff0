//! What a mother lets the members of her family do, for one reservation at a time.
//!
//! ```text
//!  (none) ──grant_payment───────────▶ a payment delegation at revision 1
//!  (none) ──grant_care_history_access──▶ a care-history access grant at revision 1
//!  a payment delegation ──authorize_payment──▶ the same: proving authority changes nothing
//! ```
//!
//! Both end when their time runs out. Revoking them is the work of another system: a revocation
//! is held and shown, and no operation here makes one.
//!
//! Each grant is a resource of its own. What one member was given for one booking has a *book*
//! beside them: whether a new grant overlaps one in force is decided on one state, so two that
//! overlap cannot both be committed. The book names the latest grant alone, so that it does not
//! grow with the history that it has seen.

pub mod authorize_payment;
pub mod care_history_authority;
pub mod grant;
pub mod grant_care_history_access;
pub mod grant_payment;
pub mod payment_authority;
pub mod read_care_history_grant;
pub mod read_payment_delegation;

#[cfg(test)]
mod samples;
