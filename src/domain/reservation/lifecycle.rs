//! The financial lifecycle of a booking: its last finalized charge, and how readers see it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::ledger::{Charge, Grant, Settlement, Shares, benefit_krw, settle};
use crate::base::json::{AtLeast, FromJson, Json, Reader, Scanner, Shape};
use crate::base::revision::Revision;
use crate::base::text::{BookingId, BranchProfileId, Ident};
use crate::base::time::{Date, Timestamp};
use crate::base::won::Won;
use crate::domain::listing::{Filter, List, by_few, by_many, is};
use crate::domain::resource::{Kind, Resource};
use crate::domain::response_body::response_body;
use crate::{public_events, wire_enum};

wire_enum! {
    /// How far the finances of a booking are.
    pub enum FinancialStage {
        /// Its charge is finalized.
        ChargeFinalized = "charge_finalized",
    }
}

/// The amounts of further components, in won, by the components' codes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ComponentAmounts(BTreeMap<Box<str>, AtLeast<0>>);

impl FromJson for ComponentAmounts {
    /// Reads the amounts; for a faulty code, notes a fault and still reads all amounts.
    fn read(value: &Json<'_>, at: &mut Reader) -> Option<Self> {
        if let Json::Object(components) = value {
            for (code, _) in components {
                at.entry(code, |at| {
                    Ident::check(code, at);
                });
            }
        }
        FromJson::read(value, at).map(Self)
    }

    fn read_straight(from: &mut Scanner<'_>) -> Option<Self> {
        from.entries(Ident::check).map(Self)
    }

    fn shape() -> Shape {
        Shape::Map {
            names: Box::new(Ident::shape()),
            of: Box::new(AtLeast::<0>::shape()),
        }
    }
}

impl ComponentAmounts {
    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the sum of all amounts.
    #[must_use]
    pub fn sum(&self) -> i128 {
        self.0.values().map(|AtLeast(won)| i128::from(*won)).sum()
    }
}

/// A regional benefit that was granted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppliedBenefit {
    /// The policy.
    pub policy_id: Box<str>,
    /// The policy's revision.
    pub policy_revision: Revision,
    /// The grant of the policy.
    pub grant: Grant,
    /// Maximum of the benefit, in won.
    pub cap_krw: Option<Won>,
    /// The granted amount, in won.
    pub amount_krw: Won,
}

/// The event that a charge is finalized.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChargeFinalized {
    /// The booking.
    pub reservation_booking_id: BookingId,
    /// The charge's own identifier, which is also the idempotency key of its finalization.
    pub finalized_charge_snapshot_id: Ident,
    /// The branch, as the request named it.
    pub branch_profile_id: BranchProfileId,
    /// The type of the service.
    pub service_type: Ident,
    /// The day on which the charge was captured.
    pub captured_on: Date,
    /// The day on which the price was quoted.
    pub quoted_on: Date,
    /// The revision of the facts that determine how the charge is shared.
    pub financial_facts_revision: Revision,
    /// The charged amounts, as the request gave them.
    pub amounts: Charge,
    /// The amounts of the charge's components.
    pub components: ComponentAmounts,
    /// How the charge is shared.
    pub shares: Shares,
    /// The regional benefit, where a policy applied.
    pub benefit: Option<AppliedBenefit>,
    /// The results of the charge.
    pub settlement: Settlement,
    /// The session in which the care was delivered.
    pub care_delivery_session_code: Option<Ident>,
    /// The number of days on which care was delivered.
    pub delivered_day_count: Option<i64>,
}

/// The financial lifecycle of a booking.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FinancialLifecycle {
    /// The number of commits that it has seen.
    pub revision: Revision,
    /// The last finalized charge.
    pub charge: ChargeFinalized,
    /// The time of that finalization.
    pub finalized_at: Timestamp,
}

/// What can happen to it. New events go at the end: records store their index, and each has a
/// line in `public_events!`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum FinancialLifecycleEvent {
    /// Its charge is finalized, for the first time or again.
    ChargeFinalized(Box<ChargeFinalized>),
}

impl Resource for FinancialLifecycle {
    const KIND: Kind = Kind {
        tag: 108,
        name: "reservation-financial-lifecycle",
    };
    type Event = FinancialLifecycleEvent;
    const LIST: Option<List<Self>> = Some(
        List::<Self>::by(&[
            by_few(Filter::Booking, |it| is(&it.charge.reservation_booking_id)),
            by_many(Filter::Status, |_| {
                is(FinancialStage::ChargeFinalized.as_str())
            }),
            by_many(Filter::ChargedBranch, |it| is(&it.charge.branch_profile_id)),
        ])
        .bound(
            |it| Some(&it.charge.reservation_booking_id),
            &[Filter::Branch, Filter::Mother],
        ),
    );

