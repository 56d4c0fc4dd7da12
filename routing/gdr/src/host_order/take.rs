//! Assigns positions to ports.

use std::collections::{BTreeMap, BTreeSet};

use rsm_ids::{Guid, PortNum};

use super::{Block, Blocks, HostPosition, HostPositions, MAX_POSITIONS};
use crate::fabric::{FabricPort, GpuFabric};
use crate::positions::most_common;
use rsm_routing::engine::by_subtree_and;
use rsm_routing::topology::SwitchIdx;

/// Extends `earlier` by a position for every port of `blocks`.
pub(super) fn extend_positions(
    earlier: &HostPositions,
    blocks: &Blocks,
    fabric: &GpuFabric,
) -> HostPositions {
    let mut positions = earlier.clone();
    rank_leaves(&mut positions, blocks, fabric);
    let usual = usual_ports(blocks, fabric);
    let table = Table::new(&positions, blocks, fabric);
    let mut assigner = Assigner {
        positions,
        table,
        fabric,
        usual: &usual,
    };
    for block in &blocks.0 {
        assigner.position(block);
    }
    let Assigner {
        mut positions,
        table,
        ..
    } = assigner;
    positions.forget(&table.present);
    positions.widen(blocks, fabric, usual.len());
    positions
}

impl HostPositions {
    /// Drops the positions of absent ports if there are too many positions.
    fn forget(&mut self, present: &BTreeSet<Guid>) {
        if self.ports.len() > MAX_POSITIONS {
            self.ports.retain(|port, _| present.contains(port));
        }
        if self.leaves.len() > MAX_POSITIONS {
            let used: BTreeSet<Guid> = self.ports.values().map(|position| position.leaf).collect();
            self.leaves.retain(|leaf, _| used.contains(leaf));
        }
    }

    /// Sets the number of places of every leaf to the number that the fullest leaf needs, rounded
    /// up to a multiple of the number of uplinks that most leaves have: packets to the same place
    /// at any leaf then take the same uplink. The number never shrinks.
    fn widen(&mut self, blocks: &Blocks, fabric: &GpuFabric, usual: usize) {
        let highest = self.ports.values().map(|position| position.place + 1).max();
        let Some(highest) = highest else {
            return;
        };
        // The number of usual ports is at most the number of ports of a switch.
        let needed = highest.max(usual as u32);
        if needed <= self.stride {
            return;
        }
        let leaves: BTreeSet<SwitchIdx> =
            blocks.0.iter().flat_map(|b| &b.leaves).copied().collect();
        let mut uplinks: BTreeMap<u32, usize> = BTreeMap::new();
        for leaf in leaves {
            let links = fabric.topology.groups(leaf).map(|group| group.links.len());
            *uplinks.entry(links.sum::<usize>() as u32).or_default() += 1;
        }
        let most = uplinks
            .into_iter()
            .max_by_key(|&(uplinks, leaves)| (leaves, uplinks));
        let multiple = most.map_or(1, |(uplinks, _)| uplinks.max(1));
        self.stride = needed.next_multiple_of(multiple);
    }
}

/// Gives leaves without a rank the next ranks: leaves of one subtree next to each other, and within
/// a subtree by unit and rail.
fn rank_leaves(positions: &mut HostPositions, blocks: &Blocks, fabric: &GpuFabric) {
    let topology = &fabric.topology;
    let guid = |leaf: SwitchIdx| topology.switch(leaf).guid;
    let ports = || blocks.0.iter().flat_map(|block| &block.hosts).flatten();
    let of_blocks = blocks.0.iter().flat_map(|block| &block.leaves).copied();
    // A cable may end at a leaf of another block.
    let strays = ports().map(|&port| fabric.port(port).leaf);
    let wanted: Vec<SwitchIdx> = of_blocks.chain(strays).collect();
    if wanted
        .iter()
        .all(|&leaf| positions.leaves.contains_key(&guid(leaf)))
    {
        return;
    }
    let mut order: BTreeMap<SwitchIdx, u32> = BTreeMap::new();
    for leaf in wanted {
        let next = order.len() as u32;
        order.entry(leaf).or_insert(next);
    }
    let others = order.len() as u32;
    let rank = |switch: SwitchIdx| order.get(&switch).copied().unwrap_or(others + switch.0);
    let highest = positions.leaves.values().max();
    let mut next = highest.map_or(0, |rank| rank.saturating_add(1));
    for leaf in by_subtree_and(topology, rank) {
        if order.contains_key(&leaf) && !positions.leaves.contains_key(&guid(leaf)) {
            positions.leaves.insert(guid(leaf), next);
            next = next.saturating_add(1);
        }
    }
}

