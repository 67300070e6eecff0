//! Reads a payout's receipt state: for headquarters and a manager of the booking's branch.

use super::state::{PayoutReceipt, PayoutReceiptBody};
use crate::base::text::BookingId;
use crate::domain::listing::Scope;
use crate::domain::read::{ReadRequest, Representation};
use crate::domain::reference::kinds::reservation_booking::ReservationBooking;
use crate::domain::rejection::Rejection;

/// Reads the receipt state of the payout that the path names, at its revision.
///
/// # Errors
/// `not_found` when nothing is recorded of the payout, or the actor may not see it.
pub fn read_receipt_state(request: &ReadRequest<'_>) -> Result<Representation, Rejection> {
    let actor = request.actor;
    let booking_id = request.param("reservationBookingId");
    let receipt = request.view.get::<PayoutReceipt>(&[
        booking_id,
        request.param("contractAssignmentKey"),
        request.param("instructionId"),
    ]);
    let may_read = request.allows(|| {
        let booking_id = BookingId::from_trusted(booking_id);
        let booking = request.view.fact::<ReservationBooking>(&booking_id);
        actor.is_headquarters()
            || booking.is_some_and(|booking| actor.manages_branch(&booking.facts.branch_profile_id))
    });
    match receipt {
        Some(receipt) if may_read => {
            Representation::at_revision(&receipt, &PayoutReceiptBody::new(&receipt))
        }
        _ => Err(Rejection::not_found()),
    }
}

/// Returns the part of the receipt states that the actor may be shown.
#[must_use]
pub fn scope(request: &ReadRequest<'_>) -> Scope {
    match request.actor.is_headquarters() {
        true => Scope::All,
        false => Scope::managed_by(request.actor),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::{Value, json};

    use super::super::samples::{deposit, repair, service};
    use super::*;
    use crate::base::actor::ActorKind;
    use crate::domain::rejection::Class;
    use crate::domain::scenario::{Scenario, actor, headquarters, manager, with};

    const PATH: [(&str, &str); 3] = [
        ("reservationBookingId", "booking-1"),
        ("contractAssignmentKey", "contract-1"),
        ("instructionId", "instruction-1"),
    ];

    fn read(scenario: &Scenario) -> Result<(String, Value), Rejection> {
        scenario.read("read_payout_receipt_state", &PATH)
    }

    #[test]
    fn headquarters_and_the_branchs_manager_read_what_the_repair_answered() {
        let mut service = service();
        let answer = service
            .when("repair_payout_receipt", &[], &repair())
            .committed();
        for reader in [headquarters(), manager("manager-9", "branch-1")] {
            service.acting(reader);
            assert_eq!(read(&service).unwrap(), ("1".to_owned(), answer.clone()));
        }
    }

    #[test]
    fn after_an_acknowledgement_it_reads_as_acknowledged_at_the_next_revision() {
        let mut service = service();
        service
            .when("repair_payout_receipt", &[], &repair())
            .committed();
        service
            .when("acknowledge_payout_deposit", &[], &deposit())
            .committed();
        let (tag, body) = read(&service).unwrap();
        assert_eq!(tag, "2");
        assert_eq!(
            body,
            json!({
                "reservationBookingId": "booking-1",
                "contractAssignmentKey": "contract-1",
                "caregiverPayoutInstructionId": "instruction-1",
                "receiptState": "acknowledged",
                "revision": 2,
                "status": "acknowledged",
                "reason": "As agreed.",
                "actorProfileId": "manager-1",
                "occurredAt": "2026-11-20T03:00:00.000Z",
            })
        );
    }

    #[test]
    fn an_acknowledgement_without_a_reason_reads_with_null() {
        let mut service = service();
        let body = with(
            &deposit(),
            &[("reason", Value::Null), ("memo", Value::Null)],
        );
        service
            .when("acknowledge_payout_deposit", &[], &body)
            .committed();
        let (tag, body) = read(&service).unwrap();
        assert_eq!((tag.as_str(), &body["reason"]), ("1", &Value::Null));
    }

    #[test]
    fn at_revision_zero_and_for_others_it_is_as_if_there_were_none() {
        let mut service = service();
        service.acting(headquarters());
        let nothing = read(&service).unwrap_err();
        assert_eq!((nothing.class, nothing.code), (Class::Missing, "not_found"));
        service
            .acting(manager("manager-1", "branch-1"))
            .when("repair_payout_receipt", &[], &repair())
            .committed();
        let mut readers = vec![manager("manager-2", "branch-2")];
        for kind in ActorKind::ALL {
            if kind != ActorKind::HeadquartersAdministrator && kind != ActorKind::BranchManager {
                let mut reader = actor(kind, "mother-1");
                reader.branch_profile_ids = vec!["branch-1".into()];
                readers.push(reader);
            }
        }
        for reader in readers {
            let kind = reader.kind;
            service.acting(reader);
            assert_eq!(read(&service).unwrap_err(), nothing, "{kind}");
        }
        service.acting(headquarters());
        for index in 0..PATH.len() {
            let mut other = PATH;
            other[index].1 = "another";
            let refusal = service
                .read("read_payout_receipt_state", &other)
                .unwrap_err();
            assert_eq!(refusal, nothing);
        }
    }
}
