//! The vocabulary of payments, shared by product plans, obligations and the operations on them. New
//! values go at the end, since records store a value's number.

use crate::wire_enum;

wire_enum! {
    /// How a payment is made.
    pub enum PaymentMethod {
        /// By card.
        Card = "card",
        /// By transfer from a bank account.
        Bank = "bank",
        /// Into a virtual account opened for the payment.
        VirtualAccount = "vcnt",
    }
}

wire_enum! {
    /// What a reservation's payment is for.
    pub enum PaymentPurpose {
        /// The customer's share, in advance.
        CustomerShareDeposit = "customer_share_deposit",
        /// The rest of the customer's share.
        CustomerShareBalance = "customer_share_balance",
        /// The rest of the price of the service.
        ServiceBalance = "service_balance",
        /// What holds a place before the reservation proper.
        PreReservationDeposit = "pre_reservation_deposit",
    }
}

wire_enum! {
    /// What an obligation is for: a reservation's payment, or one beside it.
    pub enum ObligationPurpose {
        /// The customer's share, in advance.
        CustomerShareDeposit = "customer_share_deposit",
        /// The rest of the customer's share.
        CustomerShareBalance = "customer_share_balance",
        /// The rest of the price of the service.
        ServiceBalance = "service_balance",
        /// What holds a place before the reservation proper.
        PreReservationDeposit = "pre_reservation_deposit",
        /// A gift coupon.
        GiftCouponPurchase = "gift_coupon_purchase",
        /// A payment that was set right later.
        PaymentChangeCorrection = "payment_change_correction",
    }
}

impl From<PaymentPurpose> for ObligationPurpose {
    fn from(purpose: PaymentPurpose) -> Self {
        match purpose {
            PaymentPurpose::CustomerShareDeposit => Self::CustomerShareDeposit,
            PaymentPurpose::CustomerShareBalance => Self::CustomerShareBalance,
            PaymentPurpose::ServiceBalance => Self::ServiceBalance,
            PaymentPurpose::PreReservationDeposit => Self::PreReservationDeposit,
        }
    }
}

wire_enum! {
    /// Whether the customer wants a cash receipt.
    pub enum ReceiptRequestState {
        /// No.
        NotRequested = "not_requested",
        /// Yes.
        Requested = "requested",
        /// The customer was not asked.
        Unknown = "unknown",
    }
}

wire_enum! {
    /// What the customer wants a cash receipt for.
    pub enum RequestedReceiptPurpose {
        /// To deduct from a person's taxable income.
        IncomeDeduction = "income_deduction",
        /// To prove a business's expense.
        BusinessExpenseProof = "business_expense_proof",
        /// The customer was not asked.
        Unknown = "unknown",
    }
}

wire_enum! {
    /// What a cash receipt can be issued for.
    pub enum ReceiptPurpose {
        /// To deduct from a person's taxable income.
        IncomeDeduction = "income_deduction",
        /// To prove a business's expense.
        BusinessExpenseProof = "business_expense_proof",
    }
}

impl RequestedReceiptPurpose {
    /// The purpose, where it is known.
    #[must_use]
    pub fn known(self) -> Option<ReceiptPurpose> {
        match self {
            Self::IncomeDeduction => Some(ReceiptPurpose::IncomeDeduction),
            Self::BusinessExpenseProof => Some(ReceiptPurpose::BusinessExpenseProof),
            Self::Unknown => None,
        }
    }
}

wire_enum! {
    /// What is decided of a cash receipt.
    pub enum ReceiptDecision {
        /// None is wanted.
        NotRequested = "not_requested",
        /// It may be issued.
        Accepted = "accepted",
        /// It may not.
        Rejected = "rejected",
    }
}

wire_enum! {
    /// Why a cash receipt may not be issued.
    pub enum ReceiptDenial {
        /// It is unknown whether one is wanted.
        RequestStateUnknown = "request_state_unknown",
        /// The platform is not the one who sells.
        MerchantNotOperator = "merchant_not_operator",
        /// There are no receipts for such an obligation.
        ObligationNotReceiptable = "obligation_not_receiptable",
        /// It is unknown what it is wanted for.
        PurposeUnknown = "purpose_unknown",
        /// The product has no receipts for this.
        PurposeNotAccepted = "purpose_not_accepted",
        /// There is no identity to register it for.
        RegistrationIdentityMissing = "registration_identity_missing",
    }
}

wire_enum! {
    /// Who sells, before the law.
    pub enum MerchantOfRecord {
        /// The platform.
        Operator = "operator",
        /// The caregiver.
        Caregiver = "caregiver",
        /// A partner of the platform.
        ExternalPartner = "external_partner",
    }
}

wire_enum! {
    /// Who takes the money.
    pub enum CollectionChannel {
        /// The payment provider, for the platform.
        ProviderCollected = "provider_collected",
        /// The caregiver, in person.
        DirectToCaregiver = "direct_to_caregiver",
        /// A partner of the platform.
        ExternalPartnerCollected = "external_partner_collected",
    }
}

wire_enum! {
    /// Who issues cash receipts.
    pub enum ReceiptIssuer {
        /// The payment provider, for the platform.
        ProviderOnBehalfOfOperator = "provider_on_behalf_of_operator",
        /// A partner of the platform.
        ExternalPartner = "external_partner",
        /// No issuer.
        None = "none",
    }
}

