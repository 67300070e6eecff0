//! A reservation draft: the fact of its own system, and its confirmation, which is made by this
//! service.

use std::borrow::Cow;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::base::digest::Fingerprint;
use crate::base::json::AtLeast;
use crate::base::revision::Revision;
use crate::base::shared;
use crate::base::text::{BookingId, DraftId, Ident};
use crate::base::time::Timestamp;
use crate::base::won::Won;
use crate::domain::index::{Index, IndexKey};
use crate::domain::payment_words::PaymentMethod;
use crate::domain::reference::kinds::reservation_draft::{ReservationDraftFact, ReservationIntent};
use crate::domain::reference::{FactHolder, FactKind};
use crate::domain::resource::{Kind, Resource};
use crate::domain::response_body::response_body;
use crate::{public_events, wire_enum};

wire_enum! {
    /// The currency of a handed-over payment.
    pub enum HandoffCurrency {
        /// South Korean won.
        Krw = "KRW",
    }
}

wire_enum! {
    /// The state of a handed-over payment.
    pub enum HandoffState {
        /// The payment is still to be prepared.
        PreparationRequired = "preparation_required",
    }
}

/// A payment that is handed over to the systems that collect it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaymentHandoff {
    /// Its identifier.
    pub payment_handoff_id: Uuid,
    /// The snapshot of the charge at the handover.
    pub charge_snapshot_id: Uuid,
    /// The paymentId of the obligation that is created with it.
    pub payment_obligation_id: Uuid,
    /// The amount that the customer pays, in won.
    pub payable_amount_krw: Won,
    /// The possible payment methods, at least one; the first is the obligation's.
    pub eligible_payment_method_codes: Vec<PaymentMethod>,
}

/// The event that a draft is confirmed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DraftConfirmed {
    /// The identifier of the command that created the reservation.
    pub customer_reservation_creation_command_id: Uuid,
    /// The revision at which the draft was accepted: the one before the confirmation.
    pub accepted_draft_revision: Revision,
    /// The final review that was accepted.
    pub accepted_review_projection_id: Ident,
    /// The revision at which it was accepted.
    pub accepted_review_revision: Revision,
    /// The identifier of the request for a booking.
    pub reservation_booking_request_id: Uuid,
    /// The booking that is created with it; none for a consultation.
    pub reservation_booking_id: Option<Uuid>,
    /// The kind of the result.
    pub creation_outcome: ReservationIntent,
    /// The booking that is extended.
    pub extension_source_reservation_id: Option<BookingId>,
    /// SHA-256 over the accepted content: the review with intent and extension source.
    pub reviewed_fact_fingerprint: Fingerprint,
    /// The identifier of the contract's acceptance.
    pub contract_acceptance_id: Uuid,
    /// The subject who accepted the contract.
    pub accepted_by_subject: Ident,
    /// The handover of the payment.
    pub handoff: PaymentHandoff,
}

/// The confirmation of a draft.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confirmation {
    /// Its outcome.
    #[serde(with = "shared")]
    pub outcome: Arc<DraftConfirmed>,
    /// The time of the confirmation, which is also that of the contract's acceptance.
    pub confirmed_at: Timestamp,
}

/// A draft.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReservationDraft {
    /// Its identifier.
    pub id: Box<str>,
    /// Its revision, which is also the fact's: its own system counts facts, and the confirmation
    /// adds one.
    pub revision: Revision,
    /// The last fact that came in.
    #[serde(with = "shared")]
    pub facts: Arc<ReservationDraftFact>,
    /// Its confirmation, if there is one. Later facts do not change it.
    pub confirmation: Option<Confirmation>,
}

/// The event that a fact comes in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FactCameIn {
    /// The draft's identifier.
    pub id: Box<str>,
    /// The fact's revision.
    pub revision: Revision,
    /// The facts.
    #[serde(with = "shared")]
    pub facts: Arc<ReservationDraftFact>,
}

/// What can happen to a draft. New events go at the end: records store their index, and each has a
/// line in `public_events!`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum ReservationDraftEvent {
    /// A fact comes in.
    FactCameIn(Box<FactCameIn>),
    /// Its owner confirms it.
    Confirmed(#[serde(with = "shared")] Arc<DraftConfirmed>),
}

