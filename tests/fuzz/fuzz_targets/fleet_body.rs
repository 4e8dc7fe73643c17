#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::fleet_body::run(input));
