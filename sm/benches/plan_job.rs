//! What a fault costs from the model to the difference that is written: `cargo bench -p rsm --bench plan_job [-- SPEC]`.
//!
//! Prints medians of a few runs in milliseconds, of the whole job and of the difference, for the first plan, for one cable
//! less and for its return.

#![expect(clippy::print_stdout, reason = "a bench prints")]
#![expect(clippy::disallowed_methods, reason = "a bench reads the clock")]

use std::collections::BTreeSet;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use rsm::offline;
use rsm::plan::policy::Policy;
use rsm::plan::{Job, Outcome, Plan, plan};
use rsm_routing::generate::generate;

const RUNS: usize = 5;

/// The median in milliseconds, and what the last run made.
fn median<T>(mut work: impl FnMut() -> T) -> (f64, T) {
    let mut times = Vec::with_capacity(RUNS);
    let mut made = None;
    for _ in 0..RUNS {
        drop(made.take());
        let start = Instant::now();
        made = Some(black_box(work()));
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    (times[RUNS / 2], made.expect("at least one run"))
}

fn planned(job: &Job) -> Arc<Plan> {
    match plan(job) {
        Outcome::Plan(plan) => plan,
        Outcome::Refused(error) => panic!("{}", error.with_causes()),
    }
}

fn main() {
    let wanted = std::env::args()
        .skip(1)
        .find(|argument| !argument.starts_with('-'));
    let spec = wanted.as_deref().unwrap_or("pgft:3;32,32,44;1,32,16;1,1,2");
    let whole = Arc::new(offline::fabric(&generate(spec).expect("a generator")));
    let first = Job::first(whole.clone(), Arc::new(Policy::default()));
    let (time, before) = median(|| planned(&first));
    println!("{spec}: first plan {time:.1} ms, proved {}", before.proved);
    let cables: Vec<_> = whole
        .links()
        .filter(|&(a, b)| whole.node(a.node).is_switch() && whole.node(b.node).is_switch())
        .collect();
    let gone = whole.key(cables[cables.len() / 3].0);
    let broken = Arc::new(whole.without(&BTreeSet::from([gone])));
    let job = Job::after(&before, broken);
    let (time, during) = median(|| planned(&job));
    println!("  {gone} less: {time:.1} ms, proved {}", during.proved);
    let job = Job::after(&during, whole);
    let (time, after) = median(|| planned(&job));
    println!("  and back: {time:.1} ms, proved {}", after.proved);
}
