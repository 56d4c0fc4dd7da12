//! `dfsssp`: shortest paths, and as many lanes as it takes.

use super::columns::{self, Column, NO_GROUP};
use super::turns::Turns;
use super::{DEFAULT_VLS, Engine, EngineError, Options, Routing, nue, prepare};
use crate::lanes::{Lanes, PairLevels, ServiceLevels};
use crate::tables::Tables;
use crate::topology::{SwitchIdx, Topology};

/// Shortest paths, balanced, each pair of switches on the first lane on which its two paths close
/// no cycle with those before them (after Domke, Hoefler and Nagel, "Deadlock-free oblivious
/// routing for arbitrary topologies", IPDPS'11).
///
/// - *Guarantee*: shortest paths without a credit loop on any graph for which the lanes suffice;
///   where they do not there is an error, and [`nue`](super::Nue) is the engine to use.
/// - *Needs*: lanes as they come, up to [`Options::max_vls`]; a service level for each pair of leaf
///   switches, which faults can change.
/// - *Complexity*: O(n² · h) for n switches and paths of h hops, and for each turn of each lane at
///   most one search among the channels between its ends.
#[derive(Clone, Copy, Debug, Default)]
pub struct Dfsssp;

impl Engine for Dfsssp {
    fn name(&self) -> &'static str {
        "dfsssp"
    }

    fn guarantee(&self) -> &'static str {
        "shortest paths without loops or credit loops, on as many virtual lanes as that takes; fabrics \
         whose links have fewer are refused"
    }

    fn route(
        &self,
        topology: &Topology,
        options: &Options,
        _previous: Option<&Tables>,
    ) -> Result<Routing, EngineError> {
        prepare::capacities(topology)?;
        let most = options.max_vls.unwrap_or(DEFAULT_VLS).max(1);
        prepare::in_pool(options, || {
            let columns = nue::route_freely(topology);
            let mut layers = Layers::new(topology, most);
            for to in topology.indices() {
                if !layers.add(to, &columns) {
                    return Err(EngineError::TooFewLanes {
                        engine: self.name(),
                        needed: most + 1,
                        available: most,
                    });
                }
            }
            let vls = layers.turns.len().max(1) as u8;
            let lanes = if vls == 1 {
                Lanes::default()
            } else {
                let count = topology.switch_count();
                let level = |from: SwitchIdx, to: SwitchIdx| {
                    layers.levels[to.index() * count + from.index()]
                };
                let levels = PairLevels::new(count, level);
                Lanes::layers(topology, ServiceLevels::ByPair(levels), vls)
            };
            let columns: Vec<Vec<Column>> = columns.into_iter().map(|one| vec![one]).collect();
            let mut reason = format!("dfsssp: shortest paths, balanced, on {vls} lanes by pair");
            if vls > 1 {
                reason += prepare::FIXED_LEVELS;
            }
            let tables = columns::tables(topology, &columns);
            Ok(Routing::unranked(self.name(), reason, tables, lanes))
        })?
    }
}

/// The lanes so far, and the paths on each.
struct Layers<'a> {
    topology: &'a Topology,
    most: u8,
    turns: Vec<Turns<'a>>,
    /// By destination, then by source.
    levels: Vec<u8>,
}

impl<'a> Layers<'a> {
    fn new(topology: &'a Topology, most: u8) -> Layers<'a> {
        Layers {
            topology,
            most,
            turns: Vec::new(),
            levels: vec![0; topology.switch_count() * topology.switch_count()],
        }
    }

    /// Finds a lane for the paths between a switch and each one before it, the same for both ways:
    /// answers have the service level of their request. `false` if there is none for one of them.
    fn add(&mut self, one: SwitchIdx, columns: &[Column]) -> bool {
        let count = self.topology.switch_count();
        let (mut there, mut back) = (Vec::new(), Vec::new());
        for other in (0..one.0).map(SwitchIdx) {
            self.follow(other, one, &columns[one.index()], &mut there);
            self.follow(one, other, &columns[other.index()], &mut back);
            let level =
                (0..self.most).find(|&layer| self.fits(usize::from(layer), [&there, &back]));
            let Some(level) = level else { return false };
            self.levels[one.index() * count + other.index()] = level;
            self.levels[other.index() * count + one.index()] = level;
        }
        true
    }

    /// The channels from a switch to the column's; none where there is no way.
    fn follow(&self, from: SwitchIdx, to: SwitchIdx, column: &Column, path: &mut Vec<u32>) {
        path.clear();
        let mut at = from;
        while at != to && column[at.index()] != NO_GROUP {
            let channel = self.topology.group_range(at).start + usize::from(column[at.index()]);
            path.push(channel as u32);
            at = self.topology.group(channel).neighbour;
        }
    }

    /// Takes the turns of two paths on a layer, all or none of them.
    fn fits(&mut self, layer: usize, paths: [&[u32]; 2]) -> bool {
        if paths.iter().all(|path| path.len() < 2) {
            return true;
        }
        if layer == self.turns.len() {
            self.turns.push(Turns::new(self.topology));
        }
        let turns = &mut self.turns[layer];
        let mut taken = Vec::new();
        for turn in paths.into_iter().flat_map(|path| path.windows(2)) {
            match turns.take(turn[0], turn[1]) {
                Some(true) => taken.push((turn[0], turn[1])),
                Some(false) => {}
                None => {
                    turns.take_back(&taken);
                    return false;
                }
            }
        }
        true
    }
}
