//! A command's way: lifecycle, key, names, actor, and the wait until its answer is durable.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::oneshot;

use super::admission::Permit;
use super::core::{
    ActorMessage, ActorResult, CachedState, CommandRequest, CommandResult, MayAct, PendingCommand,
    Shared,
};
use super::id_source::MintAt;
use super::idempotency::key_of;
use crate::base::time::Instant;
use crate::catalogue::Row;
use crate::domain::fact_kinds;
use crate::domain::operation::{Context, Disposition};
use crate::domain::rejection::Rejection;
use crate::domain::resource::ReadView;
use crate::journal::record::key_digest;

impl Shared {
    pub(super) async fn execute(
        self: &Arc<Self>,
        call: CommandRequest,
        permit: Option<Permit>,
    ) -> CommandResult {
        if self.ended.load(Ordering::Acquire) {
            return CommandResult::Unavailable;
        }
        // Facts are put in place by an actor, too.
        let may_act = if call.row.is_none_or(|row| row.bearer) {
            match self.may_act(&call.actor.subject).await {
                Ok(may_act) => Some(may_act),
                Err(reply) => return reply,
            }
        } else {
            None
        };
        let mut order = PendingCommand {
            key: Box::default(),
            scope: call.actor.subject.clone(),
            key_digest: None,
            fingerprint: call.command.fingerprint(),
            born: self.ids.id(self.clock.now()),
            key_lock: None,
            permit,
            instead_of: None,
            may_act,
            call,
        };
        if let Some((key, scope, reused)) = key_of(&order.call) {
            let row = order.call.row;
            let digest = key_digest(row.map_or(0, |row| row.tag), &scope, &key);
            // While this is held, nobody else carries out a command with this key.
            let held = self.keys.hold(digest).await;
            if let Some(first) = self.tables.key(digest) {
                drop(held);
                let replay = self.replay(row, first, Some(order.fingerprint), may_act);
                return match replay.await {
                    Some(reply) => reply,
                    None => self.key_reused(&order, first, reused).await,
                };
            }
            order = PendingCommand {
                key,
                scope,
                key_digest: Some(digest),
                key_lock: Some(held),
                ..order
            };
        }
        self.decide(order).await
    }

    /// Has the command decided by its resource's actor.
    pub(super) async fn decide(self: &Arc<Self>, mut order: PendingCommand) -> CommandResult {
        let (row, may_act) = (order.call.row, order.may_act);
        loop {
            let (target, looked_up, names) = {
                let now = self.clock.now();
                let ids = self.ids.at(now);
                let context = self.context(&order, now, self.commit_times.at(now), &ids);
                let target = order.call.command.target(&context);
                (
                    target,
                    context.view.has_read(),
                    order.call.command.unique_keys(&context),
                )
            };
            // Held until the commit has taken them, or until it is clear that none will.
            let locks = names.iter().map(|name| name.0).collect();
            let index_locks = self.names.hold_all(locks).await;
            let (sender, receiver) = oneshot::channel();
            let job = Box::new(ActorMessage {
                order,
                target,
                looked_up,
                names,
                index_locks,
                reply: sender,
                shared: Arc::clone(self),
            });
            match target {
                Some(target) => {
                    if let Err(error) = self.directory.dispatch(target, job).await {
                        tracing::error!(%error, "an actor cannot be woken");
                        return CommandResult::Unavailable;
                    }
                }
                // Without a resource there is nothing to change: decided here, to refuse.
                None => job.run(&mut CachedState::default()).await,
            }
            match receiver.await {
                Ok((ActorResult::Moved(back), _)) => order = *back,
                // The permit is held until the answer can leave.
                Ok((verdict, _permit)) => return self.answer(verdict, row, may_act).await,
                // The job is gone, and what became of it nobody knows: with the process that ends,
                // or with an actor that did.
                Err(_) if self.is_ending() => return CommandResult::OutcomeUnknown,
                Err(_) => return CommandResult::Fault,
            }
        }
    }

    /// What surrounds a decision of `order` at `now`, which is recorded as made at `at`.
    pub(crate) fn context<'a>(
        &'a self,
        order: &'a PendingCommand,
        now: Instant,
        at: Instant,
        ids: &'a MintAt<'a>,
    ) -> Context<'a> {
        Context {
            actor: &order.call.actor,
            now,
            at,
            key: &order.key,
            fingerprint: order.fingerprint,
            born: order.born,
            external_directory: self.relay.is_external(),
            ids,
            view: ReadView::new(&self.tables),
            fact_revision: fact_kinds::revision_of,
        }
    }

    pub(super) async fn answer(
        &self,
        verdict: ActorResult,
        row: Option<&'static Row>,
        may_act: Option<MayAct>,
    ) -> CommandResult {
        match verdict {
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
            // The task that has it ends without a word when the process ends.
            ActorResult::Delivering(answer) => {
                answer.await.unwrap_or(CommandResult::OutcomeUnknown)
            }
            ActorResult::ReplayOf { first, position } => {
                if self.lanes.wait(position).await.is_err() {
                    return CommandResult::OutcomeUnknown;
                }
                match self.replay(row, first, None, may_act).await {
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
                    // Whatever facts are there are the ones asked for.
                    None => CommandResult::Fault,
                }
            }
            ActorResult::Answered { body, position } => {
                if self.lanes.wait(position).await.is_err() {
                    return CommandResult::Unavailable;
                }
                if let Err(gone) = self.unless_gone(may_act).await {
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
            } => self.refuse_unless_gone(rejection, position, may_act).await,
            ActorResult::Unavailable => CommandResult::Unavailable,
            ActorResult::Fault | ActorResult::Moved(_) => CommandResult::Fault,
        }
    }

    pub(super) async fn refuse(&self, rejection: Rejection, position: u64) -> CommandResult {
        if self.lanes.wait(position).await.is_err() {
            return CommandResult::Unavailable;
        }
        CommandResult::Refused {
            rejection: Box::new(rejection),
            position,
        }
    }

    /// Refuses, or tells whoever may not act any more that.
    pub(super) async fn refuse_unless_gone(
        &self,
        rejection: Rejection,
        position: u64,
        may_act: Option<MayAct>,
    ) -> CommandResult {
        let refused = self.refuse(rejection, position).await;
        match self.unless_gone(may_act).await {
            Ok(_) => refused,
            Err(gone) => gone,
        }
    }
}