/// The port numbers that have a compute port at most leaves.
fn usual_ports(blocks: &Blocks, fabric: &GpuFabric) -> Vec<PortNum> {
    let mut count: BTreeMap<PortNum, usize> = BTreeMap::new();
    let mut leaves = BTreeSet::new();
    for &port in blocks.0.iter().flat_map(|block| &block.hosts).flatten() {
        let port = fabric.port(port);
        leaves.insert(port.leaf);
        *count.entry(port.leaf_port).or_default() += 1;
    }
    let most = |(port, count): (PortNum, usize)| (count * 2 > leaves.len()).then_some(port);
    count.into_iter().filter_map(most).collect()
}

/// The ports at the places of each leaf, and the ports that keep their positions.
struct Table {
    /// The port at each occupied place, by the GUID of the leaf.
    at: BTreeMap<Guid, BTreeMap<u32, Guid>>,
    /// The ports of `blocks` whose cables end at the leaf of their position: they keep it.
    present: BTreeSet<Guid>,
}

impl Table {
    fn new(positions: &HostPositions, blocks: &Blocks, fabric: &GpuFabric) -> Table {
        let mut table = Table {
            at: BTreeMap::new(),
            present: BTreeSet::new(),
        };
        for (&port, position) in &positions.ports {
            table
                .at
                .entry(position.leaf)
                .or_default()
                .insert(position.place, port);
        }
        for &port in blocks.0.iter().flat_map(|block| &block.hosts).flatten() {
            let port = fabric.port(port);
            let leaf = fabric.topology.switch(port.leaf).guid;
            if positions
                .ports
                .get(&port.guid)
                .is_some_and(|position| position.leaf == leaf)
            {
                table.present.insert(port.guid);
            }
        }
        table
    }

    /// The port that has a place of a leaf; `None` if the place is free.
    fn port_at(&self, leaf: Guid, place: u32) -> Option<Guid> {
        self.at.get(&leaf)?.get(&place).copied()
    }

    /// The occupancy of a place: 0 if it is free, 1 if an absent port holds it, 2 if a present port
    /// does.
    fn occupancy(&self, leaf: Guid, place: u32) -> u8 {
        match self.port_at(leaf, place) {
            None => 0,
            Some(port) if !self.present.contains(&port) => 1,
            Some(_) => 2,
        }
    }
}

/// The state of the assignment of positions.
struct Assigner<'a> {
    positions: HostPositions,
    table: Table,
    fabric: &'a GpuFabric,
    usual: &'a [PortNum],
}

