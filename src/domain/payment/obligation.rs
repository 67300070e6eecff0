//! An amount that a mother owes for a reservation: the fact, and the pre-registration of its
//! payment.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::decide_cash_receipt_eligibility::Eligibility;
use crate::base::revision::Revision;
use crate::base::shared;
use crate::base::text::{BookingId, BranchProfileId, FamilyAccountId, Ident, MemberId};
use crate::base::time::Timestamp;
use crate::base::won::Won;
use crate::domain::family::payment_authority::scope_or_none;
use crate::domain::listing::{Filter, List, by_few, by_many, is};
use crate::domain::payment_words::{
    CollectionChannel, FeeBucket, FeeRecognitionBasis, LedgerRecognitionTiming, MerchantOfRecord,
    MethodLabel, ObligationPurpose, PaymentActorKind, PaymentMethod, PaymentPurpose,
    PreRegistrationStatus, ReceiptDecision, ReceiptDenial, ReceiptIssuer, ReceiptPurpose,
    ReceiptRequestState, RequestedReceiptPurpose, SettlementLineTarget, SettlementParticipation,
};
use crate::domain::reference::basis_points::BasisPoints;
use crate::domain::reference::kinds::payment_obligation::PaymentObligation;
use crate::domain::reference::{FactHolder, FactKind};
use crate::domain::resource::{Kind, Resource};
use crate::domain::response_body::response_body;
use crate::domain::stored::Older;
use crate::public_events;

/// What the provider's fee is for one payment by one method.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MethodFeeQuote {
    /// Which of the plan's rates it is reckoned by.
    pub bucket: FeeBucket,
    /// The method's name for customers.
    pub display_method_name: MethodLabel,
    /// The payment's amount, in won.
    pub amount_krw: Won,
    /// The fee, in won.
    pub fee_amount_krw: Won,
    /// The rate.
    pub rate_basis_points: BasisPoints,
}

/// The plan's terms for the provider's fee, as of the pre-registration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProviderFeeSnapshot {
    /// By which route the payment reaches the provider.
    pub provider_routing_key: Ident,
    /// As what it takes part in the settlement.
    pub settlement_participation: SettlementParticipation,
    /// When the ledger takes notice of it.
    pub ledger_recognition_timing: LedgerRecognitionTiming,
    /// Which amount the fee is reckoned from.
    pub fee_recognition_basis: FeeRecognitionBasis,
    /// The settlement's lines that it goes to; at least one.
    pub settlement_line_targets: Vec<SettlementLineTarget>,
    /// Whether the amount that a customer sees is final once it is paid.
    pub freezes_customer_visible_amount_after_payment: bool,
    /// Whether a later change of the catalogue may change what was shown.
    pub later_catalog_changes_can_alter_exposed_result: bool,
    /// The fee.
    pub method_fee_quote: MethodFeeQuote,
}

/// Who pre-registered a payment, in which capacity, and what that authority rested on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PaymentActorSnapshot {
    /// The snapshot's identifier.
    pub payment_actor_snapshot_id: Uuid,
    /// The actor as a user.
    pub actor_user_id: Box<str>,
    /// The actor as a member; the user where the actor is none.
    pub actor_member_id: Box<str>,
    /// In which capacity.
    pub actor_kind: PaymentActorKind,
    /// The mother who owes, as a user.
    pub mother_user_id: Ident,
    /// The mother who owes, as a member.
    pub mother_member_id: MemberId,
    /// The branch of the reservation.
    pub branch_profile_id: BranchProfileId,
    /// The family account of the delegation.
    pub family_account_id: Option<FamilyAccountId>,
    /// The delegation that the authority rested on.
    pub payment_delegation_id: Option<Uuid>,
    /// The delegation's scope.
    #[schemars(schema_with = "scope_or_none")]
    pub payment_delegation_scope: Option<Box<str>>,
    /// The delegation's revision.
    pub payment_delegation_revision: Option<Revision>,
    /// The most that the delegation allows to be paid, in won.
    pub maximum_authorized_amount_krw: Option<Won>,
    /// What the authority rested on, each once, as `kind/id@revision`.
    pub authority_evidence: Vec<Box<str>>,
    /// The idempotency key.
    pub idempotency_key: Box<str>,
    /// When.
    pub authorized_at: Timestamp,
}

