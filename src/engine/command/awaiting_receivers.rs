//! The response of a command that waits until the receivers have taken its messages.
//!
//! ```text
//! commit: accepted, messages waiting ──durable──▶ 2 s at most, 0.5 s once the service stops
//!     something was taken ──▶ commit: the key's final response ──▶ it
//!     nothing was         ──▶ the response of the first commit
//! ```
//!
//! The idempotency key stays locked until the response is final. A crash before that leaves the first commit's
//! response stored, in which everything is pending: no other response was sent.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::commit::{NotCommitted, Waking};
use crate::base::codec::Blob;
use crate::base::panics::unless_its_future_panics;
use crate::catalogue::Row;
use crate::domain::erased::Decided;
use crate::domain::operation::Disposition;
use crate::domain::outbox::message::{Message, MessageStatus};
use crate::domain::resource::ReadView;
use crate::engine::core::{CommandResult, PendingCommand, Shared};
use crate::engine::limits::repeats::Repeats;
use crate::engine::recent::Stored;
use crate::journal::record::{NewRecord, RecordKey, RecordOutcome, SCHEMA};

/// How long a client waits for the receivers to take its messages.
const PATIENCE: Duration = Duration::from_secs(2);
/// The same once the service stops: the response must be sent before the stop ends.
const PATIENCE_AT_STOP: Duration = Duration::from_millis(500);

/// A committed command whose client waits for the receivers to take its messages.
pub(crate) struct AwaitingReceivers {
    /// The command, with its key locked.
    pub(crate) pending: PendingCommand,
    /// The position of its commit, and the response stored there.
    pub(crate) position: u64,
    pub(crate) stored: Stored,
    /// The numbers of its messages.
    pub(crate) messages: Vec<i64>,
    pub(crate) answer: oneshot::Sender<CommandResult>,
}

/// Returns the numbers of the messages whose receivers the response waits for.
pub(crate) fn awaited(row: Option<&Row>, decided: &Decided) -> Vec<i64> {
    if decided.disposition == Disposition::Done || !row.is_some_and(|row| row.awaits_receivers) {
        return Vec::new();
    }
    let sent = decided.outbox.iter();
    sent.map(|message| message.number).collect()
}

/// What has become of an attempt to replace the first commit's response.
enum FinalResponse {
    /// It is committed at this position.
    Committed(u64, Stored),
    /// The first commit's response stays.
    FirstStays,
    /// What was read has changed meanwhile: the attempt is repeated.
    Changed,
}

/// Finishes the response, whether or not the client still waits for it.
pub(crate) fn start(shared: Arc<Shared>, waiting: AwaitingReceivers) {
    tokio::spawn(async move {
        // After a panic no response is sent; the first commit's response stays stored for the key.
        let _ = unless_its_future_panics(pin!(shared.finish(waiting))).await;
    });
}

impl Shared {
    /// Sends the final response, once the receivers have taken the messages or the patience is over.
    async fn finish(self: &Arc<Self>, waiting: AwaitingReceivers) {
        let AwaitingReceivers {
            mut pending,
            position,
            stored,
            messages,
            answer,
        } = waiting;
        let permit = pending.permit.take();
        let result = match self.lanes.wait(position).await {
            Err(_) => CommandResult::OutcomeUnknown,
            Ok(()) => {
                let known = async {
                    tokio::select! {
                        () = self.until_known(&messages) => {}
                        () = self.feed.ended_for(PATIENCE_AT_STOP) => {}
                    }
                };
                let _ = timeout(PATIENCE, known).await;
                let committed = self.final_response(&pending, position, &stored);
                let committed = unless_its_future_panics(pin!(committed)).await.flatten();
                let (position, stored) = committed.unwrap_or((position, stored));
                match self.lanes.wait(position).await {
                    Ok(()) => CommandResult::Done {
                        body: stored.body,
                        disposition: stored.disposition,
                        replay: false,
                        position,
                    },
                    Err(_) => CommandResult::OutcomeUnknown,
                }
            }
        };
        drop(pending);
        // A client that has disconnected can send the command again.
        let _ = answer.send(result);
        drop(permit);
    }

