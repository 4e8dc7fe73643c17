#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::request_header::run(input));
