//! Records whether a receiver has taken a message.
//!
//! Resource: the message. No client can request this: it has no path. A message that is already
//! settled, or dead, is not changed.

use super::message::{Failure, Message, MessageEvent, MessageStatus};
use crate::base::digest::Digest;
use crate::base::revision::Revision;
use crate::base::time::Timestamp;
use crate::domain::operation::{Commit, Context, Decision};
use crate::domain::rejection::Rejection;
use crate::domain::report::Report;

/// The result of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// The receiver has taken the message.
    Taken,
    /// The receiver has not taken the message, and gets it again at this time.
    Failed(Failure, Timestamp),
    /// The receiver has not taken the message, and this was the last attempt.
    Dead(Failure),
}

/// The report.
pub struct RecordAttempt {
    /// The number of the message.
    pub number: i64,
    /// The message's revision at which it was sent.
    pub revision: Revision,
    /// The result of the attempt.
    pub attempt: Attempt,
}

impl Report for RecordAttempt {
    type Resource = Message;

    fn resource(&self) -> Digest {
        Message::key_of(self.number)
    }

    fn decide(
        &self,
        message: Option<&Message>,
        context: &Context<'_>,
    ) -> Result<Decision<Message>, Rejection> {
        let waiting = message.filter(|message| message.status == MessageStatus::Waiting);
        let Some(waiting) = waiting else {
            return Ok(Decision::Answer(Vec::new()));
        };
        let event = match &self.attempt {
            Attempt::Taken => MessageEvent::Taken(waiting.about()),
            // A retry was requested during this attempt: its failure must not count as that of the
            // retry.
            Attempt::Failed(failure, _) | Attempt::Dead(failure)
                if waiting.revision != self.revision =>
            {
                MessageEvent::Failed {
                    next_attempt_at: context.now,
                    failure: failure.clone(),
                }
            }
            Attempt::Failed(failure, next_attempt_at) => MessageEvent::Failed {
                next_attempt_at: *next_attempt_at,
                failure: failure.clone(),
            },
            Attempt::Dead(failure) => MessageEvent::Dead {
                about: waiting.about(),
                failure: failure.clone(),
            },
        };
        Commit::new(message, event, context.at).answer(Vec::new())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::catalogue::MANAGEMENT;
    use crate::domain::ladder::Case;

    #[test]
    fn an_attempt_that_was_under_way_when_it_was_retried_is_not_the_last_one() {
        let mut rows = MANAGEMENT.iter();
        let retry = rows.find(|row| row.name == "retry_outbox_message");
        let mut case = Case::of_example(retry.unwrap());
        let number = case.parameter().parse().unwrap();
        let last = |revision| RecordAttempt {
            number,
            revision,
            attempt: Attempt::Dead(Failure {
                status: Some(500),
                error: "it answered 500".into(),
            }),
        };
        let mut untouched = case.service.clone();
        untouched.recorded(&last(Revision::FIRST));
        let dead: Message = untouched.state(&[&number.to_string()]).unwrap();
        assert_eq!(dead.status, MessageStatus::Dead);
        case.ask().committed();
        case.service.recorded(&last(Revision::FIRST));
        let waits: Message = case.service.state(&[&number.to_string()]).unwrap();
        assert_eq!(waits.status, MessageStatus::Waiting);
        assert_eq!(waits.unsettled.unwrap().tried, 1);
    }

    #[test]
    fn a_retry_is_due_at_once_whatever_pause_there_was_or_would_have_been() {
        let mut rows = MANAGEMENT.iter();
        let retry = rows.find(|row| row.name == "retry_outbox_message");
        let mut case = Case::of_example(retry.unwrap());
        let number = case.parameter().parse().unwrap();
        let hours_later = Timestamp::parse("2026-11-20T20:00:00Z").unwrap();
        let failed = |revision| RecordAttempt {
            number,
            revision,
            attempt: Attempt::Failed(
                Failure {
                    status: Some(500),
                    error: "it answered 500".into(),
                },
                hours_later,
            ),
        };
        let due = |case: &Case| {
            let message: Message = case.service.state(&[&number.to_string()]).unwrap();
            message.unsettled.unwrap().next_attempt_at
        };
        case.service.recorded(&failed(Revision::FIRST));
        assert_eq!(due(&case), Some(hours_later));
        let answer = case.ask().committed();
        assert_eq!(answer["nextAttemptAt"], serde_json::Value::Null);
        assert_eq!(due(&case), None);
        // The report of the attempt that was in flight when the retry was requested.
        case.service.at("2026-11-20T12:00:05Z");
        case.service.recorded(&failed(Revision::FIRST));
        assert_eq!(due(&case), Timestamp::parse("2026-11-20T12:00:05Z"));
    }
}