/// What was asked for of a cash receipt, and what was decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CashReceiptEligibilitySnapshot {
    /// The snapshot's identifier.
    pub cash_receipt_eligibility_snapshot_id: Uuid,
    /// The payment.
    pub payment_id: Box<str>,
    /// The product plan that it was decided by.
    pub payment_product_plan_code: Ident,
    /// What the payment is for.
    pub obligation_purpose: ObligationPurpose,
    /// Whether a receipt was wanted.
    pub request_state: ReceiptRequestState,
    /// What it was wanted for.
    pub requested_purpose: RequestedReceiptPurpose,
    /// For whom it was to be registered.
    pub registration_identity_reference: Option<Ident>,
    /// What was decided.
    pub decision_state: ReceiptDecision,
    /// Who sells.
    pub merchant_of_record: MerchantOfRecord,
    /// Who takes the money.
    pub collection_channel: CollectionChannel,
    /// Who issues the receipt.
    pub receipt_issuer: ReceiptIssuer,
    /// What the receipt is for, where it was accepted.
    pub accepted_purpose: Option<ReceiptPurpose>,
    /// Why it was rejected.
    pub denial_reason_code: Option<ReceiptDenial>,
    /// Whether the payment provider may issue it.
    pub provider_issue_allowed: bool,
    /// When.
    pub decided_at: Timestamp,
}

/// A customer's request for a cash receipt, as the pre-registration stores it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceiptWish {
    /// Whether a receipt is wanted.
    pub request_state: ReceiptRequestState,
    /// The purpose for which it is wanted.
    pub purpose: RequestedReceiptPurpose,
    /// The identity under which it is to be registered.
    pub registration_identity_reference: Option<Ident>,
}

impl CashReceiptEligibilitySnapshot {
    /// Makes the snapshot of a decision.
    #[must_use]
    pub fn new(
        snapshot_id: Uuid,
        payment_id: &str,
        obligation: &PaymentObligation,
        wish: &ReceiptWish,
        decided: &Eligibility,
        now: Timestamp,
    ) -> Self {
        Self {
            cash_receipt_eligibility_snapshot_id: snapshot_id,
            payment_id: payment_id.into(),
            payment_product_plan_code: obligation.payment_product_plan_code.clone(),
            obligation_purpose: obligation.payment_purpose.into(),
            request_state: wish.request_state,
            requested_purpose: wish.purpose,
            registration_identity_reference: wish.registration_identity_reference.clone(),
            decision_state: decided.decision_state,
            merchant_of_record: decided.merchant_of_record,
            collection_channel: decided.collection_channel,
            receipt_issuer: decided.receipt_issuer,
            accepted_purpose: decided.accepted_purpose,
            denial_reason_code: decided.denial_reason_code,
            provider_issue_allowed: decided.provider_issue_allowed,
            decided_at: now,
        }
    }

    /// Returns the request for a receipt.
    #[must_use]
    pub fn wish(&self) -> ReceiptWish {
        ReceiptWish {
            request_state: self.request_state,
            purpose: self.requested_purpose,
            registration_identity_reference: self.registration_identity_reference.clone(),
        }
    }
}

/// The pre-registration of a payment: what was owed, and the three snapshots. It never changes,
/// even if the obligation or the plan does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreRegistration {
    /// The booking.
    pub reservation_booking_id: BookingId,
    /// The method of payment.
    pub payment_method: PaymentMethod,
    /// The purpose of the payment.
    pub payment_purpose: PaymentPurpose,
    /// The amount, in won.
    pub amount_krw: Won,
    /// The product plan.
    pub payment_product_plan_code: Ident,
    /// The fee.
    pub fee: ProviderFeeSnapshot,
    /// The actor and the actor's authority.
    pub actor: PaymentActorSnapshot,
    /// The cash receipt.
    pub cash_receipt: CashReceiptEligibilitySnapshot,
}

/// An obligation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Obligation {
    /// Its identifier, paymentId.
    pub payment_id: Box<str>,
    /// The fact's revision.
    pub fact_revision: Revision,
    /// The current fact.
    #[serde(with = "shared")]
    pub fact: Arc<PaymentObligation>,
    /// Whether only the mother may pay it: it is owed for a consultation, which has no booking.
    pub mother_alone: bool,
    /// Its pre-registration, if there is one.
    #[serde(with = "shared::optional")]
    pub pre_registration: Option<Arc<PreRegistration>>,
}

