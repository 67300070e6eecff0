//! A message that waits or is dead is to be tried again at once.
//!
//! Resource: the message. Rejections, in the order tested: the actor may not manage messages (403);
//! there is none of this number (404); it is taken or skipped (409). It has all its attempts before
//! it again.

use super::list::{MessageBody, body_of};
use super::may_manage;
use super::message::{Message, MessageEvent, number_of};
use crate::base::actor::ActorKind;
use crate::base::digest::Digest;
use crate::domain::example::Example;
#[cfg(test)]
use crate::domain::ladder::{Case, Ladder};
use crate::domain::operation::{Commit, Context, Decision, Operation};
#[cfg(test)]
use crate::domain::outbox::message::MessageStatus;
use crate::domain::rejection::{Class, Rejection};
use crate::{json_object, path_and_body, rejections};

path_and_body! {
    /// What a request asks for.
    pub struct Command {
        /// The message's number.
        pub number = "number",
        body: Body,
    }
}

json_object! {
    /// The body of the request, which may be left out.
    pub struct Body {
        /// Why, for the log.
        pub reason: Option<crate::base::text::Sentence> = "reason",
    }
}

rejections! {
    /// Why a message is not tried again.
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

/// The operation.
pub struct RetryMessage;

impl Operation for RetryMessage {
    type Command = Command;
    type Resource = Message;
    type Answer = MessageBody<'static>;

    const REJECTIONS: &'static [(Class, &'static str)] = Reason::TABLE;

    const EXAMPLE: Example = Example {
        actor: ActorKind::SystemWorkflow,
        after: Some("accept_manager_invitation"),
        path: &["$relationshipOutboxMessageId"],
        ..Example::NEW
    };

    #[cfg(test)]
    fn ladder() -> Ladder {
        Ladder::new()
            .then(Reason::NotPermitted, Case::by_a_stranger)
            .then(Reason::MessageNotFound, Case::at_unknown)
            .then(Reason::MessageSettled, |case| {
                case.alter_at_parameter(|message: &mut Message| {
                    message.status = MessageStatus::Taken;
                    message.unsettled = None;
                })
            })
    }

    fn target(command: &Command, _: &Context<'_>) -> Option<Digest> {
        number_of(&command.number).map(Message::key_of)
    }

    fn decide(
        message: Option<&Message>,
        _: &Command,
        context: &Context<'_>,
    ) -> Result<Decision<Message>, Rejection> {
        if !may_manage(context.actor) {
            return Err(Reason::NotPermitted.into());
        }
        let Some(message) = message else {
            return Err(Reason::MessageNotFound.into());
        };
        if message.unsettled.is_none() {
            return Err(Reason::MessageSettled.into());
        }
        let commit = Commit::new(Some(message), MessageEvent::Retried {}, context.at);
        let answer = body_of(&commit.next);
        commit.answer(answer)
    }
}
