//! `cd tests && cargo +nightly fuzz run sa`

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| rsm_tests::fuzz::SA.run(input));
