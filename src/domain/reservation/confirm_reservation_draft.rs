//! The owner of a reservation draft confirms the facts as reviewed, and the reservation comes
//! into being.
//!
//! Resource: the draft. One commit confirms it and creates a booking (not for a consultation) and a
//! payment obligation, both facts like those that come in. Rejections, in the order tested: the
//! draft is unknown; the review is unknown or another draft's (404); the draft is another owner's
//! (403); then conflicts, each with a body of this operation's own: the draft is at another
//! revision; it has expired; it has no current review; its current review is another one; the
//! review is at another revision; the draft is not ready or confirmed already; a fact that the
//! review rests on has changed, or the booking to be extended is not eligible, not active or
//! extended already. All that has changed is returned at once.
//!
//! A key that was used with other facts is refused by the engine, with the same body.

use std::borrow::Cow;
use std::sync::Arc;

use schemars::{Schema, SchemaGenerator};

use super::draft::{
    ConflictBody, CreationBody, DraftConfirmed, PaymentHandoff, ReservationDraft,
    ReservationDraftEvent,
};
use crate::base::actor::{Actor, ActorKind};
use crate::base::digest::{Digest, Fingerprint};
use crate::base::json::AtLeast;
use crate::base::revision::Revision;
use crate::base::text::{BookingId, DraftId, Ident};
use crate::domain::example::Example;
use crate::domain::index::IndexKey;
#[cfg(test)]
use crate::domain::ladder::{Case, Ladder};
use crate::domain::operation::{Commit, Context, Decision, Operation, mark_replayed, to_json};
use crate::domain::payment::obligation::{Obligation, ObligationEvent};
use crate::domain::reference::Fact;
use crate::domain::reference::kinds::extension_eligibility::ExtensionEligibilityFact;
use crate::domain::reference::kinds::final_review_projection::FinalReviewProjectionFact;
use crate::domain::reference::kinds::payment_obligation::{ObligationState, PaymentObligation};
use crate::domain::reference::kinds::reservation_booking::{BookingState, ReservationBooking};
use crate::domain::reference::kinds::reservation_draft::{ReservationDraftFact, ReservationIntent};
use crate::domain::rejection::{Declared, Rejection};
use crate::domain::resource::{ReadView, Resource};
use crate::{json_object, module_doc, path_and_body, rejections, wire_enum};

/// The conflict code for a key that was used with other facts.
const KEY_REUSED: &str = "idempotency_key_reused";
/// The reason code for a draft that was already confirmed.
const ALREADY_CONFIRMED: &str = "draft_already_confirmed";

wire_enum! {
    /// Why a booking cannot be extended.
    pub enum ExtensionFault {
        /// It is not among what the owner may extend, as was reviewed; or none was chosen.
        SourceNotEligible = "extension_source_not_eligible",
        /// It is not active.
        SourceInactive = "extension_source_inactive",
        /// Another confirmed draft extends it.
        Duplicate = "extension_duplicate",
    }
}

path_and_body! {
    /// The content of a request.
    pub struct Command {
        /// The draft.
        pub draft_id: DraftId = "draftId",
        body: Body,
    }
}

json_object! {
    /// The body of the request.
    pub struct Body {
        /// The revision at which the draft was reviewed.
        pub expected_draft_revision: AtLeast<1> = "expectedDraftRevision",
        /// The final review that is accepted.
        pub reservation_draft_step_authority_projection_id: Ident =
            "reservationDraftStepAuthorityProjectionId",
        /// Its revision.
        pub expected_review_revision: AtLeast<1> = "expectedReviewRevision",
    }
}

rejections! {
    /// Why a draft is not confirmed.
    pub enum Reason {
        /// The draft is unknown.
        DraftNotFound = Missing "draft_not_found" []
            "There is no reservation draft with this identifier.",
        /// The review is unknown, or another draft's.
        ProjectionNotFound = Missing "final_review_projection_not_found" []
            "The draft has no final review with this identifier.",
        /// Authority by resource.
        NotPermitted = Forbidden "permission_denied" []
            "Only its owner may confirm a reservation draft.",
        /// The draft is at another revision.
        DraftRevisionMismatch = Conflict "draft_revision_mismatch" ["expectedDraftRevision"]
            "The draft is at another revision: review it again.",
        /// The draft's time is over.
        DraftExpired = Conflict "draft_expired" []
            "The draft has expired.",
        /// The draft has no current review.
        ProjectionMissing = Conflict "final_review_projection_missing" []
            "The draft has no current final review.",
        /// The draft has a newer review.
        ProjectionSuperseded = Conflict "final_review_projection_superseded"
            ["reservationDraftStepAuthorityProjectionId"]
            "Another final review has taken the place of this one.",
        /// The review is at another revision.
        ReviewRevisionMismatch = Conflict "final_review_revision_mismatch"
            ["expectedReviewRevision"]
            "The final review is at another revision: review it again.",
        /// The draft is not ready, or confirmed.
        NotReady = Conflict "confirmation_not_ready" []
            "The draft cannot be confirmed; disabledReasonCodes says why.",
        /// What was reviewed has changed.
        DependencyChanged = Conflict "authoritative_dependency_changed" []
            "What the final review rests on has changed: review it again.",
    }
}

/// The current revisions of the draft and of the review that a command names; `None` where its
/// actor may not know them.
#[derive(Clone, Copy, Default)]
struct Current {
    draft: Option<Revision>,
    review: Option<Revision>,
}

impl Command {
    /// Returns the final review that the command names, if it belongs to the command's draft.
    fn review(&self, view: &ReadView<'_>) -> Option<Fact<FinalReviewProjectionFact>> {
        let id = &self.body.reservation_draft_step_authority_projection_id;
        view.fact::<FinalReviewProjectionFact>(id)
            .filter(|review| review.facts.draft_id == self.draft_id)
    }

    /// Returns the body of a conflict of this command.
    fn conflict_body(
        &self,
        code: &str,
        current: Current,
        paths: &[Cow<'static, str>],
        reasons: &[&str],
    ) -> Vec<u8> {
        let body = &self.body;
        to_json(&ConflictBody {
            conflict_code: code,
            draft_id: &self.draft_id,
            expected_draft_revision: body.expected_draft_revision,
            current_draft_revision: current.draft,
            reservation_draft_step_authority_projection_id: &body
                .reservation_draft_step_authority_projection_id,
            expected_review_revision: body.expected_review_revision,
            current_review_revision: current.review,
            refresh_required: !matches!(code, KEY_REUSED | "confirmation_not_ready"),
            conflicting_field_paths: paths,
            disabled_reason_codes: reasons,
        })
    }
}

/// Returns the paths of the reviewed facts that have changed, each once.
fn changed_dependencies(
    review: &FinalReviewProjectionFact,
    context: &Context<'_>,
) -> Vec<Cow<'static, str>> {
    let mut paths: Vec<Cow<'static, str>> = Vec::new();
    for dependency in &review.dependencies.0 {
        let reviewed = Revision::new(dependency.revision);
        let path = dependency.field_path.as_str();
        let stands = (context.fact_revision)(&context.view, &dependency.kind, &dependency.id);
        if stands != Some(reviewed) && !paths.iter().any(|known| *known == path) {
            paths.push(Cow::Owned(path.to_owned()));
        }
    }
    paths
}

