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

use crate::base::codec::Blob;
use crate::base::panics::unless_its_future_panics;
use crate::catalogue::Row;
use crate::domain::erased::Decided;
use crate::domain::operation::Disposition;
use crate::domain::outbox::message::{Message, MessageStatus};
use crate::domain::resource::ReadView;
use crate::engine::abort_unless_published::AbortUnlessPublished;
use crate::engine::core::{CommandResult, PendingCommand, Shared};
use crate::engine::limits::repeats::Repeats;
use crate::engine::recent::Stored;
use crate::journal::record::{NewRecord, RecordKey, RecordOutcome, SCHEMA};

/// How long a client waits for the receivers to take its messages.
const PATIENCE: Duration = Duration::from_secs(2);
/// The same once the service stops: the response must be sent before the stop ends.
const PATIENCE_AT_STOP: Duration = Duration::from_millis(500);

/// A committed command whose client waits for the receivers to take its messages.
pub(crate) struct Unsettled {
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

/// Settles the response, whether or not the client still waits for it.
pub(crate) fn start(shared: Arc<Shared>, unsettled: Unsettled) {
    tokio::spawn(async move {
        // After a panic no response is sent; the first commit's response stays stored for the key.
        let _ = unless_its_future_panics(pin!(shared.settle(unsettled))).await;
    });
}

impl Shared {
    async fn settle(self: &Arc<Self>, unsettled: Unsettled) {
        let Unsettled {
            mut pending,
            position,
            stored,
            messages,
            answer,
        } = unsettled;
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
                let settled = self.settled(&pending, position, &stored);
                let settled = unless_its_future_panics(pin!(settled)).await.flatten();
                let (position, stored) = settled.unwrap_or((position, stored));
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
            let line = self.outbox.line(&message.topic).map(Arc::as_ptr);
            match (message.status, message.attempts) {
                (MessageStatus::Taken, _) => true,
                (MessageStatus::Waiting, 0) => failing.contains(&line),
                _ => {
                    failing.push(line);
                    true
                }
            }
        })
    }

    /// Commits a response that shows which messages were taken, in place of the one at `position`; `None` when that
    /// one stays valid.
    async fn settled(
        &self,
        pending: &PendingCommand,
        position: u64,
        first: &Stored,
    ) -> Option<(u64, Stored)> {
        let mut repeats = Repeats::default();
        loop {
            match self.try_settled(pending, position, first)? {
                Some(settled) => return Some(settled),
                None => repeats.rest().await.ok()?,
            }
        }
    }

    /// Tries what [`Shared::settled`] does; `Some(None)` when what was read has changed meanwhile.
    fn try_settled(
        &self,
        pending: &PendingCommand,
        position: u64,
        first: &Stored,
    ) -> Option<Option<(u64, Stored)>> {
        let row = pending.request.row?;
        let key = pending.key_digest?;
        let view = ReadView::new(&self.tables);
        let (body, disposition) = row.operation.final_response(&first.body, &view)?;
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
        let record = record.encode_within(self.limits.record_bytes_max).ok()?;
        if !self.has_room() {
            return None;
        }
        let mut sequence = self.journal.sequence();
        if !self.is_valid(&read_set) || !self.commit_times.can_be_next(at) {
            return Some(None);
        }
        if self.tables.key(key) != Some(position) {
            tracing::error!("an idempotency key was used while it was locked");
            return None;
        }
        let settled = sequence.push(record).ok()?;
        // From here on the log has the commit: if the rest of it cannot be published, the process must end.
        let abort_guard = AbortUnlessPublished;
        self.commit_times.next_is(at);
        self.tables.take_key(key, settled);
        self.lanes.end(sequence, || ());
        std::mem::forget(abort_guard);
        let stored = Stored {
            fingerprint: pending.fingerprint,
            body: Bytes::from(body),
            disposition,
        };
        self.recent.keep(settled, &stored);
        Some(Some((settled, stored)))
    }
}
