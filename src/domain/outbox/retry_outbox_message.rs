//! A message that waits or is dead is to be tried again at once.
//!
//! Resource: the message. Rejections, in the order tested: the actor may not manage messages (403);
//! there is none of this number (404); it is taken or skipped (409). It has all its attempts before
//! it again.

use super::addressed::{Reason, key_of, unsettled};
use super::list::{MessageBody, body_of};
use super::message::{Message, MessageEvent};
use crate::base::actor::ActorKind;
use crate::base::digest::Digest;
use crate::base::text::Ident;
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
    /// The body of the request, which may be left out.
    pub struct Body {
        /// As of a skip, whose body does here, too; of a retry it is not kept.
        pub reason: Option<crate::base::text::NonBlankText> = "reason",
    }
}

/// The operation.
pub struct RetryOutboxMessage;

impl Operation for RetryOutboxMessage {
    type Command = Command;
    type Resource = Message;
    type Answer = MessageBody<'static>;

    const DOC: &'static str = module_doc!("retry_outbox_message.rs");
    const REJECTIONS: &'static [Declared] = Reason::TABLE;

    const EXAMPLE: Example = Example {
        actor: ActorKind::SystemWorkflow,
        after: Some("accept_manager_invitation"),
        path: &["$relationshipOutboxMessageId"],
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
        _: &Command,
        context: &Context<'_>,
    ) -> Result<Decision<Message>, Rejection> {
        let message = unsettled(message, context)?;
        let commit = Commit::new(Some(message), MessageEvent::Retried {}, context.at);
        let answer = body_of(&commit.next);
        commit.answer(answer)
    }
}
