//! The operations, one file each, in the groups of the domain.

mod branch;
mod payment;
mod reservation;
