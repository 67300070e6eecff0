//! The arithmetic of a finalized charge, and nothing else.
//!
//! It is computed in 128 bits, in which no sum of amounts that a request can carry overflows; each
//! result fits in 64 bits, or the whole charge is refused. Nothing wraps. Only the two shares and
//! the part of a price are rounded, and they are rounded down.
//!
//! Every won is in exactly one line on each side of the ledger:
//!
//! ```text
//!  debits                                     credits
//!  what the mother has to pay  (due, if > 0)  the caregiver's share of the gross charge
//!  what the voucher carries                   the headquarters' share
//!  the government's discount                  the branch's: the rest
//!  the coupon's discount                      what is added on to the voucher's balance
//!  the regional benefit                       a change of the user's fee, if > 0
//!  what was paid with the pre-reservation     the customer's credit  (-due, if due < 0)
//!  a change of the user's fee, if < 0
//! ```

use serde::{Deserialize, Serialize};

use crate::base::won::Won;
use crate::domain::reference::basis_points::BasisPoints;
use crate::wire_enum;

/// The amounts that are charged, in won. Each is at least 0, except the change of the user's fee;
/// the own price is at most the service's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Charge {
    /// The price of the service.
    pub service_price_krw: Won,
    /// The part of the service's price that no voucher covers.
    pub own_price_krw: Won,
    /// Additional services.
    pub additional_service_krw: Won,
    /// Equipment rented.
    pub rental_equipment_krw: Won,
    /// All further components together.
    pub components_krw: i128,
    /// The government's discount.
    pub government_discount_krw: Won,
    /// The coupon's discount.
    pub coupon_discount_krw: Won,
    /// The amount that was paid with the pre-reservation.
    pub pre_reservation_payment_krw: Won,
    /// The amount that is added to the voucher's balance.
    pub voucher_add_on_krw: Won,
    /// The change of the user's fee; negative when the fee falls.
    pub user_fee_change_krw: Won,
}

/// The shares of the gross charge; the rest is the branch's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shares {
    /// The caregiver's share.
    pub caregiver: BasisPoints,
    /// The headquarters' share; the sum of both shares is at most the whole.
    pub headquarters: BasisPoints,
}

/// The grant of a regional policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Grant {
    /// A fixed amount.
    Fixed(Won),
    /// A part of the service's price.
    Part(BasisPoints),
}

wire_enum! {
    /// Where the wons of a line come from, or go to.
    pub enum Account {
        /// Debit: the mother pays.
        MotherPayable = "mother_payable",
        /// Debit: the voucher carries.
        Voucher = "voucher",
        /// Debit: the government gives.
        GovernmentDiscount = "government_discount",
        /// Debit: a coupon gives.
        CouponDiscount = "coupon_discount",
        /// Debit: the region gives.
        RegionalBenefit = "regional_benefit",
        /// Debit: the pre-reservation has paid.
        PreReservationPayment = "pre_reservation_payment",
        /// Either: the user's fee has changed.
        UserFeeChange = "user_fee_change",
        /// Credit: the caregiver gets.
        Caregiver = "caregiver",
        /// Credit: the branch gets.
        Branch = "branch",
        /// Credit: the headquarters get.
        Headquarters = "headquarters",
        /// Credit: the voucher's balance gets.
        VoucherAddOn = "voucher_add_on",
        /// Credit: the customer has too much paid.
        CustomerCredit = "customer_credit",
    }
}

wire_enum! {
    /// A side of the ledger.
    pub enum Side {
        /// Where wons come from.
        Debit = "debit",
        /// Where they go to.
        Credit = "credit",
    }
}

/// A line of the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// Its side.
    pub side: Side,
    /// Its account, which has at most one line.
    pub account: Account,
    /// Its amount in won, above 0.
    pub amount_krw: Won,
}

/// The results of a charge, in won.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settlement {
    /// The amount that the mother sees as payable; at least 0.
    pub mother_visible_payable_krw: Won,
    /// The amount that the caregiver is paid.
    pub caregiver_payout_krw: Won,
    /// The amount that the branch gets.
    pub branch_settlement_krw: Won,
    /// The amount that the headquarters get.
    pub hq_settlement_krw: Won,
    /// The lines that are not zero, debits first.
    pub lines: Vec<Line>,
}

