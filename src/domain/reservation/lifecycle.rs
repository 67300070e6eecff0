//! The financial lifecycle of a booking: how its charge was finalized last, how it is shown.

use serde::{Deserialize, Serialize};

use super::ledger::Settlement;
use crate::base::revision::Revision;
use crate::base::text::Ident;
use crate::base::time::{Date, Instant};
use crate::domain::resource::{Kind, Resource};
use crate::words;

words! {
    /// How far the finances of a booking are.
    pub enum FinancialStage {
        /// Its charge is finalized.
        ChargeFinalized = "charge_finalized",
    }
}

/// A regional benefit, as it was granted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppliedBenefit {
    /// The policy.
    pub policy_id: Box<str>,
    /// The policy's revision.
    pub policy_revision: Revision,
    /// What it gave, in won.
    pub amount_krw: i64,
}

/// A charge is finalized.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChargeFinalized {
    /// The booking.
    pub reservation_booking_id: Ident,
    /// The charge's own identifier: the key of its finalization.
    pub finalized_charge_snapshot_id: Ident,
    /// The branch, as the request named it.
    pub branch_profile_id: Ident,
    /// The type of the service.
    pub service_type: Ident,
    /// The day on which the charge was captured.
    pub captured_on: Date,
    /// The day on which the price was quoted.
    pub quoted_on: Date,
    /// The revision of the facts by which the charge is shared.
    pub financial_facts_revision: Revision,
    /// The regional benefit, where a policy applied.
    pub benefit: Option<AppliedBenefit>,
    /// What the charge comes to.
    pub settlement: Settlement,
    /// The session in which the care was delivered.
    pub care_delivery_session_code: Option<Ident>,
    /// On how many days it was delivered.
    pub delivered_day_count: Option<i64>,
}

/// The financial lifecycle of a booking.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FinancialLifecycle {
    /// How many commits it has seen.
    pub revision: Revision,
    /// Its charge, as it was finalized last.
    pub charge: ChargeFinalized,
    /// When.
    pub finalized_at: Instant,
}

/// What can happen to it. New events go at the end: their order stands in the log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum FinancialLifecycleEvent {
    /// Its charge is finalized, for the first time or anew.
    ChargeFinalized(Box<ChargeFinalized>),
}

impl Resource for FinancialLifecycle {
    const KIND: Kind = Kind {
        tag: 108,
        name: "reservation-financial-lifecycle",
    };
    type Event = FinancialLifecycleEvent;

    fn apply(state: Option<Self>, event: &FinancialLifecycleEvent, at: Instant) -> Self {
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
        vec![self.charge.reservation_booking_id.to_string()]
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
        self.charge.settlement.validate()
    }
}

/// A lifecycle as its readers see it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FinancialLifecycleView<'a> {
    reservation_booking_id: &'a Ident,
    financial_stage: FinancialStage,
    mother_visible_payable_krw: i64,
    caregiver_payout_krw: i64,
    branch_settlement_krw: i64,
    hq_settlement_krw: i64,
    care_delivery_session_code: Option<&'a Ident>,
    delivered_day_count: Option<i64>,
    ledger_line_count: usize,
}

impl<'a> FinancialLifecycleView<'a> {
    /// The view of this lifecycle.
    #[must_use]
    pub fn new(lifecycle: &'a FinancialLifecycle) -> Self {
        let charge = &lifecycle.charge;
        let settlement = &charge.settlement;
        Self {
            reservation_booking_id: &charge.reservation_booking_id,
            financial_stage: FinancialStage::ChargeFinalized,
            mother_visible_payable_krw: settlement.mother_visible_payable_krw,
            caregiver_payout_krw: settlement.caregiver_payout_krw,
            branch_settlement_krw: settlement.branch_settlement_krw,
            hq_settlement_krw: settlement.hq_settlement_krw,
            care_delivery_session_code: charge.care_delivery_session_code.as_ref(),
            delivered_day_count: charge.delivered_day_count,
            ledger_line_count: settlement.lines.len(),
        }
    }
}
