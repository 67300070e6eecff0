//! Reservations, seen from outside.

mod confirm_draft;
