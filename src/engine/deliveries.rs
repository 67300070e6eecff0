//! The deliveries of a branch's messages: the first attempt, while the client that created it
//! waits, and the later ones, until nothing is pending.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use super::core::{CommandResult, PendingCommand, Shared, Stored};
use super::lane::LogFailed;
use crate::base::digest::Digest;
use crate::base::panics::unless_its_future_panics;
use crate::domain::branch::complete_side_effects::CompleteSideEffects;
use crate::domain::branch::deliveries::{BranchDeliveries, branches_in_repair};
use crate::domain::branch::directory_message::DirectoryMessage;
use crate::domain::resource::{ReadView, Source as _};

/// How long the client that creates a branch waits for the directory.
const FIRST_ATTEMPT: Duration = Duration::from_secs(2);
/// How long a later attempt may take.
const LATER_ATTEMPT: Duration = Duration::from_secs(10);
/// The longest pause as a multiple of the first one: 1 s grows to a minute.
const GROWTH_MAX: u32 = 60;
/// The operation whose side effects these are.
const CREATE_BRANCH: u16 = 3;

/// The pauses between attempts: each twice the one before, and shortened at random by up to a half,
/// so that attempts that failed together are not repeated together.
struct Pauses {
    first: Duration,
    /// The next pause as a multiple of the first one.
    times: u32,
}

impl Pauses {
    fn next(&mut self) -> Duration {
        let whole = self.first * self.times;
        self.times = (self.times * 2).min(GROWTH_MAX);
        let chance = uuid::Uuid::new_v4().as_bytes()[0];
        whole - whole / 2 * u32::from(chance) / 255
    }

    fn reset(&mut self) {
        self.times = 1;
    }
}

/// A branch that was just created, and whose client waits.
pub(crate) struct Created {
    pub(crate) deliveries: Digest,
    /// The command, with its key locked.
    pub(crate) pending: PendingCommand,
    /// The position of its commit, and the response stored there.
    pub(crate) position: u64,
    pub(crate) stored: Stored,
    pub(crate) answer: oneshot::Sender<CommandResult>,
}

/// Starts the deliveries, whether or not the client still waits for the response.
pub(crate) fn start(shared: Arc<Shared>, created: Created) {
    tokio::spawn(async move {
        let deliveries = created.deliveries;
        let first = unless_its_future_panics(pin!(shared.first_attempt(created))).await;
        // What a panic has left over is delivered later, as what was not accepted.
        if first.is_none_or(|first| first.is_ok()) {
            shared.deliver_the_rest(deliveries, true).await;
        }
    });
}

impl Shared {
    /// The deliveries of which something is pending.
    pub(crate) fn branches_in_repair(&self) -> Vec<Digest> {
        self.tables.listed(branches_in_repair())
    }

    pub(crate) fn resume_deliveries(self: &Arc<Self>) {
        let left_over = std::mem::take(&mut *self.relay.left_over.lock());
        if !self.relay.is_external() {
            if !left_over.is_empty() {
                tracing::warn!(
                    branches = left_over.len(),
                    "messages for an external directory stay pending: no --directory-url is given"
                );
            }
            return;
        }
        for deliveries in left_over {
            let shared = Arc::clone(self);
            tokio::spawn(async move { shared.deliver_the_rest(deliveries, false).await });
        }
    }

