//! What a mother allows her family.

mod authorize_payment;
mod grant_care_history_access;
mod grant_payment_authority;
