//! Reads the ledger of a booking's charge: each of its lines, and the amounts that it was computed
//! from. For everybody who may read the booking's financial lifecycle.

use schemars::JsonSchema;
use serde::Serialize;

use super::ledger::{Account, Side};
use super::lifecycle::FinancialLifecycle;
use super::read_lifecycle::readable;
use crate::base::text::{BookingId, BranchProfileId, Ident};
use crate::base::time::{Date, Timestamp};
use crate::base::won::Won;
use crate::domain::read::{ReadRequest, Representation};
use crate::domain::rejection::Rejection;
use crate::domain::resource::Resource as _;

/// The ledger of a charge, as its readers see it.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ChargeLedger")]
pub struct ChargeLedgerBody<'a> {
    /// The booking.
    reservation_booking_id: &'a BookingId,
    /// The charge's own identifier.
    finalized_charge_snapshot_id: &'a Ident,
    /// When it was finalized.
    finalized_at: Timestamp,
    /// The branch, as the request named it.
    branch_profile_id: &'a BranchProfileId,
    /// The type of the service.
    service_type: &'a Ident,
    /// The day on which the charge was captured.
    captured_on: Date,
    /// The day on which the price was quoted.
    quoted_on: Date,
    /// The price of the service, in won.
    service_price_krw: Won,
    /// The caregiver's share, in basis points.
    caregiver_share_basis_points: i64,
    /// The headquarters' share, in basis points.
    headquarters_share_basis_points: i64,
    /// The policy that gave the regional benefit, where one did.
    benefit_policy_id: Option<&'a str>,
    /// The lines that are not zero, debits first. Both sides come to the same.
    lines: Vec<LedgerLineBody>,
}

/// A line of a ledger.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "LedgerLine")]
struct LedgerLineBody {
    /// Its side.
    side: Side,
    /// Its account.
    account: Account,
    /// Its amount, in won.
    amount_krw: Won,
}

impl<'a> ChargeLedgerBody<'a> {
    fn new(lifecycle: &'a FinancialLifecycle) -> Self {
        let charge = &lifecycle.charge;
        let lines = charge.settlement.lines.iter();
        let benefit = charge.benefit.as_ref();
        Self {
            reservation_booking_id: &charge.reservation_booking_id,
            finalized_charge_snapshot_id: &charge.finalized_charge_snapshot_id,
            finalized_at: lifecycle.finalized_at,
            branch_profile_id: &charge.branch_profile_id,
            service_type: &charge.service_type,
            captured_on: charge.captured_on,
            quoted_on: charge.quoted_on,
            service_price_krw: charge.amounts.service_price_krw,
            caregiver_share_basis_points: charge.shares.caregiver.number(),
            headquarters_share_basis_points: charge.shares.headquarters.number(),
            benefit_policy_id: benefit.map(|benefit| &*benefit.policy_id),
            lines: lines
                .map(|line| LedgerLineBody {
                    side: line.side,
                    account: line.account,
                    amount_krw: line.amount_krw,
                })
                .collect(),
        }
    }
}

/// Reads the ledger of the booking that the path names.
///
/// # Errors
/// `not_found` when no charge of the booking was finalized, or the actor may not see it.
pub fn read_ledger(request: &ReadRequest<'_>) -> Result<Representation, Rejection> {
    let lifecycle = readable(request)?;
    let body = ChargeLedgerBody::new(&lifecycle);
    Representation::at_position(request.view, lifecycle.key(), &body)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::finalize_charge::samples::{PATH, charge, finalize, service};
    use crate::base::actor::ActorKind;
    use crate::domain::scenario::{actor, manager};

    #[test]
    fn the_lines_come_to_what_was_settled_and_balance() {
        let mut service = service();
        let answer = finalize(&mut service, &charge()).committed();
        let headquarters = actor(ActorKind::HeadquartersAdministrator, "hq");
        let (_, ledger) = service
            .acting(headquarters)
            .read("read_charge_ledger", &PATH)
            .unwrap();
        let lines = ledger["lines"].as_array().unwrap();
        assert_eq!(answer["ledgerLineCount"], lines.len());
        let sum = |side: &str| -> i64 {
            let of_side = lines.iter().filter(|line| line["side"] == side);
            of_side
                .map(|line| line["amountKrw"].as_i64().unwrap())
                .sum()
        };
        assert!(sum("debit") > 0);
        assert_eq!(sum("debit"), sum("credit"));
        let caregiver = lines.iter().find(|line| line["account"] == "caregiver");
        let paid = &caregiver.unwrap()["amountKrw"];
        assert_eq!(*paid, answer["caregiverPayoutKrw"]);
    }

    #[test]
    fn for_others_it_is_as_if_there_were_none() {
        let mut service = service();
        finalize(&mut service, &charge()).committed();
        let other = manager("manager-9", "branch-9");
        let refusal = service.acting(other).read("read_charge_ledger", &PATH);
        assert_eq!(refusal.unwrap_err().code, "not_found");
    }
}
