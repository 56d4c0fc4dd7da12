//! Exceptions to the closed form: single destinations get another port if the closed form loads
//! links more than necessary.
//!
//! On a regular tree no tables are better than the closed form, and this module does nothing. Some
//! links get more than their share if leaves differ in hosts, subtrees in uplinks or links in rate,
//! or if several paths lead down to one leaf. Cuts through the fabric give a lower bound of the
//! maximum link load under any tables ([`bounds`]). If the fullest link has clearly more, this
//! module moves single destinations: first, on all links, destinations whose packets meet fewer
//! other packets on another path; then, on the fullest links, destinations that have a path with a
//! lower maximum link load. Otherwise the closed form stays: shifts gain more from it than from the
//! last percents of balance.
//!
//! The result is a function of the complete known fabric: missing parts do not affect it.

mod bounds;
mod max_load_reducer;

use std::sync::Arc;

use fixedbitset::FixedBitSet;
use rayon::prelude::*;
use rsm_ids::Lid;

use self::max_load_reducer::SkippedMoves;
pub(super) use self::max_load_reducer::{
    Budget, MAX_READS, MaxLoadReducer, ReducerInput, Target, in_64ths,
};
use super::super::paths::Tile;
use super::detours::Detours;
use super::live::Live;
use super::numbering::Numbering;
use super::{Categories, Category};
use crate::tables::Lft;
use crate::topology::{Order, SwitchIdx, Topology};

/// The exceptions: ports that replace those of the closed form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Exceptions {
    /// For each switch, pairs of (position, port), sorted by position.
    ports: Vec<Vec<(u32, u8)>>,
}

/// The exceptions for a fabric, with their explanation.
pub(super) struct Evened {
    pub(super) exceptions: Exceptions,
    /// The end of a sentence for the operator; empty if there are no exceptions.
    pub(super) explanation: String,
}

impl Exceptions {
    /// Whether a switch has no exceptions.
    pub(super) fn is_empty(&self, switch: SwitchIdx) -> bool {
        self.ports.get(switch.index()).is_none_or(Vec::is_empty)
    }

    /// The exceptions of a switch within a range of positions, as pairs of (position, port).
    pub(super) fn within(
        &self,
        switch: SwitchIdx,
        positions: std::ops::Range<usize>,
    ) -> &[(u32, u8)] {
        let Some(ports) = self.ports.get(switch.index()) else {
            return &[];
        };
        let from = ports.partition_point(|&(position, _)| (position as usize) < positions.start);
        let to = ports.partition_point(|&(position, _)| (position as usize) < positions.end);
        &ports[from..to]
    }

    /// The port of a switch for a position; `None` unless it is an exception.
    pub(super) fn port(&self, switch: SwitchIdx, position: usize) -> Option<u8> {
        self.within(switch, position..position + 1)
            .first()
            .map(|&(_, port)| port)
    }

    /// A copy of these exceptions with the given (switch, position, port) triples added or
    /// replaced.
    pub(super) fn with(&self, others: impl Iterator<Item = (SwitchIdx, u32, u8)>) -> Exceptions {
        let mut own = self.clone();
        for (switch, position, port) in others {
            if own.ports.len() <= switch.index() {
                own.ports.resize(switch.index() + 1, Vec::new());
            }
            let ports = &mut own.ports[switch.index()];
            match ports.binary_search_by_key(&position, |&(position, _)| position) {
                Ok(place) => ports[place].1 = port,
                Err(place) => ports.insert(place, (position, port)),
            }
        }
        own
    }

    /// All exceptions, as triples of (switch, position, port).
    pub(super) fn all(&self) -> impl Iterator<Item = (SwitchIdx, usize, u8)> {
        self.ports.iter().enumerate().flat_map(|(switch, ports)| {
            // Switches are numbered as in the known fabric.
            let switch = SwitchIdx(switch as u32);
            ports
                .iter()
                .map(move |&(position, port)| (switch, position as usize, port))
        })
    }
}

/// The inputs of tables for the complete fabric.
pub(super) struct Intact<'a> {
    pub(super) known: &'a Topology,
    /// The parts of the known fabric, all present.
    pub(super) live: &'a Live,
    pub(super) order: &'a Order,
    pub(super) numbering: &'a Numbering,
    pub(super) tiles: &'a [Arc<Tile>],
    pub(super) detours: &'a Detours,
    pub(super) categories: &'a Categories,
    /// Computes each switch's table in closed form. Called at most once, and only if links may be
    /// loaded unevenly.
    pub(super) closed_form: &'a dyn Fn() -> Vec<Lft>,
}

