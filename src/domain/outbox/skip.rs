//! A message that waits or is dead is given up: nobody needs it any more, and what waits behind it
//! goes on.
//!
//! Resource: the message. Rejections, in the order tested: the actor may not manage messages (403);
//! there is none of this number (404); it is taken or skipped (409). What sent the message goes on
//! showing it as not taken.

use super::list::{MessageBody, body_of};
use super::may_manage;
use super::message::{Message, MessageEvent, number_of};
use super::retry::Reason;
use crate::base::actor::ActorKind;
use crate::base::digest::Digest;
use crate::base::text::Sentence;
use crate::domain::example::Example;
#[cfg(test)]
use crate::domain::ladder::{Case, Ladder};
use crate::domain::operation::{Commit, Context, Decision, Operation};
#[cfg(test)]
use crate::domain::outbox::message::MessageStatus;
use crate::domain::rejection::{Class, Rejection};
use crate::{json_object, path_and_body};

path_and_body! {
    /// What a request asks for.
    pub struct Command {
        /// The message's number.
        pub number = "number",
        body: Body,
    }
}

json_object! {
    /// The body of the request.
    pub struct Body {
        /// Why.
        pub reason: Sentence = "reason",
    }
}

/// The operation.
pub struct SkipMessage;

impl Operation for SkipMessage {
    type Command = Command;
    type Resource = Message;
    type Answer = MessageBody<'static>;

    const REJECTIONS: &'static [(Class, &'static str)] = Reason::TABLE;

    const EXAMPLE: Example = Example {
        actor: ActorKind::SystemWorkflow,
        after: Some("accept_manager_invitation"),
        path: &["$relationshipOutboxMessageId"],
        body: r#"{"reason": "The branch was entered there by hand."}"#,
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
        command: &Command,
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
        let event = MessageEvent::Skipped {
            about: message.about(),
            reason: command.body.reason.as_str().into(),
        };
        let commit = Commit::new(Some(message), event, context.at);
        let answer = body_of(&commit.next);
        commit.answer(answer)
    }
}
