//! A family member proves that they may pay for a reservation. Nothing changes, and no key is
//! taken.
//!
//! Resource: the book of the actor's delegations for the booking. Rejections, in the order tested:
//! the actor is no family member, or the token does not say which one (403); no active delegation
//! of that account and mother has the scope and covers the amount (invalid). Missing and
//! insufficient delegations get the same response, so that no actor learns another's limits.

use super::payment_authority::{PaymentAuthority, PaymentDelegationBody, RESERVATION_DEPOSIT};
use crate::base::actor::ActorKind;
use crate::base::digest::Digest;
use crate::base::json::AtLeast;
use crate::base::text::{BookingId, FamilyAccountId, Ident, MemberId};
use crate::domain::example::Example;
#[cfg(test)]
use crate::domain::ladder::Ladder;
use crate::domain::operation::{Context, Decision, Operation, to_json};
use crate::domain::rejection::{Declared, Rejection};
use crate::domain::resource::Resource;
use crate::{json_object, module_doc, rejections};

json_object! {
    /// The body of the request.
    pub struct Command {
        /// The family account.
        pub family_account_id: FamilyAccountId = "familyAccountId",
        /// The mother for whom the actor would pay.
        pub mother_member_id: MemberId = "motherMemberId",
        /// The booking.
        pub reservation_booking_id: BookingId = "reservationBookingId",
        /// What would be paid for.
        pub scope: Ident = "scope" known [RESERVATION_DEPOSIT],
        /// How much would be paid, in won.
        pub amount_krw: AtLeast<1> = "amountKrw",
    }
}

rejections! {
    /// Why no payment is authorized.
    pub enum Reason {
        /// Authority by token.
        NotPermitted = Forbidden "permission_denied" []
            "Only a family member may prove authority to pay for a reservation.",
        /// The token does not say which member the actor is.
        MemberIdentityMissing = Forbidden "member_identity_missing" []
            "The token does not say which member of a family the actor is.",
        /// No delegation is enough.
        PaymentGrantMissing = Invalid "payment_grant_missing_or_out_of_scope" []
            "There is no active delegation that covers this payment.",
    }
}

/// The operation.
pub struct AuthorizePayment;

impl Operation for AuthorizePayment {
    type Command = Command;
    type Resource = PaymentAuthority;
    type Answer = PaymentDelegationBody<'static>;

    const DOC: &'static str = module_doc!("authorize_payment.rs");
    const REJECTIONS: &'static [Declared] = Reason::TABLE;

