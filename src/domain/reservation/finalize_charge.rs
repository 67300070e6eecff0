//! A backend finalizes the charge of a reservation, the regional benefit included. No token is
//! looked at: an operator who wants it closed serves it on an internal address.
//!
//! Resource: the booking's financial lifecycle. The charge's own identifier is the key, unique in
//! the whole service while the key is kept: with other facts it is `charge_snapshot_reused`; another
//! identifier finalizes anew. Rejections, in the order tested: the request comes from a page whose
//! origin may not send it (`header.Origin`, invalid; it comes alone, before the body is read); the facts
//! by which the booking's charge is shared are unknown (404); the identifier is that of the booking's
//! present charge, under a key that is forgotten by now (409); a sum exceeds 64 bits with the benefit
//! (invalid; one that does so without it is refused with the request's shape). Where keys are
//! forgotten, the identifier of an earlier charge, which
//! another one has followed, finalizes a charge again, and so does that of another booking's charge.
//!
//! A charge rests on those facts and the policies alone. The booking itself need not be known here,
//! and the branch is recorded as the request names it.

use std::collections::BTreeMap;

use serde::Serialize;

use super::ledger::{Charge, Grant, Shares, benefit_krw, settle};
use super::lifecycle::{
    AppliedBenefit, ChargeFinalized, ComponentAmounts, FinancialLifecycle, FinancialLifecycleBody,
    FinancialLifecycleEvent,
};
use crate::base::actor::ActorKind;
use crate::base::digest::Digest;
use crate::base::json::{AtLeast, FaultCode, FromJson, Json, Reader, Shape};
use crate::base::text::{BodyKey, BookingId, BranchProfileId, Ident, Text};
use crate::base::time::Date;
use crate::base::won::Won;
use crate::domain::example::Example;
#[cfg(test)]
use crate::domain::ladder::{Case, Ladder};
use crate::domain::operation::{Commit, Context, Decision, Operation, to_json};
use crate::domain::reference::kinds::regional_benefit_policy::{BenefitCase, policy_for};
use crate::domain::reference::kinds::reservation_financial_facts::ReservationFinancialFact;
use crate::domain::rejection::{Declared, Rejection};
use crate::domain::resource::{ReadView, Resource};
use crate::{json_object, module_doc, path_and_body, rejections};

/// The flag that turns the regional benefit off when it is false.
const REGIONAL_BENEFIT: &str = "regionalBenefit";

path_and_body! {
    /// The content of a request.
    pub struct Command {
        /// The booking.
        pub reservation_booking_id: BookingId = "reservationBookingId",
        body: Body,
    }
}

json_object! {
    /// The body of the request. An amount that is absent is 0.
    pub struct Body {
        /// The branch.
        pub branch_profile_id: BranchProfileId = "branchProfileId",
        /// The charge's own identifier: the idempotency key.
        pub finalized_charge_snapshot_id: BodyKey = "finalizedChargeSnapshotId",
        /// The day on which the charge was captured.
        pub captured_on: Date = "capturedOn",
        /// The type of the service.
        pub service_type: Ident = "serviceType",
        /// Where the service was given: the widest level of the address.
        pub service_address_level1: Text = "serviceAddressLevel1" personal Address,
        /// The next narrower level.
        pub service_address_level2: Option<Text> = "serviceAddressLevel2" personal Address,
        /// The narrowest level.
        pub service_address_level3: Option<Text> = "serviceAddressLevel3" personal Address,
        /// The day on which the price was quoted: `capturedOn`, or before.
        pub quoted_on: Date = "quotedOn",
        /// The price of the service.
        pub service_price_krw: AtLeast<0> = "servicePriceKrw",
        /// The part of it that no voucher carries: at most `servicePriceKrw`.
        pub own_price_krw: AtLeast<0> = "ownPriceKrw",
        /// Additional services.
        pub additional_service_charge_krw: Option<AtLeast<0>> = "additionalServiceChargeKrw",
        /// Equipment rented.
        pub rental_equipment_charge_krw: Option<AtLeast<0>> = "rentalEquipmentChargeKrw",
        /// The government's discount.
        pub government_discount_amount_krw: Option<AtLeast<0>> = "governmentDiscountAmountKrw",
        /// The coupon's discount.
        pub coupon_discount_amount_krw: Option<AtLeast<0>> = "couponDiscountAmountKrw",
        /// What was paid with the pre-reservation.
        pub pre_reservation_payment_amount_krw: Option<AtLeast<0>> = "preReservationPaymentAmountKrw",
        /// What is added on to the voucher's balance.
        pub voucher_service_balance_add_on_krw: Option<AtLeast<0>> = "voucherServiceBalanceAddOnKrw",
        /// By how much the user's fee changes; it alone may be negative.
        pub voucher_inhome_user_fee_change_amount_krw: Option<Won> = "voucherInhomeUserFeeChangeAmountKrw",
        /// Further components, each with its amount.
        pub amount_by_component_code: Option<ComponentAmounts> = "amountByComponentCode",
        /// What is turned on and off.
        pub enabled_flags: Option<EnabledFlags> = "enabledFlags",
        /// The branch's number in an older system.
        pub branch_id: Option<i64> = "branchId",
        /// The caregiver, as a user.
        pub assigned_caregiver_user_id: Option<Ident> = "assignedCaregiverUserId",
        /// The plan of what the calendar changes.
        pub service_calendar_impact_plan_id: Option<Ident> = "serviceCalendarImpactPlanId",
        /// The fingerprint of the policy for it.
        pub service_calendar_impact_policy_fingerprint: Option<Text> = "serviceCalendarImpactPolicyFingerprint",
        /// The facts behind it.
        pub service_calendar_impact_fact_ids: Option<Vec<Ident>> = "serviceCalendarImpactFactIds",
    }
    rules consistent(Fields)
}

/// The flags, by their names, which have 1 to 512 characters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct EnabledFlags(BTreeMap<Box<str>, bool>);

