//! The relay reports what the directory has carried out.
//!
//! Resource: the branch's deliveries, whose side effects are completed; the branch stays as it is.
//! Nobody asks for this from outside: it has no row in the catalogue, and the only refusal is that
//! there is no such branch.

use super::body::BranchBody;
use super::deliveries::BranchDeliveries;
use super::onboarding::outcome;
use crate::base::digest::Digest;
use crate::domain::operation::{Context, Decision, Disposition, to_json};
use crate::domain::rejection::Rejection;
use crate::domain::report::Report;

/// The report. Its answer is the branch as it stands then.
pub struct CompleteSideEffects {
    /// The key of the branch's deliveries.
    pub deliveries: Digest,
    /// The numbers of the messages that the directory has taken.
    pub outbox_message_ids: Vec<i64>,
}

impl Report for CompleteSideEffects {
    type Resource = BranchDeliveries;

    fn resource(&self) -> Digest {
        self.deliveries
    }

    fn decide(
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