/// The event that a fact comes in, or that a commit of this service creates an obligation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObligationPut {
    /// Its identifier.
    pub payment_id: Box<str>,
    /// The fact's revision.
    pub revision: Revision,
    /// The facts.
    #[serde(with = "shared")]
    pub fact: Arc<PaymentObligation>,
}

/// What can happen to an obligation. New events go at the end: records store their index, and each has a
/// line in `public_events!`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum ObligationEvent {
    /// A new revision of the fact is put in place.
    Put(Box<ObligationPut>),
    /// An obligation is created for a consultation.
    BornOfConsultation(Box<ObligationPut>),
    /// The payment is pre-registered.
    PreRegistered(#[serde(with = "shared")] Arc<PreRegistration>),
    /// A new revision of the fact is put in place, and the payment is pre-registered already.
    PutOnceRegistered(Box<ObligationPut>),
}

impl ObligationEvent {
    /// Returns the event that creates an obligation, at revision 1, together with the reservation
    /// that it is owed for.
    #[must_use]
    pub fn born(payment_id: &str, fact: PaymentObligation) -> Self {
        Self::Put(Box::new(ObligationPut::first(payment_id, fact)))
    }

    /// Returns the event that creates an obligation, at revision 1, for a consultation: the request
    /// for the consultation is stored in place of the booking, and only the mother may pre-register
    /// the payment.
    #[must_use]
    pub fn born_of_consultation(payment_id: &str, fact: PaymentObligation) -> Self {
        Self::BornOfConsultation(Box::new(ObligationPut::first(payment_id, fact)))
    }
}

impl ObligationPut {
    fn first(payment_id: &str, fact: PaymentObligation) -> Self {
        Self {
            payment_id: payment_id.into(),
            revision: Revision::FIRST,
            fact: Arc::new(fact),
        }
    }
}

impl Resource for Obligation {
    const KIND: Kind = PaymentObligation::KIND;
    type Event = ObligationEvent;
    /// Version 1 had the same event for every fact that came in.
    const OLDER: &'static [Older<Self, ObligationEvent>] = &[Older::ADDED_TO];
    /// The list contains obligations from their pre-registration on.
    const LIST: Option<List<Self>> = Some(List {
        from_when: Some(|it| it.pre_registration.is_some()),
        ..List::<Self>::by(&[
            by_many(Filter::Branch, |it| {
                is(&it.registered()?.actor.branch_profile_id)
            }),
            by_few(Filter::Booking, |it| {
                is(&it.registered()?.reservation_booking_id)
            }),
            by_many(Filter::Status, |_| {
                is(PreRegistrationStatus::PreRegistered.as_str())
            }),
            by_few(Filter::Payment, |it| is(&it.payment_id)),
            by_few(Filter::Mother, |it| {
                is(&it.registered()?.actor.mother_user_id)
            }),
            by_many(Filter::MovedToBranch, |it| {
                let before = &it.registered()?.actor.branch_profile_id;
                moved(before, &it.fact.branch_profile_id)
            }),
            by_few(Filter::MovedToMother, |it| {
                moved(
                    &it.registered()?.actor.mother_user_id,
                    &it.fact.mother_user_id,
                )
            }),
            by_few(Filter::MovedToBooking, |it| {
                let before = &it.registered()?.reservation_booking_id;
                moved(before, &it.fact.reservation_booking_id)
            }),
        ])
    });

    fn apply(state: Option<Self>, event: &ObligationEvent, _: Timestamp) -> Self {
        match (state, event) {
            (None, ObligationEvent::Put(first)) => Self::new(first, false),
            (None, ObligationEvent::BornOfConsultation(first)) => Self::new(first, true),
            (
                Some(mut obligation),
                ObligationEvent::Put(later) | ObligationEvent::PutOnceRegistered(later),
            ) => {
                obligation.fact_revision = later.revision;
                obligation.fact = Arc::clone(&later.fact);
                obligation
            }
            (Some(mut obligation), ObligationEvent::PreRegistered(registration))
                if obligation.pre_registration.is_none() =>
            {
                obligation.pre_registration = Some(Arc::clone(registration));
                obligation
            }
            (Some(_), _) => panic!("an obligation is born once and pre-registered once"),
            (None, ObligationEvent::PreRegistered(_) | ObligationEvent::PutOnceRegistered(_)) => {
                panic!("an obligation that does not exist cannot be pre-registered")
            }
        }
    }

