//! The console: what is in it, where it is served and to whom, and how it works in a real browser.

mod browser;
mod busy;
mod deliveries;
mod embedded;
mod served;
mod signing_in;
