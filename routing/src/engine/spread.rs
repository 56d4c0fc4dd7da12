//! The numbers of destinations by which engines balance destinations over ports.
//!
//! Destinations are numbered leaf by leaf, with leaves that share a subtree adjacent, so that
//! consecutive numbers modulo the number of uplinks leave a switch by different uplinks. One level
//! higher, the number is first divided by the number of uplinks below, so that the choices of two
//! levels do not repeat each other (Gliksberg et al., "Dmodc", arXiv 2211.13101). The LIDs of one
//! port get different paths: see [`slot_distance`].

use super::fabric_tree::Numbers;
use crate::topology::{Destination, SwitchIdx, Topology};

/// The LIDs of one destination: `count` LIDs from `base` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) base: u16,
    pub(super) count: u16,
}

/// The destinations of one switch in the order of their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Column {
    /// The hosts, numbered from `first_host` on.
    pub(super) hosts: Vec<Target>,
    pub(super) first_host: u32,
    /// The numbers of the hosts, if these are not consecutive; otherwise empty.
    pub(super) numbers: Vec<u32>,
    /// Aggregation nodes, numbered separately so that the hosts' numbers have no gaps.
    pub(super) others: Vec<Target>,
    /// The number of the first of `others`.
    pub(super) first_other: u32,
    /// The LIDs of the switch itself.
    pub(super) own: Option<Target>,
    /// The number of the switch.
    pub(super) first_own: u32,
}

/// The numbers of all destinations, and the divider of each switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Spread {
    /// The destinations of each switch.
    pub(super) columns: Vec<Column>,
    /// The divider of each switch, at least 1; see [`dividers`].
    pub(super) dividers: Vec<u32>,
}

impl Spread {
    /// Numbers the destinations of a tree in which `levels[s]` is the distance of switch `s` from
    /// the top. Hosts in `listed` have their listed number, and all other hosts come after the
    /// highest listed number.
    pub(super) fn new(topology: &Topology, levels: &[u8], listed: &Numbers) -> Spread {
        let mut columns = number(topology, levels);
        if !listed.is_empty() {
            number_listed(topology, listed, &mut columns);
        }
        Spread {
            columns,
            dividers: dividers(topology, levels),
        }
    }
}

/// All switches, the top level first.
fn by_level(topology: &Topology, levels: &[u8]) -> Vec<SwitchIdx> {
    let mut switches: Vec<SwitchIdx> = topology.indices().collect();
    switches.sort_by_key(|switch| (levels[switch.index()], *switch));
    switches
}

/// Numbers the destinations subtree by subtree: hosts, other end ports and switches separately.
fn number(topology: &Topology, levels: &[u8]) -> Vec<Column> {
    let mut columns = vec![Column::default(); topology.switch_count()];
    let (mut host, mut other, mut own) = (0, 0, 0);
    for switch in subtree_by_subtree(topology, levels) {
        let column = &mut columns[switch.index()];
        column.first_host = host;
        column.first_other = other;
        column.first_own = own;
        own += 1;
        for destination in topology.destinations_of(switch) {
            let target = target(destination);
            if destination.port.0 == 0 {
                column.own = Some(target);
            } else if destination.kind.is_host() {
                column.hosts.push(target);
                host += 1;
            } else {
                column.others.push(target);
                other += 1;
            }
        }
    }
    columns
}

/// Gives listed hosts their numbers, and all other hosts the numbers after the highest listed
/// number, in their present order.
fn number_listed(topology: &Topology, listed: &Numbers, columns: &mut [Column]) {
    let highest = listed.values().copied().max().unwrap_or(0);
    for (switch, column) in topology.indices().zip(columns) {
        let hosts = topology
            .destinations_of(switch)
            .iter()
            .filter(|found| found.port.0 != 0 && found.kind.is_host());
        let numbers = hosts.zip(column.first_host..).map(|(host, own)| {
            let listed_number = listed.get(&host.guid).copied();
            listed_number.unwrap_or_else(|| highest.saturating_add(1).saturating_add(own))
        });
        column.numbers = numbers.collect();
    }
}

/// The 2^LMC own LIDs of a destination.
fn target(destination: &Destination) -> Target {
    Target {
        base: destination.lid.0,
        count: destination.lmc.lids(),
    }
}

/// All switches, depth first from the top, so that the switches below one are adjacent.
fn subtree_by_subtree(topology: &Topology, levels: &[u8]) -> Vec<SwitchIdx> {
    let mut seen = vec![false; topology.switch_count()];
    let mut found = Vec::with_capacity(topology.switch_count());
    let mut stack = Vec::new();
    for top in by_level(topology, levels) {
        stack.push(top);
        while let Some(switch) = stack.pop() {
            if std::mem::replace(&mut seen[switch.index()], true) {
                continue;
            }
            found.push(switch);
            let below = topology
                .groups(switch)
                .map(|group| group.neighbour)
                .filter(|below| levels[below.index()] > levels[switch.index()]);
            let first = stack.len();
            stack.extend(below.filter(|below| !seen[below.index()]));
            // The lowest GUID is visited first.
            stack[first..].reverse();
        }
    }
    found
}

/// The distance, in slots, between the base LID of a port and its LID number `offset`, at a switch
/// with this divider, which is at least 1.
///
/// The switches below together have as many uplinks as the divider, and separate LIDs whose
/// `offset` has different remainders. Two LIDs with equal remainders come up by the same uplink;
/// since their quotients differ, they leave the switch by different slots. `n` LIDs thus have `n`
/// paths if there are so many.
pub(super) fn slot_distance(offset: u16, divider: u32) -> usize {
    let offset = u32::from(offset);
    (offset % divider + offset / divider) as usize
}

/// For each switch, the divider of destination numbers: the number of paths by which a packet can
/// come up to the switch; at least 1. If a switch has more hosts than all switches next below it
/// together, the divider is 1, which suits the switch's own hosts.
pub(super) fn dividers(topology: &Topology, levels: &[u8]) -> Vec<u32> {
    let mut dividers = vec![1u32; topology.switch_count()];
    for &switch in by_level(topology, levels).iter().rev() {
        let level = levels[switch.index()];
        let below = topology
            .groups(switch)
            .map(|group| group.neighbour)
            .filter(|below| levels[below.index()] > level);
        let own = topology.hosts(switch);
        if own > 0 && own > below.map(|below| topology.hosts(below)).sum() {
            dividers[switch.index()] = 1;
        }
        let is_up = |neighbour: SwitchIdx| levels[neighbour.index()] < levels[switch.index()];
        let up = topology
            .groups(switch)
            .filter(|group| is_up(group.neighbour))
            .count() as u32;
        let above = dividers[switch.index()].saturating_mul(up);
        for group in topology.groups(switch) {
            if is_up(group.neighbour) {
                let divider = &mut dividers[group.neighbour.index()];
                *divider = (*divider).max(above);
            }
        }
    }
    dividers
}
