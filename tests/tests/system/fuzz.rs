//! Runs the fuzz targets on their corpus, and on seeded mutants of it.
//!
//! `RSM_FUZZ_WRITE=1 cargo test -p rsm-tests --test system fuzz::` writes the initial inputs of
//! each corpus; other files stay.

use std::panic::catch_unwind;

use rsm_tests::fuzz::{self, Target, mutant};
use rsm_tests::virtual_time::seeds;

/// The number of mutants in the short run, which takes some seconds.
const SHORT_RUN_MUTANTS: u64 = 3_000;

/// The number of mutants in the long run, unless `RSM_FUZZ_MUTANTS` gives another number.
const LONG_RUN_MUTANTS: u64 = 1_000_000;

/// Runs a target on its corpus, which must contain the initial inputs.
fn replay(target: &Target) {
    let corpus = target.corpus();
    for seed in target.seeds() {
        if std::env::var_os("RSM_FUZZ_WRITE").is_some_and(|value| value == "1") {
            std::fs::write(target.folder().join(&seed.name), &seed.bytes).unwrap();
        } else {
            let is_there = corpus.iter().any(|input| input.name == seed.name);
            assert!(is_there, "{} has no {}", target.name, seed.name);
        }
    }
    for input in target.corpus() {
        assert!(input.bytes.len() <= fuzz::MAX_INPUT, "{}", input.name);
        let survived = catch_unwind(|| target.run(&input.bytes));
        assert!(survived.is_ok(), "{} fails on {}", target.name, input.name);
    }
}

/// Runs a target on `count` mutants of its corpus. `test` is the test's name in messages.
fn mutate(target: &Target, test: &str, count: u64) {
    let corpus = target.corpus();
    seeds::run(test, count, |seed| target.run(&mutant(&corpus, seed)));
}

macro_rules! fuzzed {
    ($name:ident, $target:expr) => {
        mod $name {
            #[test]
            fn invariants_hold_for_every_corpus_input() {
                super::replay(&$target);
            }

            #[test]
            fn invariants_hold_for_mutants() {
                let test = concat!(stringify!($name), "::invariants_hold_for_mutants");
                super::mutate(&$target, test, super::SHORT_RUN_MUTANTS);
            }

            #[test]
            #[ignore = "takes an hour"]
            fn invariants_hold_for_many_mutants() {
                let test = concat!(stringify!($name), "::invariants_hold_for_many_mutants");
                let count =
                    super::seeds::number("RSM_FUZZ_MUTANTS").unwrap_or(super::LONG_RUN_MUTANTS);
                super::mutate(&$target, test, count);
            }
        }
    };
}

fuzzed!(records, rsm_tests::fuzz::RECORDS);
fuzzed!(sa, rsm_tests::fuzz::SA);
fuzzed!(rmpp, rsm_tests::fuzz::RMPP);
fuzzed!(rmpp_link, rsm_tests::fuzz::RMPP_LINK);