/// Maximum length of a flag's name, in characters.
const NAME_MAX: usize = 512;

impl FromJson for EnabledFlags {
    /// Reads the flags; for a faulty name, notes a fault and still reads all flags.
    fn read(value: &Json<'_>, at: &mut Reader) -> Option<Self> {
        if let Json::Object(flags) = value {
            for (name, _) in flags {
                let fault = match name.chars().count() {
                    0 => FaultCode::TooShort,
                    1..=NAME_MAX => continue,
                    _ => FaultCode::TooLong,
                };
                at.entry(name, |at| at.fault::<()>(fault));
            }
        }
        FromJson::read(value, at).map(Self)
    }

    fn shape() -> Shape {
        Shape::Map {
            names: Box::new(Shape::Text {
                shortest: 1,
                longest: NAME_MAX,
                blank: true,
                form: "",
                pattern: "",
                known: &[],
            }),
            of: Box::new(bool::shape()),
        }
    }
}

/// The amounts of the charge in a request, by the fields' names. An absent amount is 0.
#[derive(Clone, Copy)]
struct RequestedCharge<'a> {
    service_price: AtLeast<0>,
    own_price: AtLeast<0>,
    additional_service: Option<AtLeast<0>>,
    rental_equipment: Option<AtLeast<0>>,
    government_discount: Option<AtLeast<0>>,
    coupon_discount: Option<AtLeast<0>>,
    pre_reservation_payment: Option<AtLeast<0>>,
    voucher_add_on: Option<AtLeast<0>>,
    user_fee_change: Option<Won>,
    components: Option<&'a ComponentAmounts>,
}

impl RequestedCharge<'_> {
    fn charge(&self) -> Charge {
        let won = |amount: Option<AtLeast<0>>| amount.map_or(Won::ZERO, Won::from);
        Charge {
            service_price_krw: self.service_price.into(),
            own_price_krw: self.own_price.into(),
            additional_service_krw: won(self.additional_service),
            rental_equipment_krw: won(self.rental_equipment),
            components_krw: self.components.map_or(0, ComponentAmounts::sum),
            government_discount_krw: won(self.government_discount),
            coupon_discount_krw: won(self.coupon_discount),
            pre_reservation_payment_krw: won(self.pre_reservation_payment),
            voucher_add_on_krw: won(self.voucher_add_on),
            user_fee_change_krw: self.user_fee_change.unwrap_or_default(),
        }
    }
}

impl Command {
    /// Whether this charge is what the command asks for, as far as a charge is recorded: of the rest of
    /// the request content nothing is stored but the key's fingerprint, which is forgotten with it.
    fn says(&self, charge: &ChargeFinalized) -> bool {
        let body = &self.body;
        let components = body.amount_by_component_code.clone().unwrap_or_default();
        charge.reservation_booking_id == self.reservation_booking_id
            && charge.finalized_charge_snapshot_id.as_str()
                == body.finalized_charge_snapshot_id.as_str()
            && charge.branch_profile_id == body.branch_profile_id
            && charge.service_type == body.service_type
            && (charge.captured_on, charge.quoted_on) == (body.captured_on, body.quoted_on)
            && charge.amounts == body.charge()
            && charge.components == components
            && (body.wants_benefit() || charge.benefit.is_none())
    }
}

impl Body {
    fn charge(&self) -> Charge {
        let asked = RequestedCharge {
            service_price: self.service_price_krw,
            own_price: self.own_price_krw,
            additional_service: self.additional_service_charge_krw,
            rental_equipment: self.rental_equipment_charge_krw,
            government_discount: self.government_discount_amount_krw,
            coupon_discount: self.coupon_discount_amount_krw,
            pre_reservation_payment: self.pre_reservation_payment_amount_krw,
            voucher_add_on: self.voucher_service_balance_add_on_krw,
            user_fee_change: self.voucher_inhome_user_fee_change_amount_krw,
            components: self.amount_by_component_code.as_ref(),
        };
        asked.charge()
    }

    /// Whether a field says what its absence says.
    fn spells_defaults_out(&self) -> bool {
        let amounts = [
            self.additional_service_charge_krw,
            self.rental_equipment_charge_krw,
            self.government_discount_amount_krw,
            self.coupon_discount_amount_krw,
            self.pre_reservation_payment_amount_krw,
            self.voucher_service_balance_add_on_krw,
        ];
        let components = self.amount_by_component_code.as_ref();
        let flags = self.enabled_flags.as_ref();
        let fact_ids = self.service_calendar_impact_fact_ids.as_ref();
        amounts.contains(&Some(AtLeast(0)))
            || self.voucher_inhome_user_fee_change_amount_krw == Some(Won::ZERO)
            || components.is_some_and(ComponentAmounts::is_empty)
            || flags.is_some_and(|EnabledFlags(flags)| flags.is_empty())
            || fact_ids.is_some_and(Vec::is_empty)
    }

    /// Leaves out the fields that say what their absence says.
    fn without_defaults(self) -> Self {
        let amount = |amount: Option<AtLeast<0>>| amount.filter(|amount| *amount != AtLeast(0));
        Self {
            additional_service_charge_krw: amount(self.additional_service_charge_krw),
            rental_equipment_charge_krw: amount(self.rental_equipment_charge_krw),
            government_discount_amount_krw: amount(self.government_discount_amount_krw),
            coupon_discount_amount_krw: amount(self.coupon_discount_amount_krw),
            pre_reservation_payment_amount_krw: amount(self.pre_reservation_payment_amount_krw),
            voucher_service_balance_add_on_krw: amount(self.voucher_service_balance_add_on_krw),
            voucher_inhome_user_fee_change_amount_krw: self
                .voucher_inhome_user_fee_change_amount_krw
                .filter(|change| *change != Won::ZERO),
            amount_by_component_code: self
                .amount_by_component_code
                .filter(|components| !components.is_empty()),
            enabled_flags: self
                .enabled_flags
                .filter(|EnabledFlags(flags)| !flags.is_empty()),
            service_calendar_impact_fact_ids: self
                .service_calendar_impact_fact_ids
                .filter(|ids| !ids.is_empty()),
            ..self
        }
    }

