//! Reads the snapshot of a settlement account, for actors who may settle for its branch.

use super::account_snapshot::{AccountSnapshot, SnapshotBody, may_settle};
use crate::base::actor::ActorKind;
use crate::domain::listing::Scope;
use crate::domain::read::{ReadRequest, Representation};
use crate::domain::rejection::Rejection;
use crate::domain::resource::Resource;

/// Reads the snapshot that the path names.
///
/// # Errors
/// `not_found` when it does not exist, or the actor may not see it.
pub fn read_account_snapshot(request: &ReadRequest<'_>) -> Result<Representation, Rejection> {
    let snapshot = request
        .view
        .get::<AccountSnapshot>(&[request.param("snapshotId")]);
    match snapshot {
        Some(snapshot)
            if request
                .allows(|| may_settle(request.actor, &snapshot.taken.branch_office_profile_id)) =>
        {
            Representation::at_position(request.view, snapshot.key(), &SnapshotBody::new(&snapshot))
        }
        _ => Err(Rejection::not_found()),
    }
}

/// Returns the part of the snapshots that the actor may be shown.
#[must_use]
pub fn scope(request: &ReadRequest<'_>) -> Scope {
    match request.actor.kind {
        ActorKind::HeadquartersAdministrator | ActorKind::HeadquartersFinanceOperator => Scope::All,
        _ => Scope::managed_by(request.actor),
    }
}

#[cfg(test)]
pub(super) mod samples {
    use serde_json::{Value, json};

    use crate::base::actor::{Actor, ActorKind};
    use crate::domain::scenario::{Scenario, actor, manager};

    /// Makes a finance operator of the head office.
    pub(in super::super) fn finance_operator() -> Actor {
        actor(ActorKind::HeadquartersFinanceOperator, "finance-1")
    }

    /// Returns the facts of a branch's profile.
    pub(in super::super) fn profile() -> Value {
        json!({
            "displayName": "서울 1지점",
            "legalName": "서울산후케어 주식회사",
            "contactEmail": "seoul@example.org",
            "primaryPhoneNumber": "+82212345678",
            "addressLine": "서울 중구 세종대로 110",
            "businessRegistrationReference": "KR/1248100998",
        })
    }

    /// Returns the facts of an account of this branch, in this state.
    pub(in super::super) fn account(branch: &str, state: &str) -> Value {
        json!({
            "branchOfficeProfileId": branch,
            "purpose": "settlement",
            "bankName": "한국은행",
            "accountHolder": "서울산후케어",
            "maskedAccountReference": "***-**-1234",
            "verificationState": state,
            "effectiveFrom": "2026-01-01",
            "effectiveUntil": "2026-12-31",
        })
    }

    /// Makes a service with two branches that have a verified account each; the first one's manager
    /// acts.
    pub(in super::super) fn ready() -> Scenario {
        let mut scenario = Scenario::new();
        for (branch, of_branch) in [("branch-1", "account-1"), ("branch-2", "account-2")] {
            scenario.fact("branch-office-profile", branch, 4, profile());
            let facts = account(branch, "verified");
            scenario.fact("settlement-account", of_branch, 2, facts);
        }
        scenario.acting(manager("manager-1", "branch-1"));
        scenario
    }

    /// Returns the body that takes a snapshot of the first branch's account.
    pub(in super::super) fn snapshot() -> Value {
        json!({
            "snapshotId": "snapshot-1",
            "settlementStatementId": "statement-1",
            "branchOfficeProfileId": "branch-1",
            "settlementAccountId": "account-1",
            "expectedSettlementAccountRevision": 2,
            "idempotencyKey": "key-1",
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::samples::{account, finance_operator, ready, snapshot};
    use super::*;
    use crate::base::actor::{Actor, ActorKind};
    use crate::domain::scenario::{actor, headquarters, manager};

    const READ: &str = "read_account_snapshot";
    const PATH: &[(&str, &str)] = &[("snapshotId", "snapshot-1")];

    #[test]
    fn it_reads_as_it_was_answered_whatever_became_of_the_account() {
        let mut scenario = ready();
        let take = "snapshot_settlement_account";
        let answer = scenario.when(take, &[], &snapshot()).committed();
        let facts = account("branch-1", "rejected");
        scenario.fact("settlement-account", "account-1", 3, facts);
        for reader in [
            headquarters(),
            finance_operator(),
            manager("manager-2", "branch-1"),
        ] {
            let (tag, body) = scenario.acting(reader).read(READ, PATH).unwrap();
            // Four facts came in before it, one after it.
            assert_eq!((tag.as_str(), &body), ("5", &answer));
        }
    }

    #[test]
    fn others_do_not_learn_that_it_exists() {
        let mut scenario = ready();
        let take = "snapshot_settlement_account";
        scenario.when(take, &[], &snapshot()).committed();
        let kinds = ActorKind::ALL.into_iter().filter(|kind| {
            !matches!(
                kind,
                ActorKind::HeadquartersAdministrator
                    | ActorKind::HeadquartersFinanceOperator
                    | ActorKind::BranchManager
            )
        });
        let mut others: Vec<_> = kinds
            .map(|kind| Actor {
                kind,
                ..manager("manager-1", "branch-1")
            })
            .collect();
        others.push(manager("manager-1", "branch-2"));
        others.push(actor(ActorKind::BranchManager, "manager-1"));
        for other in others {
            let found = scenario.acting(other).read(READ, PATH);
            assert_eq!(found, Err(Rejection::not_found()));
        }
        scenario.acting(headquarters());
        let found = scenario.read(READ, &[("snapshotId", "snapshot-2")]);
        assert_eq!(found, Err(Rejection::not_found()));
    }
}
