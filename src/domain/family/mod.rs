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
//! What one member was ever granted for one booking is one resource, a *book*: whether a new grant
//! overlaps a standing one is decided on one state, so two that overlap cannot both be committed.
//! A single grant is found through its identifier, a name of its book.

pub mod authorize_payment;
pub mod care_history_authority;
pub mod grant;
pub mod grant_care_history_access;
pub mod grant_payment;
pub mod payment_authority;
pub mod read_care_history_grant;
pub mod read_payment_delegation;

#[cfg(test)]
mod fixture;
