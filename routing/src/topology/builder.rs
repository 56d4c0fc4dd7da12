//! Builds topologies from their parts, and refuses parts that contradict each other.

use std::sync::Arc;

use rsm_ids::{Guid, Lid, Lmc, PortNum};

use super::origin::Origin;
use super::{
    Cable, Component, Destination, EndpointKind, FurtherLids, HalfLink, LAST_PORT, NONE, NewCable,
    PortUse, Switch, SwitchIdx, Topology,
};

/// A switch of an unfinished topology. The switch has no [`SwitchIdx`] yet: switches are numbered
/// in the order of their GUIDs, once all are added.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SwitchKey(u32);

/// The reason why the parts do not form a topology.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TopologyError {
    /// Two switches have the same GUID.
    #[error("two switches have the GUID {guid}")]
    DuplicateSwitch {
        /// The GUID they share.
        guid: Guid,
    },
    /// There are more switches than unicast LIDs.
    #[error("more switches than the {} unicast LIDs of a subnet", Lid::UNICAST_LAST.0)]
    TooManySwitches,
    /// A switch has more ports than a forwarding table can name.
    #[error("switch {guid} has {num_ports} ports: expected 0 to 254")]
    PortCount {
        /// The GUID of the switch.
        guid: Guid,
        /// The number of ports given.
        num_ports: u8,
    },
    /// The switch belongs to another builder.
    #[error("a port of a switch that was not added")]
    UnknownSwitch,
    /// The port is not one of the switch's external ports.
    #[error("switch {guid} has no {port:?}: expected 1 to {num_ports}")]
    NoSuchPort {
        /// The GUID of the switch.
        guid: Guid,
        /// The port given.
        port: PortNum,
        /// The number of external ports of the switch.
        num_ports: u8,
    },
    /// Two cables end at one port.
    #[error("two cables end at {port:?} of switch {guid}")]
    PortReused {
        /// The GUID of the switch.
        guid: Guid,
        /// The number of the port.
        port: PortNum,
    },
    /// A port leads to a port that does not lead back.
    #[error("{port:?} of switch {guid} leads to a port that does not lead back")]
    OneSided {
        /// The switch that states the cable.
        guid: Guid,
        /// The port that states the cable.
        port: PortNum,
    },
    /// The first or the last of a port's 2^LMC LIDs is not unicast.
    #[error("port {guid} has {lid:?} with LMC {lmc}: expected within 1 to 49151")]
    LidRange {
        /// The port (or switch) that holds the LID.
        guid: Guid,
        /// The base LID of the port.
        lid: Lid,
        /// The LMC of the port.
        lmc: Lmc,
    },
    /// Two ports have the same LID.
    #[error("{lid:?} is held by both {first} and {second}")]
    DuplicateLid {
        /// The LID.
        lid: Lid,
        /// The port that was added first.
        first: Guid,
        /// The port that claims the same LID.
        second: Guid,
    },
}

/// A cable between ports of switches, which are identified by their keys or, when the topology is
/// assembled, by their numbers.
#[derive(Clone, Copy)]
struct PendingLink {
    ends: [(u32, PortNum); 2],
    weight: u32,
}

impl PendingLink {
    /// Whether both ends are at one switch.
    fn is_loopback(&self) -> bool {
        self.ends[0].0 == self.ends[1].0
    }
}

/// Collects switches, cables and end ports, in any order, into a [`Topology`].
#[derive(Default)]
pub struct TopologyBuilder {
    switches: Vec<Switch>,
    links: Vec<PendingLink>,
    /// The destinations. Their `switch` holds the switch's key until the topology is built.
    destinations: Vec<Destination>,
}

impl TopologyBuilder {
    /// Creates a builder without any parts.
    pub fn new() -> TopologyBuilder {
        TopologyBuilder::default()
    }

