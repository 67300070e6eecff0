//! Reference facts.

mod facts;
