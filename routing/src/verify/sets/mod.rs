//! The proof over sets of ports: for each packet, a switch chooses any port of a set.
//!
//! If a switch routes adaptively, packets to a LID leave by any port of the entry's group, or by
//! the port of the forwarding table. A pair is reached here if its packets arrive by *every*
//! sequence of choices; a sequence that returns to a switch is a loop; and a link waits for all
//! ports by which packets in it can leave the next switch. The proof uses only what the switches
//! hold, LID by LID, and depends on no engine, order or leaf.
//!
//! LIDs of one switch usually have equal sets at all other switches. The proof compares these sets,
//! and follows only one of the LIDs with equal sets.

mod recovery;
mod walk;

pub use recovery::{Recovery, recovered, recovery};

use rayon::prelude::*;
use rsm_ids::Lid;

use super::check::StartingPorts;
use super::cycles::Waits;
use super::dependencies::{Dependencies, Turns};
use super::fabric::Fabric;
use super::{MAX_WITNESSES, PairCounts, Witness};
use crate::tables::{AdaptiveTable, AdaptiveTables, Lft, NO_GROUP, PortMask, Tables};
use crate::topology::{Destination, SwitchIdx, Topology};
use walk::SetWalker;

/// The state of all switches, by the switch numbers of a topology: forwarding tables, groups, and
/// the entries that name groups.
#[derive(Clone, Copy, Debug)]
pub struct Held<'a> {
    /// The forwarding tables.
    pub tables: &'a Tables,
    /// The groups and entries.
    pub adaptive: &'a AdaptiveTables,
}

/// The result of a proof over sets. Pairs are defined as for [`Report`](super::Report); a pair is
/// reached if its packets arrive by every choice of the switches.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct SetReport {
    /// The counts of pairs that start or end at an end port.
    pub pairs: PairCounts,
    /// The counts of pairs of two switches.
    pub switch_pairs: PairCounts,
    /// The number of entries, over all switches and LIDs, whose group the switch does not hold.
    pub absent_groups: u64,
    /// Whether no sequence of choices leads a packet back to a switch.
    pub loop_free: bool,
    /// Whether the channel dependency graph over all choices is acyclic.
    pub credit_loop_free: bool,
    /// The switch-to-switch hops of the longest sequence of choices that arrives.
    pub max_hops: u32,
    /// Examples of the faults.
    pub witnesses: Vec<Witness>,
}

impl SetReport {
    /// Whether the groups may be written to the switches: every pair with an end port that cables
    /// connect is reached, there is no loop and no credit loop, and the switches hold every group
    /// that an entry names.
    pub fn is_sound(&self) -> bool {
        self.keeps_moving() && self.pairs.unreachable == 0
    }

    /// Whether no packet gets stuck: there is no loop, no credit loop, and no missing group.
    pub fn keeps_moving(&self) -> bool {
        self.loop_free && self.credit_loop_free && self.absent_groups == 0
    }
}

/// Checks the tables and groups that the switches of a topology hold. Any content is accepted: a
/// port without a link discards packets.
pub fn verify_sets(topology: &Topology, held: Held<'_>) -> SetReport {
    verify_states(topology, &[held])
}

/// Checks as [`verify_sets`] does, and whether any choice turns up after going down by an order of
/// the switches; `is_above` returns whether the first of two switches lies above the second.
/// Without such a turn, other packets that follow the order close no credit loop with these
/// packets.
pub fn verify_sets_by(
    topology: &Topology,
    held: Held<'_>,
    is_above: impl Fn(SwitchIdx, SwitchIdx) -> bool,
) -> (SetReport, bool) {
    let (report, dependencies) = prove(topology, &[held]);
    (report, dependencies.follows(is_above))
}

/// Checks every mixture of two states: each entry, each group and each forwarding table entry comes
/// independently from either state, at any switch, in any order, and may change repeatedly.
///
/// An entry counts with both contents of its group, so that a push that passes this check may write
/// blocks in any order. Pairs that the mixture does not reach by every choice count as unreachable,
/// even if the cause is a lost link of the older state and not the push.
pub fn verify_mixture_of_sets(topology: &Topology, old: Held<'_>, new: Held<'_>) -> SetReport {
    verify_states(topology, &[old, new])
}

