//! Tables from next hops between switches: the common part of engines without a tree.
//!
//! A column is one way to a destination switch: by switch, the port group that leads towards it. A
//! destination switch has one column or several; its LIDs take them in turn, and the parallel links
//! of a group in turn as well.

use rayon::prelude::*;

use super::slots;
use crate::tables::{Lft, Tables};
use crate::topology::{Group, SwitchIdx, Topology};

/// By switch: the number of the port group towards the column's switch, among the switch's own.
pub(super) type Column = Vec<u8>;

/// No way, or the switch itself. A switch has 254 ports at most, and so no group of this number.
pub(super) const NO_GROUP: u8 = 255;

/// The tables that follow `columns`, which are by destination switch.
pub(super) fn tables(topology: &Topology, columns: &[Vec<Column>]) -> Tables {
    let lfts = (0..topology.switch_count() as u32)
        .into_par_iter()
        .map(|switch| table(topology, columns, SwitchIdx(switch)))
        .collect();
    Tables { lfts }
}

fn table(topology: &Topology, columns: &[Vec<Column>], switch: SwitchIdx) -> Lft {
    let groups: Vec<Group<'_>> = topology.groups(switch).collect();
    let turns: Vec<Vec<u8>> = groups
        .iter()
        .map(|&group| {
            let mut turns = Vec::new();
            slots::fill(&mut turns, std::iter::once(group));
            turns
        })
        .collect();
    // By group: the next turn.
    let mut next = vec![0usize; groups.len()];
    let mut lft = Lft::new(topology.top_lid().index() + 1);
    for to in topology.indices() {
        let ways = &columns[to.index()];
        let lids = topology
            .destinations_of(to)
            .iter()
            .flat_map(|destination| destination.lids().map(move |lid| (lid, destination.port)));
        for (number, (lid, port)) in lids.enumerate() {
            if to == switch {
                lft.set_entry(lid, port.0);
                continue;
            }
            let Some(way) = ways.get(number % ways.len().max(1)) else {
                continue;
            };
            let group = usize::from(way[switch.index()]);
            if let Some(turns) = turns.get(group) {
                lft.set_entry(lid, turns[next[group] % turns.len()]);
                next[group] += 1;
            }
        }
    }
    lft
}
