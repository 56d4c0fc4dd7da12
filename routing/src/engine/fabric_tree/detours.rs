//! Detours: paths for pairs that have none in the order of the tree.
//!
//! Only pairs with an end port get a detour, unless the options also ask for pairs of two switches;
//! all other entries stay unchanged. A switch without a tree path goes up, by the [order with an
//! apex on top](super::apex), to a switch that has a tree path or takes a detour itself. A detour
//! never starts downwards: a switch with a path down already has a tree path.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{self, AtomicUsize};

use fixedbitset::FixedBitSet;
use rayon::prelude::*;
use rsm_ids::Guid;

use super::super::paths::{Neighbours, TILE, Tile, UNREACHED, farther, nearer};
use super::apex::{self, Apexes};
use super::live::Live;
use super::numbering::Numbering;
use crate::topology::{Order, SwitchIdx, Topology};

/// The maximum number of detours. Each detour is computed and kept separately, and this many take
/// about 0.2 s. If more are needed, it is faster to compute another order.
pub(in super::super) const MAX_DETOURS: usize = 1 << 18;

/// The number of columns of one tile that are read together, because their costs are adjacent in
/// memory.
const COLUMNS_TOGETHER: usize = 32;

/// The detours of a routing.
#[derive(Clone)]
pub(super) struct Detours {
    /// The order that the detours and the paths of the tree follow.
    pub(super) order: Arc<Order>,
    /// The detours by column.
    columns: BTreeMap<u32, Arc<Column>>,
}

/// The detours to one switch, sorted.
type Column = Vec<Detour>;

/// The detour of one switch to one column.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Detour {
    switch: SwitchIdx,
    /// The cost of the path to the destination, in hops.
    pub(super) cost: u8,
    /// The port groups that the detour may take.
    pub(super) groups: Vec<u32>,
}

/// The reason why detours do not connect all pairs.
enum Failure {
    /// A switch has no detour to this column. There may be more such columns.
    Unreached(u32),
    /// More than [`MAX_DETOURS`] detours would be needed.
    TooMany,
}

