//! The phases in which switches get a change of groups, entries and forwarding tables.
//!
//! Between two proved states, the switches hold mixtures of both. Five phases ensure that each
//! mixture is free of loops, and that no entry names a group without ports:
//!
//! 1. entries that get another group, or whose group keeps none of its ports, return to the port of
//!    the forwarding table in force;
//! 2. each group is reduced to the ports that it has both in the old and in the new state;
//! 3. the forwarding tables change, in their own stages;
//! 4. groups get their new ports;
//! 5. entries get their groups.
//!
//! In phases 1 and 2 every choice belongs to the old state, in phases 4 and 5 to the new one. In
//! phase 3 a group has only ports of both states. If such a port leads down, the next switch sends
//! down in both states; if it leads up, no switch above sends down to this one in either state.
//! Groups therefore add no illegal turn to those of the forwarding tables, which the stages
//! exclude. A phase begins after all switches have finished the phase before. Within a phase,
//! blocks are written in any order.
//!
//! This argument holds if both states follow one order of the switches. [`proved_phases`] does not
//! rely on it: it proves every mixture within each phase. If groups cannot stay, all entries leave
//! their groups while the tables change.

use super::{AdaptiveTable, AdaptiveTables, NO_GROUP};
use crate::tables::{PortMask, Tables};
use crate::topology::Topology;
use crate::verify::{Held, verify_mixture_of_sets};

/// The purpose of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PhaseKind {
    /// Entries leave groups that disappear or lose all of their ports.
    Leave,
    /// Groups lose the ports that only the old state has.
    Shrink,
    /// Forwarding tables change.
    Tables,
    /// Groups get the ports that only the new state has.
    Grow,
    /// Entries join their new groups.
    Join,
}

/// The state that all switches hold at the end of a phase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phase {
    /// The purpose of this phase.
    pub kind: PhaseKind,
    /// The forwarding tables.
    pub tables: Tables,
    /// Groups and entries.
    pub adaptive: AdaptiveTables,
}

/// The treatment of groups while the manager writes forwarding tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meanwhile {
    /// Entries stay in their groups, which keep the ports common to the old and the new state.
    Common,
    /// Entries leave their groups and take the port of the forwarding table.
    Alone,
}

/// Computes the phases from one state to another such that no mixture within a phase has a loop or
/// a credit loop, or names a missing group: with [`Meanwhile::Common`] if the proof succeeds, else
/// with [`Meanwhile::Alone`]. `None` if neither can be proved: then even `stages` alone are unsafe.
///
/// `topology` is the current fabric; see [`phases`] for the other parameters.
pub fn proved_phases(
    topology: &Topology,
    old: (&Tables, &AdaptiveTables),
    stages: &[Tables],
    new: &AdaptiveTables,
) -> Option<Vec<Phase>> {
    let orders = [Meanwhile::Common, Meanwhile::Alone];
    let mut candidates = orders
        .map(|meanwhile| phases(old, stages, new, meanwhile))
        .into_iter();
    candidates.find(|phases| {
        let mut held = Held {
            tables: old.0,
            adaptive: old.1,
        };
        phases.iter().all(|phase| {
            let next = Held {
                tables: &phase.tables,
                adaptive: &phase.adaptive,
            };
            let before = std::mem::replace(&mut held, next);
            verify_mixture_of_sets(topology, before, next).keeps_moving()
        })
    })
}

/// Computes the phases from one state to another, without phases that change nothing. `stages` are
/// the forwarding tables that switches hold one after the other, after `old` and up to the new
/// tables.
pub fn phases(
    (old_tables, old): (&Tables, &AdaptiveTables),
    stages: &[Tables],
    new: &AdaptiveTables,
    meanwhile: Meanwhile,
) -> Vec<Phase> {
    let none = AdaptiveTable::default();
    let count = old.switches.len().max(new.switches.len());
    let old_and_new = |switch: usize| {
        let table_in =
            |tables: &'_ AdaptiveTables| tables.switches.get(switch).unwrap_or(&none).clone();
        (table_in(old), table_in(new))
    };
    let mut states: [AdaptiveTables; 4] = Default::default();
    for switch in 0..count {
        let (old, new) = old_and_new(switch);
        let reduced = leave(&old, &new, meanwhile);
        let shrunk = shrink(&reduced, &new);
        let grown = grow(&shrunk, &new);
        for (state, table) in states.iter_mut().zip([reduced, shrunk, grown, new]) {
            state.switches.push(table);
        }
    }
    let [left, shrunk, grown, joined] = states;
    let last = stages.last().unwrap_or(old_tables);
    let mut phases = Vec::new();
    let mut held = (old_tables.clone(), old.clone());
    let mut add = |kind, tables: &Tables, adaptive: &AdaptiveTables| {
        if held.0 != *tables || held.1 != *adaptive {
            held = (tables.clone(), adaptive.clone());
            phases.push(Phase {
                kind,
                tables: tables.clone(),
                adaptive: adaptive.clone(),
            });
        }
    };
    add(PhaseKind::Leave, old_tables, &left);
    add(PhaseKind::Shrink, old_tables, &shrunk);
    for stage in stages {
        add(PhaseKind::Tables, stage, &shrunk);
    }
    add(PhaseKind::Grow, last, &grown);
    add(PhaseKind::Join, last, &joined);
    phases
}

/// Reduces the old table to entries that keep their group, if the group keeps some of its ports.
fn leave(old: &AdaptiveTable, new: &AdaptiveTable, meanwhile: Meanwhile) -> AdaptiveTable {
    let mut reduced = old.clone();
    if meanwhile == Meanwhile::Alone {
        reduced.clear_entries();
        return reduced;
    }
    let lost: Vec<u16> = old
        .groups()
        .filter(|&(group, ports)| ports.intersection(new.group(group)).is_empty())
        .map(|(group, _)| group)
        .collect();
    let mut leaving = old.differing_entries(new);
    if !lost.is_empty() {
        let entries = old.entries().enumerate();
        let lids = entries.filter(|(_, group)| lost.contains(group));
        // Tables are indexed by LID.
        leaving.extend(lids.map(|(lid, _)| rsm_ids::Lid(lid as u16)));
    }
    for lid in leaving {
        reduced.set_entry(lid, NO_GROUP);
    }
    reduced
}

/// Reduces groups to the ports that they also have in the new table.
fn shrink(left: &AdaptiveTable, new: &AdaptiveTable) -> AdaptiveTable {
    regrouped(left, new, |old, new| old.intersection(new))
}

/// Gives groups their new ports.
fn grow(shrunk: &AdaptiveTable, new: &AdaptiveTable) -> AdaptiveTable {
    regrouped(shrunk, new, |_, new| new)
}

/// Replaces the ports of each group that differs between two tables by the result of `ports` for
/// both.
fn regrouped(
    table: &AdaptiveTable,
    new: &AdaptiveTable,
    ports: impl Fn(PortMask, PortMask) -> PortMask,
) -> AdaptiveTable {
    let mut regrouped_table = table.clone();
    for group in table.differing_groups(new) {
        regrouped_table.set_group(group, ports(table.group(group), new.group(group)));
    }
    regrouped_table
}
