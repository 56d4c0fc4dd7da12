//! Taking load off the fullest links while parts of the fabric are missing.
//!
//! A repair moves the destinations that lost their path and no others, so that it is small and
//! quick. It leaves uneven loads: where one of two parallel cables has died the other carries both.
//! When a fault stays, rebalancing moves single entries off such links, a few blocks at a time,
//! each to another of the ways that cost least: any mixture of the tables before and after follows
//! the order, and every step is small. When all parts are back, all entries go back.

use rsm_ids::Lid;

use super::super::{Options, Ranking, Routing};
use super::even::{Budget, Ground, Leveller, Target};
use super::known::KnownFabric;
use super::replan::State;
use crate::tables::{Lft, NO_PATH, Tables};
use crate::topology::{SwitchIdx, Topology};
use crate::verify::Tally;

/// Links are too full when the fullest has more than so many quarters of the load that it would
/// have if every switch spread its packets evenly: below that, the gain is not worth packets
/// overtaking each other.
const STRAINED_QUARTERS: u64 = 5;

/// Rebalancing relieves links down to so many eighths of that load.
const RELIEVED_EIGHTHS: u64 = 9;

/// A step of rebalancing.
#[derive(Debug)]
pub struct Rebalanced {
    /// The routing, which a next step can start from.
    pub routing: Routing,
    /// How many entries changed.
    pub moved: usize,
}

/// Whether links may carry too much because parts of the fabric are missing; [`rebalance`] finds
/// out whether they do. Never with the tables of another engine than `fabric-tree`, nor while
/// packets follow another order than with all parts present.
pub fn misses_parts(ranking: &Ranking) -> bool {
    let state = ranking.prepared.state.as_deref();
    state.is_some_and(|state| !state.live.is_complete())
}

/// Moves entries off the fullest links, in at most so many blocks of tables; `None` where no part
/// is missing, where no move helps, or where the ranking's tables are not for `topology`.
pub fn rebalance(
    topology: &Topology,
    options: &Options,
    tally: &Tally,
    blocks: usize,
) -> Option<Rebalanced> {
    let ranking = options.previous_ranking.as_ref()?;
    let earlier = ranking.prepared.state.as_deref()?;
    let is_same = earlier.categories == options.categories
        && earlier.numbers == options.numbers
        && earlier.is_for(topology);
    if !is_same || earlier.live.is_complete() {
        return None;
    }
    let mut strain = Strain::of(topology, earlier, tally);
    if !strain.is_high(earlier) {
        return None;
    }
    let high = strain.relieved();
    let targets = strain.targets(topology, earlier, high);
    let known = &earlier.fabric.known;
    let mut lfts: Vec<Lft> = earlier
        .live
        .switches
        .iter()
        .map(|here| here.map_or_else(Lft::default, |here| earlier.tables.lft(here).clone()))
        .collect();
    let mut budget = Budget::of(blocks);
    if strain
        .leveller
        .relieve_all(&targets, &mut lfts, high, &mut budget)
        == 0
    {
        return None;
    }
    let was = |switch: SwitchIdx| {
        let here = earlier.live.switches[switch.index()];
        here.map(|here| earlier.tables.lft(here))
    };
    let is_moved = |&(switch, position): &(SwitchIdx, usize)| {
        let lid = Lid(earlier.lids[position]);
        was(switch).is_some_and(|was| was.entry(lid) != lfts[switch.index()].entry(lid))
    };
    let moves = strain.leveller.moves().filter(is_moved);
    let port = |position: usize, switch: SwitchIdx| {
        let port = lfts[switch.index()].entry(Lid(earlier.lids[position]));
        // Fewer positions than LIDs.
        (switch, position as u32, port)
    };
    let moves: Vec<(SwitchIdx, u32, u8)> = moves
        .map(|(switch, position)| port(position, switch))
        .collect();
    let here = known.indices().filter(|&switch| was(switch).is_some());
    let tables = Tables {
        lfts: here.map(|switch| lfts[switch.index()].clone()).collect(),
    };
    let moved = moves.len();
    let state = State {
        present: topology.id().clone(),
        fabric: KnownFabric {
            own: earlier.fabric.own.with(moves.into_iter()).into(),
            ..earlier.fabric.clone()
        },
        relieved: earlier.relieved + moved,
        tables,
        ..earlier.clone()
    };
    (moved > 0).then(|| Rebalanced {
        routing: Routing {
            choice: options.previous_choice.clone(),
            ..state.into_routing(ranking.clone())
        },
        moved,
    })
}

