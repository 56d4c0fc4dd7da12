//! Fabrics as they are built: the hosts of a leaf are rarely cabled in the order of their names.

use std::collections::BTreeMap;

use rsm_ids::PortNum;

use super::shuffle;
use rsm_routing::generate::rng::Rng;
use rsm_routing::netlist::{Netlist, NetlistError, NodeKind};

/// The fabric with the cables of every leaf's hosts in another order.
///
/// # Errors
/// None that a netlist can cause: ends are only exchanged.
pub fn recabled(netlist: Netlist, seed: u64) -> Result<Netlist, NetlistError> {
    let mut rng = Rng::new(seed);
    let (nodes, mut cables) = netlist.into_parts();
    let is_host = |end: (usize, PortNum)| nodes[end.0].kind != NodeKind::Switch;
    // By leaf: its cables to hosts, by number.
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

/// The fabric in which the ports of `count` hosts of each `of` belong to servers of their own,
/// one port each: storage at the leaves of rails.
///
/// # Errors
/// None that a netlist can cause: only descriptions differ.
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