    /// Whether the regional benefit is requested, which is so unless the flag turns it off.
    fn wants_benefit(&self) -> bool {
        let flags = self.enabled_flags.as_ref();
        flags.and_then(|EnabledFlags(flags)| flags.get(REGIONAL_BENEFIT)) != Some(&false)
    }
}

fn consistent(at: &mut Reader, fields: &Fields<'_>) {
    if let (Some(captured_on), Some(quoted_on)) = (fields.captured_on, fields.quoted_on)
        && quoted_on > captured_on
    {
        at.fault_at::<()>("quotedOn", FaultCode::OutOfRange);
    }
    if let (Some(service_price), Some(own_price)) = (fields.service_price_krw, fields.own_price_krw)
        && own_price > service_price
    {
        at.fault_at::<()>("ownPriceKrw", FaultCode::OutOfRange);
    }
    let charge = || {
        let asked = RequestedCharge {
            service_price: *fields.service_price_krw?,
            own_price: *fields.own_price_krw?,
            additional_service: *fields.additional_service_charge_krw?,
            rental_equipment: *fields.rental_equipment_charge_krw?,
            government_discount: *fields.government_discount_amount_krw?,
            coupon_discount: *fields.coupon_discount_amount_krw?,
            pre_reservation_payment: *fields.pre_reservation_payment_amount_krw?,
            voucher_add_on: *fields.voucher_service_balance_add_on_krw?,
            user_fee_change: *fields.voucher_inhome_user_fee_change_amount_krw?,
            components: fields.amount_by_component_code?.as_ref(),
        };
        Some(asked.charge())
    };
    if charge().is_some_and(|charge| !charge.fits()) {
        at.fault::<()>(FaultCode::OutOfRange);
    }
}

rejections! {
    /// Why no charge is finalized.
    pub enum Reason {
        /// It is not known how the charge is shared.
        ReservationFactsNotFound = Missing "reservation_facts_not_found" []
            "The financial facts of this reservation are not known.",
        /// The present charge has the identifier, and is another one; its key is forgotten by now.
        ChargeSnapshotReused = Conflict "charge_snapshot_reused" []
            "The finalizedChargeSnapshotId was used before with other request content.",
        /// It was done before under a key that is forgotten by now; the engine finds that.
        FirstAnswerForgotten = Conflict "first_answer_forgotten" []
            "This was done before, under an idempotency key that is forgotten by now: read the resource.",
    }
}

/// The operation.
pub struct FinalizeCharge;

impl Operation for FinalizeCharge {
    type Command = Command;
    type Resource = FinancialLifecycle;
    type Answer = FinancialLifecycleBody<'static>;

    const DOC: &'static str = module_doc!("finalize_charge.rs");
    const REJECTIONS: &'static [Declared] = Reason::TABLE;

    const EXAMPLE: Example = Example {
        actor: ActorKind::SystemWorkflow,
        path: &["reservation-booking-1"],
        body: r#"{
  "branchProfileId": "branch-seoul-1",
  "finalizedChargeSnapshotId": "charge-snapshot-1",
  "capturedOn": "2026-10-10",
  "serviceType": "postpartum_care",
  "serviceAddressLevel1": "서울특별시",
  "quotedOn": "2026-10-01",
  "servicePriceKrw": 1500000,
  "ownPriceKrw": 1000000
}"#,
        changed_value: ("/ownPriceKrw", "900000"),
        needs_facts: &[("reservation-financial-facts", "reservation-booking-1")],
        unique_ids: &["reservation-booking-1", "charge-snapshot-1"],
        id_in_response: "reservation-booking-1",
        ..Example::NEW
    };
    const KEY_FIELD: Option<&'static str> = Some("finalizedChargeSnapshotId");

    #[cfg(test)]
    fn ladder() -> Ladder {
        Ladder::of(&ActorKind::ALL)
            .then(Reason::ReservationFactsNotFound, Case::at_unknown)
            .then(Reason::ChargeSnapshotReused, |case| {
                case.done_before(|before| {
                    before.set("/ownPriceKrw", 900_000);
                })
            })
            .then_by_engine(Reason::FirstAnswerForgotten)
    }

    fn target(command: &Command, _: &Context<'_>) -> Option<Digest> {
        Some(FinancialLifecycle::KIND.key(&[&command.reservation_booking_id]))
    }

    fn key(command: &Command) -> Option<&str> {
        Some(command.body.finalized_charge_snapshot_id.as_str())
    }

    fn without_defaults(command: &Command) -> Option<Command> {
        command.body.spells_defaults_out().then(|| Command {
            reservation_booking_id: command.reservation_booking_id.clone(),
            body: command.body.clone().without_defaults(),
        })
    }

    fn decide(
        lifecycle: Option<&FinancialLifecycle>,
        command: &Command,
        context: &Context<'_>,
    ) -> Result<Decision<FinancialLifecycle>, Rejection> {
        let body = &command.body;
        let Some(facts) = context
            .view
            .fact::<ReservationFinancialFact>(&command.reservation_booking_id)
        else {
            return Err(Reason::ReservationFactsNotFound.into());
        };
        let key = body.finalized_charge_snapshot_id.as_str();
        let present = lifecycle.map(|lifecycle| &lifecycle.charge);
        if let Some(charge) =
            present.filter(|charge| charge.finalized_charge_snapshot_id.as_str() == key)
        {
            return match command.says(charge) {
                true => Ok(Decision::ReplayOf(key.into())),
                false => Err(Reason::ChargeSnapshotReused.into()),
            };
        }
        let shares = Shares {
            caregiver: facts.facts.caregiver_share_basis_points,
            headquarters: facts.facts.headquarters_share_basis_points,
        };
        let benefit = benefit_of(body, &context.view);
        let benefit_krw = benefit
            .as_ref()
            .map_or(Won::ZERO, |benefit| benefit.amount_krw);
        let charge = body.charge();
        let Ok(settlement) = settle(&charge, shares, benefit_krw) else {
            return Err(Rejection::invalid_at("", FaultCode::OutOfRange));
        };
        let event = FinancialLifecycleEvent::ChargeFinalized(Box::new(ChargeFinalized {
            reservation_booking_id: command.reservation_booking_id.clone(),
            finalized_charge_snapshot_id: Ident::from_trusted(key),
            branch_profile_id: body.branch_profile_id.clone(),
            service_type: body.service_type.clone(),
            captured_on: body.captured_on,
            quoted_on: body.quoted_on,
            financial_facts_revision: facts.revision,
            amounts: charge,
            components: body.amount_by_component_code.clone().unwrap_or_default(),
            shares,
            benefit,
            settlement,
            care_delivery_session_code: facts.facts.care_delivery_session_code,
            delivered_day_count: facts.facts.delivered_day_count,
        }));
        let commit = Commit::new(lifecycle, event, context.at);
        let answer = to_json(&FinancialLifecycleBody::new(&commit.next));
        commit.answer(answer)
    }
}

