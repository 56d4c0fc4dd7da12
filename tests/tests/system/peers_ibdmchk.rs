//! ibdmchk agrees with rsm's proof: about tables of rsm's engines, which have all paths and no
//! credit loop, and about tables with a loop or without some paths.

use rsm_routing::engine::{EngineKind, Options, Ranking, route};
use rsm_routing::generate::{fail, generate};
use rsm_routing::netlist::Netlist;
use rsm_routing::topology::Topology;
use rsm_routing::verify::verify;
use rsm_tests::fabrics::with_lids;
use rsm_tests::peer::require_peers;
use rsm_tests::sm::check_tables;

/// The sampled fabrics: random graphs, trees, and fabrics that are neither, each also with some
/// cables missing.
const FABRICS: [&str; 8] = [
    "random:switches=12,degree=4,hosts=2,seed=1",
    "random:switches=20,degree=5,hosts=1,seed=2",
    "random:switches=30,degree=3,hosts=1,seed=3",
    "fat-tree:k=6,levels=3",
    "pgft:3;3,3,4;1,3,2;1,1,2",
    "pgft:2;6,6;1,3;1,2",
    "torus:4x4,hosts=1",
    "dragonfly+:groups=4,leaves=2,spines=2,hosts=2,links=2",
];

/// The engines that promise to be free of credit loops on one VL.
const ENGINES: [EngineKind; 4] = [
    EngineKind::FabricTree,
    EngineKind::UpDn,
    EngineKind::DnUp,
    EngineKind::Nue,
];

/// Asserts that the routes of `engine`, with `earlier` as the previous ranking, pass rsm's proof
/// and ibdmchk; returns their ranking.
fn assert_proved(
    netlist: &Netlist,
    engine: EngineKind,
    earlier: Option<&Ranking>,
) -> Option<Ranking> {
    let topology = Topology::from_netlist(netlist).unwrap();
    let options = Options {
        previous_ranking: earlier.cloned(),
        ..Options::default()
    };
    let routing = route(engine, &topology, &options, None).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let verdict = check_tables(netlist, &topology, &routing.tables, directory.path()).unwrap();
    let report = verify(&topology, &routing.tables);
    assert!(
        report.credit_loop_free && verdict.credit_loop_free,
        "{engine}: {verdict:?}"
    );
    assert_eq!(verdict.complaints, Vec::<String>::new(), "{engine}");
    let hosts = topology
        .destinations()
        .iter()
        .filter(|d| d.kind.is_host())
        .count() as u64;
    assert_eq!(verdict.scanned_pairs, hosts * (hosts - 1), "{engine}");
    routing.ranking
}

#[test]
#[cfg_attr(not(peers), ignore = "needs ibutils")]
fn routes_of_loop_free_engines_pass_ibdmchk_and_the_proof() {
    if !require_peers(&["ibdmchk"]) {
        return;
    }
    for fabric in FABRICS {
        let intact = with_lids(generate(fabric).unwrap()).unwrap();
        let broken = fail(intact.clone(), "links=2,seed=5").unwrap();
        let parts = Topology::from_netlist(&broken).unwrap().components().len();
        assert_eq!(
            parts, 1,
            "{fabric}: a case in which all stay connected was meant"
        );
        for engine in ENGINES {
            let ranking = assert_proved(&intact, engine, None);
            assert_proved(&broken, engine, None);
            // The routes of a repair, which keep the previous ranking, pass as well.
            assert_proved(&broken, engine, ranking.as_ref());
        }
    }
}

#[test]
#[cfg_attr(not(peers), ignore = "needs ibutils")]
fn ibdmchk_and_the_proof_find_the_credit_loops_of_shortest_paths() {
    if !require_peers(&["ibdmchk"]) {
        return;
    }
    // Shortest paths around a ring, in both directions, make the smallest credit loop.
    for fabric in ["ring:6", "torus:5x5,hosts=1"] {
        let netlist = with_lids(generate(fabric).unwrap()).unwrap();
        let topology = Topology::from_netlist(&netlist).unwrap();
        let routing = route(EngineKind::MinHop, &topology, &Options::default(), None).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let verdict = check_tables(&netlist, &topology, &routing.tables, directory.path()).unwrap();
        assert!(!verify(&topology, &routing.tables).credit_loop_free);
        assert!(!verdict.credit_loop_free, "{fabric}: {verdict:?}");
    }
}

#[test]
#[cfg_attr(not(peers), ignore = "needs ibutils")]
fn ibdmchk_and_the_proof_report_missing_paths() {
    if !require_peers(&["ibdmchk"]) {
        return;
    }
    let netlist = with_lids(generate("fat-tree:k=4,levels=3").unwrap()).unwrap();
    let topology = Topology::from_netlist(&netlist).unwrap();
    let routing = route(EngineKind::FabricTree, &topology, &Options::default(), None).unwrap();
    let mut tables = routing.tables;
    let host = topology
        .destinations()
        .iter()
        .find(|d| d.kind.is_host())
        .unwrap();
    for switch in topology.indices() {
        tables.lfts[switch.index()].set_entry(host.lid, u8::MAX);
    }
    let directory = tempfile::tempdir().unwrap();
    assert!(verify(&topology, &tables).unreachable_pairs > 0);
    // ibdmchk stops at the missing path.
    let error = check_tables(&netlist, &topology, &tables, directory.path()).unwrap_err();
    assert!(error.to_string().contains("Traversals Failed"), "{error}");
}
