//! The numbers of destinations from which the closed form derives ports, for the whole known
//! fabric.
//!
//! Destinations are numbered leaf by leaf, subtree by subtree, each category separately. The number
//! modulo the number of ways up gives the way, so that consecutive numbers leave a switch by
//! different ways. One level higher, the number is first divided by the number of ways below, so
//! that the choices of two levels do not repeat each other (Gliksberg et al., "Dmodc", arXiv
//! 2211.13101). The numbering does not depend on the parts present now, and little on parts that
//! were missing when the fabric was first seen: subtrees stay the same if single links are missing,
//! and a leaf that lacks a few of the hosts that similar leaves have is numbered as if it had them.
//! Ports with a configured number have that number.

use std::collections::BTreeMap;

use rsm_ids::{Guid, Lid};

use super::super::Options;
use super::super::choose::FAULTY_IN;
use super::super::spread::dividers;
use super::Category;
use crate::topology::{Destination, EndpointKind, SwitchIdx, Topology};

/// The positions of all known LIDs, column by column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Numbering {
    /// The destination switch of each column; every switch has one column.
    pub(super) columns: Vec<SwitchIdx>,
    /// The column of each switch.
    pub(super) column_of: Vec<u32>,
    /// The positions of column `c` are `start[c]..start[c + 1]`.
    pub(super) start: Vec<u32>,
    /// The LID, or gap, at each position.
    pub(super) places: Vec<NumberedLid>,
    /// For each switch, the divider of numbers for the choice among its ways up; at least 1.
    pub(super) dividers: Vec<u32>,
    /// For each switch, the divider that a switch above applies on the way down to it; at least 1.
    pub(super) downward: Vec<Downward>,
}

/// The divider of numbers on the way down to a switch. This divider equals the divider on the way
/// up from there. Packets from everywhere then come down to a destination over the same links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Downward {
    /// The divider by which switches above choose among several switches like this one: the divider
    /// of the switches below this one.
    pub(super) among: u32,
    /// The divider by which a switch above chooses among its links to this switch, if this switch
    /// is the only choice.
    pub(super) links: u32,
}

/// One LID in the numbering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NumberedLid {
    /// The index of the destination in the known fabric; `None` for a gap.
    pub(super) destination: Option<u32>,
    /// The number of the port within its category.
    pub(super) number: u32,
    /// The index of the LID among the port's LIDs; 0 is the base LID.
    pub(super) offset: u16,
}

impl NumberedLid {
    /// The LID; `None` for a gap.
    pub(super) fn lid(&self, known: &Topology) -> Option<Lid> {
        let number = self.destination? as usize;
        Some(Lid(known.destinations()[number].lid.0 + self.offset))
    }
}

impl Numbering {
    /// Numbers the destinations of `known`. `levels[s]` is the distance of switch `s` from the top,
    /// `columns` comes from [`columns`], and `options` gives the categories and the configured
    /// numbers.
    pub(super) fn new(
        known: &Topology,
        levels: &[u8],
        columns: Vec<SwitchIdx>,
        options: &Options,
    ) -> Numbering {
        let mut column_of = vec![0; columns.len()];
        for (column, switch) in columns.iter().enumerate() {
            column_of[switch.index()] = column as u32;
        }
        let usual = usual_host_ports(known);
        let category = |destination: &Destination| Category::of(destination, &options.categories);
        let number_of = |destination: &Destination| options.numbers.get(&destination.guid).copied();
        let mut next = [0u32; Category::COUNT];
        if !options.numbers.is_empty() {
            for destination in known.destinations() {
                if let Some(number) = number_of(destination) {
                    let next = &mut next[category(destination) as usize];
                    *next = (*next).max(number.saturating_add(1));
                }
            }
        }
        let mut numbering = Numbering {
            start: Vec::with_capacity(columns.len() + 1),
            places: Vec::with_capacity(known.top_lid().index() + 1),
            downward: Vec::new(),
            dividers: dividers(known, levels),
            column_of,
            columns: Vec::new(),
        };
        for &switch in &columns {
            numbering.start.push(numbering.places.len() as u32);
            for slot in slots(known, switch, &usual) {
                let (category, number_of, lids) = match slot {
                    None => (Category::Compute, None, 1),
                    Some(number) => {
                        let destination = &known.destinations()[number as usize];
                        (
                            category(destination),
                            number_of(destination),
                            destination.lmc.lids(),
                        )
                    }
                };
                let number = number_of.unwrap_or_else(|| {
                    let next = &mut next[category as usize];
                    let number = *next;
                    *next = number.saturating_add(1);
                    number
                });
                numbering.places.extend((0..lids).map(|offset| NumberedLid {
                    destination: slot,
                    number,
                    offset,
                }));
            }
        }
        numbering.start.push(numbering.places.len() as u32);
        numbering.columns = columns;
        numbering.downward = downward(known, levels, &numbering.dividers);
        numbering
    }

