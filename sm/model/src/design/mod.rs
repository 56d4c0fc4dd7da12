//! The design: the intended cabling, and the differences of a fabric from it.
//!
//! Input: a [`Design`] that the configuration reads from a file, the swept [`Fabric`], and the
//! nodes that are gone ([`GoneNode`]), because the design may name them. Output: a [`Comparison`]:
//! the number of cables that are as designed, each fault with both ends of its cables, and the
//! moves that correct all faults.
//!
//! Ports joined by designed and present cables form chains: paths and rings in which the two kinds
//! alternate. A chain of one designed and one present cable is right, and no finding names it.
//! Every other chain is one fault with its own moves, so that no move touches a right cable. A move
//! swaps the plugs in two ports, moves a plug to a free port, removes a cable or lays one. No
//! shorter sequence exists, because a move changes only two ends, and therefore splits at most one
//! ring or right cable off a chain.

mod chains;
mod choices;
mod resolved;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use rsm_ids::{Guid, PortKey, PortNum};

use self::chains::Chain;
use self::resolved::Resolved;
use crate::fabric::Fabric;

/// Wildcard in the names of a design, which stands for any text.
pub const WILDCARD: char = '*';

/// The cables that the fabric should have.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Design {
    /// The cables in the order of the file, each once.
    pub cables: Vec<DesignedCable>,
}

/// A cable of a [`Design`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DesignedCable {
    /// Line of the file, from 1.
    pub line: usize,
    /// The two ends, as in the file.
    pub ends: [DesignedEnd; 2],
}

/// An end of a [`DesignedCable`].
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct DesignedEnd {
    /// Name of the node, or its GUID with `0x`; [`WILDCARD`] stands for any text. A name shared by
    /// several nodes stands for any of them.
    pub node: String,
    /// Number of the port; `None` for any port.
    pub port: Option<PortNum>,
}

/// A node that a design names.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Place {
    /// A node that is in the fabric or was there before.
    Node(Guid),
    /// An entry of [`Comparison::absent`].
    Absent(usize),
}

/// A node that was there before and is gone.
#[derive(Clone, Copy, Debug)]
pub struct GoneNode<'a> {
    /// GUID of the node.
    pub guid: Guid,
    /// NodeDescription, or the operator's name.
    pub description: &'a str,
    /// Whether the node was a switch.
    pub is_switch: bool,
}

/// A port that a design names, or that a cable of the fabric ends at.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Spot {
    /// The node.
    pub place: Place,
    /// Number of the port.
    pub port: PortNum,
}

impl Spot {
    /// The port by GUID and number; `None` if its node was never seen.
    pub fn key(self) -> Option<PortKey> {
        match self.place {
            Place::Node(guid) => Some(PortKey::new(guid, self.port)),
            Place::Absent(_) => None,
        }
    }
}

impl From<PortKey> for Spot {
    fn from(key: PortKey) -> Spot {
        Spot {
            place: Place::Node(key.node),
            port: key.port,
        }
    }
}

/// The two ends of a cable, the lower one first.
pub type Cable = [Spot; 2];

/// The cables of a netlist, by both ends: maps each end to the other end.
type FarEnds = BTreeMap<Spot, Spot>;

/// A name of a design that no node has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AbsentNode {
    /// The name, as in the design.
    pub name: String,
    /// First line of the design with the name.
    pub line: usize,
    /// Number of compared cables that end at the node.
    pub cables: usize,
}

/// A cable of a design that cannot be compared.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnclearCable {
    /// Line of the design.
    pub line: usize,
    /// Reason, as text for the operator.
    pub reason: String,
}

/// The kinds of differences between a fabric and its design, in descending order of urgency.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum FaultKind {
    /// Every end is cabled, to a port of another cable of the same fault.
    Exchanged,
    /// Cables lead elsewhere than designed, and designed cables are absent.
    Miswired,
    /// A cable joins two nodes of the design, and the design has no such cable.
    Extra,
    /// A designed cable is absent, while the nodes at both its ends are present.
    Missing,
}

/// A difference between a fabric and its design.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// Kind of the difference.
    pub kind: FaultKind,
    /// Present cables that are not designed.
    pub wrong: Vec<Cable>,
    /// Designed cables that are not present.
    pub wanted: Vec<Cable>,
    /// The moves that correct the fault, in order; no sequence is shorter.
    pub moves: Vec<Move>,
}

/// The kinds of moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MoveKind {
    /// Exchange the plugs in two ports.
    Swap,
    /// Pull the plug out of the first port, and put it into the second port, which is free.
    Shift,
    /// Remove the cable that joins the two ports.
    Remove,
    /// Lay a cable between the two ports, which are free.
    Connect,
}

/// A move of the shortest sequence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Move {
    /// Kind of the move.
    pub kind: MoveKind,
    /// First port.
    pub first: Spot,
    /// Second port.
    pub second: Spot,
    /// A designed cable that the move makes; `None` if it makes none.
    pub makes: Option<Cable>,
    /// The second designed cable that the last swap of several ports makes; `None` if there is none.
    pub also_makes: Option<Cable>,
}

/// A fabric compared with its design.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Comparison {
    /// Number of designed cables; zero without a design.
    pub designed: usize,
    /// Number of designed cables that are present.
    pub right: usize,
    /// Designed cables that cannot be seen: a node at an end is gone, does not answer, or has
    /// another name. They may be right, and no fault names them.
    pub unseen: Vec<Cable>,
    /// The differences, in descending order of urgency.
    pub faults: Vec<Fault>,
    /// Names that no node has.
    pub absent: Vec<AbsentNode>,
    /// Designed cables that cannot be compared.
    pub unclear: Vec<UnclearCable>,
    /// Designed cables, by both ends.
    wanted: FarEnds,
    /// Ports of [`Comparison::wanted`] that lack only the cable between their two ends.
    open: BTreeSet<Spot>,
}