    const EXAMPLE: Example = Example {
        actor: ActorKind::FamilyMember,
        after: Some("grant_payment_authority"),
        body: r#"{
  "familyAccountId": "family-account-1",
  "motherMemberId": "member-mother-1",
  "reservationBookingId": "reservation-booking-1",
  "scope": "reservation_deposit",
  "amountKrw": 300000
}"#,
        changed_value: ("/amountKrw", "1"),
        unique_ids: &["family-account-1", "reservation-booking-1"],
        id_in_response: "reservation-booking-1",
        ..Example::NEW
    };

    #[cfg(test)]
    fn ladder() -> Ladder {
        Ladder::of(&[ActorKind::FamilyMember])
            .then(Reason::NotPermitted, |case| case.by(ActorKind::Mother))
            .then(Reason::MemberIdentityMissing, |case| {
                case.actor.member_id = None;
                case
            })
            .then(Reason::PaymentGrantMissing, |case| {
                case.set("/amountKrw", 500_001)
            })
    }

    fn target(command: &Command, context: &Context<'_>) -> Option<Digest> {
        let payer = context.actor.member_id.as_deref()?;
        Some(PaymentAuthority::KIND.key(&[command.reservation_booking_id.as_str(), payer]))
    }

    fn decide(
        book: Option<&PaymentAuthority>,
        command: &Command,
        context: &Context<'_>,
    ) -> Result<Decision<PaymentAuthority>, Rejection> {
        let actor = context.actor;
        if actor.kind != ActorKind::FamilyMember {
            return Err(Reason::NotPermitted.into());
        }
        if actor.member_id.is_none() {
            return Err(Reason::MemberIdentityMissing.into());
        }
        let amount_krw = command.amount_krw.into();
        let delegation = book
            .and_then(|book| book.latest(&context.view))
            .filter(|held| {
                let terms = &held.grant.terms;
                terms.family_account_id == command.family_account_id
                    && terms.mother_member_id == command.mother_member_id
                    && held.covers(&command.scope, amount_krw, context.now)
            });
        let Some(delegation) = delegation else {
            return Err(Reason::PaymentGrantMissing.into());
        };
        Ok(Decision::Answer(to_json(&PaymentDelegationBody::new(
            &delegation,
        ))))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::base::revision::Revision;
    use crate::base::time::Timestamp;
    use crate::domain::family::grant::Revocation;
    use crate::domain::family::samples::{family, mother, payer, payment};
    use crate::domain::rejection::Class;
    use crate::domain::scenario::{Scenario, Then, member, with};

    fn body() -> Value {
        json!({
            "familyAccountId": "account-1",
            "motherMemberId": "mother-1",
            "reservationBookingId": "booking-1",
            "scope": "reservation_deposit",
            "amountKrw": 500_000,
        })
    }

    fn authorize(service: &mut Scenario, body: &Value) -> Then {
        service.when("authorize_payment", &[], body)
    }

    /// Makes a service in which the father, who acts, may pay up to 500,000 won; also returns the
    /// answer of the grant.
    fn granted() -> (Scenario, Value) {
        let mut service = family();
        let answer = service
            .acting(mother())
            .when("grant_payment_authority", &[], &payment())
            .committed();
        service.acting(payer());
        (service, answer)
    }

    #[test]
    fn a_payer_is_answered_with_the_delegation_as_it_was_granted() {
        let (mut service, delegation) = granted();
        assert_eq!(authorize(&mut service, &body()).answered(), delegation);
        assert_eq!(
            service.outbox.len(),
            1,
            "the grant's message, and none of this"
        );
    }

    #[test]
    fn every_fact_of_the_payment_must_be_the_delegations() {
        let (mut service, _) = granted();
        for (name, value) in [
            ("familyAccountId", json!("account-2")),
            ("motherMemberId", json!("mother-2")),
            ("reservationBookingId", json!("booking-2")),
            ("reservationBookingId", json!("no-such")),
            ("scope", json!("reservation_balance")),
            ("scope", json!("Reservation_deposit")),
            ("amountKrw", json!(500_001)),
            ("amountKrw", json!(i64::MAX)),
        ] {
            let refusal =
                authorize(&mut service, &with(&body(), &[(name, value.clone())])).refusal();
            assert_eq!(refusal.class, Class::Invalid, "{name} {value}");
            assert_eq!(
                refusal.code, "payment_grant_missing_or_out_of_scope",
                "{name} {value}"
            );
            assert!(refusal.faults.is_empty() && refusal.conflicting.is_empty());
        }
        service.acting(member(ActorKind::FamilyMember, "user-4", "aunt"));
        let other = authorize(&mut service, &body());
        assert_eq!(other.code(), "payment_grant_missing_or_out_of_scope");
    }

    #[test]
    fn amounts_from_one_won_to_the_maximum_are_covered() {
        let (mut service, _) = granted();
        for amount in [1, 499_999, 500_000] {
            authorize(
                &mut service,
                &with(&body(), &[("amountKrw", json!(amount))]),
            )
            .answered();
        }
    }

    #[test]
    fn a_delegation_covers_until_the_millisecond_before_it_expires() {
        let (mut service, _) = granted();
        service.at("2026-11-30T23:59:59.999Z");
        authorize(&mut service, &body()).answered();
        service.at("2026-12-01T00:00:00Z");
        let then = authorize(&mut service, &body());
        assert_eq!(then.code(), "payment_grant_missing_or_out_of_scope");
    }

    #[test]
    fn a_revoked_delegation_covers_nothing() {
        let (mut service, _) = granted();
        let mut held = service.view(|view| {
            PaymentAuthority::latest_of(
                view,
                &BookingId::from_trusted("booking-1"),
                &MemberId::from_trusted("father"),
            )
            .unwrap()
        });
        held.grant.revision = Revision::new(2);
        held.grant.revocation = Some(Revocation {
            revoked_at: Timestamp::parse("2026-11-20T12:00:00Z").unwrap(),
            revoked_by_member_id: MemberId::from_trusted("mother-1"),
            revocation_reason_code: Some(Ident::from_trusted("changed_mind")),
        });
        service.given(&held);
        let then = authorize(&mut service, &body());
        assert_eq!(then.code(), "payment_grant_missing_or_out_of_scope");
    }

    #[test]
    fn a_later_delegation_of_the_same_book_covers_when_the_first_is_over() {
        let (mut service, _) = granted();
        service.at("2026-12-01T00:00:00Z").acting(mother());
        let next = with(&payment(), &[("expiresAt", json!("2027-01-01T00:00:00Z"))]);
        let next = with(&next, &[("maximumAuthorizedAmountKrw", json!(7))]);
        let second = service
            .when("grant_payment_authority", &[], &next)
            .committed();
        service.acting(payer());
        let then = authorize(&mut service, &with(&body(), &[("amountKrw", json!(7))]));
        assert_eq!(then.answered(), second);
        let then = authorize(&mut service, &with(&body(), &[("amountKrw", json!(8))]));
        assert_eq!(then.code(), "payment_grant_missing_or_out_of_scope");
    }

    #[test]
    fn a_later_delegation_is_the_one_that_counts_when_the_clock_is_set_back() {
        let (mut service, _) = granted();
        service.at("2026-12-01T00:00:00Z").acting(mother());
        let next = with(&payment(), &[("expiresAt", json!("2027-01-01T00:00:00Z"))]);
        let next = with(&next, &[("maximumAuthorizedAmountKrw", json!(7))]);
        let second = service.when("grant_payment_authority", &[], &next);
        let second = second.committed();
        // By this clock the first delegation, which allowed more, has not expired yet.
        service.at("2026-11-21T00:00:00Z");
        let again = service.when("grant_payment_authority", &[], &next);
        assert_eq!(again.code(), "delegation_overlap");
        service.acting(payer());
        let then = authorize(&mut service, &with(&body(), &[("amountKrw", json!(7))]));
        assert_eq!(then.answered(), second);
        let then = authorize(&mut service, &with(&body(), &[("amountKrw", json!(8))]));
        assert_eq!(then.code(), "payment_grant_missing_or_out_of_scope");
    }
}