/// The inputs for detours: a fabric and the paths of its tree.
#[derive(Clone, Copy)]
pub(super) struct Inputs<'a> {
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
    /// No detours: all pairs follow `order`.
    pub(super) fn none(order: &Order) -> Detours {
        Detours {
            order: Arc::new(order.clone()),
            columns: BTreeMap::new(),
        }
    }

    /// The GUIDs of the switches in the order that all paths follow, the highest first; `None` if
    /// that order is `usual`.
    pub(super) fn followed(&self, known: &Topology, usual: &Order) -> Option<Vec<Guid>> {
        let switches = self.order.highest_first();
        let guids = || switches.iter().map(|&switch| known.switch(switch).guid);
        (switches != usual.highest_first()).then(|| guids().collect())
    }

    /// The detours for another fabric with equal switches: translates the numbers of port groups
    /// from `from` to `to`, and leaves out groups that `to` lacks.
    pub(super) fn renumbered(&self, from: &Topology, to: &Topology) -> Detours {
        let group_of = |switch: SwitchIdx, group: u32| {
            let neighbour = from.group(group as usize).neighbour;
            let mut groups = to.group_range(switch);
            let group = groups.find(|&group| to.group(group).neighbour == neighbour);
            // There are fewer groups than ports.
            group.map(|group| group as u32)
        };
        let of_switch = |detour: &Detour| Detour {
            groups: (detour.groups.iter())
                .filter_map(|&group| group_of(detour.switch, group))
                .collect(),
            ..detour.clone()
        };
        let columns = self.columns.iter().map(|(&number, column)| {
            let column: Column = column.iter().map(of_switch).collect();
            (number, Arc::new(column))
        });
        Detours {
            order: self.order.clone(),
            columns: columns.collect(),
        }
    }

    /// Computes detours for all pairs that need one; `None` if no apex connects every pair.
    pub(super) fn of(inputs: &Inputs<'_>) -> Option<Detours> {
        let detours = Detours::none(&inputs.usual_order());
        detours.recompute(inputs, &inputs.unreached())
    }

    /// Updates the detours after parts have come and gone. Computes only the columns in `changed`
    /// and the columns whose detours these parts can affect. `None` if no apex connects every pair.
    pub(super) fn follow(
        &self,
        inputs: &Inputs<'_>,
        changed: &BTreeSet<u32>,
        between: &FabricDifference<'_>,
    ) -> Option<Detours> {
        let order = inputs.usual_order();
        let is_usual = *self.order == order;
        let affected_columns = is_usual.then(|| AffectedColumns::by(between, inputs, &order));
        let is_affected = |&column: &u32| {
            let affected_columns = affected_columns.as_ref();
            affected_columns.is_none_or(|affected_columns| {
                affected_columns.includes(self, inputs, column as usize)
            })
        };
        let affected = self.columns.keys().copied().filter(is_affected);
        let columns: BTreeSet<u32> = affected.chain(changed.iter().copied()).collect();
        let mut detours = self.clone();
        if !is_usual {
            detours.order = Arc::new(order);
        }
        detours.recompute(inputs, &columns.into_iter().collect::<Vec<_>>())
    }

    /// Computes the detours to `columns` again. If the order does not connect all of their pairs,
    /// tries other apexes, first those with the fewest broken cables above them. `None` if no apex
    /// connects every pair.
    fn recompute(mut self, inputs: &Inputs<'_>, columns: &[u32]) -> Option<Detours> {
        let failed = match self.fill(inputs, columns) {
            Ok(()) => return Some(self),
            Err(Failure::TooMany) => return None,
            Err(Failure::Unreached(column)) => column,
        };
        let affected: BTreeSet<u32> = self.columns.keys().chain(columns).copied().collect();
        let columns: Vec<u32> = affected.into_iter().collect();
        let serves = |part: usize, apex: SwitchIdx| {
            let order = inputs.turned(&[apex]);
            let up = Up::new(inputs, &order);
            let serves = |&column: &u32| {
                let to = inputs.numbering.columns[column as usize];
                let mut taken = inputs.taken(std::slice::from_ref(&column));
                inputs.component_of(to) != Some(part)
                    || taken.all(|(column, costs)| inputs.column(&up, column, costs).is_some())
            };
            // A column that one apex leaves unreached is usually unreached by the others as well.
            serves(&failed) && columns.par_iter().all(serves)
        };
        let mut apexes = Vec::new();
        for part in 0..inputs.present.components().len() {
            let candidates = inputs.candidates_of(part);
            apexes.extend(candidates.into_iter().find(|&apex| serves(part, apex)));
        }
        self.order = Arc::new(inputs.turned(&apexes));
        self.fill(inputs, &columns).ok()?;
        Some(self)
    }

    /// Computes the detours to `columns` in the present order.
    fn fill(&mut self, inputs: &Inputs<'_>, columns: &[u32]) -> Result<(), Failure> {
        if columns.is_empty() {
            return Ok(());
        }
        let up = Up::new(inputs, &self.order);
        // Count every column, even beyond the limit, so that the failure does not depend on
        // scheduling.
        let count = AtomicUsize::new(0);
        let is_room = || count.load(atomic::Ordering::Relaxed) <= MAX_DETOURS;
        let column = |(number, costs): (u32, Vec<u8>)| {
            let column = is_room()
                .then(|| inputs.column(&up, number, costs))
                .flatten()
                .ok_or(Failure::Unreached(number))?;
            count.fetch_add(column.len(), atomic::Ordering::Relaxed);
            Ok((number, column))
        };
        let of_tile: Vec<&[u32]> = columns
            .chunk_by(|&one, &other| one as usize / TILE == other as usize / TILE)
            .flat_map(|columns| columns.chunks(COLUMNS_TOGETHER))
            .collect();
        let found: Vec<Result<(u32, Column), Failure>> = of_tile
            .into_par_iter()
            .flat_map_iter(|columns| inputs.taken(columns).map(&column))
            .collect();
        if !is_room() {
            return Err(Failure::TooMany);
        }
        let found: Vec<(u32, Column)> = found.into_iter().collect::<Result<_, Failure>>()?;
        for (number, column) in found {
            let is_same = |known: &Arc<Column>| **known == column;
            if column.is_empty() {
                self.columns.remove(&number);
            } else if !self.columns.get(&number).is_some_and(is_same) {
                self.columns.insert(number, Arc::new(column));
            }
        }
        let count: usize = self.columns.values().map(|column| column.len()).sum();
        if count > MAX_DETOURS {
            return Err(Failure::TooMany);
        }
        Ok(())
    }

    /// The columns to which a switch takes a detour.
    pub(super) fn columns_from(&self, switch: SwitchIdx) -> Vec<u32> {
        let columns = self.columns.keys().copied();
        let takes = |&column: &u32| self.get(switch, column as usize).is_some();
        columns.filter(takes).collect()
    }

    /// The columns to which each switch takes a detour, for this many switches.
    pub(super) fn columns_by_switch(&self, switches: usize) -> Vec<Vec<u32>> {
        let mut columns = vec![Vec::new(); switches];
        for (&number, column) in &self.columns {
            for detour in column.iter() {
                columns[detour.switch.index()].push(number);
            }
        }
        columns
    }

    /// The detour of a switch to a column, if it takes one.
    pub(super) fn get(&self, switch: SwitchIdx, column: usize) -> Option<&Detour> {
        // There are fewer columns than LIDs.
        let column = self.columns.get(&(column as u32))?;
        let place = column.binary_search_by_key(&switch, |detour| detour.switch);
        Some(&column[place.ok()?])
    }

    /// Adds to the list of each switch, in `touched`, the columns to which its detour may differ
    /// from that in `earlier`.
    pub(super) fn touch(&self, earlier: &Detours, touched: &mut [Vec<u32>]) {
        let columns: BTreeSet<u32> = self
            .columns
            .keys()
            .chain(earlier.columns.keys())
            .copied()
            .collect();
        for column in columns {
            let (now, was) = (self.columns.get(&column), earlier.columns.get(&column));
            // Under another order, detours may take equal paths in another rotation.
            if let (Some(now), Some(was)) = (now, was)
                && Arc::ptr_eq(now, was)
                && *self.order == *earlier.order
            {
                continue;
            }
            let old_and_new = now.into_iter().chain(was).flat_map(|column| column.iter());
            for detour in old_and_new {
                touched[detour.switch.index()].push(column);
            }
        }
    }
}

