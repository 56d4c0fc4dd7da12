//! Local fast recovery: a switch that loses a port immediately takes another port of the set.

use rayon::prelude::*;
use rsm_ids::{Lid, PortNum};

use super::{Held, ports};
use crate::tables::{AdaptiveTables, NO_GROUP, NO_PATH, PortMask, Tables};
use crate::topology::{PortUse, SwitchIdx, Topology};

/// The links whose loss switches can bridge until the manager has repaired the routes. Links are
/// directions of cables between switches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// The number of links that packets to at least one host may take.
    pub links: usize,
    /// The number of these links that are the only choice of their switch for some LID of a host.
    /// The loss of such a link drops packets until the repair.
    pub sole: usize,
}

/// Counts the links that packets to hosts may take, and among them those whose loss drops packets.
///
/// The loss of one link removes no choice at any other switch, so that the count is exact for
/// single losses.
pub fn recovery(topology: &Topology, held: Held<'_>) -> Recovery {
    let hosts = topology
        .destinations()
        .iter()
        .filter(|end| end.kind.is_host());
    let lids: Vec<(SwitchIdx, Lid)> = hosts
        .flat_map(|end| end.lids().map(|lid| (end.switch, lid)))
        .collect();
    let of_switch = |switch: SwitchIdx| {
        let (mut used, mut sole) = (PortMask::EMPTY, PortMask::EMPTY);
        for &(_, lid) in lids.iter().filter(|(leaf, _)| *leaf != switch) {
            let ports = ports(&[held], switch, lid);
            used = used.union(ports);
            if ports.len() == 1 {
                sole = sole.union(ports);
            }
        }
        let links = |ports: PortMask| {
            let is_link = |port: &PortNum| topology.peer(switch, *port).is_some();
            ports.ports().filter(is_link).count()
        };
        Recovery {
            links: links(used),
            sole: links(sole),
        }
    };
    let add = |one: Recovery, other: Recovery| Recovery {
        links: one.links + other.links,
        sole: one.sole + other.sole,
    };
    topology
        .par_indices()
        .map(of_switch)
        .reduce(Recovery::default, add)
}

/// The sets by which switches forward after links have gone and before the manager writes anything:
/// the sets without the ports that lead nowhere in `topology`, the fabric at that time.
///
/// Every remaining choice was a choice before. Sets that [`verify_sets`](super::verify_sets) has
/// proved free of loops and credit loops therefore stay so after any number of failures; pairs may
/// be lost.
pub fn recovered(topology: &Topology, held: Held<'_>) -> (Tables, AdaptiveTables) {
    let (mut tables, mut adaptive) = (held.tables.clone(), held.adaptive.clone());
    for switch in topology.indices() {
        let leads_on = |port: &PortNum| topology.port_use(switch, *port) != PortUse::Unused;
        let index = switch.index();
        if let Some(table) = adaptive.switches.get_mut(index) {
            let groups: Vec<(u16, PortMask)> = table.groups().collect();
            for (group, ports) in groups {
                table.set_group(group, ports.ports().filter(leads_on).collect());
            }
        }
        let Some(lft) = tables.lfts.get_mut(index) else {
            continue;
        };
        for lid in topology.destinations().iter().flat_map(|end| end.lids()) {
            let table = adaptive.switches.get_mut(index);
            let group = table.map(|table| {
                let ports = table.ports(lid);
                if ports.is_empty() {
                    table.set_entry(lid, NO_GROUP);
                }
                ports
            });
            if lft.port(lid).is_some_and(|port| !leads_on(&port)) {
                let other = group.and_then(|ports| ports.ports().next());
                lft.set_entry(lid, other.map_or(NO_PATH, |port| port.0));
            }
        }
    }
    (tables, adaptive)
}
