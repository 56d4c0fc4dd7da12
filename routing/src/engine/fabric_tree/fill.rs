//! One switch's table.

use std::collections::HashMap;

use rayon::prelude::*;
use rsm_ids::Lid;

use super::super::order::Order;
use super::super::paths::{NEVER, Row, TILE, Tile, UNREACHED};
use super::super::slots;
use super::Plan;
use super::turns::{detours, turn};
use crate::tables::{Lft, NO_PATH};
use crate::topology::{Group, HalfLink, SwitchIdx, Topology};

/// How many port groups one byte of a column's key stands for.
const KEY_BITS: usize = 8;

/// Room for the entries of any table.
pub(super) type Scratch = Box<[u8; 1 << 16]>;

/// A port group of the known fabric as a way out of one switch.
struct Way<'a> {
    neighbour: usize,
    links: &'a [HalfLink],
    /// By the order that paths follow.
    is_above: bool,
    is_usually_above: bool,
    /// By the levels that traffic is spread by.
    is_up: bool,
    is_live: bool,
}

impl Way<'_> {
    /// Whether it is there, and leads to a switch above.
    fn stands(&self, when: When) -> (bool, bool) {
        match when {
            When::Now => (self.is_live, self.is_above),
            When::Usually => (true, self.is_usually_above),
        }
    }
}

/// Which ways of a switch cost least towards each column of a tile, one bit for each way.
struct Keys {
    /// By eight ways: a byte for each column.
    rows: Vec<Row>,
}

/// Of which fabric something is asked.
#[derive(Clone, Copy)]
enum When {
    /// Of what is there.
    Now,
    /// Of what is known, as if nothing had gone.
    Usually,
}

/// Fills the table of one switch.
pub(super) struct Filler<'a> {
    plan: &'a Plan<'a>,
    switch: SwitchIdx,
    divider: u32,
    ways: Vec<Way<'a>>,
    up_count: usize,
    /// By port: the way that it belongs to, with those links alone that are there.
    way_of_port: [u8; 256],
}

