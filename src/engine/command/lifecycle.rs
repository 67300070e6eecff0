//! Whether an actor may act: checked before a command begins, and again after each wait.

use crate::base::digest::Digest;
use crate::domain::reference::Fact;
use crate::domain::reference::kinds::actor::{ActorFact, ActorLifecycle};
use crate::domain::rejection::{Class, Rejection};
use crate::domain::resource::{ReadView, Resource as _};
use crate::engine::core::{CommandResult, MayAct, Shared};

impl Shared {
    /// Whether the actor with this subject may act. Waits until the fact that permits it is durable, before anything
    /// is based on it.
    pub(in crate::engine) async fn may_act(&self, subject: &str) -> Result<MayAct, CommandResult> {
        let fact = Fact::<ActorFact>::KIND.key(&[subject]);
        let since = match self.lifecycle(fact) {
            Ok(since) => since,
            Err(refused) => return Err(Box::pin(self.refuse(refused.0, refused.1)).await),
        };
        self.may_still_act(MayAct { fact, since }).await
    }

    /// Whether the actor may still act. Called after each wait: once the withdrawal of the permission is
    /// acknowledged, nothing more is sent or done for the actor, whatever was in flight. No further wait lies between
    /// this check and the response.
    pub(in crate::engine) async fn may_still_act(
        &self,
        known: MayAct,
    ) -> Result<MayAct, CommandResult> {
        let MayAct { fact, mut since } = known;
        loop {
            if self.lanes.wait(since).await.is_err() {
                return Err(CommandResult::Unavailable);
            }
            if self.tables.position(fact) == since {
                return Ok(MayAct { fact, since });
            }
            since = match self.lifecycle(fact) {
                Ok(since) => since,
                Err(refused) => return Err(Box::pin(self.refuse(refused.0, refused.1)).await),
            };
        }
    }

    /// Returns the position of the fact that permits the actor to act, or 0 when there is no fact about the actor,
    /// since there never was one. Otherwise returns the rejection and the position that it depends on.
    pub(super) fn lifecycle(&self, fact: Digest) -> Result<u64, Box<(Rejection, u64)>> {
        let durable_before = self.journal.durable();
        let view = ReadView::new(&self.tables);
        let known = view.at::<Fact<ActorFact>>(fact);
        let since = view.position(fact);
        let refusal = match known.map(|known| known.facts.lifecycle) {
            None | Some(ActorLifecycle::Active) => return Ok(since),
            Some(ActorLifecycle::Inactive) => ("actor_inactive", "The actor is inactive."),
            Some(ActorLifecycle::Withdrawn) => ("actor_withdrawn", "The actor has withdrawn."),
        };
        let rejection = Rejection::new(Class::Forbidden, refusal.0, refusal.1);
        Err(Box::new((rejection, durable_before.max(since))))
    }

    /// Adds the permission to act to the view's read set, or rejects.
    pub(in crate::engine) fn read_lifecycle(
        &self,
        known: Option<MayAct>,
        view: &ReadView<'_>,
    ) -> Result<(), Box<(Rejection, u64)>> {
        let Some(MayAct { fact, since }) = known else {
            return Ok(());
        };
        // A fact at an unchanged position has unchanged content.
        if self.tables.position(fact) == since {
            view.note(fact, since);
        } else {
            view.note(fact, self.lifecycle(fact)?);
        }
        Ok(())
    }

    /// Returns the position since which the actor may act, or 0 if the operation needs no actor.
    pub(super) async fn check_still_active(
        &self,
        may_act: Option<MayAct>,
    ) -> Result<u64, CommandResult> {
        match may_act {
            Some(may_act) => self.may_still_act(may_act).await.map(|still| still.since),
            None => Ok(0),
        }
    }
}
