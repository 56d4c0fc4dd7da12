//! Measures the cost of planning after a fault, from the model to the stages of its tables: `cargo
//! bench -p rsm --bench plan_job [-- SPEC]`.
//!
//! Prints medians in milliseconds: for the first plan, and for each fault the plan without the
//! failed parts and the plan after their return. The faults are: one cable of a leaf switch, one
//! cable further up, one cable of a host, the first half of the top tier, and every second switch
//! of the top tier. A lost first half takes half of the upper links from every switch below; lost
//! second switches take all upper links from half of the switches below.

#![expect(clippy::print_stdout, reason = "a bench prints")]
#![expect(clippy::disallowed_methods, reason = "a bench reads the clock")]

use std::collections::BTreeSet;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use rsm_ids::PortKey;
use rsm_model::fabric::Fabric;
use rsm_plan::policy::Policy;
use rsm_plan::{Plan, PlanJob, plan};
use rsm_routing::generate::generate;
use rsm_routing::topology::SwitchIdx;

/// Number of runs for the first plan, which takes seconds.
const FIRST_RUNS: usize = 1;

/// Number of runs for the plan after a fault of one part.
const RUNS: usize = 25;

/// Number of runs for the plan after a fault of many parts.
const MASS_RUNS: usize = 5;

/// Median in milliseconds over `runs` runs, and the plan of the last run.
fn median(job: &PlanJob, runs: usize) -> (f64, Arc<Plan>) {
    let mut times = Vec::with_capacity(runs);
    let mut last_plan = None;
    for _ in 0..runs {
        drop(last_plan.take());
        let start = Instant::now();
        last_plan = Some(black_box(planned(job)));
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    (times[runs / 2], last_plan.expect("at least one run"))
}

/// The plan for `job`. Panics if the plan is refused.
fn planned(job: &PlanJob) -> Arc<Plan> {
    let outcome = plan(job).plan();
    outcome.unwrap_or_else(|refused| panic!("{}", refused.with_causes()))
}

fn main() {
    let argument = std::env::args()
        .skip(1)
        .find(|argument| !argument.starts_with('-'));
    let spec = argument
        .as_deref()
        .unwrap_or("pgft:3;32,32,44;1,32,16;1,1,2");
    let whole = Arc::new(Fabric::of_netlist(&generate(spec).expect("a generator")));
    let first = PlanJob::first(whole.clone(), Arc::new(Policy::default()));
    let (time, before) = median(&first, FIRST_RUNS);
    println!("{spec}: first plan {time:.1} ms, proved {}", before.proved);
    let single = faults(&whole, &before).into_iter();
    let single = single.map(|(name, gone)| (format!("{name} {gone}"), BTreeSet::from([gone])));
    let top = top_tier(&before);
    let first_half = links_of(&before, top.iter().take(top.len() / 2));
    let every_second = links_of(&before, top.iter().step_by(2));
    let halves = [
        ("first half of the top tier".to_owned(), first_half),
        ("half of the top tier".to_owned(), every_second),
    ];
    for (name, gone) in single.chain(halves) {
        let runs = if gone.len() == 1 { RUNS } else { MASS_RUNS };
        let broken = Arc::new(whole.without(&gone));
        let (time, during) = median(&PlanJob::after(&before, broken), runs);
        println!("  {name} less: {time:.1} ms, proved {}", during.proved);
        print_whole(&during);
        let back = PlanJob {
            // An absent host keeps its LID.
            claims: PlanJob::after(&before, whole.clone()).claims,
            ..PlanJob::after(&during, whole.clone())
        };
        let (time, after) = median(&back, runs);
        println!("    and back: {time:.1} ms, proved {}", after.proved);
        print_whole(&after);
    }
}

/// Prints the steps that were planned as a whole, with the reasons.
fn print_whole(plan: &Plan) {
    for step in &plan.whole {
        println!("      {step:?}");
    }
}

/// Switches of the top tier: switches without hosts whose neighbors have no hosts either.
fn top_tier(plan: &Plan) -> Vec<SwitchIdx> {
    let topology = &plan.topology;
    let has_hosts = |switch| topology.hosts(switch) > 0;
    let is_near_hosts = |switch| {
        let mut groups = topology.groups(switch);
        has_hosts(switch) || groups.any(|group| has_hosts(group.neighbour))
    };
    let switches = topology.indices();
    switches.filter(|&switch| !is_near_hosts(switch)).collect()
}

/// Ports of all links of the switches.
fn links_of<'a>(plan: &Plan, switches: impl Iterator<Item = &'a SwitchIdx>) -> BTreeSet<PortKey> {
    let topology = &plan.topology;
    let ports = switches.flat_map(|&switch| {
        let guid = topology.switch(switch).guid;
        let links = topology.groups(switch).flat_map(|group| group.links);
        links.map(move |link| PortKey::new(guid, link.port))
    });
    ports.collect()
}

/// A cable between a leaf switch and a switch above it, a cable further up, and a cable of a host,
/// with names.
fn faults(fabric: &Fabric, plan: &Plan) -> Vec<(&'static str, PortKey)> {
    let topology = &plan.topology;
    let hosts = |guid| {
        let switch = topology.switch_by_guid(guid);
        switch.map(|switch| topology.hosts(switch))
    };
    let middle = |wanted: &dyn Fn(Option<usize>, Option<usize>) -> bool| {
        let links = fabric.links().filter(|&(a, b)| {
            let [a, b] = [a, b].map(|end| hosts(fabric.key(end).node));
            wanted(a, b)
        });
        let links: Vec<_> = links.collect();
        // The cable further up has another index in its list than the leaf's cable: the cable with
        // the same index also carries the traffic to the leaf itself.
        links.get(links.len() / 2 + 5).map(|&(a, _)| fabric.key(a))
    };
    let is_leaf = |a: usize, b: usize| a.max(b) > 0;
    let faults = [
        (
            "leaf link",
            middle(&|a, b| a.zip(b).is_some_and(|(a, b)| is_leaf(a, b))),
        ),
        (
            "core link",
            middle(&|a, b| a.zip(b).is_some_and(|(a, b)| !is_leaf(a, b))),
        ),
        ("host link", middle(&|a, b| a.is_none() || b.is_none())),
    ];
    let found = faults
        .into_iter()
        .filter_map(|(name, gone)| Some((name, gone?)));
    found.collect()
}
