//! Multicast as programs see it that were written against another subnet manager.

use std::time::Duration;

use rsm_tests::bringup::LIMIT;
use rsm_tests::clock::wait_for_every;
use rsm_tests::peer::require_peers;
use rsm_tests::served::Served;
use rsm_tests::{binaries, process::Running};

/// 20 switches, 16 hosts with a port each.
const FABRIC: &str = "fat-tree:k=4,levels=3";

const FIRST: &str = "host-001 mlx5_0";
const SECOND: &str = "host-006 mlx5_0";
const THIRD: &str = "host-011 mlx5_0";

/// The broadcast group of IP over InfiniBand in the default partition.
const BROADCAST: &str = "ff12:401b:ffff::ffff:ffff";

/// A resident rsm that answers.
fn rsm(served: &Served) -> Running {
    let state = served.directory().join("state");
    let rsm = served.client(FIRST, binaries::rsm()).unwrap();
    let rsm = rsm.args(["--listen", "127.0.0.1:0", "--fabric", "umad", "--state-dir"]);
    let rsm = rsm.arg(state);
    let running = rsm.spawn().unwrap();
    let answers = wait_for_every(Duration::from_millis(100), LIMIT, || {
        let groups = served.diagnose(SECOND, "saquery", &["-g"]).ok()?;
        groups.stdout.contains(BROADCAST).then_some(())
    });
    assert!(answers.is_some(), "{}", running.stderr_so_far());
    running
}

/// What osmtest does to `served` in a flow; each flow at a host of its own.
fn osmtest(served: &Served, host: &str, flow: &str, title: &str) {
    let log = served.directory().join(format!("osmtest-{flow}.log"));
    let inventory = served.directory().join("inventory");
    let osmtest = served.client(host, "osmtest").unwrap();
    let osmtest = osmtest.args(["-f", flow, "-i"]).arg(&inventory);
    let finished = osmtest.arg("-l").arg(&log).run(LIMIT).unwrap();
    assert!(
        finished.stdout.contains(&format!("TEST \"{title}\" PASS")),
        "{}{}\n{}",
        finished.stdout,
        finished.stderr,
        std::fs::read_to_string(&log).unwrap_or_default()
    );
}

#[test]
#[cfg_attr(not(peers), ignore = "needs opensm and infiniband-diags")]
fn osmtest_joins_leaves_and_makes_groups() {
    if !require_peers(&["osmtest", "saquery"]) {
        return;
    }
    let served = Served::start(FABRIC).unwrap();
    let rsm = rsm(&served);
    osmtest(&served, SECOND, "c", "Create Inventory");
    osmtest(&served, THIRD, "m", "Multicast");
    rsm.terminate(LIMIT).unwrap().success().unwrap();
}
