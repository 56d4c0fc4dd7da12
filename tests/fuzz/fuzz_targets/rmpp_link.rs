//! `cd tests && cargo +nightly fuzz run rmpp_link`

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| rsm_tests::fuzz::RMPP_LINK.run(input));
