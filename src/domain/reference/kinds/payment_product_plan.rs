//! `payment-product-plan`, by its code: the rules of a product of the catalogue for the payments
//! under it.

use crate::base::json::NonEmpty;
use crate::base::text::Ident;
use crate::domain::payment_words::{
    CollectionChannel, FeeRecognitionBasis, LedgerRecognitionTiming, MerchantOfRecord,
    ObligationPurpose, ReceiptIssuer, ReceiptPurpose, SettlementLineTarget,
    SettlementParticipation,
};
use crate::domain::reference::basis_points::BasisPoints;
use crate::domain::reference::{FactKind, HeldAlone};
use crate::domain::resource::Kind;
use crate::json_object;

json_object! {
    /// What is known of a product plan.
    pub struct PaymentProductPlan {
        /// What may be owed under it.
        pub obligation_purposes: Vec<ObligationPurpose> = "obligationPurposes",
        /// Which of that there are cash receipts for.
        pub receiptable_purposes: Vec<ObligationPurpose> = "receiptablePurposes",
        /// What a cash receipt may be for.
        pub accepted_receipt_purposes: Vec<ReceiptPurpose> = "acceptedReceiptPurposes",
        /// Who sells.
        pub merchant_of_record: MerchantOfRecord = "merchantOfRecord",
        /// Who takes the money.
        pub collection_channel: CollectionChannel = "collectionChannel",
        /// Who issues cash receipts.
        pub receipt_issuer: ReceiptIssuer = "receiptIssuer",
        /// By which route payments reach the provider.
        pub provider_routing_key: Ident = "providerRoutingKey",
        /// As what payments take part in the settlement.
        pub settlement_participation: SettlementParticipation = "settlementParticipation",
        /// When the ledger takes notice of them.
        pub ledger_recognition_timing: LedgerRecognitionTiming = "ledgerRecognitionTiming",
        /// Which amount the provider's fee is reckoned from.
        pub fee_recognition_basis: FeeRecognitionBasis = "feeRecognitionBasis",
        /// The settlement's lines that they go to.
        pub settlement_line_targets: NonEmpty<SettlementLineTarget> = "settlementLineTargets",
        /// Whether the amount that a customer sees is final once it is paid.
        pub freezes_customer_visible_amount_after_payment: bool = "freezesCustomerVisibleAmountAfterPayment",
        /// Whether a later change of the catalogue may change what was shown.
        pub later_catalog_changes_can_alter_exposed_result: bool = "laterCatalogChangesCanAlterExposedResult",
        /// The provider's rate for cards.
        pub card_rate_bps: BasisPoints = "cardRateBps",
        /// The provider's rate for transfers.
        pub bank_rate_bps: BasisPoints = "bankRateBps",
        /// The provider's rate for virtual accounts.
        pub virtual_account_rate_bps: BasisPoints = "virtualAccountRateBps",
    }
}

impl HeldAlone for PaymentProductPlan {
    type Id = str;
}

impl FactKind for PaymentProductPlan {
    const KIND: Kind = Kind {
        tag: 9,
        name: "payment-product-plan",
    };
    const ID: &'static str = "the plan, `planCode`";
}

/// A plan whose receipts the provider issues for the platform.
#[cfg(test)]
pub(crate) fn sample() -> serde_json::Value {
    serde_json::json!({
        "obligationPurposes": [
            "customer_share_deposit", "customer_share_balance", "service_balance",
            "pre_reservation_deposit",
        ],
        "receiptablePurposes": ["customer_share_deposit", "customer_share_balance"],
        "acceptedReceiptPurposes": ["income_deduction", "business_expense_proof"],
        "merchantOfRecord": "operator",
        "collectionChannel": "provider_collected",
        "receiptIssuer": "provider_on_behalf_of_operator",
        "providerRoutingKey": "route-1",
        "settlementParticipation": "customer_charge",
        "ledgerRecognitionTiming": "immediate",
        "feeRecognitionBasis": "gateway_gross_amount",
        "settlementLineTargets": ["customer_charge"],
        "freezesCustomerVisibleAmountAfterPayment": true,
        "laterCatalogChangesCanAlterExposedResult": false,
        "cardRateBps": 320,
        "bankRateBps": 180,
        "virtualAccountRateBps": 0,
    })
}