impl Resource for ReservationDraft {
    const KIND: Kind = ReservationDraftFact::KIND;
    type Event = ReservationDraftEvent;

    fn apply(state: Option<Self>, event: &ReservationDraftEvent, at: Timestamp) -> Self {
        match (state, event) {
            (before, ReservationDraftEvent::FactCameIn(fact)) => Self {
                id: fact.id.clone(),
                revision: fact.revision,
                facts: Arc::clone(&fact.facts),
                confirmation: before.and_then(|draft| draft.confirmation),
            },
            (Some(draft), ReservationDraftEvent::Confirmed(outcome)) => draft.confirm(outcome, at),
            (None, ReservationDraftEvent::Confirmed(_)) => {
                panic!("a draft that does not exist cannot be confirmed")
            }
        }
    }

    fn id(&self) -> Vec<String> {
        vec![String::from(&*self.id)]
    }

    fn revision(&self) -> Revision {
        self.revision
    }

    fn unique_keys(&self) -> Vec<IndexKey> {
        let confirmed = self.confirmation.iter();
        let sources =
            confirmed.filter_map(|held| held.outcome.extension_source_reservation_id.as_ref());
        sources.map(Self::extending).collect()
    }

    fn validate(&self) -> Result<(), String> {
        let Some(Confirmation { outcome, .. }) = &self.confirmation else {
            return Ok(());
        };
        if outcome.accepted_draft_revision >= self.revision {
            return Err(format!(
                "confirmed at revision {}, and it stands at {}",
                outcome.accepted_draft_revision, self.revision
            ));
        }
        let is_consultation = outcome.creation_outcome == ReservationIntent::Consultation;
        if outcome.reservation_booking_id.is_some() == is_consultation {
            return Err("all but a consultation have a booking".to_owned());
        }
        let handoff = &outcome.handoff;
        if handoff.payable_amount_krw <= Won::ZERO
            || handoff.eligible_payment_method_codes.is_empty()
        {
            return Err("there is nothing to pay, or no way to pay it".to_owned());
        }
        Ok(())
    }
}

public_events! {
    ReservationDraft by ReservationDraftEvent, read at "reference-facts/reservation-draft/{}",
        revision own;

    FactCameIn(came) => fact(&came.id, came.revision),
    /// The draft is confirmed: a reservation, or a consultation, is made of it.
    Confirmed(confirmed) => "confirmed" {
        "creationOutcome": ReservationIntent = confirmed.creation_outcome,
        "customerReservationCreationCommandId": Uuid =
            confirmed.customer_reservation_creation_command_id,
        "reservationBookingRequestId": Uuid = confirmed.reservation_booking_request_id,
        "reservationBookingId": Option<Uuid> = confirmed.reservation_booking_id,
        "extensionSourceReservationId": Option<BookingId> =
            confirmed.extension_source_reservation_id,
        "paymentObligationId": Uuid = confirmed.handoff.payment_obligation_id,
        "payableAmountKrw": Won = confirmed.handoff.payable_amount_krw,
    },
}

impl ReservationDraft {
    /// Returns the unique key that the confirmed draft holds which extends this booking.
    #[must_use]
    pub fn extending(reservation_booking_id: &BookingId) -> IndexKey {
        IndexKey::new(Index::ExtensionSource, &[reservation_booking_id])
    }

    fn confirm(mut self, outcome: &Arc<DraftConfirmed>, at: Timestamp) -> Self {
        assert!(
            self.confirmation.is_none() && outcome.accepted_draft_revision == self.revision,
            "a draft is confirmed once, as it stands"
        );
        self.revision = self.revision.next();
        self.confirmation = Some(Confirmation {
            outcome: Arc::clone(outcome),
            confirmed_at: at,
        });
        self
    }
}

impl FactHolder for ReservationDraft {
    type Facts = ReservationDraftFact;

    fn fact(&self) -> Option<(Revision, &ReservationDraftFact)> {
        Some((self.revision, self.facts.as_ref()))
    }

    fn put(
        _: Option<&Self>,
        id: &str,
        revision: Revision,
        facts: &ReservationDraftFact,
    ) -> Option<ReservationDraftEvent> {
        Some(ReservationDraftEvent::FactCameIn(Box::new(FactCameIn {
            id: id.into(),
            revision,
            facts: Arc::new(facts.clone()),
        })))
    }
}