/// Computes the exceptions that relieve the fullest links.
pub(super) fn even(intact: &Intact<'_>) -> Evened {
    let mut evened = Evened {
        exceptions: Exceptions::default(),
        explanation: String::new(),
    };
    let known = intact.known;
    if is_regular(known, intact.order.levels()) {
        return evened;
    }
    let groups = target_groups(intact);
    let first = groups.first().map_or(&[][..], Vec::as_slice);
    let hosts: usize = first.iter().map(Vec::len).sum();
    if (hosts * known.switch_count()) as u64 > MAX_READS {
        // The search for full links alone would use up all reads.
        evened.explanation = "; too large to relieve its fullest links".to_owned();
        return evened;
    }
    let closed_form = (intact.closed_form)();
    let mut lfts = closed_form.clone();
    let mut skipped = SkippedMoves::default();
    for (offset, by_category) in groups.iter().enumerate() {
        // Base LIDs get the same routes with or without further LIDs. All further LIDs together
        // take as long as the base LIDs.
        let share = if offset == 0 { 1 } else { groups.len() - 1 };
        for targets in by_category.iter().filter(|targets| !targets.is_empty()) {
            let input = ReducerInput {
                known,
                live: intact.live,
                order: intact.order,
                tiles: intact.tiles,
                detours: intact.detours,
            };
            let now = MaxLoadReducer::new(input).level(targets, &mut lfts, share);
            skipped.relief |= now.relief;
            skipped.spread |= now.spread;
        }
    }
    let targets = groups.iter().flatten().flatten();
    evened.exceptions = moved(known, targets, &lfts, &closed_form);
    let count = evened.exceptions.all().count();
    if count > 0 {
        let origin = "taken off the fullest links or spread over emptier ones";
        evened.explanation = format!("; {count} entries {origin}");
    }
    if skipped.relief {
        let rest = "; further ones would take too long to find";
        evened.explanation.push_str(rest);
    }
    if skipped.spread {
        let rest = "; too large to spread entries below the fullest links";
        evened.explanation.push_str(rest);
    }
    evened
}

/// The LIDs of hosts, grouped by offset from the base LID and then by category. The load of each
/// group is evened out on its own: most programs use only base LIDs, and other programs spread
/// their packets over all LIDs.
fn target_groups(intact: &Intact<'_>) -> Vec<Vec<Vec<Target>>> {
    let mut groups: Vec<Vec<Vec<Target>>> = Vec::new();
    for (column, &switch) in intact.numbering.columns.iter().enumerate() {
        for position in intact.numbering.range(column) {
            let place = &intact.numbering.places[position];
            let Some(number) = place.destination else {
                continue;
            };
            let destination = &intact.known.destinations()[number as usize];
            if destination.kind.is_host() {
                let offset = usize::from(place.offset);
                if groups.len() <= offset {
                    groups.resize(offset + 1, vec![Vec::new(); Category::COUNT]);
                }
                let category = Category::of(destination, intact.categories);
                groups[offset][category as usize].push(Target {
                    lid: Lid(destination.lid.0 + place.offset),
                    base: destination.lid,
                    lids: destination.lmc.lids(),
                    position,
                    column,
                    switch,
                });
            }
        }
    }
    groups
}

/// The exceptions: the entries for targets that differ from the closed form.
fn moved<'t>(
    known: &Topology,
    targets: impl Iterator<Item = &'t Target>,
    lfts: &[Lft],
    closed_form: &[Lft],
) -> Exceptions {
    let mut position_of = vec![None; known.top_lid().index() + 1];
    for target in targets {
        // There are fewer positions than LIDs.
        position_of[target.lid.index()] = Some(target.position as u32);
    }
    let of_switch = |(lft, closed_form): (&Lft, &Lft)| {
        let differing = lft.differing(closed_form);
        let mut ports: Vec<(u32, u8)> = differing
            .filter_map(|lid| Some((position_of[lid.index()]?, lft.entry(lid))))
            .collect();
        ports.sort_unstable();
        ports
    };
    let ports = lfts.par_iter().zip(closed_form).map(of_switch).collect();
    Exceptions { ports }
}

/// Whether the fabric is a regular tree: all links have one rate and connect two levels, all
/// switches of a level have the same numbers of hosts, neighbours and links, and a single path
/// leads down from each switch to each leaf below.
fn is_regular(known: &Topology, levels: &[u8]) -> bool {
    let level = |switch: SwitchIdx| levels[switch.index()];
    let mut shape_of_level: Vec<Option<[usize; 5]>> = vec![None; 256];
    let mut rate = None;
    for switch in known.indices() {
        let mut shape = [known.hosts(switch), 0, 0, 0, 0];
        for group in known.groups(switch) {
            let side = match level(group.neighbour).cmp(&level(switch)) {
                std::cmp::Ordering::Less => 1,
                std::cmp::Ordering::Greater => 3,
                std::cmp::Ordering::Equal => return false,
            };
            shape[side] += 1;
            shape[side + 1] += group.links.len();
            for link in group.links {
                if *rate.get_or_insert(link.weight) != link.weight {
                    return false;
                }
            }
        }
        if *shape_of_level[usize::from(level(switch))].get_or_insert(shape) != shape {
            return false;
        }
    }
    let mut deepest_first: Vec<SwitchIdx> = known.indices().collect();
    deepest_first.sort_by_key(|&switch| (std::cmp::Reverse(level(switch)), switch));
    let mut below = vec![FixedBitSet::with_capacity(known.switch_count()); known.switch_count()];
    for switch in deepest_first {
        let mut own = FixedBitSet::with_capacity(known.switch_count());
        if known.hosts(switch) > 0 {
            own.insert(switch.index());
        }
        for group in known.groups(switch) {
            if level(group.neighbour) > level(switch) {
                let theirs = &below[group.neighbour.index()];
                if !own.is_disjoint(theirs) {
                    return false;
                }
                own.union_with(theirs);
            }
        }
        below[switch.index()] = own;
    }
    true
}
