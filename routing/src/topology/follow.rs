//! Derives a topology from the previous one and the changed switches.
//!
//! The data of unchanged switches is copied with new numbers of switches and destinations, without
//! sorting or look-ups.

use std::collections::BTreeMap;

use rsm_ids::{Guid, Lid, Lmc, PortNum};

use super::builder::{check_lids, connect, index_lids};
use super::origin::Origin;
use super::{
    Cable, Destination, EndpointKind, FurtherLids, HalfLink, LAST_PORT, NONE, PortUse, Switch,
    SwitchIdx, Topology, TopologyError,
};

/// A switch, its cables, and the end ports attached to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchPart {
    /// The switch.
    pub switch: Switch,
    /// The base LID of port 0.
    pub lid: Lid,
    /// The LMC of port 0, which has 2^LMC LIDs.
    pub lmc: Lmc,
    /// The ends of cables to switches at this switch, loop-backs included.
    pub cables: Vec<CableEnd>,
    /// The end ports attached to the switch.
    pub ends: Vec<EndPart>,
}

/// One end of a cable between switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CableEnd {
    /// The port at this end.
    pub port: PortNum,
    /// The switch and port at the other end.
    pub peer: (Guid, PortNum),
    /// The rate of the cable, as in
    /// [`TopologyBuilder::add_link`](super::TopologyBuilder::add_link).
    pub weight: u32,
}

/// The port of a channel adapter, router or aggregation node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndPart {
    /// The port of the switch to which this port is attached.
    pub port: PortNum,
    /// The port GUID.
    pub guid: Guid,
    /// The base LID of the port.
    pub lid: Lid,
    /// The LMC; the port has 2^LMC LIDs.
    pub lmc: Lmc,
    /// The LIDs of the port's virtual ports.
    pub further: FurtherLids,
    /// The kind of the port.
    pub kind: EndpointKind,
}

impl SwitchPart {
    /// Port 0 of the switch and the end ports attached to it, in the order of their LIDs.
    fn all_ends(&self) -> Vec<EndPart> {
        let own = EndPart {
            port: PortNum::ZERO,
            guid: self.switch.guid,
            lid: self.lid,
            lmc: self.lmc,
            further: FurtherLids::default(),
            kind: EndpointKind::Switch0,
        };
        let mut ends: Vec<EndPart> = std::iter::once(own)
            .chain(self.ends.iter().cloned())
            .collect();
        ends.sort_by_key(|end| end.lid);
        ends
    }
}

/// The uses of one switch's ports; each port has one use.
struct PortClaims {
    /// The GUID of the switch.
    guid: Guid,
    num_ports: u8,
    /// The use of each port, from port 0 on.
    uses: Vec<PortUse>,
}

impl PortClaims {
    /// Claims a port for a use. `is_external` excludes port 0.
    ///
    /// # Errors
    /// There is no such port, or the port has a use already.
    fn claim(
        &mut self,
        port: PortNum,
        by: PortUse,
        is_external: bool,
    ) -> Result<(), TopologyError> {
        let (guid, num_ports) = (self.guid, self.num_ports);
        if is_external && (port == PortNum::ZERO || port.0 > num_ports) {
            return Err(TopologyError::NoSuchPort {
                guid,
                port,
                num_ports,
            });
        }
        let slot = &mut self.uses[port.index()];
        if *slot != PortUse::Unused {
            return Err(TopologyError::PortReused { guid, port });
        }
        *slot = by;
        Ok(())
    }
}

/// The source of a switch of the new topology.
enum Source<'a> {
    /// An unchanged switch, by its previous number.
    Same(SwitchIdx),
    /// A changed or new switch.
    Part(&'a SwitchPart),
}

impl Topology {
    /// Replaces the switches of this topology whose GUIDs are in `changes`; `None` removes a
    /// switch. The result equals the topology that [`TopologyBuilder`](super::TopologyBuilder)
    /// builds from the same parts.
    ///
    /// # Errors
    /// The parts contradict each other or the rest of the topology; both ends must list each cable.
    pub fn follow(
        &self,
        changes: &BTreeMap<Guid, Option<SwitchPart>>,
    ) -> Result<Topology, TopologyError> {
        let sources = self.sources(changes);
        if sources.len() > Lid::UNICAST_LAST.index() {
            return Err(TopologyError::TooManySwitches);
        }
        let mut next = TopologyUpdate::new(self, &sources);
        for (index, source) in sources.iter().enumerate() {
            let index = SwitchIdx(index as u32);
            match source {
                Source::Same(old) => next.copy(self, *old, index)?,
                Source::Part(part) => next.add(part, index)?,
            }
        }
        let of_same = |cable: &&Cable| !changes.contains_key(&cable.a.0);
        let kept = self.loopbacks.iter().filter(of_same);
        next.built.loopbacks.extend(kept.copied());
        next.built.origin = Origin::after(self, changes.keys().copied().collect());
        let topology = next.finish()?;
        topology.check_cables(self, changes)?;
        Ok(topology)
    }

