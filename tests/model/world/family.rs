//! Commands and facts of families.

use serde_json::{Value, json};

use super::super::state::{Model, n, s};
use super::{ACTORS, Command, MOTHERS, World};

impl World {
    pub(super) fn family(&mut self, op: u16, model: &Model) -> Command {
        if op == 1
            && self.chance(80)
            && let Some(delegation) = self.late(&model.delegations, 8)
        {
            let view = delegation.body.clone();
            let account = delegation.account.clone();
            let payer = ACTORS
                .iter()
                .position(|who| who.member == Some(s(&view, "payerMemberId")));
            let who = self.who(&[payer.unwrap_or(3)]);
            let maximum = n(&view, "maximumAuthorizedAmountKrw");
            let amount = self.pick(&[maximum, maximum, 1, maximum + 1, 0]);
            let body = json!({
                "familyAccountId": if self.chance(95) { account } else { "FA-1".to_owned() },
                "motherMemberId": view["motherMemberId"],
                "reservationBookingId": view["reservationBookingId"],
                "scope": self.pick(&["reservation_deposit", "reservation_deposit", "summary"]),
                "amountKrw": amount,
            });
            return Command::new(1, &[], who, body);
        }
        let mut booking = self.booking(model);
        let owed = model.recent("payment-obligation");
        if !owed.is_empty() && self.chance(50) {
            // Something is to be paid for it.
            let owed = self.pick(&owed);
            let owed = model.fact("payment-obligation", &owed);
            booking = owed.map_or(booking, |owed| {
                s(&owed.facts, "reservationBookingId").to_owned()
            });
        }

        let mother = model.booking(&booking);
        let mother = mother
            .map_or("user-m1", |booking| s(&booking.facts, "motherUserId"))
            .to_owned();
        let place = MOTHERS
            .iter()
            .position(|(_, subject, _)| *subject == mother);
        let place = place.unwrap_or_default();
        let member = MOTHERS[place].2;
        let account = if self.chance(93) {
            format!("FA-{place}")
        } else {
            self.pick(&["FA-0", "FA-1", "FA-9"]).to_owned()
        };
        let other = self.pick(&[
            "member-f1",
            "member-f1",
            "member-f2",
            "member-f2",
            "member-f9",
        ]);
        let who = self.mother_of(&mother);
        let expires_at = self.later(model, 7_200_000);
        match op {
            1 => {
                let who = self.who(&[3, 4, 5]);
                let body = json!({
                    "familyAccountId": account,
                    "motherMemberId": member,
                    "reservationBookingId": booking,
                    "scope": "reservation_deposit",
                    "amountKrw": 1_000,
                });
                Command::new(1, &[], who, body)
            }
            2 => {
                let scopes = self.pick(&[
                    json!(["reservation_deposit"]),
                    json!(["reservation_deposit"]),
                    json!(["reservation_deposit"]),
                    json!(["reservation_deposit"]),
                    json!(["reservation_deposit"]),
                    json!(["reservation_deposit", "reservation_deposit"]),
                    json!(["summary"]),
                    json!([]),
                ]);
                let body = json!({
                    "familyAccountId": account,
                    "payerMemberId": other,
                    "motherMemberId": member,
                    "reservationBookingId": booking,
                    "scopes": scopes,
                    "maximumAuthorizedAmountKrw": self.pick(&[100_000, 500_000, 900_000, 900_000, 500_000, 900_000, 1, 0]),
                    "expiresAt": expires_at,
                });
                Command::new(2, &[], who, body)
            }
            _ => {
                let scopes = self.pick(&[
                    json!(["summary"]),
                    json!(["summary"]),
                    json!(["summary"]),
                    json!(["summary"]),
                    json!(["summary", "summary"]),
                    json!(["reservation_deposit"]),
                    json!([]),
                ]);
                let body = json!({
                    "granteeMemberId": other,
                    "reservationBookingId": booking,
                    "scopes": scopes,
                    "expiresAt": expires_at,
                });
                Command::new(4, &[&account], who, body)
            }
        }
    }

    pub(super) fn account_facts(&mut self) -> (String, Value) {
        let place = self.below(MOTHERS.len());
        let member = MOTHERS[place].2;
        let members = self.pick(&[
            json!([member, "member-f1", "member-f2"]),
            json!([member, "member-f1", "member-f2"]),
            json!([member, "member-f2"]),
        ]);
        (
            format!("FA-{place}"),
            json!({"motherMemberId": member, "memberIds": members}),
        )
    }
}
