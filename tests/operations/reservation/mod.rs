//! Reservations, seen from outside.

mod assign_caregiver;
mod capture_adjustment_payment;
mod confirm_reservation_draft;
mod finalize_charge;
mod whole_way;