    fn id(&self) -> Vec<String> {
        vec![String::from(&*self.payment_id)]
    }

    /// Returns the fact's revision, since a pre-registration does not change what is owed.
    fn revision(&self) -> Revision {
        self.fact_revision
    }

    fn validate(&self) -> Result<(), String> {
        self.registered()
            .map_or(Ok(()), |it| it.validate(&self.payment_id))
    }
}

public_events! {
    Obligation by ObligationEvent, read at "reservation-payment-pre-registrations/{}",
        revision none;

    Put(put) => fact(&put.payment_id, put.revision),
    /// A confirmed consultation is to be paid.
    BornOfConsultation(_) => "born-of-consultation"
        (at "reference-facts/payment-obligation/{}", revision own) {},
    /// The payment is registered before it is made.
    PreRegistered(registration) => "pre-registered" {
        "reservationBookingId": BookingId = registration.reservation_booking_id,
        "paymentMethod": PaymentMethod = registration.payment_method,
        "paymentPurpose": PaymentPurpose = registration.payment_purpose,
        "amountKrw": Won = registration.amount_krw,
        "branchProfileId": BranchProfileId = registration.actor.branch_profile_id,
        "paymentProductPlanCode": Ident = registration.payment_product_plan_code,
    },
    /// The fact of a pre-registered payment came in.
    PutOnceRegistered(put) => again(&put.payment_id, put.revision) and "changed" {},
}

impl Obligation {
    fn new(first: &ObligationPut, mother_alone: bool) -> Self {
        Self {
            payment_id: first.payment_id.clone(),
            fact_revision: first.revision,
            fact: Arc::clone(&first.fact),
            mother_alone,
            pre_registration: None,
        }
    }

    fn registered(&self) -> Option<&PreRegistration> {
        self.pre_registration.as_deref()
    }
}

impl PreRegistration {
    fn validate(&self, payment_id: &str) -> Result<(), String> {
        if *self.cash_receipt.payment_id != *payment_id {
            return Err("the pre-registration is another payment's".to_owned());
        }
        let quote = &self.fee.method_fee_quote;
        if quote.amount_krw != self.amount_krw
            || !(Won::ZERO..=self.amount_krw).contains(&quote.fee_amount_krw)
        {
            return Err(format!(
                "a fee of {} on {} for a payment of {}",
                quote.fee_amount_krw, quote.amount_krw, self.amount_krw
            ));
        }
        let actor = &self.actor;
        let evidence: BTreeSet<_> = actor.authority_evidence.iter().collect();
        if evidence.is_empty() || evidence.len() != actor.authority_evidence.len() {
            return Err("authority rests on nothing, or on one thing twice".to_owned());
        }
        let delegated = actor.actor_kind == PaymentActorKind::DelegatedFamilyPayer;
        let delegation = [
            actor.payment_delegation_id.is_some(),
            actor.payment_delegation_scope.is_some(),
            actor.payment_delegation_revision.is_some(),
            actor.maximum_authorized_amount_krw.is_some(),
            actor.family_account_id.is_some(),
        ];
        if delegation != [delegated; 5] {
            return Err("a delegation is a delegated payer's, and whole".to_owned());
        }
        if actor
            .maximum_authorized_amount_krw
            .is_some_and(|maximum| maximum < self.amount_krw)
        {
            return Err("the delegation does not cover the payment".to_owned());
        }
        Ok(())
    }
}

/// Returns the fact's current value, if it differs from the registered one.
fn moved<'a, T: PartialEq + AsRef<str>>(registered: &T, by_now: &'a T) -> Option<Cow<'a, str>> {
    (registered != by_now).then(|| Cow::Borrowed(by_now.as_ref()))
}

impl FactHolder for Obligation {
    type Facts = PaymentObligation;

    fn fact(&self) -> Option<(Revision, &PaymentObligation)> {
        Some((self.fact_revision, self.fact.as_ref()))
    }

