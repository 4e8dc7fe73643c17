#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::certificate_request::run(input));
