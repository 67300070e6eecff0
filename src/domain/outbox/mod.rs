//! Messages to other systems: each is a resource of its own, born in the commit that causes it.
//!
//! ```text
//!  waiting ──taken──▶ taken
//!     │  ▲──retry──── dead ◀──not taken at the last attempt── waiting
//!     └──skip──▶ skipped ◀──skip── dead
//! ```
//!
//! A record carries the messages that its commit sends; what becomes of one is in later commits. A
//! message that is taken or skipped keeps no body. What a read shows of a message is joined to the
//! resource that sent it, whose revision stays the same.

mod addressed;
pub mod list;
pub mod message;
pub mod report;
pub mod retry;
pub mod skip;

use crate::base::actor::Actor;

/// The permission to see and mend what waits or is dead.
pub const OUTBOX_MANAGE: &str = "outbox:manage";

/// Whether the actor may see and mend messages: one of the head office, or a system, with the
/// permission.
#[must_use]
pub fn may_manage(actor: &Actor) -> bool {
    actor.may_be_granted(OUTBOX_MANAGE)
}
