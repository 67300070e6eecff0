//! The kinds of facts: the schema of each, in a file of its own.

pub mod actor;
pub mod branch_office_profile;
pub mod candidate_snapshot;
pub mod consent_version;
pub mod extension_eligibility;
pub mod family_account;
pub mod final_review_projection;
pub mod gateway_payment;
pub mod mother_profile;
pub mod payment_change_adjustment;
pub mod payment_obligation;
pub mod payment_product_plan;
pub mod payout_instruction;
pub mod regional_benefit_policy;
pub mod relationship;
pub mod reservation_booking;
pub mod reservation_draft;
pub mod reservation_financial_facts;
pub mod settlement_account;