    fn put(
        state: Option<&Self>,
        id: &str,
        revision: Revision,
        fact: &PaymentObligation,
    ) -> Option<ObligationEvent> {
        let put = Box::new(ObligationPut {
            payment_id: id.into(),
            revision,
            fact: Arc::new(fact.clone()),
        });
        let is_registered = state.is_some_and(|it| it.pre_registration.is_some());
        Some(if is_registered {
            ObligationEvent::PutOnceRegistered(put)
        } else {
            ObligationEvent::Put(put)
        })
    }
}

response_body! {
    /// A pre-registration as its readers see it.
    #[schemars(rename = "ReservationPaymentPreRegistration")]
    pub struct PreRegistrationBody<'a> from (registration: &'a PreRegistration, status: PreRegistrationStatus) {} as {
        reservation_booking_id: &'a BookingId = &registration.reservation_booking_id,
        payment_id: &'a str = &registration.cash_receipt.payment_id,
        payment_method: PaymentMethod = registration.payment_method,
        payment_purpose: PaymentPurpose = registration.payment_purpose,
        amount_krw: Won = registration.amount_krw,
        payment_product_plan_code: &'a Ident = &registration.payment_product_plan_code,
        provider_fee_snapshot: &'a ProviderFeeSnapshot = &registration.fee,
        payment_actor_snapshot: &'a PaymentActorSnapshot = &registration.actor,
        cash_receipt_eligibility_snapshot: &'a CashReceiptEligibilitySnapshot =
            &registration.cash_receipt,
        pre_registration_status: PreRegistrationStatus = status,
        /// The embedded gateway is not asked, so it says nothing.
        gateway_code: Option<&'a str> = None,
        gateway_message: Option<&'a str> = None,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::{Value, json};

    use super::super::samples::{PAYMENT, mother, obligation, pre_register, service};
    use super::*;
    use crate::base::json::{FromJson, Json, Reader};
    use crate::domain::event::{Changed, PublicEvents as _};
    use crate::domain::scenario::{Scenario, with};

    fn state(service: &Scenario) -> Obligation {
        service.state(&[PAYMENT]).unwrap()
    }

    fn fact() -> PaymentObligation {
        let text = obligation().to_string();
        let json = Json::parse(text.as_bytes()).unwrap();
        PaymentObligation::read(&json, &mut Reader::new(Timestamp::default())).unwrap()
    }

    #[test]
    fn an_obligation_born_here_is_as_one_that_came_in_at_revision_1() {
        let came_in = state(&service());
        let born = ObligationEvent::born(PAYMENT, fact());
        let born = Obligation::apply(None, &born, Timestamp::default());
        assert_eq!(born, came_in);
        assert_eq!(born.fact_revision, Revision::FIRST);
        let of_consultation = ObligationEvent::born_of_consultation(PAYMENT, fact());
        let of_consultation = Obligation::apply(None, &of_consultation, Timestamp::default());
        assert_eq!(
            of_consultation,
            Obligation {
                mother_alone: true,
                ..born
            }
        );
    }

    #[test]
    fn the_birth_with_a_consultation_is_told_under_the_path_of_the_fact() {
        let born = ObligationEvent::born_of_consultation(PAYMENT, fact());
        let changed = Changed {
            is_fact: false,
            advances: true,
            path: &[PAYMENT],
            revision: Revision::FIRST,
        };
        let [told] = &Obligation::public_events(&born, &changed)[..] else {
            panic!("it is told once");
        };
        let kind = PaymentObligation::KIND.name;
        assert_eq!(told.subject, format!("reference-facts/{kind}/{PAYMENT}"));
    }

    #[test]
    fn a_fact_is_told_under_the_pre_registration_too_once_there_is_one() {
        let mut service = service();
        let told = |obligation: &Obligation| {
            let put = Obligation::put(Some(obligation), PAYMENT, Revision::new(2), &fact());
            let changed = Changed {
                is_fact: true,
                advances: true,
                path: &[PAYMENT],
                revision: Revision::new(2),
            };
            let told = Obligation::public_events(&put.unwrap(), &changed);
            let told = told
                .into_iter()
                .map(|told| (told.name.event_type(), told.subject, told.revision));
            told.collect::<Vec<_>>()
        };
        let kind = PaymentObligation::KIND.name;
        let applied = (
            "carebook.reference-fact.applied".to_owned(),
            format!("reference-facts/{kind}/{PAYMENT}"),
            Some(Revision::new(2)),
        );
        assert_eq!(told(&state(&service)), std::slice::from_ref(&applied));
        service.acting(mother());
        pre_register(&mut service).committed();
        let changed = (
            "carebook.payment-obligation.changed".to_owned(),
            format!("reservation-payment-pre-registrations/{PAYMENT}"),
            None,
        );
        assert_eq!(told(&state(&service)), [applied, changed]);
    }

    #[test]
    fn facts_come_in_as_to_any_other_kind() {
        let mut service = service();
        let same = service.put_fact("payment-obligation", PAYMENT, 1, obligation());
        assert_eq!(same.answered(), Value::from("unchanged"));
        let other = with(&obligation(), &[("amountKrw", json!(1))]);
        let conflict = service.put_fact("payment-obligation", PAYMENT, 1, other.clone());
        assert_eq!(conflict.code(), "conflict");
        service.fact("payment-obligation", PAYMENT, 5, other);
        assert_eq!(state(&service).fact_revision.number(), 5);
        let stale = service.put_fact("payment-obligation", PAYMENT, 4, obligation());
        assert_eq!(stale.code(), "stale");
    }

    #[test]
    fn a_pre_registration_and_a_later_fact_leave_each_other_unchanged() {
        let mut service = service();
        let before = state(&service);
        service.acting(mother());
        pre_register(&mut service).committed();
        let registered = state(&service);
        assert_eq!(registered.fact_revision, Revision::FIRST);
        assert_eq!(
            Obligation {
                pre_registration: None,
                ..registered.clone()
            },
            before
        );
        let paid = with(&obligation(), &[("state", json!("paid"))]);
        service.fact("payment-obligation", PAYMENT, 2, paid);
        let later = state(&service);
        assert_eq!(later.fact_revision.number(), 2);
        assert_eq!(later.pre_registration, registered.pre_registration);
    }

    #[test]
    fn a_fact_does_not_open_a_consultations_obligation_to_others() {
        let born = ObligationEvent::born_of_consultation(PAYMENT, fact());
        let born = Obligation::apply(None, &born, Timestamp::default());
        let later = Obligation::put(Some(&born), PAYMENT, Revision::new(2), &fact()).unwrap();
        assert!(Obligation::apply(Some(born), &later, Timestamp::default()).mother_alone);
    }

    #[test]
    fn states_that_cannot_be_are_told() {
        let mut service = service();
        service.acting(mother());
        pre_register(&mut service).committed();
        let good = state(&service);
        assert_eq!(good.validate(), Ok(()));
        let bad = |change: fn(&mut PreRegistration)| {
            let mut bad = good.clone();
            change(Arc::make_mut(bad.pre_registration.as_mut().unwrap()));
            bad.validate().is_err()
        };
        assert!(bad(
            |registration| registration.amount_krw = Won::new(registration.amount_krw.number() - 1)
        ));
        assert!(bad(|registration| {
            registration.fee.method_fee_quote.fee_amount_krw = Won::new(-1);
        }));
        assert!(bad(|registration| {
            registration.fee.method_fee_quote.fee_amount_krw =
                Won::new(registration.amount_krw.number() + 1);
        }));
        assert!(bad(|registration| registration
            .actor
            .authority_evidence
            .clear()));
        assert!(bad(|registration| {
            let again = registration.actor.authority_evidence[0].clone();
            registration.actor.authority_evidence.push(again);
        }));
        assert!(bad(|registration| {
            registration.actor.payment_delegation_id = Some(Uuid::nil());
        }));
        assert!(bad(|registration| {
            registration.actor.actor_kind = PaymentActorKind::DelegatedFamilyPayer;
        }));
        assert!(bad(
            |registration| registration.cash_receipt.payment_id = "payment-2".into()
        ));
    }

    #[test]
    #[should_panic(expected = "pre-registered once")]
    fn nothing_replaces_a_pre_registration() {
        let mut service = service();
        service.acting(mother());
        pre_register(&mut service).committed();
        let obligation = state(&service);
        let again = obligation.pre_registration.clone().unwrap();
        let again = ObligationEvent::PreRegistered(again);
        Obligation::apply(Some(obligation), &again, Timestamp::default());
    }
}