    /// Adds a switch with `num_ports` external ports, whose port 0 has 2^`lmc` LIDs from `lid` on
    /// and whose forwarding table holds `linear_fdb_cap` entries.
    pub fn add_switch(
        &mut self,
        guid: Guid,
        num_ports: u8,
        lid: Lid,
        lmc: Lmc,
        linear_fdb_cap: u16,
    ) -> Result<SwitchKey, TopologyError> {
        if num_ports > LAST_PORT {
            return Err(TopologyError::PortCount { guid, num_ports });
        }
        if self.switches.len() >= Lid::UNICAST_LAST.index() {
            return Err(TopologyError::TooManySwitches);
        }
        check_lids(guid, lid, lmc)?;
        let key = self.switches.len() as u32;
        self.switches.push(Switch {
            guid,
            num_ports,
            linear_fdb_cap,
        });
        self.destinations.push(Destination {
            switch: SwitchIdx(key),
            port: PortNum::ZERO,
            guid,
            lid,
            lmc,
            further: FurtherLids::default(),
            kind: EndpointKind::Switch0,
        });
        Ok(SwitchKey(key))
    }

    /// Adds a cable between two ports of switches. `weight` is its rate, in any unit that the whole
    /// topology shares; 0 counts as 1.
    pub fn add_link(
        &mut self,
        a: SwitchKey,
        a_port: PortNum,
        b: SwitchKey,
        b_port: PortNum,
        weight: u32,
    ) -> Result<(), TopologyError> {
        self.check_port(a, a_port)?;
        self.check_port(b, b_port)?;
        self.links.push(PendingLink {
            ends: [(a.0, a_port), (b.0, b_port)],
            weight: weight.max(1),
        });
        Ok(())
    }

    /// Adds the port of a channel adapter, router or aggregation node that is attached to a switch.
    ///
    /// `kind` must not be [`EndpointKind::Switch0`], which every switch gets automatically.
    pub fn add_endport(
        &mut self,
        switch: SwitchKey,
        port: PortNum,
        guid: Guid,
        lid: Lid,
        lmc: Lmc,
        kind: EndpointKind,
    ) -> Result<(), TopologyError> {
        self.check_port(switch, port)?;
        check_lids(guid, lid, lmc)?;
        self.destinations.push(Destination {
            switch: SwitchIdx(switch.0),
            port,
            guid,
            lid,
            lmc,
            further: FurtherLids::default(),
            kind,
        });
        Ok(())
    }

    /// Builds the topology, or returns its first contradiction.
    pub fn build(self) -> Result<Topology, TopologyError> {
        let TopologyBuilder {
            switches,
            links,
            destinations,
        } = self;
        let mut order: Vec<u32> = (0..switches.len() as u32).collect();
        order.sort_unstable_by_key(|&key| switches[key as usize].guid);
        for pair in order.windows(2) {
            let [a, b] = [pair[0], pair[1]].map(|key| switches[key as usize].guid);
            if a == b {
                return Err(TopologyError::DuplicateSwitch { guid: a });
            }
        }
        let mut index_of = vec![0u32; switches.len()];
        for (index, &key) in order.iter().enumerate() {
            index_of[key as usize] = index as u32;
        }
        let switches = order
            .iter()
            .map(|&key| switches[key as usize].clone())
            .collect();
        let links = links
            .into_iter()
            .map(|link| PendingLink {
                ends: link.ends.map(|(key, port)| (index_of[key as usize], port)),
                ..link
            })
            .collect();
        let destinations = destinations
            .into_iter()
            .map(|destination| Destination {
                switch: SwitchIdx(index_of[destination.switch.index()]),
                ..destination
            })
            .collect();
        assemble(switches, links, destinations)
    }

    /// Reduces `from` to the cables for which `keep` is true at both ends, and to the end ports for
    /// which `keep` is true at their switch port. All switches remain.
    pub(super) fn remaining(
        from: &Topology,
        keep: impl Fn(SwitchIdx, PortNum) -> bool,
    ) -> Topology {
        let mut links = pending_links(from);
        links.retain(|link| {
            let mut ends = link.ends.iter();
            ends.all(|&(switch, port)| keep(SwitchIdx(switch), port))
        });
        let destinations = from
            .destinations
            .iter()
            .filter(|destination| {
                destination.kind == EndpointKind::Switch0
                    || keep(destination.switch, destination.port)
            })
            .cloned()
            .collect();
        assemble(from.switches.clone(), links, destinations)
            .expect("a part of a topology contradicts itself no more than the whole did")
    }

