//! Spreading: entries move to ways on which their packets meet fewer others.
//!
//! Links below the fullest count as well: a random exchange of all hosts is as fast as its packets
//! have links to themselves. Packets to the same destination never meet, as a host receives from
//! one other at a time. A move pays where it adds at most twice as many meetings to shifts as it
//! saves (`Leveller::worth`).

use super::clashes::Clashes;
use super::{Budget, Leveller, NO_LINK, TIME, Target};
use crate::tables::Lft;
use crate::topology::SwitchIdx;

/// A fabric of more entries, hosts times switches, is left as it is: this many take over a second.
pub(in super::super) const MAX_ENTRIES: usize = 3 << 20;

/// How many times the meetings that a move saves it may cost in shifts: first cheap moves.
const PRICES: [u64; 2] = [1, 2];

/// The most rounds over all destinations at one price. Each finds fewer moves than the one before.
const ROUNDS: usize = 3;

/// A round that saves less than this part of what all have saved is the last at its price.
const LAST_ROUND: u128 = 16;

/// A way is better when its packets meet less than this many 32ths of the others.
const BETTER_THAN_32THS: u64 = 31;

/// Moves that together save a smaller part of all meetings are taken back.
const WORTH: f64 = 0.01;

/// The working memory of all rounds.
struct Round {
    /// By switch: the loads by packets to others along its way to the current target.
    others: Vec<u64>,
    /// By column: the ports towards it, once asked for.
    exits: Vec<Option<Exits>>,
    /// The ports on whose ways the packets at hand meet fewer others, with how many.
    better: Vec<(u64, u8)>,
    /// The links of the way that these packets take, and of another.
    now: Vec<usize>,
    other: Vec<usize>,
    /// Twice the meetings that the moves saved, as squares of loads.
    saved: u128,
}

/// The ports of all switches towards one column.
struct Exits {
    ports: Vec<u8>,
    /// By switch: where its ports begin; those of the next end them.
    first: Vec<u32>,
}

impl Exits {
    fn of(&self, switch: usize) -> &[u8] {
        &self.ports[self.first[switch] as usize..self.first[switch + 1] as usize]
    }
}

impl Leveller<'_> {
    /// Moves entries for `targets`, those of one column next to each other, where that pays, and
    /// takes all moves back if the tables are worse with them. `times` are those of packets by
    /// link. Returns the part of all meetings that the moves save.
    pub(super) fn spread(&mut self, times: &[u64], targets: &[Target], lfts: &mut [Lft]) -> f64 {
        let before = self.load.clone();
        let badness = self.badness(times, targets, lfts);
        let saved = self.spread_within(targets, lfts, &mut Budget::of(usize::MAX));
        let squares: u128 = before.iter().map(|&load| u128::from(load).pow(2)).sum();
        let saved = saved as f64 / squares.max(1) as f64;
        // Exchanges count as much as shifts.
        let now = self.badness(times, targets, lfts) * (1.0 - saved).powi(2);
        if saved < WORTH || now > badness {
            self.take_back(0, &before, lfts);
            return 0.0;
        }
        saved
    }

    /// Moves entries for `targets` within a budget, where each move pays. Returns twice the
    /// meetings that they save, as squares of loads.
    pub(super) fn spread_within(
        &mut self,
        targets: &[Target],
        lfts: &mut [Lft],
        budget: &mut Budget,
    ) -> u128 {
        self.clashes = Clashes::among(targets);
        let mut round = Round {
            others: vec![0; self.hosts.len()],
            exits: (0..self.columns()).map(|_| None).collect(),
            better: Vec::new(),
            now: Vec::new(),
            other: Vec::new(),
            saved: 0,
        };
        for price in PRICES {
            self.price = price;
            for _ in 0..ROUNDS {
                let saved = round.saved;
                for target in targets {
                    if budget.may_allow(target.lid) {
                        self.spread_target(target, lfts, &mut round, budget);
                    }
                }
                if (round.saved - saved) * LAST_ROUND < round.saved {
                    break;
                }
            }
        }
        round.saved
    }

    /// Moves entries for one target.
    fn spread_target(
        &mut self,
        target: &Target,
        lfts: &mut [Lft],
        round: &mut Round,
        budget: &mut Budget,
    ) {
        self.set_column(target.column);
        let nearest = std::mem::take(&mut self.nearest);
        self.find_flows(&nearest, target, lfts);
        round.others[target.switch.index()] = 0;
        for switch in nearest.iter().map(|switch| switch.index()) {
            let link = self.held[switch] as usize;
            if let Some(&peer) = self.peer.get(link) {
                let own = self.flow[switch] * self.time[link];
                round.others[switch] = self.load[link] - own + round.others[peer as usize];
            }
        }
        // The farthest first. Packets that move take their own load along, so that those to others
        // stay the same behind the first link.
        for &switch in nearest.iter().rev() {
            if self.flow[switch.index()] > 0
                && budget.allows(switch, target.lid)
                && self.spread_entry(switch, target, lfts, round)
            {
                budget.take(switch, target.lid);
            }
        }
        self.nearest = nearest;
    }

    /// Moves the entry of one switch for a target, where that pays; whether it moved.
    fn spread_entry(
        &mut self,
        switch: SwitchIdx,
        target: &Target,
        lfts: &mut [Lft],
        round: &mut Round,
    ) -> bool {
        let held = self.held[switch.index()];
        if held == NO_LINK {
            return false;
        }
        let Round {
            others,
            exits,
            better,
            now,
            other,
            saved,
        } = round;
        let (flow, met) = (self.flow[switch.index()], others[switch.index()]);
        let links = &self.link_of_port[switch.index()];
        let exits = exits[target.column].get_or_insert_with(|| self.exits(target.column));
        better.clear();
        for &port in exits.of(switch.index()) {
            let link = links[usize::from(port)];
            let meets = self.load[link as usize] + others[self.peer_of(link as usize)];
            if link != held && meets * 32 < met * BETTER_THAN_32THS {
                better.push((meets, port));
            }
        }
        if better.is_empty() {
            return false;
        }
        let held = lfts[switch.index()].entry(target.lid);
        better.sort_unstable();
        self.find_near(&lfts[switch.index()], target, flow);
        self.find_way(switch, held, lfts, target, now);
        let most = now.iter().map(|&link| self.load[link]).max().unwrap_or(0);
        let limit = most.max(self.high);
        let chosen = better.iter().find(|&&(meets, port)| {
            if self.in_shifts(switch, port) - self.in_shifts(switch, held)
                > self.worth(flow, self.price * (met - meets))
            {
                return false;
            }
            self.find_way(switch, port, lfts, target, other);
            other.iter().all(|link| {
                now.contains(link) || self.load[*link] + flow * self.time[*link] <= limit
            })
        });
        let Some(&(meets, port)) = chosen else {
            return false;
        };
        self.put(now, flow, false);
        self.put(other, flow, true);
        self.change_way(now, other, flow);
        self.set_entry(switch, target, port, lfts);
        *saved += 2 * u128::from(flow * TIME) * u128::from(met - meets);
        true
    }

    /// The ports of all switches towards a column.
    fn exits(&self, column: usize) -> Exits {
        let mut exits = Exits {
            ports: Vec::new(),
            first: vec![0],
        };
        for switch in self.ground.known.indices() {
            if self.cost(switch, column).is_some() {
                exits.ports.extend(self.choices(switch, column));
            }
            // Fewer ports than 2^32.
            exits.first.push(exits.ports.len() as u32);
        }
        exits
    }
}