    /// The switches of the new topology, in the order of their GUIDs.
    fn sources<'a>(&self, changes: &'a BTreeMap<Guid, Option<SwitchPart>>) -> Vec<Source<'a>> {
        let mut sources = Vec::with_capacity(self.switches.len() + changes.len());
        let mut changes = changes.iter().peekable();
        for (index, switch) in self.indices().zip(&self.switches) {
            while let Some((_, part)) = changes.next_if(|(guid, _)| **guid < switch.guid) {
                sources.extend(part.as_ref().map(Source::Part));
            }
            match changes.next_if(|(guid, _)| **guid == switch.guid) {
                Some((_, part)) => sources.extend(part.as_ref().map(Source::Part)),
                None => sources.push(Source::Same(index)),
            }
        }
        sources.extend(changes.filter_map(|(_, part)| part.as_ref().map(Source::Part)));
        sources
    }

    /// Checks that both ends list each cable of a changed switch, and that no other switch still
    /// lists a cable that led to a changed switch in `before`.
    fn check_cables(
        &self,
        before: &Topology,
        changes: &BTreeMap<Guid, Option<SwitchPart>>,
    ) -> Result<(), TopologyError> {
        let check = |switch: SwitchIdx, port| match self.peer(switch, port) {
            Some((peer, back)) if self.peer(peer, back) != Some((switch, port)) => {
                let guid = self.switch(switch).guid;
                Err(TopologyError::OneSided { guid, port })
            }
            _ => Ok(()),
        };
        for &guid in changes.keys() {
            if let Some(switch) = self.switch_by_guid(guid) {
                for link in self.links(switch) {
                    check(switch, link.port)?;
                }
            }
            let Some(old) = before.switch_by_guid(guid) else {
                continue;
            };
            for group in before.groups(old) {
                let neighbour = before.switch(group.neighbour).guid;
                if let Some(switch) = self.switch_by_guid(neighbour) {
                    for link in group.links {
                        check(switch, link.peer_port)?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// The topology under construction.
struct TopologyUpdate {
    /// The new number of each switch of the previous topology; [`NONE`] if it has gone.
    moved: Vec<u32>,
    /// Whether the number of some switch has changed.
    is_renumbered: bool,
    /// The GUIDs of the new topology's switches.
    guids: Vec<Guid>,
    /// The new topology, as far as it is complete.
    built: Topology,
}

impl TopologyUpdate {
    fn new(before: &Topology, sources: &[Source<'_>]) -> TopologyUpdate {
        let mut moved = vec![NONE; before.switch_count()];
        let mut guids = Vec::with_capacity(sources.len());
        for (index, source) in sources.iter().enumerate() {
            match source {
                Source::Same(old) => {
                    moved[old.index()] = index as u32;
                    guids.push(before.switch(*old).guid);
                }
                Source::Part(part) => {
                    if let Some(old) = before.switch_by_guid(part.switch.guid) {
                        moved[old.index()] = index as u32;
                    }
                    guids.push(part.switch.guid);
                }
            }
        }
        TopologyUpdate {
            is_renumbered: !moved.iter().copied().eq(0..moved.len() as u32),
            moved,
            guids,
            built: Topology {
                switches: Vec::with_capacity(sources.len()),
                group_start: vec![0],
                groups: Vec::with_capacity(before.groups.len()),
                links: Vec::with_capacity(before.links.len()),
                loopbacks: Vec::new(),
                destinations: Vec::with_capacity(before.destinations.len()),
                destination_start: vec![0],
                by_lid: Vec::new(),
                port_start: vec![0],
                ports: Vec::with_capacity(before.ports.len()),
                components: Vec::new(),
                component_of: Vec::new(),
                origin: Origin::default(),
                rules: before.rules.clone(),
            },
        }
    }

    /// Copies an unchanged switch with its end ports and links; `old` and `index` are its previous
    /// and its new number.
    fn copy(
        &mut self,
        before: &Topology,
        old: SwitchIdx,
        index: SwitchIdx,
    ) -> Result<(), TopologyError> {
        let switch = before.switch(old);
        let to = |peer: u32, port: PortNum| match self.moved[peer as usize] {
            NONE => Err(TopologyError::OneSided {
                guid: switch.guid,
                port,
            }),
            peer => Ok(peer),
        };
        let built = &mut self.built;
        built.switches.push(switch.clone());
        let range = before.destination_range(old);
        let (from, first) = (range.start as u32, built.destinations.len() as u32);
        let kept = before.destinations[range].iter();
        built
            .destinations
            .extend(kept.map(|destination| Destination {
                switch: index,
                ..destination.clone()
            }));
        if self.is_renumbered || from != first {
            for (number, &leads_to) in (0..=u8::MAX).zip(before.port_uses(old)) {
                built.ports.push(match leads_to {
                    PortUse::Unused => PortUse::Unused,
                    PortUse::Link { peer, peer_port } => PortUse::Link {
                        peer: SwitchIdx(to(peer.0, PortNum(number))?),
                        peer_port,
                    },
                    PortUse::Destination(at) => PortUse::Destination(at - from + first),
                });
            }
        } else {
            built.ports.extend_from_slice(before.port_uses(old));
        }
        let links = before.links_of(old);
        let (from, first) = (links.start as u32, built.links.len() as u32);
        for &(neighbour, link) in &before.groups[before.group_range(old)] {
            let peer = to(neighbour, before.links[link as usize].port)?;
            built.groups.push((peer, link - from + first));
        }
        built.links.extend_from_slice(&before.links[links]);
        self.end_switch();
        Ok(())
    }

    /// Adds a changed or new switch; `index` is its number.
    fn add(&mut self, part: &SwitchPart, index: SwitchIdx) -> Result<(), TopologyError> {
        let Switch {
            guid, num_ports, ..
        } = part.switch;
        if num_ports > LAST_PORT {
            return Err(TopologyError::PortCount { guid, num_ports });
        }
        self.built.switches.push(part.switch.clone());
        let mut claims = PortClaims {
            guid,
            num_ports,
            uses: vec![PortUse::Unused; usize::from(num_ports) + 1],
        };
        self.add_ends(part, index, &mut claims)?;
        let halves = self.add_cables(part, index, &mut claims)?;
        let built = &mut self.built;
        built.ports.append(&mut claims.uses);
        for group in halves.chunk_by(|a, b| a.0 == b.0) {
            built.groups.push((group[0].0, built.links.len() as u32));
            built.links.extend(group.iter().map(|&(_, half)| half));
        }
        self.end_switch();
        Ok(())
    }

    /// Adds the end ports of a part as destinations, in the order of their LIDs.
    fn add_ends(
        &mut self,
        part: &SwitchPart,
        index: SwitchIdx,
        claims: &mut PortClaims,
    ) -> Result<(), TopologyError> {
        let destinations = &mut self.built.destinations;
        for end in part.all_ends() {
            check_lids(end.guid, end.lid, end.lmc)?;
            for lid in end.further.iter() {
                check_lids(end.guid, lid, Lmc::ZERO)?;
            }
            let port_use = PortUse::Destination(destinations.len() as u32);
            claims.claim(end.port, port_use, end.kind != EndpointKind::Switch0)?;
            destinations.push(Destination {
                switch: index,
                port: end.port,
                guid: end.guid,
                lid: end.lid,
                lmc: end.lmc,
                further: end.further,
                kind: end.kind,
            });
        }
        Ok(())
    }

    /// Adds the cables from a part to itself as loop-backs. Returns the part's ends of all other
    /// cables, each with the number of the peer, sorted by peer and port.
    fn add_cables(
        &mut self,
        part: &SwitchPart,
        index: SwitchIdx,
        claims: &mut PortClaims,
    ) -> Result<Vec<(u32, HalfLink)>, TopologyError> {
        let guid = part.switch.guid;
        let mut halves = Vec::with_capacity(part.cables.len());
        for cable in &part.cables {
            let found = self.guids.binary_search(&cable.peer.0);
            let peer = found.map_err(|_| TopologyError::UnknownSwitch)? as u32;
            let peer_port = cable.peer.1;
            let port_use = PortUse::Link {
                peer: SwitchIdx(peer),
                peer_port,
            };
            claims.claim(cable.port, port_use, true)?;
            if peer == index.0 {
                self.built.loopbacks.push(Cable {
                    a: (guid, cable.port.min(peer_port)),
                    b: (guid, cable.port.max(peer_port)),
                });
                continue;
            }
            let half = HalfLink {
                port: cable.port,
                peer_port,
                weight: cable.weight.max(1),
            };
            halves.push((peer, half));
        }
        halves.sort_unstable_by_key(|&(peer, half)| (peer, half.port));
        Ok(halves)
    }

    /// Records the ends of the switch's ports, groups and destinations.
    fn end_switch(&mut self) {
        let built = &mut self.built;
        built.port_start.push(built.ports.len() as u32);
        built.group_start.push(built.groups.len() as u32);
        built
            .destination_start
            .push(built.destinations.len() as u32);
    }

    /// Completes the topology: components and the index by LID.
    fn finish(self) -> Result<Topology, TopologyError> {
        let mut built = self.built;
        built.groups.push((NONE, built.links.len() as u32));
        built.loopbacks.sort_unstable();
        // A cable between two ports of one switch is listed at both ports.
        built.loopbacks.dedup();
        (built.components, built.component_of) = connect(&built.group_start, &built.groups);
        built.by_lid = index_lids(&built.destinations)?;
        Ok(built)
    }
}