    /// Adds cables to free ports of `from`.
    ///
    /// # Panics
    /// If a port is not free.
    pub(super) fn extended(from: &Topology, cables: &[NewCable]) -> Topology {
        let mut links = pending_links(from);
        links.extend(cables.iter().map(|cable| PendingLink {
            ends: cable.ends.map(|(switch, port)| (switch.0, port)),
            weight: cable.weight,
        }));
        assemble(from.switches.clone(), links, from.destinations.clone())
            .expect("cables at free ports contradict nothing")
    }

    /// Extends `present` by the parts that only `earlier` has. A part of `earlier` that contradicts
    /// `present` is left out; if both together have more switches than there are unicast LIDs, all
    /// parts of `earlier` are left out.
    pub(super) fn joined(present: &Topology, earlier: &Topology) -> Topology {
        let mut switches = present.switches.clone();
        let missing = |guid| present.switch_by_guid(guid).is_none();
        switches.extend(earlier.switches.iter().filter(|s| missing(s.guid)).cloned());
        if switches.len() > Lid::UNICAST_LAST.index() {
            return present.clone();
        }
        switches.sort_unstable_by_key(|switch| switch.guid);
        let place_of = |guid: Guid| {
            let found = switches.binary_search_by_key(&guid, |switch| switch.guid);
            // The list contains every switch of both topologies.
            found.unwrap_or(usize::MAX) as u32
        };
        let places =
            |of: &Topology| -> Vec<u32> { of.switches.iter().map(|s| place_of(s.guid)).collect() };
        let (now, then) = (places(present), places(earlier));
        // A port of an earlier switch is free if no present part uses it.
        let is_free = |switch: SwitchIdx, port: PortNum| {
            let now = present.switch_by_guid(earlier.switch(switch).guid);
            now.is_none_or(|now| {
                port.0 <= present.switch(now).num_ports
                    && present.port_use(now, port) == PortUse::Unused
            })
        };
        let mut links = Vec::with_capacity(earlier.link_count().max(present.link_count()));
        for (topology, places, is_present) in [(present, &now, true), (earlier, &then, false)] {
            let mut added = pending_links(topology);
            // Absent loop-backs are forgotten: a cable that is still missing may belong to their
            // ports.
            added.retain(|link| {
                let mut ends = link.ends.iter();
                is_present
                    || !link.is_loopback()
                        && ends.all(|&(switch, port)| is_free(SwitchIdx(switch), port))
            });
            links.extend(added.into_iter().map(|link| {
                PendingLink {
                    ends: link
                        .ends
                        .map(|(switch, port)| (places[switch as usize], port)),
                    ..link
                }
            }));
        }
        let at = |places: &[u32], destination: &Destination| Destination {
            switch: SwitchIdx(places[destination.switch.index()]),
            ..destination.clone()
        };
        let mut destinations: Vec<Destination> =
            present.destinations.iter().map(|d| at(&now, d)).collect();
        let mut guids: Vec<Guid> = present.destinations.iter().map(|d| d.guid).collect();
        guids.sort_unstable();
        let is_gone = |destination: &&Destination| {
            let switch_is_gone = missing(earlier.switch(destination.switch).guid);
            let port_is_free = destination.port == PortNum::ZERO && switch_is_gone
                || destination.port != PortNum::ZERO
                    && is_free(destination.switch, destination.port);
            port_is_free
                && guids.binary_search(&destination.guid).is_err()
                && destination
                    .own_lids()
                    .all(|lid| present.destination_of(lid).is_none())
        };
        let absent = earlier.destinations.iter().filter(is_gone);
        // Virtual ports of absent ports may have moved to present ports, with their LIDs.
        destinations.extend(absent.map(|destination| Destination {
            further: FurtherLids::default(),
            ..at(&then, destination)
        }));
        let nothing_has_gone = switches.len() == present.switches.len()
            && links.len() == present.link_count() + present.loopbacks.len()
            && destinations.len() == present.destinations.len();
        if nothing_has_gone {
            return present.clone();
        }
        assemble(switches, links, destinations)
            .expect("what would contradict the fabric as it is was left out")
    }

