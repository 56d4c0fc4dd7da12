//! `fabric-tree`: closed-form balance on any fabric that has ranks, and repairs that touch only the
//! broken part.
//!
//! Tables are a function of the known fabric, which includes parts that are missing now, and of the
//! present fabric. A closed form ([`numbering`]) of the known fabric gives every destination a port
//! at every switch. A destination whose port is missing takes a detour that depends on the
//! destination and on the switch, so that all other links share a broken link's load. Nothing else
//! moves. When the link comes back, the tables are the same as before the fault, whatever happened
//! in between.
//!
//! Paths are up*/down* paths by one order of all switches, which [`updn`](super::updn) makes. Links
//! between switches of one rank have a direction too, and no mixture of tables that follow the
//! order can deadlock.
//!
//! If the known fabric is no regular tree, the engine once moves single destinations to even out
//! the load (`even`). The known fabric and its results stay with the ranking from plan to plan, so
//! that a lost link costs only the columns and entries around it (`replan`). A fault moves only the
//! destinations that lost their port, at once. Links near the fault then carry more than their
//! share until rebalancing (`rebalance`) moves entries off them, a few blocks at a time.

mod apex;
mod base;
mod detours;
mod even;
mod fill;
mod known;
mod live;
mod numbering;
mod rebalance;
mod replan;
mod turns;
mod whole;

use std::collections::BTreeMap;
use std::sync::Arc;

use rayon::prelude::*;
use rsm_ids::{Guid, Lid};

pub(super) use self::apex::Apexes;
use self::base::{Base, Paths, Site};
use self::detours::Detours;
pub(super) use self::detours::MAX_DETOURS;
use self::even::Exceptions;
use self::fill::{Alike, Filler};
use self::known::{KnownFabric, Present};
use self::live::Live;
use self::numbering::Numbering;
pub(super) use self::numbering::by_subtree;
pub use self::rebalance::{Rebalanced, Unmoved, adopt_moves, misses_parts, rebalance};
use self::replan::State;
pub use self::replan::{Change, Prepared, Replan, replan};
use self::turns::SharedSlots;
use self::whole::with_inferred_cables;
use super::paths::Tile;
use super::updn::{self, Rank};
use super::{Engine, EngineError, Options, Ranking, Routing, prepare};
use crate::tables::{Lft, Tables};
use crate::topology::levels::{self, ANY_HOST, FEW_HOSTS};
use crate::topology::{Order, SwitchIdx, Topology};

/// The category of a destination. Each category is numbered, and so balanced, on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Category {
    /// Compute nodes: all channel adapters without another category.
    Compute,
    /// Storage nodes, and routers without another category, which lead out of the subnet.
    Storage,
    /// Management nodes.
    Management,
    /// Reduction engines inside switches (SHARP aggregation nodes).
    Aggregation,
    /// Port 0 of switches.
    Switch,
}

impl Category {
    const COUNT: usize = 5;
}

/// The engine for up*/down* paths with closed-form balance and minimal changes; see the
/// documentation of the module.
#[derive(Clone, Copy, Debug, Default)]
pub struct FabricTree;

impl Engine for FabricTree {
    fn name(&self) -> &'static str {
        "fabric-tree"
    }

    fn guarantee(&self) -> &'static str {
        "free of loops and of credit loops on any fabric, on one virtual lane; every connected pair \
         that starts or ends at a channel adapter or router is reached; on an intact tree with full \
         bandwidth shifts do not meet; a fault moves only what went through it, and when it is \
         mended the tables are what they were"
    }

    fn route(
        &self,
        topology: &Topology,
        options: &Options,
        previous: Option<&Tables>,
    ) -> Result<Routing, EngineError> {
        prepare::check_capacities(topology)?;
        prepare::in_pool(options, || match replan(topology, options) {
            Ok(replan) => Ok(replan.into_routing(previous)),
            Err(why) => route(topology, options, previous, why),
        })?
    }
}

/// All inputs of the tables. Switches, groups and links have the numbers of the known fabric.
struct Plan<'a> {
    known: &'a Topology,
    present: &'a Topology,
    live: &'a Live,
    /// The order on which the costs are based.
    order: &'a Order,
    /// The order on which the costs are based while no part is missing; usually equal to `order`.
    usual_order: &'a Order,
    /// The paths of pairs that have no path under `order`.
    detours: &'a Detours,
    numbering: &'a Numbering,
    shared_slots: &'a SharedSlots,
    /// The exceptions to the closed form.
    exceptions: &'a Exceptions,
    /// The LID at each position; 0 if its port is missing now, or if the position has no LID.
    lids: &'a [u16],
    /// The LIDs of known ports that no present port has.
    gone: &'a [Lid],
    /// For each switch, the round-robin list of all its uplink ports, missing ones included.
    uplink_rotations: &'a [Vec<u8>],
    /// The present costs.
    tiles: &'a [Arc<Tile>],
    /// The costs in the complete known fabric; `None` if no part is missing.
    intact_tiles: Option<&'a [Arc<Tile>]>,
}

