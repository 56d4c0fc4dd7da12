//! `cd tests && cargo +nightly fuzz run records`

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| rsm_tests::fuzz::RECORDS.run(input));