    /// Checks that an external port exists.
    fn check_port(&self, switch: SwitchKey, port: PortNum) -> Result<(), TopologyError> {
        let Some(found) = self.switches.get(switch.0 as usize) else {
            return Err(TopologyError::UnknownSwitch);
        };
        if port == PortNum::ZERO || port.0 > found.num_ports {
            return Err(TopologyError::NoSuchPort {
                guid: found.guid,
                port,
                num_ports: found.num_ports,
            });
        }
        Ok(())
    }
}

/// All cables of a topology, loop-backs included.
fn pending_links(of: &Topology) -> Vec<PendingLink> {
    let mut links = Vec::with_capacity(of.link_count() + of.loopbacks.len());
    for switch in of.indices() {
        for group in of.groups(switch).filter(|group| group.neighbour > switch) {
            links.extend(group.links.iter().map(|link| PendingLink {
                ends: [(switch.0, link.port), (group.neighbour.0, link.peer_port)],
                weight: link.weight,
            }));
        }
    }
    let loopbacks = of.loopbacks.iter();
    links.extend(loopbacks.filter_map(|cable| {
        let switch = of.switch_by_guid(cable.a.0)?;
        Some(PendingLink {
            ends: [(switch.0, cable.a.1), (switch.0, cable.b.1)],
            weight: 1,
        })
    }));
    links
}

/// Checks that all 2^LMC LIDs from `lid` on are unicast.
pub(super) fn check_lids(guid: Guid, lid: Lid, lmc: Lmc) -> Result<(), TopologyError> {
    let last = lid.0.checked_add(lmc.lids() - 1).map(Lid);
    match last {
        Some(last) if lid.is_unicast() && last.is_unicast() => Ok(()),
        _ => Err(TopologyError::LidRange { guid, lid, lmc }),
    }
}

/// Assembles a topology. Switches are sorted by GUID, and the other parts refer to their numbers.
fn assemble(
    switches: Vec<Switch>,
    links: Vec<PendingLink>,
    mut destinations: Vec<Destination>,
) -> Result<Topology, TopologyError> {
    destinations.sort_by_key(|destination| (destination.switch, destination.lid));
    let port_start = port_starts(&switches);
    let ports = port_uses(&switches, &port_start, &destinations, &links)?;
    let halves = half_links(&links);
    let (group_start, groups) = group(switches.len(), &halves);
    let (components, component_of) = connect(&group_start, &groups);
    let by_lid = index_lids(&destinations)?;
    let loopbacks = loopbacks(&switches, &links);
    let destination_start = destination_starts(switches.len(), &destinations);
    Ok(Topology {
        switches,
        group_start,
        groups,
        links: halves.into_iter().map(|(_, _, half)| half).collect(),
        loopbacks,
        destinations,
        destination_start,
        by_lid,
        port_start,
        ports,
        components,
        component_of,
        origin: Origin::default(),
        rules: Arc::default(),
    })
}

/// For each switch, the index of its port 0 in a list of the ports of all switches; one more
/// element holds the length of the list.
fn port_starts(switches: &[Switch]) -> Vec<u32> {
    let mut starts = Vec::with_capacity(switches.len() + 1);
    let mut next = 0;
    for switch in switches {
        starts.push(next);
        next += u32::from(switch.num_ports) + 1;
    }
    starts.push(next);
    starts
}

