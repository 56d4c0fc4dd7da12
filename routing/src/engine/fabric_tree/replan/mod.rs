//! Computes a routing from the results of an earlier one, and examines only the changes.
//!
//! Columns of costs are independent, and within a column only one set of costs makes every switch
//! one hop further than its best neighbour. A column therefore changes only if that rule fails next
//! to a link that has gone or come: checking the ends of such links finds the columns to compute
//! again. An entry changes only at a switch with such a link, or if the costs of the switch or of a
//! neighbour have changed.
//!
//! A cable or host that was never seen before changes the known fabric as well. If its subtrees and
//! the positions of its destinations stay, the same check of link ends repairs the costs of the
//! complete fabric, and all other results are compared with the earlier ones.

mod basis;
mod changes;
mod mending;

use std::sync::Arc;

use fixedbitset::FixedBitSet;

use self::basis::Basis;
pub use self::changes::Change;
use self::changes::Differences;
use super::super::paths::Tile;
use super::super::{AbsentRoots, Options, Ranking, Routing};
use super::detours::{self, Detours};
use super::known::{KnownFabric, Present};
use super::live::Live;
use super::{Categories, Numbers, gone};
use crate::lanes::Lanes;
use crate::tables::{Lft, Tables};
use crate::topology::{Order, Topology, TopologyId};

/// The results that a routing keeps for the next one.
#[derive(Clone)]
pub(crate) struct State {
    pub(super) fabric: KnownFabric,
    /// The topology that was routed.
    pub(super) present: TopologyId,
    pub(super) live: Live,
    /// The order that packets follow until the missing parts are back; `None` if the usual order
    /// leaves no pair without a path.
    pub(super) interim: Option<Arc<Order>>,
    pub(super) detours: Arc<Detours>,
    pub(super) connect_roots: bool,
    /// The LID at each position; 0 if no present port has the LID.
    pub(super) lids: Arc<Vec<u16>>,
    /// The costs over the present parts.
    pub(super) tiles: Vec<Arc<Tile>>,
    /// The tables, by the switch numbers of the topology for which they were made.
    pub(super) tables: Tables,
    pub(super) categories: Arc<Categories>,
    pub(super) numbers: Arc<Numbers>,
    /// The number of components of the fabric of these tables.
    pub(super) components: usize,
    /// The number of moves in [`KnownFabric::exceptions`] that rebalancing made because parts are
    /// missing.
    pub(super) relieved: usize,
    /// The parts that were present at the last of these moves.
    pub(super) relieved_at: Option<Live>,
    /// The parts that were present when this known fabric was first planned. Rebalancing's moves
    /// are undone when all links of these parts are present.
    pub(super) usual: Live,
    /// The number of LIDs of each host, from the base LID on, for which rebalancing finds nothing
    /// more to move.
    pub(super) balanced_lids: usize,
}

impl State {
    /// Whether `topology` equals the one that was routed.
    pub(super) fn is_for(&self, topology: &Topology) -> bool {
        match topology.changes_since(&self.present) {
            Some([]) => true,
            _ => Live::of(&self.fabric.known, topology).as_ref() == Some(&self.live),
        }
    }

    /// Whether rebalancing's moves are undone once these parts are present.
    fn ends_relief(&self, live: &Live) -> bool {
        let is_as_at_moves = |at: &Live| at.has_links_of(live) && live.has_links_of(at);
        live.has_links_of(&self.usual) && !self.relieved_at.as_ref().is_some_and(is_as_at_moves)
    }

    /// The routing with this state.
    pub(super) fn into_routing(self, ranking: Ranking) -> Routing {
        let here = self
            .live
            .switches
            .iter()
            .zip(self.fabric.order.levels())
            .filter(|(here, _)| here.is_some());
        let relieved = match self.relieved {
            0 => String::new(),
            moves => format!("; {moves} more while parts are missing"),
        };
        Routing {
            lanes: Lanes::default(),
            coordinates: None,
            choice: None,
            tables: self.tables.clone(),
            engine: "fabric-tree",
            reason: format!("fabric-tree: {}{relieved}", self.fabric.reason),
            ranks: Some(here.map(|(_, &level)| level).collect()),
            ranking: Some(Ranking {
                prepared: Prepared::by_changes(self),
                ..ranking
            }),
        }
    }
}

