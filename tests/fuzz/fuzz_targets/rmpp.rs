//! `cd tests && cargo +nightly fuzz run rmpp`

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| rsm_tests::fuzz::RMPP.run(input));