    /// Sends each message of a new branch once, then answers its command.
    async fn first_attempt(self: &Arc<Self>, created: Created) -> Result<(), LogFailed> {
        let Created {
            deliveries,
            mut pending,
            position,
            stored,
            answer,
        } = created;
        // A client that has disconnected can send the command again.
        let tell = |reply| drop(answer.send(reply));
        let messages = match self.pending_messages(deliveries).await {
            Ok(messages) => messages,
            Err(failed) => {
                tell(CommandResult::OutcomeUnknown);
                return Err(failed);
            }
        };
        let mut taken = Vec::new();
        let attempt = async {
            for message in &messages {
                if !self.relay.deliver(message).await {
                    break;
                }
                taken.push(message.number);
            }
        };
        if timeout(FIRST_ATTEMPT, attempt).await.is_err()
            && let Some(late) = messages.get(taken.len())
        {
            self.relay.failed(late, "it did not respond in time");
        }
        let permit = pending.permit.take();
        let settled = if taken.is_empty() {
            None
        } else {
            pending.request.command = Box::new(CompleteSideEffects {
                deliveries,
                outbox_message_ids: taken,
            });
            pending.instead_of = Some(position);
            // What the directory has accepted is committed even if the actor may no longer act.
            pending.may_act = None;
            unless_its_future_panics(pin!(self.decide(pending))).await
        };
        match settled {
            Some(reply @ (CommandResult::Done { .. } | CommandResult::OutcomeUnknown)) => {
                tell(reply)
            }
            // Nothing more was committed: the first response is final.
            _ => tell(CommandResult::Done {
                body: stored.body,
                disposition: stored.disposition,
                replay: false,
                position,
            }),
        }
        drop(permit);
        Ok(())
    }

    /// Tries until nothing of the branch is pending.
    async fn deliver_the_rest(self: &Arc<Self>, deliveries: Digest, pause_first: bool) {
        let mut pauses = Pauses {
            first: self
                .relay
                .outside
                .get()
                .map_or(Duration::from_secs(1), |outside| outside.first_pause),
            times: 1,
        };
        let mut must_pause = pause_first;
        loop {
            let pending = pin!(self.pending_messages(deliveries));
            let messages = match unless_its_future_panics(pending).await {
                Some(Ok(messages)) => messages,
                Some(Err(LogFailed)) => return,
                None => {
                    sleep(pauses.next()).await;
                    continue;
                }
            };
            let Some(message) = messages.first() else {
                return;
            };
            if must_pause {
                sleep(pauses.next()).await;
            }
            must_pause = !self.deliver_later(deliveries, message).await;
            if !must_pause {
                pauses.reset();
            }
        }
    }

    /// One later attempt; whether the side effect is completed.
    async fn deliver_later(
        self: &Arc<Self>,
        deliveries: Digest,
        message: &DirectoryMessage,
    ) -> bool {
        let taken = {
            let _turn = self.relay.turns.acquire().await;
            match timeout(LATER_ATTEMPT, self.relay.deliver(message)).await {
                Ok(taken) => taken,
                Err(_) => {
                    self.relay.failed(message, "it did not respond in time");
                    false
                }
            }
        };
        // If this fails, the message is sent again under its number.
        taken
            && matches!(
                self.complete(deliveries, message.number).await,
                CommandResult::Done { .. }
            )
    }

    /// Commits that the directory has accepted a message whose command was answered before.
    async fn complete(self: &Arc<Self>, deliveries: Digest, number: i64) -> CommandResult {
        let report = CompleteSideEffects {
            deliveries,
            outbox_message_ids: vec![number],
        };
        self.report(CREATE_BRANCH, report).await
    }

    /// The pending messages of the branch, once that is durable.
    async fn pending_messages(
        &self,
        deliveries: Digest,
    ) -> Result<Vec<DirectoryMessage>, LogFailed> {
        let (messages, position) = {
            let view = ReadView::new(&self.tables);
            let messages = view
                .at::<BranchDeliveries>(deliveries)
                .and_then(|pending| Some(pending.pending_messages(&pending.branch(&view)?)));
            (messages.unwrap_or_default(), view.position(deliveries))
        };
        self.lanes.wait(position).await?;
        Ok(messages)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_minute_and_none_is_like_another() {
        let mut pauses = Pauses {
            first: Duration::from_secs(1),
            times: 1,
        };
        for whole in [1, 2, 4, 8, 16, 32, 60, 60] {
            let pause = pauses.next();
            let whole = Duration::from_secs(whole);
            assert!(
                pause <= whole && pause >= whole / 2,
                "{pause:?} of {whole:?}"
            );
        }
        pauses.reset();
        assert!(pauses.next() <= Duration::from_secs(1));
    }

    #[test]
    fn the_catalogue_has_the_operation_whose_side_effects_these_are() {
        assert_eq!(
            crate::catalogue::operation_name(CREATE_BRANCH),
            "create_branch"
        );
    }
}
