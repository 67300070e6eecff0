//! The steps of a command: lifecycle, idempotency key, unique keys, actor, and the wait until its response is
//! durable.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::oneshot;
use uuid::Uuid;

use super::idempotency::key_of;
use crate::base::actor::Actor;
use crate::base::digest::Fingerprint;
use crate::base::panics::unless_its_future_panics;
use crate::base::time::Timestamp;
use crate::catalogue::Row;
use crate::domain::fact_kinds;
use crate::domain::operation::{Context, Disposition};
use crate::domain::rejection::Rejection;
use crate::domain::report::Report;
use crate::domain::resource::ReadView;
use crate::engine::core::{
    ActorMessage, ActorResult, CachedState, CommandRequest, CommandResult, MayAct, Mode,
    PendingCommand, Shared,
};
use crate::engine::id_source::IdSourceAt;
use crate::engine::limits::admission::Permit;
use crate::journal::record::key_digest;

impl Shared {
    /// Carries out a command: checks whether the actor may act, locks its idempotency key or replays the stored
    /// response, and has it decided. `born` is the identifier of the resource that it creates, if it was chosen
    /// beforehand.
    ///
    /// Returns once the response may leave: everything that it depends on is durable. When the future is dropped, the
    /// command is not cancelled: one that has reached its actor is decided and committed all the same.
    pub(in crate::engine) async fn execute(
        self: &Arc<Self>,
        request: CommandRequest,
        permit: Option<Permit>,
        mode: Mode,
        born: Option<Uuid>,
    ) -> CommandResult {
        if self.ended.load(Ordering::Acquire) {
            return CommandResult::Unavailable;
        }
        if self.role.is_standby() {
            return CommandResult::NotWriter;
        }
        // Reference facts are loaded by an actor, too.
        let may_act = if request.row.is_none_or(|row| row.bearer) {
            match self.may_act(&request.actor.subject).await {
                Ok(may_act) => Some(may_act),
                Err(reply) => return reply,
            }
        } else {
            None
        };
        let mut pending = PendingCommand {
            operation: request.row.map_or(0, |row| row.tag),
            mode,
            key: Box::default(),
            scope: request.actor.subject.clone(),
            key_digest: None,
            fingerprint: request.command.fingerprint(),
            born: born.unwrap_or_else(|| self.ids.id(self.clock.now())),
            key_lock: None,
            permit,
            may_act,
            request,
        };
        if let Some((key, scope, reused)) = key_of(&pending.request) {
            let row = pending.request.row;
            let digest = key_digest(pending.operation, &scope, &key);
            // While this lock is held, no other command with this key is carried out.
            let held = self.keys.hold(digest.0).await;
            if let Some(first) = self.tables.key(digest) {
                drop(held);
                // Boxed, since replays are rare and a future is as large as all that it may await.
                let asked = Some((digest, &pending));
                let replay = Box::pin(self.replay(row, first, asked, may_act));
                return match replay.await {
                    Some(reply) => reply,
                    None => Box::pin(self.key_reused(&pending, first, reused)).await,
                };
            }
            pending = PendingCommand {
                key,
                scope,
                key_digest: Some(digest),
                key_lock: Some(held),
                ..pending
            };
        }
        self.decide(pending).await
    }

    /// Commits what the service itself reports of a resource, recorded under the operation with this tag.
    pub(in crate::engine) async fn report(
        self: &Arc<Self>,
        operation: u16,
        report: impl Report,
    ) -> CommandResult {
        if self.role.is_standby() {
            return CommandResult::NotWriter;
        }
        let pending = PendingCommand {
            mode: Mode::Commit,
            key: Box::default(),
            scope: Box::default(),
            key_digest: None,
            fingerprint: Fingerprint::NONE,
            born: self.ids.id(self.clock.now()),
            key_lock: None,
            permit: None,
            operation,
            may_act: None,
            request: CommandRequest {
                row: None,
                actor: Arc::new(Actor::nobody()),
                command: Box::new(report),
                header_key: None,
            },
        };
        let reported = unless_its_future_panics(pin!(self.decide(pending))).await;
        reported.unwrap_or(CommandResult::Fault)
    }

    /// Passes the command to its resource's actor for the decision, again while the command turns out to concern
    /// another resource.
    ///
    /// Returns once the response may leave, as [`Shared::answer`] does. When the future is dropped, the command is not
    /// cancelled: once the actor has it, it is decided and committed all the same.
    pub(super) async fn decide(self: &Arc<Self>, mut pending: PendingCommand) -> CommandResult {
        let (row, may_act) = (pending.request.row, pending.may_act);
        loop {
            let (target, looked_up, unique_keys) = {
                let now = self.clock.now();
                let ids = self.ids_for(&pending, now);
                let context = self.context(&pending, now, self.commit_times.at(now), &ids);
                let target = pending.request.command.target(&context);
                (
                    target,
                    context.view.has_read(),
                    pending.request.command.unique_keys(&context),
                )
            };
            // Held until the commit has taken the keys, or until the command has ended without them.
            let locks = unique_keys.iter().map(|key| key.0).collect();
            let index_locks = self.unique_keys.hold_all(locks).await;
            let (sender, receiver) = oneshot::channel();
            let message = Box::new(ActorMessage {
                pending,
                target,
                looked_up,
                unique_keys,
                index_locks,
                reply: sender,
                shared: Arc::clone(self),
            });
            match target {
                Some(target) => {
                    if let Err(error) = self.directory.dispatch(target, message).await {
                        tracing::error!(%error, "an actor cannot be started");
                        return CommandResult::Unavailable;
                    }
                }
                // Without a resource there is nothing to change: the command is decided here, and rejected.
                None => Box::pin(message.run(&mut CachedState::default())).await,
            }
            match receiver.await {
                Ok((ActorResult::Moved(back), _)) => pending = *back,
                // The permit is held until the response can leave.
                Ok((result, _permit)) => return self.answer(result, row, may_act).await,
                // The actor dropped the message, by a panic or because the process ends. In the latter case the
                // outcome is unknown.
                Err(_) if self.is_ending() => return CommandResult::OutcomeUnknown,
                Err(_) => return CommandResult::Fault,
            }
        }
    }