/// The load of the fullest link, and the load that it should have.
struct Strain<'a> {
    leveller: Leveller<'a>,
    /// The load of the fullest link, in packets times their time.
    fullest: u64,
    /// Its load if every switch spread its packets evenly over its links to each side.
    fair: u64,
}

impl<'a> Strain<'a> {
    fn of(topology: &Topology, state: &'a State, tally: &Tally) -> Strain<'a> {
        let known = &*state.fabric.known;
        let mut leveller = Leveller::new(Ground {
            known,
            live: &state.live,
            order: &state.fabric.order,
            tiles: &state.tiles,
            detours: &state.detours,
        });
        let level = |switch: SwitchIdx| state.fabric.order.levels()[switch.index()];
        let (mut fullest, mut fair) = (0, 0);
        for switch in known.indices() {
            let Some(here) = state.live.switches[switch.index()] else {
                continue;
            };
            // To each side of its level: the load of all links there, and their number. A single
            // switch that the order has above the rest is no side of its own.
            let mut sides = [(0u64, 0u64); 3];
            for group in known.group_range(switch) {
                let ends = known.group(group);
                let side = level(ends.neighbour).cmp(&level(switch)) as i8 + 1;
                let side = &mut sides[side as usize];
                for (link, number) in ends.links.iter().zip(known.link_range(group)) {
                    if state.live.links.contains(number) {
                        leveller
                            .set_packets(number, tally.paths_through(topology, here, link.port));
                        let load = leveller.loads()[number];
                        fullest = fullest.max(load);
                        *side = (side.0 + load, side.1 + 1);
                    }
                }
            }
            for (load, links) in sides {
                fair = fair.max(load / links.max(1));
            }
        }
        Strain {
            leveller,
            fullest,
            fair,
        }
    }

    /// Whether links need relief: rebalancing that has begun goes on to its end.
    fn is_high(&self, state: &State) -> bool {
        self.fullest
            > match state.relieved {
                0 => self.fair / 4 * STRAINED_QUARTERS,
                _ => self.relieved(),
            }
    }

    /// The load that rebalancing relieves links down to.
    fn relieved(&self) -> u64 {
        self.fair / 8 * RELIEVED_EIGHTHS
    }

    /// The hosts that packets over links with more than `high` go to, by LID. The LIDs of a port
    /// that has several take ways apart from each other, which is left to the closed form.
    fn targets(&self, topology: &Topology, state: &State, high: u64) -> Vec<Target> {
        let known = &state.fabric.known;
        let mut is_wanted = vec![false; usize::from(u16::MAX) + 1];
        for switch in known.indices() {
            let Some(here) = state.live.switches[switch.index()] else {
                continue;
            };
            let mut is_full = [false; 256];
            for group in known.group_range(switch) {
                let links = known.group(group).links.iter().zip(known.link_range(group));
                for (link, number) in links {
                    is_full[link.port.index()] = self.leveller.loads()[number] > high;
                }
            }
            if is_full.contains(&true) {
                let entries = state.tables.lft(here).iter().enumerate();
                for (lid, port) in entries.filter(|&(_, port)| port != NO_PATH) {
                    is_wanted[lid] |= is_full[usize::from(port)];
                }
            }
        }
        let target = |(position, &lid): (usize, &u16)| {
            let lid = Lid(lid);
            let found = topology
                .destination_of(lid)
                .filter(|_| is_wanted[lid.index()])?;
            let is_single_host =
                found.kind.is_host() && found.lmc.lids() == 1 && found.further.is_empty();
            let known_as = state.fabric.numbering.places[position].destination? as usize;
            let switch = known.destinations()[known_as].switch;
            is_single_host.then(|| Target {
                lid,
                position,
                column: state.fabric.numbering.column_of[switch.index()] as usize,
                switch,
            })
        };
        state.lids.iter().enumerate().filter_map(target).collect()
    }
}