impl Inputs<'_> {
    /// The component of a switch of the known fabric; `None` if the switch is missing.
    fn component_of(&self, switch: SwitchIdx) -> Option<usize> {
        let here = self.live.switches[switch.index()]?;
        Some(self.present.component_of(here))
    }

    /// For each switch, its component (`None` if the switch is missing), and whether its pairs with
    /// all other switches need a path: it has end ports, or the options ask for it.
    fn ends(&self) -> Vec<(Option<usize>, bool)> {
        let end_of = |&here: &Option<SwitchIdx>| {
            let part = here.map(|here| self.present.component_of(here));
            let carries = here.is_some_and(|here| self.present.destinations_of(here).len() > 1);
            (part, self.connect_roots || carries)
        };
        self.live.switches.iter().map(end_of).collect()
    }

    /// The order of the tree with `apexes`, each of a different component, on top.
    fn turned(&self, apexes: &[SwitchIdx]) -> Order {
        apex::turned(self.known, self.order, apexes, |apex, switch| {
            // A missing switch keeps its place, so that it does not change the order.
            let part = self.component_of(switch);
            part.is_none() || part == self.component_of(apex)
        })
    }

    /// The order with the best candidate of each component on top, even a missing one: as long as
    /// no pair needs a detour, the order does not change.
    fn usual_order(&self) -> Order {
        let parts = 0..self.present.components().len();
        let of_part = |part: usize| {
            let mut candidates = self.apexes.candidates().iter().copied();
            candidates.find(|&apex| self.component_of(apex).is_none_or(|own| own == part))
        };
        self.turned(&parts.filter_map(of_part).collect::<Vec<_>>())
    }

    /// The candidates in a component, in ascending order of the number of port groups above them
    /// that are missing.
    fn candidates_of(&self, part: usize) -> Vec<SwitchIdx> {
        let candidates = self.apexes.candidates().iter().copied();
        let mut found: Vec<SwitchIdx> = candidates
            .filter(|&apex| self.component_of(apex) == Some(part))
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
        let places = self.ends();
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

    /// The costs from all switches to each of some columns of one tile.
    fn taken<'c>(&self, columns: &'c [u32]) -> impl Iterator<Item = (u32, Vec<u8>)> + use<'c> {
        let mut costs = vec![Vec::with_capacity(self.known.switch_count()); columns.len()];
        if let Some(&first) = columns.first() {
            for row in self.tiles[first as usize / TILE].taken.iter() {
                for (costs, &column) in costs.iter_mut().zip(columns) {
                    costs.push(row[column as usize % TILE]);
                }
            }
        }
        columns.iter().copied().zip(costs)
    }

    /// Whether detours to a switch use all paths of least cost. For a switch without hosts, which
    /// gets little traffic, each detour uses one path, over the highest switch: that needs the
    /// fewest detours.
    fn is_spread(&self, to: SwitchIdx) -> bool {
        self.known.hosts(to) > 0
    }

    /// Computes the detours to one column for the switches that need one, and for switches without
    /// a tree path that these detours pass. `costs` are the costs of tree paths to the column.
    /// `None` if a switch that needs a detour has none.
    fn column(&self, up: &Up<'_>, number: u32, mut costs: Vec<u8>) -> Option<Column> {
        let to = self.numbering.columns[number as usize];
        let (Some(part), to_counts) = up.ends[to.index()] else {
            return Some(Column::new());
        };
        let needs = |switch: &SwitchIdx| {
            costs[switch.index()] == UNREACHED && {
                let (own, counts) = up.ends[switch.index()];
                own == Some(part) && (to_counts || counts)
            }
        };
        let mut needed: Vec<SwitchIdx> = self.known.indices().filter(needs).collect();
        let lacking = up.lacking(self.live, &needed, &costs);
        let mut is_lacking = FixedBitSet::with_capacity(self.known.switch_count());
        for &switch in &lacking {
            is_lacking.insert(switch.index());
            let ways = up.ways(self.live, switch);
            let hops = |group| up.neighbours.hops(group);
            let costs_up = ways.map(|(above, group)| farther(costs[above.index()], hops(group)));
            if let Some(least) = costs_up.min() {
                costs[switch.index()] = least;
            }
        }
        let is_spread = self.is_spread(to);
        let mut column = Column::new();
        let mut is_known = FixedBitSet::with_capacity(self.known.switch_count());
        is_known.extend(needed.iter().map(|switch| switch.index()));
        while let Some(switch) = needed.pop() {
            let own = costs[switch.index()];
            if own == UNREACHED {
                return None;
            }
            let leads_on = |&(above, group): &(SwitchIdx, u32)| {
                costs[above.index()] == nearer(own, up.neighbours.hops(group))
            };
            let mut ways: Vec<(SwitchIdx, u32)> =
                up.ways(self.live, switch).filter(leads_on).collect();
            if !is_spread {
                let highest = ways.iter().min_by_key(|way| up.order.place(way.0)).copied();
                ways = highest.into_iter().collect();
            }
            for &(above, _) in &ways {
                if is_lacking.contains(above.index()) && !is_known.put(above.index()) {
                    needed.push(above);
                }
            }
            column.push(Detour {
                switch,
                cost: own,
                groups: ways.into_iter().map(|(_, group)| group).collect(),
            });
        }
        column.sort_unstable();
        Some(column)
    }
}

