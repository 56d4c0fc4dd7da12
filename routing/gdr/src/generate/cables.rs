//! Realistic cables: the hosts of a leaf are rarely cabled in the order of their names.

use std::collections::BTreeMap;

use rsm_ids::PortNum;

use super::shuffle;
use rsm_routing::generate::rng::Rng;
use rsm_routing::netlist::{Netlist, NetlistError, NodeKind};

/// Permutes the cables of every leaf's hosts.
///
/// # Errors
/// No valid netlist causes an error: ends are only exchanged.
pub fn recabled(netlist: Netlist, seed: u64) -> Result<Netlist, NetlistError> {
    let mut rng = Rng::new(seed);
    let (nodes, mut cables) = netlist.into_parts();
    let is_host = |end: (usize, PortNum)| nodes[end.0].kind != NodeKind::Switch;
    // The numbers of the cables to hosts, by leaf.
    let mut of_leaf: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (number, cable) in cables.iter_mut().enumerate() {
        if is_host(cable.a) {
            std::mem::swap(&mut cable.a, &mut cable.b);
        }
        if is_host(cable.b) && !is_host(cable.a) {
            of_leaf.entry(cable.a.0).or_default().push(number);
        }
    }
    for numbers in of_leaf.values() {
        let mut ends: Vec<_> = numbers.iter().map(|&number| cables[number].b).collect();
        shuffle(&mut ends, &mut rng);
        for (&number, end) in numbers.iter().zip(ends) {
            cables[number].b = end;
        }
    }
    Netlist::new(nodes, cables)
}

/// Turns the ports of `count` out of every `of` hosts into separate storage servers with one port
/// each, at the leaves of rails.
///
/// # Errors
/// No valid netlist causes an error: only descriptions change.
pub fn with_servers(netlist: Netlist, count: usize, of: usize) -> Result<Netlist, NetlistError> {
    let hosts = super::hosts(&netlist);
    let (mut nodes, cables) = netlist.into_parts();
    for (place, (name, devices)) in hosts.iter().enumerate() {
        if place % of < count {
            for (device, &node) in devices {
                nodes[node].description = format!("store-{name}-{device} HCA").into_bytes();
            }
        }
    }
    Netlist::new(nodes, cables)
}