/// Returns the reasons why the reviewed extension, if there is one, cannot be confirmed.
fn extension_faults(
    draft: &ReservationDraft,
    review: &FinalReviewProjectionFact,
    view: &ReadView<'_>,
) -> Vec<ExtensionFault> {
    let facts = &draft.facts;
    let Some(source) = &review.extension_source_reservation_id else {
        return match facts.intent {
            ReservationIntent::Extension => vec![ExtensionFault::SourceNotEligible],
            _ => Vec::new(),
        };
    };
    let catalog = view.fact::<ExtensionEligibilityFact>(&facts.owner_subject);
    let reviewed = review.extension_catalog_revision.map(Revision::new);
    let is_eligible = catalog.is_some_and(|catalog| {
        Some(catalog.revision) == reviewed
            && catalog
                .facts
                .eligible_reservation_booking_ids
                .contains(source)
    });
    let is_active = view
        .fact::<ReservationBooking>(source)
        .is_some_and(|booking| booking.facts.state == BookingState::Active);
    let is_extended = view
        .holder(ReservationDraft::extending(source))
        .is_some_and(|holder| holder != draft.key());
    let mut faults = Vec::new();
    if !is_eligible {
        faults.push(ExtensionFault::SourceNotEligible);
    }
    if !is_active {
        faults.push(ExtensionFault::SourceInactive);
    }
    if is_extended {
        faults.push(ExtensionFault::Duplicate);
    }
    faults
}

/// Returns SHA-256 over the RFC 8785 form of
/// `{"extensionSourceReservationId", "intent", "reviewedFacts"}`. The names are already in the order
/// of RFC 8785, and the source is null where there is none.
fn reviewed_fact_fingerprint(
    review: &FinalReviewProjectionFact,
    intent: ReservationIntent,
) -> Fingerprint {
    let mut text = b"{\"extensionSourceReservationId\":".to_vec();
    text.extend(to_json(&review.extension_source_reservation_id));
    text.extend_from_slice(b",\"intent\":");
    text.extend(to_json(&intent));
    text.extend_from_slice(b",\"reviewedFacts\":");
    text.extend_from_slice(review.reviewed_facts.canonical().as_bytes());
    text.push(b'}');
    Fingerprint::of(&text)
}

/// Returns the outcome of confirming `draft` on this review.
fn outcome(
    draft: &ReservationDraft,
    review: &Fact<FinalReviewProjectionFact>,
    context: &Context<'_>,
) -> DraftConfirmed {
    let intent = draft.facts.intent;
    let payment = &review.facts.payment;
    DraftConfirmed {
        customer_reservation_creation_command_id: context.new_id,
        accepted_draft_revision: draft.revision,
        accepted_review_projection_id: Ident::from_trusted(review.id.clone()),
        accepted_review_revision: review.revision,
        reservation_booking_request_id: context.ids.id(),
        reservation_booking_id: match intent {
            ReservationIntent::Consultation => None,
            ReservationIntent::Extension
            | ReservationIntent::PreReservation
            | ReservationIntent::FullReservation => Some(context.ids.id()),
        },
        creation_outcome: intent,
        extension_source_reservation_id: review.facts.extension_source_reservation_id.clone(),
        reviewed_fact_fingerprint: reviewed_fact_fingerprint(&review.facts, intent),
        contract_acceptance_id: context.ids.id(),
        accepted_by_subject: Ident::from_trusted(context.actor.subject.clone()),
        handoff: PaymentHandoff {
            payment_handoff_id: context.ids.id(),
            charge_snapshot_id: context.ids.id(),
            payment_obligation_id: context.ids.id(),
            payable_amount_krw: payment.payable_amount_krw.into(),
            eligible_payment_method_codes: payment.eligible_payment_method_codes.0.clone(),
        },
    }
}

/// Makes the booking of a mother who confirmed this draft.
fn booking(draft: &ReservationDraftFact, outcome: &DraftConfirmed) -> ReservationBooking {
    ReservationBooking {
        mother_user_id: outcome.accepted_by_subject.clone(),
        mother_member_id: draft.mother_member_id.clone(),
        branch_profile_id: draft.branch_profile_id.clone(),
        state: BookingState::Active,
    }
}

/// Makes the obligation of a mother who confirmed this draft. Where there is no booking, the
/// obligation is for the request for one.
fn obligation(
    draft: &ReservationDraftFact,
    review: &FinalReviewProjectionFact,
    outcome: &DraftConfirmed,
) -> PaymentObligation {
    let payment = &review.payment;
    let booking = outcome
        .reservation_booking_id
        .unwrap_or(outcome.reservation_booking_request_id);
    let method = payment.eligible_payment_method_codes.0.first();
    PaymentObligation {
        reservation_booking_id: BookingId::from_trusted(booking.to_string()),
        payment_method: *method.expect("a review has at least one method"),
        payment_purpose: payment.payment_purpose,
        amount_krw: payment.payable_amount_krw,
        payment_product_plan_code: payment.payment_product_plan_code.clone(),
        mother_user_id: outcome.accepted_by_subject.clone(),
        mother_member_id: draft.mother_member_id.clone(),
        branch_profile_id: draft.branch_profile_id.clone(),
        family_account_id: None,
        state: ObligationState::Open,
    }
}

/// The operation.
pub struct ConfirmReservationDraft;

impl Operation for ConfirmReservationDraft {
    type Command = Command;
    type Resource = ReservationDraft;
    type Answer = CreationBody<'static>;

    const DOC: &'static str = module_doc!("confirm_reservation_draft.rs");
    const REJECTIONS: &'static [Declared] = Reason::TABLE;

