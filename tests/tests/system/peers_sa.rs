//! osmtest, OpenSM's test program for its SA, queries rsm's SA under ibsim.
//!
//! ibsim carries single datagrams only, 224 bytes of each, so that flows with longer answers run on
//! the shim's fabric instead.

use std::time::Duration;

use rsm_tests::bringup::{LIMIT, SMALL};
use rsm_tests::fabrics::ibsim_example;
use rsm_tests::ibsim::Ibsim;
use rsm_tests::peer::require_peers;
use rsm_tests::sm::Rsm;

/// How long a flow takes at most: the longest sends some ten thousand requests.
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
fn a_flood_of_requests_is_answered() {
    pass(&["f"]);
}

#[test]
#[cfg_attr(not(peers), ignore = "a peer is not installed")]
fn osmtest_writes_its_inventory_and_reads_sl2vl_tables() {
    pass(&["c", "q"]);
}
