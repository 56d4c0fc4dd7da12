//! Fills the table of one switch.

mod alike;
mod classes;
mod column;
mod keys;
mod ways;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use rsm_ids::Lid;

pub(super) use self::alike::Alike;
use self::alike::Shape;
use self::classes::{Class, Classes, Mixed};
pub(super) use self::column::Gathered;
use self::column::{Costs, InTile};
use self::keys::{Keys, nonzero};
pub(super) use self::ways::uplink_rotations;
use self::ways::{FabricState, Way, fill_rotation, rotation_among};
use super::super::paths::{TILE, Tile, UNREACHED, nearer};
use super::Plan;
use super::turns::{detours, slot_of};
use crate::tables::{Lft, NO_PATH};
use crate::topology::SwitchIdx;

/// A buffer for the entries of one table, by LID.
pub(super) type Scratch = Box<[u8; 1 << 16]>;

/// A new scratch buffer; its contents do not matter.
pub(super) fn scratch() -> Scratch {
    Box::new([NO_PATH; 1 << 16])
}

/// Fills the table of one switch.
pub(super) struct Filler<'a> {
    plan: &'a Plan<'a>,
    switch: SwitchIdx,
    /// The number of consecutive destination numbers that share a port at this switch.
    divider: u32,
    /// The ways out of the switch: its port groups in the known fabric.
    ways: Vec<Way<'a>>,
    /// The number of ways that lead to a higher level.
    up_count: usize,
    /// For each port, the index of its way in `ways` if its link is present; otherwise 255.
    way_of_port: [u8; 256],
}

/// Adjacent columns of one class.
struct Run {
    /// The positions of their LIDs.
    positions: std::ops::Range<usize>,
    /// The index of the class in the list of classes.
    class: usize,
}

