//! The operations, one file each, in the groups of the domain.

mod payment;
mod reservation;