wire_enum! {
    /// As what a payment takes part in the settlement with the branches.
    pub enum SettlementParticipation {
        /// The customer's charge.
        CustomerCharge = "customer_charge",
        /// The rest of the price of the service.
        ServiceBalance = "service_balance",
        /// A credit for what was paid before the reservation.
        PreReservationCredit = "pre_reservation_credit",
        /// A gift coupon.
        GiftCoupon = "gift_coupon",
        /// A payment that was set right later.
        PaymentCorrection = "payment_correction",
        /// It takes no part.
        NotParticipating = "not_participating",
    }
}

wire_enum! {
    /// When the ledger takes notice of a payment.
    pub enum LedgerRecognitionTiming {
        /// At once.
        Immediate = "immediate",
        /// When what was paid for is delivered.
        DeferredUntilFulfillment = "deferred_until_fulfillment",
        /// When the service is over.
        DeferredUntilServiceClose = "deferred_until_service_close",
        /// When an operator has looked at it.
        ManualOperatorReviewed = "manual_operator_reviewed",
        /// Never.
        NotRecognized = "not_recognized",
    }
}

wire_enum! {
    /// Which amount the provider's fee is reckoned from.
    pub enum FeeRecognitionBasis {
        /// All that the gateway takes.
        GatewayGrossAmount = "gateway_gross_amount",
        /// The customer's share.
        CustomerShareAmount = "customer_share_amount",
        /// The price of the coupon.
        CouponPurchaseAmount = "coupon_purchase_amount",
        /// The rest of the price of the service.
        ServiceBalanceAmount = "service_balance_amount",
        /// A correction by hand.
        ManualAdjustmentAmount = "manual_adjustment_amount",
        /// None.
        None = "none",
    }
}

wire_enum! {
    /// The lines of a settlement that a payment goes to.
    pub enum SettlementLineTarget {
        /// The customer's charge.
        CustomerCharge = "customer_charge",
        /// The rest of the price of the service.
        ServiceBalance = "service_balance",
        /// The fee on a gift coupon.
        GiftCouponFee = "gift_coupon_fee",
        /// A credit for what was paid before the reservation.
        PreReservationCredit = "pre_reservation_credit",
        /// A payment that was set right later.
        PaymentCorrection = "payment_correction",
        /// None of the settlement's.
        NonSettlement = "non_settlement",
    }
}

wire_enum! {
    /// In which capacity an actor pre-registers a payment.
    pub enum PaymentActorKind {
        /// The mother who owes.
        Mother = "mother",
        /// A member of her family, to whom she has given authority to pay.
        DelegatedFamilyPayer = "delegated_family_payer",
        /// A person who works on the payments of the reservation's branch.
        BranchFinanceOperator = "branch_finance_operator",
        /// A person who works on payments from the head office.
        HeadquartersFinanceOperator = "headquarters_finance_operator",
    }
}

wire_enum! {
    /// What a request to pre-register a payment came to.
    pub enum PreRegistrationStatus {
        /// It is pre-registered now.
        PreRegistered = "pre_registered",
        /// It was pre-registered before.
        AlreadyPreRegistered = "already_pre_registered",
    }
}

wire_enum! {
    /// Which of a plan's rates a fee is reckoned by.
    pub enum FeeBucket {
        /// The rate for cards.
        Card = "card",
        /// The rate for transfers.
        BankTransfer = "bank_transfer",
        /// The rate for virtual accounts.
        VirtualAccount = "virtual_account",
    }
}

wire_enum! {
    /// What customers read as the name of a method of payment.
    pub enum MethodLabel {
        /// A card.
        Card = "카드",
        /// A transfer.
        BankTransfer = "계좌이체",
        /// A virtual account.
        VirtualAccount = "가상계좌",
    }
}

wire_enum! {
    /// What an administrator can ask of the payment gateway.
    pub enum OperationAction {
        /// To show a payment.
        LookupPayment = "lookup_payment",
        /// To find payments by a search key.
        SearchPayments = "search_payments",
        /// To close the virtual account of a payment.
        CloseVirtualAccount = "close_virtual_account",
        /// To return the state of a payment's refund.
        InspectRefundStatus = "inspect_refund_status",
        /// To return the state of a payment's chargeback.
        InspectChargebackStatus = "inspect_chargeback_status",
        /// To take note of a chargeback.
        RecordChargeback = "record_chargeback",
    }
}

wire_enum! {
    /// What an operation at the gateway came to.
    pub enum OperationStatus {
        /// The gateway has done it.
        Succeeded = "succeeded",
        /// The gateway has not.
        Failed = "failed",
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_payments_purpose_is_an_obligations_purpose_of_the_same_word() {
        for purpose in PaymentPurpose::ALL {
            assert_eq!(ObligationPurpose::from(purpose).as_str(), purpose.as_str());
        }
    }

    #[test]
    fn a_requested_purpose_is_known_when_a_receipt_can_be_issued_for_it() {
        for purpose in RequestedReceiptPurpose::ALL {
            assert_eq!(purpose.known(), ReceiptPurpose::parse(purpose.as_str()));
        }
    }
}
