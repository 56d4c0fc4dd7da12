//! Tracks the loads of links, and moves entries to other paths.

mod budget;
mod clashes;
mod level;
mod shifts;
mod spread;
mod step;

use std::collections::BTreeSet;
use std::sync::Arc;

use rayon::prelude::*;
use rsm_ids::Lid;

pub(in super::super) use self::budget::Budget;
use self::clashes::{Clashes, Near};
pub(super) use self::level::SkippedMoves;
pub(in super::super) use self::level::{MAX_READS, in_64ths};
use super::super::super::paths::{TILE, Tile, UNREACHED, nearer};
use super::super::super::slots;
use super::super::detours::Detours;
use super::super::live::Live;
use crate::tables::{BLOCK_LIDS, Lft};
use crate::topology::{Order, SwitchIdx, Topology};

/// The number of passes over all destinations at each price. The second pass finds a fraction of
/// the moves of the first.
const PASSES: usize = 2;

/// A path is better if its maximum link load is below this many 32nds of the maximum on the present
/// path. The margin saves many moves and costs little balance.
const BETTER_THAN_32THS: u64 = 31;

/// The time of a packet on the fastest link. The load of a link is the number of its packets times
/// the time of each.
const TIME: u64 = 64;

/// The maximum time of a packet on any link: a 1x SDR link is 500 times as slow as a 4x XDR link,
/// and sums stay far below 2^64.
const LONGEST_TIME: u64 = 1024 * TIME;

/// One destination LID.
#[derive(Clone, Copy)]
pub(in super::super) struct Target {
    pub(in super::super) lid: Lid,
    /// The base LID of the port.
    pub(in super::super) base: Lid,
    /// The number of LIDs of the port.
    pub(in super::super) lids: u16,
    /// The position of the LID in the numbering of destinations.
    pub(in super::super) position: usize,
    /// The column of the switch to which the destination is attached.
    pub(in super::super) column: usize,
    /// The switch to which the destination is attached.
    pub(in super::super) switch: SwitchIdx,
}

impl Target {
    /// Whether this is the first LID of the port.
    fn is_base(&self) -> bool {
        self.lid == self.base
    }

    /// The LIDs of the port in the same block of tables; up to an LMC of 6, all LIDs of the port.
    fn siblings(&self) -> impl Iterator<Item = Lid> + use<> {
        let block = self.lid.index() / BLOCK_LIDS;
        let lids = self.base.0..=self.base.0 + (self.lids - 1);
        lids.map(Lid)
            .filter(move |lid| lid.index() / BLOCK_LIDS == block)
    }

    /// The target for a later LID of the same port.
    fn later(&self, lid: Lid) -> Target {
        Target {
            lid,
            // The LIDs of a port have consecutive positions.
            position: self.position + usize::from(lid.0 - self.lid.0),
            ..*self
        }
    }
}

/// A moved entry.
struct Moved {
    switch: SwitchIdx,
    target: Target,
    /// The port before the move.
    from: u8,
}

/// The fabric, order and costs that packets follow.
#[derive(Clone, Copy)]
pub(in super::super) struct ReducerInput<'a> {
    pub(in super::super) known: &'a Topology,
    pub(in super::super) live: &'a Live,
    pub(in super::super) order: &'a Order,
    pub(in super::super) tiles: &'a [Arc<Tile>],
    pub(in super::super) detours: &'a Detours,
}

