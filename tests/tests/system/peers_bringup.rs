//! Runs `rsm --fabric umad --once` on ibsim; infiniband-diags and ibdmchk check the result.

use rsm_tests::bringup::{
    PEERS, assert_diagnostics_agree, assert_routes_are_good, ca_ports, generated, once_with_dumps,
};
use rsm_tests::fabrics;
use rsm_tests::ibsim::Ibsim;
use rsm_tests::peer::require_peers;

/// Brings the subnet up and checks it with every diagnostic. Returns the engine in force.
fn bring_up(ibsim: &Ibsim) -> String {
    let host = ibsim.hosts()[0];
    let (report, dumps) = once_with_dumps(ibsim, host);
    assert_diagnostics_agree(ibsim, host, &report);
    assert_routes_are_good(&dumps, ca_ports(ibsim, host));
    report.text("/engine/name").unwrap().to_owned()
}

#[test]
#[cfg_attr(
    not(peers),
    ignore = "needs ibsim-utils, opensm, infiniband-diags and ibutils"
)]
fn examples_of_ibsim_come_up() {
    if !require_peers(PEERS) {
        return;
    }
    let examples = fabrics::ibsim_examples().unwrap();
    assert!(!examples.is_empty());
    for net in examples {
        // Up*/down* routes the examples with one or two switches, which have no ranks.
        let engine = bring_up(&Ibsim::start(&net).unwrap());
        assert!(["fabric-tree", "updn"].contains(&&*engine), "{engine}");
    }
}

#[test]
#[cfg_attr(
    not(peers),
    ignore = "needs ibsim-utils, opensm, infiniband-diags and ibutils"
)]
fn fat_tree_of_128_hosts_comes_up_with_fabric_tree() {
    if !require_peers(PEERS) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    assert_eq!(
        bring_up(&generated("fat-tree:k=8,levels=3", directory.path())),
        "fabric-tree"
    );
}

/// The fabric has 3,456 hosts and 720 switches.
#[test]
#[cfg_attr(
    not(peers),
    ignore = "needs ibsim-utils, opensm, infiniband-diags and ibutils"
)]
fn fat_tree_of_3456_hosts_comes_up_with_fabric_tree() {
    if !require_peers(PEERS) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    assert_eq!(
        bring_up(&generated("fat-tree:k=24,levels=3", directory.path())),
        "fabric-tree"
    );
}
