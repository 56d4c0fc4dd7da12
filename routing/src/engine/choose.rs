//! Fills forwarding tables from path costs: chooses a least-cost port for each destination.

use rayon::prelude::*;
use rsm_ids::Lid;

use super::avoided::Avoided;
use super::paths::{NEVER, Row, TILE, Tile, UNREACHED, nearer};
use super::slots::{self, Rates};
use super::spread::{Column, Spread, Target, slot_distance};
use crate::tables::{Lft, NO_PATH, Tables};
use crate::topology::{Group, Order, SwitchIdx, Topology};

/// The number of port groups that one byte of a column's key represents.
const KEY_BITS: usize = 8;

/// If fewer than one in this many of a switch's uplinks are missing from a set of uplinks, the set
/// counts as the full set with faults: only destinations whose ports are missing get other ports. A
/// smaller set counts as the design of the fabric.
pub(super) const FAULTY_IN: usize = 4;

/// All inputs from which the tables are computed.
pub(super) struct Choice<'a> {
    pub(super) topology: &'a Topology,
    /// The costs of the permitted paths.
    pub(super) tiles: &'a [Tile],
    /// The direction of links; `None` if a path may lead to any neighbour that is nearer to the
    /// destination.
    pub(super) order: Option<&'a Order>,
    /// The numbers of destinations, by which they are spread over ports.
    pub(super) spread: &'a Spread,
    /// The tables in force, if any: an entry stays as it is while its port is a least-cost choice.
    pub(super) previous: Option<&'a Tables>,
}

impl Choice<'_> {
    /// Computes the table of each switch, with a least-cost port for each destination.
    pub(super) fn tables(&self) -> Tables {
        let avoided = Avoided::of(self.topology, self.tiles, self.order);
        let lfts = (0..self.topology.switch_count() as u32)
            .into_par_iter()
            .map(|switch| self.table(SwitchIdx(switch), avoided.as_ref()))
            .collect();
        Tables { lfts }
    }

    /// Computes the table of one switch.
    fn table(&self, switch: SwitchIdx, avoided: Option<&Avoided>) -> Lft {
        let previous = self
            .previous
            .and_then(|tables| tables.lfts.get(switch.index()));
        let (mut table, mut is_stable) = Filler::new(self, switch, previous, avoided).table();
        // If a port has lost all its destinations, the next plan would treat the port as unused and
        // change the table. The loop makes these changes now, so that routing the same fabric again
        // changes nothing. It ends because a destination at the port of its own slot stays there.
        while !is_stable {
            let previous = table;
            (table, is_stable) = Filler::new(self, switch, Some(&previous), avoided).table();
        }
        table
    }
}

/// Fills the table of one switch.
struct Filler<'a> {
    choice: &'a Choice<'a>,
    switch: SwitchIdx,
    /// The port groups of the switch, one for each neighbour.
    groups: Vec<Group<'a>>,
    /// For each group, whether it leads up.
    is_up: Vec<bool>,
    /// For each group, its cost in hops.
    hops: Vec<u8>,
    /// The number of groups that lead up.
    up_count: usize,
    /// The round-robin slots of all uplinks.
    up_slots: Vec<u8>,
    /// The number of consecutive destination numbers that share a slot.
    divider: u32,
    /// The table in force, if any.
    previous: Option<&'a Lft>,
    /// The switches to avoid, if any.
    avoided: Option<&'a Avoided>,
    /// For each port, whether the previous table has an entry for it.
    in_use: [bool; 256],
    /// For each port, whether the new table has an entry for it.
    will_be_in_use: [bool; 256],
    /// The entries of the new table, by LID.
    table: Vec<u8>,
}

/// The least-cost groups of one or more consecutive columns, and their ports.
struct Class {
    /// The indices of the groups in [`Filler::groups`].
    groups: Vec<usize>,
    /// The round-robin slots of the groups: the port of each slot.
    slots: Vec<u8>,
    /// For each port, whether it is in `slots`.
    eligible: [bool; 256],
    /// Whether the groups are all uplinks except for a few, which count as faulty ([`FAULTY_IN`]).
    has_faults: bool,
}

/// For each column, a nonzero byte if its key differs from the key of the previous column.
fn changes(keys: &[Row]) -> Row {
    let mut changes = [0; TILE];
    for key in keys {
        for column in 1..TILE {
            changes[column] |= key[column] ^ key[column - 1];
        }
    }
    changes
}