impl Plan<'_> {
    /// Computes the tables of some switches.
    fn lfts(&self, switches: &[SwitchIdx]) -> Vec<Lft> {
        let alike = Alike::of(self);
        switches
            .par_iter()
            .map_init(fill::scratch, |scratch, &switch| {
                Filler::new(self, switch).lft(&alike, scratch)
            })
            .collect()
    }

    /// Computes the tables of all present switches. Equal tables share memory with `previous`.
    fn tables(&self, previous: Option<&Tables>) -> Tables {
        let is_live = |switch: &SwitchIdx| self.live.switches[switch.index()].is_some();
        let here: Vec<SwitchIdx> = self.known.indices().filter(is_live).collect();
        let mut tables = Tables {
            lfts: self.lfts(&here),
        };
        if let Some(previous) = previous {
            tables.share_with(previous);
        }
        tables
    }
}

/// The fabric including the parts that have gone since an engine first saw them, and the subset of
/// parts that are present.
fn known(topology: &Topology, earlier: Option<&Ranking>) -> (Arc<Topology>, Live) {
    let earlier = earlier.and_then(|ranking| ranking.known.as_ref());
    if let Some(earlier) = earlier
        && let Some(live) = Live::of(earlier, topology)
    {
        return (earlier.clone(), live);
    }
    let known = Arc::new(match earlier {
        None => topology.clone(),
        Some(earlier) => topology.joined_with(earlier),
    });
    let live = Live::of(&known, topology).expect("the known fabric contains the topology");
    (known, live)
}

/// The known fabric with the order of its tree.
struct RankedFabric {
    known: Arc<Topology>,
    live: Live,
    /// The given roots.
    roots: Vec<SwitchIdx>,
    rank: Rank,
    /// The number of cables of `known` that no present or earlier fabric had:
    /// [`with_inferred_cables`] found that they are missing.
    inferred: usize,
}

impl RankedFabric {
    /// Finds the known fabric, and cables that are missing from it; fails if a root is unknown.
    fn of(topology: &Topology, options: &Options) -> Result<RankedFabric, EngineError> {
        let earlier = options.previous_ranking.as_ref();
        let (known, live) = known(topology, earlier);
        let roots = updn::find_roots(&known, options)?;
        let rank = base::rank(&known, &roots, earlier);
        let known_before = earlier.and_then(|ranking| ranking.known.as_ref());
        let is_new = known_before.is_none_or(|before| !Arc::ptr_eq(before, &known));
        let whole = is_new
            .then(|| with_inferred_cables(&known, rank.order.levels()))
            .flatten();
        let Some(whole) = whole.map(Arc::new) else {
            return Ok(RankedFabric {
                known,
                live,
                roots,
                rank,
                inferred: 0,
            });
        };
        Ok(RankedFabric {
            live: Live::of(&whole, topology).expect("the united fabric contains the topology"),
            // Both have the same switches.
            rank: base::rank(&whole, &roots, earlier),
            roots,
            inferred: whole.link_count() - known.link_count(),
            known: whole,
        })
    }
}

/// The end of a sentence for the operator about cables that [`with_inferred_cables`] found; empty
/// for none.
fn inferred_sentence(cables: usize) -> String {
    match cables {
        0 => String::new(),
        cables => {
            format!("; a regular tree but for {cables} cables that were missing at first sight")
        }
    }
}

/// The known fabric, which the ranking keeps for later plans: it includes the parts that have gone
/// since an engine first saw them.
pub(super) fn known_fabric(topology: &Topology, earlier: Option<&Ranking>) -> Arc<Topology> {
    known(topology, earlier).0
}