impl<'a> Filler<'a> {
    pub(super) fn new(plan: &'a Plan<'a>, switch: SwitchIdx) -> Filler<'a> {
        let known = plan.known;
        let level = |switch: SwitchIdx| plan.order.levels()[switch.index()];
        let mut way_of_port = [u8::MAX; 256];
        let ways: Vec<Way<'a>> = known
            .group_range(switch)
            .enumerate()
            .map(|(number, index)| {
                let group = known.group(index);
                for (link, index) in group.links.iter().zip(known.link_range(index)) {
                    if plan.live.links.contains(index) {
                        // A switch has at most 254 ports, and so at most as many ways.
                        way_of_port[link.port.index()] = number as u8;
                    }
                }
                Way {
                    neighbour: group.neighbour.index(),
                    links: group.links,
                    hops: known.hops(switch, group),
                    is_above: plan.order.is_above(group.neighbour, switch),
                    is_usually_above: plan.usual_order.is_above(group.neighbour, switch),
                    is_up: level(group.neighbour) < level(switch),
                    is_down: level(group.neighbour) > level(switch),
                    is_live: plan.live.groups.contains(index),
                }
            })
            .collect();
        Filler {
            plan,
            switch,
            divider: plan.numbering.dividers[switch.index()],
            up_count: ways.iter().filter(|way| way.is_up).count(),
            ways,
            way_of_port,
        }
    }

    /// Computes the table. Equal parts share memory with the other tables computed with `alike`.
    pub(super) fn lft(&self, alike: &Alike, scratch: &mut Scratch) -> Lft {
        let (classes, runs) = self.runs(alike);
        let may_share = self.own_entries().nth(1).is_none()
            && self.plan.exceptions.is_empty(self.switch)
            && self.detours(alike).is_empty();
        // A table with exceptions, detours or several own destinations is unique.
        let shape = may_share.then(|| Shape::of(&classes, &runs)).flatten();
        let Some(shape) = shape else {
            let table = self.fill(&classes, &runs, alike, scratch);
            self.add_detours(alike, table);
            self.add_own_entries(table);
            return alike.pool.table(table);
        };
        let mut lft = alike.table(shape, || {
            alike.pool.table(self.fill(&classes, &runs, alike, scratch))
        });
        for (lid, port) in self.own_entries() {
            lft.set_entry(lid, port);
        }
        lft
    }

    /// Computes the entries, by LID, in `scratch`.
    pub(super) fn table<'s>(&self, scratch: &'s mut Scratch) -> &'s [u8] {
        let alike = Alike::default();
        let (classes, runs) = self.runs(&alike);
        let table = self.fill(&classes, &runs, &alike, scratch);
        self.add_detours(&alike, table);
        self.add_own_entries(table);
        table
    }

    /// Fills the entries by LID, except detours and the entries of destinations at the switch
    /// itself.
    fn fill<'s>(
        &self,
        classes: &[Class],
        runs: &[Run],
        alike: &Alike,
        scratch: &'s mut Scratch,
    ) -> &'s mut [u8] {
        let plan = self.plan;
        let table = &mut scratch[..=plan.present.top_lid().index()];
        // One class has most positions at most switches: all uplinks lead there. Fill it first, in
        // one pass.
        let mut positions = vec![0; classes.len()];
        for run in runs {
            positions[run.class] += run.positions.len();
        }
        let largest = (0..classes.len()).max_by_key(|&class| positions[class]);
        let filled = largest.filter(|&class| self.fill_whole(&classes[class], alike, table));
        if filled.is_none() {
            table.fill(NO_PATH);
        }
        for run in runs {
            let class = &classes[run.class];
            if Some(run.class) != filled {
                self.fill_in_closed_form(class, run.positions.clone(), table);
            }
            self.fill_exceptions(class, run.positions.clone(), table);
        }
        for &lid in plan.gone {
            if let Some(entry) = table.get_mut(lid.index()) {
                *entry = NO_PATH;
            }
        }
        // Positions without a LID (gaps and missing ports) have written to entry 0.
        table[0] = NO_PATH;
        table
    }

    /// The entries of the destinations at the switch itself.
    fn own_entries(&self) -> impl Iterator<Item = (Lid, u8)> + '_ {
        let present = self.plan.present;
        let here = self.plan.live.switches[self.switch.index()];
        let own = here.map_or(&[][..], |here| present.destinations_of(here));
        own.iter().flat_map(|destination| {
            let lids = destination.own_lids();
            lids.map(|lid| (lid, destination.port.0))
        })
    }

    /// The columns to which the switch takes a detour.
    fn detours<'c>(&self, alike: &'c Alike) -> Cow<'c, [u32]> {
        match alike.detours.get(self.switch.index()) {
            Some(known) => known.into(),
            None => self.plan.detours.columns_from(self.switch).into(),
        }
    }

    /// Overwrites the entries of the columns to which the switch takes a detour.
    fn add_detours(&self, alike: &Alike, table: &mut [u8]) {
        let mut classes: HashMap<(Vec<usize>, Vec<usize>), Class> = HashMap::new();
        for &column in &*self.detours(alike) {
            let column = column as usize;
            let Some(ways) = self.ways_of_detour(column) else {
                continue;
            };
            let class = classes
                .entry(ways)
                .or_insert_with_key(|(now, intact)| self.class_by_detour(now, intact));
            for position in self.plan.numbering.range(column) {
                let lid = usize::from(self.plan.lids[position]);
                if lid != 0 {
                    table[lid] = self.port_of(class, position);
                }
            }
        }
    }

    /// The ways of the detour to a column, and the ways to it in the complete fabric, empty if no
    /// part is missing; `None` if the switch takes no detour to it.
    fn ways_of_detour(&self, column: usize) -> Option<(Vec<usize>, Vec<usize>)> {
        let detour = self.plan.detours.get(self.switch, column)?;
        let first = self.plan.known.group_range(self.switch).start;
        let groups = detour.groups.iter();
        let ways = groups.map(|&group| group as usize - first).collect();
        let intact = self.plan.intact_tiles.map(|tiles| {
            let at = InTile {
                tile: &tiles[column / TILE],
                column: column % TILE,
            };
            self.cheapest(&at, FabricState::Complete)
        });
        Some((ways, intact.unwrap_or_default()))
    }

    /// The class of columns with a detour by these ways.
    fn class_by_detour(&self, ways: &[usize], intact: &[usize]) -> Class {
        let mut class = self.classify(ways, intact);
        if let Class::Mixed(class) = &mut class {
            // Rotate over all potential detour ports, so that the loss of one port leaves the
            // shares of the others unchanged.
            let order = &*self.plan.detours.order;
            let is_way = |way: &&Way<'_>| {
                // Switches are numbered as in the known fabric.
                order.is_above(SwitchIdx(way.neighbour as u32), self.switch)
            };
            fill_rotation(&mut class.detours, self.ways.iter().filter(is_way));
            self.ensure_detour(ways, class);
        }
        class
    }

    /// Ensures that one of the class's detours is eligible: the rotation omits ports far slower
    /// than others, but these may be the only eligible ports.
    fn ensure_detour(&self, ways: &[usize], class: &mut Mixed) {
        let is_eligible = |port: &u8| class.eligible[usize::from(*port)];
        if !class.detours.iter().any(is_eligible) {
            let ways = ways.iter().map(|&way| &self.ways[way]);
            class.detours = rotation_among(ways, &class.eligible);
        }
    }

    /// Makes the present ports of some ways eligible.
    fn make_eligible(&self, ways: impl Iterator<Item = usize>, class: &mut Mixed) {
        for way in ways {
            for link in self.ways[way].links {
                let port = link.port.index();
                class.eligible[port] = usize::from(self.way_of_port[port]) == way;
            }
        }
    }

    /// Writes the entries of the destinations at the switch itself.
    fn add_own_entries(&self, table: &mut [u8]) {
        for (lid, port) in self.own_entries() {
            table[lid.index()] = port;
        }
    }

    /// Groups all columns into runs of one class. The switch's own column, to which no way leads,
    /// joins the run before it; its entries come from [`Self::own_entries`].
    fn runs(&self, alike: &Alike) -> (Vec<Class>, Vec<Run>) {
        let plan = self.plan;
        let own = plan.numbering.column_of[self.switch.index()] as usize;
        let position_count = plan.numbering.places.len();
        let mut classes = Classes::new(self);
        let mut runs: Vec<Run> = Vec::new();
        let mut keys = Keys::new(self.ways.len());
        let mut intact_keys = Keys::new(self.ways.len());
        for (number, tile) in plan.tiles.iter().enumerate() {
            let own = own.checked_sub(tile.first).filter(|&own| own < TILE);
            keys.set(
                self,
                tile,
                alike.same(number, FabricState::Present),
                FabricState::Present,
            );
            let mut starts = keys.starts(own);
            if let Some(tiles) = plan.intact_tiles {
                let same = alike.same(number, FabricState::Complete);
                intact_keys.set(self, &tiles[number], same, FabricState::Complete);
                for (start, intact) in starts.iter_mut().zip(intact_keys.starts(own)) {
                    *start |= intact;
                }
            }
            for column in nonzero(&starts).take_while(|&column| column < tile.width()) {
                let key = keys.column(column);
                let intact = match plan.intact_tiles {
                    Some(_) => intact_keys.column(column),
                    None => key,
                };
                let start = plan.numbering.start[tile.first + column] as usize;
                if let Some(run) = runs.last_mut() {
                    run.positions.end = start;
                }
                runs.push(Run {
                    // The first run also covers any position before it.
                    positions: if runs.is_empty() { 0 } else { start }..position_count,
                    class: classes.of(key, intact),
                });
            }
        }
        (classes.into_list(), runs)
    }

    /// The round-robin list of the ports of all uplinks, missing ones included.
    fn uplink_rotations(&self) -> &Vec<u8> {
        &self.plan.uplink_rotations[self.switch.index()]
    }

    /// The least-cost ways towards one column.
    fn cheapest(&self, costs: &impl Costs, state: FabricState) -> Vec<usize> {
        let (down, taken) = (
            costs.down(self.switch.index()),
            costs.taken(self.switch.index()),
        );
        let goes_down = down != UNREACHED;
        if taken == UNREACHED || taken == 0 {
            return Vec::new();
        }
        let is_cheapest = |way: &Way<'_>| {
            let (is_present, is_above) = way.presence_and_direction(state);
            is_present
                && if is_above {
                    !goes_down && costs.taken(way.neighbour) == nearer(taken, way.hops)
                } else {
                    goes_down && costs.down(way.neighbour) == nearer(down, way.hops)
                }
        };
        (0..self.ways.len())
            .filter(|&way| is_cheapest(&self.ways[way]))
            .collect()
    }

    /// The entries for the LIDs of some columns, which may be listed more than once.
    pub(super) fn entries(&self, columns: &[u32], gathered: &Gathered) -> Vec<(Lid, u8)> {
        let plan = self.plan;
        let mut columns = columns.to_vec();
        columns.sort_unstable();
        columns.dedup();
        let mut found = Vec::new();
        for column in columns.into_iter().map(|column| column as usize) {
            if plan.numbering.columns[column] == self.switch {
                continue;
            }
            let detour = self
                .ways_of_detour(column)
                .map(|(ways, intact)| self.class_by_detour(&ways, &intact));
            let class = match (detour, gathered.get(column)) {
                (Some(class), _) => class,
                (None, Some((now, intact))) => self.class_by(now, intact),
                (None, None) => {
                    let at = |tiles: &'a [Arc<Tile>]| InTile {
                        tile: &tiles[column / TILE],
                        column: column % TILE,
                    };
                    self.class_by(&at(plan.tiles), plan.intact_tiles.map(at).as_ref())
                }
            };
            for position in plan.numbering.range(column) {
                let lid = Lid(plan.lids[position]);
                if lid != Lid::NONE {
                    found.push((lid, self.port_of(&class, position)));
                }
            }
        }
        found
    }

    /// The class of a column with these costs; `intact` holds the costs in the complete fabric if
    /// parts are missing.
    fn class_by(&self, now: &impl Costs, intact: Option<&impl Costs>) -> Class {
        let cheapest = self.cheapest(now, FabricState::Present);
        match intact {
            None => self.classify(&cheapest, &cheapest),
            Some(intact) => self.classify(&cheapest, &self.cheapest(intact, FabricState::Complete)),
        }
    }

    /// The divider of destination numbers for a choice among some ways.
    fn divider_among(&self, ways: &[usize]) -> u32 {
        let downward = |&way: &usize| self.plan.numbering.downward[self.ways[way].neighbour];
        match ways {
            _ if !ways.iter().all(|&way| self.ways[way].is_down) => self.divider,
            [only] => downward(only).links,
            several => {
                let among = several.iter().map(|way| downward(way).among);
                among.min().unwrap_or(self.divider)
            }
        }
    }

    /// The class of columns with these cheapest ways, now and in the complete fabric.
    fn classify(&self, cheapest: &[usize], intact: &[usize]) -> Class {
        let mut class = Mixed {
            divider: self.divider_among(intact),
            base: Vec::new(),
            eligible: [false; 256],
            is_intact: false,
            detours: Vec::new(),
        };
        if cheapest.is_empty() {
            return Class::Nowhere;
        }
        self.make_eligible(cheapest.iter().copied(), &mut class);
        let all_up = |ways: &[usize]| ways.iter().all(|&way| self.ways[way].is_up);
        let nearly_all = |ways: &[usize]| {
            let missing = self.up_count - ways.len();
            missing * super::super::choose::FAULTY_IN < self.up_count
        };
        let rotation_of = |rotation: &mut Vec<u8>, ways: &[usize]| {
            fill_rotation(rotation, ways.iter().map(|&way| &self.ways[way]));
        };
        if all_up(intact) && nearly_all(intact) {
            class.base.clone_from(self.uplink_rotations());
        } else {
            rotation_of(&mut class.base, intact);
        }
        let is_eligible = |port: &u8| class.eligible[usize::from(*port)];
        class.is_intact = !class.base.is_empty() && class.base.iter().all(is_eligible);
        if !class.is_intact {
            if class.base.iter().any(is_eligible) {
                class.detours.clone_from(&class.base);
            } else if all_up(cheapest) {
                class.detours.clone_from(self.uplink_rotations());
            } else {
                rotation_of(&mut class.detours, cheapest);
            }
            self.ensure_detour(cheapest, &mut class);
        }
        match (&class.base[..], class.is_intact) {
            (&[port], true) => Class::Port(port),
            _ => Class::Mixed(Box::new(class)),
        }
    }

    /// Fills a whole table as if all destinations belonged to one class. Returns false and does
    /// nothing if the class has at most one port, if one of its ports is missing, or if its slots
    /// were not computed in advance.
    fn fill_whole(&self, class: &Class, alike: &Alike, table: &mut [u8]) -> bool {
        let Class::Mixed(class) = class else {
            return false;
        };
        let slots = self.plan.shared_slots.of(class.divider, class.base.len());
        let Some(slots) = slots.filter(|_| class.is_intact) else {
            return false;
        };
        alike.row(class.divider, &class.base, table, |table| {
            let port_of = class.port_of_slot();
            for (entry, &slot) in table.iter_mut().zip(slots) {
                *entry = port_of[usize::from(slot)];
            }
        });
        true
    }

    /// Applies the exceptions to the closed form for some positions of a class, if their port is on
    /// a cheapest way. A class of one port leaves no choice.
    fn fill_exceptions(&self, class: &Class, positions: std::ops::Range<usize>, table: &mut [u8]) {
        let Class::Mixed(class) = class else {
            return;
        };
        for &(position, port) in self.plan.exceptions.within(self.switch, positions) {
            if class.eligible[usize::from(port)] {
                table[usize::from(self.plan.lids[position as usize])] = port;
            }
        }
    }

    /// Fills the entries of some positions of a class by the closed form.
    fn fill_in_closed_form(
        &self,
        class: &Class,
        positions: std::ops::Range<usize>,
        table: &mut [u8],
    ) {
        let lids = &self.plan.lids[positions.clone()];
        let mut fill_with = |port: u8| {
            for &lid in lids {
                table[usize::from(lid)] = port;
            }
        };
        let class = match class {
            Class::Nowhere => return fill_with(NO_PATH),
            Class::Port(port) => return fill_with(*port),
            Class::Mixed(class) => class,
        };
        let Some(slots) = self.plan.shared_slots.of(class.divider, class.base.len()) else {
            for (&lid, position) in lids.iter().zip(positions) {
                table[usize::from(lid)] = self.port_in_closed_form(class, position);
            }
            return;
        };
        let port_of = class.port_of_slot();
        let is_open = |port: u8| class.is_intact || class.eligible[usize::from(port)];
        for (&lid, position) in lids.iter().zip(positions) {
            let port = port_of[usize::from(slots[usize::from(lid)])];
            table[usize::from(lid)] = if is_open(port) {
                port
            } else {
                self.detour(class, position)
            };
        }
    }

    /// The port of a class for a position; [`NO_PATH`] if no way leads there.
    fn port_of(&self, class: &Class, position: usize) -> u8 {
        match class {
            Class::Nowhere => NO_PATH,
            Class::Port(port) => *port,
            Class::Mixed(class) => self.port(class, position),
        }
    }

    /// The port of the exception for a position if that port is on a cheapest way, else the port of
    /// the closed form.
    fn port(&self, class: &Mixed, position: usize) -> u8 {
        match self.plan.exceptions.port(self.switch, position) {
            Some(port) if class.eligible[usize::from(port)] => port,
            _ => self.port_in_closed_form(class, position),
        }
    }

    /// The port of the closed form if that is eligible, else the first eligible detour.
    fn port_in_closed_form(&self, class: &Mixed, position: usize) -> u8 {
        if !class.base.is_empty() {
            let place = &self.plan.numbering.places[position];
            let port = class.base[slot_of(place, class.divider, class.base.len())];
            if class.eligible[usize::from(port)] {
                return port;
            }
        }
        self.detour(class, position)
    }

    /// The first eligible detour for a position; [`NO_PATH`] if there is none.
    fn detour(&self, class: &Mixed, position: usize) -> u8 {
        let place = &self.plan.numbering.places[position];
        let source = self.plan.numbering.column_of[self.switch.index()] as usize;
        detours(place, class.divider, source, class.detours.len())
            .map(|slot| class.detours[slot])
            .find(|&port| class.eligible[usize::from(port)])
            .unwrap_or(NO_PATH)
    }
}
