//! The operations, one file each, in the groups of the domain; each with its read.

pub mod branch;
mod family;
mod mother;
mod payment;
mod payout;
mod reference;
mod reservation;
mod settlement;