/// A state as part of a ranking. The engine can recompute it at any time, and it does not affect
/// the routes.
#[derive(Clone)]
pub struct Prepared {
    /// The state; `None` if the next routing has to start from the topology.
    pub(crate) state: Option<Arc<State>>,
    /// The reason why the routes were computed from the topology; `None` if the previous routes
    /// were updated.
    pub(crate) whole: Option<&'static str>,
}

/// No state: an engine that always starts from the topology keeps none.
impl Default for Prepared {
    fn default() -> Prepared {
        Prepared {
            state: None,
            whole: Some("the engine has no other way"),
        }
    }
}

impl Prepared {
    /// The state of routes that update the previous ones.
    pub(super) fn by_changes(state: State) -> Prepared {
        let state = Some(Arc::new(state));
        Prepared { state, whole: None }
    }
}

impl std::fmt::Debug for Prepared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.state.is_some() {
            "Prepared"
        } else {
            "Unprepared"
        })
    }
}

impl PartialEq for Prepared {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Prepared {}

/// A routing as its difference from the previous one.
pub struct Replan {
    state: State,
    /// The previous table of each switch, by its present number.
    before: Vec<Lft>,
    changes: Vec<Change>,
    ranking: Ranking,
}

impl Replan {
    /// The entries that differ, sorted by switch and LID. All entries of a new switch count as new.
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// Returns the complete routing, equal to one computed from the topology. Equal tables share
    /// memory with `previous`, the tables of the same topology.
    pub fn into_routing(self, previous: Option<&Tables>) -> Routing {
        let entries = self
            .changes
            .iter()
            .map(|change| (change.switch, change.lid, change.after));
        let mut tables = Tables { lfts: self.before };
        tables.set_entries(&entries.collect::<Vec<_>>());
        if let Some(previous) = previous {
            tables.share_with(previous);
        }
        let mut state = self.state;
        state.tables = tables;
        state.into_routing(self.ranking)
    }
}

/// Computes the routing of `topology` as its difference from the routing whose ranking is in
/// `options`.
///
/// # Errors
/// The reason, in a few words, why the routes have to be computed from the topology: no routes are
/// in force, parts that were never seen before change the results everywhere, or connecting all
/// pairs needs another order.
pub fn replan(topology: &Topology, options: &Options) -> Result<Replan, &'static str> {
    let (ranking, earlier) = in_force(options)?;
    let basis = Basis::of(earlier, topology, options, &ranking.reason)?;
    if earlier.relieved > 0 && (basis.is_changed || earlier.ends_relief(&basis.live)) {
        return Err("entries that were moved while parts were missing go back");
    }
    let repaired = Repaired::of(earlier, basis, topology, options)?;
    let Repaired { fabric, live, .. } = &repaired;
    let gone = gone(&fabric.known, topology, live);
    let plan = fabric.plan(Present {
        topology,
        live,
        order: &fabric.order,
        detours: &repaired.detours,
        lids: &repaired.lids,
        gone: &gone,
        tiles: &repaired.tiles,
    });
    let differences = Differences::of(
        &plan,
        earlier,
        &repaired.changed_switches,
        &repaired.touched,
    );
    let ranking = Ranking {
        follows: repaired.detours.followed(&fabric.known, &fabric.order),
        known: Some(fabric.known.clone()),
        prepared: Prepared::default(),
        ..ranking.clone()
    };
    Ok(Replan {
        before: differences.before,
        changes: differences.changes,
        ranking,
        state: repaired.into_state(topology, options),
    })
}

