//! The one table of operations, of reads, of kinds of resources and of kinds of facts. Router,
//! log, documents and tests all read it; nothing else lists them.

use crate::domain::operation::{AnyOperation, Erased};
use crate::domain::read::Read;
use crate::domain::reference::Fact;
use crate::domain::reference::actor::ActorFact;
use crate::domain::reference::branch_office_profile::BranchOfficeProfileFact;
use crate::domain::reference::candidate_snapshot::CandidateSnapshotFact;
use crate::domain::reference::extension_eligibility::ExtensionEligibilityFact;
use crate::domain::reference::final_review_projection::FinalReviewProjectionFact;
use crate::domain::reference::payment_change_adjustment::PaymentChangeAdjustmentFact;
use crate::domain::reference::payout_instruction::PayoutInstructionFact;
use crate::domain::reference::put::{AnyFactKind, FactsOf};
use crate::domain::reference::regional_benefit_policy::RegionalBenefitPolicyFact;
use crate::domain::reference::reservation_draft::ReservationDraftFact;
use crate::domain::reference::reservation_financial_facts::ReservationFinancialFact;
use crate::domain::reference::settlement_account::SettlementAccountFact;
use crate::domain::resource::{AnyResource, Registered};
use crate::domain::settlement;
use crate::domain::settlement::state::Statement;

/// The method of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// `POST`
    Post,
    /// `PATCH`
    Patch,
}

/// Where a command's key of idempotency is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeySource {
    /// In the header `Idempotency-Key`.
    Header,
    /// In the body, scoped to operation and subject.
    Body,
    /// In the body, scoped to the operation alone, with a conflict code of its own.
    BodyOfAll {
        /// The code of a key with other facts.
        reused: &'static str,
    },
    /// It only reads: there is none.
    None,
}

/// What a success is answered with: what was brought into being is Created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Success {
    /// 200, always.
    Ok,
    /// 201, always.
    Created,
    /// 201 the first time, 200 for a replay.
    CreatedOnce,
}

/// What an invalid request is answered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invalid {
    /// 400
    BadRequest,
    /// 422
    Unprocessable,
}

/// The shape of a problem's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProblemShape {
    /// `{status, code, message, fieldErrors, conflictingFieldPaths, retryable}`
    Full,
    /// `{status, code, retryable}`
    Profile,
    /// `{status, code, message, retryable}`
    Invitation,
}

/// One operation.
pub struct Row {
    /// Its number in the contract; it stands in the log.
    pub tag: u16,
    /// Its name; it stands in fingerprints.
    pub name: &'static str,
    /// Its method.
    pub method: Method,
    /// Its path, with parameters in braces.
    pub path: &'static str,
    /// Whether it needs a token.
    pub bearer: bool,
    /// Where its key is.
    pub key: KeySource,
    /// What a success is answered with.
    pub success: Success,
    /// What an invalid request is answered with.
    pub invalid: Invalid,
    /// The shape of its problems.
    pub problem: ProblemShape,
    /// How it reads and decides.
    pub operation: &'static dyn AnyOperation,
}

/// One read.
pub struct ReadRow {
    /// Its name.
    pub name: &'static str,
    /// Its path, with parameters in braces.
    pub path: &'static str,
    /// The shape of its problems.
    pub problem: ProblemShape,
    /// How it reads.
    pub read: Read,
}

/// The operations.
pub static OPERATIONS: &[Row] = &[
    Row {
        tag: 8,
        name: "acknowledge_deposit",
        method: Method::Post,
        path: "/settlement-branch-deposit-acknowledgements",
        bearer: true,
        key: KeySource::Body,
        success: Success::Ok,
        invalid: Invalid::BadRequest,
        problem: ProblemShape::Full,
        operation: &Erased::<settlement::acknowledge_deposit::AcknowledgeDeposit>::NEW,
    },
    Row {
        tag: 9,
        name: "request_deposit",
        method: Method::Post,
        path: "/settlement-deposit-requests",
        bearer: true,
        key: KeySource::Body,
        success: Success::Created,
        invalid: Invalid::BadRequest,
        problem: ProblemShape::Full,
        operation: &Erased::<settlement::request_deposit::RequestDeposit>::NEW,
    },
];

/// The reads.
pub static READS: &[ReadRow] = &[ReadRow {
    name: "read_statement",
    path: "/settlement-statements/{statementId}",
    problem: ProblemShape::Full,
    read: settlement::read_statement::read_statement,
}];

/// The kinds of resources; each has a tag of its own, and facts come in to those whose tag is
/// below 100.
pub static RESOURCES: &[&dyn AnyResource] = &[
    &Registered::<Fact<ActorFact>>::NEW,
    &Registered::<Fact<ReservationDraftFact>>::NEW,
    &Registered::<Fact<FinalReviewProjectionFact>>::NEW,
    &Registered::<Fact<ExtensionEligibilityFact>>::NEW,
    &Registered::<Fact<CandidateSnapshotFact>>::NEW,
    &Registered::<Fact<PayoutInstructionFact>>::NEW,
    &Registered::<Fact<ReservationFinancialFact>>::NEW,
    &Registered::<Fact<RegionalBenefitPolicyFact>>::NEW,
    &Registered::<Fact<PaymentChangeAdjustmentFact>>::NEW,
    &Registered::<Fact<BranchOfficeProfileFact>>::NEW,
    &Registered::<Fact<SettlementAccountFact>>::NEW,
    &Registered::<Statement>::NEW,
];

/// The kinds of facts.
pub static FACTS: &[&dyn AnyFactKind] = &[
    &FactsOf::<Fact<ActorFact>>::NEW,
    &FactsOf::<Fact<ReservationDraftFact>>::NEW,
    &FactsOf::<Fact<FinalReviewProjectionFact>>::NEW,
    &FactsOf::<Fact<ExtensionEligibilityFact>>::NEW,
    &FactsOf::<Fact<CandidateSnapshotFact>>::NEW,
    &FactsOf::<Fact<PayoutInstructionFact>>::NEW,
    &FactsOf::<Fact<ReservationFinancialFact>>::NEW,
    &FactsOf::<Fact<RegionalBenefitPolicyFact>>::NEW,
    &FactsOf::<Fact<PaymentChangeAdjustmentFact>>::NEW,
    &FactsOf::<Fact<BranchOfficeProfileFact>>::NEW,
    &FactsOf::<Fact<SettlementAccountFact>>::NEW,
];

/// The kind of resource with this tag.
#[must_use]
pub fn resource(tag: u16) -> Option<&'static dyn AnyResource> {
    RESOURCES
        .iter()
        .copied()
        .find(|resource| resource.kind().tag == tag)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn tags_and_names_are_each_given_once() {
        let unique = |items: Vec<String>| {
            let set: BTreeSet<_> = items.iter().collect();
            assert_eq!(set.len(), items.len(), "{items:?}");
        };
        unique(OPERATIONS.iter().map(|row| row.tag.to_string()).collect());
        unique(OPERATIONS.iter().map(|row| row.name.to_owned()).collect());
        unique(OPERATIONS.iter().map(|row| format!("{:?} {}", row.method, row.path)).collect());
        unique(READS.iter().map(|row| row.path.to_owned()).collect());
        unique(RESOURCES.iter().map(|kind| kind.kind().tag.to_string()).collect());
        unique(RESOURCES.iter().map(|kind| kind.kind().name.to_owned()).collect());
    }

    #[test]
    fn every_kind_of_fact_is_a_registered_resource() {
        for fact in FACTS {
            assert_eq!(resource(fact.kind().tag).map(AnyResource::kind), Some(fact.kind()));
        }
    }
}
