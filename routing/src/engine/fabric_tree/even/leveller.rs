//! The loads of links, and the choice of packets to move to another path.

use std::collections::BTreeSet;
use std::sync::Arc;

use rayon::prelude::*;
use rsm_ids::Lid;

use super::super::super::order::Order;
use super::super::super::paths::{TILE, Tile, UNREACHED};
use super::super::detours::Detours;
use super::super::live::Live;
use crate::tables::{BLOCK_LIDS, Lft};
use crate::topology::{SwitchIdx, Topology};

/// Rounds over all destinations. Each finds a fraction of the moves of the one before.
const ROUNDS: usize = 4;

/// The leveller starts when the fullest link has this many times the mean load: below that, the
/// gain in sums is lost in shifts.
const UNEVEN: f64 = 1.3;

/// A way is better when its fullest link has less than this many 32ths of the load: fewer moves,
/// nearly the same balance.
const BETTER_THAN_32THS: u64 = 31;

/// Loads are counted in packets times the time that each takes; the fastest link takes this much.
const TIME: u64 = 64;

/// No link counts as slower than this: a 1x SDR link is 500 times as slow as a 4x XDR one, and sums
/// stay far below 2^64.
const LONGEST_TIME: u64 = 1024 * TIME;

/// One destination LID.
#[derive(Clone, Copy)]
pub(in super::super) struct Target {
    pub(in super::super) lid: Lid,
    pub(in super::super) position: usize,
    pub(in super::super) column: usize,
    /// The switch that the destination hangs off.
    pub(in super::super) switch: SwitchIdx,
}

/// The fabric, order and costs that packets follow.
#[derive(Clone, Copy)]
pub(in super::super) struct Ground<'a> {
    pub(in super::super) known: &'a Topology,
    pub(in super::super) live: &'a Live,
    pub(in super::super) order: &'a Order,
    pub(in super::super) tiles: &'a [Arc<Tile>],
    pub(in super::super) detours: &'a Detours,
}

/// A limit on the entries that the leveller may move.
pub(in super::super) struct Budget {
    /// How many blocks of tables may change.
    blocks: usize,
    changed: BTreeSet<(SwitchIdx, usize)>,
}

impl Budget {
    pub(in super::super) fn of(blocks: usize) -> Budget {
        Budget {
            blocks,
            changed: BTreeSet::new(),
        }
    }

    /// Whether an entry of some switch for this LID may be moved.
    fn may_allow(&self, lid: Lid) -> bool {
        let block = lid.index() / BLOCK_LIDS;
        self.changed.len() < self.blocks || self.changed.iter().any(|&(_, other)| other == block)
    }

    fn allows(&self, switch: SwitchIdx, lid: Lid) -> bool {
        self.changed.len() < self.blocks || self.changed.contains(&block_of(switch, lid))
    }

    fn take(&mut self, switch: SwitchIdx, lid: Lid) {
        // With no limit, every block may change.
        if self.blocks < usize::MAX {
            self.changed.insert(block_of(switch, lid));
        }
    }
}

fn block_of(switch: SwitchIdx, lid: Lid) -> (SwitchIdx, usize) {
    (switch, lid.index() / BLOCK_LIDS)
}

/// The loads of links, and the paths of packets to one destination.
pub(in super::super) struct Leveller<'a> {
    ground: Ground<'a>,
    /// By switch and port: the link, by its number in the known fabric, or [`NO_LINK`].
    link_of_port: Vec<[u32; 256]>,
    /// By link: the switch that sends over it.
    owner: Vec<u32>,
    /// By link: the switch that it leads to.
    peer: Vec<u32>,
    /// By link: how long a packet takes.
    time: Vec<u64>,
    /// By link: packets times their time.
    load: Vec<u64>,
    /// By switch: hosts that send from there.
    hosts: Vec<u64>,
    /// Links that have more load than this are full.
    high: u64,
    /// The full links by the switch that sends over them.
    full: BTreeSet<(u32, u32)>,
    /// By switch: the last round that found it to send over a full link to the current destination.
    passes: Vec<u32>,
    round: u32,
    /// By switch of this round: hosts whose packets to the current destination pass it.
    flow: Vec<u64>,
    /// The switches of this round, in the end the farthest from the destination first.
    senders: Vec<SwitchIdx>,
    /// The entries that were moved: switch and position.
    moves: BTreeSet<(SwitchIdx, usize)>,
}

