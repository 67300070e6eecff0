//! Reservation payments, settlement and branch administration for a care-service platform.

pub mod base;
pub mod cli;
pub mod http;
