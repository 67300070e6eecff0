//! Receipt states of caregiver payouts, as the service's description has them.

use carebook::base::actor::ActorKind;
use serde_json::{Value, json};

use super::commands::{Command, Who};
use super::expected::Expected;
use super::state::{Access, Faults, Found, Model, Receipt, millis, moment, n, s};

fn id_of(body: &Value) -> (String, String, String) {
    let of = |member: &str| s(body, member).to_owned();
    (
        of("reservationBookingId"),
        of("contractAssignmentKey"),
        of("caregiverPayoutInstructionId"),
    )
}

impl Model {
    pub fn payout_faults(&self, command: &Command, faults: &mut Faults) {
        let body = &command.body;
        faults.least(body, "handoffOrder", 1);
        if command.op == 11 {
            faults.least(body, "expectedRevision", 0);
        }
        if millis(s(body, "occurredAt")) > self.now + 5 * 60_000 {
            faults.add("occurredAt", "out_of_range");
        }
    }

    pub fn receipt_revision(&self, booking: &str, contract: &str, instruction: &str) -> i64 {
        let id = (
            booking.to_owned(),
            contract.to_owned(),
            instruction.to_owned(),
        );
        let found = self.receipts.iter().find(|receipt| receipt.id == id);
        found.map_or(0, |receipt| receipt.revision)
    }

    /// The booking's branch has to be the actor's, and the payout as the instruction says.
    fn payout_refusal(&self, body: &Value, who: &Who, headquarters: bool) -> Option<Expected> {
        let booking = self.booking(s(body, "reservationBookingId"));
        let authorized = booking.filter(|booking| match who.kind {
            ActorKind::HeadquartersAdministrator => headquarters,
            ActorKind::BranchManager => {
                who.branches.contains(&s(&booking.facts, "branchProfileId"))
            }
            _ => false,
        });
        let Some(booking) = authorized else {
            return Some(Expected::forbidden());
        };
        if s(&booking.facts, "state") == "cancelled" {
            return Some(Expected::conflict("reservation_not_active").anywhere());
        }
        let instruction = self.fact(
            "payout-instruction",
            s(body, "caregiverPayoutInstructionId"),
        );
        let other = instruction.is_some_and(|instruction| {
            [
                "reservationBookingId",
                "contractAssignmentKey",
                "caregiverRole",
                "handoffOrder",
            ]
            .into_iter()
            .any(|member| instruction.facts[member] != body[member])
        });
        other.then(|| Expected::conflict("payout_instruction_mismatch").anywhere())
    }

    /// The receipt's place; a new one is at revision 0.
    fn receipt_place(&mut self, body: &Value) -> usize {
        let id = id_of(body);
        let place = self.receipts.iter().position(|receipt| receipt.id == id);
        place.unwrap_or_else(|| {
            self.receipts.push(Receipt {
                id,
                revision: 0,
                acknowledged: false,
                view: Value::Null,
            });
            self.receipts.len() - 1
        })
    }

    fn set_receipt(&mut self, place: usize, body: &Value, who: &Who, state: &str, status: &str) {
        let receipt = &mut self.receipts[place];
        receipt.revision += 1;
        receipt.view = json!({
            "reservationBookingId": receipt.id.0,
            "contractAssignmentKey": receipt.id.1,
            "caregiverPayoutInstructionId": receipt.id.2,
            "receiptState": state,
            "revision": receipt.revision,
            "status": status,
            "reason": body["reason"],
            "actorProfileId": who.profile_id(),
            "occurredAt": moment(millis(s(body, "occurredAt"))),
        });
    }

    pub fn repair_payout_receipt(&mut self, command: &Command, who: &Who) -> Expected {
        let body = &command.body;
        if let Some(refusal) = self.payout_refusal(body, who, true) {
            return refusal;
        }
        let id = id_of(body);
        if n(body, "expectedRevision") != self.receipt_revision(&id.0, &id.1, &id.2) {
            return Expected::stale("expectedRevision");
        }
        let place = self.receipt_place(body);
        self.set_receipt(place, body, who, "repaired", "recorded");
        Expected::done(200, self.receipts[place].view.clone())
    }

    pub fn acknowledge_payout_deposit(&mut self, command: &Command, who: &Who) -> Expected {
        let body = &command.body;
        if let Some(refusal) = self.payout_refusal(body, who, false) {
            return refusal;
        }
        let id = id_of(body);
        let acknowledged = self
            .receipts
            .iter()
            .any(|receipt| receipt.id == id && receipt.acknowledged);
        if acknowledged {
            return Expected::conflict("deposit_already_acknowledged").anywhere();
        }
        let place = self.receipt_place(body);
        self.set_receipt(place, body, who, "acknowledged", "acknowledged");
        self.receipts[place].acknowledged = true;
        Expected::done(
            201,
            json!({
                "reservationBookingId": id.0,
                "contractAssignmentKey": id.1,
                "caregiverPayoutInstructionId": id.2,
                "acknowledgementKind": "branch_deposit",
                "status": "acknowledged",
            }),
        )
    }

    pub fn read_receipt(&self, command: &Command, who: &Who) -> Found {
        let found = self.receipts.iter().find(|receipt| {
            [&receipt.id.0, &receipt.id.1, &receipt.id.2]
                .into_iter()
                .eq(&command.params)
        });
        let Some(found) = found else {
            return (None, Access::No);
        };
        let branch = self.booking(&found.id.0);
        let branch = branch.map(|booking| s(&booking.facts, "branchProfileId"));
        let access = match who.kind {
            ActorKind::HeadquartersAdministrator => Access::Yes,
            ActorKind::BranchManager => {
                Access::when(branch.is_some_and(|branch| who.branches.contains(&branch)))
            }
            _ => Access::No,
        };
        (
            Some((found.view.clone(), Some(found.revision.to_string()))),
            access,
        )
    }
}
