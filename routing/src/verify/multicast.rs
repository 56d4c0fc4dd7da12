//! Checks the paths of packets under multicast masks, and whether they can deadlock together with
//! the unicast routes.

use std::collections::{BTreeMap, BTreeSet};

use rsm_ids::{Guid, Lid, PortNum};

use super::MAX_WITNESSES;
use super::dependencies::Dependencies;
use super::lanes::{LaneChannel, LaneDependencies};
use crate::lanes::Lanes;
use crate::tables::{Member, PortMask, Tables, Tree, Trees};
use crate::topology::{Orientation, PortUse, SwitchIdx, Topology};

/// The result of a check of multicast masks.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct MulticastReport {
    /// The number of multicast LIDs that were checked.
    pub groups: usize,
    /// Whether no packet can loop or reach a port twice: the links of each multicast LID form
    /// trees.
    pub loop_free: bool,
    /// The number of times that members of a part cannot reach each other: members outside the
    /// part's tree, and missing bits in masks.
    pub unreached: u64,
    /// The number of ports that get packets of a group in which they do not receive.
    pub strays: u64,
    /// The number of members that belong to no part of their tree.
    pub unserved: u64,
    /// Whether masks and unicast routes together close no credit loop.
    pub credit_loop_free: bool,
    /// Examples of the faults.
    pub witnesses: Vec<MulticastWitness>,
}

/// One fault in multicast masks, with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MulticastWitness {
    /// A link closes a cycle.
    Loop {
        /// The multicast LID of the group.
        mlid: Lid,
        /// The switch that sends over the link.
        switch: Guid,
        /// The port by which it sends.
        port: PortNum,
    },
    /// Packets do not reach a port that should get them.
    Missing {
        /// The multicast LID of the packets.
        mlid: Lid,
        /// The switch whose mask lacks a port, or that is not connected to the other members.
        switch: Guid,
        /// The missing port.
        port: PortNum,
    },
    /// Packets reach a port that should not get them.
    Stray {
        /// The multicast LID of the packets.
        mlid: Lid,
        /// The switch that sends the packets.
        switch: Guid,
        /// The port by which the packets leave.
        port: PortNum,
    },
    /// A credit loop of trees and unicast routes that need several VLs: each (link, VL) can wait
    /// for the next, and the last for the first.
    CreditLoopOnLanes {
        /// The links and VLs of the loop, in order.
        channels: Vec<LaneChannel>,
    },
    /// Packets leave the VLs that the routing uses.
    OffLanes {
        /// The link and VL on which they are sent; VL 15 if they are dropped.
        channel: LaneChannel,
    },
}

/// Checks the masks of trees against their members, and the dependencies of trees together with the
/// dependencies of the unicast `tables`.
///
/// With `checked_mlids`, checks only the trees of these multicast LIDs; all other trees must have
/// been proved without a fault, follow the orientation, and have unchanged links. With an
/// `orientation` that the unicast tables are known to follow, trees that follow it as well need no
/// further proof. All other trees are proved together, on the VLs of `lanes` that their packets
/// use.
pub fn verify_multicast(
    topology: &Topology,
    (tables, lanes): (&Tables, &Lanes),
    orientation: Option<&Orientation>,
    trees: &Trees,
    checked_mlids: Option<&BTreeSet<Lid>>,
) -> MulticastReport {
    let mut report = MulticastReport {
        groups: trees.by_mlid.len(),
        loop_free: true,
        credit_loop_free: true,
        ..MulticastReport::default()
    };
    let mut all_follow = orientation.is_some();
    for (mlid, tree) in &trees.by_mlid {
        report.unserved += tree.unserved() as u64;
        if checked_mlids.is_some_and(|checked_mlids| !checked_mlids.contains(mlid)) {
            continue;
        }
        let graph = LinkGraph::new(topology, tree);
        graph.check(&mut report);
        all_follow &=
            orientation.is_some_and(|orientation| masks_follow(topology, orientation, &tree.masks));
    }
    if all_follow {
        return report;
    }
    if lanes.is_single() {
        let mut dependencies = Dependencies::of(topology, tables);
        for tree in trees.by_mlid.values() {
            dependencies.add_multicast(&tree.masks);
        }
        report.credit_loop_free = dependencies.is_acyclic();
    } else {
        check_lanes(topology, (tables, lanes), trees, &mut report);
    }
    report
}

