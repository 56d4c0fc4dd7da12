//! Follows packets from every host to every LID after each Set.
//!
//! A Set of a forwarding table can only lose packets that pass its switch to the LIDs whose entries
//! it changes. If a packet from this switch arrives, packets from all other switches arrive as
//! well; if not, this module follows packets from each switch with hosts. The result therefore
//! covers all pairs at every moment.

use std::collections::{BTreeMap, BTreeSet};

use rsm_ids::{Guid, Lid, PortNum};
use rsm_mad::wire::attr::{Attribute, LinearForwardingTable, PortInfo, PortState, SwitchInfo};
use rsm_routing::netlist::NodeKind;
use rsm_sim::{SetJournalEntry, Sim};

/// The number of losses that are kept as text; further losses are only counted.
const MAX_LOSS_TEXTS: usize = 24;

/// The number of entries in a block of a forwarding table.
const BLOCK_LEN: usize = 64;

/// A bound above the number of switches on any path of the fabrics under test.
const MAX_HOPS: usize = 64;

/// A switch with its forwarding table.
#[derive(Clone)]
struct Switch {
    /// The exit port of each LID; 255 drops packets.
    entries: Vec<u8>,
    /// The highest LID whose entry is in effect.
    top: u16,
    /// The ports by number, including port 0, whose state is ignored.
    ports: Vec<Port>,
    /// If the switch has hosts, for each LID: whether a packet from the switch arrived when the
    /// record began.
    arrives: Vec<bool>,
}

#[derive(Clone, Copy)]
struct Port {
    state: PortState,
    peer: Option<(Guid, PortNum)>,
}

/// Follows packets through the tables and links of a fabric while Sets change them. The record does
/// not notice links that go down: restart the record after such a change.
pub struct Deliveries {
    switches: BTreeMap<Guid, Switch>,
    hosts: BTreeMap<(Guid, PortNum), PortState>,
    /// The switches with hosts.
    leaves: Vec<Guid>,
    /// The node that holds each LID.
    holders: BTreeMap<Lid, Guid>,
    /// The number of followed packets.
    followed: u64,
    /// The (leaf, LID) pairs of lost packets to hosts, and of lost packets to switches.
    lost: [BTreeSet<(Guid, Lid)>; 2],
    /// The first losses, as text.
    loss_texts: Vec<String>,
}

impl Deliveries {
    pub(super) fn start(sim: &Sim) -> Deliveries {
        let state = |port: (Guid, PortNum)| {
            let info = sim.port_info(port.0, port.1).expect("the port exists");
            info.port_state()
        };
        let switch = |guid| {
            let ports = sim.num_ports(guid).expect("the switch exists");
            Switch {
                entries: sim.lft(guid).expect("the switch exists").to_vec(),
                top: sim
                    .switch_info(guid)
                    .expect("the switch exists")
                    .linear_fdb_top()
                    .0,
                ports: (0..=ports)
                    .map(|number| Port {
                        state: state((guid, PortNum(number))),
                        peer: sim.peer(guid, PortNum(number)).ok().flatten(),
                    })
                    .collect(),
                arrives: Vec::new(),
            }
        };
        let switches = sim.nodes().filter(|&(_, kind)| kind == NodeKind::Switch);
        let mut holders = BTreeMap::new();
        for (guid, port) in sim.end_ports() {
            let info = sim.port_info(guid, port).expect("the port exists");
            let lids = info.lid().0..info.lid().0.saturating_add(info.lmc().lids());
            holders.extend(
                lids.map(|lid| (Lid(lid), guid))
                    .filter(|(lid, _)| lid.is_unicast()),
            );
        }
        let hosts = sim
            .nodes()
            .filter(|&(_, kind)| kind != NodeKind::Switch)
            .map(|(guid, _)| guid)
            .collect::<BTreeSet<_>>();
        let ends = sim.end_ports().filter(|(guid, _)| hosts.contains(guid));
        let leaves = ends.filter_map(|(guid, port)| Some(sim.peer(guid, port).ok()??.0));
        let leaves: BTreeSet<Guid> = leaves.filter(|peer| !hosts.contains(peer)).collect();
        let mut deliveries = Deliveries {
            leaves: leaves.into_iter().collect(),
            switches: switches.map(|(guid, _)| (guid, switch(guid))).collect(),
            hosts: sim
                .end_ports()
                .filter(|(_, port)| *port != PortNum::ZERO)
                .map(|port| (port, state(port)))
                .collect(),
            holders,
            followed: 0,
            lost: Default::default(),
            loss_texts: Vec::new(),
        };
        let guids = deliveries.leaves.clone();
        let last = deliveries
            .holders
            .keys()
            .last()
            .map_or(0, |lid| lid.index());
        for guid in guids {
            let arrives = (0..=last)
                .map(|lid| deliveries.arrives(guid, Lid(lid as u16)).is_ok())
                .collect();
            if let Some(switch) = deliveries.switches.get_mut(&guid) {
                switch.arrives = arrives;
            }
        }
        deliveries
    }

    /// The number of followed packets.
    #[must_use]
    pub fn followed(&self) -> u64 {
        self.followed
    }

