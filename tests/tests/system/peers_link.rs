//! Links that go down and come back under a resident rsm: a link between switches, and the link of
//! its own port.

use std::collections::BTreeSet;
use std::time::Duration;

use rsm_tests::bringup::{LIMIT, PEERS, QUIET, assert_routes_are_good, ca_ports, generated};
use rsm_tests::clock::wait_for;
use rsm_tests::ibsim::{Ibsim, SimNodeKind};
use rsm_tests::peer::require_peers;
use rsm_tests::sm::{Rsm, check_states};
use rsm_tests::tap::{Packet, Reaction, Tap, attribute, method};

/// A switch port with a cable to another switch, and the IDs of both switches.
fn link_between_switches(ibsim: &Ibsim) -> (String, u8, [String; 2]) {
    let switches: BTreeSet<&str> = ibsim
        .nodes()
        .iter()
        .filter(|node| node.kind == SimNodeKind::Switch)
        .map(|node| node.id.as_str())
        .collect();
    ibsim
        .nodes()
        .iter()
        .filter(|node| node.kind == SimNodeKind::Switch)
        .flat_map(|node| {
            node.cables
                .iter()
                .map(move |(port, far)| (node, *port, far))
        })
        .find(|(_, _, (far, _))| switches.contains(far.as_str()))
        .map(|(node, port, (far, _))| (node.id.clone(), port, [node.id.clone(), far.clone()]))
        .unwrap()
}

/// The number of convergences, and the LFT blocks, Gets and Sets of the newest convergence.
fn newest(rsm: &Rsm) -> (usize, u64, u64, u64) {
    let history = rsm.history().unwrap();
    let last = history.last().unwrap();
    let count = |pointer: &str| {
        last.pointer(pointer)
            .and_then(serde_json::Value::as_u64)
            .unwrap()
    };
    (
        history.len(),
        count("/lft_blocks"),
        count("/smps/get"),
        count("/smps/set"),
    )
}

#[test]
#[cfg_attr(
    not(peers),
    ignore = "needs ibsim-utils, opensm, infiniband-diags and ibutils"
)]
fn after_a_lost_link_rsm_reads_only_its_two_switches_and_sets_only_tables() {
    if !require_peers(PEERS) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let ibsim = generated("fat-tree:k=8,levels=3", directory.path());
    let tap = Tap::open(&ibsim).unwrap();
    let hosts = ibsim.hosts();
    let (host, observer) = (hosts[0], hosts[hosts.len() - 1]);
    let state = ibsim.directory().join("state");
    let mut rsm = Rsm::start(&ibsim, Some(&tap), host, &state, LIMIT).unwrap();
    assert!(tap.wait_quiet(QUIET, LIMIT));
    let before = check_states(&ibsim, observer).unwrap();
    let (convergences, ..) = newest(&rsm);
    let (switch, port, ends) = link_between_switches(&ibsim);

    tap.clear();
    ibsim.unlink(&switch, port).unwrap();
    assert!(rsm.wait_history(convergences + 1, LIMIT).unwrap());
    assert!(tap.wait_quiet(QUIET, LIMIT));
    let packets = tap.packets();
    let reaction = Reaction::of(&packets).unwrap();

    // rsm reads only the two ends, and writes only tables and the ends' PortStateChange.
    let lids = &before.lids;
    for packet in packets.iter().filter(|packet| packet.is_request()) {
        let node = target(&ibsim, host, lids, packet);
        if packet.is_set() {
            let kind = packet.attribute();
            let cleared = kind == attribute::SWITCH_INFO && ends.contains(&node);
            assert!(
                cleared || kind == attribute::LINEAR_FORWARDING_TABLE,
                "{packet:?}"
            );
        } else {
            assert!(ends.contains(&node), "{packet:?} asks {node}");
        }
    }
    // The history agrees with the tap.
    let history: Vec<_> = rsm.history().unwrap().split_off(convergences);
    let sum = |pointer: &str| -> u64 {
        history
            .iter()
            .filter_map(|entry| entry.pointer(pointer)?.as_u64())
            .sum()
    };
    let blocks = reaction
        .requests
        .of(method::SET, attribute::LINEAR_FORWARDING_TABLE);
    assert_eq!(sum("/lft_blocks"), blocks);
    assert_eq!(sum("/smps/set"), reaction.requests.sets());
    // A light sweep without changes is no convergence, and the history does not count its Gets.
    assert!(sum("/smps/get") <= reaction.requests.gets());
    assert!(sum("/smps/get") > 0);

    let after = check_states(&ibsim, observer).unwrap();
    assert_eq!((after.links, &after.lids), (before.links - 1, &before.lids));
    assert_eq!(after.not_active, Vec::<String>::new());
    assert_routes_are_good(rsm.dumps(), ca_ports(&ibsim, observer));

    let (convergences, ..) = newest(&rsm);
    ibsim.relink(&switch, port).unwrap();
    assert!(rsm.wait_history(convergences + 1, LIMIT).unwrap());
    // The ports come up in Initialize first: the subnet is complete once both are Active.
    let whole = wait_for(Duration::from_secs(30), || {
        let states = check_states(&ibsim, observer).unwrap();
        (states == before).then_some(())
    });
    assert!(whole.is_some(), "{:?}", check_states(&ibsim, observer));
    assert!(tap.wait_quiet(QUIET, LIMIT));
    assert_routes_are_good(rsm.dumps(), ca_ports(&ibsim, observer));
    rsm.stop().unwrap().success().unwrap();
}

/// The ID of the node to which a request goes. `host` is the sender, and `lids` has the LID of each
/// GUID.
fn target(
    ibsim: &Ibsim,
    host: &str,
    lids: &std::collections::BTreeMap<u64, u16>,
    packet: &Packet,
) -> String {
    if packet.is_directed() {
        let node = ibsim.node_at(host, packet.directed_path());
        return node.map_or_else(
            || format!("beyond {:?}", packet.directed_path()),
            |node| node.id.clone(),
        );
    }
    let lid = packet.destination_lid();
    let guid = lids
        .iter()
        .find(|(_, held)| **held == lid)
        .map(|(guid, _)| *guid)
        .unwrap();
    format!("S-{guid:016x}")
}

/// Whether rsm has the finding that its own port is down.
fn finds_own_port_down(rsm: &Rsm) -> bool {
    let findings = rsm.ask(&["findings"]).unwrap_or_default();
    let mut findings = findings.as_array().into_iter().flatten();
    findings.any(|finding| finding["kind"] == "local-port")
}

#[test]
#[cfg_attr(
    not(peers),
    ignore = "needs ibsim-utils, opensm, infiniband-diags and ibutils"
)]
fn rsm_waits_for_a_local_port_that_is_down_at_the_start() {
    if !require_peers(PEERS) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let ibsim = generated("fat-tree:k=4,levels=2", directory.path());
    let host = ibsim.hosts()[0].to_owned();
    ibsim.unlink(&host, 1).unwrap();
    let state = ibsim.directory().join("state");
    let rsm = Rsm::spawn(&ibsim, None, &host, &state).unwrap();
    let found = wait_for(LIMIT, || finds_own_port_down(&rsm).then_some(()));
    assert!(found.is_some());
    ibsim.relink(&host, 1).unwrap();
    let is_up = wait_for(LIMIT, || {
        let status = rsm.ask(&["status"]).unwrap_or_default();
        (status["switches"] == 6 && !finds_own_port_down(&rsm)).then_some(())
    });
    assert!(is_up.is_some(), "{:?}", rsm.ask(&["status"]));
}