/// Proves trees and unicast routes together on their VLs.
fn check_lanes(
    topology: &Topology,
    (tables, lanes): (&Tables, &Lanes),
    trees: &Trees,
    report: &mut MulticastReport,
) {
    let mut dependencies = LaneDependencies::of(topology, &[tables], lanes);
    for tree in trees.by_mlid.values() {
        dependencies.add_multicast(&tree.masks, tree.group.levels);
    }
    let outside_vls = dependencies.outside_vls();
    let channels = dependencies.cycle();
    report.credit_loop_free = outside_vls.is_none() && channels.is_empty();
    let outside_vls = outside_vls.map(|channel| MulticastWitness::OffLanes { channel });
    report.witnesses.extend(outside_vls);
    if !channels.is_empty() {
        let witness = MulticastWitness::CreditLoopOnLanes { channels };
        report.witnesses.push(witness);
    }
}

/// Whether the masks of switches make no packet to a multicast LID turn up after going down.
///
/// `masks` are sorted by switch; a switch that is not in the list forwards nothing.
pub fn masks_follow(
    topology: &Topology,
    orientation: &Orientation,
    masks: &[(SwitchIdx, PortMask)],
) -> bool {
    let mask_of = |switch: SwitchIdx| {
        let place = masks.binary_search_by_key(&switch, |&(at, _)| at);
        place.map_or(PortMask::EMPTY, |place| masks[place].1)
    };
    masks.iter().all(|&(switch, mask)| {
        mask.ports().all(|port| {
            let Some((next, entry)) = topology.peer(switch, port) else {
                return true;
            };
            let goes_down = orientation.is_above(switch, next);
            let goes_up_then = |turn: PortNum| {
                turn != entry
                    && topology
                        .peer(next, turn)
                        .is_some_and(|(after, _)| orientation.is_above(after, next))
            };
            !(goes_down && mask_of(next).ports().any(goes_up_then))
        })
    })
}

/// The links of one multicast LID as a graph. A link belongs to the graph if one of its ends
/// forwards packets.
struct LinkGraph<'a> {
    topology: &'a Topology,
    tree: &'a Tree,
    /// The links at each switch.
    links: BTreeMap<SwitchIdx, Vec<Hop>>,
}

/// A link as seen from one of its ends.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Hop {
    port: PortNum,
    peer: SwitchIdx,
    peer_port: PortNum,
}

/// The number of members and of receivers at a switch and behind it.
#[derive(Clone, Copy, Default)]
struct Count {
    members: usize,
    receivers: usize,
}