/// What columns with the same ways have in common.
struct Class {
    /// Whose turn it is when nothing has gone.
    base: Vec<u8>,
    /// By port: it is there, and leads the cheapest way.
    eligible: [bool; 256],
    /// Every port of `base` is eligible.
    is_intact: bool,
    /// Where to look for what has lost its turn.
    detours: Vec<u8>,
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
                        // At most 254 ports, so at most as many ways.
                        way_of_port[link.port.index()] = number as u8;
                    }
                }
                Way {
                    neighbour: group.neighbour.index(),
                    links: group.links,
                    is_above: plan.order.is_above(group.neighbour, switch),
                    is_usually_above: plan.usual_order.is_above(group.neighbour, switch),
                    is_up: level(group.neighbour) < level(switch),
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

    /// The table; `scratch` is left in any state.
    pub(super) fn table(&self, scratch: &mut Scratch) -> Lft {
        let plan = self.plan;
        let length = plan.present.top_lid().index() + 1;
        scratch[..length].fill(NO_PATH);
        let mut classes: Vec<Class> = Vec::new();
        let mut class_of: HashMap<Box<[u8]>, usize> = HashMap::new();
        let mut name = Vec::new();
        let mut keys = Keys::new(self.ways.len());
        let mut intact_keys = Keys::new(self.ways.len());
        for (number, tile) in plan.tiles.iter().enumerate() {
            let mut changes = keys.set(self, tile, When::Now);
            if let Some(intact) = plan.intact_tiles {
                let other = intact_keys.set(self, &intact[number], When::Usually);
                for (change, other) in changes.iter_mut().zip(&other) {
                    *change |= other;
                }
            }
            let width = tile.width();
            let mut column = 0;
            while column < width {
                let first = column;
                column += 1;
                while column < width && changes[column] == 0 {
                    column += 1;
                }
                let known_key = match plan.intact_tiles {
                    None => &keys,
                    Some(_) => &intact_keys,
                };
                name.clear();
                name.extend(keys.column(first).chain(known_key.column(first)));
                let place = match class_of.get(&name[..]) {
                    Some(&place) => place,
                    None => {
                        class_of.insert(name.clone().into(), classes.len());
                        classes.push(self.classify(&keys.ways(first), &known_key.ways(first)));
                        classes.len() - 1
                    }
                };
                let positions = plan.numbering.start[tile.first + first] as usize
                    ..plan.numbering.start[tile.first + column] as usize;
                self.fill(&classes[place], positions, scratch);
            }
        }
        if let Some(here) = plan.live.switches[self.switch.index()] {
            for destination in plan.present.destinations_of(here) {
                for lid in destination.lids() {
                    scratch[lid.index()] = destination.port.0;
                }
            }
        }
        // Where gaps and what has gone were written to.
        scratch[0] = NO_PATH;
        Lft::from_entries(scratch[..length].to_vec())
    }

    fn up_turns(&self) -> &Vec<u8> {
        &self.plan.up_turns[self.switch.index()]
    }

    /// The ways that cost least towards one column of a tile.
    fn cheapest(&self, tile: &Tile, column: usize, when: When) -> Vec<usize> {
        let (down, taken) = (
            tile.down[self.switch.index()][column],
            tile.taken[self.switch.index()][column],
        );
        let goes_down = down != UNREACHED;
        if taken == UNREACHED || taken == 0 {
            return Vec::new();
        }
        let is_cheapest = |way: &Way<'_>| {
            let (is_there, is_above) = way.stands(when);
            is_there
                && if is_above {
                    !goes_down && tile.taken[way.neighbour][column] == taken - 1
                } else {
                    goes_down && tile.down[way.neighbour][column] == down - 1
                }
        };
        (0..self.ways.len())
            .filter(|&way| is_cheapest(&self.ways[way]))
            .collect()
    }

    /// The entries of some columns, one of which may be named more than once.
    pub(super) fn entries(&self, columns: &[u32]) -> Vec<(Lid, u8)> {
        let plan = self.plan;
        let mut columns = columns.to_vec();
        columns.sort_unstable();
        columns.dedup();
        let mut found = Vec::new();
        for column in columns.into_iter().map(|column| column as usize) {
            if plan.numbering.columns[column] == self.switch {
                continue;
            }
            let (number, place) = (column / TILE, column % TILE);
            let cheapest = self.cheapest(&plan.tiles[number], place, When::Now);
            let intact = match plan.intact_tiles {
                None => cheapest.clone(),
                Some(intact) => self.cheapest(&intact[number], place, When::Usually),
            };
            let class = self.classify(&cheapest, &intact);
            let is_routed = !(class.base.is_empty() && class.detours.is_empty());
            for position in plan.numbering.range(column) {
                let port = if is_routed {
                    self.port(&class, position)
                } else {
                    NO_PATH
                };
                found.push((Lid(plan.lids[position]), port));
            }
        }
        found.retain(|&(lid, _)| lid != Lid::NONE);
        found
    }

    fn classify(&self, cheapest: &[usize], intact: &[usize]) -> Class {
        let mut class = Class {
            base: Vec::new(),
            eligible: [false; 256],
            is_intact: false,
            detours: Vec::new(),
        };
        if cheapest.is_empty() {
            return class;
        }
        for &way in cheapest {
            for link in self.ways[way].links {
                let port = link.port.index();
                class.eligible[port] = usize::from(self.way_of_port[port]) == way;
            }
        }
        let all_up = |ways: &[usize]| ways.iter().all(|&way| self.ways[way].is_up);
        let nearly_all = |ways: &[usize]| {
            let missing = self.up_count - ways.len();
            missing * super::super::choose::FAULTY_IN < self.up_count
        };
        let turns_of = |turns: &mut Vec<u8>, ways: &[usize]| {
            fill_turns(turns, ways.iter().map(|&way| &self.ways[way]));
        };
        if all_up(intact) && nearly_all(intact) {
            class.base.clone_from(self.up_turns());
        } else {
            turns_of(&mut class.base, intact);
        }
        let is_eligible = |port: &u8| class.eligible[usize::from(*port)];
        class.is_intact = !class.base.is_empty() && class.base.iter().all(is_eligible);
        if !class.is_intact {
            if class.base.iter().any(is_eligible) {
                class.detours.clone_from(&class.base);
            } else if all_up(cheapest) {
                class.detours.clone_from(self.up_turns());
            } else {
                turns_of(&mut class.detours, cheapest);
            }
        }
        class
    }

    fn fill(&self, class: &Class, positions: std::ops::Range<usize>, table: &mut Scratch) {
        let lids = &self.plan.lids[positions.clone()];
        if class.base.is_empty() && class.detours.is_empty() {
            return;
        }
        if let ([port], true) = (&class.base[..], class.is_intact) {
            for &lid in lids {
                table[usize::from(lid)] = *port;
            }
            return;
        }
        let turns = self.plan.turns.of(self.divider, class.base.len());
        if let (Some(turns), true) = (turns, class.is_intact) {
            let mut port_of = [NO_PATH; 256];
            port_of[..class.base.len()].copy_from_slice(&class.base);
            for (&lid, &turn) in lids.iter().zip(&turns[positions]) {
                table[usize::from(lid)] = port_of[usize::from(turn)];
            }
            return;
        }
        for (&lid, position) in lids.iter().zip(positions) {
            table[usize::from(lid)] = self.port(class, position);
        }
    }

    /// The closed form where it holds, else the first detour that is open.
    fn port(&self, class: &Class, position: usize) -> u8 {
        let place = &self.plan.numbering.places[position];
        let is_eligible = |port: u8| class.eligible[usize::from(port)];
        if !class.base.is_empty() {
            let port = class.base[turn(place, self.divider, class.base.len())];
            if is_eligible(port) {
                return port;
            }
        }
        let source = self.plan.numbering.column_of[self.switch.index()] as usize;
        detours(place, self.divider, source, class.detours.len())
            .map(|turn| class.detours[turn])
            .find(|&port| is_eligible(port))
            .unwrap_or(NO_PATH)
    }
}

