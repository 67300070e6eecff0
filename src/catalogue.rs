//! The one table of operations, of reads, of kinds of resources and of kinds of facts. Router,
//! log, documents and tests all read it; nothing else lists them.

use crate::domain::mother;
use crate::domain::mother::state::MotherProfile;
use crate::domain::family;
use crate::domain::family::care_history_authority::CareHistoryAuthority;
use crate::domain::family::payment_authority::PaymentAuthority;
use crate::domain::operation::{AnyOperation, Erased};
use crate::domain::payment;
use crate::domain::read::Read;
use crate::domain::reference::Fact;
use crate::domain::reference::actor::ActorFact;
use crate::domain::reference::consent_version::ConsentVersionFact;
use crate::domain::reference::family_account::FamilyAccount;
use crate::domain::reference::put::{AnyFactKind, FactsOf};
use crate::domain::reference::reservation_booking::ReservationBooking;
use crate::domain::reference::gateway_payment::GatewayPayment;
use crate::domain::reference::payment_obligation::PaymentObligation;
use crate::domain::reference::payment_product_plan::PaymentProductPlan;
use crate::domain::reference::put::{AnyFactKind, FactsOf};
use crate::domain::reference::relationship::Relationship;
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
        tag: 7,
        name: "update_mother_profile",
        method: Method::Patch,
        path: "/mother/profile",
        bearer: true,
        key: KeySource::Header,
        success: Success::CreatedOnce,
        invalid: Invalid::Unprocessable,
        problem: ProblemShape::Profile,
        operation: &Erased::<mother::update_profile::UpdateProfile>::NEW,
        tag: 1,
        name: "authorize_payment",
        method: Method::Post,
        path: "/family-reservation-payment-authorizations",
        bearer: true,
        key: KeySource::None,
        success: Success::Ok,
        invalid: Invalid::BadRequest,
        problem: ProblemShape::Full,
        operation: &Erased::<family::authorize_payment::AuthorizePayment>::NEW,
    },
    Row {
        tag: 2,
        name: "grant_payment_authority",
        method: Method::Post,
        path: "/family-payment-delegations",
        bearer: true,
        key: KeySource::Header,
        success: Success::Created,
        invalid: Invalid::BadRequest,
        problem: ProblemShape::Full,
        operation: &Erased::<family::grant_payment::GrantPayment>::NEW,
    },
    Row {
        tag: 4,
        name: "grant_care_history_access",
        method: Method::Post,
        path: "/family-accounts/{familyAccountId}/reservation-care-history-access-grants",
        bearer: true,
        key: KeySource::Header,
        success: Success::Created,
        invalid: Invalid::BadRequest,
        problem: ProblemShape::Full,
        operation: &Erased::<family::grant_care_history_access::GrantCareHistoryAccess>::NEW,
    },
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
    Row {
        tag: 17,
        name: "decide_cash_receipt_eligibility",
        method: Method::Post,
        path: "/payment-product-plans/{planCode}/cash-receipt-eligibility-decisions",
        bearer: true,
        key: KeySource::None,
        success: Success::Ok,
        invalid: Invalid::BadRequest,
        problem: ProblemShape::Full,
        operation: &Erased::<payment::decide_cash_receipt::DecideCashReceipt>::NEW,
    },
];

/// The reads.
pub static READS: &[ReadRow] = &[
    ReadRow {
        name: "read_mother_profile",
        path: "/mother/profile",
        problem: ProblemShape::Profile,
        read: mother::read_profile::read_profile,
        name: "read_payment_delegation",
        path: "/family-payment-delegations/{id}",
        problem: ProblemShape::Full,
        read: family::read_payment_delegation::read_payment_delegation,
    },
    ReadRow {
        name: "read_care_history_grant",
        path: "/reservation-care-history-access-grants/{id}",
        problem: ProblemShape::Full,
        read: family::read_care_history_grant::read_care_history_grant,
    },
    ReadRow {
        name: "read_statement",
        path: "/settlement-statements/{statementId}",
        problem: ProblemShape::Full,
        read: settlement::read_statement::read_statement,
    },
];

/// The kinds of resources; each has a tag of its own, and facts come in to those whose tag is
/// below 100.
pub static RESOURCES: &[&dyn AnyResource] = &[
    &Registered::<Fact<ActorFact>>::NEW,
    &Registered::<MotherProfile>::NEW,
    &Registered::<Fact<ConsentVersionFact>>::NEW,
    &Registered::<Fact<FamilyAccount>>::NEW,
    &Registered::<Fact<ReservationBooking>>::NEW,
    &Registered::<Fact<PaymentProductPlan>>::NEW,
    &Registered::<Fact<PaymentObligation>>::NEW,
    &Registered::<Fact<Relationship>>::NEW,
    &Registered::<Fact<GatewayPayment>>::NEW,
    &Registered::<Statement>::NEW,
    &Registered::<PaymentAuthority>::NEW,
    &Registered::<CareHistoryAuthority>::NEW,
];

/// The kinds of facts.
pub static FACTS: &[&dyn AnyFactKind] = &[
    &FactsOf::<Fact<ActorFact>>::NEW,
    &FactsOf::<MotherProfile>::NEW,
    &FactsOf::<Fact<ConsentVersionFact>>::NEW,
    &FactsOf::<Fact<FamilyAccount>>::NEW,
    &FactsOf::<Fact<ReservationBooking>>::NEW,
    &FactsOf::<Fact<PaymentProductPlan>>::NEW,
    &FactsOf::<Fact<PaymentObligation>>::NEW,
    &FactsOf::<Fact<Relationship>>::NEW,
    &FactsOf::<Fact<GatewayPayment>>::NEW,
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