/// Checks every mixture of the states.
fn verify_states(topology: &Topology, states: &[Held<'_>]) -> SetReport {
    prove(topology, states).0
}

/// Checks every mixture of the states. Also returns the dependencies between channels.
fn prove<'t>(topology: &'t Topology, states: &[Held<'_>]) -> (SetReport, Dependencies<'t>) {
    let fabric = Fabric::new(topology);
    let sources = StartingPorts::new(topology);
    let switches: Vec<SwitchIdx> = topology.indices().collect();
    // Leaves cost more than other switches: small shares keep all threads busy.
    let share = switches.len().div_ceil(4 * rayon::current_num_threads());
    let all_results: Vec<CheckResults> = switches
        .par_chunks(share.max(1))
        .map(|switches| {
            let mut checker = Checker {
                states,
                sources: &sources,
                walker: SetWalker::new(&fabric),
                results: CheckResults::new(&fabric),
                last_ports: vec![PortMask::EMPTY; fabric.switches],
                last_groups: vec![NO_GROUP; fabric.switches],
            };
            for &switch in switches {
                checker.check_destinations_of(switch);
            }
            checker.results
        })
        .collect();

    let mut report = SetReport {
        loop_free: true,
        ..SetReport::default()
    };
    let mut turns = Vec::with_capacity(all_results.len());
    let mut witnesses: [Vec<Witness>; 3] = Default::default();
    for results in all_results {
        report.pairs.add(results.pairs);
        report.switch_pairs.add(results.switch_pairs);
        report.absent_groups += results.absent_groups;
        report.loop_free &= results.loop_free;
        report.max_hops = report.max_hops.max(results.max_hops);
        turns.push(results.turns);
        for (all, some) in witnesses.iter_mut().zip(results.witnesses) {
            all.extend(some);
            all.truncate(MAX_WITNESSES);
        }
    }
    let dependencies = Dependencies::from_parts(fabric, turns);
    let cycle = dependencies.cycle();
    report.credit_loop_free = cycle.is_empty();
    report.witnesses = witnesses.concat();
    if !cycle.is_empty() {
        let name = |channel| dependencies.fabric().name(channel);
        report.witnesses.push(Witness::CreditLoop {
            channels: cycle.into_iter().map(name).collect(),
        });
    }
    (report, dependencies)
}

/// The results for some of the destination switches.
struct CheckResults {
    pairs: PairCounts,
    switch_pairs: PairCounts,
    absent_groups: u64,
    loop_free: bool,
    max_hops: u32,
    turns: Turns,
    /// Examples of dropped packets, of loops, and of absent groups.
    witnesses: [Vec<Witness>; 3],
}

impl CheckResults {
    fn new(fabric: &Fabric<'_>) -> CheckResults {
        CheckResults {
            pairs: PairCounts::default(),
            switch_pairs: PairCounts::default(),
            absent_groups: 0,
            loop_free: true,
            max_hops: 0,
            turns: Turns::new(fabric),
            witnesses: Default::default(),
        }
    }

    /// Keeps a witness if there is room for one more of its kind, an index of `witnesses`.
    fn add(&mut self, kind: usize, witness: impl FnOnce() -> Witness) {
        if self.witnesses[kind].len() < MAX_WITNESSES {
            self.witnesses[kind].push(witness());
        }
    }
}

/// The check of some of the destination switches, with memory for reuse.
struct Checker<'a, 'f> {
    states: &'a [Held<'a>],
    sources: &'a StartingPorts,
    walker: SetWalker<'a, 'f>,
    results: CheckResults,
    /// For each switch, the ports by which packets to the LID followed last may leave.
    last_ports: Vec<PortMask>,
    /// For each switch, the group of that LID if the group alone has all its ports; otherwise
    /// [`NO_GROUP`].
    last_groups: Vec<u16>,
}

impl Checker<'_, '_> {
    /// Checks all LIDs at a switch.
    fn check_destinations_of(&mut self, switch: SwitchIdx) {
        let destinations = self.walker.topology().destinations_of(switch).iter();
        let mut waiting: Vec<(&Destination, Lid)> = destinations
            .flat_map(|destination| destination.lids().map(move |lid| (destination, lid)))
            .collect();
        while let Some(&(destination, lid)) = waiting.first() {
            self.read_choices(lid);
            let (turns, last_ports) = (&mut self.results.turns, &self.last_ports);
            self.walker.follow(destination, last_ports, self.sources);
            self.walker.add_turns(last_ports, turns);
            self.results.max_hops = self.results.max_hops.max(self.walker.longest());
            let mut alike = vec![false; waiting.len()];
            if self.delivers_at_leaf(destination, lid) {
                alike = self.alike(switch, &waiting);
            }
            alike[0] = true;
            let mut remaining = Vec::new();
            for (&(destination, lid), is_alike) in waiting.iter().zip(alike) {
                if is_alike {
                    self.count(destination, lid);
                } else {
                    remaining.push((destination, lid));
                }
            }
            waiting = remaining;
        }
    }

    /// For each of `lids`, whether it is like the LID followed last: it has the same ports at all
    /// switches other than `own`, is delivered at `own`, and no entry of it names an absent group.
    /// The loop goes switch by switch, because the data of one switch is adjacent in memory.
    fn alike(&self, own: SwitchIdx, lids: &[(&Destination, Lid)]) -> Vec<bool> {
        let delivered = |&(destination, lid): &(&Destination, Lid)| {
            self.delivers_at_leaf(destination, lid) && absent_group(self.states, own, lid).is_none()
        };
        let mut alike: Vec<bool> = lids.iter().map(delivered).collect();
        let topology = self.walker.topology();
        for switch in topology.indices().filter(|&switch| switch != own) {
            let last_ports = self.last_ports[switch.index()];
            let of_group = self.last_group(switch);
            for (alike, &(_, lid)) in alike.iter_mut().zip(lids) {
                // This quick comparison is true for nearly all LIDs.
                let same_group = of_group.is_some_and(|(group, table, lft)| {
                    table.group_of(lid) == group
                        && lft.port(lid).is_some_and(|port| last_ports.contains(port))
                });
                *alike = *alike
                    && (same_group
                        || absent_group(self.states, switch, lid).is_none()
                            && ports(self.states, switch, lid) == last_ports);
            }
        }
        alike
    }

