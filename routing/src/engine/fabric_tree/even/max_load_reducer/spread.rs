//! Spreading: moves entries to paths on which their packets meet fewer other packets.
//!
//! Links below the maximum load count as well: the speed of a random exchange among all hosts
//! depends on how many of its packets share their links with no other packet. Packets to one
//! destination never meet, because a host receives from one other host at a time. A move pays if
//! the meetings that it adds to shifts are at most twice those that it saves
//! (`MaxLoadReducer::worth`).

use super::clashes::Clashes;
use super::{Budget, MaxLoadReducer, NO_LINK, TIME, Target};
use crate::tables::Lft;
use crate::topology::SwitchIdx;

/// The maximum number of entries, hosts times switches. Spreading takes over a second at this size,
/// and is skipped in larger fabrics.
pub(in super::super) const MAX_ENTRIES: usize = 3 << 20;

/// The prices: the number of meetings in shifts that a move may add for each meeting that it saves.
/// Cheap moves come first.
const PRICES: [u64; 2] = [1, 2];

/// The maximum number of rounds over all destinations at one price. Each round finds fewer moves
/// than the one before.
const ROUNDS: usize = 3;

/// A round is the last at its price if it saves less than one part in this many of all meetings
/// saved so far.
const LAST_ROUND: u128 = 16;

/// A path is better if it has fewer other packets than this many 32ths of those on the present
/// path.
const BETTER_THAN_32THS: u64 = 31;

/// All moves are taken back if together they save a smaller share of all meetings than this.
const WORTH: f64 = 0.01;

/// The working memory of all rounds.
struct Round {
    /// For each switch, the load of packets to other destinations, summed over the links of its
    /// path to the current target.
    others: Vec<u64>,
    /// For each column, the ports of all switches towards it; `None` until first needed.
    exits: Vec<Option<Exits>>,
    /// The better ports of a switch: the load of other packets on the path from the port, and the
    /// port.
    better: Vec<(u64, u8)>,
    /// The links of the packets' present path.
    now: Vec<usize>,
    /// The links of a candidate for their path.
    other: Vec<usize>,
    /// Twice the number of meetings that the moves saved, in units of squared loads.
    saved: u128,
}

/// The ports of all switches towards one column.
struct Exits {
    /// The ports, by switch.
    ports: Vec<u8>,
    /// For each switch, the index of its first port; the next switch's index ends its range.
    first: Vec<u32>,
}

impl Exits {
    /// The ports of one switch.
    fn of(&self, switch: usize) -> &[u8] {
        &self.ports[self.first[switch] as usize..self.first[switch + 1] as usize]
    }
}

impl MaxLoadReducer<'_> {
    /// Moves entries for `targets` where that pays, and takes all moves back if the resulting
    /// tables are worse. Targets of one column must be adjacent. `times` holds the time of a packet
    /// on each link. Returns the share of all meetings that the moves save; 0 if they are taken
    /// back.
    pub(super) fn spread(&mut self, times: &[u64], targets: &[Target], lfts: &mut [Lft]) -> f64 {
        let before = self.load.clone();
        let cost = self.table_cost(times, targets, lfts);
        let saved = self.spread_within(targets, lfts, &mut Budget::of(usize::MAX));
        let squares: u128 = before.iter().map(|&load| u128::from(load).pow(2)).sum();
        let saved = saved as f64 / squares.max(1) as f64;
        // A random exchange counts as much as the shifts.
        let now = self.table_cost(times, targets, lfts) * (1.0 - saved).powi(2);
        if saved < WORTH || now > cost {
            self.take_back(0, &before, lfts);
            return 0.0;
        }
        saved
    }

    /// Moves entries for `targets` within a budget; each move must pay. Returns twice the number of
    /// meetings that the moves save, in units of squared loads.
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
        // The farthest switch first. Packets that move take their own load along, so that the load
        // of other packets behind the first link stays the same.
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

    /// Moves the entry of one switch for a target if that pays; returns whether it moved.
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
            if !self.may_take(&lfts[switch.index()], target, port) {
                return false;
            }
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
        self.take_way(switch, target, port, lfts);
        *saved += 2 * u128::from(flow * TIME) * u128::from(met - meets);
        true
    }

    /// The ports of all switches towards a column.
    fn exits(&self, column: usize) -> Exits {
        let mut exits = Exits {
            ports: Vec::new(),
            first: vec![0],
        };
        for switch in self.input.known.indices() {
            if self.cost(switch, column).is_some() {
                exits.ports.extend(self.choices(switch, column));
            }
            // There are fewer ports than 2^32.
            exits.first.push(exits.ports.len() as u32);
        }
        exits
    }
}