/// The ranking and the state of the routing in force.
///
/// # Errors
/// The reason, in a few words, why they cannot be used.
fn in_force(options: &Options) -> Result<(&Ranking, &State), &'static str> {
    let ranking = (options.previous_ranking.as_ref()).ok_or("no routes are in force")?;
    let earlier = ranking
        .prepared
        .state
        .as_deref()
        .ok_or("nothing is kept of how the routes in force were made")?;
    if earlier.interim.is_some() {
        return Err("packets follow another order while parts are missing");
    }
    let known = &earlier.fabric.known;
    let mut roots = options.root_guids.clone();
    if options.absent_roots == AbsentRoots::LeaveOut {
        roots.retain(|&root| known.switch_by_guid(root).is_some());
    }
    roots.sort_unstable();
    roots.dedup();
    if earlier.categories != options.categories
        || earlier.numbers != options.numbers
        || earlier.connect_roots != options.connect_roots
        || ranking.roots != roots
    {
        return Err("categories, host order, roots or connect_roots changed");
    }
    Ok((ranking, earlier))
}

/// For each switch, the columns in which its entries may change.
type Touched = Vec<Vec<u32>>;

/// The results for a topology: the earlier results, with the differences repaired.
struct Repaired {
    fabric: KnownFabric,
    live: Live,
    detours: Detours,
    lids: Arc<Vec<u16>>,
    tiles: Vec<Arc<Tile>>,
    relieved: usize,
    relieved_at: Option<Live>,
    usual: Live,
    /// The switches whose whole tables are to be compared.
    changed_switches: FixedBitSet,
    touched: Touched,
}

impl Repaired {
    /// Repairs the results of `earlier` for `topology`.
    fn of(
        earlier: &State,
        mut basis: Basis,
        topology: &Topology,
        options: &Options,
    ) -> Result<Repaired, &'static str> {
        let (lids, columns) = basis.lids(earlier);
        let has_new_pairs = basis.has_new_pairs(earlier, topology) || !columns.is_empty();
        let tiles = basis.costs(earlier);
        let Basis {
            fabric,
            live,
            changed_switches,
            mut touched,
            mut changed,
            ..
        } = basis;
        let inputs = detours::Inputs {
            known: &fabric.known,
            present: topology,
            live: &live,
            numbering: &fabric.numbering,
            order: &fabric.order,
            tiles: &tiles,
            apexes: &fabric.apexes,
            connect_roots: options.connect_roots,
        };
        if has_new_pairs {
            changed.extend(inputs.unreached());
        }
        let are_joined = topology.components().len() == 1 && earlier.components == 1;
        let only_links = !basis.is_changed && live.has_nodes_of(&earlier.live);
        let between = detours::FabricDifference {
            ends: &changed_switches,
            before: (are_joined && only_links).then_some(&earlier.live),
        };
        let detours = basis
            .detours
            .follow(&inputs, &changed, &between)
            .ok_or("no detours lead around what is missing")?;
        detours.touch(&basis.detours, &mut touched);
        for of_switch in &mut touched {
            of_switch.extend(&columns);
        }
        Ok(Repaired {
            detours,
            lids,
            tiles,
            relieved: earlier.relieved,
            relieved_at: earlier.relieved_at.clone(),
            usual: match basis.is_changed {
                true => live.clone(),
                false => earlier.usual.clone(),
            },
            changed_switches,
            touched,
            fabric,
            live,
        })
    }

    /// The state of the new routing, without its tables.
    fn into_state(self, topology: &Topology, options: &Options) -> State {
        State {
            fabric: self.fabric,
            present: topology.id().clone(),
            live: self.live,
            interim: None,
            detours: Arc::new(self.detours),
            connect_roots: options.connect_roots,
            lids: self.lids,
            tiles: self.tiles,
            tables: Tables::default(),
            categories: options.categories.clone(),
            numbers: options.numbers.clone(),
            components: topology.components().len(),
            relieved: self.relieved,
            relieved_at: self.relieved_at,
            usual: self.usual,
            balanced_lids: 0,
        }
    }
}
