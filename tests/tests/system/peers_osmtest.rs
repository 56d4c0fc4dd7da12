//! osmtest in the flows of single datagrams, and several of its runs at one host.

use std::time::Duration;

use rsm_tests::bringup::{LIMIT, SMALL};
use rsm_tests::fabrics::ibsim_example;
use rsm_tests::ibsim::Ibsim;
use rsm_tests::osmtest;
use rsm_tests::peer::require_peers;
use rsm_tests::served::Served;
use rsm_tests::sm::Rsm;

/// How long a flow takes at most: the longest sends some ten thousand requests.
const FLOW: Duration = Duration::from_secs(120);

/// The flows with osmtest's titles. Of the forwarding of events and of traps 64 and 65, osmtest
/// tests only the preparation: it starts, finds its port and queries the SA.
const FLOWS: [(&str, &str); 5] = [
    ("c", "Create Inventory"),
    ("e", "Event Forwarding"),
    ("f", "Stress SA"),
    ("q", "QoS: VLArb and SLtoVL"),
    ("t", "Trap 64/65"),
];

#[test]
#[cfg_attr(not(peers), ignore = "a peer is not installed")]
fn the_flows_of_single_datagrams_pass_under_ibsim() {
    if !require_peers(&["ibsim", "ibsim-run", "osmtest"]) {
        return;
    }
    let ibsim = Ibsim::start(&ibsim_example(SMALL)).unwrap();
    let hosts = ibsim.hosts();
    let state = ibsim.directory().join("state");
    let rsm = Rsm::start(&ibsim, None, hosts[0], &state, LIMIT).unwrap();
    let inventory = ibsim.directory().join("inventory");
    for (flow, title) in FLOWS {
        let log = ibsim.directory().join(format!("osmtest-{flow}.log"));
        let osmtest = ibsim.client(hosts[1], "osmtest").unwrap();
        let osmtest = osmtest.args(["-f", flow, "-i"]).arg(&inventory);
        let finished = osmtest.arg("-l").arg(&log).run(FLOW).unwrap();
        assert!(
            finished.stdout.contains(&format!("TEST \"{title}\" PASS")),
            "flow {flow}: {}{}\n{}",
            finished.stdout,
            finished.stderr,
            std::fs::read_to_string(&log).unwrap_or_default()
        );
    }
    rsm.stop().unwrap().success().unwrap();
}

/// Each run begins with the same transaction ID as the run before.
#[test]
#[cfg_attr(not(peers), ignore = "needs opensm and infiniband-diags")]
fn run_after_run_at_one_host_passes() {
    if !require_peers(&["osmtest", "saquery"]) {
        return;
    }
    let served = Served::start("fat-tree:k=4,levels=3").unwrap();
    let host = "host-006 mlx5_0";
    let rsm = osmtest::rsm(&served, "host-001 mlx5_0", host);
    for _ in 0..3 {
        for (flow, title) in FLOWS {
            osmtest::passes(&served, host, flow, title);
        }
    }
    rsm.terminate(LIMIT).unwrap().success().unwrap();
}