/// The difference between two states of a fabric.
pub(super) struct FabricDifference<'a> {
    /// The switches at which a link or a destination has come or gone; may include more switches.
    pub(super) ends: &'a FixedBitSet,
    /// The parts that were present before, if only links have come or gone since and all present
    /// switches are connected before and after; otherwise `None`.
    pub(super) before: Option<&'a Live>,
}

/// The columns whose detours may change after a difference.
enum AffectedColumns {
    /// Columns to which one of these switches has no tree path.
    At(Vec<SwitchIdx>),
    /// Columns with a detour over one of these port groups, or for which one of the groups now
    /// gives a better detour.
    Over(Vec<ChangedUplink>),
}

/// A port group that has come or gone, seen from its lower end.
struct ChangedUplink {
    switch: SwitchIdx,
    group: u32,
    has_come: bool,
}

impl AffectedColumns {
    /// The columns that a difference may concern; `order` is the present order of detours.
    fn by(between: &FabricDifference<'_>, inputs: &Inputs<'_>, order: &Order) -> AffectedColumns {
        let ends = between.ends.ones().map(|end| SwitchIdx(end as u32));
        let Some(before) = between.before else {
            return AffectedColumns::At(ends.collect());
        };
        let (known, now) = (inputs.known, inputs.live);
        let ways = ends.flat_map(|switch| {
            let is_up = move |&group: &usize| order.is_above(known.group(group).neighbour, switch);
            let has_moved =
                |&group: &usize| before.groups.contains(group) != now.groups.contains(group);
            let groups = known.group_range(switch).filter(is_up).filter(has_moved);
            groups.map(move |group| ChangedUplink {
                switch,
                // There are fewer groups than ports.
                group: group as u32,
                has_come: now.groups.contains(group),
            })
        });
        AffectedColumns::Over(ways.collect())
    }