/// Finds the use of each port of all switches.
///
/// # Errors
/// A port has two uses.
fn port_uses(
    switches: &[Switch],
    start: &[u32],
    destinations: &[Destination],
    links: &[PendingLink],
) -> Result<Vec<PortUse>, TopologyError> {
    let mut ports = Ports {
        switches,
        start,
        uses: vec![PortUse::Unused; start[switches.len()] as usize],
    };
    for (index, destination) in destinations.iter().enumerate() {
        let leads_to = PortUse::Destination(index as u32);
        ports.claim(destination.switch.0, destination.port, leads_to)?;
    }
    for link in links {
        let [(a, a_port), (b, b_port)] = link.ends;
        ports.claim_link(a, a_port, b, b_port)?;
        // A loop-back plug can connect a port to itself: one port, one claim.
        if (a, a_port) != (b, b_port) {
            ports.claim_link(b, b_port, a, a_port)?;
        }
    }
    Ok(ports.uses)
}

/// Both directions of the links between different switches, as (switch, neighbour, half link),
/// sorted by switch, neighbour and port.
fn half_links(links: &[PendingLink]) -> Vec<(u32, u32, HalfLink)> {
    let mut halves = Vec::with_capacity(links.len() * 2);
    for link in links.iter().filter(|link| !link.is_loopback()) {
        let [one, other] = link.ends;
        for ((from, port), (to, peer_port)) in [(one, other), (other, one)] {
            let half = HalfLink {
                port,
                peer_port,
                weight: link.weight,
            };
            halves.push((from, to, half));
        }
    }
    halves.sort_unstable_by_key(|&(from, to, half)| (from, to, half.port));
    halves
}

/// The cables from a switch to itself, sorted.
fn loopbacks(switches: &[Switch], links: &[PendingLink]) -> Vec<Cable> {
    let loopbacks = links.iter().filter(|link| link.is_loopback());
    let mut cables: Vec<Cable> = loopbacks
        .map(|link| {
            let [(switch, a_port), (_, b_port)] = link.ends;
            let guid = switches[switch as usize].guid;
            Cable {
                a: (guid, a_port.min(b_port)),
                b: (guid, a_port.max(b_port)),
            }
        })
        .collect();
    cables.sort_unstable();
    cables
}

/// For each switch, the index of its first destination; one more element holds the number of
/// destinations.
fn destination_starts(switches: usize, destinations: &[Destination]) -> Vec<u32> {
    let mut starts = vec![0u32; switches + 1];
    for destination in destinations {
        starts[destination.switch.index() + 1] += 1;
    }
    for switch in 0..switches {
        starts[switch + 1] += starts[switch];
    }
    starts
}

/// The uses of the ports of all switches, while they are being found.
struct Ports<'a> {
    switches: &'a [Switch],
    start: &'a [u32],
    uses: Vec<PortUse>,
}

impl Ports<'_> {
    fn claim_link(
        &mut self,
        switch: u32,
        port: PortNum,
        peer: u32,
        peer_port: PortNum,
    ) -> Result<(), TopologyError> {
        let peer = SwitchIdx(peer);
        self.claim(switch, port, PortUse::Link { peer, peer_port })
    }

    /// Records the use of a port; fails if the port has a use already.
    fn claim(&mut self, switch: u32, port: PortNum, by: PortUse) -> Result<(), TopologyError> {
        let slot = &mut self.uses[self.start[switch as usize] as usize + port.index()];
        if *slot != PortUse::Unused {
            return Err(TopologyError::PortReused {
                guid: self.switches[switch as usize].guid,
                port,
            });
        }
        *slot = by;
        Ok(())
    }
}

/// Forms the port groups of links that are sorted by (switch, neighbour, port). Returns the fields
/// `group_start` and `groups` of [`Topology`].
fn group(switches: usize, links: &[(u32, u32, HalfLink)]) -> (Vec<u32>, Vec<(u32, u32)>) {
    let mut group_start = vec![0u32; switches + 1];
    let mut groups: Vec<(u32, u32)> = Vec::new();
    let mut last = None;
    for (index, &(from, to, _)) in links.iter().enumerate() {
        if last != Some((from, to)) {
            last = Some((from, to));
            groups.push((to, index as u32));
            group_start[from as usize + 1] += 1;
        }
    }
    groups.push((NONE, links.len() as u32));
    for switch in 0..switches {
        group_start[switch + 1] += group_start[switch];
    }
    (group_start, groups)
}

