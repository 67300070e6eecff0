//! Idempotency keys: replays and conflicts.

use std::sync::Arc;

use bytes::Bytes;

use crate::base::digest::KeyDigest;
use crate::catalogue::{KeySource, Row};
use crate::domain::operation::Disposition;
use crate::domain::rejection::{Class, Rejection};
use crate::domain::resource::ReadView;
use crate::engine::core::{CommandRequest, CommandResult, MayAct, PendingCommand, Shared};
use crate::engine::limits::repeats::Repeats;
use crate::engine::recent::Stored;
use crate::journal::record::{Record, RecordOutcome, key_digest};

impl Shared {
    /// Whether the idempotency key of this command was used.
    pub(in crate::engine) fn has_used_key_of(&self, request: &CommandRequest) -> bool {
        let operation = request.row.map_or(0, |row| row.tag);
        key_of(request).is_some_and(|(key, scope, _)| {
            self.tables
                .key(key_digest(operation, &scope, &key))
                .is_some()
        })
    }

    /// Returns the stored response of the commit at `first`; `None` when its request had other content than the
    /// request with the key that led there.
    pub(super) async fn replay(
        &self,
        row: Option<&'static Row>,
        first: u64,
        asked: Option<(KeyDigest, &PendingCommand)>,
        may_act: Option<MayAct>,
    ) -> Option<CommandResult> {
        let position = self.journal.durable().max(first);
        if self.lanes.wait(first).await.is_err() {
            return Some(CommandResult::OutcomeUnknown);
        }
        let stored = match self.stored(first, asked).await {
            Ok(stored) => stored?,
            Err(error) => {
                tracing::error!(position = first, %error, "a stored response cannot be read");
                // The command was done, by whoever used this key.
                return Some(CommandResult::OutcomeUnknown);
            }
        };
        let body = match row {
            Some(row) => row.operation.replayed(stored.body.to_vec()).into(),
            None => stored.body,
        };
        let since = match self.check_still_active(may_act).await {
            Ok(since) => since,
            Err(reply) => return Some(reply),
        };
        Some(CommandResult::Done {
            body,
            disposition: stored.disposition,
            replay: true,
            position: position.max(since),
        })
    }

    /// Rejects a key that the commit at `first` used with other content.
    pub(super) async fn key_reused(
        &self,
        pending: &PendingCommand,
        first: u64,
        code: &'static str,
    ) -> CommandResult {
        let request = &pending.request;
        let message = request.row.map(Row::key_reused).unwrap_or_default();
        let mut rejection = Rejection::new(Class::Conflict, code, message);
        let mut repeats = Repeats::default();
        let position = loop {
            let looked = {
                let durable_before = self.journal.durable().max(first);
                let view = ReadView::new(&self.tables);
                self.read_lifecycle(pending.may_act, &view).map(|()| {
                    rejection.body = request.command.key_reused(&request.actor, &view);
                    let read_set = Self::read_set(durable_before, &view);
                    let position = self.position_of(&read_set);
                    self.is_valid_at_one_instant(&read_set).then_some(position)
                })
            };
            match looked {
                Ok(Some(position)) => break position,
                Ok(None) => {}
                Err(refused) => return self.refuse(refused.0, refused.1).await,
            }
            if repeats.rest().await.is_err() {
                return CommandResult::Unavailable;
            }
        };
        self.refuse_if_still_active(rejection, position, pending.may_act)
            .await
    }

    /// Reads the response stored at `first`; `None` when the command there had other content than `asked`.
    pub(super) async fn stored(
        &self,
        first: u64,
        asked: Option<(KeyDigest, &PendingCommand)>,
    ) -> Result<Option<Stored>, String> {
        let stored = match self.recent.get(first) {
            Some(stored) => stored,
            None => self.stored_in_log(first, asked.map(|(key, _)| key)).await?,
        };
        let same = asked.is_none_or(|(_, pending)| pending.has_content_of(stored.fingerprint));
        Ok(same.then_some(stored))
    }

    async fn stored_in_log(&self, first: u64, key: Option<KeyDigest>) -> Result<Stored, String> {
        let bytes = self.record(first).await?;
        let record = Record::decode(&bytes).map_err(|error| error.to_string())?;
        // The start did not read this record: it trusts the snapshot's note about the key.
        if key.is_some() && record.key_digest() != key {
            return Err(format!("position {first} has the response of another key"));
        }
        let fingerprint = record.key.as_ref().map(|key| key.fingerprint);
        let earlier;
        let outcome = match record.outcome {
            // The record is of a second key of the same command, whose response is stored at the first key's commit.
            RecordOutcome::SameAs(position) => {
                earlier = self.record(position).await?;
                let earlier = Record::decode(&earlier).map_err(|error| error.to_string())?;
                earlier.outcome
            }
            outcome => outcome,
        };
        match (outcome, fingerprint) {
            (
                RecordOutcome::Answer { accepted, body }
                | RecordOutcome::Instead { accepted, body, .. },
                Some(fingerprint),
            ) => Ok(Stored {
                fingerprint,
                body: Bytes::copy_from_slice(body.0),
                disposition: Disposition::from_accepted(accepted),
            }),
            _ => Err(format!("position {first} leads to no response")),
        }
    }

    /// The bytes of the durable record at `position`, or what a snapshot keeps of it.
    pub(super) async fn record(&self, position: u64) -> Result<Vec<u8>, String> {
        let journal = Arc::clone(&self.journal);
        let read = tokio::task::spawn_blocking(move || journal.read(position));
        read.await
            .map_err(|error| error.to_string())?
            .map_err(|error| error.to_string())?
            .ok_or_else(|| format!("position {position} is not in the log"))
    }
}

/// Returns the request's idempotency key, its scope, and the error code for its use with other content.
pub(super) fn key_of(request: &CommandRequest) -> Option<(Box<str>, Box<str>, &'static str)> {
    const REUSED: &str = "idempotency_key_reused";
    let subject = || request.actor.subject.clone();
    match request.row?.key {
        KeySource::None => None,
        KeySource::Header | KeySource::HeaderIfSent => {
            Some((request.header_key.clone()?, subject(), REUSED))
        }
        KeySource::Body => Some((request.command.key()?.into(), subject(), REUSED)),
        KeySource::BodyOfAll { reused } => {
            Some((request.command.key()?.into(), Box::default(), reused))
        }
    }
}
