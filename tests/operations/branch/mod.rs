//! Branches, seen from outside.

mod create;