/// The link loads, and the paths of packets to one destination.
pub(in super::super) struct MaxLoadReducer<'a> {
    input: ReducerInput<'a>,
    /// For each switch and port, the number of the link in the known fabric, or [`NO_LINK`].
    link_of_port: Vec<[u32; 256]>,
    /// For each link, the switch that sends over it.
    owner: Vec<u32>,
    /// For each link, the switch that it leads to.
    peer: Vec<u32>,
    /// The time of a packet on a link of rate 1.
    unit: u64,
    /// The time of a packet on each link; 0 where load is not counted.
    time: Vec<u64>,
    /// The load of each link: packets times their time.
    load: Vec<u64>,
    /// The number of hosts that send from each switch.
    hosts: Vec<u64>,
    /// The number of hosts at all switches together.
    senders: u64,
    /// The load above which a link is full.
    full_limit: u64,
    /// The full links, as pairs of the sending switch and the link.
    full: BTreeSet<(u32, u32)>,
    /// The column to which `nearest` belongs.
    column: usize,
    /// The switches that can reach `column`, nearest first.
    nearest: Vec<SwitchIdx>,
    /// For each switch: whether its packets to the current target cross a full link.
    is_sender: Vec<bool>,
    /// For each switch, the link that its packets to the current target take, or [`NO_LINK`].
    held: Vec<u32>,
    /// For each switch, the number of hosts whose packets to the current target pass it.
    flow: Vec<u64>,
    /// The remaining number of entries that may be read to find better paths.
    reads: u64,
    /// The moved entries, in the order of the moves.
    moved: Vec<Moved>,
    /// The destinations that meet each other in shift permutations; they determine the cost of a
    /// move.
    clashes: Clashes,
    /// The destinations near the current target.
    near: Near,
    /// The number of meetings in shifts that a move may add for each meeting that it saves. When
    /// links are relieved, only meetings on the fullest link of the path count as saved.
    price: u64,
    /// Whether moves must not put more LIDs of one port on one path.
    keeps_lids_apart: bool,
}

/// Marks a port without a link, or an entry that leads to no link.
const NO_LINK: u32 = u32::MAX;

/// A candidate for a better path.
struct Choice {
    /// The sort key, lowest first: whether the path fails to join other packets to the target below
    /// the limit, the cost in shifts, the load of its fullest link, and the sum of its loads.
    key: (bool, i64, u64, u64),
    port: u8,
    /// The links of the path.
    path: Vec<usize>,
}

