//! The relay reports what the directory has carried out.
//!
//! Resource: the branch's deliveries, whose side effects are completed; the branch stays as it is.
//! Nobody asks for this from outside: it has no row in the catalogue, and the only refusal is that
//! there is no such branch.

use super::body::BranchBody;
use super::deliveries::BranchDeliveries;
use super::onboarding::outcome;
use crate::base::actor::Actor;
use crate::base::digest::{Digest, Fingerprint};
use crate::domain::operation::{
    AnyCommand, AnyDecision, AnyState, Context, Decision, Disposition, erase, own_state, to_json,
};
use crate::domain::rejection::Rejection;
use crate::domain::resource::{IndexKey, ReadView};

/// The command. Its answer is the branch as it stands then.
pub struct CompleteSideEffects {
    /// The key of the branch's deliveries.
    pub deliveries: Digest,
    /// The numbers of the messages that the directory has taken.
    pub outbox_message_ids: Vec<i64>,
}

impl CompleteSideEffects {
    fn ladder(
        &self,
        state: Option<&BranchDeliveries>,
        context: &Context<'_>,
    ) -> Result<Decision<BranchDeliveries>, Rejection> {
        let branch = state.and_then(|deliveries| deliveries.branch(&context.view));
        let (Some(deliveries), Some(branch)) = (state, branch) else {
            return Err(Rejection::not_found());
        };
        let commit = deliveries.complete(&self.outbox_message_ids, context.at);
        let Some(mut commit) = commit else {
            return Ok(Decision::Answer(to_json(&BranchBody::new(
                &branch, deliveries,
            ))));
        };
        if outcome(&commit.next.side_effects).disposition() == Disposition::Accepted {
            commit.accepted();
        }
        let answer = to_json(&BranchBody::new(&branch, &commit.next));
        commit.answer(answer)
    }
}

impl AnyCommand for CompleteSideEffects {
    fn key(&self) -> Option<&str> {
        None
    }

    fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(b"complete_side_effects")
    }

    fn key_reused(&self, _: &Actor, _: &ReadView<'_>) -> Option<Vec<u8>> {
        None
    }

    fn target(&self, _: &Context<'_>) -> Option<Digest> {
        Some(self.deliveries)
    }

    fn unique_keys(&self, _: &Context<'_>) -> Vec<IndexKey> {
        Vec::new()
    }

    fn decide(
        &self,
        target: Option<Digest>,
        slot: &mut AnyState,
        context: &Context<'_>,
    ) -> Result<AnyDecision, Rejection> {
        let state = own_state::<BranchDeliveries>(target, slot, context);
        let decision = self.ladder(state, context)?;
        Ok(erase(state, decision, target))
    }
}