    /// The group of the LID followed last, with the switch's tables, if the group alone has all its
    /// ports at the switch. Other LIDs with this group then have the same ports if the group
    /// contains their forwarding port. `None` if there is no such group, or if there are several
    /// states.
    fn last_group(&self, switch: SwitchIdx) -> Option<(u16, &AdaptiveTable, &Lft)> {
        let index = switch.index();
        match (self.states, self.last_groups[index]) {
            ([held], group @ 1..) => Some((
                group,
                held.adaptive.table(switch)?,
                held.tables.lfts.get(index)?,
            )),
            _ => None,
        }
    }

    /// Whether the LID's port is the only choice of its leaf. If so, the LID's outcome equals that
    /// of other such LIDs of the leaf with equal sets at all other switches.
    fn delivers_at_leaf(&self, destination: &Destination, lid: Lid) -> bool {
        let here = ports(self.states, destination.switch, lid);
        here.len() == 1 && here.contains(destination.port)
    }

    /// Counts the pairs of a LID by the outcome of the last walk, and keeps witnesses of faults.
    fn count(&mut self, destination: &Destination, lid: Lid) {
        let outcome = self.walker.outcome();
        let component = self.walker.topology().component_of(destination.switch);
        let connected = self.sources.by_component[component];
        self.sources.count(
            destination,
            (outcome.arrived, connected),
            &mut self.results.pairs,
            &mut self.results.switch_pairs,
        );
        if let Some(hops) = self.walker.found_loop() {
            self.results.loop_free = false;
            let hops = hops.to_vec();
            self.results.add(1, || Witness::Loop { lid, hops });
        }
        if outcome.arrived != connected
            && let Some((switch, port)) = outcome.dropped
        {
            self.results
                .add(0, || Witness::Dropped { switch, lid, port });
        }
    }

    /// Reads the ports and groups of a LID at all switches, and counts its absent groups.
    fn read_choices(&mut self, lid: Lid) {
        for switch in self.walker.topology().indices() {
            let index = switch.index();
            self.last_ports[index] = ports(self.states, switch, lid);
            self.last_groups[index] = NO_GROUP;
            if let [held] = self.states
                && let Some(table) = held.adaptive.table(switch)
                && table.ports(lid) == self.last_ports[index]
                && !self.last_ports[index].is_empty()
            {
                self.last_groups[index] = table.group_of(lid);
            }
        }
        self.results.absent_groups += self.count_absent(lid);
    }

    /// Returns the number of entries of a LID that name a group without ports, and keeps witnesses.
    fn count_absent(&mut self, lid: Lid) -> u64 {
        let topology = self.walker.topology();
        let mut absent = 0;
        for switch in topology.indices() {
            if let Some(group) = absent_group(self.states, switch, lid) {
                absent += 1;
                let switch = topology.switch(switch).guid;
                self.results
                    .add(2, || Witness::AbsentGroup { switch, lid, group });
            }
        }
        absent
    }
}

/// All ports by which packets to a LID may leave a switch, in any mixture of the states.
fn ports(states: &[Held<'_>], switch: SwitchIdx, lid: Lid) -> PortMask {
    let mut ports = PortMask::EMPTY;
    for entry in states {
        ports = ports.union(entry.adaptive.ports(entry.tables, switch, lid));
        let group = entry
            .adaptive
            .table(switch)
            .map(|table| table.group_of(lid));
        if let Some(group) = group.filter(|&group| group != NO_GROUP && states.len() > 1) {
            // Includes the entry of one state with the group of the other.
            let tables = states.iter().filter_map(|held| held.adaptive.table(switch));
            ports = tables.fold(ports, |ports, table| ports.union(table.group(group)));
        }
    }
    ports
}

/// A group that the LID's entry names in some state and that has no ports in some state; `None` if
/// there is none.
fn absent_group(states: &[Held<'_>], switch: SwitchIdx, lid: Lid) -> Option<u16> {
    let groups = states
        .iter()
        .filter_map(|held| held.adaptive.table(switch))
        .map(|table| table.group_of(lid));
    let mut named = groups.filter(|&group| group != NO_GROUP);
    named.find(|&group| {
        let holds = |held: &Held<'_>| {
            let table = held.adaptive.table(switch);
            table.is_some_and(|table| !table.group(group).is_empty())
        };
        !states.iter().all(holds)
    })
}
