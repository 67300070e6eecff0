//! A mother lets a member of her family pay for one of her reservations.
//!
//! Resource: the book of the payer's delegations for the booking. Rejections, in the order
//! tested: the actor is not the mother that the body names (403); the family account is unknown
//! (404) or another mother's (403); the scopes are not exactly the one there is, the payer is not
//! in the account, or the booking is unknown or another mother's (409); the delegation would be
//! over already (409); an active one shares a scope (409). The commit queues a message for the
//! system that keeps authorization relationships.

use super::grant::{GrantTerms, evidence, is_mother, is_only};
use super::payment_authority::{
    DelegationEntered, PaymentAuthority, PaymentAuthorityEvent, PaymentDelegation,
    PaymentDelegationBody, PaymentDelegationEvent, PaymentGranted, RESERVATION_DEPOSIT,
};
use crate::base::actor::ActorKind;
use crate::base::digest::Digest;
use crate::base::json::AtLeast;
use crate::base::text::{BookingId, FamilyAccountId, Ident, MemberId};
use crate::base::time::Timestamp;
use crate::domain::example::Example;
#[cfg(test)]
use crate::domain::ladder::Ladder;
use crate::domain::operation::{Commit, Context, Decision, MessageAbout, Operation, to_json};
use crate::domain::outbox::topics;
use crate::domain::reference::kinds::family_account::FamilyAccount;
use crate::domain::reference::kinds::reservation_booking::ReservationBooking;
use crate::domain::rejection::{Declared, Rejection};
use crate::domain::resource::Resource;
use crate::{json_object, module_doc, rejections};

/// The topic of the message to the authorization system.
const TOPIC: &str = topics::PAYMENT_DELEGATION_GRANTED;

json_object! {
    /// The body of the request.
    pub struct Command {
        /// The family account.
        pub family_account_id: FamilyAccountId = "familyAccountId",
        /// Who may pay.
        pub payer_member_id: MemberId = "payerMemberId",
        /// The mother who grants.
        pub mother_member_id: MemberId = "motherMemberId",
        /// The booking.
        pub reservation_booking_id: BookingId = "reservationBookingId",
        /// What may be paid for.
        pub scopes: Vec<Ident> = "scopes" known [RESERVATION_DEPOSIT],
        /// The most that may be paid, in won.
        pub maximum_authorized_amount_krw: AtLeast<1> = "maximumAuthorizedAmountKrw",
        /// The point from which on nothing may be paid.
        pub expires_at: Timestamp = "expiresAt",
    }
}

rejections! {
    /// Why no authority is granted.
    pub enum Reason {
        /// Authority by token.
        NotPermitted = Forbidden "permission_denied" []
            "Only the mother whose authority it is may grant authority to pay.",
        /// The account is unknown.
        FamilyAccountNotFound = Missing "family_account_not_found" []
            "There is no family account with this identifier.",
        /// Authority by resource.
        NotThisMother = Forbidden "permission_denied" []
            "The family account is another mother's.",
        /// Scopes, payer or booking; the fields are named where they are found.
        DelegationScopeConflict = Conflict "delegation_scope_conflict" ["scopes"]
            "The authority asked for is not one that this mother can give to this payer for this booking.",
        /// It would be over already.
        DelegationExpiryConflict = Conflict "delegation_expiry_conflict" ["expiresAt"]
            "The delegation would have expired already.",
        /// An active one shares a scope.
        DelegationOverlap = Conflict "delegation_overlap"
            ["payerMemberId", "reservationBookingId", "scopes"]
            "An active delegation of this payer for this booking shares a scope.",
    }
}

/// The operation.
pub struct GrantPaymentAuthority;

/// Returns the message to the authorization system: the JSON of a delegation as it is answered, with
/// the family account as its first field.
fn granted_message(family_account_id: &FamilyAccountId, delegation: &[u8]) -> Vec<u8> {
    let account = to_json(family_account_id);
    let begin = b"{\"familyAccountId\":".as_slice();
    let fields = &delegation[1..];
    [begin, account.as_slice(), b",".as_slice(), fields].concat()
}

impl Operation for GrantPaymentAuthority {
    type Command = Command;
    type Resource = PaymentAuthority;
    type Answer = PaymentDelegationBody<'static>;