/// The error of a sum that does not fit in 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfRange;

/// Returns the part of `amount` that `share` stands for, rounded down; `amount` is at least 0.
fn part(amount: i128, share: BasisPoints) -> i128 {
    amount * i128::from(share.number()) / i128::from(BasisPoints::WHOLE)
}

fn won(amount: i128) -> Result<Won, OutOfRange> {
    Won::of_sum(amount).ok_or(OutOfRange)
}

/// Returns the benefit that a policy gives for a service of this price, in won: at most `cap_krw`. A
/// fact with a negative amount or cap is refused when it comes in; here such an amount gives 0,
/// since a benefit is never negative.
#[must_use]
pub fn benefit_krw(grant: Grant, cap_krw: Option<Won>, service_price_krw: Won) -> Won {
    let granted = match grant {
        Grant::Fixed(amount) => amount,
        Grant::Part(share) => {
            won(part(i128::from(service_price_krw), share)).expect("a part is no more than all")
        }
    };
    granted.min(cap_krw.unwrap_or(Won::MAX)).max(Won::ZERO)
}

impl Charge {
    /// Returns the sum of everything that is charged, whichever party pays it.
    fn gross(&self) -> i128 {
        i128::from(self.service_price_krw)
            + i128::from(self.additional_service_krw)
            + i128::from(self.rental_equipment_krw)
            + self.components_krw
    }

    /// Returns the amount that remains for the mother to pay; a negative amount is her credit.
    fn due(&self, benefit_krw: Won) -> i128 {
        i128::from(self.own_price_krw)
            + i128::from(self.additional_service_krw)
            + i128::from(self.rental_equipment_krw)
            + self.components_krw
            + i128::from(self.voucher_add_on_krw)
            + i128::from(self.user_fee_change_krw)
            - i128::from(self.government_discount_krw)
            - i128::from(self.coupon_discount_krw)
            - i128::from(benefit_krw)
            - i128::from(self.pre_reservation_payment_krw)
    }

    /// Returns the total of the ledger's credits. As long as the own price is not above the
    /// service's, each other sum is between this total and its negative, so if the total fits in 64
    /// bits, all sums do.
    fn total(&self, benefit_krw: Won) -> i128 {
        self.gross()
            + i128::from(self.voucher_add_on_krw)
            + i128::from(self.user_fee_change_krw).max(0)
            + (-self.due(benefit_krw)).max(0)
    }

    /// Whether every sum fits in 64 bits without a benefit. A sum that does not fit without a
    /// benefit does not fit with any benefit either. The due amount is checked separately: an own
    /// price above the service's, which is a fault of its own, raises it above the total.
    #[must_use]
    pub fn fits(&self) -> bool {
        won(self.total(Won::ZERO)).is_ok() && won(self.due(Won::ZERO)).is_ok()
    }
}

/// Computes the results of the charge.
///
/// # Errors
/// When a sum or the ledger's total does not fit in 64 bits.
pub fn settle(charge: &Charge, shares: Shares, benefit_krw: Won) -> Result<Settlement, OutOfRange> {
    won(charge.total(benefit_krw))?;
    let gross = charge.gross();
    let due = charge.due(benefit_krw);
    let fee_change = i128::from(charge.user_fee_change_krw);
    let payable = due.max(0);
    let caregiver = part(gross, shares.caregiver);
    let headquarters = part(gross, shares.headquarters);
    let branch = gross - caregiver - headquarters;
    let voucher = i128::from(charge.service_price_krw) - i128::from(charge.own_price_krw);
    let debits = [
        (Account::MotherPayable, payable),
        (Account::Voucher, voucher),
        (
            Account::GovernmentDiscount,
            charge.government_discount_krw.into(),
        ),
        (Account::CouponDiscount, charge.coupon_discount_krw.into()),
        (Account::RegionalBenefit, benefit_krw.into()),
        (
            Account::PreReservationPayment,
            charge.pre_reservation_payment_krw.into(),
        ),
        (Account::UserFeeChange, (-fee_change).max(0)),
    ];
    let credits = [
        (Account::Caregiver, caregiver),
        (Account::Branch, branch),
        (Account::Headquarters, headquarters),
        (Account::VoucherAddOn, charge.voucher_add_on_krw.into()),
        (Account::UserFeeChange, fee_change.max(0)),
        (Account::CustomerCredit, (-due).max(0)),
    ];
    let debits = debits.map(|(account, amount)| (Side::Debit, account, amount));
    let credits = credits.map(|(account, amount)| (Side::Credit, account, amount));
    let mut lines = Vec::with_capacity(debits.len() + credits.len());
    for (side, account, amount) in debits.into_iter().chain(credits) {
        if amount != 0 {
            lines.push(Line {
                side,
                account,
                amount_krw: won(amount)?,
            });
        }
    }
    Ok(Settlement {
        mother_visible_payable_krw: won(payable)?,
        caregiver_payout_krw: won(caregiver)?,
        branch_settlement_krw: won(branch)?,
        hq_settlement_krw: won(headquarters)?,
        lines,
    })
}