impl<'a> LinkGraph<'a> {
    fn new(topology: &'a Topology, tree: &'a Tree) -> LinkGraph<'a> {
        let mut links: BTreeMap<SwitchIdx, Vec<Hop>> = BTreeMap::new();
        for &(switch, mask) in &tree.masks {
            for port in mask.ports() {
                let Some((peer, peer_port)) = topology.peer(switch, port) else {
                    continue;
                };
                let there = Hop {
                    port,
                    peer,
                    peer_port,
                };
                let back = Hop {
                    port: peer_port,
                    peer: switch,
                    peer_port: port,
                };
                for (at, hop) in [(switch, there), (peer, back)] {
                    let known = links.entry(at).or_default();
                    if !known.contains(&hop) {
                        known.push(hop);
                    }
                }
            }
        }
        LinkGraph {
            topology,
            tree,
            links,
        }
    }

    /// Checks the masks, and adds faults to the report.
    fn check(&self, report: &mut MulticastReport) {
        self.check_exits(report);
        let mut reached: BTreeMap<SwitchIdx, usize> = BTreeMap::new();
        for (number, part) in self.tree.parts.iter().enumerate() {
            if let Some(first) = part.first() {
                self.check_part(number, first.switch, part, &mut reached, report);
            }
        }
        // Links that are connected with no member must form trees as well.
        let rest: Vec<SwitchIdx> = self.links.keys().copied().collect();
        for switch in rest {
            if !reached.contains_key(&switch) {
                self.check_part(usize::MAX, switch, &[], &mut reached, report);
            }
        }
    }

    /// Checks that the masks contain the ports of all receivers, and no other port that leads to no
    /// switch.
    fn check_exits(&self, report: &mut MulticastReport) {
        for part in &self.tree.parts {
            for at in part.chunk_by(|a, b| a.switch == b.switch) {
                let mask = self.tree.mask(at[0].switch);
                for member in at.iter().filter(|member| member.receives) {
                    if !mask.contains(member.port) {
                        report.unreached += 1;
                        self.report_missing(report, member.switch, member.port);
                    }
                }
            }
        }
        for &(switch, mask) in &self.tree.masks {
            let receivers = self.receivers(switch);
            for port in mask.ports().filter(|&port| !receivers.contains(port)) {
                if !matches!(self.topology.port_use(switch, port), PortUse::Link { .. }) {
                    report.strays += 1;
                    let make = |mlid, switch, port| MulticastWitness::Stray { mlid, switch, port };
                    self.add_witness(report, make, switch, port);
                }
            }
        }
    }

    /// The ports of a switch that receive packets of the group.
    fn receivers(&self, switch: SwitchIdx) -> PortMask {
        let members = &self.tree.group.members;
        let first = members.partition_point(|member| member.switch < switch);
        let at = members[first..]
            .iter()
            .take_while(|member| member.switch == switch);
        at.filter(|member| member.receives)
            .map(|member| member.port)
            .collect()
    }

    /// Checks that the switches connected with `first` form a tree that contains all members of
    /// `part`, and that each link forwards in the directions that members need. `number` is the
    /// index of the part, and `reached` holds the part with which each switch was found connected.
    fn check_part(
        &self,
        number: usize,
        first: SwitchIdx,
        part: &[Member],
        reached: &mut BTreeMap<SwitchIdx, usize>,
        report: &mut MulticastReport,
    ) {
        let mut counts: BTreeMap<SwitchIdx, Count> = BTreeMap::new();
        for at in part.chunk_by(|a, b| a.switch == b.switch) {
            let count = counts.entry(at[0].switch).or_default();
            count.members += at.len();
            count.receivers += at.iter().filter(|member| member.receives).count();
        }
        let connected = self.find_connected(number, first, reached, report);
        let total = counts
            .values()
            .fold(Count::default(), |total, count| Count {
                members: total.members + count.members,
                receivers: total.receivers + count.receivers,
            });
        // Without receivers, no member needs to be reached.
        for (&switch, count) in counts.iter().filter(|_| total.receivers > 0) {
            if reached.get(&switch) != Some(&number) {
                report.unreached += count.members as u64;
                self.report_missing(report, switch, PortNum::ZERO);
            }
        }
        for &(switch, from) in connected.iter().rev() {
            let Some(from) = from else { continue };
            let below = counts.get(&switch).copied().unwrap_or_default();
            let above = counts.entry(from.peer).or_default();
            above.members += below.members;
            above.receivers += below.receivers;
            // Members behind the link must reach the receivers before it, and members before it
            // must reach the receivers behind it.
            let up = below.members > 0 && total.receivers > below.receivers;
            let down = below.receivers > 0 && total.members > below.members;
            for (is_needed, at, port) in
                [(up, switch, from.port), (down, from.peer, from.peer_port)]
            {
                if is_needed && !self.tree.mask(at).contains(port) {
                    report.unreached += 1;
                    self.report_missing(report, at, port);
                }
            }
        }
    }

    /// Finds all switches connected with `first`, each after the switch from which it was found and
    /// with the link back to that switch. Reports links that close a cycle.
    fn find_connected(
        &self,
        number: usize,
        first: SwitchIdx,
        reached: &mut BTreeMap<SwitchIdx, usize>,
        report: &mut MulticastReport,
    ) -> Vec<(SwitchIdx, Option<Hop>)> {
        let mut connected = vec![(first, None::<Hop>)];
        if reached.insert(first, number).is_some() {
            report.loop_free = false;
        }
        let mut done = 0;
        while let Some(&(switch, from)) = connected.get(done) {
            done += 1;
            let back = from.map(|hop| hop.port);
            for hop in self.links.get(&switch).into_iter().flatten() {
                if Some(hop.port) == back {
                    continue;
                }
                if reached.insert(hop.peer, number).is_some() {
                    report.loop_free = false;
                    let make = |mlid, switch, port| MulticastWitness::Loop { mlid, switch, port };
                    self.add_witness(report, make, switch, hop.port);
                } else {
                    let back = Hop {
                        port: hop.peer_port,
                        peer: switch,
                        peer_port: hop.port,
                    };
                    connected.push((hop.peer, Some(back)));
                }
            }
        }
        connected
    }

    /// Adds the witness of a missing port.
    fn report_missing(&self, report: &mut MulticastReport, switch: SwitchIdx, port: PortNum) {
        let make = |mlid, switch, port| MulticastWitness::Missing { mlid, switch, port };
        self.add_witness(report, make, switch, port);
    }

    /// Adds a witness if there is room.
    fn add_witness(
        &self,
        report: &mut MulticastReport,
        make: impl Fn(Lid, Guid, PortNum) -> MulticastWitness,
        switch: SwitchIdx,
        port: PortNum,
    ) {
        if report.witnesses.len() < MAX_WITNESSES {
            let guid = self.topology.switch(switch).guid;
            report
                .witnesses
                .push(make(self.tree.group.mlid, guid, port));
        }
    }
}