    /// The positions of a column.
    pub(super) fn range(&self, column: usize) -> std::ops::Range<usize> {
        self.start[column] as usize..self.start[column + 1] as usize
    }
}

/// The dividers on the way down to each switch.
fn downward(known: &Topology, levels: &[u8], dividers: &[u32]) -> Vec<Downward> {
    let downward_to = |switch: SwitchIdx| {
        let own = dividers[switch.index()];
        let level = |other: SwitchIdx| levels[other.index()];
        let neighbours = || known.groups(switch).map(|group| group.neighbour);
        let below = neighbours().filter(|&other| level(other) > level(switch));
        let above = neighbours().filter(|&other| level(other) < level(switch));
        Downward {
            among: below
                .map(|other| dividers[other.index()])
                .min()
                .unwrap_or(own),
            links: own.saturating_mul(above.count().max(1) as u32),
        }
    };
    known.indices().map(downward_to).collect()
}

/// The destinations of a switch in the order of its ports; a gap stands for each host that seems to
/// be missing.
fn slots(known: &Topology, switch: SwitchIdx, usual: &[u8]) -> Vec<Option<u32>> {
    let range = known.destination_range(switch);
    let mut slots: Vec<(u8, Option<u32>)> = range
        .map(|number| {
            let port = known.destinations()[number].port.0;
            (port, Some(number as u32))
        })
        .collect();
    if known.hosts(switch) > 0 {
        let uses = known.port_uses(switch);
        let missing: Vec<u8> = usual
            .iter()
            .copied()
            .filter(|&port| {
                uses.get(usize::from(port))
                    .is_some_and(|port| port.is_unused())
            })
            .collect();
        if missing.len() * FAULTY_IN < usual.len() {
            slots.extend(missing.into_iter().map(|port| (port, None)));
        }
    }
    slots.sort_unstable();
    slots.into_iter().map(|(_, slot)| slot).collect()
}

/// The ports to which a host is attached on most leaf switches.
fn usual_host_ports(known: &Topology) -> Vec<u8> {
    let mut leaves = 0u32;
    let mut hosts = [0u32; 256];
    let mut last = None;
    for destination in known.destinations() {
        if destination.kind.is_host() {
            hosts[destination.port.index()] += 1;
            if last.replace(destination.switch) != Some(destination.switch) {
                leaves += 1;
            }
        }
    }
    (0..=u8::MAX)
        .filter(|&port| hosts[usize::from(port)] * 2 > leaves)
        .collect()
}

/// Every switch once, in the order in which destinations are numbered: switches with hosts subtree
/// by subtree, then the others level by level, with switches of one parent together. From a distant
/// switch, neighbours in this order usually share their ways.
pub(super) fn columns(known: &Topology, levels: &[u8]) -> Vec<SwitchIdx> {
    let level = |switch: SwitchIdx| levels[switch.index()];
    let mut columns = by_subtree(known, levels, |switch| switch.0);
    columns.sort_by_cached_key(|&switch| {
        (known.hosts(switch) == 0).then(|| {
            let neighbours = || known.groups(switch).map(|group| group.neighbour);
            let above = neighbours().find(|&other| level(other) < level(switch));
            let depth = std::cmp::Reverse(level(switch));
            (depth, above.or_else(|| neighbours().next()))
        })
    });
    columns
}