/// Computes the routing from scratch; `why` is the reason why no earlier routing could be updated.
fn route(
    topology: &Topology,
    options: &Options,
    previous: Option<&Tables>,
    why: &'static str,
) -> Result<Routing, EngineError> {
    let earlier = options.previous_ranking.as_ref();
    let RankedFabric {
        known,
        live,
        roots,
        rank,
        inferred,
    } = RankedFabric::of(topology, options)?;
    let site = Site {
        known: &known,
        present: topology,
        live: &live,
        options,
    };
    let Paths {
        base,
        detours,
        interim,
    } = site.paths(&roots, rank)?;
    let Base {
        rank,
        numbering,
        apexes,
        intact,
        tiles,
    } = base;
    let mut fabric = KnownFabric::new(&known, &Arc::new(rank.order), numbering, apexes, intact);
    fabric.reason = rank.reason + &inferred_sentence(inferred);
    fabric.even_out(options, Some((&live, &detours)));
    let lids = lids(&known, &live, &fabric.numbering);
    let gone = gone(&known, topology, &live);
    let plan = fabric.plan(Present {
        topology,
        live: &live,
        order: interim.as_ref().unwrap_or(&fabric.order),
        detours: &detours,
        lids: &lids,
        gone: &gone,
        tiles: &tiles,
    });
    let tables = plan.tables(previous);
    let ranking = Ranking {
        switches: listed(&known, &fabric.order),
        follows: detours.followed(&known, &fabric.order),
        is_interim: interim.is_some(),
        roots: roots.iter().map(|&root| known.switch(root).guid).collect(),
        reason: rank.origin,
        known: Some(known.clone()),
        prepared: Prepared::default(),
    };
    let state = State {
        detours: Arc::new(detours),
        connect_roots: options.connect_roots,
        lids: Arc::new(lids),
        present: topology.id().clone(),
        tiles,
        tables,
        categories: options.categories.clone(),
        numbers: options.numbers.clone(),
        components: topology.components().len(),
        relieved: 0,
        relieved_at: None,
        usual: usual(&known, earlier, &live),
        balanced_lids: 0,
        interim: interim.map(Arc::new),
        live,
        fabric,
    };
    let mut routing = state.into_routing(ranking);
    if let Some(ranking) = &mut routing.ranking {
        ranking.prepared.whole = Some(why);
    }
    Ok(routing)
}

/// The parts that were present when this known fabric was first planned.
fn usual(known: &Arc<Topology>, earlier: Option<&Ranking>, live: &Live) -> Live {
    let state = earlier
        .and_then(|ranking| ranking.prepared.state.as_deref())
        .filter(|state| Arc::ptr_eq(&state.fabric.known, known));
    state.map_or(live, |state| &state.usual).clone()
}

/// The GUID and level of each switch, the highest first.
fn listed(known: &Topology, order: &Order) -> Vec<(Guid, u8)> {
    let highest_first = order.highest_first().iter();
    highest_first
        .map(|&switch| (known.switch(switch).guid, order.levels()[switch.index()]))
        .collect()
}

/// The LIDs of known ports that no present port has.
fn gone(known: &Topology, present: &Topology, live: &Live) -> Vec<Lid> {
    let gone = live.destinations.zeroes();
    let lids = gone.flat_map(|number| known.destinations()[number].own_lids());
    lids.filter(|&lid| present.destination_of(lid).is_none())
        .collect()
}

/// The LID at each position; 0 if its port is missing now, or if the position has no LID.
fn lids(known: &Topology, live: &Live, numbering: &Numbering) -> Vec<u16> {
    let lid = |place: &numbering::NumberedLid| {
        let number = place.destination? as usize;
        let is_live = live.destinations.contains(number);
        place.lid(known).filter(|_| is_live)
    };
    numbering
        .places
        .iter()
        .map(|place| lid(place).unwrap_or(Lid::NONE).0)
        .collect()
}

/// Whether most links join switches of different ranks. Such a fabric is a tree, however irregular,
/// and its ranks give paths their directions up and down.
pub(super) fn has_ranks(topology: &Topology, options: &Options) -> bool {
    // Parts that are missing now also show the shape of the fabric.
    let earlier = options.previous_ranking.as_ref();
    let fabric = earlier
        .and_then(|ranking| ranking.known.as_deref())
        .unwrap_or(topology);
    let roots: Vec<SwitchIdx> = options
        .root_guids
        .iter()
        .filter_map(|&guid| fabric.switch_by_guid(guid))
        .collect();
    let guesses = if roots.is_empty() {
        [ANY_HOST, FEW_HOSTS]
            .map(|share| levels::from_edges(fabric, share))
            .to_vec()
    } else {
        vec![levels::from_roots(fabric, &roots)]
    };
    guesses.iter().any(|levels| {
        let (mut links, mut peers) = (0, 0);
        for switch in fabric.indices() {
            for group in fabric.groups(switch) {
                links += group.links.len();
                if levels[group.neighbour.index()] == levels[switch.index()] {
                    peers += group.links.len();
                }
            }
        }
        peers * PEER_LINKS_ONE_IN <= links
    })
}

/// A fabric has ranks if at most one in this many of its links joins switches of one rank.
/// Dragonflies, whose groups are joined at the top, have more than one in three; trees have a few
/// by mistake.
const PEER_LINKS_ONE_IN: usize = 4;

/// Categories by port GUID, for ports whose category is not the default of their kind.
pub type Categories = BTreeMap<Guid, Category>;

/// The number of each port within its category, by port GUID. Ports without a configured number
/// come after the highest one.
///
/// A switch with `n` uplinks assigns them round-robin. Two ports take different uplinks at this
/// switch if their numbers differ modulo `n`, and at the next switch of their path if their numbers
/// divided by `n` differ modulo that switch's number of uplinks.
pub type Numbers = BTreeMap<Guid, u32>;
