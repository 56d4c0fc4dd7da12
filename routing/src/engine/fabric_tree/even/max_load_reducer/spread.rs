//! Spreading: moves entries to paths on which their packets meet fewer other packets.
//!
//! Links below the maximum load count as well: the speed of a random exchange among all hosts
//! depends on how many of its packets share their links with no other packet. Packets to one
//! destination never meet, because a host receives from one other host at a time. A move pays if
//! it adds at most twice as many meetings to shifts as it saves
//! (`MaxLoadReducer::max_shift_cost`).

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

/// The maximum number of passes over all destinations at one price. Each pass finds fewer moves
/// than the one before.
const PASSES: usize = 3;

/// A pass is the last at its price if it saves less than one part in this many of all meetings
/// saved so far.
const LAST_PASS: u128 = 16;

/// A path is better if its load of other packets is below this many 32nds of the load on the
/// present path.
const BETTER_THAN_32THS: u64 = 31;

/// All moves are undone if together they save a smaller share of all meetings than this.
const MIN_SAVED_SHARE: f64 = 0.01;

/// The working memory of all passes.
struct Memory {
    /// For each switch, the load of packets to other destinations, summed over the links of its
    /// path to the current target.
    other_loads: Vec<u64>,
    /// For each column, the ports of all switches towards it; `None` until first needed.
    exits: Vec<Option<Exits>>,
    /// The better ports of a switch: the load of other packets on the path from the port, and the
    /// port.
    better_ports: Vec<(u64, u8)>,
    /// The links of the packets' present path.
    present_path: Vec<usize>,
    /// The links of a candidate for the packets' new path.
    candidate_path: Vec<usize>,
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
    /// Moves entries for `targets` where that pays, and undoes all moves if the resulting tables
    /// are worse. Targets of one column must be adjacent. `times` holds the time of a packet on
    /// each link. Returns the share of all meetings that the moves save; 0 if the moves are undone.
    pub(super) fn spread(&mut self, times: &[u64], targets: &[Target], lfts: &mut [Lft]) -> f64 {
        let before = self.load.clone();
        let cost = self.table_cost(times, targets, lfts);
        let saved = self.spread_within(targets, lfts, &mut Budget::of(usize::MAX));
        let squares: u128 = before.iter().map(|&load| u128::from(load).pow(2)).sum();
        let saved = saved as f64 / squares.max(1) as f64;
        // A random exchange counts as much as the shifts.
        let cost_now = self.table_cost(times, targets, lfts) * (1.0 - saved).powi(2);
        if saved < MIN_SAVED_SHARE || cost_now > cost {
            self.undo_moves(0, &before, lfts);
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
        let mut memory = Memory {
            other_loads: vec![0; self.hosts.len()],
            exits: (0..self.columns()).map(|_| None).collect(),
            better_ports: Vec::new(),
            present_path: Vec::new(),
            candidate_path: Vec::new(),
            saved: 0,
        };
        for price in PRICES {
            self.price = price;
            for _ in 0..PASSES {
                let saved = memory.saved;
                for target in targets {
                    if budget.may_allow(target.lid) {
                        self.spread_target(target, lfts, &mut memory, budget);
                    }
                }
                if (memory.saved - saved) * LAST_PASS < memory.saved {
                    break;
                }
            }
        }
        memory.saved
    }

    /// Moves entries for one target.
    fn spread_target(
        &mut self,
        target: &Target,
        lfts: &mut [Lft],
        memory: &mut Memory,
        budget: &mut Budget,
    ) {
        self.set_column(target.column);
        let nearest = std::mem::take(&mut self.nearest);
        self.find_flows(&nearest, target, lfts);
        memory.other_loads[target.switch.index()] = 0;
        for switch in nearest.iter().map(|switch| switch.index()) {
            let link = self.held[switch] as usize;
            if let Some(&peer) = self.peer.get(link) {
                let own = self.flow[switch] * self.time[link];
                memory.other_loads[switch] =
                    self.load[link] - own + memory.other_loads[peer as usize];
            }
        }
        // The farthest switch first. Packets that move take their own load along, so that the load
        // of other packets behind the first link stays the same.
        for &switch in nearest.iter().rev() {
            if self.flow[switch.index()] > 0
                && budget.allows(switch, target.lid)
                && self.spread_entry(switch, target, lfts, memory)
            {
                budget.record(switch, target.lid);
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
        memory: &mut Memory,
    ) -> bool {
        let held = self.held[switch.index()];
        if held == NO_LINK {
            return false;
        }
        let Memory {
            other_loads,
            exits,
            better_ports,
            present_path,
            candidate_path,
            saved,
        } = memory;
        let (flow, held_load) = (self.flow[switch.index()], other_loads[switch.index()]);
        let links = &self.link_of_port[switch.index()];
        let exits = exits[target.column].get_or_insert_with(|| self.exits(target.column));
        better_ports.clear();
        for &port in exits.of(switch.index()) {
            let link = links[usize::from(port)];
            let load = self.load[link as usize] + other_loads[self.peer_of(link as usize)];
            if link != held && load * 32 < held_load * BETTER_THAN_32THS {
                better_ports.push((load, port));
            }
        }
        if better_ports.is_empty() {
            return false;
        }
        let held = lfts[switch.index()].entry(target.lid);
        better_ports.sort_unstable();
        self.find_near(&lfts[switch.index()], target, flow);
        self.find_path(switch, held, lfts, target, present_path);
        let most = present_path
            .iter()
            .map(|&link| self.load[link])
            .max()
            .unwrap_or(0);
        let limit = most.max(self.full_limit);
        let chosen = better_ports.iter().find(|&&(load, port)| {
            if !self.may_leave_by(&lfts[switch.index()], target, port) {
                return false;
            }
            if self.shift_cost(switch, port) - self.shift_cost(switch, held)
                > self.max_shift_cost(flow, self.price * (held_load - load))
            {
                return false;
            }
            self.find_path(switch, port, lfts, target, candidate_path);
            candidate_path.iter().all(|link| {
                present_path.contains(link) || self.load[*link] + flow * self.time[*link] <= limit
            })
        });
        let Some(&(load, port)) = chosen else {
            return false;
        };
        self.change_loads(present_path, flow, false);
        self.change_loads(candidate_path, flow, true);
        self.move_flow(present_path, candidate_path, flow);
        self.move_to_port(switch, target, port, lfts);
        *saved += 2 * u128::from(flow * TIME) * u128::from(held_load - load);
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
