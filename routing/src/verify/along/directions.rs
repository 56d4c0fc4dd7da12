//! The directions, up or down, of entries in an order of the switches.

use rayon::prelude::*;
use rsm_ids::PortNum;

use crate::tables::NO_PATH;
use crate::topology::{PortUse, SwitchIdx, Topology};

/// The direction of an output port in the order of the switches.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    /// The port leads nowhere: packets are discarded.
    Nowhere,
    /// The port leads to a host, or to the switch itself.
    End,
    Up(SwitchIdx),
    Down(SwitchIdx),
}

/// The direction of every output port, and the neighbours above a switch.
pub(super) struct Directions<'a> {
    pub(super) topology: &'a Topology,
    /// Whether the first switch lies above the second.
    is_above: &'a (dyn Fn(SwitchIdx, SwitchIdx) -> bool + Sync),
    /// The directions of `stride` ports of each switch; the last one stands for all higher ports.
    /// If the list is empty, each direction is found when needed.
    known: Vec<Direction>,
    stride: usize,
}

impl<'a> Directions<'a> {
    /// Creates the directions of `topology`; `is_above` returns whether the first switch lies above
    /// the second.
    pub(super) fn new(
        topology: &'a Topology,
        is_above: &'a (dyn Fn(SwitchIdx, SwitchIdx) -> bool + Sync),
    ) -> Directions<'a> {
        Directions {
            topology,
            is_above,
            known: Vec::new(),
            stride: 0,
        }
    }

    /// Finds the directions of all ports, for many look-ups.
    pub(super) fn find_all(&mut self) {
        let topology = self.topology;
        let ports = topology.indices().map(|at| topology.port_uses(at).len());
        self.stride = ports.max().unwrap_or(0) + 1;
        let of_switch = |switch| -> Vec<Direction> {
            // Ports are numbered with 8 bits.
            let ports = (0..self.stride).map(|port| u8::try_from(port).unwrap_or(NO_PATH));
            ports.map(|port| self.find(switch, port)).collect()
        };
        self.known = topology.par_indices().flat_map_iter(of_switch).collect();
    }

    /// The direction in which a switch sends packets with this entry.
    pub(super) fn get(&self, switch: SwitchIdx, entry: u8) -> Direction {
        if self.known.is_empty() {
            return self.find(switch, entry);
        }
        let port = usize::from(entry).min(self.stride - 1);
        self.known[switch.index() * self.stride + port]
    }

    /// Finds the direction of an entry in the topology.
    fn find(&self, switch: SwitchIdx, entry: u8) -> Direction {
        match self.topology.port_use(switch, PortNum(entry)) {
            PortUse::Link { peer, .. } if (self.is_above)(peer, switch) => Direction::Up(peer),
            PortUse::Link { peer, .. } => Direction::Down(peer),
            PortUse::Destination(_) => Direction::End,
            PortUse::Unused => Direction::Nowhere,
        }
    }

    /// Whether the entry leads up.
    pub(super) fn is_up(&self, switch: SwitchIdx, entry: u8) -> bool {
        matches!(self.get(switch, entry), Direction::Up(_))
    }

    /// The switch to which packets go next; `None` if they leave the fabric or are discarded.
    pub(super) fn next(&self, switch: SwitchIdx, entry: u8) -> Option<SwitchIdx> {
        match self.get(switch, entry) {
            Direction::Up(next) | Direction::Down(next) => Some(next),
            Direction::Nowhere | Direction::End => None,
        }
    }

    /// The neighbours above a switch.
    pub(super) fn above(&self, switch: SwitchIdx) -> impl Iterator<Item = SwitchIdx> + '_ {
        let neighbours = self.topology.groups(switch).map(|group| group.neighbour);
        neighbours.filter(move |&neighbour| (self.is_above)(neighbour, switch))
    }
}
