//! Reads a log from its first live record to its end and returns the findings. It changes nothing and judges nothing:
//! `verdict` and `recovery` do.

mod found;
mod unlisted;
mod walk;

pub(crate) use found::{MISSING, OTHER_RECORDS, OpenSegment, Survey, ends_early};
pub(crate) use unlisted::orphan;
pub(crate) use walk::{survey, survey_behind, survey_upto};
