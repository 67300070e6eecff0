//! Settlement between the head office and its branches.
//!
//! A *statement* asks a branch for a deposit over a period:
//!
//! ```text
//!  (none) ──request_deposit──▶ awaiting_branch_deposit ──acknowledge_deposit──▶ awaiting_confirmation
//!                                            arrears ──acknowledge_deposit──────────▲
//! ```
//!
//! `settled`, `reconciliation` and `arrears` are reached by other systems' work, which this
//! service does not carry out.

pub mod acknowledge_deposit;
pub mod read_statement;
pub mod request_deposit;
#[cfg(test)]
mod samples;
pub mod state;
