//! Attempts at bringing messages to one receiver.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::queue::Next;
use super::{Line, Outgoing, Refused};
use crate::base::actor::Actor;
use crate::base::panics::unless_its_future_panics;
use crate::base::time::Instant;
use crate::catalogue;
use crate::domain::operation::AnyCommand as _;
use crate::domain::outbox::message::{Failure, Message, MessageStatus};
use crate::domain::outbox::report::{Attempt, Report};
use crate::domain::resource::ReadView;
use crate::engine::core::{CommandRequest, CommandResult, PendingCommand, Shared};

/// How long an attempt may take.
const ATTEMPT: Duration = Duration::from_secs(15);
/// The longest wait that a receiver may ask for.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(3_600);
/// The pause before it is tried again to record what became of an attempt.
const RECORD_AGAIN: Duration = Duration::from_secs(1);
/// How many characters of an error are kept.
const ERROR_CHARS_MAX: usize = 200;

impl Shared {
    /// Brings messages to a receiver, for as long as the service runs.
    pub(super) async fn deliver(self: &Arc<Self>, line: &Arc<Line>) {
        while !self.is_ending() {
            let mut news = pin!(line.news.notified());
            news.as_mut().enable();
            let due = {
                let mut queue = line.queue.lock();
                while let Some(next) = queue.next(self.clock.now()) {
                    let (shared, line) = (Arc::clone(self), Arc::clone(line));
                    tokio::spawn(async move {
                        let attempt = pin!(shared.attempt(&line, next));
                        if unless_its_future_panics(attempt).await.is_none() {
                            // It is due as it was: not at once, for the panic may come again.
                            sleep(RECORD_AGAIN).await;
                        }
                        line.queue.lock().ended(next);
                        line.news.notify_one();
                    });
                }
                queue.next_due()
            };
            match due {
                Some(due) => {
                    let millis = due.millis().saturating_sub(self.clock.now().millis());
                    let pause = Duration::from_millis(u64::try_from(millis).unwrap_or(0));
                    tokio::select! {
                        () = news => {}
                        () = sleep(pause) => {}
                    }
                }
                None => news.await,
            }
        }
    }

    /// One attempt, from when the message is durable until what became of it is.
    async fn attempt(self: &Arc<Self>, line: &Line, next: Next) {
        if self.lanes.wait(next.position).await.is_err() {
            return;
        }
        let message = Message::of_number(&ReadView::new(&self.tables), next.number);
        let waiting = message.filter(|message| message.status == MessageStatus::Waiting);
        let Some((message, unsettled)) = waiting
            .and_then(|mut message| Some((message.unsettled.take()?, message)))
            .map(|(unsettled, message)| (message, unsettled))
        else {
            line.queue.lock().remove(next.number);
            return;
        };
        let outgoing = Outgoing {
            id: unsettled.id(message.number),
            number: message.number,
            topic: message.topic,
            resource: message.resource,
            at: unsettled.at,
            body: unsettled.body,
            sent_at: self.clock.now(),
        };
        let began = self.clock.steady();
        let result = bring(line, &outgoing).await;
        let took = self.clock.steady().saturating_sub(began);
        line.count(took, result.is_ok());
        let attempt = match result {
            Ok(()) => Attempt::Taken,
            Err(refused) => self.refused(line, &outgoing, refused, unsettled.tried + 1),
        };
        // Until it is recorded that a message was taken, the next one must not leave.
        loop {
            let attempt = attempt.clone();
            match self.report(next.number, attempt).await {
                CommandResult::Done { .. } => return,
                _ if self.is_ending() => return,
                _ => sleep(RECORD_AGAIN).await,
            }
        }
    }

    /// What becomes of a message that its receiver has not taken at this attempt.
    fn refused(&self, line: &Line, message: &Outgoing, refused: Refused, tried: u32) -> Attempt {
        let error: String = refused.error.chars().take(ERROR_CHARS_MAX).collect();
        let pause = self.outbox.schedule().pause(tried);
        tracing::warn!(
            message = message.number,
            topic = &*message.topic,
            receiver = %line.to.topics,
            tried,
            error,
            is_dead = pause.is_none(),
            "a receiver has not taken a message"
        );
        let failure = Failure {
            status: refused.status,
            error: error.into(),
        };
        let Some(pause) = pause else {
            return Attempt::Dead(failure);
        };
        let asked = refused.retry_after.unwrap_or_default().min(RETRY_AFTER_MAX);
        let pause = i64::try_from(pause.max(asked).as_millis()).unwrap_or(i64::MAX);
        let next = self.clock.now().millis().saturating_add(pause);
        Attempt::Failed(failure, Instant::from_millis(next))
    }

    /// Commits what became of an attempt.
    async fn report(self: &Arc<Self>, number: i64, attempt: Attempt) -> CommandResult {
        let command = Report { number, attempt };
        let pending = PendingCommand {
            operation: catalogue::DELIVER_MESSAGE.0,
            key: Box::default(),
            scope: Box::default(),
            key_digest: None,
            fingerprint: command.fingerprint(),
            born: self.ids.id(self.clock.now()),
            key_lock: None,
            permit: None,
            may_act: None,
            is_dry_run: false,
            request: CommandRequest {
                row: None,
                actor: Arc::new(Actor::nobody()),
                command: Box::new(command),
                header_key: None,
            },
        };
        let reported = unless_its_future_panics(pin!(self.decide(pending))).await;
        reported.unwrap_or(CommandResult::Fault)
    }
}

/// Whether the receiver has taken the message.
async fn bring(line: &Line, message: &Outgoing) -> Result<(), Refused> {
    let refused = |error: &str| Refused {
        error: error.to_owned(),
        ..Refused::default()
    };
    let delivery = async { line.to.receiver.deliver(message).await };
    let delivery = pin!(delivery);
    match timeout(ATTEMPT, unless_its_future_panics(delivery)).await {
        Ok(Some(result)) => result,
        Ok(None) => Err(refused("it panicked")),
        Err(_) => Err(refused("it did not answer in time")),
    }
}