impl Comparison {
    /// Compares `fabric` with `design`, which may name nodes in `gone`.
    pub fn of(design: &Design, fabric: &Fabric, gone: &[GoneNode<'_>]) -> Comparison {
        if design.cables.is_empty() {
            return Comparison::default();
        }
        let present = present_cables(fabric);
        let mut resolved = Resolved::of(design, fabric, gone);
        choices::choose_ports(&mut resolved, &present);
        let mut comparison = Comparison {
            designed: design.cables.len(),
            absent: resolved.absent,
            unclear: resolved.unclear,
            wanted: resolved.wanted,
            ..Comparison::default()
        };
        for chain in chains::of(&present, &comparison.wanted) {
            comparison.add(chain, &resolved.named, fabric);
        }
        let faults = &mut comparison.faults;
        faults.sort_by_cached_key(|fault| {
            let cables = fault.wrong.iter().chain(&fault.wanted);
            (fault.kind, cables.copied().min())
        });
        comparison
    }

    /// Counts a chain as right or unseen, or adds it as a fault.
    fn add(&mut self, chain: Chain, named: &BTreeSet<Guid>, fabric: &Fabric) {
        if chain.is_right() {
            self.right += 1;
            return;
        }
        let (wrong, wanted) = (chain.present(), chain.wanted());
        if let ([cable], true) = (&wanted[..], chain.has_other_name(named)) {
            self.unseen.push(*cable);
            return;
        }
        if wrong.is_empty() {
            self.open.extend(wanted.iter().flatten());
        }
        let kind = match (&wrong[..], &wanted[..]) {
            ([cable], []) if !is_between(*cable, named) => return,
            (_, []) => FaultKind::Extra,
            ([], [cable]) if is_unseen(*cable, fabric) => {
                self.unseen.push(*cable);
                return;
            }
            ([], _) => FaultKind::Missing,
            _ if chain.is_ring => FaultKind::Exchanged,
            _ => FaultKind::Miswired,
        };
        self.faults.push(Fault {
            kind,
            moves: chain.moves(),
            wrong,
            wanted,
        });
    }

    /// Whether there is no design.
    pub fn is_empty(&self) -> bool {
        self.designed == 0
    }

    /// Whether every designed cable is present, and no fault is left.
    pub fn is_right(&self) -> bool {
        self.right == self.designed && self.faults.is_empty()
    }

    /// Number of cables that are exchanged with one another.
    pub fn exchanged_cables(&self) -> u64 {
        let faults = self.faults.iter();
        let exchanged = faults.filter(|fault| fault.kind == FaultKind::Exchanged);
        exchanged.map(|fault| fault.wrong.len() as u64).sum()
    }

    /// All moves, in an order in which they can be carried out.
    pub fn moves(&self) -> impl Iterator<Item = &Move> {
        self.faults.iter().flat_map(|fault| &fault.moves)
    }

    /// Whether the design has a cable at a port.
    pub fn has_cable_at(&self, port: PortKey) -> bool {
        self.wanted.contains_key(&port.into())
    }

    /// The port that the design cables to `port`; `None` if the design has no cable there.
    pub fn wanted(&self, port: PortKey) -> Option<Spot> {
        self.wanted.get(&port.into()).copied()
    }

    /// Whether a lost cable stays expected: the design has it and its ports have no other cable, or
    /// the design names neither port.
    pub fn keeps_expected(&self, here: PortKey, there: PortKey) -> bool {
        match self.wanted(here) {
            Some(wanted) => wanted == there.into() && self.open.contains(&here.into()),
            None => !self.has_cable_at(there),
        }
    }

    /// The designed cables of a node, each from the end at that node, ascending by port.
    pub fn wanted_at(&self, place: Place) -> impl Iterator<Item = (Spot, Spot)> {
        let at = |port| Spot { place, port };
        let range = at(PortNum::ZERO)..=at(PortNum(u8::MAX));
        self.wanted
            .range(range)
            .map(|(&here, &there)| (here, there))
    }
}

/// The cables of `fabric` by both ends. If the two ends of a cable disagree, the first one decides.
fn present_cables(fabric: &Fabric) -> FarEnds {
    let mut joined = FarEnds::new();
    for (here, there) in fabric.links() {
        let [here, there] = [here, there].map(|end| Spot::from(fabric.key(end)));
        if here != there && !joined.contains_key(&here) && !joined.contains_key(&there) {
            joined.insert(here, there);
            joined.insert(there, here);
        }
    }
    joined
}

/// Whether a cable joins two different nodes of `named`.
fn is_between([here, there]: Cable, named: &BTreeSet<Guid>) -> bool {
    let is_named = |spot: Spot| spot.key().is_some_and(|key| named.contains(&key.node));
    here.place != there.place && is_named(here) && is_named(there)
}

/// Whether a designed cable may be present although neither end shows the other: the node at an end
/// is absent, or both ends have a link.
fn is_unseen(cable: Cable, fabric: &Fabric) -> bool {
    let has_link = cable.map(|spot| {
        let at = fabric.find_port(spot.key()?)?;
        Some(fabric.port(at).up)
    });
    has_link.contains(&None) || has_link == [Some(true); 2]
}