/// Why a draft cannot be confirmed.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "CustomerReservationCreationConflict")]
pub struct ConflictBody<'a> {
    /// Why.
    pub(super) conflict_code: &'a str,
    pub(super) draft_id: &'a DraftId,
    pub(super) expected_draft_revision: AtLeast<1>,
    pub(super) current_draft_revision: Option<Revision>,
    pub(super) reservation_draft_step_authority_projection_id: &'a Ident,
    pub(super) expected_review_revision: AtLeast<1>,
    pub(super) current_review_revision: Option<Revision>,
    pub(super) refresh_required: bool,
    pub(super) conflicting_field_paths: &'a [Cow<'static, str>],
    pub(super) disabled_reason_codes: &'a [&'a str],
}

response_body! {
    /// What came of a draft's confirmation, as its owner sees it.
    #[schemars(rename = "CustomerReservationCreation")]
    pub struct CreationBody<'a> from (draft_id: &'a str, outcome: &'a DraftConfirmed) {
        // The outcome of the confirmation of the draft with this identifier.
        let handoff = &outcome.handoff;
    } as {
        customer_reservation_creation_command_id: Uuid = outcome
            .customer_reservation_creation_command_id,
        draft_id: &'a str = draft_id,
        accepted_draft_revision: Revision = outcome.accepted_draft_revision,
        accepted_review_projection_id: &'a Ident = &outcome.accepted_review_projection_id,
        accepted_review_revision: Revision = outcome.accepted_review_revision,
        reservation_booking_request_id: Uuid = outcome.reservation_booking_request_id,
        reservation_booking_id: Option<Uuid> = outcome.reservation_booking_id,
        creation_outcome: ReservationIntent = outcome.creation_outcome,
        reviewed_fact_fingerprint: String = outcome.reviewed_fact_fingerprint.to_hex(),
        contract_acceptance_id: Uuid = outcome.contract_acceptance_id,
        reservation_creation_payment_handoff: HandoffBody<'a> = HandoffBody {
            payment_handoff_id: handoff.payment_handoff_id,
            charge_snapshot_id: handoff.charge_snapshot_id,
            payment_obligation_id: handoff.payment_obligation_id,
            currency_code: HandoffCurrency::Krw,
            payable_amount_krw: handoff.payable_amount_krw,
            eligible_payment_method_codes: &handoff.eligible_payment_method_codes,
            handoff_state: HandoffState::PreparationRequired,
        },
        /// Whether this is the answer of an earlier request once more.
        // Last, so that a replay can turn it round.
        idempotent_replay: bool = false,
    }
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "PaymentHandoff")]
struct HandoffBody<'a> {
    payment_handoff_id: Uuid,
    charge_snapshot_id: Uuid,
    payment_obligation_id: Uuid,
    currency_code: HandoffCurrency,
    payable_amount_krw: Won,
    eligible_payment_method_codes: &'a [PaymentMethod],
    handoff_state: HandoffState,
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::base::codec;
    use crate::domain::scenario::{Scenario, Then};

    fn fact(branch: &str) -> Value {
        json!({"ownerSubject": "user-1", "motherMemberId": "mother-1", "branchProfileId": branch,
            "intent": "extension", "expiresAt": "2026-12-01T00:00:00Z",
            "currentReviewProjectionId": null, "disabledReasonCodes": []})
    }

    fn outcome(revision: i64) -> DraftConfirmed {
        let id = |number| Uuid::from_u128(number);
        DraftConfirmed {
            customer_reservation_creation_command_id: id(1),
            accepted_draft_revision: Revision::new(revision),
            accepted_review_projection_id: Ident::from_trusted("review-1"),
            accepted_review_revision: Revision::FIRST,
            reservation_booking_request_id: id(2),
            reservation_booking_id: Some(id(3)),
            creation_outcome: ReservationIntent::Extension,
            extension_source_reservation_id: Some(BookingId::from_trusted("booking-9")),
            reviewed_fact_fingerprint: Fingerprint::of(b"reviewed"),
            contract_acceptance_id: id(4),
            accepted_by_subject: Ident::from_trusted("user-1"),
            handoff: PaymentHandoff {
                payment_handoff_id: id(5),
                charge_snapshot_id: id(6),
                payment_obligation_id: id(7),
                payable_amount_krw: Won::new(1),
                eligible_payment_method_codes: vec![PaymentMethod::Card],
            },
        }
    }

    fn unconfirmed() -> ReservationDraft {
        let mut service = Scenario::new();
        service.fact("reservation-draft", "draft-1", 4, fact("branch-1"));
        service.state(&["draft-1"]).unwrap()
    }

    fn confirmed() -> ReservationDraft {
        let event = ReservationDraftEvent::Confirmed(Arc::new(outcome(4)));
        ReservationDraft::apply(Some(unconfirmed()), &event, Timestamp::from_millis(7))
    }

    #[test]
    fn a_confirmation_advances_the_revision_by_one_and_holds_the_source() {
        let before = unconfirmed();
        assert_eq!(
            (before.revision.number(), before.unique_keys()),
            (4, vec![])
        );
        let after = confirmed();
        assert_eq!(after.validate(), Ok(()));
        assert_eq!(after.revision.number(), 5);
        assert_eq!(
            after.unique_keys(),
            [ReservationDraft::extending(&BookingId::from_trusted(
                "booking-9"
            ))]
        );
        assert_eq!(after.facts, before.facts);
        let confirmation = after.confirmation.clone().unwrap();
        assert_eq!(*confirmation.outcome, outcome(4));
        assert_eq!(confirmation.confirmed_at, Timestamp::from_millis(7));
        assert_eq!(
            codec::decode::<ReservationDraft>(&codec::encode(&after)).unwrap(),
            after
        );
    }

    #[test]
    fn facts_apply_to_a_confirmed_draft_as_to_any_and_keep_its_confirmation() {
        let mut service = Scenario::new();
        service.given(&confirmed());
        let result = |then: Then| match then {
            Then::Committed(result) | Then::Answered(result) => result,
            Then::Refused(rejection) => json!(rejection.code),
            Then::ReplayOf(key) => panic!("{key}"),
        };
        for (revision, branch, expected, stands_at) in [
            (4, "branch-1", "stale", 5),
            (5, "branch-2", "conflict", 5),
            (5, "branch-1", "unchanged", 5),
            (6, "branch-2", "applied", 6),
            (9, "branch-1", "applied", 9),
        ] {
            let then = service.put_fact("reservation-draft", "draft-1", revision, fact(branch));
            assert_eq!(result(then), expected, "{revision} {branch}");
            let draft: ReservationDraft = service.state(&["draft-1"]).unwrap();
            assert_eq!(draft.revision.number(), stands_at);
            assert_eq!(draft.confirmation, confirmed().confirmation);
            assert_eq!(draft.unique_keys(), confirmed().unique_keys());
        }
    }

    #[test]
    #[should_panic(expected = "a draft is confirmed once")]
    fn a_confirmed_draft_is_not_confirmed_again() {
        let event = ReservationDraftEvent::Confirmed(Arc::new(outcome(5)));
        let _ = ReservationDraft::apply(Some(confirmed()), &event, Timestamp::default());
    }

    #[test]
    #[should_panic(expected = "as it stands")]
    fn a_draft_is_not_confirmed_at_another_revision() {
        let event = ReservationDraftEvent::Confirmed(Arc::new(outcome(3)));
        let _ = ReservationDraft::apply(Some(unconfirmed()), &event, Timestamp::default());
    }

    #[test]
    fn a_confirmation_that_cannot_be_is_found() {
        let spoilt = |spoil: fn(&mut ReservationDraft, &mut DraftConfirmed)| {
            let mut draft = confirmed();
            let mut confirmation = draft.confirmation.take().unwrap();
            spoil(&mut draft, Arc::make_mut(&mut confirmation.outcome));
            draft.confirmation = Some(confirmation);
            draft.validate().is_err()
        };
        assert!(!spoilt(|_, _| ()));
        assert!(spoilt(|draft, _| draft.revision = Revision::new(4)));
        assert!(spoilt(|_, held| held.reservation_booking_id = None));
        assert!(spoilt(
            |_, held| held.creation_outcome = ReservationIntent::Consultation
        ));
        assert!(spoilt(|_, held| held.handoff.payable_amount_krw = Won::ZERO));
        assert!(spoilt(|_, held| held
            .handoff
            .eligible_payment_method_codes
            .clear()));
    }
}