/// Returns the benefit of the policy for the body's service, address and day of quotation.
fn benefit_of(body: &Body, view: &ReadView<'_>) -> Option<AppliedBenefit> {
    if !body.wants_benefit() {
        return None;
    }
    let case = BenefitCase {
        service_type: &body.service_type,
        level1: &body.service_address_level1,
        level2: body.service_address_level2.as_ref(),
        level3: body.service_address_level3.as_ref(),
        on: body.quoted_on,
    };
    let policy = policy_for(view, &case)?;
    let facts = &policy.facts;
    let fixed = Grant::Fixed(facts.fixed_krw.map_or(Won::ZERO, Won::from));
    let cap_krw = facts.cap_krw.map(Won::from);
    let grant = facts.basis_points.map_or(fixed, Grant::Part);
    Some(AppliedBenefit {
        amount_krw: benefit_krw(grant, cap_krw, body.service_price_krw.into()),
        grant,
        cap_krw,
        policy_revision: policy.revision,
        policy_id: policy.id,
    })
}

/// A booking whose charge can be finalized, for the tests of this group.
#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(crate) mod samples {
    use serde_json::{Value, json};

    use crate::base::actor::Actor;
    use crate::domain::scenario::{Scenario, Then};

    /// The booking.
    pub(crate) const PATH: [(&str, &str); 1] = [("reservationBookingId", "booking-1")];

    /// Makes a service that knows how the booking's charge is shared, and a policy that gives 10 %
    /// of the price, at most 100,000 won.
    pub(crate) fn service() -> Scenario {
        let mut scenario = Scenario::new();
        let facts = json!({
            "caregiverShareBasisPoints": 7_000,
            "headquartersShareBasisPoints": 1_000,
            "careDeliverySessionCode": "session-1",
            "deliveredDayCount": 10,
        });
        scenario.fact("reservation-financial-facts", "booking-1", 3, facts);
        let policy = json!({
            "serviceType": "postpartum_care",
            "level1": "서울특별시",
            "level2": "중구",
            "effectiveFrom": "2026-01-01",
            "effectiveUntil": "2026-11-10",
            "basisPoints": 1_000,
            "capKrw": 100_000,
        });
        scenario.fact("regional-benefit-policy", "policy-1", 2, policy);
        scenario
    }

    /// Returns the body of a charge with every field.
    pub(crate) fn charge() -> Value {
        json!({
            "branchProfileId": "branch-of-the-request",
            "finalizedChargeSnapshotId": "snapshot-1",
            "capturedOn": "2026-11-19",
            "serviceType": "postpartum_care",
            "serviceAddressLevel1": "서울특별시",
            "serviceAddressLevel2": "중구",
            "serviceAddressLevel3": "명동",
            "quotedOn": "2026-11-10",
            "servicePriceKrw": 1_200_000,
            "ownPriceKrw": 300_000,
            "additionalServiceChargeKrw": 50_000,
            "rentalEquipmentChargeKrw": 30_000,
            "governmentDiscountAmountKrw": 40_000,
            "couponDiscountAmountKrw": 10_000,
            "preReservationPaymentAmountKrw": 100_000,
            "voucherServiceBalanceAddOnKrw": 5_000,
            "voucherInhomeUserFeeChangeAmountKrw": -3_000,
            "amountByComponentCode": {"twins": 100_001, "night": 20_000},
            "enabledFlags": {"regionalBenefit": true, "another": false},
            "branchId": 7,
            "assignedCaregiverUserId": "caregiver-1",
            "serviceCalendarImpactPlanId": "plan-1",
            "serviceCalendarImpactPolicyFingerprint": "fingerprint-1",
            "serviceCalendarImpactFactIds": ["fact-1", "fact-1"],
        })
    }

    /// Returns the body of a charge with the required fields alone.
    pub(crate) fn plain() -> Value {
        let mut body = charge();
        for member in OPTIONAL {
            body.as_object_mut().unwrap().remove(member).unwrap();
        }
        body
    }

    /// The fields that may be absent.
    pub(crate) const OPTIONAL: [&str; 16] = [
        "serviceAddressLevel2",
        "serviceAddressLevel3",
        "additionalServiceChargeKrw",
        "rentalEquipmentChargeKrw",
        "governmentDiscountAmountKrw",
        "couponDiscountAmountKrw",
        "preReservationPaymentAmountKrw",
        "voucherServiceBalanceAddOnKrw",
        "voucherInhomeUserFeeChangeAmountKrw",
        "amountByComponentCode",
        "enabledFlags",
        "branchId",
        "assignedCaregiverUserId",
        "serviceCalendarImpactPlanId",
        "serviceCalendarImpactPolicyFingerprint",
        "serviceCalendarImpactFactIds",
    ];

    /// Finalizes the booking's charge as an actor without a token.
    pub(crate) fn finalize(scenario: &mut Scenario, body: &Value) -> Then {
        scenario
            .acting(Actor::nobody())
            .when("finalize_charge", &PATH, body)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::{Value, json};

    use super::super::ledger::{Account, Side};
    use super::samples::{PATH, charge, finalize, plain, service};
    use super::*;
    use crate::domain::rejection::Class;
    use crate::domain::scenario::{Scenario, Then, faults, with, with_added};

    const NAME: &str = "finalize_charge";

    fn ask(body: &Value) -> Then {
        finalize(&mut service(), body)
    }

    fn lifecycle(scenario: &Scenario) -> FinancialLifecycle {
        scenario.state(&["booking-1"]).unwrap()
    }

    #[test]
    fn a_charge_with_every_member_is_finalized_to_the_won() {
        let mut service = service();
        let answer = finalize(&mut service, &charge()).committed();
        assert_eq!(
            answer,
            json!({
                "reservationBookingId": "booking-1",
                "financialStage": "charge_finalized",
                "motherVisiblePayableKrw": 252_001,
                "caregiverPayoutKrw": 980_000,
                "branchSettlementKrw": 280_001,
                "hqSettlementKrw": 140_000,
                "careDeliverySessionCode": "session-1",
                "deliveredDayCount": 10,
                "ledgerLineCount": 11,
            })
        );
        assert!(service.outbox.is_empty());
        let lifecycle = lifecycle(&service);
        assert_eq!(lifecycle.revision.number(), 1);
        assert_eq!(lifecycle.charge.financial_facts_revision.number(), 3);
        let benefit = lifecycle.charge.benefit.unwrap();
        assert_eq!(&*benefit.policy_id, "policy-1");
        assert_eq!(benefit.policy_revision.number(), 2);
        assert_eq!(benefit.amount_krw.number(), 100_000, "capped");
    }

    #[test]
    fn absent_amounts_are_nothing_and_absent_facts_are_null() {
        let mut scenario = Scenario::new();
        let facts = json!({"caregiverShareBasisPoints": 0, "headquartersShareBasisPoints": 0});
        scenario.fact("reservation-financial-facts", "booking-1", 1, facts);
        let answer = finalize(&mut scenario, &plain()).committed();
        assert_eq!(
            answer,
            json!({
                "reservationBookingId": "booking-1",
                "financialStage": "charge_finalized",
                "motherVisiblePayableKrw": 300_000,
                "caregiverPayoutKrw": 0,
                "branchSettlementKrw": 1_200_000,
                "hqSettlementKrw": 0,
                "careDeliverySessionCode": null,
                "deliveredDayCount": null,
                "ledgerLineCount": 3,
            })
        );
    }

    #[test]
    fn a_new_snapshot_finalizes_anew() {
        let mut service = service();
        finalize(&mut service, &charge()).committed();
        let anew = with(
            &plain(),
            &[("finalizedChargeSnapshotId", json!("snapshot-2"))],
        );
        let answer = finalize(&mut service, &anew).committed();
        // Without the narrower levels of the address no policy holds.
        assert_eq!(answer["motherVisiblePayableKrw"], 300_000);
        assert_eq!(answer["ledgerLineCount"], 5);
        let lifecycle = lifecycle(&service);
        assert_eq!(lifecycle.revision.number(), 2);
        assert_eq!(lifecycle.charge.benefit, None);
        let id = lifecycle.charge.finalized_charge_snapshot_id;
        assert_eq!(id.as_str(), "snapshot-2");
    }

    /// The values that say what the absence of their fields says.
    fn defaults() -> [(&'static str, Value); 10] {
        [
            ("additionalServiceChargeKrw", json!(0)),
            ("rentalEquipmentChargeKrw", json!(0)),
            ("governmentDiscountAmountKrw", json!(0)),
            ("couponDiscountAmountKrw", json!(0)),
            ("preReservationPaymentAmountKrw", json!(0)),
            ("voucherServiceBalanceAddOnKrw", json!(0)),
            ("voucherInhomeUserFeeChangeAmountKrw", json!(0)),
            ("amountByComponentCode", json!({})),
            ("enabledFlags", json!({})),
            ("serviceCalendarImpactFactIds", json!([])),
        ]
    }

    #[test]
    fn an_explicit_default_has_the_same_fingerprint_as_its_absence() {
        let service = Scenario::new();
        let of = |body: &Value| service.fingerprint(NAME, &PATH, body);
        assert_eq!(of(&with_added(&plain(), &defaults())), of(&plain()));
        for default in defaults() {
            let body = with_added(&plain(), &[default]);
            assert_eq!(of(&body), of(&plain()), "{body}");
        }
        let other = [("branchId", json!(7))];
        let all = with_added(&with_added(&plain(), &defaults()), &other);
        assert_eq!(of(&all), of(&with_added(&plain(), &other)));
        // A component of 0, a flag that is false, and a 0 that is no amount say something.
        let own_price = of(&with(&plain(), &[("ownPriceKrw", json!(0))]));
        let mut seen = vec![of(&plain()), own_price];
        for change in [
            ("branchId", json!(0)),
            ("amountByComponentCode", json!({"night": 0})),
            ("enabledFlags", json!({"another": false})),
            ("enabledFlags", json!({"regionalBenefit": true})),
            ("couponDiscountAmountKrw", json!(1)),
        ] {
            let fingerprint = of(&with_added(&plain(), &[change]));
            assert!(!seen.contains(&fingerprint));
            seen.push(fingerprint);
        }
    }

    #[test]
    fn a_charges_fingerprint_by_earlier_versions_is_that_of_the_body_as_sent() {
        let service = Scenario::new();
        let as_sent = |body: &Value| service.fingerprint_as_sent(NAME, &PATH, body);
        for body in [
            plain(),
            charge(),
            with_added(&plain(), &[("branchId", json!(0))]),
        ] {
            assert_eq!(as_sent(&body), None, "{body}");
        }
        let mut seen = vec![service.fingerprint(NAME, &PATH, &plain())];
        for default in defaults() {
            let fingerprint = as_sent(&with_added(&plain(), &[default])).unwrap();
            assert!(!seen.contains(&fingerprint));
            seen.push(fingerprint);
        }
        let all = as_sent(&with_added(&plain(), &defaults())).unwrap();
        assert_eq!(
            all.to_hex(),
            "86203db430ca8e275f2013722b03f1f72eaae89806141c77bbd4989bd1c8d89e"
        );
    }

    #[test]
    fn the_identifier_of_a_present_charge_finalizes_no_other_one() {
        let mut service = service();
        finalize(&mut service, &charge()).committed();
        let standing = lifecycle(&service);
        // The engine no longer knows the key, and the facts have changed since.
        let shares = json!({"caregiverShareBasisPoints": 1, "headquartersShareBasisPoints": 1});
        service.fact("reservation-financial-facts", "booking-1", 4, shares);
        let again = finalize(&mut service, &charge());
        assert!(
            matches!(&again, Then::ReplayOf(key) if key == "snapshot-1"),
            "{again:?}"
        );
        let reused = |then: Then| {
            let refusal = then.refusal();
            assert_eq!(
                (refusal.class, refusal.code),
                (Class::Conflict, "charge_snapshot_reused")
            );
        };
        for change in [
            ("branchProfileId", json!("another")),
            ("capturedOn", json!("2026-11-20")),
            ("serviceType", json!("cleaning")),
            ("quotedOn", json!("2026-11-09")),
            ("ownPriceKrw", json!(300_001)),
            // The sum stays.
            ("amountByComponentCode", json!({"twins": 120_001})),
            ("enabledFlags", json!({"regionalBenefit": false})),
        ] {
            reused(finalize(&mut service, &with(&charge(), &[change])));
        }
        assert_eq!(lifecycle(&service), standing);
        // Once another charge has followed, the booking has the identifier of the first one no more.
        let next = [("finalizedChargeSnapshotId", json!("snapshot-2"))];
        finalize(&mut service, &with(&charge(), &next)).committed();
        finalize(&mut service, &charge()).committed();
    }

    #[test]
    fn the_benefit_is_that_of_the_day_of_quotation_unless_it_is_turned_off() {
        let applied = |changes: &[(&str, Value)]| {
            let mut service = service();
            finalize(&mut service, &with(&charge(), changes)).committed();
            let charge = lifecycle(&service).charge;
            let line = charge
                .settlement
                .amount(Side::Debit, Account::RegionalBenefit)
                .number();
            let amount = charge.benefit.map(|benefit| benefit.amount_krw.number());
            assert_eq!(amount.unwrap_or(0), line);
            amount
        };
        assert_eq!(applied(&[]), Some(100_000));
        assert_eq!(
            applied(&[("servicePriceKrw", json!(999_999))]),
            Some(99_999)
        );
        assert_eq!(applied(&[("quotedOn", json!("2026-01-01"))]), Some(100_000));
        assert_eq!(applied(&[("quotedOn", json!("2025-12-31"))]), None);
        assert_eq!(applied(&[("quotedOn", json!("2026-11-11"))]), None);
        assert_eq!(applied(&[("serviceType", json!("cleaning"))]), None);
        assert_eq!(applied(&[("serviceAddressLevel1", json!("부산"))]), None);
        assert_eq!(applied(&[("serviceAddressLevel2", json!("종로구"))]), None);
        assert_eq!(applied(&[("serviceAddressLevel2", Value::Null)]), None);
        assert_eq!(
            applied(&[("serviceAddressLevel3", Value::Null)]),
            Some(100_000)
        );
        for (flags, benefit) in [
            (json!({"regionalBenefit": false}), None),
            (json!({"regionalBenefit": true}), Some(100_000)),
            (json!({"regionalbenefit": false}), Some(100_000)),
            (json!({}), Some(100_000)),
            (Value::Null, Some(100_000)),
        ] {
            assert_eq!(applied(&[("enabledFlags", flags)]), benefit);
        }
    }

    #[test]
    fn a_policy_that_would_take_does_not_come_in() {
        for (fixed, cap, place) in [
            (json!(-1), Value::Null, "facts.fixedKrw"),
            (json!(i64::MIN), Value::Null, "facts.fixedKrw"),
            (json!(500), json!(-1), "facts.capKrw"),
        ] {
            let mut service = service();
            let policy = json!({
                "serviceType": "postpartum_care",
                "level1": "서울특별시",
                "level2": "중구",
                "level3": "명동",
                "effectiveFrom": "2026-01-01",
                "fixedKrw": fixed,
                "capKrw": cap,
            });
            let then = service.put_fact("regional-benefit-policy", "policy-0", 1, policy);
            assert_eq!(then.faults(), faults([(place, "out_of_range")]));
        }
    }

    #[test]
    fn a_policy_of_nothing_is_chosen_and_gives_nothing() {
        for (fixed, cap) in [(json!(0), Value::Null), (json!(500), json!(0))] {
            let mut service = service();
            let policy = json!({
                "serviceType": "postpartum_care",
                "level1": "서울특별시",
                "level2": "중구",
                "level3": "명동",
                "effectiveFrom": "2026-01-01",
                "fixedKrw": fixed,
                "capKrw": cap,
            });
            service.fact("regional-benefit-policy", "policy-0", 1, policy);
            let answer = finalize(&mut service, &charge()).committed();
            assert_eq!(answer["motherVisiblePayableKrw"], 352_001);
            assert_eq!(answer["ledgerLineCount"], 10);
            assert_eq!(
                lifecycle(&service).charge.benefit.unwrap().amount_krw,
                Won::ZERO,
                "the policy was chosen all the same"
            );
        }
    }

    #[test]
    fn each_amount_of_a_request_stands_in_the_line_of_its_name() {
        // Amounts such that no two of them, or of their sums, are equal.
        let amounts = [
            ("servicePriceKrw", 1_000_000),
            ("ownPriceKrw", 600_000),
            ("additionalServiceChargeKrw", 1),
            ("rentalEquipmentChargeKrw", 20),
            ("governmentDiscountAmountKrw", 300),
            ("couponDiscountAmountKrw", 4_000),
            ("preReservationPaymentAmountKrw", 50_000),
            ("voucherServiceBalanceAddOnKrw", 7_000_000),
            ("voucherInhomeUserFeeChangeAmountKrw", 80_000_000),
        ];
        let mut body = charge();
        for (member, amount) in amounts {
            body[member] = json!(amount);
        }
        body["amountByComponentCode"] = json!({"night": 900_000_000, "twins": 2});
        let mut service = service();
        finalize(&mut service, &body).committed();
        let charge = lifecycle(&service).charge;
        let lines: Vec<_> = charge
            .settlement
            .lines
            .iter()
            .map(|line| {
                let amount = line.amount_krw.number();
                (line.side.as_str(), line.account.as_str(), amount)
            })
            .collect();
        let gross = 901_000_023;
        let shares = (gross * 7 / 10, gross / 10);
        assert_eq!(
            lines,
            [
                ("debit", "mother_payable", 987_445_723),
                ("debit", "voucher", 400_000),
                ("debit", "government_discount", 300),
                ("debit", "coupon_discount", 4_000),
                ("debit", "regional_benefit", 100_000),
                ("debit", "pre_reservation_payment", 50_000),
                ("credit", "caregiver", shares.0),
                ("credit", "branch", gross - shares.0 - shares.1),
                ("credit", "headquarters", shares.1),
                ("credit", "voucher_add_on", 7_000_000),
                ("credit", "user_fee_change", 80_000_000),
            ]
        );
        // The stored amounts are the same, by name.
        assert_eq!(
            charge.amounts,
            Charge {
                service_price_krw: Won::new(1_000_000),
                own_price_krw: Won::new(600_000),
                additional_service_krw: Won::new(1),
                rental_equipment_krw: Won::new(20),
                components_krw: 900_000_002,
                government_discount_krw: Won::new(300),
                coupon_discount_krw: Won::new(4_000),
                pre_reservation_payment_krw: Won::new(50_000),
                voucher_add_on_krw: Won::new(7_000_000),
                user_fee_change_krw: Won::new(80_000_000),
            }
        );
    }

    #[test]
    fn a_finalized_charge_is_computed_again_from_what_is_kept_with_it() {
        let mut service = service();
        finalize(&mut service, &charge()).committed();
        let standing = lifecycle(&service).charge;
        // The facts change; the finalized charge no longer depends on them.
        let facts = json!({"caregiverShareBasisPoints": 1, "headquartersShareBasisPoints": 1});
        service.fact("reservation-financial-facts", "booking-1", 4, facts);
        let benefit = standing.benefit.clone().unwrap();
        let again = benefit_krw(
            benefit.grant,
            benefit.cap_krw,
            standing.amounts.service_price_krw,
        );
        assert_eq!(again, Won::new(100_000));
        let settlement = settle(&standing.amounts, standing.shares, again);
        assert_eq!(settlement.as_ref(), Ok(&standing.settlement));
        assert_eq!(standing.components.sum(), standing.amounts.components_krw);
        assert_eq!(standing.computes_again(), Ok(()));
    }

    #[test]
    fn a_charge_inconsistent_with_its_settlement_does_not_validate() {
        let mut service = service();
        finalize(&mut service, &charge()).committed();
        let standing = lifecycle(&service);
        assert_eq!(standing.validate(), Ok(()));
        let damages: [fn(&mut ChargeFinalized); 6] = [
            |charge| {
                // Swapping these two leaves the sums equal, but the lines differ.
                let amounts = &mut charge.amounts;
                std::mem::swap(
                    &mut amounts.government_discount_krw,
                    &mut amounts.coupon_discount_krw,
                );
            },
            |charge| charge.amounts.components_krw += 1,
            |charge| charge.components = ComponentAmounts::default(),
            |charge| charge.shares.headquarters = charge.shares.caregiver,
            |charge| charge.benefit.as_mut().unwrap().cap_krw = None,
            |charge| charge.benefit = None,
        ];
        for (number, damage) in damages.iter().enumerate() {
            let mut damaged = standing.clone();
            damage(&mut damaged.charge);
            assert!(damaged.validate().is_err(), "damage {number}");
        }
    }

    #[test]
    fn without_the_facts_of_sharing_nothing_is_finalized() {
        let mut service = service();
        let elsewhere = [("reservationBookingId", "booking-2")];
        service.fact(
            "reservation-booking",
            "booking-2",
            1,
            json!({"motherUserId": "mother-1", "motherMemberId": "member-1",
                "branchProfileId": "branch-1", "state": "active"}),
        );
        let refusal = service.when(NAME, &elsewhere, &charge()).refusal();
        assert_eq!(
            (refusal.class, refusal.code),
            (Class::Missing, "reservation_facts_not_found")
        );
        assert_eq!(service.state::<FinancialLifecycle>(&["booking-2"]), None);
        // The refusal comes before one for a sum that only the benefit makes too large.
        let policy = json!({"serviceType": "x", "level1": "x", "effectiveFrom": "2026-01-01",
            "fixedKrw": 11});
        service.fact("regional-benefit-policy", "policy-x", 1, policy);
        let large = with(
            &plain(),
            &[
                ("serviceType", json!("x")),
                ("serviceAddressLevel1", json!("x")),
                ("servicePriceKrw", json!(0)),
                ("ownPriceKrw", json!(0)),
            ],
        );
        let coupon = ("couponDiscountAmountKrw", json!(i64::MAX - 10));
        let large = with_added(&large, &[coupon]);
        let code = service.when(NAME, &elsewhere, &large).code();
        assert_eq!(code, "reservation_facts_not_found");
        let refusal = finalize(&mut service, &large).refusal();
        assert_eq!(
            (refusal.class, refusal.code),
            (Class::Invalid, "request_invalid")
        );
        let [fault] = refusal.faults.as_slice() else {
            panic!("one fault: {refusal:?}");
        };
        assert_eq!((&*fault.path, fault.code.as_str()), ("", "out_of_range"));
        assert_eq!(service.state::<FinancialLifecycle>(&["booking-1"]), None);
        let most = with(&large, &[("couponDiscountAmountKrw", json!(i64::MAX - 11))]);
        finalize(&mut service, &most).committed();
    }

    #[test]
    fn a_sum_beyond_64_bits_is_a_body_fault_whatever_else_is_wrong() {
        let edge = |fee: i64| {
            let free = [("servicePriceKrw", json!(0)), ("ownPriceKrw", json!(0))];
            with_added(
                &with(&plain(), &free),
                &[
                    ("amountByComponentCode", json!({"a": i64::MAX - 5, "b": 2})),
                    ("voucherInhomeUserFeeChangeAmountKrw", json!(fee)),
                ],
            )
        };
        let answer = ask(&edge(3)).committed();
        assert_eq!(answer["motherVisiblePayableKrw"], i64::MAX);
        assert_eq!(ask(&edge(4)).faults(), faults([("", "out_of_range")]));
        let unknown = [("reservationBookingId", "no-such")];
        let then = service().when(NAME, &unknown, &edge(4));
        assert_eq!(then.faults(), faults([("", "out_of_range")]));
        let more = with(
            &with_added(&edge(4), &[("branchId", json!("x"))]),
            &[
                ("quotedOn", json!("2026-11-20")),
                ("ownPriceKrw", json!(1)),
                (
                    "amountByComponentCode",
                    json!({"a": i64::MAX - 5, "b": 2, " ": 0}),
                ),
            ],
        );
        assert_eq!(
            ask(&more).faults(),
            faults([
                ("amountByComponentCode. ", "blank"),
                ("branchId", "wrong_type"),
                ("quotedOn", "out_of_range"),
                ("ownPriceKrw", "out_of_range"),
                ("", "out_of_range"),
            ])
        );
        // A sum with an unreadable amount is not checked.
        let unreadable = with_added(&edge(4), &[("couponDiscountAmountKrw", json!(-1))]);
        assert_eq!(
            ask(&unreadable).faults(),
            faults([("couponDiscountAmountKrw", "out_of_range")])
        );
        // With an own price above the service's price, the due amount exceeds the ledger's total.
        let own = [
            ("amountByComponentCode", json!({})),
            ("ownPriceKrw", json!(i64::MAX)),
        ];
        assert_eq!(
            ask(&with(&edge(0), &own)).faults(),
            faults([("ownPriceKrw", "out_of_range")])
        );
        assert_eq!(
            ask(&with(&edge(1), &own)).faults(),
            faults([("ownPriceKrw", "out_of_range"), ("", "out_of_range")])
        );
        let lowest = edge(i64::MIN);
        assert_eq!(ask(&lowest).faults(), faults([("", "out_of_range")]));
    }

    #[test]
    fn prices_and_days_may_be_equal_and_not_in_the_wrong_order() {
        let equal = [
            ("ownPriceKrw", json!(1_200_000)),
            ("quotedOn", json!("2026-11-19")),
        ];
        ask(&with(&plain(), &equal)).committed();
        let wrong = [
            ("ownPriceKrw", json!(1_200_001)),
            ("quotedOn", json!("2026-11-20")),
        ];
        assert_eq!(
            ask(&with(&plain(), &wrong)).faults(),
            faults([
                ("quotedOn", "out_of_range"),
                ("ownPriceKrw", "out_of_range")
            ])
        );
    }

    #[test]
    fn no_amount_but_the_fees_change_may_be_negative() {
        for member in [
            "servicePriceKrw",
            "ownPriceKrw",
            "additionalServiceChargeKrw",
            "rentalEquipmentChargeKrw",
            "governmentDiscountAmountKrw",
            "couponDiscountAmountKrw",
            "preReservationPaymentAmountKrw",
            "voucherServiceBalanceAddOnKrw",
        ] {
            assert_eq!(
                ask(&with(&charge(), &[(member, json!(-1))])).faults(),
                faults([(member, "out_of_range")])
            );
        }
        let components = json!({"twins": -1, "night": 0, "": 1, " ": 2});
        assert_eq!(
            ask(&with(&charge(), &[("amountByComponentCode", components)])).faults(),
            faults([
                ("amountByComponentCode.", "too_short"),
                ("amountByComponentCode. ", "blank"),
                ("amountByComponentCode.twins", "out_of_range"),
            ])
        );
        ask(&with(
            &charge(),
            &[("voucherInhomeUserFeeChangeAmountKrw", json!(-1_000_000))],
        ))
        .committed();
    }

    #[test]
    fn component_codes_and_flag_names_have_1_to_512_characters() {
        let longest = "가".repeat(512);
        for member in ["amountByComponentCode", "enabledFlags"] {
            let value = |name: &str| {
                if member == "enabledFlags" {
                    json!({name: true})
                } else {
                    json!({name: 1})
                }
            };
            ask(&with(&charge(), &[(member, value(&longest))])).committed();
            ask(&with(&charge(), &[(member, value("x"))])).committed();
            for (name, code) in [
                (String::new(), "too_short"),
                (format!("{longest}x"), "too_long"),
            ] {
                let told = ask(&with(&charge(), &[(member, value(&name))])).faults();
                let [(path, told)] = told.as_slice() else {
                    panic!("one fault: {told:?}");
                };
                assert!(path.starts_with(&format!("{member}.")), "{path}");
                assert_eq!(*told, code);
            }
        }
    }
}