impl Keys {
    fn new(ways: usize) -> Keys {
        Keys {
            rows: vec![[0; TILE]; ways.div_ceil(KEY_BITS)],
        }
    }

    /// The keys of a tile; gives where a column's differs from that of the one before.
    fn set(&mut self, filler: &Filler<'_>, tile: &Tile, when: When) -> Row {
        let (down, up) = next_costs(tile, filler.switch);
        for (ways, key) in filler.ways.chunks(KEY_BITS).zip(self.rows.iter_mut()) {
            *key = [0; TILE];
            for (bit, way) in ways.iter().enumerate() {
                let (is_there, is_above) = way.stands(when);
                if !is_there {
                    continue;
                }
                let (row, next) = if is_above {
                    (&tile.taken[way.neighbour], &up)
                } else {
                    (&tile.down[way.neighbour], &down)
                };
                let mask = 1u8 << bit;
                for column in 0..TILE {
                    key[column] |= if row[column] == next[column] { mask } else { 0 };
                }
            }
        }
        let mut changes = [0; TILE];
        for key in &self.rows {
            for column in 1..TILE {
                changes[column] |= key[column] ^ key[column - 1];
            }
        }
        changes
    }

    fn column(&self, column: usize) -> impl Iterator<Item = u8> {
        self.rows.iter().map(move |row| row[column])
    }

    fn ways(&self, column: usize) -> Vec<usize> {
        let mut ways = Vec::new();
        for (number, row) in self.rows.iter().enumerate() {
            let mut bits = row[column];
            while bits != 0 {
                ways.push(number * KEY_BITS + bits.trailing_zeros() as usize);
                bits &= bits - 1;
            }
        }
        ways
    }
}

/// What the next switch must cost, by column: on the way down, and on the way up.
fn next_costs(tile: &Tile, switch: SwitchIdx) -> (Row, Row) {
    let (mut down, mut up) = ([NEVER; TILE], [NEVER; TILE]);
    let (own, taken) = (&tile.down[switch.index()], &tile.taken[switch.index()]);
    for column in 0..TILE {
        if own[column] != UNREACHED && own[column] != 0 {
            down[column] = own[column] - 1;
        }
        if own[column] == UNREACHED && taken[column] != UNREACHED {
            up[column] = taken[column] - 1;
        }
    }
    (down, up)
}

/// By switch: the turns of all ways up, with what has gone.
pub(super) fn up_turns(known: &Topology, order: &Order) -> Vec<Vec<u8>> {
    let level = |switch: SwitchIdx| order.levels()[switch.index()];
    let of = |switch: SwitchIdx| {
        let is_up = |group: &Group<'_>| level(group.neighbour) < level(switch);
        let mut turns = Vec::new();
        slots::fill(
            &mut turns,
            known
                .group_range(switch)
                .map(|group| known.group(group))
                .filter(is_up),
        );
        turns
    };
    (0..known.switch_count() as u32)
        .into_par_iter()
        .map(|switch| of(SwitchIdx(switch)))
        .collect()
}

fn fill_turns<'w>(turns: &mut Vec<u8>, ways: impl Iterator<Item = &'w Way<'w>> + Clone) {
    let group = |way: &'w Way<'w>| Group {
        // As numbered in the known fabric.
        neighbour: SwitchIdx(way.neighbour as u32),
        links: way.links,
    };
    slots::fill(turns, ways.map(group));
}