    /// Waits until the outcome of each message is known.
    async fn until_known(&self, messages: &[i64]) {
        loop {
            let mut progress = pin!(self.outbox.progress());
            progress.as_mut().enable();
            if self.is_known(messages) {
                return;
            }
            progress.await;
        }
    }

    /// Whether each message is taken, was tried in vain, or waits behind another message of its receiver that was
    /// tried in vain.
    fn is_known(&self, messages: &[i64]) -> bool {
        let view = ReadView::new(&self.tables);
        let mut failing = Vec::new();
        messages.iter().all(|number| {
            let Some(message) = Message::of_number(&view, *number) else {
                return true;
            };
            let queue = self.outbox.queue_of(&message.topic).map(Arc::as_ptr);
            match (message.status, message.attempts) {
                (MessageStatus::Taken, _) => true,
                (MessageStatus::Waiting, 0) => failing.contains(&queue),
                _ => {
                    failing.push(queue);
                    true
                }
            }
        })
    }

    /// Commits a response that shows which messages were taken, in place of the one at `position`; `None` when that
    /// one stays valid.
    async fn final_response(
        &self,
        pending: &PendingCommand,
        position: u64,
        first: &Stored,
    ) -> Option<(u64, Stored)> {
        let mut repeats = Repeats::default();
        loop {
            match self.try_final_response(pending, position, first) {
                FinalResponse::Committed(position, stored) => return Some((position, stored)),
                FinalResponse::FirstStays => return None,
                FinalResponse::Changed => repeats.rest().await.ok()?,
            }
        }
    }

    /// Tries once what [`Shared::final_response`] does.
    fn try_final_response(
        &self,
        pending: &PendingCommand,
        position: u64,
        first: &Stored,
    ) -> FinalResponse {
        let (Some(row), Some(key)) = (pending.request.row, pending.key_digest) else {
            return FinalResponse::FirstStays;
        };
        let view = ReadView::new(&self.tables);
        let Some((body, disposition)) = row.operation.final_response(&first.body, &view) else {
            return FinalResponse::FirstStays;
        };
        let at = self.commit_times.at(self.clock.now());
        let read_set = Self::read_set(position, &view);
        let record = NewRecord {
            schema: SCHEMA,
            at,
            operation: pending.operation,
            subject: &pending.scope,
            actor: None,
            key: Some(RecordKey {
                key: &*pending.key,
                fingerprint: pending.fingerprint,
            }),
            changes: Vec::new(),
            outbox: &[],
            outcome: RecordOutcome::Instead {
                of: position,
                accepted: disposition.is_accepted(),
                body: Blob(body.as_slice()),
            },
        };
        let Ok(mut record) = record.encode_within(self.limits.record_bytes_max) else {
            return FinalResponse::FirstStays;
        };
        if !self.has_room() {
            return FinalResponse::FirstStays;
        }
        let committed: Result<u64, NotCommitted> = self.append_and_publish(
            Waking::ByLane,
            || {
                let at = self.validate(&read_set, at)?;
                self.validate_key(key, Some(position))?;
                Ok(at)
            },
            |sequence, _| sequence.push_taking(&mut record),
            |last| {
                self.tables.take_key(key, last);
                || ()
            },
        );
        let last = match committed {
            Ok(last) => last,
            Err(NotCommitted::Changed | NotCommitted::Overtaken) => return FinalResponse::Changed,
            Err(NotCommitted::KeyChanged) => return FinalResponse::FirstStays,
            Err(NotCommitted::Refused(error)) => {
                tracing::error!(%error, "the log has not accepted a record");
                return FinalResponse::FirstStays;
            }
        };
        let stored = Stored {
            fingerprint: pending.fingerprint,
            body: Bytes::from(body),
            disposition,
        };
        self.recent.keep(last, &stored);
        FinalResponse::Committed(last, stored)
    }
}
