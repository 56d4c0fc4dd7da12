//! Paths for pairs that the order of the tree leaves without one.
//!
//! Only pairs with an end port get one, unless the options ask for pairs of two switches as well,
//! and all other entries stay as they are. A switch without a path of the tree goes up by the
//! [turned order](super::apex) to a switch that has one, or that takes a detour itself. It never
//! has to go down: where a way down leads on, the tree has a path.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fixedbitset::FixedBitSet;
use rayon::prelude::*;
use rsm_ids::Guid;

use super::super::order::Order;
use super::super::paths::{MAX_COST, TILE, Tile, UNREACHED};
use super::apex::{self, Apexes};
use super::live::Live;
use super::numbering::Numbering;
use crate::topology::{SwitchIdx, Topology};

/// The detours of a routing.
#[derive(Clone)]
pub(super) struct Detours {
    /// The order that they and the paths of the tree follow.
    pub(super) order: Arc<Order>,
    /// By column.
    columns: BTreeMap<u32, Arc<Column>>,
}

/// The detours to one switch, sorted.
type Column = Vec<Detour>;

/// The detour of one switch.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Detour {
    switch: SwitchIdx,
    /// Hops to the destination.
    pub(super) cost: u8,
    /// The port groups that it may take.
    pub(super) groups: Vec<u32>,
}

/// What detours are computed from.
#[derive(Clone, Copy)]
pub(super) struct Work<'a> {
    pub(super) known: &'a Topology,
    pub(super) present: &'a Topology,
    pub(super) live: &'a Live,
    pub(super) numbering: &'a Numbering,
    /// The order of the tree.
    pub(super) order: &'a Order,
    pub(super) tiles: &'a [Arc<Tile>],
    pub(super) apexes: &'a Apexes,
    /// Whether pairs of two switches need a path as well.
    pub(super) connect_roots: bool,
}

impl Detours {
    /// None at all, beside paths by `order`.
    pub(super) fn none(order: &Order) -> Detours {
        Detours {
            order: Arc::new(order.clone()),
            columns: BTreeMap::new(),
        }
    }

    /// The order that all paths follow, by GUID, the highest first; `None` where it is `usual`.
    pub(super) fn followed(&self, known: &Topology, usual: &Order) -> Option<Vec<Guid>> {
        let switches = self.order.highest_first();
        let guids = || switches.iter().map(|&switch| known.switch(switch).guid);
        (switches != usual.highest_first()).then(|| guids().collect())
    }

    /// Detours for all pairs that need one; `None` where those of no apex reach all of them.
    pub(super) fn of(work: &Work<'_>) -> Option<Detours> {
        let detours = Detours::none(&work.usual_order());
        detours.again(work, &work.unreached())
    }

    /// The same where only `changed` columns may need other detours than these, and those with a
    /// detour from one of `ends`, the switches at which a link has come or gone.
    pub(super) fn follow(
        &self,
        work: &Work<'_>,
        changed: &BTreeSet<u32>,
        ends: &FixedBitSet,
    ) -> Option<Detours> {
        let order = work.usual_order();
        let is_usual = *self.order == order;
        let starts_at_end = |column: &Column| {
            let mut switches = column.iter().map(|detour| detour.switch.index());
            switches.any(|switch| ends.contains(switch))
        };
        let known = self.columns.iter();
        let affected = known.filter(|(_, column)| !is_usual || starts_at_end(column));
        let affected = affected.map(|(&column, _)| column);
        let columns: BTreeSet<u32> = affected.chain(changed.iter().copied()).collect();
        let mut detours = self.clone();
        if !is_usual {
            detours.order = Arc::new(order);
        }
        detours.again(work, &columns.into_iter().collect::<Vec<_>>())
    }

    /// The same with these columns computed again; where the order does not serve them, by the
    /// apexes with the fewest broken cables above them that do.
    fn again(mut self, work: &Work<'_>, columns: &[u32]) -> Option<Detours> {
        if self.fill(work, columns).is_some() {
            return Some(self);
        }
        let known = self.columns.keys().chain(columns).copied();
        let columns: BTreeSet<u32> = known.collect();
        let columns: Vec<u32> = columns.into_iter().collect();
        let serves = |part: usize, apex: SwitchIdx| {
            let order = work.turned(&[apex]);
            columns.par_iter().all(|&column| {
                let to = work.numbering.columns[column as usize];
                work.part_of(to) != Some(part) || work.column(&order, column).is_some()
            })
        };
        let mut apexes = Vec::new();
        for part in 0..work.present.components().len() {
            let candidates = work.candidates_of(part);
            apexes.extend(candidates.into_iter().find(|&apex| serves(part, apex)));
        }
        self.order = Arc::new(work.turned(&apexes));
        self.fill(work, &columns)?;
        Some(self)
    }