impl Settlement {
    /// Returns the total of one side, in won.
    #[must_use]
    pub fn total(&self, side: Side) -> i128 {
        self.lines
            .iter()
            .filter(|line| line.side == side)
            .map(|line| i128::from(line.amount_krw))
            .sum()
    }

    /// Returns an account's amount on one side; 0 when it has no line there.
    #[must_use]
    pub fn amount(&self, side: Side, account: Account) -> Won {
        self.lines
            .iter()
            .find(|line| line.side == side && line.account == account)
            .map_or(Won::ZERO, |line| line.amount_krw)
    }

    /// Checks that [`settle`] can have made it.
    ///
    /// # Errors
    /// A sentence that says what is impossible.
    pub fn validate(&self) -> Result<(), String> {
        let (debits, credits) = (self.total(Side::Debit), self.total(Side::Credit));
        if debits != credits {
            return Err(format!("debits of {debits} won, credits of {credits}"));
        }
        if self.lines.iter().any(|line| line.amount_krw <= Won::ZERO) {
            return Err("a line of the ledger is not above zero".to_owned());
        }
        for (index, line) in self.lines.iter().enumerate() {
            let earlier = &self.lines[..index];
            if earlier.iter().any(|other| other.account == line.account) {
                return Err(format!("{} has two lines", line.account.as_str()));
            }
        }
        for (side, account, amount) in [
            (
                Side::Debit,
                Account::MotherPayable,
                self.mother_visible_payable_krw,
            ),
            (Side::Credit, Account::Caregiver, self.caregiver_payout_krw),
            (Side::Credit, Account::Branch, self.branch_settlement_krw),
            (Side::Credit, Account::Headquarters, self.hq_settlement_krw),
        ] {
            if self.amount(side, account) != amount {
                return Err(format!("{} is not {amount} won", account.as_str()));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;
    use crate::base::json::{FromJson, Json, Reader};
    use crate::base::time::Timestamp;

    const MAX: i128 = i64::MAX as i128;

    fn points(number: i64) -> BasisPoints {
        BasisPoints::read(&Json::Int(number), &mut Reader::new(Timestamp::default())).unwrap()
    }

    fn shares(caregiver: i64, headquarters: i64) -> Shares {
        Shares {
            caregiver: points(caregiver),
            headquarters: points(headquarters),
        }
    }

    fn line(side: Side, account: Account, amount_krw: i64) -> Line {
        Line {
            side,
            account,
            amount_krw: Won::new(amount_krw),
        }
    }

    #[test]
    fn a_charge_with_every_line_is_settled_to_the_won() {
        let charge = Charge {
            service_price_krw: Won::new(1_200_000),
            own_price_krw: Won::new(300_000),
            additional_service_krw: Won::new(50_000),
            rental_equipment_krw: Won::new(30_000),
            components_krw: 120_001,
            government_discount_krw: Won::new(40_000),
            coupon_discount_krw: Won::new(10_000),
            pre_reservation_payment_krw: Won::new(100_000),
            voucher_add_on_krw: Won::new(5_000),
            user_fee_change_krw: Won::new(-3_000),
        };
        let settled = settle(&charge, shares(7_000, 1_000), Won::new(100_000)).unwrap();
        assert_eq!(
            settled,
            Settlement {
                mother_visible_payable_krw: Won::new(252_001),
                caregiver_payout_krw: Won::new(980_000),
                branch_settlement_krw: Won::new(280_001),
                hq_settlement_krw: Won::new(140_000),
                lines: vec![
                    line(Side::Debit, Account::MotherPayable, 252_001),
                    line(Side::Debit, Account::Voucher, 900_000),
                    line(Side::Debit, Account::GovernmentDiscount, 40_000),
                    line(Side::Debit, Account::CouponDiscount, 10_000),
                    line(Side::Debit, Account::RegionalBenefit, 100_000),
                    line(Side::Debit, Account::PreReservationPayment, 100_000),
                    line(Side::Debit, Account::UserFeeChange, 3_000),
                    line(Side::Credit, Account::Caregiver, 980_000),
                    line(Side::Credit, Account::Branch, 280_001),
                    line(Side::Credit, Account::Headquarters, 140_000),
                    line(Side::Credit, Account::VoucherAddOn, 5_000),
                ],
            }
        );
        assert_eq!(settled.total(Side::Debit), 1_405_001);
        assert_eq!(settled.validate(), Ok(()));
    }

    #[test]
    fn an_overpayment_becomes_the_customers_credit() {
        let charge = Charge {
            service_price_krw: Won::new(100),
            own_price_krw: Won::new(40),
            pre_reservation_payment_krw: Won::new(90),
            user_fee_change_krw: Won::new(7),
            ..Charge::default()
        };
        let settled = settle(&charge, shares(3_333, 3_333), Won::new(0)).unwrap();
        assert_eq!(
            settled,
            Settlement {
                mother_visible_payable_krw: Won::new(0),
                caregiver_payout_krw: Won::new(33),
                branch_settlement_krw: Won::new(34),
                hq_settlement_krw: Won::new(33),
                lines: vec![
                    line(Side::Debit, Account::Voucher, 60),
                    line(Side::Debit, Account::PreReservationPayment, 90),
                    line(Side::Credit, Account::Caregiver, 33),
                    line(Side::Credit, Account::Branch, 34),
                    line(Side::Credit, Account::Headquarters, 33),
                    line(Side::Credit, Account::UserFeeChange, 7),
                    line(Side::Credit, Account::CustomerCredit, 43),
                ],
            }
        );
    }

    #[test]
    fn without_charges_the_ledger_is_empty() {
        let settled = settle(&Charge::default(), shares(10_000, 0), Won::new(0)).unwrap();
        assert_eq!(settled.lines, []);
        assert_eq!(settled.mother_visible_payable_krw, Won::ZERO);
        assert_eq!(settled.validate(), Ok(()));
    }

    #[test]
    fn a_benefit_is_rounded_down_capped_and_never_negative() {
        for (grant, cap, price, expected) in [
            (Grant::Fixed(Won::new(100_000)), None, 0, 100_000),
            (Grant::Fixed(Won::new(100_000)), Some(99_999), 0, 99_999),
            (Grant::Fixed(Won::new(100_000)), Some(100_001), 0, 100_000),
            (Grant::Fixed(Won::new(i64::MAX)), None, 0, i64::MAX),
            (Grant::Fixed(Won::new(-1)), None, 1_000, 0),
            (Grant::Fixed(Won::new(i64::MIN)), Some(5), 1_000, 0),
            (Grant::Fixed(Won::new(5)), Some(-5), 1_000, 0),
            (Grant::Part(points(1_000)), None, 12_345, 1_234),
            (Grant::Part(points(1)), None, 9_999, 0),
            (Grant::Part(points(1)), None, 10_000, 1),
            (Grant::Part(points(1_000)), Some(1_000), 12_345, 1_000),
            (Grant::Part(points(1_000)), Some(0), 12_345, 0),
            (Grant::Part(points(10_000)), None, i64::MAX, i64::MAX),
            (
                Grant::Part(points(9_999)),
                None,
                i64::MAX,
                9_222_449_699_651_090_329,
            ),
        ] {
            assert_eq!(
                benefit_krw(grant, cap.map(Won::new), Won::new(price)).number(),
                expected,
                "{grant:?} {cap:?}"
            );
        }
    }

    /// Makes a charge in which `change` is made.
    fn charge(change: impl FnOnce(&mut Charge)) -> Charge {
        let mut charge = Charge::default();
        change(&mut charge);
        charge
    }

    #[test]
    fn a_sum_at_the_edge_of_64_bits_is_exact_and_one_won_more_is_refused() {
        // Each pair has the largest possible sum; one more won on either side is too much.
        type Change = fn(&mut Charge, i64);
        let cases: [(&str, Change, Change); 8] = [
            (
                "gross: service and additional",
                |it, n| it.service_price_krw = Won::new(n),
                |it, n| it.additional_service_krw = Won::new(n),
            ),
            (
                "gross: rental and components",
                |it, n| it.rental_equipment_krw = Won::new(n),
                |it, n| it.components_krw = n.into(),
            ),
            (
                "credits: components and add-on",
                |it, n| it.components_krw = n.into(),
                |it, n| it.voucher_add_on_krw = Won::new(n),
            ),
            (
                "credits: add-on and fee",
                |it, n| it.voucher_add_on_krw = Won::new(n),
                |it, n| it.user_fee_change_krw = Won::new(n),
            ),
            (
                "debits: government and coupon",
                |it, n| it.government_discount_krw = Won::new(n),
                |it, n| it.coupon_discount_krw = Won::new(n),
            ),
            (
                "debits: pre-reservation and voucher",
                |it, n| it.pre_reservation_payment_krw = Won::new(n),
                |it, n| it.service_price_krw = Won::new(n),
            ),
            (
                "debits: fee and coupon",
                |it, n| it.user_fee_change_krw = Won::new(-n),
                |it, n| it.coupon_discount_krw = Won::new(n),
            ),
            (
                "due: own price and rental",
                |it, n| {
                    it.service_price_krw = Won::new(n);
                    it.own_price_krw = Won::new(n);
                },
                |it, n| it.rental_equipment_krw = Won::new(n),
            ),
        ];
        for (name, one, other) in cases {
            for first in [0, 1, i64::MAX / 2, i64::MAX - 1] {
                let fits = charge(|it| {
                    one(it, first);
                    other(it, i64::MAX - first);
                });
                let settled = settle(&fits, shares(5_000, 4_999), Won::new(0)).unwrap();
                assert_eq!(settled.total(Side::Debit), MAX, "{name}");
                assert_eq!(settled.validate(), Ok(()), "{name}");
                assert!(fits.fits(), "{name}");
                let too_much = charge(|it| {
                    one(it, first + 1);
                    other(it, i64::MAX - first);
                });
                assert!(!too_much.fits(), "{name}");
                assert_eq!(
                    settle(&too_much, shares(5_000, 4_999), Won::new(0)),
                    Err(OutOfRange),
                    "{name}"
                );
            }
        }
    }

    #[test]
    fn the_lowest_fee_change_and_overflowing_sums_are_refused_and_never_wrap() {
        let lowest = charge(|it| it.user_fee_change_krw = Won::new(i64::MIN));
        assert_eq!(settle(&lowest, shares(0, 0), Won::new(0)), Err(OutOfRange));
        let next = charge(|it| it.user_fee_change_krw = Won::new(-i64::MAX));
        let settled = settle(&next, shares(0, 0), Won::new(0)).unwrap();
        assert_eq!(
            settled.amount(Side::Credit, Account::CustomerCredit),
            Won::MAX
        );
        // The components' sum would be 0 if it wrapped in 64 bits.
        let around = charge(|it| it.components_krw = 1 << 64);
        assert_eq!(settle(&around, shares(0, 0), Won::new(0)), Err(OutOfRange));
        let most = Charge {
            service_price_krw: Won::MAX,
            own_price_krw: Won::MAX,
            additional_service_krw: Won::MAX,
            rental_equipment_krw: Won::MAX,
            components_krw: MAX << 20,
            government_discount_krw: Won::MAX,
            coupon_discount_krw: Won::MAX,
            pre_reservation_payment_krw: Won::MAX,
            voucher_add_on_krw: Won::MAX,
            user_fee_change_krw: Won::MAX,
        };
        assert_eq!(
            settle(&most, shares(10_000, 0), Won::new(i64::MAX)),
            Err(OutOfRange)
        );
    }

    #[test]
    fn a_benefit_may_be_what_makes_the_ledger_too_large() {
        let given = charge(|it| it.coupon_discount_krw = Won::new(i64::MAX - 10));
        assert!(given.fits());
        assert!(settle(&given, shares(0, 0), Won::new(10)).is_ok());
        assert_eq!(settle(&given, shares(0, 0), Won::new(11)), Err(OutOfRange));
    }

    #[test]
    fn a_ledger_that_cannot_be_is_told() {
        let good = settle(
            &charge(|it| it.additional_service_krw = Won::new(100)),
            shares(5_000, 2_500),
            Won::new(30),
        )
        .unwrap();
        assert_eq!(good.validate(), Ok(()));
        let broken = |change: fn(&mut Settlement)| {
            let mut settlement = good.clone();
            change(&mut settlement);
            settlement.validate().unwrap_err()
        };
        assert!(broken(|it| it.lines[0].amount_krw = Won::new(71)).contains("debits of 101"));
        assert!(broken(|it| it.hq_settlement_krw = Won::new(26)).contains("headquarters"));
        assert!(broken(|it| it.caregiver_payout_krw = Won::ZERO).contains("caregiver"));
        let zero = broken(|it| it.lines.push(line(Side::Debit, Account::Voucher, 0)));
        assert!(zero.contains("above zero"));
        let twice = broken(|it| {
            it.lines.push(line(Side::Debit, Account::Voucher, 1));
            it.lines.push(line(Side::Credit, Account::Branch, 1));
        });
        assert!(twice.contains("branch has two lines"));
    }

    /// Returns an amount of any magnitude; very small and very large ones are more frequent.
    fn amount(random: &mut StdRng) -> i64 {
        match random.random_range(0..8) {
            0 => 0,
            1 => random.random_range(0..4),
            2 => i64::MAX - random.random_range(0..4),
            _ => {
                let bits = random.random_range(1..=63);
                random.random_range(0..=i64::MAX >> (63 - bits))
            }
        }
    }

    fn random_charge(random: &mut StdRng) -> Charge {
        // Mostly the amounts are scaled so that all sums fit, so that cases on both sides of the
        // bound occur.
        let scale = random.random_range(0..8);
        let mut next = || amount(random) >> scale;
        let service_price_krw = next();
        let components = (0..3).map(|_| i128::from(next())).sum();
        let mut charge = Charge {
            service_price_krw: Won::new(service_price_krw),
            own_price_krw: Won::new(0),
            additional_service_krw: Won::new(next()),
            rental_equipment_krw: Won::new(next()),
            components_krw: components,
            government_discount_krw: Won::new(next()),
            coupon_discount_krw: Won::new(next()),
            pre_reservation_payment_krw: Won::new(next()),
            voucher_add_on_krw: Won::new(next()),
            user_fee_change_krw: Won::new(next()),
        };
        charge.own_price_krw = Won::new(random.random_range(0..=service_price_krw));
        if random.random() {
            charge.user_fee_change_krw = Won::new(-charge.user_fee_change_krw.number());
        }
        charge
    }

    fn fits_in_64_bits(amount: i128) -> bool {
        (i128::from(i64::MIN)..=MAX).contains(&amount)
    }

    /// Tests `CASES` (100,000 when it is not set) random charges; a run is repeated with `SEED`.
    #[test]
    fn every_won_stands_in_exactly_one_line_and_debits_equal_credits() {
        let seed = crate::base::testing::seed();
        let cases: u32 =
            std::env::var("CASES").map_or(100_000, |text| text.parse().expect("a number of cases"));
        println!("CASES={cases}");
        let mut random = StdRng::seed_from_u64(seed);
        let (mut settled_count, mut refused_count) = (0_u32, 0_u32);
        for _ in 0..cases {
            let charge = random_charge(&mut random);
            let caregiver = random.random_range(0..=10_000);
            let headquarters = random.random_range(0..=10_000 - caregiver);
            let benefit = amount(&mut random) >> 4;
            let [
                service,
                own,
                additional,
                rental,
                government,
                coupon,
                paid,
                add_on,
                fee,
            ] = [
                charge.service_price_krw,
                charge.own_price_krw,
                charge.additional_service_krw,
                charge.rental_equipment_krw,
                charge.government_discount_krw,
                charge.coupon_discount_krw,
                charge.pre_reservation_payment_krw,
                charge.voucher_add_on_krw,
                charge.user_fee_change_krw,
            ]
            .map(i128::from);
            // The sums by the contract's formulas, each computed separately.
            let gross = service + additional + rental + charge.components_krw;
            let voucher = service - own;
            let due = own + additional + rental + charge.components_krw + add_on + fee
                - government
                - coupon
                - i128::from(benefit)
                - paid;
            let mut debits = due.max(0) + voucher + government + coupon + paid;
            debits += i128::from(benefit);
            let mut credits = gross + add_on;
            if fee < 0 {
                debits -= fee;
            } else {
                credits += fee;
            }
            if due < 0 {
                credits -= due;
            }
            assert_eq!(debits, credits, "SEED={seed} {charge:?}");
            let all_fit = [gross, voucher, due, debits, credits]
                .into_iter()
                .all(fits_in_64_bits);
            let result = settle(&charge, shares(caregiver, headquarters), Won::new(benefit));
            assert_eq!(result.is_ok(), all_fit, "SEED={seed} {charge:?}");
            let Ok(settled) = result else {
                refused_count += 1;
                continue;
            };
            settled_count += 1;
            assert!(charge.fits(), "SEED={seed} {charge:?}");
            assert_eq!(settled.validate(), Ok(()), "SEED={seed} {charge:?}");
            assert_eq!(settled.total(Side::Debit), debits, "SEED={seed}");
            assert_eq!(settled.total(Side::Credit), credits, "SEED={seed}");
            let at = |side, account| i128::from(settled.amount(side, account));
            // Each received won is in one line of the debits.
            assert_eq!(at(Side::Debit, Account::Voucher), voucher);
            assert_eq!(at(Side::Debit, Account::GovernmentDiscount), government);
            assert_eq!(at(Side::Debit, Account::CouponDiscount), coupon);
            assert_eq!(at(Side::Debit, Account::RegionalBenefit), benefit.into());
            assert_eq!(at(Side::Debit, Account::PreReservationPayment), paid);
            // Each received won is also in one line of the credits.
            let fee_lines =
                at(Side::Credit, Account::UserFeeChange) - at(Side::Debit, Account::UserFeeChange);
            assert_eq!(fee_lines, fee);
            assert_eq!(at(Side::Credit, Account::VoucherAddOn), add_on);
            let customer =
                at(Side::Debit, Account::MotherPayable) - at(Side::Credit, Account::CustomerCredit);
            assert_eq!(customer, due);
            assert_eq!(i128::from(settled.mother_visible_payable_krw), due.max(0));
            let shared = [
                settled.caregiver_payout_krw,
                settled.hq_settlement_krw,
                settled.branch_settlement_krw,
            ]
            .map(i128::from);
            assert_eq!(shared.iter().sum::<i128>(), gross, "SEED={seed}");
            for (got, share) in [(shared[0], caregiver), (shared[1], headquarters)] {
                // Rounding down loses less than one won.
                let missing = gross * i128::from(share) - got * 10_000;
                assert!((0..10_000).contains(&missing), "SEED={seed} {charge:?}");
            }
            assert!(shared[2] >= 0, "SEED={seed} {charge:?}");
        }
        let one_in_ten = cases / 10;
        assert!(
            settled_count >= one_in_ten && refused_count >= one_in_ten,
            "both are met often: {settled_count} settled, {refused_count} refused, SEED={seed}"
        );
    }
}