    const EXAMPLE: Example = Example {
        actor: ActorKind::Mother,
        path: &["draft-1"],
        body: r#"{
  "expectedDraftRevision": 1,
  "reservationDraftStepAuthorityProjectionId": "review-projection-1",
  "expectedReviewRevision": 1
}"#,
        changed_value: ("/expectedReviewRevision", "2"),
        needs_facts: &[
            ("reservation-draft", "draft-1"),
            ("final-review-projection", "review-projection-1"),
        ],
        unique_ids: &["draft-1", "review-projection-1"],
        id_in_response: "draft-1",
        ..Example::NEW
    };

    #[cfg(test)]
    fn ladder() -> Ladder {
        use crate::base::time::Timestamp;
        const DRAFT: &str = "draft-1";
        const REVIEW: &str = "review-projection-1";
        type Review = Fact<FinalReviewProjectionFact>;
        Ladder::of(&ActorKind::ALL)
            .then(Reason::DraftNotFound, Case::at_unknown)
            .then(Reason::ProjectionNotFound, |case| {
                case.set("/reservationDraftStepAuthorityProjectionId", "unknown")
            })
            .then(Reason::NotPermitted, Case::by_a_stranger)
            .then(Reason::DraftRevisionMismatch, |case| {
                case.set("/expectedDraftRevision", 9)
            })
            .then(Reason::DraftExpired, |case| {
                case.alter(DRAFT, |draft: &mut ReservationDraft| {
                    Arc::make_mut(&mut draft.facts).expires_at = Timestamp::default();
                })
            })
            .then(Reason::ProjectionMissing, |case| {
                case.alter(DRAFT, |draft: &mut ReservationDraft| {
                    Arc::make_mut(&mut draft.facts).current_review_projection_id = None;
                })
            })
            .then(Reason::ProjectionSuperseded, |case| {
                case.alter(DRAFT, |draft: &mut ReservationDraft| {
                    let later = Ident::from_trusted("later");
                    Arc::make_mut(&mut draft.facts).current_review_projection_id = Some(later);
                })
            })
            .then(Reason::ReviewRevisionMismatch, |case| {
                case.set("/expectedReviewRevision", 9)
            })
            .then(Reason::NotReady, |case| {
                case.alter(DRAFT, |draft: &mut ReservationDraft| {
                    let reason = Ident::from_trusted("contract_missing");
                    let facts = Arc::make_mut(&mut draft.facts);
                    facts.disabled_reason_codes.push(reason);
                })
            })
            .then(
                Rejection::from(Reason::DependencyChanged).at(&["payment.paymentProductPlanCode"]),
                |case| {
                    case.alter(REVIEW, |review: &mut Review| {
                        review.facts.dependencies.0[0].revision = 9;
                    })
                },
            )
    }

    fn conflict(schemas: &mut SchemaGenerator) -> Option<(&'static str, Schema)> {
        let schema = schemas.subschema_for::<ConflictBody<'static>>();
        Some(("conflictCode", schema))
    }

    fn target(command: &Command, _: &Context<'_>) -> Option<Digest> {
        Some(ReservationDraft::KIND.key(&[&command.draft_id]))
    }

    fn unique_keys(command: &Command, context: &Context<'_>) -> Vec<IndexKey> {
        let Some(review) = command.review(&context.view) else {
            return Vec::new();
        };
        let source = review.facts.extension_source_reservation_id.iter();
        let keys = source.map(ReservationDraft::extending).collect();
        // The decision reads it next.
        context.view.keep(review);
        keys
    }

    fn decide(
        draft: Option<&ReservationDraft>,
        command: &Command,
        context: &Context<'_>,
    ) -> Result<Decision<ReservationDraft>, Rejection> {
        let body = &command.body;
        let Some(draft) = draft else {
            return Err(Reason::DraftNotFound.into());
        };
        let Some(review) = command.review(&context.view) else {
            return Err(Reason::ProjectionNotFound.into());
        };
        let facts = &draft.facts;
        if facts.owner_subject != *context.actor.subject {
            return Err(Reason::NotPermitted.into());
        }
        let current = Current {
            draft: Some(draft.revision),
            review: Some(review.revision),
        };
        let conflict = |mut rejection: Rejection, reasons: &[&str]| {
            let paths = &rejection.conflicting;
            let body = command.conflict_body(rejection.code, current, paths, reasons);
            rejection.body = Some(body);
            rejection
        };
        if draft.revision.number() != body.expected_draft_revision.0 {
            return Err(conflict(Reason::DraftRevisionMismatch.into(), &[]));
        }
        if facts.expires_at <= context.now {
            return Err(conflict(Reason::DraftExpired.into(), &[]));
        }
        let Some(current_review) = &facts.current_review_projection_id else {
            return Err(conflict(Reason::ProjectionMissing.into(), &[]));
        };
        if *current_review != body.reservation_draft_step_authority_projection_id {
            return Err(conflict(Reason::ProjectionSuperseded.into(), &[]));
        }
        if review.revision.number() != body.expected_review_revision.0 {
            return Err(conflict(Reason::ReviewRevisionMismatch.into(), &[]));
        }
        let codes = facts.disabled_reason_codes.iter();
        let mut reasons: Vec<_> = codes.map(Ident::as_str).collect();
        if draft.confirmation.is_some() && !reasons.contains(&ALREADY_CONFIRMED) {
            reasons.push(ALREADY_CONFIRMED);
        }
        if !reasons.is_empty() {
            return Err(conflict(Reason::NotReady.into(), &reasons));
        }
        let changed = changed_dependencies(&review.facts, context);
        let against = extension_faults(draft, &review.facts, &context.view);
        if !changed.is_empty() || !against.is_empty() {
            let mut rejection = Rejection::from(Reason::DependencyChanged);
            rejection.conflicting = changed;
            let reasons: Vec<_> = against.iter().map(|fault| fault.as_str()).collect();
            return Err(conflict(rejection, &reasons));
        }

        let outcome = Arc::new(outcome(draft, &review, context));
        let event = ReservationDraftEvent::Confirmed(Arc::clone(&outcome));
        let mut commit = Commit::new(Some(draft), event, context.at);
        if let Some(id) = outcome.reservation_booking_id {
            let facts = booking(facts, &outcome);
            commit.born_fact::<Fact<ReservationBooking>>(&id.to_string(), &facts);
        }
        let id = outcome.handoff.payment_obligation_id.to_string();
        let facts = obligation(facts, &review.facts, &outcome);
        let born = match outcome.reservation_booking_id {
            Some(_) => ObligationEvent::born(&id, facts),
            None => ObligationEvent::born_of_consultation(&id, facts),
        };
        commit.create::<Obligation>(&born);
        commit.answer(to_json(&CreationBody::new(&command.draft_id, &outcome)))
    }

    fn replayed(body: Vec<u8>) -> Vec<u8> {
        mark_replayed(body)
    }

    /// Returns the conflict's body, which reveals no more of a draft than its owner may know.
    fn key_reused(command: &Command, actor: &Actor, view: &ReadView<'_>) -> Option<Vec<u8>> {
        let draft = view.get::<ReservationDraft>(&[&command.draft_id]);
        let owned = draft.filter(|draft| draft.facts.owner_subject == *actor.subject);
        let current = owned.map_or_else(Current::default, |draft| Current {
            draft: Some(draft.revision),
            review: command.review(view).map(|review| review.revision),
        });
        Some(command.conflict_body(KEY_REUSED, current, &[], &[]))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::base::actor::ActorKind;
    use crate::domain::reference::kinds::payment_product_plan;
    use crate::domain::rejection::Class;
    use crate::domain::reservation::draft::Confirmation;
    use crate::domain::scenario::{Scenario, Then, actor, member, with};

    const NAME: &str = "confirm_reservation_draft";
    const PATH: [(&str, &str); 1] = [("draftId", "draft-1")];
    /// Number of facts in the world, and so of identifiers that were generated before a command.
    const FACTS: u64 = 5;

    /// Returns the identifier that is generated as the `number`th after the world was made.
    fn minted(number: u64) -> String {
        let number = FACTS + number;
        format!("01990000-0000-7000-8000-{number:012x}")
    }

    fn draft() -> Value {
        json!({
            "ownerSubject": "user-1",
            "motherMemberId": "mother-1",
            "branchProfileId": "branch-1",
            "intent": "full_reservation",
            "expiresAt": "2026-11-20T12:00:00.001Z",
            "currentReviewProjectionId": "review-1",
            "disabledReasonCodes": [],
        })
    }

    fn review() -> Value {
        json!({
            "draftId": "draft-1",
            "reviewedFacts": {
                "share": 0.50, "careDays": 10, "pricePerDayKrw": 150_000, "메모": "낮 \"돌봄\"",
            },
            "extensionSourceReservationId": null,
            "extensionCatalogRevision": null,
            "dependencies": [
                {"kind": "payment-product-plan", "id": "plan-1", "revision": 3,
                    "fieldPath": "payment.paymentProductPlanCode"},
            ],
            "payment": {
                "payableAmountKrw": 300_000,
                "eligiblePaymentMethodCodes": ["bank", "card"],
                "paymentPurpose": "customer_share_deposit",
                "paymentProductPlanCode": "plan-1",
            },
        })
    }

    /// Makes a world in which this draft is at revision 4 and this review at 2; the draft's owner
    /// acts, and may extend booking-9.
    fn world(draft: Value, review: Value) -> Scenario {
        let mut service = Scenario::new();
        let booking = json!({"motherUserId": "user-1", "motherMemberId": "mother-1",
            "branchProfileId": "branch-1", "state": "active"});
        let catalog = json!({"eligibleReservationBookingIds": ["booking-8", "booking-9"]});
        service
            .fact("reservation-draft", "draft-1", 4, draft)
            .fact("final-review-projection", "review-1", 2, review)
            .fact(
                "payment-product-plan",
                "plan-1",
                3,
                payment_product_plan::sample(),
            )
            .fact("reservation-booking", "booking-9", 7, booking)
            .fact("extension-eligibility", "user-1", 5, catalog)
            .acting(owner());
        service
    }

    fn owner() -> Actor {
        member(ActorKind::Mother, "user-1", "mother-1")
    }

    fn ready() -> Scenario {
        world(draft(), review())
    }

    fn extension_draft() -> Value {
        with(&draft(), &[("intent", json!("extension"))])
    }

    fn extension_review() -> Value {
        with(
            &review(),
            &[
                ("extensionSourceReservationId", json!("booking-9")),
                ("extensionCatalogRevision", json!(5)),
            ],
        )
    }

    fn extension() -> Scenario {
        world(extension_draft(), extension_review())
    }

    fn body() -> Value {
        json!({
            "expectedDraftRevision": 4,
            "reservationDraftStepAuthorityProjectionId": "review-1",
            "expectedReviewRevision": 2,
        })
    }

    fn confirm(service: &mut Scenario, body: &Value) -> Then {
        service.when(NAME, &PATH, body)
    }

    /// Returns the conflict of [`body`] in the world as it was made.
    fn conflict(code: &str, refresh: bool, paths: &[&str], reasons: &[&str]) -> Value {
        json!({
            "conflictCode": code,
            "draftId": "draft-1",
            "expectedDraftRevision": 4,
            "currentDraftRevision": 4,
            "reservationDraftStepAuthorityProjectionId": "review-1",
            "expectedReviewRevision": 2,
            "currentReviewRevision": 2,
            "refreshRequired": refresh,
            "conflictingFieldPaths": paths,
            "disabledReasonCodes": reasons,
        })
    }

    #[track_caller]
    fn assert_conflict(then: Then, expected: &Value) {
        let refusal = then.refusal();
        let body: Value = serde_json::from_slice(&refusal.body.unwrap()).unwrap();
        assert_eq!(body, *expected);
        assert_eq!(refusal.class, Class::Conflict);
        assert_eq!(refusal.code, expected["conflictCode"]);
    }

    #[track_caller]
    fn assert_refused(then: Then, class: Class, code: &str) {
        let refusal = then.refusal();
        assert_eq!((refusal.class, refusal.code), (class, code));
        assert_eq!(
            refusal.body, None,
            "the problem has the shape of all others"
        );
    }

    /// Reads a fact as a workflow.
    fn fact(service: &mut Scenario, kind: &str, id: &str) -> Value {
        service.acting(Actor {
            permissions: vec!["facts:read".into()],
            ..actor(ActorKind::SystemWorkflow, "workflow")
        });
        let found = service.read("read_fact", &[("kind", kind), ("id", id)]);
        service.acting(owner());
        found.unwrap().1
    }

    #[test]
    fn a_draft_is_confirmed_by_the_subject_that_owns_it_of_whatever_kind() {
        for kind in ActorKind::ALL {
            let mut service = ready();
            let own = Actor { kind, ..owner() };
            confirm(service.acting(own), &body()).committed();
            let other = member(kind, "user-2", "mother-1");
            let refused = confirm(ready().acting(other), &body());
            assert_refused(refused, Class::Forbidden, "permission_denied");
        }
    }

    #[test]
    fn a_confirmed_draft_becomes_a_booking_and_a_payment_to_be_prepared() {
        let mut service = ready();
        let answer = confirm(&mut service, &body()).committed();
        let expected = json!({
            "customerReservationCreationCommandId": minted(1),
            "draftId": "draft-1",
            "acceptedDraftRevision": 4,
            "acceptedReviewProjectionId": "review-1",
            "acceptedReviewRevision": 2,
            "reservationBookingRequestId": minted(2),
            "reservationBookingId": minted(3),
            "creationOutcome": "full_reservation",
            "reviewedFactFingerprint":
                "1e50da6571de2f474c6cda2bfe24143ff255f4e27b30f20334ebda53d3ad0a51",
            "contractAcceptanceId": minted(4),
            "reservationCreationPaymentHandoff": {
                "paymentHandoffId": minted(5),
                "chargeSnapshotId": minted(6),
                "paymentObligationId": minted(7),
                "currencyCode": "KRW",
                "payableAmountKrw": 300_000,
                "eligiblePaymentMethodCodes": ["bank", "card"],
                "handoffState": "preparation_required",
            },
            "idempotentReplay": false,
        });
        assert_eq!(answer, expected);
        assert_eq!(
            fact(&mut service, "reservation-booking", &minted(3)),
            json!({"kind": "reservation-booking", "id": minted(3), "revision": 1, "facts": {
                "motherUserId": "user-1",
                "motherMemberId": "mother-1",
                "branchProfileId": "branch-1",
                "state": "active",
            }})
        );
        assert_eq!(
            fact(&mut service, "payment-obligation", &minted(7)),
            json!({"kind": "payment-obligation", "id": minted(7), "revision": 1, "facts": {
                "reservationBookingId": minted(3),
                "paymentMethod": "bank",
                "paymentPurpose": "customer_share_deposit",
                "amountKrw": 300_000,
                "paymentProductPlanCode": "plan-1",
                "motherUserId": "user-1",
                "motherMemberId": "mother-1",
                "branchProfileId": "branch-1",
                "familyAccountId": null,
                "state": "open",
            }})
        );
        let confirmed = fact(&mut service, "reservation-draft", "draft-1");
        assert_eq!(
            (&confirmed["revision"], &confirmed["facts"]),
            (&json!(5), &draft())
        );
        let state: ReservationDraft = service.state(&["draft-1"]).unwrap();
        let Confirmation {
            outcome,
            confirmed_at,
        } = state.confirmation.unwrap();
        assert_eq!(confirmed_at.to_string(), "2026-11-20T12:00:00.000Z");
        assert_eq!(outcome.accepted_by_subject, *"user-1");
        assert!(service.outbox.is_empty());
    }

    #[test]
    fn a_consultation_has_no_booking_and_its_request_owes_the_payment() {
        let mut service = world(
            with(&draft(), &[("intent", json!("consultation"))]),
            review(),
        );
        let answer = confirm(&mut service, &body()).committed();
        assert_eq!(answer["creationOutcome"], "consultation");
        assert_eq!(answer["reservationBookingId"], Value::Null);
        let request = answer["reservationBookingRequestId"].as_str().unwrap();
        let id = answer["reservationCreationPaymentHandoff"]["paymentObligationId"].as_str();
        let owed = fact(&mut service, "payment-obligation", id.unwrap());
        assert_eq!(owed["facts"]["reservationBookingId"], request);
        let booking =
            service.view(|view| view.fact::<ReservationBooking>(&BookingId::from_trusted(request)));
        assert_eq!(booking, None);
    }

    #[test]
    fn new_obligations_can_be_pre_registered_consultations_by_mothers_alone() {
        let operator = Actor {
            permissions: vec!["payment:authorize".into()],
            ..actor(ActorKind::HeadquartersFinanceOperator, "operator-1")
        };
        for (intent, by_operator) in [("consultation", false), ("full_reservation", true)] {
            let mut service = world(with(&draft(), &[("intent", json!(intent))]), review());
            let relationship = json!({"object": "headquarters", "relation": "finance_operator",
                "subject": "operator-1", "state": "applied"});
            service.fact("relationship", "relation-1", 1, relationship);
            let answer = confirm(&mut service, &body()).committed();
            let payment = &answer["reservationCreationPaymentHandoff"]["paymentObligationId"];
            let registration = json!({"paymentId": payment, "cashReceiptIssueRequest": {
                "requestState": "not_requested", "purpose": "unknown",
                "registrationIdentityReference": null,
            }});
            let mut pre_register = |payer: Actor| {
                let service = service.acting(payer);
                service.when("pre_register_payment", &[], &registration)
            };
            if by_operator {
                pre_register(operator.clone()).committed();
            } else {
                let refused = pre_register(operator.clone());
                assert_refused(refused, Class::Forbidden, "permission_denied");
                let registered = pre_register(owner()).committed();
                assert_eq!(
                    registered["reservationBookingId"],
                    answer["reservationBookingRequestId"]
                );
            }
        }
    }

    #[test]
    fn an_extension_and_a_reservation_with_open_dates_have_bookings_too() {
        let open = world(
            with(&draft(), &[("intent", json!("pre_reservation"))]),
            with(
                &review(),
                &[(
                    "payment",
                    json!({"payableAmountKrw": 1, "eligiblePaymentMethodCodes": ["vcnt"],
                        "paymentPurpose": "pre_reservation_deposit",
                        "paymentProductPlanCode": "plan-1"}),
                )],
            ),
        );
        for (mut service, outcome, method, purpose, fingerprint) in [
            (
                extension(),
                "extension",
                "bank",
                "customer_share_deposit",
                Some("62b777cf341c8baf9abdff07cbdc5f65c7990c1d91ce0e818c5c117d986992aa"),
            ),
            (
                open,
                "pre_reservation",
                "vcnt",
                "pre_reservation_deposit",
                None,
            ),
        ] {
            let answer = confirm(&mut service, &body()).committed();
            assert_eq!(answer["creationOutcome"], outcome);
            if let Some(fingerprint) = fingerprint {
                assert_eq!(answer["reviewedFactFingerprint"], fingerprint);
            }
            let booking = answer["reservationBookingId"].as_str().unwrap();
            assert_eq!(
                fact(&mut service, "reservation-booking", booking)["facts"]["state"],
                "active"
            );
            let handoff = &answer["reservationCreationPaymentHandoff"];
            let owed = handoff["paymentObligationId"].as_str().unwrap();
            let owed = fact(&mut service, "payment-obligation", owed);
            assert_eq!(owed["facts"]["paymentMethod"], method);
            assert_eq!(owed["facts"]["paymentPurpose"], purpose);
            assert_eq!(owed["facts"]["amountKrw"], handoff["payableAmountKrw"]);
            assert_eq!(owed["facts"]["reservationBookingId"], booking);
        }
    }

    #[test]
    fn a_created_booking_is_usable_by_other_operations_at_once() {
        let mut service = ready();
        let account = json!({"motherMemberId": "mother-1", "memberIds": ["father"]});
        service.fact("family-account", "account-1", 1, account);
        let answer = confirm(&mut service, &body()).committed();
        let booking = &answer["reservationBookingId"];
        let grant = json!({
            "familyAccountId": "account-1",
            "payerMemberId": "father",
            "motherMemberId": "mother-1",
            "reservationBookingId": booking,
            "scopes": ["reservation_deposit"],
            "maximumAuthorizedAmountKrw": 300_000,
            "expiresAt": "2026-12-01T00:00:00Z",
        });
        let granted = service
            .when("grant_payment_authority", &[], &grant)
            .committed();
        let evidence = format!("reservation-booking/{}@1", booking.as_str().unwrap());
        assert_eq!(granted["authorityEvidence"][1], evidence);
        // Its own system continues from the revision at which it was created.
        let cancelled = json!({"motherUserId": "user-1", "motherMemberId": "mother-1",
            "branchProfileId": "branch-1", "state": "cancelled"});
        service.fact(
            "reservation-booking",
            booking.as_str().unwrap(),
            2,
            cancelled,
        );
    }

    #[test]
    fn a_reviews_fingerprint_depends_on_facts_intent_and_source_not_spelling() {
        let of = |mut service: Scenario| {
            let answer = confirm(&mut service, &body()).committed();
            answer["reviewedFactFingerprint"]
                .as_str()
                .unwrap()
                .to_owned()
        };
        let first = of(ready());
        // Puts the review again, at its next revision, with its facts in this spelling.
        let spelled = |facts: &str| {
            const PLACE: &str = r#""the facts""#;
            let review = with(&review(), &[("reviewedFacts", json!("the facts"))]).to_string();
            assert!(review.contains(PLACE));
            let review = review.replace(PLACE, facts);
            let mut service = ready();
            let fact = format!(
                r#"{{"facts":{review},"revision":3,"id":"review-1","kind":"final-review-projection"}}"#
            );
            service.put_fact_as_sent(&fact).committed();
            let asked = with(&body(), &[("expectedReviewRevision", json!(3))]);
            let answer = confirm(service.acting(owner()), &asked).committed();
            answer["reviewedFactFingerprint"].clone()
        };
        for facts in [
            r#"{"share":0.5,"careDays":10,"pricePerDayKrw":150000,"메모":"낮 \"돌봄\""}"#,
            r#"{"메모":"낮 \"돌봄\"","pricePerDayKrw":150000,"careDays":10,"share":0.5}"#,
            r#"{"share":5e-1,"careDays":1e1,"pricePerDayKrw":1.5E+5,"메모":"낮 \"돌봄\""}"#,
            r#"{"share":0.500,"careDays":10.0,"pricePerDayKrw":150000.00,"메모":"낮 \"돌봄\""}"#,
            r#"{"\u0073hare":0.5,"careDays":10,"pricePerDayKrw":150000,
                "\uba54\ubaa8":"\ub0ae \u0022\ub3cc\ubd04\u0022"}"#,
            "{ \"share\" : 0.5,\t\"careDays\":10,\n\"pricePerDayKrw\":150000,\r\n \
             \"메모\":\"낮 \\\"돌봄\\\"\"}",
        ] {
            assert_eq!(spelled(facts), first, "{facts}");
        }
        for facts in [
            r#"{"share":0.5,"careDays":"10","pricePerDayKrw":150000,"메모":"낮 \"돌봄\""}"#,
            r#"{"share":0.5,"careDays":10,"pricePerDayKrw":150000,"메모":"낮  \"돌봄\""}"#,
        ] {
            assert_ne!(spelled(facts), first, "{facts}");
        }
        let intent = with(&draft(), &[("intent", json!("consultation"))]);
        assert_ne!(of(world(intent, review())), first);
        assert_ne!(of(extension()), first);
        let facts = with(&review(), &[("reviewedFacts", json!({"careDays": 11}))]);
        assert_ne!(of(world(draft(), facts)), first);
    }

    #[test]
    fn a_review_that_is_unknown_or_another_drafts_is_missing_for_everybody() {
        let wrong = with(
            &body(),
            &[("reservationDraftStepAuthorityProjectionId", json!("x"))],
        );
        let others = || world(draft(), with(&review(), &[("draftId", json!("draft-2"))]));
        for (mut service, body) in [(ready(), wrong), (others(), body())] {
            let stale = with(&body, &[("expectedDraftRevision", json!(3))]);
            let then = confirm(&mut service, &stale);
            assert_refused(then, Class::Missing, "final_review_projection_not_found");
            service.acting(member(ActorKind::Mother, "user-2", "mother-1"));
            let then = confirm(&mut service, &stale);
            assert_refused(then, Class::Missing, "final_review_projection_not_found");
        }
    }

    #[test]
    fn a_draft_expires_at_its_time_and_not_before() {
        let mut service = ready();
        service.at("2026-11-20T12:00:00.001Z");
        let expected = conflict("draft_expired", true, &[], &[]);
        assert_conflict(confirm(&mut service, &body()), &expected);
        service.at("2026-11-20T12:00:00.000Z");
        confirm(&mut service, &body()).committed();
        // The replay is returned before checks for a missing review or for reasons against it.
        let expired = with(
            &draft(),
            &[
                ("expiresAt", json!("2026-11-20T12:00:00Z")),
                ("currentReviewProjectionId", Value::Null),
                ("disabledReasonCodes", json!(["contract_missing"])),
            ],
        );
        assert_conflict(confirm(&mut world(expired, review()), &body()), &expected);
    }

    #[test]
    fn a_conflict_says_where_it_is_and_whether_to_read_again() {
        let codes = ["contract_missing", "branch_closed"];
        let current = "currentReviewProjectionId";
        let review_id = "reservationDraftStepAuthorityProjectionId";
        let conflicts: [(_, _, _, &[&str], &[&str]); 5] = [
            (
                (draft(), [("expectedDraftRevision", json!(3))]),
                "draft_revision_mismatch",
                true,
                &["expectedDraftRevision"],
                &[],
            ),
            (
                (
                    with(&draft(), &[(current, Value::Null)]),
                    [("expectedDraftRevision", json!(4))],
                ),
                "final_review_projection_missing",
                true,
                &[],
                &[],
            ),
            (
                (
                    with(&draft(), &[(current, json!("review-2"))]),
                    [("expectedDraftRevision", json!(4))],
                ),
                "final_review_projection_superseded",
                true,
                &[review_id],
                &[],
            ),
            (
                (draft(), [("expectedReviewRevision", json!(3))]),
                "final_review_revision_mismatch",
                true,
                &["expectedReviewRevision"],
                &[],
            ),
            (
                (
                    with(&draft(), &[("disabledReasonCodes", json!(codes))]),
                    [("expectedDraftRevision", json!(4))],
                ),
                "confirmation_not_ready",
                false,
                &[],
                &codes,
            ),
        ];
        for ((draft, asked), code, refresh, paths, reasons) in conflicts {
            let then = confirm(&mut world(draft, review()), &with(&body(), &asked));
            assert_conflict(
                then,
                &with(&conflict(code, refresh, paths, reasons), &asked),
            );
        }
    }

    #[test]
    fn a_draft_is_confirmed_once() {
        let mut service = ready();
        confirm(&mut service, &body()).committed();
        // The draft has a later revision, which the command does not know.
        let stale = conflict(
            "draft_revision_mismatch",
            true,
            &["expectedDraftRevision"],
            &[],
        );
        let stale = with(&stale, &[("currentDraftRevision", json!(5))]);
        assert_conflict(confirm(&mut service, &body()), &stale);
        // An actor who has seen the later revision gets the reason.
        let seen = with(&body(), &[("expectedDraftRevision", json!(5))]);
        let again = |reasons: &[&str], revision: i64| {
            let expected = conflict("confirmation_not_ready", false, &[], reasons);
            let revision = json!(revision);
            with(
                &expected,
                &[
                    ("expectedDraftRevision", revision.clone()),
                    ("currentDraftRevision", revision),
                ],
            )
        };
        let expected = again(&["draft_already_confirmed"], 5);
        assert_conflict(confirm(&mut service, &seen), &expected);
        // A later fact does not change the confirmation, and its reasons are shown with it.
        let later = with(&draft(), &[("disabledReasonCodes", json!(["closed"]))]);
        service.fact("reservation-draft", "draft-1", 6, later);
        let seen = with(&body(), &[("expectedDraftRevision", json!(6))]);
        let expected = again(&["closed", "draft_already_confirmed"], 6);
        assert_conflict(confirm(&mut service, &seen), &expected);
        // A system that knows of the confirmation may also give this reason in its fact.
        let later = with(
            &draft(),
            &[("disabledReasonCodes", json!(["draft_already_confirmed"]))],
        );
        service.fact("reservation-draft", "draft-1", 7, later);
        let seen = with(&body(), &[("expectedDraftRevision", json!(7))]);
        let expected = again(&["draft_already_confirmed"], 7);
        assert_conflict(confirm(&mut service, &seen), &expected);
    }

    fn dependency(kind: &str, id: &str, revision: i64, path: &str) -> Value {
        json!({"kind": kind, "id": id, "revision": revision, "fieldPath": path})
    }

    #[test]
    fn every_reviewed_fact_that_has_changed_or_is_unknown_is_named_once() {
        let depending = |dependencies: Value| {
            let review = with(&review(), &[("dependencies", dependencies)]);
            confirm(&mut world(draft(), review), &body())
        };
        let told = |paths: &[&str]| conflict("authoritative_dependency_changed", true, paths, &[]);
        for (kind, id, revision) in [
            ("payment-product-plan", "plan-1", 2),
            ("payment-product-plan", "plan-1", 4),
            ("payment-product-plan", "plan-2", 3),
            ("mother-profile", "plan-1", 3),
            ("reservation-draft", "draft-1", 3),
            ("final-review-projection", "review-1", 1),
            ("settlement-statement", "plan-1", 3),
            ("no-such-kind", "plan-1", 3),
        ] {
            let then = depending(json!([dependency(kind, id, revision, "a.b[0]")]));
            assert_conflict(then, &told(&["a.b[0]"]));
        }
        let then = depending(json!([
            dependency("payment-product-plan", "plan-1", 4, "z"),
            dependency("payment-product-plan", "plan-1", 3, "stands"),
            dependency("actor", "user-1", 1, "a"),
            dependency("actor", "user-2", 1, "z"),
        ]));
        assert_conflict(then, &told(&["z", "a"]));
        let then = depending(json!([
            dependency("payment-product-plan", "plan-1", 3, "a"),
            dependency("reservation-draft", "draft-1", 4, "b"),
            dependency("final-review-projection", "review-1", 2, "c"),
            dependency("extension-eligibility", "user-1", 5, "d"),
            dependency("reservation-booking", "booking-9", 7, "e"),
        ]));
        then.committed();
        depending(json!([])).committed();
    }

    #[test]
    fn an_extension_needs_a_source_that_is_eligible_as_reviewed() {
        let expected = conflict(
            "authoritative_dependency_changed",
            true,
            &[],
            &["extension_source_not_eligible"],
        );
        let changed = |changes: &[(&str, Value)]| {
            let review = with(&extension_review(), changes);
            confirm(&mut world(extension_draft(), review), &body())
        };
        for changes in [
            &[("extensionSourceReservationId", Value::Null)][..],
            &[
                ("extensionSourceReservationId", Value::Null),
                ("extensionCatalogRevision", Value::Null),
            ],
            &[("extensionCatalogRevision", Value::Null)],
            &[("extensionCatalogRevision", json!(4))],
            &[("extensionCatalogRevision", json!(6))],
        ] {
            assert_conflict(changed(changes), &expected);
        }
        // A later catalog contains only another booking: then a review of that catalog fails, too.
        let catalog = json!({"eligibleReservationBookingIds": ["booking-8"]});
        let mut service = extension();
        service.fact("extension-eligibility", "user-1", 6, catalog);
        assert_conflict(confirm(&mut service, &body()), &expected);
        service.fact(
            "final-review-projection",
            "review-1",
            3,
            with(
                &extension_review(),
                &[("extensionCatalogRevision", json!(6))],
            ),
        );
        let seen = [
            ("expectedReviewRevision", json!(3)),
            ("currentReviewRevision", json!(3)),
        ];
        let then = confirm(&mut service, &with(&body(), &seen[..1]));
        assert_conflict(then, &with(&expected, &seen));
        // The eligible bookings are those in the owner's catalog.
        let others = with(&extension_draft(), &[("ownerSubject", json!("user-2"))]);
        let mut service = world(others, extension_review());
        service.acting(actor(ActorKind::Mother, "user-2"));
        assert_conflict(confirm(&mut service, &body()), &expected);
    }

    #[test]
    fn a_booking_that_is_not_active_cannot_be_extended() {
        let expected = conflict(
            "authoritative_dependency_changed",
            true,
            &[],
            &["extension_source_inactive"],
        );
        for state in ["completed", "cancelled"] {
            let mut service = extension();
            let booking = json!({"motherUserId": "user-1", "motherMemberId": "mother-1",
                "branchProfileId": "branch-1", "state": state});
            service.fact("reservation-booking", "booking-9", 8, booking);
            assert_conflict(confirm(&mut service, &body()), &expected);
        }
        // booking-8 is eligible, but no fact of it is known.
        let unknown = [("extensionSourceReservationId", json!("booking-8"))];
        let mut service = world(extension_draft(), with(&extension_review(), &unknown));
        assert_conflict(confirm(&mut service, &body()), &expected);
    }

    /// Confirms another draft of the same owner, ready like the first, with a review of its own.
    fn second(service: &mut Scenario, draft: &Value, review: &Value) -> Value {
        let draft = with(draft, &[("currentReviewProjectionId", json!("review-2"))]);
        let review = with(review, &[("draftId", json!("draft-2"))]);
        service.fact("reservation-draft", "draft-2", 4, draft).fact(
            "final-review-projection",
            "review-2",
            2,
            review,
        );
        with(
            &body(),
            &[(
                "reservationDraftStepAuthorityProjectionId",
                json!("review-2"),
            )],
        )
    }

    #[test]
    fn a_booking_is_extended_by_one_confirmed_draft() {
        let mut service = extension();
        let other = second(&mut service, &extension_draft(), &extension_review());
        confirm(&mut service, &body()).committed();
        let expected = conflict(
            "authoritative_dependency_changed",
            true,
            &[],
            &["extension_duplicate"],
        );
        let expected = with(
            &expected,
            &[
                ("draftId", json!("draft-2")),
                (
                    "reservationDraftStepAuthorityProjectionId",
                    json!("review-2"),
                ),
            ],
        );
        let then = service.when(NAME, &[("draftId", "draft-2")], &other);
        assert_conflict(then, &expected);
        // Neither a later fact of the first draft nor one of its review frees the booking.
        let consultation = with(&draft(), &[("intent", json!("consultation"))]);
        service
            .fact("reservation-draft", "draft-1", 9, consultation)
            .fact("final-review-projection", "review-1", 9, review());
        let then = service.when(NAME, &[("draftId", "draft-2")], &other);
        assert_conflict(then, &expected);
        // Another booking of the same owner can be extended.
        let booking = json!({"motherUserId": "user-1", "motherMemberId": "mother-1",
            "branchProfileId": "branch-1", "state": "active"});
        let source = with(
            &extension_review(),
            &[
                ("draftId", json!("draft-2")),
                ("extensionSourceReservationId", json!("booking-8")),
            ],
        );
        service
            .fact("reservation-booking", "booking-8", 1, booking)
            .fact("final-review-projection", "review-2", 3, source);
        let other = with(&other, &[("expectedReviewRevision", json!(3))]);
        service
            .when(NAME, &[("draftId", "draft-2")], &other)
            .committed();
    }

    #[test]
    fn a_source_is_checked_and_held_whatever_the_intent() {
        let stale = with(
            &extension_review(),
            &[("extensionCatalogRevision", json!(4))],
        );
        let expected = conflict(
            "authoritative_dependency_changed",
            true,
            &[],
            &["extension_source_not_eligible"],
        );
        assert_conflict(confirm(&mut world(draft(), stale), &body()), &expected);
        let mut service = world(draft(), extension_review());
        let other = second(&mut service, &extension_draft(), &extension_review());
        confirm(&mut service, &body()).committed();
        let refusal = service
            .when(NAME, &[("draftId", "draft-2")], &other)
            .refusal();
        let body: Value = serde_json::from_slice(&refusal.body.unwrap()).unwrap();
        assert_eq!(body["disabledReasonCodes"], json!(["extension_duplicate"]));
    }

    #[test]
    fn all_that_has_changed_is_told_at_once() {
        let mut service = extension();
        let changed = with(
            &extension_review(),
            &[
                ("extensionCatalogRevision", json!(4)),
                (
                    "dependencies",
                    json!([dependency("actor", "user-1", 1, "owner")]),
                ),
            ],
        );
        let other = second(&mut service, &extension_draft(), &changed);
        confirm(&mut service, &body()).committed();
        let booking = json!({"motherUserId": "user-1", "motherMemberId": "mother-1",
            "branchProfileId": "branch-1", "state": "completed"});
        service.fact("reservation-booking", "booking-9", 8, booking);
        let expected = conflict(
            "authoritative_dependency_changed",
            true,
            &["owner"],
            &[
                "extension_source_not_eligible",
                "extension_source_inactive",
                "extension_duplicate",
            ],
        );
        let expected = with(
            &expected,
            &[
                ("draftId", json!("draft-2")),
                (
                    "reservationDraftStepAuthorityProjectionId",
                    json!("review-2"),
                ),
            ],
        );
        let then = service.when(NAME, &[("draftId", "draft-2")], &other);
        assert_conflict(then, &expected);
    }

    #[test]
    fn a_refused_confirmation_leaves_nothing_behind_and_can_be_set_right() {
        let mut service = extension();
        let stale = with(&body(), &[("expectedReviewRevision", json!(1))]);
        assert_eq!(
            confirm(&mut service, &stale).code(),
            "final_review_revision_mismatch"
        );
        let state: ReservationDraft = service.state(&["draft-1"]).unwrap();
        assert_eq!((state.revision.number(), state.confirmation), (4, None));
        let name = ReservationDraft::extending(&BookingId::from_trusted("booking-9"));
        assert_eq!(service.view(|view| view.holder(name)), None);
        confirm(&mut service, &body()).committed();
        let holder = service.view(|view| view.holder(name));
        assert_eq!(holder, Some(ReservationDraft::KIND.key(&["draft-1"])));
    }

    #[test]
    fn a_reused_key_is_a_conflict_of_the_same_shape() {
        let mut service = ready();
        let reused = |service: &Scenario, draft: &str, body: &Value| {
            service
                .key_reused(NAME, &[("draftId", draft)], body)
                .unwrap()
        };
        let other = with(&body(), &[("expectedReviewRevision", json!(9))]);
        let expected = conflict("idempotency_key_reused", false, &[], &[]);
        let expected = with(&expected, &[("expectedReviewRevision", json!(9))]);
        assert_eq!(reused(&service, "draft-1", &other), expected);
        // A review that does not exist has no current revision.
        let unknown = [(
            "reservationDraftStepAuthorityProjectionId",
            json!("review-9"),
        )];
        let without = with(&expected, &unknown);
        let without = with(&without, &[("currentReviewRevision", Value::Null)]);
        assert_eq!(
            reused(&service, "draft-1", &with(&other, &unknown)),
            without
        );
        let nothing = with(
            &expected,
            &[
                ("currentDraftRevision", Value::Null),
                ("currentReviewRevision", Value::Null),
            ],
        );
        let elsewhere = with(&nothing, &[("draftId", json!("draft-9"))]);
        assert_eq!(reused(&service, "draft-9", &other), elsewhere);
        // The revision of another owner's draft is not revealed either.
        service.acting(member(ActorKind::Mother, "user-2", "mother-2"));
        assert_eq!(reused(&service, "draft-1", &other), nothing);
    }
}
