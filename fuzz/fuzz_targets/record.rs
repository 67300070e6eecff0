#![no_main]

use std::sync::Once;

// Shared with the tests of the service, which try a fixed share of it.
#[path = "../commands.rs"]
#[allow(dead_code)]
mod commands;

static QUIET: Once = Once::new();

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    // An event that cannot follow makes the domain panic, and replay catches
    // that. The fuzzer's own hook would end the process at a panic that is
    // caught; one that is not still ends it.
    QUIET.call_once(|| std::panic::set_hook(Box::new(|_| {})));
    commands::record(input);
});
