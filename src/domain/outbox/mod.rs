//! Messages to other systems: each is a resource of its own, created by the commit that causes it.
//!
//! ```text
//!  waiting ──taken──▶ taken
//!     │  ▲──retry──── dead ◀──not taken at the last attempt── waiting
//!     └──skip──▶ skipped ◀──skip── dead
//! ```
//!
//! A record carries the messages that its commit sends; later commits record what becomes of them.
//! A message that is taken or skipped keeps no body. The status of a message is shown with the
//! resource that sent it, whose revision stays the same.

mod addressed;
pub mod list;
pub mod message;
pub mod report;
pub mod retry_outbox_message;
pub mod skip_outbox_message;
pub mod topics;

use crate::base::actor::Actor;

/// The permission to see, retry and skip messages that wait or are dead.
pub const OUTBOX_MANAGE: &str = "outbox:manage";

/// Whether the actor may see, retry and skip messages: a person of the head office, or a system,
/// with the permission.
#[must_use]
pub fn may_manage(actor: &Actor) -> bool {
    actor.may_be_granted(OUTBOX_MANAGE)
}