    /// Computes these columns; `None`, with nothing changed, where a pair stays without a path.
    fn fill(&mut self, work: &Work<'_>, columns: &[u32]) -> Option<()> {
        let found = columns.par_iter();
        let found = found.map(|&number| Some((number, work.column(&self.order, number)?)));
        for (number, column) in found.collect::<Option<Vec<_>>>()? {
            let is_same = |known: &Arc<Column>| **known == column;
            if column.is_empty() {
                self.columns.remove(&number);
            } else if !self.columns.get(&number).is_some_and(is_same) {
                self.columns.insert(number, Arc::new(column));
            }
        }
        Some(())
    }

    /// The columns to which a switch takes a detour.
    pub(super) fn columns_from(&self, switch: SwitchIdx) -> impl Iterator<Item = u32> + '_ {
        let columns = self.columns.keys().copied();
        columns.filter(move |&column| self.get(switch, column as usize).is_some())
    }

    /// The detour of a switch to a column.
    pub(super) fn get(&self, switch: SwitchIdx, column: usize) -> Option<&Detour> {
        // Fewer columns than LIDs.
        let column = self.columns.get(&(column as u32))?;
        let place = column.binary_search_by_key(&switch, |detour| detour.switch);
        Some(&column[place.ok()?])
    }

    /// Adds the columns in which the detours of a switch differ to those of that switch.
    pub(super) fn touch(&self, earlier: &Detours, touched: &mut [Vec<u32>]) {
        let columns = self.columns.keys().chain(earlier.columns.keys());
        let columns: BTreeSet<u32> = columns.copied().collect();
        for column in columns {
            let (now, was) = (self.columns.get(&column), earlier.columns.get(&column));
            if let (Some(now), Some(was)) = (now, was)
                && Arc::ptr_eq(now, was)
            {
                continue;
            }
            let both = now.into_iter().chain(was).flat_map(|column| column.iter());
            for detour in both {
                touched[detour.switch.index()].push(column);
            }
        }
    }
}

