//! Mothers, and what they say of themselves.
//!
//! A *profile* is born with its first `mother-profile` fact. From then on name, day of birth,
//! address and consents are the mother's to change, the account's lifecycle, the contacts and the
//! ownership other systems':
//!
//! ```text
//!  (none) ──first fact──▶ profile ──update_profile──▶ profileRevision + 1, addressRevision + 1
//!                                 ──later fact──────▶ profileRevision + 1 when it changes what
//!                                                     it owns, nothing otherwise
//! ```
//!
//! Whether a profile is complete, and what the mother may do next, also depends on the
//! `consent-version` facts: it is worked out anew for each answer.

pub mod read_profile;
pub mod state;
pub mod update_profile;