    /// Returns the source of identifiers for a decision of `pending` at `now`.
    pub(crate) fn ids_for(&self, pending: &PendingCommand, now: Timestamp) -> IdSourceAt<'_> {
        match pending.mode {
            Mode::DryRun => self.ids.examples_at(now),
            Mode::Commit => self.ids.at(now),
        }
    }

    /// Builds the context of a decision of `pending` at `now`, which is recorded with the time `at`.
    pub(crate) fn context<'a>(
        &'a self,
        pending: &'a PendingCommand,
        now: Timestamp,
        at: Timestamp,
        ids: &'a IdSourceAt<'a>,
    ) -> Context<'a> {
        Context {
            actor: &pending.request.actor,
            now,
            at,
            key: &pending.key,
            fingerprint: pending.fingerprint,
            new_id: pending.born,
            // The response to a dry run says that all side effects are done.
            has_receiver: match pending.mode {
                Mode::DryRun => &|_| false,
                Mode::Commit => self.outbox.has_receiver(),
            },
            plain_webhooks: self.plain_webhooks.load(Ordering::Relaxed),
            ids,
            view: ReadView::new(&self.tables),
            fact_revision: fact_kinds::revision_of,
        }
    }

    /// Turns an actor's result into the response.
    ///
    /// Returns once the response may leave: everything that it depends on is durable, its receivers were waited for,
    /// and the actor may still act where nothing was committed. When the future is dropped, only the response is lost.
    pub(super) async fn answer(
        &self,
        result: ActorResult,
        row: Option<&'static Row>,
        may_act: Option<MayAct>,
    ) -> CommandResult {
        match result {
            ActorResult::Committed {
                position, stored, ..
            } => {
                if self.lanes.wait(position).await.is_err() {
                    return CommandResult::OutcomeUnknown;
                }
                CommandResult::Done {
                    body: stored.body,
                    disposition: stored.disposition,
                    replay: false,
                    position,
                }
            }
            // The task that finishes the response is dropped when the process ends.
            ActorResult::AwaitingReceivers(answer) => {
                answer.await.unwrap_or(CommandResult::OutcomeUnknown)
            }
            ActorResult::ReplayOf { first, position } => {
                if self.lanes.wait(position).await.is_err() {
                    return CommandResult::OutcomeUnknown;
                }
                match Box::pin(self.replay(row, first, None, may_act)).await {
                    Some(CommandResult::Done {
                        body,
                        disposition,
                        replay,
                        ..
                    }) => CommandResult::Done {
                        body,
                        disposition,
                        replay,
                        position,
                    },
                    Some(other) => other,
                    // Cannot happen: no fingerprint was given, so any stored response matches.
                    None => CommandResult::Fault,
                }
            }
            ActorResult::Answered { body, position } => {
                // No record bounds what waits here, as the log's queue does for commits.
                let mut held = Permit::none(&self.waiting_answers);
                if position > self.journal.durable() && !held.grow(body.len(), 0) {
                    return CommandResult::Overloaded;
                }
                if self.lanes.wait(position).await.is_err() {
                    return CommandResult::Unavailable;
                }
                if let Err(gone) = self.check_still_active(may_act).await {
                    return gone;
                }
                CommandResult::Done {
                    body: body.into(),
                    disposition: Disposition::Done,
                    replay: false,
                    position,
                }
            }
            ActorResult::Refused {
                rejection,
                position,
            } => Box::pin(self.refuse_if_still_active(rejection, position, may_act)).await,
            ActorResult::Unavailable => CommandResult::Unavailable,
            ActorResult::OutcomeUnknown => CommandResult::OutcomeUnknown,
            ActorResult::Fault | ActorResult::Moved(_) => CommandResult::Fault,
        }
    }

    /// Rejects with `rejection`.
    ///
    /// Returns once `position`, which the rejection depends on, is durable. When the future is dropped, only the
    /// response is lost.
    pub(in crate::engine) async fn refuse(
        &self,
        rejection: Rejection,
        position: u64,
    ) -> CommandResult {
        if self.lanes.wait(position).await.is_err() {
            return CommandResult::Unavailable;
        }
        CommandResult::Refused {
            rejection: Box::new(rejection),
            position,
        }
    }

    /// Rejects with `rejection`, or because the actor may no longer act.
    pub(in crate::engine) async fn refuse_if_still_active(
        &self,
        rejection: Rejection,
        position: u64,
        may_act: Option<MayAct>,
    ) -> CommandResult {
        let refused = self.refuse(rejection, position).await;
        match self.check_still_active(may_act).await {
            Ok(_) => refused,
            Err(gone) => gone,
        }
    }
}