    /// Whether the detours of `column` may change; `detours` are the earlier ones.
    fn includes(&self, detours: &Detours, inputs: &Inputs<'_>, column: usize) -> bool {
        let taken = &inputs.tiles[column / TILE].taken;
        let lacks_path = |switch: SwitchIdx| taken[switch.index()][column % TILE] == UNREACHED;
        match self {
            AffectedColumns::At(ends) => ends.iter().any(|&end| lacks_path(end)),
            AffectedColumns::Over(ways) => ways
                .iter()
                .any(|way| lacks_path(way.switch) && way.concerns(detours, inputs, column)),
        }
    }
}

impl ChangedUplink {
    /// Whether a detour to `column` leads over this port group, or may do so now. The group's lower
    /// end must be a switch without a tree path.
    fn concerns(&self, detours: &Detours, inputs: &Inputs<'_>, column: usize) -> bool {
        let own = detours.get(self.switch, column);
        if !self.has_come {
            // A port group that no detour takes determines no cost.
            return own.is_some_and(|own| own.groups.contains(&self.group));
        }
        let known = inputs.known;
        let group = known.group(self.group as usize);
        let above = group.neighbour;
        let of_tree = inputs.tiles[column / TILE].taken[above.index()][column % TILE];
        let cost_above = match of_tree {
            UNREACHED => detours.get(above, column).map(|detour| detour.cost),
            cost => Some(cost),
        };
        let (Some(own), Some(cost_above)) = (own, cost_above) else {
            return true;
        };
        match farther(cost_above, known.hops(self.switch, group)).cmp(&own.cost) {
            Ordering::Less => true,
            Ordering::Greater => false,
            Ordering::Equal => {
                let to = inputs.numbering.columns[column];
                let is_lower = |&way: &u32| {
                    let neighbour = known.group(way as usize).neighbour;
                    detours.order.is_above(above, neighbour)
                };
                inputs.is_spread(to) || own.groups.iter().all(is_lower)
            }
        }
    }
}

/// The ways up in an order with apexes on top, for many columns.
struct Up<'a> {
    order: &'a Order,
    neighbours: Neighbours,
    /// [`Inputs::ends`].
    ends: Vec<(Option<usize>, bool)>,
}

impl<'a> Up<'a> {
    fn new(inputs: &Inputs<'_>, order: &'a Order) -> Up<'a> {
        Up {
            order,
            neighbours: Neighbours::new(inputs.known, order),
            ends: inputs.ends(),
        }
    }

    /// The present neighbours above a switch, each with the port group that leads to it.
    fn ways<'s>(
        &'s self,
        live: &'s Live,
        switch: SwitchIdx,
    ) -> impl Iterator<Item = (SwitchIdx, u32)> + 's {
        let above = self
            .neighbours
            .above(switch)
            .iter()
            .copied()
            .filter(|&(_, group)| live.groups.contains(group as usize));
        above.map(|(above, group)| (SwitchIdx(above), group))
    }

    /// The switches without a tree path that are among `needed` or that paths up from these reach,
    /// the highest first.
    fn lacking(&self, live: &Live, needed: &[SwitchIdx], costs: &[u8]) -> Vec<SwitchIdx> {
        let mut is_found = FixedBitSet::with_capacity(costs.len());
        is_found.extend(needed.iter().map(|switch| switch.index()));
        let mut found = needed.to_vec();
        let mut next = 0;
        while let Some(&switch) = found.get(next) {
            next += 1;
            for (above, _) in self.ways(live, switch) {
                if costs[above.index()] == UNREACHED && !is_found.put(above.index()) {
                    found.push(above);
                }
            }
        }
        found.sort_unstable_by_key(|&switch| self.order.place(switch));
        found
    }
}
