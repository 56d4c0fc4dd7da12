//! What links carry, and who is to go another way.

use rsm_ids::Lid;

use super::super::super::paths::{TILE, UNREACHED};
use super::Intact;
use crate::tables::Lft;
use crate::topology::SwitchIdx;

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
pub(super) struct Target {
    pub(super) lid: Lid,
    pub(super) position: usize,
    pub(super) column: usize,
    /// The switch that it hangs off.
    pub(super) switch: SwitchIdx,
}

/// What links carry, and how packets reach one destination.
pub(super) struct Leveller<'a> {
    intact: &'a Intact<'a>,
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
    pub(super) fn new(intact: &'a Intact<'a>) -> Leveller<'a> {
        let known = intact.known;
        let switches = known.switch_count();
        let links = known.half_link_count();
        let mut leveller = Leveller {
            intact,
            link_of_port: vec![[NO_LINK; 256]; switches],
            peer: vec![0; links],
            time: vec![TIME; links],
            load: vec![0; links],
            hosts: known
                .indices()
                .map(|switch| known.hosts(switch) as u64)
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
        let mut moved = 0;
        for _ in 0..ROUNDS {
            let before = moved;
            for target in targets {
                moved += self.relieve(target, lfts, high);
            }
            if moved == before {
                break;
            }
        }
        moved
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
        let tile = &self.intact.tiles[column / TILE];
        let cost = |switch: &SwitchIdx| tile.taken[switch.index()][column % TILE];
        self.by_cost.clear();
        let reached = self.intact.known.indices();
        self.by_cost
            .extend(reached.filter(|switch| !matches!(cost(switch), 0 | UNREACHED)));
        self.by_cost.sort_by_key(cost);
    }

    /// Sends what goes to a target over links that have more than `high` another way, where that is better.
    fn relieve(&mut self, target: &Target, lfts: &mut [Lft], high: u64) -> usize {
        self.follow(target, lfts);
        let mut moved = 0;
        // The farthest first: who is nearer has been told what comes by.
        for place in (0..self.by_cost.len()).rev() {
            let switch = self.by_cost[place];
            let flow = self.flow[switch.index()];
            if flow == 0 || self.fullest[switch.index()] <= high {
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
        let Intact {
            known,
            order,
            tiles,
            ..
        } = self.intact;
        let (tile, column) = (&tiles[column / TILE], column % TILE);
        let (down, taken) = (
            tile.down[switch.index()][column],
            tile.taken[switch.index()][column],
        );
        known
            .groups(switch)
            .filter(|group| {
                let there = group.neighbour.index();
                // Who is at the column is not asked: all costs are at least 1.
                if down != UNREACHED {
                    order.is_above(switch, group.neighbour) && tile.down[there][column] == down - 1
                } else {
                    order.is_above(group.neighbour, switch)
                        && tile.taken[there][column] == taken - 1
                }
            })
            .flat_map(|group| group.links.iter().map(|link| link.port.0))
            .collect()
    }
}
