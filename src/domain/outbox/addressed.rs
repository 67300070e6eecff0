//! The message that a command names: who may manage it, whether it exists, whether it is settled.

use super::may_manage;
use super::message::{Message, number_of};
use crate::base::digest::Digest;
#[cfg(test)]
use crate::domain::ladder::{Case, Ladder};
use crate::domain::operation::Context;
#[cfg(test)]
use crate::domain::outbox::message::MessageStatus;
use crate::domain::rejection::Rejection;
use crate::rejections;

rejections! {
    /// Why nothing is changed, in the order tested.
    pub enum Reason {
        /// Authority by token.
        NotPermitted = Forbidden "permission_denied" []
            "Only an actor with the permission outbox:manage may manage messages.",
        /// There is none.
        MessageNotFound = Missing "message_not_found" []
            "There is no message of this number.",
        /// It needs no further attempt.
        MessageSettled = Conflict "message_settled" []
            "The message is taken or skipped already.",
    }
}

/// The key of the message with the number that a path names.
pub(super) fn key_of(number: &str) -> Option<Digest> {
    number_of(number).map(Message::key_of)
}

/// The message in this state, which waits or is dead, for who may manage it.
///
/// # Errors
/// The first of [`Reason`] that applies.
pub(super) fn unsettled<'m>(
    message: Option<&'m Message>,
    context: &Context<'_>,
) -> Result<&'m Message, Rejection> {
    if !may_manage(context.actor) {
        return Err(Reason::NotPermitted.into());
    }
    let Some(message) = message else {
        return Err(Reason::MessageNotFound.into());
    };
    if message.unsettled.is_none() {
        return Err(Reason::MessageSettled.into());
    }
    Ok(message)
}

/// What brings each [`Reason`] about.
#[cfg(test)]
pub(super) fn ladder() -> Ladder {
    Ladder::of_managers()
        .then(Reason::NotPermitted, Case::by_a_stranger)
        .then(Reason::MessageNotFound, Case::at_unknown)
        .then(Reason::MessageSettled, |case| {
            case.alter_at_parameter(|message: &mut Message| {
                message.status = MessageStatus::Taken;
                message.unsettled = None;
            })
        })
}
