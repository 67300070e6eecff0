//! Settlement between the head office and its branches.
//!
//! A *statement* asks a branch for a deposit over a period:
//!
//! ```text
//!  (none) ──request_deposit──▶ awaiting_branch_deposit ──acknowledge_deposit──▶ awaiting_confirmation
//!                                            arrears ──acknowledge_deposit──────────▲
//! ```
//!
//! `settled`, `reconciliation` and `arrears` are set by other systems, whose work this service does
//! not carry out.
//!
//! A *data-room request* asks for an export of settlement records; a workflow makes the files
//! elsewhere and reports here that they are ready:
//!
//! ```text
//!  (none) ──open_data_room_request──▶ open ──mark_artifact_ready──▶ ready ──mark_artifact_ready──▶ ready
//! ```

pub mod acknowledge_deposit;
pub mod body;
pub mod data_room;
pub mod mark_artifact_ready;
pub mod open_data_room_request;
pub mod read_data_room;
pub mod read_statement;
pub mod request_deposit;
#[cfg(test)]
mod samples;
pub mod state;
pub mod statement;
mod version_1;
mod version_2;
