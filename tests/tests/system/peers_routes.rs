//! rsm's routes match the switches' tables: `rsmctl route` and `rsmctl lft` are compared with
//! ibtracert and ibroute.

use std::collections::{BTreeMap, BTreeSet};

use rsm_tests::bringup::{LIMIT, PEERS, SMALL, generated};
use rsm_tests::fabrics::ibsim_example;
use rsm_tests::ibsim::Ibsim;
use rsm_tests::parse::ibroute;
use rsm_tests::parse::ibtracert::{self, Hop};
use rsm_tests::peer::require_peers;
use rsm_tests::sm::{Rsm, check_states};
use serde_json::Value;

/// The number of pairs of LIDs to compare on a fabric that has more.
const PAIRS: usize = 60;

/// The number of tables to compare on a fabric that has more.
const TABLES: usize = 12;

/// Compares routes and tables that rsmctl shows with the routes and tables that ibtracert and
/// ibroute read.
fn routes_agree(ibsim: &Ibsim) {
    let hosts = ibsim.hosts();
    let state = ibsim.directory().join("state");
    let rsm = Rsm::start(ibsim, None, hosts[0], &state, LIMIT).unwrap();
    let observer = hosts[hosts.len() - 1];
    let lids: Vec<u16> = check_states(ibsim, observer)
        .unwrap()
        .lids
        .into_values()
        .collect();

    let switches: BTreeSet<u16> = switches_with_lids(&rsm)
        .into_iter()
        .map(|(_, lid)| u16::try_from(lid).unwrap())
        .collect();
    for (source, destination) in spread_pairs(&lids) {
        let arguments = [source.to_string(), destination.to_string()];
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let traced = ibsim
            .diagnose(observer, "ibtracert", &arguments)
            .unwrap()
            .success();
        let shown = rsm.ask(&["route", arguments[0], arguments[1]]);
        // Two switches may have no path to each other: then both programs must say so.
        if switches.is_superset(&[source, destination].into()) && traced.is_err() {
            let refused = shown.unwrap_err().to_string();
            let reason = format!("no entry for LID {destination}");
            assert!(refused.contains(&reason), "{refused}");
            continue;
        }
        let shown = shown.unwrap();
        let traced = ibtracert::parse(&traced.unwrap().stdout).unwrap();
        assert_eq!(
            shown["outcome"].as_str().map(str::to_lowercase).as_deref(),
            Some("delivered")
        );
        let shown = hops(&shown);
        // ibtracert shows a CA by its port GUID, and rsmctl shows every node by its node GUID: the
        // test compares the ports on the path, and the switches.
        let ports = |hops: &[Hop]| -> Vec<_> {
            hops.iter().map(|hop| (hop.out_port, hop.in_port)).collect()
        };
        assert_eq!(ports(&shown), ports(&traced), "{source} to {destination}");
        let switches = |hops: &[Hop]| -> Vec<u64> {
            hops.split_last()
                .map_or(&[][..], |(_, before_last)| before_last)
                .iter()
                .map(|hop| hop.guid)
                .collect()
        };
        assert_eq!(
            switches(&shown),
            switches(&traced),
            "{source} to {destination}"
        );
    }

    for switch in switches_with_lids(&rsm).into_iter().take(TABLES) {
        let lid = switch.1.to_string();
        let read = ibsim
            .diagnose(observer, "ibroute", &[&lid])
            .unwrap()
            .success()
            .unwrap();
        let shown = rsm.ask(&["lft", &switch.0]).unwrap();
        assert_eq!(
            table(&shown),
            ibroute::parse(&read.stdout).unwrap(),
            "{switch:?}"
        );
    }
    rsm.stop().unwrap().success().unwrap();
}

/// Up to [`PAIRS`] ordered pairs, spread evenly over all of them.
fn spread_pairs(lids: &[u16]) -> Vec<(u16, u16)> {
    let pairs: Vec<(u16, u16)> = lids
        .iter()
        .flat_map(|source| lids.iter().map(move |destination| (*source, *destination)))
        .filter(|(source, destination)| source != destination)
        .collect();
    let step = pairs.len().div_ceil(PAIRS).max(1);
    pairs.into_iter().step_by(step).collect()
}

/// The hops of `rsmctl route` in the form of ibtracert: each node with the ports of the link that
/// leads to it.
fn hops(route: &Value) -> Vec<Hop> {
    let nodes = route["hops"].as_array().unwrap();
    let port = |value: &Value| u8::try_from(value.as_u64().unwrap()).unwrap();
    nodes
        .windows(2)
        .map(|pair| Hop {
            out_port: port(&pair[0]["out_port"]),
            guid: guid(&pair[1]["node_guid"]),
            in_port: port(&pair[1]["in_port"]),
        })
        .collect()
}

fn guid(value: &Value) -> u64 {
    u64::from_str_radix(value.as_str().unwrap().trim_start_matches("0x"), 16).unwrap()
}

/// The GUID and the LID of every switch.
fn switches_with_lids(rsm: &Rsm) -> Vec<(String, u64)> {
    let nodes = rsm.ask(&["nodes", "--kind", "switch"]).unwrap();
    nodes
        .as_array()
        .unwrap()
        .iter()
        .map(|node| {
            (
                node["guid"].as_str().unwrap().to_owned(),
                node["lids"][0].as_u64().unwrap(),
            )
        })
        .collect()
}

/// The output port of each LID in the output of `rsmctl lft`.
fn table(lft: &Value) -> BTreeMap<u16, u8> {
    let entry = |entry: &Value| {
        let lid = u16::try_from(entry["lid"].as_u64().unwrap()).unwrap();
        // A port number of 0 may be left out as a default value.
        (
            lid,
            u8::try_from(entry["port"].as_u64().unwrap_or_default()).unwrap(),
        )
    };
    lft["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(entry)
        .collect()
}

#[test]
#[cfg_attr(
    not(peers),
    ignore = "needs ibsim-utils, opensm, infiniband-diags and ibutils"
)]
fn routes_of_every_pair_of_a_small_fabric_agree_with_ibtracert() {
    if require_peers(PEERS) {
        routes_agree(&Ibsim::start(&ibsim_example(SMALL)).unwrap());
    }
}

#[test]
#[cfg_attr(
    not(peers),
    ignore = "needs ibsim-utils, opensm, infiniband-diags and ibutils"
)]
fn routes_of_sampled_pairs_of_a_fat_tree_agree_with_ibtracert() {
    if require_peers(PEERS) {
        let directory = tempfile::tempdir().unwrap();
        routes_agree(&generated("fat-tree:k=8,levels=3", directory.path()));
    }
}
