//! Mothers, and the data that they give about themselves.
//!
//! A *profile* is created by its first `mother-profile` fact. From then on, the mother changes
//! name, day of birth, address and consents; other systems change the account's lifecycle, the
//! contacts and the ownership:
//!
//! ```text
//!  (none) ──first fact──▶ profile ──update_mother_profile──▶ profileRevision + 1, addressRevision + 1
//!                                 ──later fact─────────────▶ profileRevision + 1 when it changes what
//!                                                            it owns, nothing otherwise
//! ```
//!
//! Whether a profile is complete, and what the mother may do next, also depends on the
//! `consent-version` facts: each answer computes it afresh.

pub mod read_profile;
pub mod state;
pub mod update_mother_profile;
