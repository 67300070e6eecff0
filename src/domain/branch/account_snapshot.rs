//! The copy of a branch's settlement account that a settlement statement keeps.

use serde::{Deserialize, Serialize};

use crate::base::actor::{Actor, ActorKind};
use crate::base::digest::Fingerprint;
use crate::base::revision::Revision;
use crate::base::text::{BranchProfileId, Ident, StatementId, Text};
use crate::base::time::{Date, Timestamp};
use crate::domain::listing::{Filter, List, by_many, is};
use crate::domain::reference::kinds::settlement_account::VerificationState;
use crate::domain::resource::{Kind, Resource};
use crate::domain::response_body::response_body;
use crate::public_events;

/// The content of a snapshot, and who took it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotTaken {
    /// The snapshot's identifier, chosen by its taker.
    pub snapshot_id: Ident,
    /// The statement; it need not exist.
    pub settlement_statement_id: StatementId,
    /// The branch.
    pub branch_office_profile_id: BranchProfileId,
    /// The revision of the branch's profile.
    pub branch_office_profile_revision: Revision,
    /// The account.
    pub settlement_account_id: Ident,
    /// The account's revision.
    pub settlement_account_revision: Revision,
    /// The purpose of the account.
    pub purpose: Text,
    /// The bank.
    pub bank_name: Text,
    /// The holder of the account.
    pub account_holder: Text,
    /// The account number, masked so that it may be shown.
    pub masked_account_reference: Ident,
    /// Whether the account was verified as the branch's.
    pub verification_state: VerificationState,
    /// The first day on which it is used.
    pub effective_from: Date,
    /// The last day on which it is used.
    pub effective_until: Option<Date>,
    /// Who took it: the token's subject.
    pub subject: Box<str>,
    /// The idempotency key under which it was first taken.
    pub idempotency_key: Box<str>,
    /// The fingerprint of the command's facts.
    pub fingerprint: Fingerprint,
}

/// A snapshot of a settlement account; it never changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountSnapshot {
    /// Its content.
    pub taken: SnapshotTaken,
    /// When it was taken.
    pub taken_at: Timestamp,
}

/// What can happen to a snapshot. New events go at the end: records store their index, and each has a
/// line in `public_events!`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum AccountSnapshotEvent {
    /// It is taken.
    Taken(Box<SnapshotTaken>),
}

impl Resource for AccountSnapshot {
    const KIND: Kind = Kind {
        tag: 109,
        name: "branch-settlement-account-snapshot",
    };
    type Event = AccountSnapshotEvent;
    const LIST: Option<List<Self>> = Some(List::<Self>::by(&[by_many(Filter::Branch, |it| {
        is(&it.taken.branch_office_profile_id)
    })]));

    fn apply(state: Option<Self>, event: &AccountSnapshotEvent, at: Timestamp) -> Self {
        let AccountSnapshotEvent::Taken(taken) = event;
        assert!(state.is_none(), "a snapshot never changes");
        Self {
            taken: (**taken).clone(),
            taken_at: at,
        }
    }

    fn id(&self) -> Vec<String> {
        vec![self.taken.snapshot_id.as_str().to_owned()]
    }

    fn revision(&self) -> Revision {
        Revision::FIRST
    }

    fn validate(&self) -> Result<(), String> {
        if self.taken.verification_state != VerificationState::Verified {
            return Err("the account was not verified".to_owned());
        }
        Ok(())
    }
}

public_events! {
    AccountSnapshot by AccountSnapshotEvent,
        read at "branch-settlement-account-statement-snapshots/{}", revision none;

    /// A branch's settlement account is recorded as it is, for a statement.
    Taken(taken) => "taken" {
        "settlementStatementId": StatementId = taken.settlement_statement_id,
        "branchOfficeProfileId": BranchProfileId = taken.branch_office_profile_id,
        "branchOfficeProfileRevision": Revision = taken.branch_office_profile_revision,
        "settlementAccountId": Ident = taken.settlement_account_id,
        "settlementAccountRevision": Revision = taken.settlement_account_revision,
        "verificationState": VerificationState = taken.verification_state,
        "effectiveFrom": Date = taken.effective_from,
        "effectiveUntil": Option<Date> = taken.effective_until,
    },
}

/// Whether the actor may settle for the branch: take snapshots of its accounts, and read them.
#[must_use]
pub fn may_settle(actor: &Actor, branch_office_profile_id: &str) -> bool {
    actor.is_headquarters()
        || actor.kind == ActorKind::HeadquartersFinanceOperator
        || actor.manages_branch(branch_office_profile_id)
}

response_body! {
    /// A snapshot as its readers see it.
    #[schemars(rename = "SettlementAccountSnapshot")]
    pub struct SnapshotBody<'a> from (snapshot: &'a AccountSnapshot) {
        let taken = &snapshot.taken;
    } as {
        snapshot_id: &'a Ident = &taken.snapshot_id,
        settlement_statement_id: &'a StatementId = &taken.settlement_statement_id,
        branch_office_profile_id: &'a BranchProfileId = &taken.branch_office_profile_id,
        branch_office_profile_revision: Revision = taken.branch_office_profile_revision,
        settlement_account_id: &'a Ident = &taken.settlement_account_id,
        settlement_account_revision: Revision = taken.settlement_account_revision,
        purpose: &'a Text = &taken.purpose,
        bank_name: &'a Text = &taken.bank_name,
        account_holder: &'a Text = &taken.account_holder,
        masked_account_reference: &'a Ident = &taken.masked_account_reference,
        verification_state: VerificationState = taken.verification_state,
        effective_from: Date = taken.effective_from,
        effective_until: Option<Date> = taken.effective_until,
        snapshot_for_statement_at: Timestamp = snapshot.taken_at,
        snapshot_for_statement_by_actor_id: &'a str = &taken.subject,
        idempotency_key: &'a str = &taken.idempotency_key,
    }
}