impl Work<'_> {
    fn part_of(&self, switch: SwitchIdx) -> Option<usize> {
        let here = self.live.switches[switch.index()]?;
        Some(self.present.component_of(here))
    }

    /// Whether a path is needed between the ports of two switches.
    fn counts(&self, here: Option<SwitchIdx>) -> bool {
        self.connect_roots || here.is_some_and(|here| self.present.destinations_of(here).len() > 1)
    }

    /// The order of the tree with these apexes on top, of different components.
    fn turned(&self, apexes: &[SwitchIdx]) -> Order {
        apex::turned(self.known, self.order, apexes, |apex, switch| {
            // A missing switch keeps its place, so that it does not turn the order.
            let part = self.part_of(switch);
            part.is_none() || part == self.part_of(apex)
        })
    }

    /// The order with the best candidate of each component on top, also where that is missing: as
    /// long as no pair needs a detour, the order stays as it is.
    fn usual_order(&self) -> Order {
        let parts = 0..self.present.components().len();
        let of_part = |part: usize| {
            let mut candidates = self.apexes.candidates().iter().copied();
            candidates.find(|&apex| self.part_of(apex).is_none_or(|own| own == part))
        };
        self.turned(&parts.filter_map(of_part).collect::<Vec<_>>())
    }

    /// The candidates in a component, those with the fewest broken cables above them first.
    fn candidates_of(&self, part: usize) -> Vec<SwitchIdx> {
        let candidates = self.apexes.candidates().iter().copied();
        let mut found: Vec<SwitchIdx> = candidates
            .filter(|&apex| self.part_of(apex) == Some(part))
            .collect();
        found.sort_by_cached_key(|&apex| {
            apex::groups_above(self.known, self.order, apex)
                .filter(|&group| !self.live.groups.contains(group))
                .count()
        });
        found
    }

    /// The columns with a pair that needs a detour.
    pub(super) fn unreached(&self) -> Vec<u32> {
        // By switch: its component, if it is present, and whether its pairs with all others count.
        let places: Vec<(Option<usize>, bool)> = (self.live.switches.iter())
            .map(|&here| {
                let part = here.map(|here| self.present.component_of(here));
                (part, self.counts(here))
            })
            .collect();
        let of_tile = |tile: &Arc<Tile>| {
            let ends = &self.numbering.columns[tile.first..][..tile.width()];
            let mut lacks = FixedBitSet::with_capacity(TILE);
            for (row, &(from, from_counts)) in tile.taken.iter().zip(&places) {
                let row = &row[..ends.len()];
                if from.is_none() || !row.contains(&UNREACHED) {
                    continue;
                }
                for (column, (&cost, to)) in row.iter().zip(ends).enumerate() {
                    let (to, to_counts) = places[to.index()];
                    if cost == UNREACHED && from == to && (from_counts || to_counts) {
                        lacks.insert(column);
                    }
                }
            }
            let columns = lacks.ones().map(|column| (tile.first + column) as u32);
            columns.collect::<Vec<u32>>()
        };
        let found: Vec<Vec<u32>> = self.tiles.par_iter().map(of_tile).collect();
        found.concat()
    }

    /// The detours to one column, from the switches that need one and from those on their way;
    /// `None` where a switch that needs one has none.
    fn column(&self, order: &Order, number: u32) -> Option<Column> {
        let to = self.numbering.columns[number as usize];
        let tile = &self.tiles[number as usize / TILE];
        let taken = |switch: SwitchIdx| tile.taken[switch.index()][number as usize % TILE];
        let Some(part) = self.part_of(to) else {
            return Some(Column::new());
        };
        let to_counts = self.counts(self.live.switches[to.index()]);
        let lacks =
            |switch: SwitchIdx| taken(switch) == UNREACHED && self.part_of(switch) == Some(part);
        let mut needed: Vec<SwitchIdx> = (self.known.indices())
            .filter(|&switch| {
                lacks(switch) && (to_counts || self.counts(self.live.switches[switch.index()]))
            })
            .collect();
        if needed.is_empty() {
            return Some(Column::new());
        }
        let mut costs: Vec<u8> = self.known.indices().map(taken).collect();
        for &switch in order.highest_first() {
            if lacks(switch) {
                let up = self.ways_up(order, switch);
                let least = up.map(|(_, above)| costs[above.index()]).min();
                if let Some(least) = least.filter(|&least| least < MAX_COST) {
                    costs[switch.index()] = least + 1;
                }
            }
        }
        let is_spread = self.known.hosts(to) > 0;
        let mut column = Column::new();
        let mut is_known = FixedBitSet::with_capacity(self.known.switch_count());
        is_known.extend(needed.iter().map(|switch| switch.index()));
        while let Some(switch) = needed.pop() {
            let own = costs[switch.index()];
            if own == UNREACHED {
                return None;
            }
            let leads_on = |&(_, above): &(usize, SwitchIdx)| costs[above.index()] == own - 1;
            let mut ways: Vec<(usize, SwitchIdx)> =
                self.ways_up(order, switch).filter(leads_on).collect();
            if !is_spread {
                // Port 0 of a switch has little traffic: one way for all costs the fewest entries.
                let highest = ways.iter().min_by_key(|way| order.place(way.1)).copied();
                ways = highest.into_iter().collect();
            }
            for &(_, above) in &ways {
                if taken(above) == UNREACHED && !is_known.put(above.index()) {
                    needed.push(above);
                }
            }
            // Fewer groups than half-links, which a topology counts in 32 bits.
            let groups = ways.iter().map(|&(group, _)| group as u32).collect();
            column.push(Detour {
                switch,
                cost: own,
                groups,
            });
        }
        column.sort_unstable();
        Some(column)
    }

    /// The present port groups to switches above by the turned order.
    fn ways_up<'s>(
        &'s self,
        order: &'s Order,
        switch: SwitchIdx,
    ) -> impl Iterator<Item = (usize, SwitchIdx)> + 's {
        let groups = self.known.group_range(switch);
        groups
            .filter(|&group| self.live.groups.contains(group))
            .map(|group| (group, self.known.group(group).neighbour))
            .filter(move |&(_, neighbour)| order.is_above(neighbour, switch))
    }
}
