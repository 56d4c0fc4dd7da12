//! Finds the hosts whose paths cross a cable in one direction.

use crate::tables::Tables;
use crate::topology::{Destination, PortUse, SwitchIdx, Topology};

use rsm_ids::{Lid, PortNum};

/// A host's paths over one direction of a cable. Only paths to base LIDs count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrossingHost {
    /// The index of the host in [`Topology::destinations`].
    pub destination: usize,
    /// The number of hosts to which this host sends over the cable.
    pub sends: u64,
    /// The number of hosts from which this host receives over the cable.
    pub receives: u64,
}

/// The hosts whose paths leave `switch` by `port`, in the order of [`Topology::destinations`].
/// Paths that do not arrive are not counted.
///
/// For a port to another switch the sum of [`CrossingHost::sends`] is
/// [`LinkUse::paths`](super::LinkUse::paths).
pub fn crossing(
    topology: &Topology,
    tables: &Tables,
    switch: SwitchIdx,
    port: PortNum,
) -> Vec<CrossingHost> {
    let mut counts = Counts::new(topology);
    // For each switch, the number of hosts to which each host of the switch sends over the cable.
    let mut sends_of_each_host = vec![0u64; topology.switch_count()];
    let mut sources = Vec::new();
    for (index, to) in hosts(topology) {
        if tables.lft(switch).port(to.lid) != Some(port) || !arrives(topology, tables, switch, to) {
            continue;
        }
        sources.clear();
        sources.push(switch);
        let mut visited = 0;
        while let Some(&source) = sources.get(visited) {
            visited += 1;
            sends_of_each_host[source.index()] += 1;
            counts.receives[index] += topology.hosts(source) as u64;
            let neighbours = topology.groups(source).map(|group| group.neighbour);
            sources.extend(
                neighbours.filter(|&from| forwards_to(topology, tables, from, to.lid, source)),
            );
        }
        if to.switch == switch {
            // A host sends nothing to itself.
            counts.receives[index] -= 1;
            counts.is_at_far_end[index] = true;
        }
    }
    for (index, from) in hosts(topology) {
        let sends_to_itself = u64::from(counts.is_at_far_end[index]);
        counts.sends[index] = sends_of_each_host[from.switch.index()] - sends_to_itself;
    }
    counts.nonzero()
}

/// The hosts at either end of the paths from the host `source`, an index into
/// [`Topology::destinations`]: the host itself, and all hosts that it reaches. Empty if the index
/// is out of range.
pub fn crossing_from(topology: &Topology, tables: &Tables, source: usize) -> Vec<CrossingHost> {
    let mut counts = Counts::new(topology);
    let Some(from) = topology.destinations().get(source) else {
        return Vec::new();
    };
    for (index, to) in hosts(topology) {
        if index != source && arrives(topology, tables, from.switch, to) {
            counts.sends[source] += 1;
            counts.receives[index] = 1;
        }
    }
    counts.nonzero()
}

/// The counts of each destination, by index in [`Topology::destinations`].
struct Counts {
    sends: Vec<u64>,
    receives: Vec<u64>,
    /// Whether the host is at the far end of the cable: it sends nothing over the cable to itself.
    is_at_far_end: Vec<bool>,
}

impl Counts {
    fn new(topology: &Topology) -> Counts {
        let count = topology.destinations().len();
        Counts {
            sends: vec![0; count],
            receives: vec![0; count],
            is_at_far_end: vec![false; count],
        }
    }

    /// The hosts with a count other than 0.
    fn nonzero(&self) -> Vec<CrossingHost> {
        let counts = self
            .sends
            .iter()
            .zip(&self.receives)
            .enumerate()
            .filter(|&(_, (&sends, &receives))| sends + receives > 0);
        let crossing_host = |(destination, (&sends, &receives))| CrossingHost {
            destination,
            sends,
            receives,
        };
        counts.map(crossing_host).collect()
    }
}

/// The destinations that are hosts, with their indices.
fn hosts(topology: &Topology) -> impl Iterator<Item = (usize, &Destination)> {
    let destinations = topology.destinations().iter().enumerate();
    destinations.filter(|(_, destination)| destination.kind.is_host())
}

/// Whether the switch `from` forwards packets to `lid` directly to the switch `to`.
fn forwards_to(
    topology: &Topology,
    tables: &Tables,
    from: SwitchIdx,
    lid: Lid,
    to: SwitchIdx,
) -> bool {
    let port = tables.lft(from).port(lid);
    let port_use = port.map(|port| topology.port_use(from, port));
    matches!(port_use, Some(PortUse::Link { peer, .. }) if peer == to)
}

/// Whether packets from the switch `from` arrive at the destination `to`.
fn arrives(topology: &Topology, tables: &Tables, from: SwitchIdx, to: &Destination) -> bool {
    let mut current = from;
    for _ in 0..=topology.switch_count() {
        if current == to.switch {
            return tables.lft(current).port(to.lid) == Some(to.port);
        }
        let port = tables.lft(current).port(to.lid);
        match port.map(|port| topology.port_use(current, port)) {
            Some(PortUse::Link { peer, .. }) => current = peer,
            _ => return false,
        }
    }
    false
}
