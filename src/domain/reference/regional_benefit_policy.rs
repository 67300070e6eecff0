//! `regional-benefit-policy`, by policy: what a region adds to the price of a service.

use super::FactKind;
use super::basis_points::BasisPoints;
use crate::base::json::{FaultCode, Reader};
use crate::base::text::{Ident, Text};
use crate::base::time::Date;
use crate::domain::resource::Kind;
use crate::members;

members! {
    /// What is known of a policy. It grants either a fixed amount or a part of the service's
    /// price, never both.
    pub struct RegionalBenefitPolicyFact {
        /// The type of service that it is for.
        pub service_type: Ident = "serviceType",
        /// The region: the widest level of an address.
        pub level1: Text = "level1",
        /// The next narrower level; null is all of it.
        pub level2: Option<Text> = "level2",
        /// The narrowest level; null is all of it.
        pub level3: Option<Text> = "level3",
        /// The first day on which it holds.
        pub effective_from: Date = "effectiveFrom",
        /// The last day on which it holds; null is without end.
        pub effective_until: Option<Date> = "effectiveUntil",
        /// A fixed amount, in won.
        pub fixed_krw: Option<i64> = "fixedKrw",
        /// A part of the service's price.
        pub basis_points: Option<BasisPoints> = "basisPoints",
        /// The most that it grants, in won, of either kind.
        pub cap_krw: Option<i64> = "capKrw",
    }
    rules exactly_one(fixed_krw, basis_points)
}

fn exactly_one(
    at: &mut Reader,
    fixed_krw: Option<&Option<i64>>,
    basis_points: Option<&Option<BasisPoints>>,
) {
    // The outer `None` is a faulty member, which has been told of.
    let code = match (fixed_krw, basis_points) {
        (Some(Some(_)), Some(Some(_))) => FaultCode::NotAllowed,
        (Some(None), Some(None)) => FaultCode::Required,
        _ => return,
    };
    at.fault_at::<()>("basisPoints", code);
}

impl FactKind for RegionalBenefitPolicyFact {
    const KIND: Kind = Kind {
        tag: 14,
        name: "regional-benefit-policy",
    };
}