const NO_LINK: u32 = u32::MAX;

impl<'a> Leveller<'a> {
    pub(in super::super) fn new(ground: Ground<'a>) -> Leveller<'a> {
        let known = ground.known;
        let switches = known.switch_count();
        let links = known.half_link_count();
        let mut leveller = Leveller {
            ground,
            link_of_port: vec![[NO_LINK; 256]; switches],
            owner: vec![0; links],
            peer: vec![0; links],
            time: vec![TIME; links],
            load: vec![0; links],
            hosts: known
                .indices()
                .map(|switch| ground.live.hosts(known, switch) as u64)
                .collect(),
            high: u64::MAX,
            full: BTreeSet::new(),
            passes: vec![0; switches],
            round: 0,
            flow: vec![0; switches],
            senders: Vec::new(),
            moves: BTreeSet::new(),
        };
        let all = || known.indices().flat_map(|switch| known.groups(switch));
        let fastest = all()
            .flat_map(|group| group.links)
            .map(|link| u64::from(link.weight))
            .max()
            .unwrap_or(1);
        for switch in known.indices() {
            for group in known.group_range(switch) {
                let ends = known.group(group);
                for (link, number) in ends.links.iter().zip(known.link_range(group)) {
                    // Fewer links than 2^32: ports of fewer switches than LIDs.
                    leveller.link_of_port[switch.index()][link.port.index()] = number as u32;
                    leveller.owner[number] = switch.0;
                    leveller.peer[number] = ends.neighbour.0;
                    let time = fastest * TIME / u64::from(link.weight.max(1));
                    leveller.time[number] = time.min(LONGEST_TIME);
                }
            }
        }
        leveller
    }

    /// Moves entries for `targets`, those of one column next to each other, and gives how many
    /// moves that took.
    pub(super) fn level(&mut self, targets: &[Target], lfts: &mut [Lft]) -> usize {
        self.load = self.loads_of(targets, lfts);
        let full = self.load.iter().copied().max().unwrap_or(0) as f64;
        let mean = self.load.iter().sum::<u64>() as f64 / self.load.len().max(1) as f64;
        if full <= mean * UNEVEN {
            return 0;
        }
        // Half of the way, as ratios go: further down the gain in sums is lost in shifts.
        let high = (mean * (full / mean).sqrt()) as u64;
        self.relieve_all(targets, lfts, high, &mut Budget::of(usize::MAX))
    }

    /// Moves packets to `targets` off links that have more than `high`, where another path is
    /// better, and returns the number of moves.
    pub(in super::super) fn relieve_all(
        &mut self,
        targets: &[Target],
        lfts: &mut [Lft],
        high: u64,
        budget: &mut Budget,
    ) -> usize {
        self.set_high(high);
        let mut moved = 0;
        for _ in 0..ROUNDS {
            let before = moved;
            for target in targets {
                if self.full.is_empty() {
                    return moved;
                }
                if budget.may_allow(target.lid) {
                    moved += self.relieve(target, lfts, budget);
                }
            }
            if moved == before {
                break;
            }
        }
        moved
    }

    /// The entries that were moved, some of them back: switch and position of the target.
    pub(in super::super) fn moves(&self) -> impl Iterator<Item = (SwitchIdx, usize)> + '_ {
        self.moves.iter().copied()
    }

    fn set_high(&mut self, high: u64) {
        self.high = high;
        let links = self.load.iter().zip(&self.owner).zip(0u32..);
        let full = links.filter(|((load, _), _)| **load > high);
        self.full = full.map(|((_, &owner), link)| (owner, link)).collect();
    }

    /// By link: the load of packets to `targets`. All processors share the columns.
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

    /// By link: packets times their time.
    pub(in super::super) fn loads(&self) -> &[u64] {
        &self.load
    }

