//! Engines on real fabrics and on generated ones.

#![expect(
    clippy::print_stdout,
    reason = "the figures of each fabric are readable with --nocapture"
)]

use std::path::Path;

use rsm_routing::engine::{EngineKind, Options, Routing, route};
use rsm_routing::generate::generate;
use rsm_routing::ibnetdiscover::parse;
use rsm_routing::topology::Topology;
use rsm_routing::verify::{Report, verify};

/// Routes with updn, proves the tables, and gives both.
fn prove(name: &str, topology: &Topology) -> (Routing, Report) {
    let routing = route(EngineKind::UpDn, topology, &Options::default(), None).unwrap();
    let report = verify(topology, &routing.tables);
    println!(
        "{name}: {} switches, {} destinations; {}; hops {} at most, {:.2} on average; load {} at most, {:.0} on average",
        topology.switch_count(),
        topology.destinations().len(),
        routing.reason,
        report.max_hops,
        report.average_hops,
        report.load.max,
        report.load.mean,
    );
    assert!(report.loop_free, "{name}: {:?}", report.witnesses);
    assert!(report.credit_loop_free, "{name}: {:?}", report.witnesses);
    assert_eq!(
        report.unreachable_pairs, 0,
        "{name}: {:?}",
        report.witnesses
    );
    (routing, report)
}

fn generated(spec: &str) -> Topology {
    Topology::from_netlist(&generate(spec).unwrap()).unwrap()
}

#[test]
fn real_fabrics_are_routed_completely() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data/topologies");
    let Ok(files) = std::fs::read_dir(&folder) else {
        println!("no fabrics in {}: nothing to route", folder.display());
        return;
    };
    let mut paths: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    paths.sort();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "txt"));
    assert!(!paths.is_empty(), "{} has no fabric", folder.display());
    for path in paths {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let text = std::fs::read(&path).unwrap();
        let parsed = parse(&text, &name).unwrap();
        let topology = Topology::from_netlist(&parsed.netlist).unwrap();
        let (_, report) = prove(&name, &topology);
        let minhop = route(EngineKind::MinHop, &topology, &Options::default(), None).unwrap();
        let shortest = verify(&topology, &minhop.tables);
        assert_eq!(shortest.unreachable_pairs, 0, "{name}");
        println!(
            "{name}: shortest paths have {:.2} hops on average, and load {} at most",
            shortest.average_hops, shortest.load.max
        );
        // On trees, as most of these are, paths up and down are hardly longer.
        assert!(
            report.average_hops <= shortest.average_hops * 1.25,
            "{name}: {} against {}",
            report.average_hops,
            shortest.average_hops
        );
    }
}

#[test]
fn generated_fabrics_are_routed_completely() {
    for spec in [
        "superpod",
        "superpod:su=2",
        "fat-tree:k=8,levels=3",
        "fat-tree:k=12,levels=2",
        "pgft:3;4,4,6;1,4,2;1,1,2",
        "torus:4x4x4",
        "torus:5x3",
        "ring:9",
        "fat-tree:k=8,levels=3,faults=links:5%,switches:2,seed=7",
        "superpod,faults=links:1%,seed=3",
        "torus:4x4x3,faults=links:10%,switches:1,seed=1",
    ] {
        let topology = generated(spec);
        let (_, report) = prove(spec, &topology);
        if !spec.contains("faults") {
            assert_eq!(report.disconnected_pairs, 0, "{spec}");
        }
    }
}

#[test]
fn whole_trees_are_balanced() {
    for spec in [
        "superpod",
        "fat-tree:k=8,levels=3",
        "pgft:3;4,4,6;1,4,2;1,1,2",
    ] {
        let (_, report) = prove(spec, &generated(spec));
        let ratio = report.load.max as f64 / report.load.mean;
        assert!(ratio <= 1.25, "{spec}: {:?}", report.load);
    }
}

#[test]
fn a_hundredth_of_the_links_dead_costs_little_balance() {
    let (_, whole) = prove("whole", &generated("fat-tree:k=12,levels=3"));
    let (_, broken) = prove(
        "broken",
        &generated("fat-tree:k=12,levels=3,faults=links:1%,seed=5"),
    );
    assert!(
        broken.load.max as f64 <= 2.5 * whole.load.max as f64,
        "{:?} against {:?}",
        broken.load,
        whole.load
    );
}