/// Every switch once, with the switches of one subtree adjacent and deeper switches first. `rank`,
/// which is distinct for every switch, breaks ties.
pub(in super::super) fn by_subtree(
    known: &Topology,
    levels: &[u8],
    rank: impl Fn(SwitchIdx) -> u32,
) -> Vec<SwitchIdx> {
    let deepest = levels.iter().copied().max().unwrap_or(0);
    let mut columns: Vec<SwitchIdx> = known.indices().collect();
    let mut sets = DisjointSets::new(known.switch_count());
    // For each switch, the subtrees that contain it, the smallest first; each is identified by the
    // lowest rank of its switches with hosts.
    let mut keys: Vec<Vec<u32>> = vec![Vec::new(); known.switch_count()];
    for level in (0..=deepest).rev() {
        let at = |switch: &SwitchIdx| levels[switch.index()] == level;
        if !columns.iter().any(at) {
            continue;
        }
        for switch in known.indices().filter(at) {
            for group in known.groups(switch) {
                if levels[group.neighbour.index()] >= level {
                    sets.join(switch.0, group.neighbour.0);
                }
            }
        }
        let mut first_edge: BTreeMap<u32, u32> = BTreeMap::new();
        let inside = |switch: &SwitchIdx| levels[switch.index()] >= level;
        for switch in known.indices().filter(inside) {
            let edge = if known.hosts(switch) > 0 {
                rank(switch)
            } else {
                u32::MAX
            };
            let least = first_edge.entry(sets.find(switch.0)).or_insert(edge);
            *least = edge.min(*least);
        }
        for switch in known.indices().filter(inside) {
            keys[switch.index()].push(first_edge[&sets.find(switch.0)]);
        }
    }
    columns.sort_by_cached_key(|switch| {
        let key = &keys[switch.index()];
        // Compare the largest subtrees first. A switch comes after the switches below it.
        let path: Vec<u32> = key.iter().rev().copied().collect();
        let depth = std::cmp::Reverse(levels[switch.index()]);
        let rest = u32::MAX;
        (
            path.into_iter().chain([rest]).collect::<Vec<u32>>(),
            depth,
            rank(*switch),
        )
    });
    columns
}

/// The sets of switches that are connected so far (a disjoint-set forest).
pub(super) struct DisjointSets {
    parent: Vec<u32>,
}

impl DisjointSets {
    /// Creates `count` switches, each in a set of its own.
    pub(super) fn new(count: usize) -> DisjointSets {
        DisjointSets {
            parent: (0..count as u32).collect(),
        }
    }

    /// The lowest switch in the set of a switch.
    pub(super) fn find(&mut self, switch: u32) -> u32 {
        let mut root = switch;
        while self.parent[root as usize] != root {
            let above = self.parent[root as usize];
            self.parent[root as usize] = self.parent[above as usize];
            root = above;
        }
        root
    }

    /// Joins the sets of two switches.
    pub(super) fn join(&mut self, one: u32, other: u32) {
        let (one, other) = (self.find(one), self.find(other));
        // The lower number becomes the root, so that the result does not depend on the order of
        // joins.
        self.parent[one.max(other) as usize] = one.min(other);
    }
}

impl Category {
    /// The category of a destination: the configured one, else the default of its kind.
    pub(super) fn of(destination: &Destination, categories: &BTreeMap<Guid, Category>) -> Category {
        let configured = || categories.get(&destination.guid).copied();
        match destination.kind {
            EndpointKind::Switch0 => Category::Switch,
            EndpointKind::AggregationNode => Category::Aggregation,
            EndpointKind::Ca => configured().unwrap_or(Category::Compute),
            EndpointKind::Router => configured().unwrap_or(Category::Storage),
        }
    }
}
