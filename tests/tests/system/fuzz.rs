//! Runs the fuzz targets on their corpus, and on seeded mutants of it.
//!
//! `RSM_FUZZ_WRITE=1 cargo test -p rsm-tests --test system fuzz::` writes the initial inputs of a
//! corpus; existing files stay.

use std::panic::catch_unwind;

use rsm_tests::fuzz::{self, Target, mutant};
use rsm_tests::virtual_time::seeds;

/// The number of mutants in a test: some seconds of work.
const FEW: u64 = 3_000;

/// The number of mutants in the long run, unless `RSM_FUZZ_MUTANTS` gives another.
const MANY: u64 = 1_000_000;

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

fn mutate(target: &Target, test: &str, count: u64) {
    let corpus = target.corpus();
    seeds::run(test, count, |seed| target.run(&mutant(&corpus, seed)));
}

macro_rules! fuzzed {
    ($name:ident, $target:expr) => {
        mod $name {
            #[test]
            fn every_corpus_input_holds_the_invariants() {
                super::replay(&$target);
            }

            #[test]
            fn mutants_are_survived() {
                let test = concat!(stringify!($name), "::mutants_are_survived");
                super::mutate(&$target, test, super::FEW);
            }

            #[test]
            #[ignore = "takes an hour"]
            fn many_mutants_are_survived() {
                let test = concat!(stringify!($name), "::many_mutants_are_survived");
                let count = super::seeds::number("RSM_FUZZ_MUTANTS").unwrap_or(super::MANY);
                super::mutate(&$target, test, count);
            }
        }
    };
}

fuzzed!(records, rsm_tests::fuzz::RECORDS);
fuzzed!(sa, rsm_tests::fuzz::SA);
fuzzed!(rmpp, rsm_tests::fuzz::RMPP);
fuzzed!(rmpp_link, rsm_tests::fuzz::RMPP_LINK);
