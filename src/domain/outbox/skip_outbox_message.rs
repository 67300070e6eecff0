//! A message that waits or is dead is given up: it is not needed any more, and what waits behind it
//! goes on.
//!
//! Resource: the message. Rejections, in the order tested: the actor may not manage messages (403);
//! there is none of this number (404); it is taken or skipped (409). What sent the message goes on
//! showing it as not taken.

use super::addressed::{Reason, key_of, unsettled};
use super::list::{MessageBody, body_of};
use super::message::{Message, MessageEvent};
use crate::base::actor::ActorKind;
use crate::base::digest::Digest;
use crate::base::text::{Ident, NonBlankText};
use crate::domain::example::Example;
#[cfg(test)]
use crate::domain::ladder::Ladder;
use crate::domain::operation::{Commit, Context, Decision, Operation};
use crate::domain::rejection::{Declared, Rejection};
use crate::{json_object, module_doc, path_and_body};

path_and_body! {
    /// The content of a request.
    pub struct Command {
        /// The message's number.
        pub number: Ident = "number",
        body: Body,
    }
}

json_object! {
    /// The body of the request.
    pub struct Body {
        /// Why.
        pub reason: NonBlankText = "reason",
    }
}

/// The operation.
pub struct SkipOutboxMessage;

impl Operation for SkipOutboxMessage {
    type Command = Command;
    type Resource = Message;
    type Answer = MessageBody<'static>;

    const DOC: &'static str = module_doc!("skip_outbox_message.rs");
    const REJECTIONS: &'static [Declared] = Reason::TABLE;

    const EXAMPLE: Example = Example {
        actor: ActorKind::SystemWorkflow,
        after: Some("accept_manager_invitation"),
        path: &["$relationshipOutboxMessageId"],
        body: r#"{"reason": "The branch was entered there by hand."}"#,
        ..Example::NEW
    };

    #[cfg(test)]
    fn ladder() -> Ladder {
        super::addressed::ladder()
    }

    fn target(command: &Command, _: &Context<'_>) -> Option<Digest> {
        key_of(&command.number)
    }

    fn decide(
        message: Option<&Message>,
        command: &Command,
        context: &Context<'_>,
    ) -> Result<Decision<Message>, Rejection> {
        let message = unsettled(message, context)?;
        let event = MessageEvent::Skipped {
            about: message.about(),
            reason: command.body.reason.as_str().into(),
        };
        let commit = Commit::new(Some(message), event, context.at);
        let answer = body_of(&commit.next);
        commit.answer(answer)
    }
}