/// Finds the connected components, and the number of each switch's component.
pub(super) fn connect(group_start: &[u32], groups: &[(u32, u32)]) -> (Vec<Component>, Vec<u32>) {
    let switches = group_start.len() - 1;
    let mut component_of = vec![NONE; switches];
    let mut components: Vec<Component> = Vec::new();
    for first in 0..switches {
        if component_of[first] != NONE {
            continue;
        }
        let number = components.len() as u32;
        component_of[first] = number;
        let mut found = vec![SwitchIdx(first as u32)];
        let mut done = 0;
        while let Some(&switch) = found.get(done) {
            done += 1;
            let range = group_start[switch.index()]..group_start[switch.index() + 1];
            for group in range {
                let neighbour = groups[group as usize].0;
                if component_of[neighbour as usize] == NONE {
                    component_of[neighbour as usize] = number;
                    found.push(SwitchIdx(neighbour));
                }
            }
        }
        found.sort_unstable();
        components.push(Component { switches: found });
    }
    (components, component_of)
}

/// For each LID up to the highest in use, the index of its destination, or [`NONE`]. Fails if two
/// destinations have one LID.
pub(super) fn index_lids(destinations: &[Destination]) -> Result<Vec<u32>, TopologyError> {
    let top = destinations
        .iter()
        .flat_map(Destination::lids)
        .max()
        .map_or(0, |lid| lid.index() + 1);
    let mut by_lid = vec![NONE; top];
    for (index, destination) in destinations.iter().enumerate() {
        for lid in destination.lids() {
            let slot = &mut by_lid[lid.index()];
            if *slot != NONE {
                return Err(TopologyError::DuplicateLid {
                    lid,
                    first: destinations[*slot as usize].guid,
                    second: destination.guid,
                });
            }
            *slot = index as u32;
        }
    }
    Ok(by_lid)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two switches with `ports` external ports and a cable from port 1 of the first switch to the
    /// second one; `loopback` is a cable between two ports of the first switch.
    fn pair(loopback: Option<[u8; 2]>, third: bool) -> Topology {
        let mut builder = TopologyBuilder::new();
        let lmc = Lmc::default();
        let count = if third { 3 } else { 2 };
        let switches: Vec<SwitchKey> = (1..=count)
            .map(|number| {
                let added = builder.add_switch(Guid(number), 4, Lid(number as u16), lmc, 64);
                added.unwrap()
            })
            .collect();
        for (number, &other) in (1..).zip(&switches[1..]) {
            let (port, peer) = (PortNum(number), PortNum(1));
            let added = builder.add_link(switches[0], port, other, peer, 1);
            added.unwrap();
        }
        if let Some([a, b]) = loopback {
            let added = builder.add_link(switches[0], PortNum(a), switches[0], PortNum(b), 1);
            added.unwrap();
        }
        builder.build().unwrap()
    }

    #[test]
    fn a_present_loopback_keeps_its_ports_and_an_absent_one_does_not() {
        let whole = pair(None, true);
        let present = pair(Some([3, 4]), false);
        let joined = TopologyBuilder::joined(&present, &whole);
        assert_eq!(joined.switch_count(), 3);
        assert_eq!(joined.loopbacks(), present.loopbacks());
        let first = joined.switch_by_guid(Guid(1)).unwrap();
        for port in [3, 4] {
            assert_ne!(joined.port_use(first, PortNum(port)), PortUse::Unused);
        }
        // Without the loop-back, its ports are free again.
        let later = TopologyBuilder::joined(&pair(None, false), &joined);
        assert_eq!(later.switch_count(), 3);
        assert!(later.loopbacks().is_empty());
        // A loop-back where the cable to the third switch was takes that port.
        let moved = pair(Some([2, 3]), false);
        let joined = TopologyBuilder::joined(&moved, &whole);
        assert_eq!((joined.link_count(), joined.loopbacks().len()), (1, 1));
        // Nothing has gone: the topology stays as it is, with its loop-back.
        let same = TopologyBuilder::joined(&present, &present);
        assert_eq!(same.loopbacks(), present.loopbacks());
    }
}
