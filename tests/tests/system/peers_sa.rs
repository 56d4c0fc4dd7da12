//! osmtest, which was written against another SA, asks this one under ibsim.
//!
//! ibsim carries single datagrams only, 224 bytes of each, so that the flows with longer answers
//! are for a better fabric.

use std::time::Duration;

use rsm_tests::bringup::{LIMIT, SMALL};
use rsm_tests::fabrics::ibsim_example;
use rsm_tests::ibsim::Ibsim;
use rsm_tests::peer::require_peers;
use rsm_tests::sm::Rsm;

/// How long a flow takes at most: the longest asks some ten thousand times.
const FLOW: Duration = Duration::from_secs(120);

const PEERS: &[&str] = &["ibsim", "ibsim-run", "osmtest"];

/// Runs `flows` one after the other, on one fabric and with one inventory.
fn pass(flows: &[&str]) {
    if !require_peers(PEERS) {
        return;
    }
    let ibsim = Ibsim::start(&ibsim_example(SMALL)).unwrap();
    let hosts = ibsim.hosts();
    let state = ibsim.directory().join("state");
    let rsm = Rsm::start(&ibsim, None, hosts[0], &state, LIMIT).unwrap();
    let inventory = ibsim.directory().join("inventory");
    for flow in flows {
        let log = ibsim.directory().join(format!("osmtest-{flow}.log"));
        let finished = ibsim
            .client(hosts[1], "osmtest")
            .unwrap()
            .args(["-f", flow, "-i"])
            .arg(&inventory)
            .arg("-l")
            .arg(&log)
            .run(FLOW)
            .unwrap();
        assert!(
            finished.stdout.contains("PASS"),
            "flow {flow}: {}{}\n{}",
            finished.stdout,
            finished.stderr,
            std::fs::read_to_string(&log).unwrap_or_default()
        );
    }
    rsm.stop().unwrap().success().unwrap();
}

#[test]
#[cfg_attr(not(peers), ignore = "a peer is not installed")]
fn a_flood_of_questions_is_answered() {
    pass(&["f"]);
}

#[test]
#[cfg_attr(not(peers), ignore = "a peer is not installed")]
fn an_inventory_is_written_and_tables_of_lanes_are_told() {
    pass(&["c", "q"]);
}
