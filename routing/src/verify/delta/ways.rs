//! The paths of packets from some switches to one LID. Each switch on these paths is examined once.

use rsm_ids::{Lid, PortNum};

use super::super::fabric::Sources;
use super::super::tally::{Loads, Tally};
use super::Inconclusive;
use super::side::Side;
use crate::topology::{EndpointKind, PortUse, SwitchIdx};

/// The rest of the path from one switch on.
#[derive(Clone, Copy)]
struct PathFrom {
    /// The round in which the path was found; it is outdated in later rounds.
    round: u32,
    /// The number of hops to the end of the path.
    hops: u32,
    /// The number of hosts whose packets pass, among the sources that have been added.
    flow: u32,
    /// The next switch; the switch itself at the end of the path.
    next: SwitchIdx,
    /// The entry for the LID in the switch's table.
    port: u8,
    /// Whether the path ends at the LID.
    arrives: bool,
}

/// The sums over some pairs. The load is in `loads`, and not in `tally`.
pub(super) struct Sums {
    pub(super) tally: Tally,
    pub(super) loads: Loads,
}

impl Sums {
    pub(super) fn new(side: &Side<'_>) -> Sums {
        Sums {
            tally: Tally::default(),
            loads: Loads::new(side.channels()),
        }
    }
}

/// The paths to one LID; memory is reused for the next LID.
pub(super) struct PathFinder {
    round: u32,
    /// The path of each switch, by switch number; valid if its round is `round`.
    of: Vec<PathFrom>,
    /// The switches whose path was found in this round.
    found: Vec<SwitchIdx>,
    path: Vec<(SwitchIdx, u8)>,
}

impl PathFinder {
    pub(super) fn new(switches: usize) -> PathFinder {
        let none = PathFrom {
            round: 0,
            hops: 0,
            flow: 0,
            next: SwitchIdx(0),
            port: 0,
            arrives: false,
        };
        PathFinder {
            round: 0,
            of: vec![none; switches],
            found: Vec::new(),
            path: Vec::new(),
        }
    }

    /// Adds to `sums` the packets from some switches, each listed once, to a LID. Does nothing if
    /// no destination has the LID.
    pub(super) fn count(
        &mut self,
        side: &Side<'_>,
        switches: impl Iterator<Item = SwitchIdx> + Clone,
        lid: Lid,
        sums: &mut Sums,
    ) -> Result<(), Inconclusive> {
        self.find(side, switches.clone(), lid)?;
        self.add(side, switches, lid, |switch| side.starts(switch), sums);
        Ok(())
    }

    /// Finds the paths from some switches to a LID. Does nothing if no destination has the LID.
    pub(super) fn find(
        &mut self,
        side: &Side<'_>,
        switches: impl Iterator<Item = SwitchIdx>,
        lid: Lid,
    ) -> Result<(), Inconclusive> {
        let Some(destination) = side.topology.destination_of(lid) else {
            return Ok(());
        };
        // There are at most as many rounds as LIDs.
        self.round += 1;
        self.found.clear();
        let root = destination.switch;
        let delivers = side.entry(root, lid) == destination.port.0;
        for switch in switches {
            self.follow(side, switch, lid, delivers.then_some(root))?;
        }
        Ok(())
    }

    /// Adds to `sums` the packets from some switches to a LID, by the paths found last. `starts`
    /// returns the sources at a switch.
    pub(super) fn add(
        &mut self,
        side: &Side<'_>,
        switches: impl Iterator<Item = SwitchIdx>,
        lid: Lid,
        starts: impl Fn(SwitchIdx) -> Sources,
        sums: &mut Sums,
    ) {
        let tally = &mut sums.tally;
        let Some(destination) = side.topology.destination_of(lid) else {
            return;
        };
        for switch in &self.found {
            self.of[switch.index()].flow = 0;
        }
        let root = destination.switch;
        let is_host = destination.kind.is_host();
        for switch in switches {
            let path_from = &mut self.of[switch.index()];
            let starts = starts(switch);
            let is_own = u64::from(switch == root);
            if is_host {
                // There are fewer hosts than 2^21.
                path_from.flow += starts.hosts() as u32;
            }
            if path_from.arrives {
                tally.count_hops(path_from.hops as usize);
                if is_host {
                    tally.host_pairs += starts.hosts() - is_own;
                }
            }
            let topology = side.topology;
            let joined = topology.component_of(switch) == topology.component_of(root);
            // A port and its own LIDs form no pair.
            let (ports, switches) = match destination.kind {
                EndpointKind::Switch0 => (starts.ports(), starts.switches() - is_own),
                _ => (starts.ports() + starts.switches() - is_own, 0),
            };
            for (pairs, count) in [
                (&mut tally.pairs, ports),
                (&mut tally.switch_pairs, switches),
            ] {
                let kind = match (path_from.arrives, joined) {
                    (true, _) => &mut pairs.reachable,
                    (false, true) => &mut pairs.unreachable,
                    (false, false) => &mut pairs.disconnected,
                };
                *kind += count;
            }
        }
        if is_host {
            self.add_loads(side, &mut sums.loads);
        }
    }

    /// Finds the path from a switch to its end: `root`, or a switch whose entry leads to no other
    /// switch. `root` is `None` if the LID's switch does not deliver its packets.
    fn follow(
        &mut self,
        side: &Side<'_>,
        switch: SwitchIdx,
        lid: Lid,
        root: Option<SwitchIdx>,
    ) -> Result<(), Inconclusive> {
        self.path.clear();
        let mut at = switch;
        while self.of[at.index()].round != self.round {
            let byte = side.entry(at, lid);
            let next = match side.topology.port_use(at, PortNum(byte)) {
                PortUse::Link { peer, .. } if Some(at) != root => peer,
                _ => {
                    self.record(at, at, byte, 0, Some(at) == root);
                    break;
                }
            };
            self.path.push((at, byte));
            if self.path.len() > side.topology.switch_count() {
                return Err(Inconclusive::Loop { lid });
            }
            at = next;
        }
        let PathFrom {
            mut hops, arrives, ..
        } = self.of[at.index()];
        while let Some((before, port)) = self.path.pop() {
            hops += 1;
            self.record(before, at, port, hops, arrives);
            at = before;
        }
        Ok(())
    }

    /// Records the path of the switch `at` for this round.
    fn record(&mut self, at: SwitchIdx, next: SwitchIdx, port: u8, hops: u32, arrives: bool) {
        self.of[at.index()] = PathFrom {
            round: self.round,
            hops,
            flow: 0,
            next,
            port,
            arrives,
        };
        self.found.push(at);
    }

    /// Adds to the load of each channel the packets that pass it in this round.
    fn add_loads(&mut self, side: &Side<'_>, loads: &mut Loads) {
        let hops = |switch: &SwitchIdx| self.of[switch.index()].hops;
        self.found
            .sort_unstable_by_key(|switch| std::cmp::Reverse(hops(switch)));
        for &switch in &self.found {
            let path_from = self.of[switch.index()];
            if path_from.hops > 0 {
                let channel = switch.index() * side.stride + usize::from(path_from.port);
                loads.add(channel, path_from.flow);
                self.of[path_from.next.index()].flow += path_from.flow;
            }
        }
    }
}
