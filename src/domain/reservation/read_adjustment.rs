//! Reads a booking's latest payment-change adjustment, paid or not: for its mother, who may pay it,
//! the payer to whom she has given authority for the booking, headquarters, and a manager of the
//! booking's branch.

use super::adjustment::{ContinuationStatus, PaymentChangeAdjustment, PaymentChangeAdjustmentBody};
use crate::base::actor::ActorKind;
use crate::base::text::BookingId;
use crate::domain::family::payment_authority::PaymentAuthority;
use crate::domain::listing::{Filter, Scope};
use crate::domain::read::{HistorySource, ReadRequest, Representation};
use crate::domain::reference::kinds::payment_change_adjustment::adjustments_of;
use crate::domain::reference::kinds::reservation_booking::ReservationBooking;
use crate::domain::rejection::Rejection;
use crate::domain::resource::Resource;

/// The history of this read: the commits of all adjustments of the booking, each while its
/// adjustment was the latest.
pub const HISTORY: HistorySource = HistorySource::of_latest::<PaymentChangeAdjustment>(|request| {
    let booking = BookingId::from_trusted(request.param("reservationBookingId"));
    request.view.ranked(adjustments_of(&booking))
});

/// Reads the latest adjustment of the booking that the path names.
///
/// # Errors
/// `not_found` when the booking has none, or the actor may not see it.
pub fn read_adjustment(request: &ReadRequest<'_>) -> Result<Representation, Rejection> {
    let booking_id = BookingId::from_trusted(request.param("reservationBookingId"));
    let latest = PaymentChangeAdjustment::latest_of(request.view, &booking_id);
    match latest {
        Some(latest) if request.allows(|| may_read(request, &latest)) => {
            let continuation = latest.continuation(request.view);
            let body = PaymentChangeAdjustmentBody::new(&latest, continuation);
            let mut read = Representation::at_position(request.view, latest.key(), &body)?;
            if continuation == ContinuationStatus::Delivered {
                // The delivery does not change the adjustment, but it changes the body.
                read.tag.push_str("-delivered");
            }
            Ok(read)
        }
        _ => Err(Rejection::not_found()),
    }
}

fn may_read(request: &ReadRequest<'_>, adjustment: &PaymentChangeAdjustment) -> bool {
    let actor = request.actor;
    let booking_id = &adjustment.fact.reservation_booking_id;
    match actor.kind {
        ActorKind::HeadquartersAdministrator => true,
        ActorKind::Mother => *actor.subject == *adjustment.fact.mother_user_id,
        ActorKind::BranchManager => request
            .view
            .fact::<ReservationBooking>(booking_id)
            .is_some_and(|booking| actor.manages_branch(&booking.facts.branch_profile_id)),
        ActorKind::FamilyMember => actor.member_id.as_ref().is_some_and(|member_id| {
            PaymentAuthority::latest_of(request.view, booking_id, member_id)
                .is_some_and(|held| held.grant.is_active(request.now))
        }),
        ActorKind::BranchFinanceOperator
        | ActorKind::HeadquartersFinanceOperator
        | ActorKind::SystemWorkflow => false,
    }
}