    const DOC: &'static str = module_doc!("grant_payment_authority.rs");
    const REJECTIONS: &'static [Declared] = Reason::TABLE;

    const EXAMPLE: Example = Example {
        actor: ActorKind::Mother,
        body: r#"{
  "familyAccountId": "family-account-1",
  "payerMemberId": "member-family-1",
  "motherMemberId": "member-mother-1",
  "reservationBookingId": "reservation-booking-1",
  "scopes": ["reservation_deposit"],
  "maximumAuthorizedAmountKrw": 500000,
  "expiresAt": "2099-01-01T09:00:00+09:00"
}"#,
        changed_value: ("/maximumAuthorizedAmountKrw", "1"),
        needs_facts: &[
            ("reservation-booking", "reservation-booking-1"),
            ("family-account", "family-account-1"),
        ],
        unique_ids: &["family-account-1", "reservation-booking-1"],
        id_in_response: "reservation-booking-1",
        ..Example::NEW
    };

    #[cfg(test)]
    fn ladder() -> Ladder {
        use crate::domain::reference::Fact;
        Ladder::of(&[ActorKind::Mother])
            .then(Reason::NotPermitted, |case| {
                case.by(ActorKind::FamilyMember)
            })
            .then(Reason::FamilyAccountNotFound, |case| {
                case.set("/familyAccountId", "unknown")
            })
            .then(Reason::NotThisMother, |case| {
                case.alter("family-account-1", |account: &mut Fact<FamilyAccount>| {
                    account.facts.mother_member_id = MemberId::from_trusted("another");
                })
            })
            .then(
                Rejection::from(Reason::DelegationScopeConflict).at(&["payerMemberId"]),
                |case| case.set("/payerMemberId", "stranger"),
            )
            .then(Reason::DelegationExpiryConflict, |case| {
                case.set("/expiresAt", "2026-01-01T00:00:00Z")
            })
            .then(Reason::DelegationOverlap, |case| case.done_before(|_| ()))
    }

    fn target(command: &Command, _: &Context<'_>) -> Option<Digest> {
        let id = [
            command.reservation_booking_id.as_str(),
            command.payer_member_id.as_str(),
        ];
        Some(PaymentAuthority::KIND.key(&id))
    }

    fn decide(
        book: Option<&PaymentAuthority>,
        command: &Command,
        context: &Context<'_>,
    ) -> Result<Decision<PaymentAuthority>, Rejection> {
        if !is_mother(context.actor, &command.mother_member_id) {
            return Err(Reason::NotPermitted.into());
        }
        let Some(account) = context
            .view
            .fact::<FamilyAccount>(&command.family_account_id)
        else {
            return Err(Reason::FamilyAccountNotFound.into());
        };
        if account.facts.mother_member_id != command.mother_member_id {
            return Err(Reason::NotThisMother.into());
        }
        let booking = context
            .view
            .fact::<ReservationBooking>(&command.reservation_booking_id);
        let booking =
            booking.filter(|found| found.facts.mother_member_id == command.mother_member_id);
        let mut at_fault = Vec::new();
        if !account.facts.has_member(&command.payer_member_id) {
            at_fault.push("payerMemberId");
        }
        if booking.is_none() {
            at_fault.push("reservationBookingId");
        }
        if !is_only(&command.scopes, RESERVATION_DEPOSIT) {
            at_fault.push("scopes");
        }
        let (Some(booking), []) = (booking, at_fault.as_slice()) else {
            return Err(Rejection::from(Reason::DelegationScopeConflict).at(&at_fault));
        };
        if command.expires_at <= context.now {
            return Err(Reason::DelegationExpiryConflict.into());
        }
        let standing = book.and_then(|book| book.latest(&context.view));
        if standing.is_some_and(|held| {
            held.grant.is_active(context.now) && held.grant.shares_scope(&command.scopes)
        }) {
            return Err(Reason::DelegationOverlap.into());
        }
        let event = PaymentAuthorityEvent::Entered(Box::new(DelegationEntered {
            reservation_booking_id: command.reservation_booking_id.clone(),
            payer_member_id: command.payer_member_id.clone(),
            payment_delegation_id: context.new_id,
        }));
        let mut commit = Commit::new(book, event, context.at);
        let granted = PaymentDelegationEvent::Granted(Box::new(PaymentGranted {
            reservation_booking_id: command.reservation_booking_id.clone(),
            payer_member_id: command.payer_member_id.clone(),
            terms: GrantTerms {
                grant_id: context.new_id,
                family_account_id: command.family_account_id.clone(),
                mother_member_id: command.mother_member_id.clone(),
                scopes: command.scopes.clone(),
                expires_at: command.expires_at,
                authority_evidence: vec![evidence(&account), evidence(&booking)],
            },
            maximum_authorized_amount_krw: command.maximum_authorized_amount_krw.into(),
        }));
        let delegation = commit.create::<PaymentDelegation>(&granted);
        let body = to_json(&PaymentDelegationBody::new(&delegation));
        let message = granted_message(&command.family_account_id, &body);
        let about = MessageAbout {
            id: context.new_id.to_string().into(),
            reference: None,
        };
        let number = context.ids.outbox_number();
        commit.send_about(number, TOPIC, about, message);
        commit.answer(body)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};
    use serde::Serialize;
    use serde_json::{Value, json};

    use super::*;
    use crate::base::actor::ActorKind;
    use crate::base::revision::Revision;
    use crate::domain::family::grant::Revocation;
    use crate::domain::family::samples::{family, minted, mother, payment as body};
    use crate::domain::scenario::{
        Scenario, Then, actor, assert_conflict, member, with, with_added,
    };

    fn grant(service: &mut Scenario, body: &Value) -> Then {
        service.when("grant_payment_authority", &[], body)
    }

    /// Returns the father's latest delegation.
    fn latest(service: &Scenario) -> PaymentDelegation {
        service
            .view(|view| {
                PaymentAuthority::latest_of(
                    view,
                    &BookingId::from_trusted("booking-1"),
                    &MemberId::from_trusted("father"),
                )
            })
            .unwrap()
    }

    fn by_mother() -> Scenario {
        let mut service = family();
        service.acting(mother());
        service
    }

    #[test]
    fn a_mother_grants_and_the_authorization_system_is_told() {
        let mut service = by_mother();
        let answer = grant(&mut service, &body()).committed();
        let expected = json!({
            "paymentDelegationId": minted(5),
            "payerMemberId": "father",
            "motherMemberId": "mother-1",
            "scopes": ["reservation_deposit"],
            "grantedByMemberId": "mother-1",
            "grantedAt": "2026-11-20T12:00:00.000Z",
            "expiresAt": "2026-12-01T00:00:00.000Z",
            "maximumAuthorizedAmountKrw": 500_000,
            "reservationBookingId": "booking-1",
            "revokedAt": null,
            "delegationRevision": 1,
            "authorityEvidence": ["family-account/account-1@3", "reservation-booking/booking-1@5"],
            "revokedByMemberId": null,
            "revocationReasonCode": null,
        });
        assert_eq!(answer, expected);
        let [message] = service.outbox.as_slice() else {
            panic!("one message: {:?}", service.outbox);
        };
        assert_eq!(&*message.topic, "authorization.payment_delegation.granted");
        let told: Value = serde_json::from_slice(&message.body.0).unwrap();
        assert_eq!(
            told,
            with_added(&expected, &[("familyAccountId", json!("account-1"))])
        );
        let book = service
            .state::<PaymentAuthority>(&["booking-1", "father"])
            .unwrap();
        assert_eq!(book.revision, Revision::FIRST);
        assert_eq!(book.latest.to_string(), answer["paymentDelegationId"]);
    }

    #[test]
    fn the_message_is_the_delegation_with_the_family_account_before_it() {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct GrantedMessage<'a> {
            family_account_id: &'a FamilyAccountId,
            #[serde(flatten)]
            delegation: PaymentDelegationBody<'a>,
        }
        let mut service = by_mother();
        grant(&mut service, &body()).committed();
        let delegation = latest(&service);
        for account in ["account-1", "가족 \"1\" \\"] {
            let account = FamilyAccountId::from_trusted(account);
            let body = PaymentDelegationBody::new(&delegation);
            let message = granted_message(&account, &to_json(&body));
            let expected = GrantedMessage {
                family_account_id: &account,
                delegation: body,
            };
            assert_eq!(message, to_json(&expected));
        }
    }

    #[test]
    fn another_mother_than_the_one_that_the_body_names_may_not_grant() {
        for other in [
            member(ActorKind::Mother, "user-2", "mother-2"),
            actor(ActorKind::Mother, "user-1"),
        ] {
            let then = grant(family().acting(other), &body());
            assert_eq!(then.code(), "permission_denied");
        }
    }

    #[test]
    fn scopes_other_than_the_one_there_is_are_a_conflict() {
        for scopes in [
            json!([]),
            json!(["reservation_deposit", "reservation_deposit"]),
            json!(["reservation_balance"]),
            json!(["reservation_deposit", "reservation_balance"]),
        ] {
            let then = grant(&mut by_mother(), &with(&body(), &[("scopes", scopes)]));
            assert_conflict(then, "delegation_scope_conflict", &["scopes"]);
        }
    }

    #[test]
    fn a_payer_outside_the_account_is_a_conflict() {
        for payer in ["grandmother", "mother-1", "Father"] {
            let then = grant(
                &mut by_mother(),
                &with(&body(), &[("payerMemberId", json!(payer))]),
            );
            assert_conflict(then, "delegation_scope_conflict", &["payerMemberId"]);
        }
    }

    #[test]
    fn a_booking_that_is_unknown_or_another_mothers_is_a_conflict() {
        for booking in ["no-such", "booking-2"] {
            let wrong = with(&body(), &[("reservationBookingId", json!(booking))]);
            let then = grant(&mut by_mother(), &wrong);
            assert_conflict(then, "delegation_scope_conflict", &["reservationBookingId"]);
        }
    }

    #[test]
    fn all_members_outside_the_scope_are_named_at_once_and_before_the_expiry() {
        let wrong = with(&body(), &[("scopes", json!([]))]);
        let wrong = with(&wrong, &[("payerMemberId", json!("nobody"))]);
        let wrong = with(&wrong, &[("reservationBookingId", json!("booking-2"))]);
        let wrong = with(&wrong, &[("expiresAt", json!("2020-01-01T00:00:00Z"))]);
        assert_conflict(
            grant(&mut by_mother(), &wrong),
            "delegation_scope_conflict",
            &["payerMemberId", "reservationBookingId", "scopes"],
        );
    }

    #[test]
    fn a_delegation_may_last_one_millisecond() {
        let brief = with(&body(), &[("expiresAt", json!("2026-11-20T12:00:00.001Z"))]);
        grant(&mut by_mother(), &brief).committed();
    }

    #[test]
    fn a_second_delegation_waits_until_the_first_is_over() {
        let mut service = by_mother();
        grant(&mut service, &body()).committed();
        let places = ["payerMemberId", "reservationBookingId", "scopes"];
        let next = with(&body(), &[("expiresAt", json!("2027-01-01T00:00:00Z"))]);
        for now in ["2026-11-20T12:00:00Z", "2026-11-30T23:59:59.999Z"] {
            let then = grant(service.at(now), &next);
            assert_conflict(then, "delegation_overlap", &places);
        }
        let second = grant(service.at("2026-12-01T00:00:00Z"), &next).committed();
        assert_eq!(
            second["delegationRevision"], 1,
            "each delegation counts for itself"
        );
        let book = service
            .state::<PaymentAuthority>(&["booking-1", "father"])
            .unwrap();
        assert_eq!(book.revision, Revision::new(2));
        assert_eq!(book.latest.to_string(), second["paymentDelegationId"]);
        assert_eq!(service.outbox.len(), 2);
    }

    #[test]
    fn a_revoked_delegation_makes_room_for_another() {
        let mut service = by_mother();
        grant(&mut service, &body()).committed();
        let mut held = latest(&service);
        held.grant.revision = Revision::new(2);
        held.grant.revocation = Some(Revocation {
            revoked_at: Timestamp::parse("2026-11-20T12:00:00Z").unwrap(),
            revoked_by_member_id: MemberId::from_trusted("mother-1"),
            revocation_reason_code: Some(Ident::from_trusted("changed_mind")),
        });
        service.given(&held);
        let second = grant(&mut service, &body()).committed();
        assert_eq!(second["revokedAt"], Value::Null);
        let id = held.grant.terms.grant_id.to_string();
        let (tag, revoked) = service
            .read("read_payment_delegation", &[("id", &id)])
            .unwrap();
        assert_eq!(tag, "2");
        assert_eq!(revoked["delegationRevision"], 2);
        assert_eq!(revoked["revokedAt"], "2026-11-20T12:00:00.000Z");
        assert_eq!(revoked["revokedByMemberId"], "mother-1");
        assert_eq!(revoked["revocationReasonCode"], "changed_mind");
    }

    #[test]
    fn other_payers_and_other_bookings_do_not_overlap() {
        let mut service = by_mother();
        grant(&mut service, &body()).committed();
        grant(
            &mut service,
            &with(&body(), &[("payerMemberId", json!("aunt"))]),
        )
        .committed();
        let booking = json!({"motherUserId": "user-1", "motherMemberId": "mother-1",
            "branchProfileId": "branch-1", "state": "active"});
        service.fact("reservation-booking", "booking-3", 1, booking);
        let third = with(&body(), &[("reservationBookingId", json!("booking-3"))]);
        grant(&mut service, &third).committed();
    }

    /// Tests that two delegations of one book are never active at the same time, in whatever order
    /// they are requested. A run is repeated with the environment variable `SEED`.
    #[test]
    fn no_order_of_grants_lets_two_delegations_stand_at_one_time() {
        let seed = crate::base::testing::seed();
        let mut random = StdRng::seed_from_u64(seed);
        let mut service = by_mother();
        let start = Timestamp::parse("2026-11-20T12:00:00Z").unwrap();
        let (mut now, mut free_from, mut granted) = (start, start, 0);
        for _ in 0..200 {
            now = now.plus_seconds(random.random_range(0..5));
            let expires_at = now.plus_seconds(random.random_range(-2..12));
            let asked = with(&body(), &[("expiresAt", json!(expires_at.to_string()))]);
            let then = grant(service.at(&now.to_string()), &asked);
            if expires_at <= now {
                assert_eq!(then.code(), "delegation_expiry_conflict", "SEED={seed}");
            } else if now < free_from {
                assert_eq!(then.code(), "delegation_overlap", "SEED={seed}");
            } else {
                then.committed();
                free_from = expires_at;
                granted += 1;
            }
        }
        let book = service
            .state::<PaymentAuthority>(&["booking-1", "father"])
            .unwrap();
        assert_eq!(book.revision, Revision::new(granted), "SEED={seed}");
        assert_eq!(book.validate(), Ok(()), "SEED={seed}");
    }

    #[test]
    fn the_thousandth_grant_costs_no_more_and_the_first_is_still_read() {
        let mut service = by_mother();
        let start = Timestamp::parse("2026-11-20T12:00:00Z").unwrap();
        let mut costs = Vec::new();
        let mut first = Value::Null;
        for number in 0..1_000 {
            let now = start.plus_seconds(number);
            let brief = with(
                &body(),
                &[("expiresAt", json!(now.plus_seconds(1).to_string()))],
            );
            let answer = grant(service.at(&now.to_string()), &brief).committed();
            costs.push(service.cost);
            if number == 0 {
                first = answer;
            }
        }
        let (least, most) = (costs[0], costs[999]);
        println!("the first grant: {least:?}, the thousandth: {most:?}");
        // A revision takes a few more bytes when it is larger.
        assert!(most.record <= least.record + 16, "{least:?}, {most:?}");
        assert!(most.states <= least.states + 16, "{least:?}, {most:?}");
        let id = first["paymentDelegationId"].as_str().unwrap();
        let read = service.read("read_payment_delegation", &[("id", id)]);
        assert_eq!(read.unwrap(), ("1".to_owned(), first.clone()));
        let overlap = with(&body(), &[("expiresAt", json!("2027-01-01T00:00:00Z"))]);
        let then = grant(service.at("2026-11-20T12:16:39.999Z"), &overlap);
        assert_eq!(then.code(), "delegation_overlap");
    }
}
