//! rsm and OpenSM hand the subnet over to each other. They run on rsm's simulator, because ibsim
//! drops the answers to traps, and OpenSM waits for them endlessly.

use std::time::Duration;

use rsm_tests::binaries;
use rsm_tests::bringup::LIMIT;
use rsm_tests::clock::wait_for_every;
use rsm_tests::parse::sminfo::{self, SmInfo};
use rsm_tests::peer::require_peers;
use rsm_tests::process::Running;
use rsm_tests::served::Served;
use rsm_tests::sm::OpenSm;

/// A fabric of 20 switches and 16 hosts with a port each.
const FABRIC: &str = "fat-tree:k=4,levels=3";

/// The host of OpenSM.
const OPENSM_HOST: &str = "host-001 mlx5_0";
/// The host of rsm.
const RSM_HOST: &str = "host-006 mlx5_0";
/// The host that queries both.
const QUERY_HOST: &str = "host-011 mlx5_0";

const PEERS: &[&str] = &["opensm", "sminfo"];

/// SMState of a standby (IBA 14.2.5.13).
const STANDBY: u8 = 2;
/// SMState of a master.
const MASTER: u8 = 3;

fn rsm(served: &Served, priority: u8) -> Running {
    let config = served.directory().join("rsm.toml");
    std::fs::write(&config, format!("[sm]\npriority = {priority}\n")).unwrap();
    let rsm = served.client(RSM_HOST, binaries::rsm()).unwrap();
    let rsm = rsm.args(["--listen", "off", "--fabric", "umad", "--config"]);
    let rsm = rsm.arg(config).arg("--state-dir");
    rsm.arg(served.directory().join("state")).spawn().unwrap()
}

/// The SMInfo of the manager at `lid`, or of the master that the querying port knows.
fn ask(served: &Served, lid: Option<u16>) -> Option<SmInfo> {
    let lid = lid.map(|lid| lid.to_string());
    let arguments: Vec<&str> = lid.as_deref().into_iter().collect();
    let answer = served.diagnose(QUERY_HOST, "sminfo", &arguments).ok()?;
    sminfo::parse(&answer.stdout).ok()
}

/// Waits until the querying port knows a master with another GUID than `other`, and that this
/// master reports itself as master; returns its SMInfo.
fn wait_master(served: &Served, other: Option<u64>) -> SmInfo {
    let master = wait_for_every(Duration::from_millis(200), LIMIT, || {
        ask(served, None).filter(|sm| sm.state == MASTER && Some(sm.guid) != other)
    });
    master.unwrap_or_else(|| panic!("no master but {other:x?}: {:?}", ask(served, None)))
}

#[test]
#[cfg_attr(not(peers), ignore = "needs opensm and infiniband-diags")]
fn opensm_of_higher_priority_gets_the_subnet_until_it_dies() {
    if !require_peers(PEERS) {
        return;
    }
    let served = Served::start(FABRIC).unwrap();
    let rsm = rsm(&served, 0);
    let ours = wait_master(&served, None);
    // OpenSM reports its subnet up only after the handover.
    let opensm = served.client(OPENSM_HOST, "opensm").unwrap();
    let opensm = OpenSm::run(opensm, &["-p", "15"], LIMIT).unwrap();
    let theirs = wait_master(&served, Some(ours.guid));
    assert_eq!(theirs.priority, 15, "{theirs:?}");
    let standby = ask(&served, Some(ours.lid)).unwrap();
    assert_eq!((standby.guid, standby.state), (ours.guid, STANDBY));

    opensm.kill().unwrap();
    let again = wait_master(&served, Some(theirs.guid));
    assert_eq!((again.guid, again.lid), (ours.guid, ours.lid));
    rsm.terminate(LIMIT).unwrap().success().unwrap();
}

#[test]
#[cfg_attr(not(peers), ignore = "needs opensm and infiniband-diags")]
fn opensm_hands_the_subnet_to_an_rsm_of_higher_priority() {
    if !require_peers(PEERS) {
        return;
    }
    let served = Served::start(FABRIC).unwrap();
    let opensm = served.client(OPENSM_HOST, "opensm").unwrap();
    let opensm = OpenSm::run(opensm, &["-p", "0"], LIMIT).unwrap();
    let theirs = wait_master(&served, None);
    let rsm = rsm(&served, 14);
    let ours = wait_master(&served, Some(theirs.guid));
    assert_eq!(ours.priority, 14, "{ours:?}\n{}", opensm.log());
    let standby = ask(&served, Some(theirs.lid)).unwrap();
    assert_eq!((standby.guid, standby.state), (theirs.guid, STANDBY));
    rsm.terminate(LIMIT).unwrap().success().unwrap();
    opensm.stop().unwrap();
}