/// Returns the part of the adjustments that the actor may be shown.
#[must_use]
pub fn scope(request: &ReadRequest<'_>) -> Scope {
    let actor = request.actor;
    match actor.kind {
        ActorKind::HeadquartersAdministrator => Scope::All,
        ActorKind::Mother => Scope::any(Filter::Mother, [&actor.subject]),
        ActorKind::FamilyMember => PaymentAuthority::bookings_of(request, &[Filter::Booking]),
        _ => Scope::managed_by(actor),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::{Value, json};

    use super::super::adjustment::samples::{PATH, adjustment, mother, pay, payment, service};
    use super::*;
    use crate::base::actor::Actor;
    use crate::domain::outbox::report::Attempt;
    use crate::domain::rejection::Class;
    use crate::domain::scenario::{Scenario, actor, manager, member, with, with_added};

    fn read(scenario: &Scenario) -> Result<(String, Value), Rejection> {
        scenario.read("read_payment_change_adjustment", &PATH)
    }

    fn payer() -> Actor {
        member(ActorKind::FamilyMember, "user-3", "father")
    }

    /// Makes the service of [`service`], in which the mother lets the father pay until December.
    fn delegated() -> Scenario {
        let mut service = service();
        let account = json!({"motherMemberId": "member-1", "memberIds": ["father", "aunt"]});
        service.fact("family-account", "account-1", 1, account);
        let delegation = json!({
            "familyAccountId": "account-1",
            "payerMemberId": "father",
            "motherMemberId": "member-1",
            "reservationBookingId": "booking-1",
            "scopes": ["reservation_deposit"],
            "maximumAuthorizedAmountKrw": 1,
            "expiresAt": "2026-12-01T00:00:00Z",
        });
        service
            .when("grant_payment_authority", &[], &delegation)
            .committed();
        service
    }

    #[test]
    fn an_unpaid_adjustment_reads_with_null_forms() {
        let service = service();
        let (_, body) = read(&service).unwrap();
        // The facts that came in, with their times in one form, and null for what is not there yet.
        let asked = ("requestedAt", json!("2026-11-18T00:00:00.000Z"));
        let mut expected = with_added(
            &with(&adjustment(), &[asked]),
            &[
                ("paymentChangeAdjustmentId", json!("adjustment-1")),
                ("paymentReceipt", Value::Null),
                ("settlementContinuationStatus", Value::Null),
                ("settlementContinuationWorkflowRequestId", Value::Null),
                ("settlementContinuationReason", Value::Null),
                ("settlementContinuationRecordedAt", Value::Null),
                ("completedAt", Value::Null),
                ("updatedAt", json!("2026-11-19T00:00:00.000Z")),
            ],
        );
        expected["preRegistration"]["preRegisteredAt"] = json!("2026-11-18T00:00:00.000Z");
        assert_eq!(body, expected);
    }

    #[test]
    fn those_concerned_read_what_the_payment_answered_at_its_position() {
        let mut service = delegated();
        let (before, _) = read(&service).unwrap();
        let answer = pay(&mut service, &payment()).committed();
        let mut tags = Vec::new();
        for reader in [
            mother(),
            payer(),
            manager("manager-1", "branch-1"),
            actor(ActorKind::HeadquartersAdministrator, "hq"),
        ] {
            let kind = reader.kind;
            let (tag, body) = read(service.acting(reader)).unwrap();
            assert_eq!(body, answer, "{kind}");
            tags.push(tag.parse::<u64>().unwrap());
        }
        assert!(tags.iter().all(|tag| *tag == tags[0]), "{tags:?}");
        assert!(tags[0] > before.parse().unwrap());
    }

    #[test]
    fn the_latest_one_is_read_at_its_own_position() {
        let mut service = service();
        let (first, _) = read(&service).unwrap();
        let earlier = with(
            &adjustment(),
            &[("requestedAt", json!("2026-11-17T00:00:00Z"))],
        );
        service.fact("payment-change-adjustment", "adjustment-9", 1, earlier);
        assert_eq!(read(&service).unwrap().0, first);
        let later = with(
            &adjustment(),
            &[
                ("requestedAt", json!("2026-11-19T00:00:00Z")),
                ("adjustmentStatus", json!("requested")),
                ("preRegistration", Value::Null),
            ],
        );
        service.fact("payment-change-adjustment", "adjustment-0", 1, later);
        let (second, body) = read(&service).unwrap();
        assert_eq!(body["paymentChangeAdjustmentId"], "adjustment-0");
        assert_eq!(body["adjustmentStatus"], "requested");
        assert_eq!(body["preRegistration"], Value::Null);
        assert_ne!(second, first);
    }

    #[test]
    fn a_payer_reads_as_long_as_the_authority_lasts() {
        let mut service = delegated();
        service.acting(payer());
        assert!(read(service.at("2026-11-30T23:59:59.999Z")).is_ok());
        let refusal = read(service.at("2026-12-01T00:00:00Z")).unwrap_err();
        assert_eq!(refusal.code, "not_found");
    }

    #[test]
    fn without_an_adjustment_and_for_others_it_is_as_if_there_were_none() {
        let mut service = delegated();
        service.acting(actor(ActorKind::HeadquartersAdministrator, "hq"));
        let other = [("reservationBookingId", "booking-2")];
        let nothing = service
            .read("read_payment_change_adjustment", &other)
            .unwrap_err();
        assert_eq!((nothing.class, nothing.code), (Class::Missing, "not_found"));
        let of_branch = |kind| Actor {
            branch_profile_ids: vec!["branch-1".into()],
            ..member(kind, "mother-1", "member-1")
        };
        for reader in [
            member(ActorKind::Mother, "mother-2", "member-1"),
            member(ActorKind::FamilyMember, "user-4", "aunt"),
            actor(ActorKind::FamilyMember, "father"),
            manager("manager-2", "branch-2"),
            of_branch(ActorKind::BranchFinanceOperator),
            of_branch(ActorKind::HeadquartersFinanceOperator),
            of_branch(ActorKind::SystemWorkflow),
        ] {
            let kind = reader.kind;
            assert_eq!(read(service.acting(reader)).unwrap_err(), nothing, "{kind}");
        }
    }

    #[test]
    fn only_the_continuation_status_changes_when_its_message_is_taken() {
        let mut scenario = service();
        pay(&mut scenario, &payment()).committed();
        let read = |scenario: &mut Scenario| {
            let read = scenario
                .acting(mother())
                .read("read_payment_change_adjustment", &PATH);
            read.unwrap()
        };
        let (tag, queued) = read(&mut scenario);
        assert_eq!(queued["settlementContinuationStatus"], "queued");
        let number = scenario.outbox[0].number;
        scenario
            .at("2026-11-22T00:00:00Z")
            .attempted(number, Attempt::Taken);
        let (after, delivered) = read(&mut scenario);
        let expected = with(
            &queued,
            &[("settlementContinuationStatus", json!("delivered"))],
        );
        assert_eq!(delivered, expected);
        assert_ne!(after, tag);
    }
}
