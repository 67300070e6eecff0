//! Settlement statements.

mod acknowledge_deposit;
mod request_deposit;
