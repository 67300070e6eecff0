//! Attempts to deliver messages to one receiver.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use crate::base::panics::unless_its_future_panics;
use crate::base::time::Timestamp;
use crate::catalogue::RECORD_MESSAGE_ATTEMPT;
use crate::domain::outbox::message::{Failure, Message, MessageStatus};
use crate::domain::outbox::report::{Attempt, RecordAttempt};
use crate::domain::resource::ReadView;
use crate::engine::channel::schedule;
use crate::engine::core::{CommandResult, Shared};
use crate::engine::outbox::{Next, OutgoingMessage, ReceiverQueue};
use crate::engine::role::writer_proof::CONFIRM_AGAIN;

/// Pause before the recording of an attempt's outcome is retried.
const RECORD_AGAIN: Duration = Duration::from_secs(1);

impl Shared {
    /// Delivers messages to a receiver, for as long as the service runs.
    pub(super) async fn deliver(self: &Arc<Self>, queue: &Arc<ReceiverQueue>) {
        while !self.is_ending() {
            let mut news = pin!(queue.news.notified());
            news.as_mut().enable();
            let now = self.both_clocks();
            let wake = {
                let mut messages = queue.messages.lock();
                while let Some(next) = messages.next(now) {
                    tokio::spawn(Arc::clone(self).attempt(Arc::clone(queue), next));
                }
                messages.wake_at()
            };
            match wake {
                Some(wake) => {
                    tokio::select! {
                        () = news => {}
                        () = sleep(wake.saturating_sub(now.steady)) => {}
                    }
                }
                None => news.await,
            }
        }
    }

    /// Makes one attempt: waits until the message is durable, sends it, and waits until the outcome is durable.
    async fn attempt(self: Arc<Self>, queue: Arc<ReceiverQueue>, next: Next) {
        let attempted = pin!(self.attempted(&queue, next));
        let attempted = unless_its_future_panics(attempted).await;
        if attempted.is_none() {
            // The message stays due after a pause, since the attempt may panic again.
            sleep(RECORD_AGAIN).await;
        }
        let outcome = attempted.flatten();
        let outcome = outcome.as_ref().map(|outcome| outcome.as_ref().copied());
        queue
            .messages
            .lock()
            .ended(next.number, outcome, self.both_clocks());
        queue.news.notify_one();
    }

    /// Returns the outcome of an attempt once it is durable; `None` when nothing was sent.
    async fn attempted(
        self: &Arc<Self>,
        queue: &ReceiverQueue,
        next: Next,
    ) -> Option<Result<(), schedule::Failure>> {
        self.lanes.wait(next.position).await.ok()?;
        // Confirmed before the message is read, since the message may be given up during this wait.
        if !self.writer_proof.confirm_now().await {
            sleep(CONFIRM_AGAIN).await;
            return None;
        }
        let (mut message, position) = {
            let view = ReadView::new(&self.tables);
            let key = Message::key_of(next.number);
            (view.at::<Message>(key)?, view.position(key))
        };
        let is_waiting = message.status == MessageStatus::Waiting;
        let Some(unsettled) = message.unsettled.take_if(|_| is_waiting) else {
            let mut messages = queue.messages.lock();
            messages.put(position, &message, self.both_clocks());
            return None;
        };
        let outgoing = OutgoingMessage {
            id: unsettled.id(message.number),
            number: message.number,
            topic: message.topic,
            resource: message.resource,
            at: unsettled.at,
            body: unsettled.body,
            sent_at: self.clock.now(),
        };
        let began = self.clock.steady();
        let delivery = pin!(async { queue.to.receiver.deliver(&outgoing).await });
        let result = unless_its_future_panics(delivery).await;
        let result = result.unwrap_or_else(|| {
            Err(schedule::Failure {
                status: None,
                error: "a fault of the service".into(),
                retry_after: None,
            })
        });
        let took = self.clock.steady().saturating_sub(began);
        queue.count(took, result.is_ok());
        let attempt = match &result {
            Ok(()) => Attempt::Taken,
            Err(failure) => self.not_taken(queue, &outgoing, failure, unsettled.tried + 1),
        };
        // The next message must not be sent before the log records that this one was taken.
        loop {
            let report = RecordAttempt {
                number: next.number,
                revision: message.revision,
                attempt: attempt.clone(),
            };
            match self.report(RECORD_MESSAGE_ATTEMPT, report).await {
                CommandResult::Done { .. } => return Some(result),
                _ if self.is_ending() => return Some(result),
                _ => sleep(RECORD_AGAIN).await,
            }
        }
    }

    /// Decides what becomes of a message that its receiver did not take at this attempt.
    fn not_taken(
        &self,
        queue: &ReceiverQueue,
        message: &OutgoingMessage,
        failure: &schedule::Failure,
        tried: u32,
    ) -> Attempt {
        let chance = uuid::Uuid::new_v4().as_bytes()[0];
        let pause = schedule::pause(tried, chance, failure.retry_after);
        tracing::warn!(
            message = message.number,
            topic = &*message.topic,
            receiver = %queue.to.topics,
            tried,
            error = &*failure.error,
            is_dead = pause.is_none(),
            "a receiver has not taken a message"
        );
        let failure = Failure {
            status: failure.status,
            error: failure.error.clone(),
        };
        let Some(pause) = pause else {
            return Attempt::Dead(failure);
        };
        let pause = i64::try_from((pause / queue.hurry).as_millis()).unwrap_or(i64::MAX);
        let next = self.clock.now().millis().saturating_add(pause);
        Attempt::Failed(failure, Timestamp::from_millis(next))
    }
}
