//! `cd tests && cargo +nightly fuzz run administration`

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| rsm_tests::fuzz::ADMINISTRATION.run(input));
