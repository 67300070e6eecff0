//! Commands and facts of payouts.

use serde_json::{Value, json};

use super::super::state::{Model, n, s};
use super::{Command, World};

impl World {
    pub(super) fn payout(&mut self, op: u16, model: &Model) -> Command {
        let instructions = model.recent("payout-instruction");
        let id = self.standing(&instructions, "PI");
        let instruction = model.fact("payout-instruction", &id);
        let facts = instruction
            .map(|instruction| instruction.facts.clone())
            .unwrap_or_default();
        let mut booking_id = s(&facts, "reservationBookingId").to_owned();
        if booking_id.is_empty() || self.chance(4) {
            booking_id = self.booking(model);
        }
        let booking = model.booking(&booking_id);
        let branch = booking.map_or("", |booking| s(&booking.facts, "branchProfileId"));
        let good: &[usize] = match (op, branch) {
            (11, "branch-1") => &[6, 7, 9, 10],
            (11, _) => &[7, 9, 10],
            (_, "branch-1") => &[6, 7],
            _ => &[7],
        };
        let who = self.who(good);
        let contract = s(&facts, "contractAssignmentKey").to_owned();
        let contract = if contract.is_empty() || self.chance(4) {
            "CA-1".to_owned()
        } else {
            contract
        };
        let at = model.now + self.pick(&[0, 0, 0, 0, -5_000, 300_000, 300_001]);
        let order = if facts.is_null() {
            1
        } else {
            n(&facts, "handoffOrder")
        };
        let mut body = json!({
            "reservationBookingId": booking_id,
            "contractAssignmentKey": contract,
            "caregiverPayoutInstructionId": id,
            "caregiverRole": if facts.is_null() || self.chance(4) { "assistant" } else { s(&facts, "caregiverRole") },
            "handoffOrder": if self.chance(95) { order } else { self.pick(&[1, 2, 0]) },
            "occurredAt": self.written(at),
            "idempotencyKey": self.key(),
        });
        if self.chance(30) {
            body["caregiverId"] = self.pick(&[json!("c-1"), Value::Null]);
        }
        if op == 11 {
            let revision =
                model.receipt_revision(&booking_id, s(&body, "contractAssignmentKey"), &id);
            body["expectedRevision"] = match self.below(12) {
                0 => json!(revision + 1),
                1 => json!(revision - 1),
                _ => json!(revision),
            };
            body["reason"] = json!("corrected");
        } else {
            if self.chance(50) {
                body["memo"] = self.pick(&[json!("paid out"), Value::Null]);
            }
            if self.chance(50) {
                body["reason"] = self.pick(&[json!("on time"), Value::Null]);
            }
        }
        Command::new(op, &[], who, body)
    }

    pub(super) fn instruction_facts(&mut self, model: &Model) -> (String, Value) {
        let mut facts = json!({
            "reservationBookingId": self.booking(model),
            "contractAssignmentKey": self.pick(&["CA-1", "CA-2"]),
            "caregiverRole": "primary",
            "handoffOrder": self.pick(&[1, 2]),
            "amountKrw": 1_000,
        });
        if self.chance(50) {
            facts["caregiverId"] = json!("c-1");
        }
        (self.near("PI", 6, 150), facts)
    }
}