    /// Sets the number of packets over a link.
    pub(in super::super) fn set_packets(&mut self, link: usize, packets: u64) {
        self.load[link] = packets * self.time[link];
    }

    fn link(&self, switch: usize, lfts: &[Lft], target: &Target) -> Option<usize> {
        let port = lfts[switch].entry(target.lid);
        let link = self.link_of_port[switch][usize::from(port)];
        (link != NO_LINK).then_some(link as usize)
    }

    /// The cost of the way from a switch to a column, `None` where there is none; the destination
    /// itself has none either.
    fn cost(&self, switch: SwitchIdx, column: usize) -> Option<u8> {
        match self.ground.tiles[column / TILE].taken[switch.index()][column % TILE] {
            0 => None,
            UNREACHED => Some(self.ground.detours.get(switch, column)?.cost),
            cost => Some(cost),
        }
    }

    /// The switches from which a column is reached, the nearest first.
    fn by_cost(&self, column: usize) -> Vec<SwitchIdx> {
        let switches = self.ground.known.indices();
        let reached = switches.filter_map(|switch| Some((self.cost(switch, column)?, switch)));
        let mut reached: Vec<(u8, SwitchIdx)> = reached.collect();
        reached.sort_unstable();
        reached.into_iter().map(|(_, switch)| switch).collect()
    }

    /// Finds the switches whose packets to a target pass a full link, and how many come by each.
    fn find_senders(&mut self, target: &Target, lfts: &[Lft]) {
        // At most four rounds for each LID.
        self.round += 1;
        self.senders.clear();
        let mut at = 0;
        let mut last = None;
        for &(switch, _) in &self.full {
            if last.replace(switch) != Some(switch)
                && let Some(link) = self.link(switch as usize, lfts, target)
                && self.load[link] > self.high
            {
                self.passes[switch as usize] = self.round;
                self.senders.push(SwitchIdx(switch));
            }
        }
        while let Some(&switch) = self.senders.get(at) {
            at += 1;
            self.flow[switch.index()] = self.hosts[switch.index()];
            self.add_feeders(switch, target, lfts);
        }
        let mut senders: Vec<(u8, SwitchIdx)> = self
            .senders
            .iter()
            .filter_map(|&switch| Some((self.cost(switch, target.column)?, switch)))
            .collect();
        senders.sort_unstable_by(|one, other| other.cmp(one));
        self.senders.clear();
        for (_, switch) in senders {
            self.senders.push(switch);
            if let Some(link) = self.link(switch.index(), lfts, target) {
                let flow = self.flow[switch.index()];
                self.change_flow(&[link], |next| next + flow);
            }
        }
    }

    /// Adds the neighbours that send packets to a target through a switch. Tables follow the order
    /// of the detours: no neighbour sends down to a switch that sends up.
    fn add_feeders(&mut self, switch: SwitchIdx, target: &Target, lfts: &[Lft]) {
        let Ground { known, detours, .. } = self.ground;
        let order = &detours.order;
        let next = self.link(switch.index(), lfts, target);
        let goes_up = next.is_some_and(|link| order.is_above(SwitchIdx(self.peer[link]), switch));
        for group in known.groups(switch) {
            let from = group.neighbour;
            if self.passes[from.index()] == self.round || goes_up && order.is_above(from, switch) {
                continue;
            }
            let link = self.link(from.index(), lfts, target);
            if link.is_some_and(|link| self.peer[link] == switch.0) {
                self.passes[from.index()] = self.round;
                self.senders.push(from);
            }
        }
    }

    /// Changes the flow through the switches that links lead to, as far as they belong to this
    /// round.
    fn change_flow(&mut self, links: &[usize], change: impl Fn(u64) -> u64) {
        for &link in links {
            let peer = self.peer[link] as usize;
            if self.passes[peer] == self.round {
                self.flow[peer] = change(self.flow[peer]);
            }
        }
    }

