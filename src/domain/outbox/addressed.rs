//! The checks of the message that a command names: whether the actor may manage it, whether it
//! exists, whether it is settled.

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
            "Only headquarters and system workflows with outbox:manage may manage messages.",
        /// There is none.
        MessageNotFound = Missing "message_not_found" []
            "There is no message of this number.",
        /// It needs no further attempt.
        MessageSettled = Conflict "message_settled" []
            "The message is taken or skipped already.",
    }
}

/// Returns the key of the message whose number is in the path.
pub(super) fn key_of(number: &str) -> Option<Digest> {
    number_of(number).map(Message::key_of)
}

/// Returns the message, if it waits or is dead and the actor may manage it.
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

/// Returns a case in which each [`Reason`] applies.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_to_manage_messages_names_who_may() {
        let refusal = Rejection::from(Reason::NotPermitted);
        let who = "headquarters and system workflows with outbox:manage";
        assert!(refusal.message.contains(who), "{}", refusal.message);
    }
}
