//! What links carry, and who is to go another way.

use std::collections::BTreeSet;
use std::sync::Arc;

use rsm_ids::Lid;

use super::super::super::order::Order;
use super::super::super::paths::{TILE, Tile, UNREACHED};
use super::super::live::Live;
use crate::tables::{BLOCK_LIDS, Lft};
use crate::topology::{SwitchIdx, Topology};

/// Rounds over all destinations. Each finds a fraction of what the one before found.
const ROUNDS: usize = 4;

/// The fullest link has so many times the load of the mean one before anything is done: below that, what is won in sums
/// is lost in shifts.
const UNEVEN: f64 = 1.3;

/// A way is better when its fullest link has less than this many 32ths of the load: fewer moves, nearly the same balance.
const BETTER_THAN_32THS: u64 = 31;

/// Loads are counted in packets times the time that each takes; the fastest link takes this much.
const TIME: u64 = 64;

/// No link counts as slower than this: a 1x SDR link is 500 times as slow as a 4x XDR one, and sums stay far below 2^64.
const LONGEST_TIME: u64 = 1024 * TIME;

/// One LID that is sent to.
#[derive(Clone, Copy)]
pub(in super::super) struct Target {
    pub(in super::super) lid: Lid,
    pub(in super::super) position: usize,
    pub(in super::super) column: usize,
    /// The switch that it hangs off.
    pub(in super::super) switch: SwitchIdx,
}

/// What packets go over.
#[derive(Clone, Copy)]
pub(in super::super) struct Ground<'a> {
    pub(in super::super) known: &'a Topology,
    pub(in super::super) live: &'a Live,
    pub(in super::super) order: &'a Order,
    pub(in super::super) tiles: &'a [Arc<Tile>],
}

/// Which entries may be moved.
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

    fn allows(&self, switch: SwitchIdx, lid: Lid) -> bool {
        self.changed.len() < self.blocks || self.changed.contains(&block_of(switch, lid))
    }

    fn take(&mut self, switch: SwitchIdx, lid: Lid) {
        // Who may change all blocks is not asked which.
        if self.blocks < usize::MAX {
            self.changed.insert(block_of(switch, lid));
        }
    }
}

fn block_of(switch: SwitchIdx, lid: Lid) -> (SwitchIdx, usize) {
    (switch, lid.index() / BLOCK_LIDS)
}