    fn apply(state: Option<Self>, event: &FinancialLifecycleEvent, at: Timestamp) -> Self {
        let FinancialLifecycleEvent::ChargeFinalized(charge) = event;
        let revision = match &state {
            None => Revision::FIRST,
            Some(state) => {
                assert!(
                    state.charge.reservation_booking_id == charge.reservation_booking_id,
                    "a lifecycle stays that of its booking"
                );
                state.revision.next()
            }
        };
        Self {
            revision,
            charge: (**charge).clone(),
            finalized_at: at,
        }
    }

    fn id(&self) -> Vec<String> {
        vec![self.charge.reservation_booking_id.as_str().to_owned()]
    }

    fn revision(&self) -> Revision {
        self.revision
    }

    fn validate(&self) -> Result<(), String> {
        if self.revision < Revision::FIRST {
            return Err(format!("a lifecycle at revision {}", self.revision));
        }
        if self.charge.quoted_on > self.charge.captured_on {
            return Err("the price was quoted after the charge was captured".to_owned());
        }
        self.charge.settlement.validate()?;
        self.charge.computes_again()
    }
}

public_events! {
    FinancialLifecycle by FinancialLifecycleEvent,
        read at "reservation-financial-lifecycles/{}", revision none;

    /// The charge of a reservation is final, and divided.
    ChargeFinalized(finalized) => "charge-finalized" {
        "finalizedChargeSnapshotId": Ident = finalized.finalized_charge_snapshot_id,
        "branchProfileId": BranchProfileId = finalized.branch_profile_id,
        "serviceType": Ident = finalized.service_type,
        "capturedOn": Date = finalized.captured_on,
        "quotedOn": Date = finalized.quoted_on,
        "motherVisiblePayableKrw": Won = finalized.settlement.mother_visible_payable_krw,
        "caregiverPayoutKrw": Won = finalized.settlement.caregiver_payout_krw,
        "branchSettlementKrw": Won = finalized.settlement.branch_settlement_krw,
        "hqSettlementKrw": Won = finalized.settlement.hq_settlement_krw,
    },
}

impl ChargeFinalized {
    /// Checks that recomputing the results from the stored inputs gives the same results.
    ///
    /// # Errors
    /// A sentence that says what differs.
    pub fn computes_again(&self) -> Result<(), String> {
        if self.amounts.components_krw != self.components.sum() {
            return Err("the components do not come to their sum".to_owned());
        }
        let benefit_again = self.benefit.as_ref().map_or(Won::ZERO, |benefit| {
            let price = self.amounts.service_price_krw;
            benefit_krw(benefit.grant, benefit.cap_krw, price)
        });
        let granted = self
            .benefit
            .as_ref()
            .map_or(Won::ZERO, |benefit| benefit.amount_krw);
        if benefit_again != granted {
            return Err(format!("a benefit of {granted} won, not {benefit_again}"));
        }
        if settle(&self.amounts, self.shares, granted).as_ref() != Ok(&self.settlement) {
            return Err("the charge does not come to its settlement".to_owned());
        }
        Ok(())
    }
}

response_body! {
    /// A lifecycle as its readers see it.
    #[schemars(rename = "FinancialLifecycle")]
    pub struct FinancialLifecycleBody<'a> from (lifecycle: &'a FinancialLifecycle) {
        let charge = &lifecycle.charge;
        let settlement = &charge.settlement;
    } as {
        reservation_booking_id: &'a BookingId = &charge.reservation_booking_id,
        financial_stage: FinancialStage = FinancialStage::ChargeFinalized,
        mother_visible_payable_krw: Won = settlement.mother_visible_payable_krw,
        caregiver_payout_krw: Won = settlement.caregiver_payout_krw,
        branch_settlement_krw: Won = settlement.branch_settlement_krw,
        hq_settlement_krw: Won = settlement.hq_settlement_krw,
        care_delivery_session_code: Option<&'a Ident> = charge.care_delivery_session_code.as_ref(),
        delivered_day_count: Option<i64> = charge.delivered_day_count,
        ledger_line_count: usize = settlement.lines.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::json::read_straight;
    use crate::base::time::Timestamp;

    #[test]
    fn components_are_read_straight_unless_a_code_or_an_amount_is_faulty() {
        for (text, has_fault) in [
            (r#"{"twins":1,"night":0}"#, false),
            ("{}", false),
            (r#"{"twins":-1}"#, true),
            (r#"{" ":1}"#, true),
            (r#"{"":1}"#, true),
            (r#"{"twins":1,"night":2,"twins":1}"#, true),
        ] {
            let mut at = Reader::new(Timestamp::default());
            let by_tree = Json::parse(text.as_bytes())
                .ok()
                .and_then(|tree| ComponentAmounts::read(&tree, &mut at))
                .filter(|_| at.is_clean());
            let straight = read_straight(text.as_bytes(), Timestamp::default());
            assert_eq!(straight.map(|(read, _)| read), by_tree, "{text}");
            assert_eq!(by_tree.is_none(), has_fault, "{text}");
        }
    }
}
