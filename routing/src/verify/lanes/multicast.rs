//! Multicast packets on the VLs of a routing.
//!
//! A switch sends a multicast packet through all ports of its mask except the one on which it
//! arrived. Each copy uses the VL to which the packet's SL is mapped between these two ports. A
//! packet that came in on one (channel, VL) waits for buffer space on the (channel, VL) of each
//! copy.

use std::collections::BTreeSet;

use fixedbitset::FixedBitSet;
use rsm_ids::PortNum;

use super::graph::{Graph, SlSet, Wait, members};
use super::{LaneChannel, ways};
use crate::lanes::Lanes;
use crate::tables::{PortMask, Tables};
use crate::topology::{SwitchIdx, Topology};
use crate::verify::cycles::Waits;

/// The channel dependency graph over (link, VL) of unicast tables and multicast masks.
#[derive(Clone)]
pub struct LaneDependencies<'a> {
    graph: Graph<'a>,
    /// A place where a packet leaves the routing's VLs; `None` if none does.
    outside_vls: Option<LaneChannel>,
}

/// A channel, identified by the switch and the port from which it leads.
pub(crate) type Sender = (SwitchIdx, PortNum);

impl<'a> LaneDependencies<'a> {
    /// Creates the dependencies of unicast packets; each switch may follow any of `tables`.
    pub fn of(topology: &'a Topology, tables: &[&Tables], lanes: &'a Lanes) -> Self {
        let graph = Graph::new(topology, lanes);
        let outside_vls = ways::add_all(&graph, tables);
        LaneDependencies { graph, outside_vls }
    }

    /// Adds packets to one multicast LID, which switches forward by `masks`. The packets start at
    /// all ports without a link to a switch, with each SL of `levels` (bit n for SL n).
    ///
    /// `masks` are sorted by switch; a switch that is not in the list forwards nothing.
    pub fn add_multicast(&mut self, masks: &[(SwitchIdx, PortMask)], levels: u16) {
        let mask_of = |switch: SwitchIdx| {
            let place = masks.binary_search_by_key(&switch, |&(at, _)| at);
            place.map_or(PortMask::EMPTY, |place| masks[place].1)
        };
        let mut waits = Vec::new();
        for &(switch, mask) in masks {
            for port in mask.ports() {
                let sender = (switch, port);
                let outside_vls = self.collect(sender, &mask_of, levels, &mut waits);
                self.outside_vls = self.outside_vls.or(outside_vls);
            }
        }
        for wait in waits {
            self.graph.add_wait(wait);
        }
    }

    /// Adds the waits of packets in some channels, by masks, and returns true; adds nothing and
    /// returns false if a wait would close a cycle or a packet would leave the routing's VLs. All
    /// waits of the masks in other channels must already be in the graph, which has no cycle.
    pub(crate) fn try_add(
        &mut self,
        senders: &[Sender],
        mask_of: &impl Fn(SwitchIdx) -> PortMask,
        levels: u16,
    ) -> bool {
        let mut waits = Vec::new();
        for &sender in senders {
            if self.collect(sender, mask_of, levels, &mut waits).is_some() {
                return false;
            }
        }
        waits.retain(|&wait| self.graph.add_wait(wait));
        let closes_a_cycle = waits.iter().any(|&wait| self.closes_cycle(wait));
        if closes_a_cycle {
            waits.iter().for_each(|&wait| self.graph.remove_wait(wait));
        }
        !closes_a_cycle
    }

    /// Whether the graph has no credit loop, and no packet leaves the routing's VLs.
    pub fn is_sound(&self) -> bool {
        self.outside_vls.is_none() && self.graph.in_cycles().is_clear()
    }

    /// A credit loop, as [`LaneReport::cycle`](super::LaneReport::cycle).
    pub fn cycle(&self) -> Vec<LaneChannel> {
        let nodes = self.graph.cycle().into_iter();
        nodes.map(|node| self.graph.name(node)).collect()
    }

    /// A place where a packet is dropped or uses a VL that the routing does not use; `None` if
    /// there is none.
    pub fn outside_vls(&self) -> Option<LaneChannel> {
        self.outside_vls
    }

    /// Adds the waits of packets in one channel to `waits`. Returns a place where a packet leaves
    /// the routing's VLs, or `None` if no packet does.
    fn collect(
        &self,
        sender: Sender,
        mask_of: &impl Fn(SwitchIdx) -> PortMask,
        levels: SlSet,
        waits: &mut Vec<Wait>,
    ) -> Option<LaneChannel> {
        let (switch, port) = sender;
        let graph = &self.graph;
        let (next, entry) = graph.topology().peer(switch, port)?;
        let channel = graph.fabric.channel(switch.index(), port.0);
        let inputs = self.inputs(sender, mask_of);
        let onward: Vec<usize> = mask_of(next)
            .ports()
            .filter(|&turn| turn != entry && graph.topology().peer(next, turn).is_some())
            .map(|turn| graph.fabric.channel(next.index(), turn.0))
            .collect();
        let mut outside_vls = None;
        let mut lane = |input: u8, channel: usize, level: usize| {
            let vl = graph.lane(input, channel, level);
            if usize::from(vl) < graph.vls {
                return Some(channel * graph.vls + usize::from(vl));
            }
            let LaneChannel { switch, port, .. } = graph.name(channel * graph.vls);
            outside_vls = outside_vls.or(Some(LaneChannel { switch, port, vl }));
            None
        };
        for level in members(levels) {
            let held: BTreeSet<usize> = inputs
                .iter()
                .filter_map(|&input| lane(input, channel, level))
                .collect();
            for &turn in &onward {
                if let Some(wants) = lane(graph.entry_kinds[channel], turn, level) {
                    waits.extend(held.iter().map(|&holds| Wait { holds, wants }));
                }
            }
        }
        outside_vls
    }

    /// The kinds of ports by which packets come into a channel: ports at which packets start, and
    /// links whose other end forwards to them.
    fn inputs(
        &self,
        (switch, port): Sender,
        mask_of: &impl Fn(SwitchIdx) -> PortMask,
    ) -> BTreeSet<u8> {
        let graph = &self.graph;
        let topology = graph.topology();
        let starts = graph.starts[switch.index()].iter().map(|&(_, kind)| kind);
        let links = topology.groups(switch).flat_map(|group| {
            let forwards = mask_of(group.neighbour);
            let links = group.links.iter();
            links.filter(move |link| link.port != port && forwards.contains(link.peer_port))
        });
        let kind = |input: PortNum| graph.kinds[graph.fabric.channel(switch.index(), input.0)];
        starts.chain(links.map(|link| kind(link.port))).collect()
    }

    /// Whether a chain of waits leads from the end of a wait back to its start.
    fn closes_cycle(&self, wait: Wait) -> bool {
        let mut seen = FixedBitSet::with_capacity(self.graph.nodes());
        seen.insert(wait.wants);
        let mut open = vec![wait.wants];
        while let Some(node) = open.pop() {
            if node == wait.holds {
                return true;
            }
            self.graph.for_each_turn(node, |turn| {
                if !seen.put(turn) {
                    open.push(turn);
                }
            });
        }
        false
    }
}