impl<'a> MaxLoadReducer<'a> {
    pub(in super::super) fn new(input: ReducerInput<'a>) -> MaxLoadReducer<'a> {
        let known = input.known;
        let switches = known.switch_count();
        let links = known.half_link_count();
        let hosts: Vec<u64> = known
            .indices()
            .map(|switch| input.live.hosts(known, switch) as u64)
            .collect();
        let mut reducer = MaxLoadReducer {
            input,
            link_of_port: vec![[NO_LINK; 256]; switches],
            owner: vec![0; links],
            peer: vec![0; links],
            unit: TIME,
            time: vec![TIME; links],
            load: vec![0; links],
            senders: hosts.iter().sum(),
            hosts,
            full_limit: u64::MAX,
            full: BTreeSet::new(),
            column: usize::MAX,
            nearest: Vec::new(),
            is_sender: vec![false; switches],
            held: vec![NO_LINK; switches],
            flow: vec![0; switches],
            reads: u64::MAX,
            moved: Vec::new(),
            clashes: Clashes::default(),
            near: Near::none(),
            price: 0,
            keeps_lids_apart: true,
        };
        let groups = || known.indices().flat_map(|switch| known.groups(switch));
        let fastest = groups()
            .flat_map(|group| group.links)
            .map(|link| u64::from(link.weight))
            .max()
            .unwrap_or(1);
        reducer.unit = fastest * TIME;
        for switch in known.indices() {
            for group in known.group_range(switch) {
                let ends = known.group(group);
                for (link, number) in ends.links.iter().zip(known.link_range(group)) {
                    // There are fewer links than 2^32: all ports of fewer switches than LIDs.
                    reducer.link_of_port[switch.index()][link.port.index()] = number as u32;
                    reducer.owner[number] = switch.0;
                    reducer.peer[number] = ends.neighbour.0;
                    let time = reducer.unit / u64::from(link.weight.max(1));
                    reducer.time[number] = match known.is_counted(switch, link.port) {
                        true => time.min(LONGEST_TIME),
                        false => 0,
                    };
                }
            }
        }
        reducer
    }

    /// Moves packets to `targets` off full links at a price, in a few passes, and returns the
    /// number of moves.
    fn relieve_at(
        &mut self,
        price: u64,
        targets: &[Target],
        lfts: &mut [Lft],
        budget: &mut Budget,
    ) -> usize {
        self.price = price;
        let mut moved = 0;
        for _ in 0..PASSES {
            let now = self.relieve_once(targets, lfts, budget);
            moved += now;
            if now == 0 || self.full.is_empty() {
                break;
            }
        }
        moved
    }

    /// Moves packets to `targets` off full links in one pass, and returns the number of moves.
    fn relieve_once(&mut self, targets: &[Target], lfts: &mut [Lft], budget: &mut Budget) -> usize {
        self.clashes = Clashes::among(targets);
        let passes = self.lids_over_full_links(lfts);
        let mut moved = 0;
        for target in targets {
            if self.full.is_empty() || self.reads == 0 {
                break;
            }
            if passes[target.lid.index()] && budget.may_allow(target.lid) {
                moved += self.relieve(target, lfts, budget);
            }
        }
        moved
    }

    /// The entries that moved, including entries that moved back, as pairs of the switch and the
    /// position of the target.
    pub(in super::super) fn moves(&self) -> impl Iterator<Item = (SwitchIdx, usize)> {
        let moved = self.moved.iter();
        let places = moved.map(|moved| (moved.switch, moved.target.position));
        places.collect::<BTreeSet<_>>().into_iter()
    }

    /// Undoes all moves but the first `keep`; `loads` are the link loads after these `keep` moves.
    fn undo_moves(&mut self, keep: usize, loads: &[u64], lfts: &mut [Lft]) {
        for moved in self.moved.drain(keep..).rev() {
            lfts[moved.switch.index()].set_entry(moved.target.lid, moved.from);
        }
        self.load.copy_from_slice(loads);
        self.set_full_limit(self.full_limit);
    }

    /// Sets the load above which a link is full, and finds the full links.
    fn set_full_limit(&mut self, full_limit: u64) {
        self.full_limit = full_limit;
        let links = self.load.iter().zip(&self.owner).zip(0u32..);
        let full = links.filter(|((load, _), _)| **load > full_limit);
        self.full = full.map(|((_, &owner), link)| (owner, link)).collect();
    }

    /// The load of each link by packets to `targets`, computed for all columns in parallel.
    fn loads_of(&self, targets: &[Target], lfts: &[Lft]) -> Vec<u64> {
        let columns: Vec<&[Target]> = targets
            .chunk_by(|one, other| one.column == other.column)
            .collect();
        let share = columns.len().div_ceil(rayon::current_num_threads()).max(1);
        let none = || vec![0; self.load.len()];
        let of_share = |columns: &[&[Target]]| {
            let mut load = none();
            for targets in columns {
                self.add_loads(targets, lfts, &mut load);
            }
            load
        };
        let add = |mut one: Vec<u64>, other: Vec<u64>| {
            one.iter_mut()
                .zip(other)
                .for_each(|(one, other)| *one += other);
            one
        };
        let shares = columns.par_chunks(share).map(of_share);
        shares.reduce(none, add)
    }

    /// Adds the load of packets to targets of one column, switch by switch: a switch holds the
    /// entries of neighbouring LIDs next to each other.
    fn add_loads(&self, targets: &[Target], lfts: &[Lft], load: &mut [u64]) {
        let count = targets.len();
        let hosts = self.hosts.iter();
        let mut flow: Vec<u64> = hosts
            .flat_map(|&hosts| std::iter::repeat_n(hosts, count))
            .collect();
        for switch in self.by_cost(targets[0].column).into_iter().rev() {
            let (lft, links) = (&lfts[switch.index()], &self.link_of_port[switch.index()]);
            for (number, target) in targets.iter().enumerate() {
                let link = links[usize::from(lft.entry(target.lid))];
                let flow_here = flow[switch.index() * count + number];
                if link != NO_LINK && flow_here > 0 {
                    let link = link as usize;
                    flow[self.peer[link] as usize * count + number] += flow_here;
                    load[link] += flow_here * self.time[link];
                }
            }
        }
    }

    /// Sets the loads to the loads of packets to `targets`; targets of one column are adjacent.
    pub(in super::super) fn load_with(&mut self, targets: &[Target], lfts: &[Lft]) {
        self.load = self.loads_of(targets, lfts);
    }

    /// Sets the number of packets over a link.
    pub(in super::super) fn set_packets(&mut self, link: usize, packets: u64) {
        self.load[link] = packets * self.time[link];
    }

    /// The link that a switch's packets to a target take; `None` if the entry leads to no link.
    fn link(&self, switch: usize, lfts: &[Lft], target: &Target) -> Option<usize> {
        let port = lfts[switch].entry(target.lid);
        let link = self.link_of_port[switch][usize::from(port)];
        (link != NO_LINK).then_some(link as usize)
    }

    /// The cost of the path from a switch to a column; `None` if the switch cannot reach the column
    /// or is its destination.
    fn cost(&self, switch: SwitchIdx, column: usize) -> Option<u8> {
        match self.input.tiles[column / TILE].taken[switch.index()][column % TILE] {
            0 => None,
            UNREACHED => Some(self.input.detours.get(switch, column)?.cost),
            cost => Some(cost),
        }
    }

    /// The switches that can reach a column, nearest first.
    fn by_cost(&self, column: usize) -> Vec<SwitchIdx> {
        let switches = self.input.known.indices();
        let mut reached: Vec<(u8, SwitchIdx)> = switches
            .filter_map(|switch| Some((self.cost(switch, column)?, switch)))
            .collect();
        reached.sort_unstable();
        reached.into_iter().map(|(_, switch)| switch).collect()
    }

    /// For each LID, whether some entry for it leads over a full link.
    fn lids_over_full_links(&mut self, lfts: &[Lft]) -> Vec<bool> {
        let mut lids_over_full_links = vec![false; usize::from(u16::MAX) + 1];
        let full: Vec<(u32, u32)> = self.full.iter().copied().collect();
        for links in full.chunk_by(|one, other| one.0 == other.0) {
            let switch = links[0].0 as usize;
            let is_full = self.link_of_port[switch]
                .map(|link| links.binary_search(&(links[0].0, link)).is_ok());
            for (lid, port) in lfts[switch].iter().enumerate() {
                lids_over_full_links[lid] |= is_full[usize::from(port)];
            }
            self.read(lids_over_full_links.len() / BLOCK_LIDS);
        }
        lids_over_full_links
    }

    /// The number of columns.
    fn columns(&self) -> usize {
        self.input.tiles.len() * TILE
    }

    /// Finds the switches that can reach a column, unless it is still the current column.
    fn set_column(&mut self, column: usize) {
        if self.column != column {
            self.column = column;
            self.nearest = self.by_cost(column);
        }
    }

    /// Finds the link that each switch's packets to a target take, and the number of hosts whose
    /// packets pass each switch; `nearest` holds the switches that can reach the target.
    fn find_flows(&mut self, nearest: &[SwitchIdx], target: &Target, lfts: &[Lft]) {
        for switch in nearest.iter().map(|switch| switch.index()) {
            let port = lfts[switch].entry(target.lid);
            self.held[switch] = self.link_of_port[switch][usize::from(port)];
            self.flow[switch] = self.hosts[switch];
        }
        for switch in nearest.iter().rev().map(|switch| switch.index()) {
            if let Some(&next) = self.peer.get(self.held[switch] as usize) {
                self.flow[next as usize] += self.flow[switch];
            }
        }
        self.read(nearest.len());
    }

    /// Finds the switches whose packets to a target cross a full link, and the number of hosts
    /// whose packets pass each switch.
    fn find_senders(&mut self, target: &Target, lfts: &[Lft]) {
        self.set_column(target.column);
        let nearest = std::mem::take(&mut self.nearest);
        self.is_sender[target.switch.index()] = false;
        for switch in nearest.iter().map(|switch| switch.index()) {
            let link = self.link(switch, lfts, target);
            let passes =
                |link| self.load[link] > self.full_limit || self.is_sender[self.peer_of(link)];
            self.is_sender[switch] = link.is_some_and(passes);
        }
        self.read(nearest.len());
        self.find_flows(&nearest, target, lfts);
        self.nearest = nearest;
    }

    /// The switch to which a link leads.
    fn peer_of(&self, link: usize) -> usize {
        self.peer[link] as usize
    }

    /// Subtracts entries that were read from the remaining number of reads.
    fn read(&mut self, entries: usize) {
        self.reads = self.reads.saturating_sub(entries as u64);
    }

    /// Moves a flow from the inner switches of one path to those of another.
    fn move_flow(&mut self, from: &[usize], to: &[usize], flow: u64) {
        for &link in &from[..from.len() - 1] {
            let peer = self.peer_of(link);
            self.flow[peer] -= flow;
        }
        for &link in &to[..to.len() - 1] {
            let peer = self.peer_of(link);
            self.flow[peer] += flow;
        }
    }

    /// Moves packets to a target off full links if another path is better, and returns the number
    /// of moves.
    fn relieve(&mut self, target: &Target, lfts: &mut [Lft], budget: &mut Budget) -> usize {
        self.find_senders(target, lfts);
        let mut moved = 0;
        // The farthest switch first: a move changes the flow through nearer switches.
        for place in (0..self.nearest.len()).rev() {
            let switch = self.nearest[place];
            let flow = self.flow[switch.index()];
            if !self.is_sender[switch.index()] || flow == 0 || !budget.allows(switch, target.lid) {
                continue;
            }
            let held = lfts[switch.index()].entry(target.lid);
            let now = self.path(switch, held, lfts, target);
            self.read(now.len());
            let held_max = now.iter().map(|&link| self.load[link]).max().unwrap_or(0);
            // An earlier move may have brought the link below the limit.
            if held_max <= self.full_limit {
                continue;
            }
            self.change_loads(&now, flow, false);
            let Some((port, path)) = self.better_path(switch, held, held_max, target, lfts) else {
                self.change_loads(&now, flow, true);
                continue;
            };
            self.change_loads(&path, flow, true);
            self.move_flow(&now, &path, flow);
            self.move_to_port(switch, target, port, lfts);
            budget.record(switch, target.lid);
            moved += 1;
        }
        moved
    }

    /// Sends a switch's packets to a target out of another port. A later LID of the same port that
    /// had the new path gets the target's old path, so that the LIDs of a port keep to different
    /// paths.
    fn move_to_port(&mut self, switch: SwitchIdx, target: &Target, port: u8, lfts: &mut [Lft]) {
        let lft = &lfts[switch.index()];
        let free = lft.entry(target.lid);
        let mut later = target.siblings().filter(|&lid| lid > target.lid);
        let exchanged = later.find(|&lid| lft.entry(lid) == port);
        self.set_entry(switch, target, port, lfts);
        if let Some(lid) = exchanged {
            self.set_entry(switch, &target.later(lid), free, lfts);
        }
    }

    /// Whether packets to a target may leave a switch by `port`. If the paths of a port's LIDs must
    /// differ, fewer of these LIDs must leave by `port` than by the present port; or a later LID
    /// must leave by `port`, because that LID then takes the present port in exchange.
    fn may_leave_by(&self, lft: &Lft, target: &Target, port: u8) -> bool {
        if target.lids == 1 || !self.keeps_lids_apart {
            return true;
        }
        let held = lft.entry(target.lid);
        let (mut by_port, mut by_held) = (0, 0);
        for lid in target.siblings() {
            let entry = lft.entry(lid);
            if entry == port && lid > target.lid {
                return true;
            }
            by_port += usize::from(entry == port);
            by_held += usize::from(entry == held);
        }
        by_port < by_held
    }

    /// Sets the entry of a switch for a target, and records the move in `moved`.
    fn set_entry(&mut self, switch: SwitchIdx, target: &Target, port: u8, lfts: &mut [Lft]) {
        let from = lfts[switch.index()].entry(target.lid);
        lfts[switch.index()].set_entry(target.lid, port);
        self.moved.push(Moved {
            switch,
            target: *target,
            from,
        });
    }

    /// The best port for a switch's packets to a target, with the links of the path through that
    /// port; `None` if no port is better than `held`, whose path has the maximum link load
    /// `held_max`. The link loads must exclude these packets.
    fn better_path(
        &mut self,
        switch: SwitchIdx,
        held: u8,
        held_max: u64,
        target: &Target,
        lfts: &[Lft],
    ) -> Option<(u8, Vec<usize>)> {
        let flow = self.flow[switch.index()];
        let mut best: Option<Choice> = None;
        self.read(2 * self.input.known.group_range(switch).len());
        self.find_near(&lfts[switch.index()], target, flow);
        for port in self.choices(switch, target.column) {
            if port == held || !self.may_leave_by(&lfts[switch.index()], target, port) {
                continue;
            }
            let path = self.path(switch, port, lfts, target);
            self.read(path.len());
            let loads = || {
                path.iter()
                    .map(|&link| self.load[link] + flow * self.time[link])
            };
            let (max_load, sum) = (loads().max().unwrap_or(0), loads().sum());
            if max_load * 32 >= held_max * BETTER_THAN_32THS {
                continue;
            }
            let cost = self.shift_cost(switch, port) - self.shift_cost(switch, held);
            // At the highest price, every port passes this test.
            if cost > self.max_shift_cost(flow, (held_max - max_load).saturating_mul(self.price)) {
                continue;
            }
            let joins = path.len() > 1 && self.flow[self.peer_of(path[0])] > 0;
            let shown = if max_load <= self.full_limit {
                cost
            } else {
                i64::MAX
            };
            let key = (
                !(joins && max_load <= self.full_limit),
                shown,
                max_load,
                sum,
            );
            if best.as_ref().is_none_or(|best| key < best.key) {
                best = Some(Choice { key, port, path });
            }
        }
        best.map(|best| (best.port, best.path))
    }

    /// Finds the destinations near a target, by their ports in a switch's table; `flow` hosts send
    /// through the switch.
    fn find_near(&mut self, lft: &Lft, target: &Target, flow: u64) {
        self.clashes.find(&mut self.near, lft, target.lid, flow);
        self.read(self.near.reads());
    }

    /// The cost in shifts if the target leaves the switch by `port`: packets of nearby destinations
    /// on that port, times their time.
    fn shift_cost(&self, switch: SwitchIdx, port: u8) -> i64 {
        let link = self.link_of_port[switch.index()][usize::from(port)];
        let time = self.time.get(link as usize).copied().unwrap_or(TIME);
        // The product stays far below 2^63: a window of destinations times the longest time.
        self.near.at(port) * time as i64
    }

    /// The maximum cost in shifts of a move that spares the packets of `flow` hosts to one
    /// destination a load of `spared` other packets: at this cost, the move adds as many meetings
    /// as it saves. Two destinations meet in as many of the `N` shifts as [`clashes`] counts. If
    /// each of `N` hosts sends to a random host, a pair exchanges packets in one exchange of `N`,
    /// so that two pairs meet in one exchange of `N²`.
    fn max_shift_cost(&self, flow: u64, spared: u64) -> i64 {
        let meetings = u128::from(flow) * u128::from(spared) / u128::from(self.senders.max(1));
        i64::try_from(meetings).unwrap_or(i64::MAX)
    }

    /// The links from a switch to a target, the first through `port`.
    fn path(&self, switch: SwitchIdx, port: u8, lfts: &[Lft], target: &Target) -> Vec<usize> {
        let mut path = Vec::new();
        self.find_path(switch, port, lfts, target, &mut path);
        path
    }

    /// Fills `path` with the links from a switch to a target, the first through `port`. The list is
    /// passed in to reuse its memory.
    fn find_path(
        &self,
        switch: SwitchIdx,
        port: u8,
        lfts: &[Lft],
        target: &Target,
        path: &mut Vec<usize>,
    ) {
        path.clear();
        let mut next = self.link_of_port[switch.index()][usize::from(port)];
        while next != NO_LINK {
            path.push(next as usize);
            let at = self.peer[next as usize] as usize;
            if at == target.switch.index() {
                break;
            }
            let port = lfts[at].entry(target.lid);
            next = self.link_of_port[at][usize::from(port)];
        }
    }

    /// Adds the packets of `flow` hosts to the links of a path, or subtracts them if `add` is
    /// false, and updates the full links.
    fn change_loads(&mut self, path: &[usize], flow: u64, add: bool) {
        for &link in path {
            let change = flow * self.time[link];
            let was_full = self.load[link] > self.full_limit;
            if add {
                self.load[link] += change;
            } else {
                self.load[link] -= change;
            }
            let is_full = self.load[link] > self.full_limit;
            if was_full != is_full {
                // There are fewer links than 2^32.
                let full = (self.owner[link], link as u32);
                if is_full {
                    self.full.insert(full);
                } else {
                    self.full.remove(&full);
                }
            }
        }
    }

    /// Whether `port` of a switch is on a cheapest path to a target; moves take only such ports.
    pub(in super::super) fn may_use(&self, switch: SwitchIdx, target: &Target, port: u8) -> bool {
        self.cost(switch, target.column).is_some()
            && self.choices(switch, target.column).contains(&port)
    }

    /// The ports of a switch on its cheapest paths to a column, except ports whose links are far
    /// slower than the fastest.
    fn choices(&self, switch: SwitchIdx, column: usize) -> Vec<u8> {
        let ReducerInput {
            known,
            live,
            order,
            tiles,
            detours,
        } = self.input;
        let detour = detours.get(switch, column);
        let (tile, column) = (&tiles[column / TILE], column % TILE);
        let (down, taken) = (
            tile.down[switch.index()][column],
            tile.taken[switch.index()][column],
        );
        let ways = known
            .group_range(switch)
            .filter(|&group| {
                let neighbour = known.group(group).neighbour;
                // The destination switch has no cost here: all costs are at least 1.
                if let Some(detour) = detour {
                    return detour.groups.contains(&(group as u32));
                }
                let hops = known.hops(switch, known.group(group));
                live.groups.contains(group)
                    && if down != UNREACHED {
                        order.is_above(switch, neighbour)
                            && tile.down[neighbour.index()][column] == nearer(down, hops)
                    } else {
                        order.is_above(neighbour, switch)
                            && tile.taken[neighbour.index()][column] == nearer(taken, hops)
                    }
            })
            .flat_map(|group| {
                let links = known.group(group).links.iter().zip(known.link_range(group));
                links.filter(|(_, number)| live.links.contains(*number))
            })
            .map(|(link, _)| (link.weight, link.port.0));
        let ports: Vec<(u32, u8)> = ways.collect();
        let fastest = ports.iter().map(|&(rate, _)| rate).max().unwrap_or(0);
        let usable = ports
            .into_iter()
            .filter(|&(rate, _)| !slots::is_negligible(rate, fastest));
        usable.map(|(_, port)| port).collect()
    }
}