impl<'a> Filler<'a> {
    fn new(
        choice: &'a Choice<'a>,
        switch: SwitchIdx,
        previous: Option<&'a Lft>,
        avoided: Option<&'a Avoided>,
    ) -> Filler<'a> {
        let topology = choice.topology;
        let groups: Vec<Group<'a>> = topology.groups(switch).collect();
        let leads_up = |group: &Group<'_>| match choice.order {
            Some(order) => order.is_above(group.neighbour, switch),
            None => false,
        };
        let is_up: Vec<bool> = groups.iter().map(leads_up).collect();
        let mut up_slots = Vec::new();
        slots::fill(
            &mut up_slots,
            groups.iter().copied().filter(|group| leads_up(group)),
            Rates::Proportional,
        );
        let mut in_use = [false; 256];
        for port in previous.into_iter().flat_map(Lft::iter) {
            in_use[usize::from(port)] = true;
        }
        Filler {
            choice,
            switch,
            up_count: is_up.iter().filter(|&&is_up| is_up).count(),
            hops: groups
                .iter()
                .map(|&group| topology.hops(switch, group))
                .collect(),
            groups,
            is_up,
            up_slots,
            divider: choice.spread.dividers[switch.index()],
            previous,
            avoided,
            in_use,
            will_be_in_use: [false; 256],
            table: vec![NO_PATH; topology.top_lid().index() + 1],
        }
    }

    /// Computes the table. The second result says whether the table still uses each port to another
    /// switch that the previous table uses.
    fn table(mut self) -> (Lft, bool) {
        let mut keys = vec![[0u8; TILE]; self.groups.len().div_ceil(KEY_BITS)];
        let mut class = Class {
            groups: Vec::new(),
            slots: Vec::new(),
            eligible: [false; 256],
            has_faults: false,
        };
        for (number, tile) in self.choice.tiles.iter().enumerate() {
            self.mark_choices(tile, &mut keys);
            if let Some(avoided) = self.avoided {
                self.remove_avoided(avoided, number, &mut keys);
            }
            let changes = changes(&keys);
            for (column, &change) in changes.iter().enumerate().take(tile.width()) {
                if column == 0 || change != 0 {
                    self.classify(&keys, column, &mut class);
                }
                let destination = tile.first + column;
                if !class.slots.is_empty() && destination != self.switch.index() {
                    let spread = self.choice.spread;
                    self.fill(&spread.columns[destination], &class);
                }
            }
        }
        for destination in self.choice.topology.destinations_of(self.switch) {
            for lid in destination.own_lids() {
                self.table[lid.index()] = destination.port.0;
            }
        }
        let links = self.groups.iter().flat_map(|group| group.links);
        let is_stable = links
            .map(|link| link.port.index())
            .all(|port| self.will_be_in_use[port] || !self.in_use[port]);
        (Lft::from_entries(&self.table), is_stable)
    }

    /// Marks the groups that are a least-cost choice for each column: bit `n` of `keys[m]` in a
    /// column stands for group `8 m + n`.
    fn mark_choices(&self, tile: &Tile, keys: &mut [Row]) {
        let (mut down, mut up) = self.next_costs(tile, 1);
        let mut hops = 1;
        for (number, key) in keys.iter_mut().enumerate() {
            *key = [0; TILE];
            let first = number * KEY_BITS;
            for group in first..self.groups.len().min(first + KEY_BITS) {
                if self.hops[group] != hops {
                    hops = self.hops[group];
                    (down, up) = self.next_costs(tile, hops);
                }
                let (bit, is_up) = (group - first, self.is_up[group]);
                let neighbour = self.groups[group].neighbour.index();
                let (row, next) = if is_up {
                    (&tile.taken[neighbour], &up)
                } else {
                    (&tile.down[neighbour], &down)
                };
                let mask = 1u8 << bit;
                for column in 0..TILE {
                    key[column] |= if row[column] == next[column] { mask } else { 0 };
                }
            }
        }
    }

    /// Removes choices that lead to avoided switches from the columns of tile `tile` that have
    /// other choices.
    fn remove_avoided(&self, avoided: &Avoided, tile: usize, keys: &mut [Row]) {
        let groups = self.groups.chunks(KEY_BITS);
        let mut kept = keys.to_vec();
        for (groups, key) in groups.zip(&mut kept) {
            for (bit, group) in groups.iter().enumerate() {
                let row = avoided.row(tile, group.neighbour);
                for (key, &is_avoided) in key.iter_mut().zip(row) {
                    *key &= !(is_avoided << bit);
                }
            }
        }
        for column in 0..TILE {
            if kept.iter().any(|key| key[column] != 0) {
                for (key, kept) in keys.iter_mut().zip(&kept) {
                    key[column] = kept[column];
                }
            }
        }
    }

    /// For each column, the cost that the next switch must have after a link that counts as `hops`
    /// hops, if the link leads down and if it leads up.
    fn next_costs(&self, tile: &Tile, hops: u8) -> (Row, Row) {
        let (mut down, mut up) = ([NEVER; TILE], [NEVER; TILE]);
        let own = &tile.down[self.switch.index()];
        for (next, &cost) in down.iter_mut().zip(own) {
            *next = nearer(cost, hops);
        }
        if self.choice.order.is_some() {
            let taken = &tile.taken[self.switch.index()];
            for column in 0..TILE {
                if own[column] == UNREACHED {
                    up[column] = nearer(taken[column], hops);
                }
            }
        }
        (down, up)
    }

    /// Computes the class of a column. On entry, `class` holds the class of an earlier column.
    fn classify(&self, keys: &[Row], column: usize, class: &mut Class) {
        class.groups.clear();
        for (number, key) in keys.iter().enumerate() {
            let mut bits = key[column];
            while bits != 0 {
                class
                    .groups
                    .push(number * KEY_BITS + bits.trailing_zeros() as usize);
                bits &= bits - 1;
            }
        }
        for &port in &class.slots {
            class.eligible[usize::from(port)] = false;
        }
        let chosen = class.groups.iter().map(|&group| self.groups[group]);
        slots::fill(&mut class.slots, chosen, Rates::Proportional);
        for &port in &class.slots {
            class.eligible[usize::from(port)] = true;
        }
        let leads_up = class.groups.first().is_some_and(|&first| self.is_up[first]);
        let missing = self.up_count.saturating_sub(class.groups.len());
        class.has_faults = leads_up && missing > 0 && missing * FAULTY_IN < self.up_count;
    }

    /// Fills the entries of all LIDs of `column`, whose class is `class`.
    fn fill(&mut self, column: &Column, class: &Class) {
        let numbers = &column.numbers;
        self.fill_targets(&column.hosts, column.first_host, numbers, class);
        self.fill_targets(&column.others, column.first_other, &[], class);
        self.fill_targets(column.own.as_slice(), column.first_own, &[], class);
    }

    /// Fills the entries of `targets`. The number of each target is in `numbers`; if `numbers` is
    /// empty, the numbers are consecutive from `first` on.
    fn fill_targets(&mut self, targets: &[Target], first: u32, numbers: &[u32], class: &Class) {
        if targets.is_empty() {
            return;
        }
        // The table is moved out until the end, because `port_of_slot` borrows all of `self`.
        let mut table = std::mem::take(&mut self.table);
        if let [port] = class.slots[..] {
            self.will_be_in_use[usize::from(port)] = true;
            for target in targets {
                let base = usize::from(target.base);
                table[base..base + usize::from(target.count)].fill(port);
            }
            self.table = table;
            return;
        }
        let mut quotient = first / self.divider;
        let mut remainder = first % self.divider;
        let mut slot = quotient as usize % class.slots.len();
        for (index, target) in targets.iter().enumerate() {
            if let Some(number) = numbers.get(index) {
                quotient = number / self.divider;
                slot = quotient as usize % class.slots.len();
            }
            for offset in 0..target.count {
                let lid = Lid(target.base + offset);
                let port = if offset == 0 && !class.has_faults {
                    class.slots[slot]
                } else {
                    self.port_of_slot(
                        quotient as usize + slot_distance(offset, self.divider),
                        class,
                    )
                };
                table[lid.index()] = match self.previous {
                    Some(previous) => {
                        let port = self.keep_or_move(previous.entry(lid), port, class);
                        self.will_be_in_use[usize::from(port)] = true;
                        port
                    }
                    None => port,
                };
            }
            remainder += 1;
            if remainder == self.divider {
                remainder = 0;
                quotient += 1;
                slot += 1;
                if slot == class.slots.len() {
                    slot = 0;
                }
            }
        }
        self.table = table;
    }

    /// The port of a slot number. If the class lacks uplinks because of faults, this is the port in
    /// the full set of uplinks, if the class has that port; else it is a port of the class.
    fn port_of_slot(&self, number: usize, class: &Class) -> u8 {
        if !class.has_faults {
            return class.slots[number % class.slots.len()];
        }
        let uplinks = self.up_slots.len();
        let port = self.up_slots[number % uplinks];
        if class.eligible[usize::from(port)] {
            return port;
        }
        // Destinations that lost their port are also spread by source: otherwise all switches would
        // choose the same detour for a destination.
        let number = number + number / uplinks + self.switch.index();
        class.slots[number % class.slots.len()]
    }

    /// Returns `previous` if it is still a least-cost choice and `port`, the port of the slot, was
    /// in use before; else `port`. A link that is new or has come back thus gets its destinations.
    fn keep_or_move(&self, previous: u8, port: u8, class: &Class) -> u8 {
        let is_choice = previous != NO_PATH && class.eligible[usize::from(previous)];
        if is_choice && self.in_use[usize::from(port)] {
            previous
        } else {
            port
        }
    }
}