impl Assigner<'_> {
    /// The port at an index of the fabric, and the GUID of its leaf.
    fn port(&self, port: u32) -> (&FabricPort, Guid) {
        let port = self.fabric.port(port);
        (port, self.fabric.topology.switch(port.leaf).guid)
    }

    /// Gives positions to the hosts of a block: hosts with a place keep it; then hosts whose cables
    /// end at a free place get that place; all remaining hosts get the lowest free places.
    fn position(&mut self, block: &Block) {
        let mut placed: Vec<Option<u32>> = vec![None; block.hosts.len()];
        let mut taken = BTreeSet::new();
        for (host, ports) in block.hosts.iter().enumerate() {
            let kept = ports.iter().filter_map(|&port| self.place_at_leaf(port));
            placed[host] = most_common(kept).filter(|&place| taken.insert(place));
        }
        for (host, ports) in block.hosts.iter().enumerate() {
            if placed[host].is_none() {
                let place = self.cabled_at(ports).filter(|place| !taken.contains(place));
                // An absent port, or a port that is now cabled elsewhere, may have the place.
                placed[host] = place.filter(|&place| self.occupancy(ports, place) < 2);
                taken.extend(placed[host]);
            }
        }
        let mut rest: Vec<usize> = (0..block.hosts.len())
            .filter(|&host| placed[host].is_none() && !block.hosts[host].is_empty())
            .collect();
        rest.sort_by_key(|&host| self.fabric.port(block.hosts[host][0]).leaf_port);
        for host in rest {
            let ports = &block.hosts[host];
            // A place beyond all others is always free.
            let end = self.positions.ports.len().max(self.usual.len()) + block.hosts.len();
            let free = (0..=end as u32).filter(|place| !taken.contains(place));
            placed[host] = self.best(free, |place| self.occupancy(ports, place));
            taken.extend(placed[host]);
        }
        for (ports, place) in block.hosts.iter().zip(placed) {
            for &port in ports {
                if let Some(place) = place {
                    self.assign(port, place);
                }
            }
        }
    }

    /// The lowest free place within the width of a leaf, else the lowest place of an absent port
    /// there, else the next place beyond.
    fn best(
        &self,
        places: impl Iterator<Item = u32> + Clone,
        occupancy: impl Fn(u32) -> u8,
    ) -> Option<u32> {
        let width = self.positions.stride.max(self.usual.len() as u32);
        let within = places.clone().take_while(|&place| place < width);
        let inside = within.map(|place| (occupancy(place), place)).min();
        match inside {
            Some((0 | 1, place)) => Some(place),
            _ => places
                .into_iter()
                .find(|&place| place >= width && occupancy(place) < 2),
        }
    }

    /// The greatest occupancy of a place at the leaves of a host's ports; a port does not occupy
    /// its own place.
    fn occupancy(&self, ports: &[u32], place: u32) -> u8 {
        let at = |&port: &u32| {
            let (port, leaf) = self.port(port);
            match self.table.port_at(leaf, place) {
                Some(guid) if guid == port.guid => 0,
                _ => self.table.occupancy(leaf, place),
            }
        };
        ports.iter().map(at).max().unwrap_or(0)
    }

    /// The place that a port has at its current leaf; `None` if the port has no place there.
    fn place_at_leaf(&self, port: u32) -> Option<u32> {
        let (port, leaf) = self.port(port);
        let position = self.positions.ports.get(&port.guid)?;
        (position.leaf == leaf).then_some(position.place)
    }

    /// The place that the cables of most ports of a host indicate: the rank of the leaf's port
    /// among the usual ports. `None` without a majority: a place according to cables would then
    /// leave gaps between the places of other hosts.
    fn cabled_at(&self, ports: &[u32]) -> Option<u32> {
        let cabled = |&port: &u32| {
            let place = self
                .usual
                .binary_search(&self.port(port).0.leaf_port)
                .ok()?;
            Some(place as u32)
        };
        let most = most_common(ports.iter().filter_map(cabled))?;
        let agree = ports
            .iter()
            .filter(|port| cabled(port) == Some(most))
            .count();
        (2 * agree > ports.len()).then_some(most)
    }

    /// Gives a port without a position the place of its host or, if a present port has that place,
    /// the best remaining place.
    fn assign(&mut self, port: u32, wanted: u32) {
        if self.place_at_leaf(port).is_some() {
            return;
        }
        let (port, leaf) = self.port(port);
        let guid = port.guid;
        let place = match self.table.occupancy(leaf, wanted) {
            2 => self.best(0.., |place| self.table.occupancy(leaf, place)),
            _ => Some(wanted),
        };
        let Some(place) = place else {
            return;
        };
        if let Some(position) = self.positions.ports.remove(&guid)
            && let Some(places) = self.table.at.get_mut(&position.leaf)
        {
            places.remove(&position.place);
        }
        let places = self.table.at.entry(leaf).or_default();
        if let Some(gone) = places.insert(place, guid) {
            self.positions.ports.remove(&gone);
        }
        self.table.present.insert(guid);
        self.positions
            .ports
            .insert(guid, HostPosition { leaf, place });
    }
}
