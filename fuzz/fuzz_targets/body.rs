#![no_main]

// Shared with the tests of the service, which try a fixed share of it.
#[path = "../commands.rs"]
#[allow(dead_code)]
mod commands;

libfuzzer_sys::fuzz_target!(|input: &[u8]| commands::body(input));