    /// Asserts that no packet between hosts was lost.
    ///
    /// # Panics
    ///
    /// A packet from a host to a host was lost on a path on which packets had arrived before.
    pub fn assert_nothing_lost_to_hosts(&self) {
        let lost = self.lost[0].len();
        assert_eq!(lost, 0, "packets were lost: {:#?}", self.loss_texts);
    }

    /// Asserts that no packet from a host was lost.
    ///
    /// # Panics
    ///
    /// A packet from a host, to a host or a switch, was lost on a path on which packets had arrived
    /// before.
    pub fn assert_nothing_lost(&self) {
        let lost = self.lost[0].len() + self.lost[1].len();
        assert_eq!(lost, 0, "packets were lost: {:#?}", self.loss_texts);
    }

    /// Applies an effective Set, and follows the packets that it concerns.
    pub(super) fn replay(&mut self, entry: &SetJournalEntry) {
        match entry.attribute {
            LinearForwardingTable::ID => {
                let Some(switch) = self.switches.get_mut(&entry.node) else {
                    return;
                };
                let first = entry.modifier as usize * BLOCK_LEN;
                if switch.entries.len() < first + BLOCK_LEN {
                    switch.entries.resize(first + BLOCK_LEN, 255);
                }
                let held = &mut switch.entries[first..][..BLOCK_LEN];
                let changed: Vec<usize> = (0..BLOCK_LEN)
                    .filter(|&offset| held[offset] != entry.data[offset])
                    .map(|offset| first + offset)
                    .collect();
                held.copy_from_slice(&entry.data);
                self.follow(entry, changed);
            }
            SwitchInfo::ID => {
                let top = SwitchInfo::from_data(&entry.data).linear_fdb_top().0;
                let Some(switch) = self.switches.get_mut(&entry.node) else {
                    return;
                };
                let before = std::mem::replace(&mut switch.top, top);
                let changed = usize::from(before.min(top)) + 1..=usize::from(before.max(top));
                self.follow(entry, changed.collect());
            }
            PortInfo::ID => {
                let state = PortInfo::from_data(&entry.data).port_state();
                if !matches!(state, PortState::Armed | PortState::Active) {
                    return;
                }
                let set = entry.modifier as u8;
                match self.switches.get_mut(&entry.node) {
                    Some(switch) => switch.ports[usize::from(set)].state = state,
                    None => {
                        self.hosts.insert((entry.node, entry.port), state);
                    }
                }
            }
            _ => {}
        }
    }

    /// Follows a packet to each LID from the switch that `entry` changed.
    fn follow(&mut self, entry: &SetJournalEntry, lids: Vec<usize>) {
        for lid in lids {
            // Tables are indexed by LID.
            let lid = Lid(lid as u16);
            if !self.holders.contains_key(&lid) {
                continue;
            }
            self.followed += 1;
            if self.arrives(entry.node, lid).is_ok() {
                continue;
            }
            for leaf in self.leaves.clone() {
                self.follow_from(leaf, entry, lid);
            }
        }
    }

    /// Follows a packet from the switch `leaf`, and records the loss if packets had arrived before.
    fn follow_from(&mut self, leaf: Guid, entry: &SetJournalEntry, lid: Lid) {
        let Err(reason) = self.arrives(leaf, lid) else {
            return;
        };
        let arrived = self.switches[&leaf].arrives[lid.index()];
        let to_switch = usize::from(self.switches.contains_key(&self.holders[&lid]));
        if arrived
            && self.lost[to_switch].insert((leaf, lid))
            && self.loss_texts.len() < MAX_LOSS_TEXTS
        {
            self.loss_texts.push(format!(
                "at {:?}, {} was written: from {leaf} to LID {lid}: {reason}",
                entry.time, entry.node
            ));
        }
    }

    /// Follows a packet from the switch `from`. The error states where and why the packet is lost.
    fn arrives(&self, from: Guid, lid: Lid) -> Result<(), String> {
        let holder = self.holders.get(&lid).ok_or("no port holds the LID")?;
        let mut at = from;
        for _ in 0..MAX_HOPS {
            let switch = &self.switches[&at];
            let exit = match switch.entries.get(lid.index()) {
                Some(&exit) if lid.0 <= switch.top && exit != 255 => exit,
                _ => return Err(format!("{at} has no entry")),
            };
            if exit == 0 {
                return if at == *holder {
                    Ok(())
                } else {
                    Err(format!("{at} consumes the packet"))
                };
            }
            let port = switch.ports.get(usize::from(exit));
            let port = port.ok_or_else(|| format!("{at} has no port {exit}"))?;
            let peer = port
                .peer
                .ok_or_else(|| format!("{at} has no cable at port {exit}"))?;
            let far = match self.switches.get(&peer.0) {
                Some(switch) => switch.ports[peer.1.index()].state,
                None => self.hosts.get(&peer).copied().unwrap_or(PortState::Down),
            };
            if port.state != PortState::Active
                || !matches!(far, PortState::Armed | PortState::Active)
            {
                return Err(format!(
                    "{at} port {exit} is {:?}, its peer {far:?}",
                    port.state
                ));
            }
            if peer.0 == *holder && !self.switches.contains_key(&peer.0) {
                return Ok(());
            }
            if !self.switches.contains_key(&peer.0) {
                return Err(format!("{} does not forward packets", peer.0));
            }
            at = peer.0;
        }
        Err(format!("the packet loops at {at}"))
    }
}