    /// Moves packets to a target off full links, where another path is better.
    fn relieve(&mut self, target: &Target, lfts: &mut [Lft], budget: &mut Budget) -> usize {
        self.find_senders(target, lfts);
        let mut moved = 0;
        // The farthest first: a move changes the flow through the nearer ones.
        for place in 0..self.senders.len() {
            let switch = self.senders[place];
            let flow = self.flow[switch.index()];
            if flow == 0 || !budget.allows(switch, target.lid) {
                continue;
            }
            let held = lfts[switch.index()].entry(target.lid);
            let now = self.way(switch, held, lfts, target);
            let most = now.iter().map(|&link| self.load[link]).max().unwrap_or(0);
            // A move before this one may have emptied it.
            if most <= self.high {
                continue;
            }
            self.put(&now, flow, false);
            let mut best: Option<(u64, u64, u8, Vec<usize>)> = None;
            for port in self.choices(switch, target.column) {
                if port == held {
                    continue;
                }
                let way = self.way(switch, port, lfts, target);
                let loads = || {
                    way.iter()
                        .map(|&link| self.load[link] + flow * self.time[link])
                };
                let (fullest, sum) = (loads().max().unwrap_or(0), loads().sum());
                let is_better = match &best {
                    None => fullest * 32 < most * BETTER_THAN_32THS,
                    Some((least, sums, ..)) => (fullest, sum) < (*least, *sums),
                };
                if is_better {
                    best = Some((fullest, sum, port, way));
                }
            }
            let Some((_, _, port, way)) = best else {
                self.put(&now, flow, true);
                continue;
            };
            self.put(&way, flow, true);
            self.change_flow(&now[..now.len() - 1], |other| other - flow);
            self.change_flow(&way[..way.len() - 1], |other| other + flow);
            self.moves.insert((switch, target.position));
            lfts[switch.index()].set_entry(target.lid, port);
            budget.take(switch, target.lid);
            moved += 1;
        }
        moved
    }

    /// The links from a switch to a target, the first through `port`.
    fn way(&self, switch: SwitchIdx, port: u8, lfts: &[Lft], target: &Target) -> Vec<usize> {
        let mut way = Vec::new();
        let mut next = self.link_of_port[switch.index()][usize::from(port)];
        while next != NO_LINK {
            way.push(next as usize);
            let at = self.peer[next as usize] as usize;
            if at == target.switch.index() {
                break;
            }
            let port = lfts[at].entry(target.lid);
            next = self.link_of_port[at][usize::from(port)];
        }
        way
    }

    fn put(&mut self, way: &[usize], flow: u64, add: bool) {
        for &link in way {
            let change = flow * self.time[link];
            let was_full = self.load[link] > self.high;
            if add {
                self.load[link] += change;
            } else {
                self.load[link] -= change;
            }
            let is_full = self.load[link] > self.high;
            if was_full != is_full {
                // Fewer links than 2^32.
                let full = (self.owner[link], link as u32);
                if is_full {
                    self.full.insert(full);
                } else {
                    self.full.remove(&full);
                }
            }
        }
    }

    /// The ports of a switch that lead the cheapest way to a column.
    fn choices(&self, switch: SwitchIdx, column: usize) -> Vec<u8> {
        let Ground {
            known,
            live,
            order,
            tiles,
            detours,
        } = self.ground;
        let detour = detours.get(switch, column);
        let (tile, column) = (&tiles[column / TILE], column % TILE);
        let (down, taken) = (
            tile.down[switch.index()][column],
            tile.taken[switch.index()][column],
        );
        known
            .group_range(switch)
            .filter(|&group| {
                let there = known.group(group).neighbour;
                // The column's own switch has no cost here: all are at least 1.
                if let Some(detour) = detour {
                    return detour.groups.contains(&(group as u32));
                }
                live.groups.contains(group)
                    && if down != UNREACHED {
                        order.is_above(switch, there)
                            && tile.down[there.index()][column] == down - 1
                    } else {
                        order.is_above(there, switch)
                            && tile.taken[there.index()][column] == taken - 1
                    }
            })
            .flat_map(|group| {
                let links = known.group(group).links.iter().zip(known.link_range(group));
                links.filter(|(_, number)| live.links.contains(*number))
            })
            .map(|(link, _)| link.port.0)
            .collect()
    }
}