/// What links carry, and how packets reach one destination.
pub(in super::super) struct Leveller<'a> {
    ground: Ground<'a>,
    /// By switch and port: the link, by its number in the known fabric, or [`NO_LINK`].
    link_of_port: Vec<[u32; 256]>,
    /// By link: where it leads.
    peer: Vec<u32>,
    /// By link: how long a packet takes.
    time: Vec<u64>,
    /// By link: packets times their time.
    load: Vec<u64>,
    /// By switch: hosts that send from there.
    hosts: Vec<u64>,
    /// By switch: hosts whose packets to the destination in hand come by.
    flow: Vec<u64>,
    /// By switch: the load of the fullest link on the way to the destination in hand.
    fullest: Vec<u64>,
    /// Switches by what the way to the column in hand costs.
    by_cost: Vec<SwitchIdx>,
    column: Option<usize>,
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
            peer: vec![0; links],
            time: vec![TIME; links],
            load: vec![0; links],
            hosts: known
                .indices()
                .map(|switch| ground.live.hosts(known, switch) as u64)
                .collect(),
            flow: vec![0; switches],
            fullest: vec![0; switches],
            by_cost: Vec::with_capacity(switches),
            column: None,
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
                    leveller.peer[number] = ends.neighbour.0;
                    let time = fastest * TIME / u64::from(link.weight.max(1));
                    leveller.time[number] = time.min(LONGEST_TIME);
                }
            }
        }
        leveller
    }

    /// Moves entries for `targets`, and gives how many moves that took.
    pub(super) fn level(&mut self, targets: &[Target], lfts: &mut [Lft]) -> usize {
        for target in targets {
            self.follow(target, lfts);
            for place in 0..self.by_cost.len() {
                let switch = self.by_cost[place].index();
                if let Some(link) = self.link(switch, lfts, target) {
                    self.load[link] += self.flow[switch] * self.time[link];
                }
            }
        }
        let full = self.load.iter().copied().max().unwrap_or(0) as f64;
        let mean = self.load.iter().sum::<u64>() as f64 / self.load.len().max(1) as f64;
        if full <= mean * UNEVEN {
            return 0;
        }
        // Half of the way, as ratios go: further down what is won in sums is lost in shifts.
        let high = (mean * (full / mean).sqrt()) as u64;
        self.relieve_all(targets, lfts, high, &mut Budget::of(usize::MAX))
    }

    /// Sends what goes to `targets` over links that have more than `high` other ways, where those are better, and gives how
    /// many moves that took.
    pub(in super::super) fn relieve_all(
        &mut self,
        targets: &[Target],
        lfts: &mut [Lft],
        high: u64,
        budget: &mut Budget,
    ) -> usize {
        let mut moved = 0;
        for _ in 0..ROUNDS {
            let before = moved;
            for target in targets {
                moved += self.relieve(target, lfts, high, budget);
            }
            if moved == before {
                break;
            }
        }
        moved
    }

    /// By link: packets times their time.
    pub(in super::super) fn loads(&self) -> &[u64] {
        &self.load
    }

    /// So many packets go over a link.
    pub(in super::super) fn set_packets(&mut self, link: usize, packets: u64) {
        self.load[link] = packets * self.time[link];
    }

    fn link(&self, switch: usize, lfts: &[Lft], target: &Target) -> Option<usize> {
        let port = lfts[switch].entry(target.lid);
        let link = self.link_of_port[switch][usize::from(port)];
        (link != NO_LINK).then_some(link as usize)
    }

    /// Who sends to a target through whom, and what is the fullest link on each way.
    fn follow(&mut self, target: &Target, lfts: &[Lft]) {
        if self.column != Some(target.column) {
            self.column = Some(target.column);
            self.sort(target.column);
        }
        self.flow.copy_from_slice(&self.hosts);
        for place in (0..self.by_cost.len()).rev() {
            let switch = self.by_cost[place].index();
            let flow = self.flow[switch];
            if flow > 0
                && let Some(link) = self.link(switch, lfts, target)
            {
                self.flow[self.peer[link] as usize] += flow;
            }
        }
        self.fullest[target.switch.index()] = 0;
        for place in 0..self.by_cost.len() {
            let switch = self.by_cost[place].index();
            self.fullest[switch] = match self.link(switch, lfts, target) {
                Some(link) => self.load[link].max(self.fullest[self.peer[link] as usize]),
                None => 0,
            };
        }
    }

    /// The switches from which a column is reached, the nearest first; the destination itself is not among them.
    fn sort(&mut self, column: usize) {
        let tile = &self.ground.tiles[column / TILE];
        let cost = |switch: &SwitchIdx| tile.taken[switch.index()][column % TILE];
        self.by_cost.clear();
        let reached = self.ground.known.indices();
        self.by_cost
            .extend(reached.filter(|switch| !matches!(cost(switch), 0 | UNREACHED)));
        self.by_cost.sort_by_key(cost);
    }

    /// Sends what goes to a target over links that have more than `high` another way, where that is better.
    fn relieve(
        &mut self,
        target: &Target,
        lfts: &mut [Lft],
        high: u64,
        budget: &mut Budget,
    ) -> usize {
        self.follow(target, lfts);
        let mut moved = 0;
        // The farthest first: who is nearer has been told what comes by.
        for place in (0..self.by_cost.len()).rev() {
            let switch = self.by_cost[place];
            let flow = self.flow[switch.index()];
            if flow == 0
                || self.fullest[switch.index()] <= high
                || !budget.allows(switch, target.lid)
            {
                continue;
            }
            let held = lfts[switch.index()].entry(target.lid);
            let now = self.way(switch, held, lfts, target);
            let most = now.iter().map(|&link| self.load[link]).max().unwrap_or(0);
            // A move before this one may have emptied it.
            if most <= high {
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
            for &link in &now[..now.len() - 1] {
                self.flow[self.peer[link] as usize] -= flow;
            }
            for &link in &way[..way.len() - 1] {
                self.flow[self.peer[link] as usize] += flow;
            }
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
            let load = flow * self.time[link];
            if add {
                self.load[link] += load;
            } else {
                self.load[link] -= load;
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
        } = self.ground;
        let (tile, column) = (&tiles[column / TILE], column % TILE);
        let (down, taken) = (
            tile.down[switch.index()][column],
            tile.taken[switch.index()][column],
        );
        known
            .group_range(switch)
            .filter(|&group| {
                let there = known.group(group).neighbour;
                // Who is at the column is not asked: all costs are at least 1.
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
