//! Who and what the commands and their facts name.

/// The branch that everything belongs to.
pub(crate) const BRANCH: &str = "branch-1";
/// The mother whom bookings, drafts, obligations and adjustments belong to.
pub(crate) const MOTHER: &str = "mother-1";
/// Her in the family accounts.
pub(crate) const MOTHER_MEMBER: &str = "member-mother-1";
/// Who pays for her.
pub(crate) const FAMILY_MEMBER: &str = "member-family-1";
/// The product plan of all payments.
pub(crate) const PLAN: &str = "plan-1";

/// The number of the first command: all numbers have nine digits, so that all requests of one
/// operation are of one length.
pub(crate) const FIRST: usize = 100_000_000;
