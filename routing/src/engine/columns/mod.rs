//! Tables from next hops between switches: the common part of engines that need no tree.
//!
//! A column is one way to reach a destination switch: for each switch, the port group that leads
//! towards the destination. A destination switch has one column or several; its hosts use the
//! columns round-robin, and the further LIDs of a host use the columns after that of its first LID.
//! LIDs that share a group use its parallel links round-robin; a host's first LID uses the link
//! with the least traffic.

mod parallel;

use rayon::prelude::*;
use rsm_ids::Lid;

use super::slots::{self, Rates};
use crate::tables::{Lft, NO_PATH, Tables};
use crate::topology::{Destination, Group, Switch, SwitchIdx, Topology};

/// For each switch, the number, within the switch, of the port group towards the column's
/// destination switch.
pub(super) type Column = Vec<u8>;

/// The mark for a switch without a path, and for the destination switch itself. A switch has at
/// most 254 ports, so no group has this number.
pub(super) const NO_GROUP: u8 = 255;

/// Builds the tables that follow `columns`, which are indexed by destination switch.
pub(super) fn tables(topology: &Topology, columns: &[Vec<Column>]) -> Tables {
    tables_as_known(topology, topology, columns)
}

/// Builds the tables as [`tables`] does, except that end ports of `known` that are missing also
/// count in the distribution over columns and links. Their absence then changes no other entry.
pub(super) fn tables_as_known(
    topology: &Topology,
    known: &Topology,
    columns: &[Vec<Column>],
) -> Tables {
    let ends = ends(topology, known);
    let lfts = (0..topology.switch_count() as u32)
        .into_par_iter()
        .map(|switch| table(topology, &ends, columns, SwitchIdx(switch)))
        .collect();
    let mut tables = Tables { lfts };
    parallel::share(topology, &ends, columns, &mut tables);
    tables
}

/// For each switch of `topology`, its destinations in `known`; none if `known` lacks the switch.
pub(super) fn ends<'a>(topology: &Topology, known: &'a Topology) -> Vec<&'a [Destination]> {
    let of_switch = |to: &Switch| {
        let there = known.switch_by_guid(to.guid);
        there.map_or(&[][..], |there| known.destinations_of(there))
    };
    topology.switches().iter().map(of_switch).collect()
}

/// Builds the table of one switch; `ends` lists the destinations of each switch, missing ones
/// included.
fn table(
    topology: &Topology,
    ends: &[&[Destination]],
    columns: &[Vec<Column>],
    switch: SwitchIdx,
) -> Lft {
    let is_present = |lid: Lid| topology.destination_of(lid).is_some();
    let groups: Vec<Group<'_>> = topology.groups(switch).collect();
    let slots_of_group: Vec<Vec<u8>> = groups
        .iter()
        .map(|&group| {
            let mut slots_of_group = Vec::new();
            slots::fill(
                &mut slots_of_group,
                std::iter::once(group),
                Rates::Proportional,
            );
            slots_of_group
        })
        .collect();
    // The next slot, by kind of destination (host or not) and then by group. Hosts are counted
    // separately so that they share parallel links evenly.
    let mut next = [vec![0usize; groups.len()], vec![0usize; groups.len()]];
    let mut entries = vec![NO_PATH; topology.top_lid().index() + 1];
    for to in topology.indices() {
        let columns_to = &columns[to.index()];
        let mut numbers = [0, 0];
        for destination in ends[to.index()] {
            let kind = usize::from(destination.kind.is_host());
            let number = numbers[kind];
            numbers[kind] += 1;
            for (offset, lid) in destination.own_lids().enumerate() {
                if to == switch {
                    if is_present(lid) {
                        entries[lid.index()] = destination.port.0;
                    }
                    continue;
                }
                let Some(column) = columns_to.get((number + offset) % columns_to.len().max(1))
                else {
                    continue;
                };
                let group = usize::from(column[switch.index()]);
                if let Some(slots_of_group) = slots_of_group.get(group) {
                    let next = &mut next[kind][group];
                    if is_present(lid) {
                        entries[lid.index()] = slots_of_group[*next % slots_of_group.len()];
                    }
                    *next += 1;
                }
            }
        }
    }
    Lft::from_entries(&entries)
}
