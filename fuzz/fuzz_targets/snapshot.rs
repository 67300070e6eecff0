#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| wal::fuzzing::snapshot(input));
