//! The cost of the loss of each single cable between switches: the blocks that change, how the
//! engine computed the routes, and whether the proof followed the changes.
//!
//! `cargo bench -p rsm-routing --bench every_cable -- FABRIC...`, each of them a file in the format
//! of ibnetdiscover or a generator such as `fat-tree:k=24,levels=3`.

#![expect(clippy::print_stdout, reason = "a bench prints")]

mod stopwatch;

use std::collections::BTreeMap;

use rsm_routing::engine::{EngineKind, Options, Routing, route};
use rsm_routing::generate::generate;
use rsm_routing::ibnetdiscover::parse;
use rsm_routing::mcast::Orientation;
use rsm_routing::topology::Topology;
use rsm_routing::verify::{Candidate, ProvedTables, verify_changes, verify_whole};

/// The maximum number of cables of a fabric, spread evenly over all.
const CABLES: usize = 2_000;

fn read(name: &str) -> Topology {
    let netlist = match std::fs::read(name) {
        Ok(text) => parse(&text, name).expect("the file is a fabric").netlist,
        Err(_) => generate(name).expect("a file, or the name of a generated fabric"),
    };
    Topology::from_netlist(&netlist).expect("the fabric can be routed")
}

fn orientation(topology: &Topology, routing: &Routing) -> Orientation {
    let ranking = routing
        .ranking
        .as_ref()
        .expect("fabric-tree ranks every tree");
    Orientation::of(topology, ranking).expect("every switch is ranked")
}

fn bench(name: &str) {
    let whole = read(name);
    let first = route(EngineKind::FabricTree, &whole, &Options::default(), None)
        .expect("the fabric can be routed");
    let report = verify_whole(&whole, &first.tables);
    let order = orientation(&whole, &first);
    let options = Options {
        previous_ranking: first.ranking.clone(),
        ..Options::default()
    };
    let cables = whole.cables();
    let step = cables.len().div_ceil(CABLES).max(1);
    let (mut blocks, mut planned, mut proved) = (Vec::new(), Vec::new(), 0);
    let mut computed: BTreeMap<&str, usize> = BTreeMap::new();
    for cable in cables.iter().step_by(step) {
        let broken = whole.without_cables(&[cable.a]);
        let (taken, routing) = stopwatch::best(1, || {
            route(EngineKind::FabricTree, &broken, &options, None)
                .expect("the broken fabric can be routed")
        });
        planned.push(taken.wall_ms);
        blocks.push(routing.tables.blocks_changed(&first.tables));
        *computed
            .entry(routing.whole().unwrap_or("by changes"))
            .or_default() += 1;
        let before = ProvedTables {
            topology: &whole,
            tables: &first.tables,
            orientation: &order,
            tally: &report.tally,
        };
        let order = orientation(&broken, &routing);
        let candidate = Candidate {
            topology: &broken,
            tables: &routing.tables,
            orientation: &order,
        };
        if let Ok(changed) = verify_changes(&before, &candidate) {
            assert_eq!(changed.tally.unreachable_pairs(), 0);
            proved += 1;
        }
    }
    let tried = blocks.len();
    let mean = |sum: f64| sum / tried.max(1) as f64;
    planned.sort_by(f64::total_cmp);
    println!(
        "{name}: {} switches, {} of {} cables; blocks {:.1} mean, {} most; routes {:.2} ms mean, {:.2} most, {computed:?}; {proved} proved by changes",
        whole.switch_count(),
        tried,
        cables.len(),
        mean(blocks.iter().sum::<usize>() as f64),
        blocks.iter().max().unwrap_or(&0),
        mean(planned.iter().sum()),
        planned.last().unwrap_or(&0.0),
    );
    println!("    {}", first.reason);
}

fn main() {
    for name in std::env::args()
        .skip(1)
        .filter(|name| !name.starts_with('-'))
    {
        bench(&name);
    }
}
