//! Runs osmtest in the flows that consist of single datagrams, and several runs at one host.
//!
//! ibsim carries only single datagrams, of which it delivers 224 bytes: flows with longer answers
//! run on rsm's simulator (`peers_osmtest_whole`).

use rsm_tests::bringup::{LIMIT, SMALL};
use rsm_tests::fabrics::ibsim_example;
use rsm_tests::ibsim::Ibsim;
use rsm_tests::osmtest;
use rsm_tests::peer::require_peers;
use rsm_tests::served::Served;
use rsm_tests::sm::Rsm;

/// The flows, with osmtest's titles for them. For the forwarding of events and of traps 64 and 65,
/// osmtest tests only the preparation: it starts, finds its port and queries the SA.
const FLOWS: [(&str, &str); 5] = [
    ("c", "Create Inventory"),
    ("e", "Event Forwarding"),
    ("f", "Stress SA"),
    ("q", "QoS: VLArb and SLtoVL"),
    ("t", "Trap 64/65"),
];

#[test]
#[cfg_attr(not(peers), ignore = "a peer is not installed")]
fn osmtest_flows_of_single_datagrams_pass_on_ibsim() {
    if !require_peers(&["ibsim", "ibsim-run", "osmtest"]) {
        return;
    }
    let ibsim = Ibsim::start(&ibsim_example(SMALL)).unwrap();
    let hosts = ibsim.hosts();
    let state = ibsim.directory().join("state");
    let rsm = Rsm::start(&ibsim, None, hosts[0], &state, LIMIT).unwrap();
    for (flow, title) in FLOWS {
        let client = ibsim.client(hosts[1], "osmtest").unwrap();
        osmtest::run_to_pass(client, ibsim.directory(), flow, title);
    }
    rsm.stop().unwrap().success().unwrap();
}

/// Each run begins with the transaction ID with which the previous run began.
#[test]
#[cfg_attr(not(peers), ignore = "needs opensm and infiniband-diags")]
fn repeated_runs_of_osmtest_at_one_host_pass() {
    if !require_peers(&["osmtest", "saquery"]) {
        return;
    }
    let served = Served::start("fat-tree:k=4,levels=3").unwrap();
    let host = "host-006 mlx5_0";
    let rsm = osmtest::rsm(&served, "host-001 mlx5_0", host);
    for round in 0..3 {
        // Stress takes minutes on a busy machine, and runs in the first round only.
        for (flow, title) in FLOWS.iter().filter(|(flow, _)| round == 0 || *flow != "f") {
            osmtest::passes(&served, host, flow, title);
        }
    }
    rsm.terminate(LIMIT).unwrap().success().unwrap();
}
