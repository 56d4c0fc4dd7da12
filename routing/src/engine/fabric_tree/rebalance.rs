//! Rebalancing: takes load off the fullest links while parts of the fabric are missing.
//!
//! A repair moves only the destinations that lost their path, so that it is small and quick. Loads
//! are uneven after a repair: if one of two parallel cables has failed, the other carries the load
//! of both. If the fault stays, rebalancing moves single entries off such links, and then moves
//! entries to paths on which their packets meet fewer other packets. Each step changes a few
//! blocks. Each entry moves to another path of least cost, so that any mixture of old and new
//! tables follows the up*/down* order. When no part is missing any longer, all entries return to
//! their former ports.

use rsm_ids::Lid;

use super::super::{Options, Ranking, Routing};
use super::even::{Budget, MaxLoadReducer, ReducerInput, Target, in_64ths};
use super::known::KnownFabric;
use super::replan::State;
use crate::tables::{Lft, Tables};
use crate::topology::{SwitchIdx, Topology};
use crate::verify::Tally;

/// Rebalancing begins if the fullest link has more than this many 64ths of the lower bound of the
/// maximum link load. A smaller gain does not justify the reordering of packets that a change of
/// entries causes.
const RELIEF_64THS: u64 = 72;

/// If more than one entry in this many differs, the tables that switches hold are those of another
/// engine or manager: rebalancing moves fewer entries.
const MOVED_ONE_IN: usize = 4;

/// The result of one rebalancing step.
#[derive(Debug)]
pub struct Rebalanced {
    /// The routing from which the next step can start.
    pub routing: Routing,
    /// The number of entries that changed.
    pub moved: usize,
}

/// Whether parts of the fabric are missing, so that [`rebalance`] may find overloaded links. Always
/// false for tables of an engine other than `fabric-tree`.
pub fn misses_parts(ranking: &Ranking) -> bool {
    let state = ranking.prepared.state.as_deref();
    state.is_some_and(|state| !state.live.is_complete())
}

/// The reason why rebalancing moves no entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unmoved {
    /// The ranking's tables are not `fabric-tree` tables of the present fabric.
    #[error("the routes in force are not those of fabric-tree for the fabric as it is")]
    OtherRoutes,
    /// All known parts are present.
    #[error("no part of the fabric is missing")]
    NothingMissing,
    /// The load of the fullest link is close to its lower bound.
    #[error(
        "the fullest link carries {percent} % of the load that some link has by any routes over these cables, and \
         rebalancing begins above {begins} %"
    )]
    Level {
        /// The load of the fullest link, in percent of the lower bound.
        percent: u64,
        /// The load in percent of the lower bound above which rebalancing begins.
        begins: u64,
    },
    /// No move gains more than it costs.
    #[error(
        "the fullest link carries {percent} % of the load that some link has by any routes over these cables, but no \
         move to another way of the same length takes load off it without more loss in shifts"
    )]
    NoGain {
        /// The load of the fullest link, in percent of the lower bound.
        percent: u64,
    },
}

/// Computes one step of rebalancing: moves entries off the fullest links, in at most `blocks` table
/// blocks. `tally` is the tally of a proof of the tables in force.
///
/// # Errors
/// The reason why no entry moves: for example, no move helps, or the ranking's tables do not belong
/// to `topology`.
pub fn rebalance(
    topology: &Topology,
    options: &Options,
    tally: &Tally,
    blocks: usize,
) -> Result<Rebalanced, Unmoved> {
    let ranking = options
        .previous_ranking
        .as_ref()
        .ok_or(Unmoved::OtherRoutes)?;
    let earlier = ranking
        .prepared
        .state
        .as_deref()
        .ok_or(Unmoved::OtherRoutes)?;
    let is_same = earlier.categories == options.categories
        && earlier.numbers == options.numbers
        && earlier.is_for(topology);
    if !is_same {
        return Err(Unmoved::OtherRoutes);
    }
    if earlier.live.is_complete() {
        return Err(Unmoved::NothingMissing);
    }
    let groups = targets(topology, earlier);
    let mut unmoved = None;
    for (offset, targets) in groups.iter().enumerate().skip(earlier.balanced_lids) {
        let loads = match groups.len() {
            1 => LinkLoads::by_tally(topology, earlier, tally, targets),
            _ => LinkLoads::by_tables(earlier, targets),
        };
        match move_entries(earlier, loads, targets, blocks) {
            Ok(step) => {
                let state = State {
                    present: topology.id().clone(),
                    balanced_lids: offset,
                    ..step.state
                };
                let routing = state.into_routing(ranking.clone());
                return Ok(Rebalanced {
                    routing: match &options.previous_choice {
                        Some(choice) => choice.clone().with_reason(routing),
                        None => routing,
                    },
                    moved: step.moved,
                });
            }
            Err(reason) => {
                unmoved.get_or_insert(reason);
            }
        }
    }
    Err(unmoved.unwrap_or(Unmoved::OtherRoutes))
}

/// Adopts the moves of rebalancing that switches hold, for example after a restart during a long
/// fault: an entry of `held` for a host's LID stays if it leads along a path of least cost.
///
/// Returns `routing` unchanged if no part of the fabric is missing, if `routing` is of another
/// engine, or if `held` are tables of another engine or manager. `routing` must be for `topology`.
pub fn adopt_moves(topology: &Topology, routing: Routing, held: &Tables) -> Routing {
    let Some(ranking) = &routing.ranking else {
        return routing;
    };
    let Some(state) = ranking.prepared.state.as_deref() else {
        return routing;
    };
    if state.live.is_complete() || !has_few_changes(&state.tables, held) {
        return routing;
    }
    let mut target_of = vec![None; topology.top_lid().index() + 1];
    for target in targets(topology, state).into_iter().flatten() {
        target_of[target.lid.index()] = Some(target);
    }
    let reducer = MaxLoadReducer::new(LinkLoads::input(state));
    let mut tables = state.tables.clone();
    let mut moves = Vec::new();
    for switch in state.fabric.known.indices() {
        let Some(here) = state.live.switches[switch.index()] else {
            continue;
        };
        let Some(held) = held.lfts.get(here.index()) else {
            continue;
        };
        for lid in state.tables.lft(here).differing(held) {
            let Some(Some(target)) = target_of.get(lid.index()) else {
                continue;
            };
            let port = held.entry(lid);
            if reducer.may_use(switch, target, port) {
                tables.lfts[here.index()].set_entry(lid, port);
                // There are fewer positions than LIDs.
                moves.push((switch, target.position as u32, port));
            }
        }
    }
    if moves.is_empty() {
        return routing;
    }
    let adopted = with_moves(state, moves, tables).into_routing(ranking.clone());
    match &routing.choice {
        Some(choice) => choice.clone().with_reason(adopted),
        None => adopted,
    }
}

/// Whether `tables` and the tables `held` by switches differ in at least one entry, and in at most
/// one entry in [`MOVED_ONE_IN`].
fn has_few_changes(tables: &Tables, held: &Tables) -> bool {
    let (mut entries, mut changed) = (0, 0);
    for (planned, held) in tables.lfts.iter().zip(&held.lfts) {
        entries += planned.top().map_or(0, |top| top.index() + 1);
        changed += planned.differing(held).count();
    }
    (1..=entries / MOVED_ONE_IN).contains(&changed)
}

/// The result of moving the entries of some targets.
struct MovedEntries {
    /// The state after the moves.
    state: State,
    /// The number of entries that changed.
    moved: usize,
}

/// Moves entries for `targets` off the fullest links, in at most `blocks` table blocks.
///
/// # Errors
/// No move helps.
fn move_entries(
    earlier: &State,
    mut loads: LinkLoads<'_>,
    targets: &[Target],
    blocks: usize,
) -> Result<MovedEntries, Unmoved> {
    let percent = loads.percent();
    if !loads.needs_relief(earlier) {
        let begins = RELIEF_64THS * 100 / 64;
        return Err(Unmoved::Level { percent, begins });
    }
    let known = &earlier.fabric.known;
    let mut lfts = lfts_in_force(earlier);
    let mut budget = Budget::of(blocks);
    let (reducer, max_load_bound) = (&mut loads.reducer, loads.max_load_bound);
    if reducer.step(max_load_bound, targets, &mut lfts, &mut budget) == 0 {
        return Err(Unmoved::NoGain { percent });
    }
    let lft_before = |switch: SwitchIdx| {
        let here = earlier.live.switches[switch.index()];
        here.map(|here| earlier.tables.lft(here))
    };
    let is_moved = |&(switch, position): &(SwitchIdx, usize)| {
        let lid = Lid(earlier.lids[position]);
        lft_before(switch)
            .is_some_and(|before| before.entry(lid) != lfts[switch.index()].entry(lid))
    };
    let moves = loads.reducer.moves().filter(is_moved);
    let new_entry = |position: usize, switch: SwitchIdx| {
        let port = lfts[switch.index()].entry(Lid(earlier.lids[position]));
        // There are fewer positions than LIDs.
        (switch, position as u32, port)
    };
    let moves: Vec<(SwitchIdx, u32, u8)> = moves
        .map(|(switch, position)| new_entry(position, switch))
        .collect();
    let present = known
        .indices()
        .filter(|&switch| lft_before(switch).is_some());
    let tables = Tables {
        lfts: present.map(|switch| lfts[switch.index()].clone()).collect(),
    };
    let moved = moves.len();
    if moved == 0 {
        return Err(Unmoved::NoGain { percent });
    }
    let state = with_moves(earlier, moves, tables);
    Ok(MovedEntries { state, moved })
}

/// The state after `moves`: triples of a switch, the position of a LID, and the new port. `tables`
/// are the tables after the moves.
fn with_moves(earlier: &State, moves: Vec<(SwitchIdx, u32, u8)>, tables: Tables) -> State {
    State {
        relieved: earlier.relieved + moves.len(),
        relieved_at: Some(earlier.live.clone()),
        fabric: KnownFabric {
            exceptions: earlier.fabric.exceptions.with(moves.into_iter()).into(),
            ..earlier.fabric.clone()
        },
        tables,
        ..earlier.clone()
    }
}

/// The tables in force, by switch number in the known fabric; missing switches have empty tables.
fn lfts_in_force(earlier: &State) -> Vec<Lft> {
    let live = earlier.live.switches.iter();
    live.map(|here| here.map_or_else(Lft::default, |here| earlier.tables.lft(here).clone()))
        .collect()
}

/// The loads of links, and the lower bound of the maximum link load.
struct LinkLoads<'a> {
    reducer: MaxLoadReducer<'a>,
    /// The lower bound of the maximum link load under any tables.
    max_load_bound: u64,
}

impl<'a> LinkLoads<'a> {
    /// The loads of paths to all LIDs of all hosts, which a proof has counted in `tally`.
    fn by_tally(
        topology: &Topology,
        state: &'a State,
        tally: &Tally,
        targets: &[Target],
    ) -> LinkLoads<'a> {
        let known = &*state.fabric.known;
        let mut reducer = MaxLoadReducer::new(LinkLoads::input(state));
        for switch in known.indices() {
            let Some(here) = state.live.switches[switch.index()] else {
                continue;
            };
            for group in known.group_range(switch) {
                let links = known.group(group).links.iter().zip(known.link_range(group));
                for (link, number) in links.filter(|(_, number)| state.live.links.contains(*number))
                {
                    reducer.set_packets(number, tally.paths_through(topology, here, link.port));
                }
            }
        }
        LinkLoads {
            max_load_bound: reducer.max_load_bound(targets),
            reducer,
        }
    }

    /// The loads of packets to `targets` alone.
    fn by_tables(state: &'a State, targets: &[Target]) -> LinkLoads<'a> {
        let mut reducer = MaxLoadReducer::new(LinkLoads::input(state));
        reducer.load_with(targets, &lfts_in_force(state));
        LinkLoads {
            max_load_bound: reducer.max_load_bound(targets),
            reducer,
        }
    }

    /// The reducer's input from `state`: the known fabric with its present parts, order and costs.
    fn input(state: &'a State) -> ReducerInput<'a> {
        ReducerInput {
            known: &state.fabric.known,
            live: &state.live,
            order: state.interim.as_deref().unwrap_or(&state.fabric.order),
            tiles: &state.tiles,
            detours: &state.detours,
        }
    }

    /// The load of the fullest link, in percent of its lower bound.
    fn percent(&self) -> u64 {
        self.reducer.max_load().saturating_mul(100) / self.max_load_bound.max(1)
    }

    /// Whether entries should move off the fullest links: the maximum link load exceeds
    /// [`RELIEF_64THS`] of its lower bound, or rebalancing has already begun.
    fn needs_relief(&self, state: &State) -> bool {
        let limit = in_64ths(self.max_load_bound, RELIEF_64THS);
        state.relieved > 0 || self.reducer.max_load() > limit
    }
}

/// The LIDs of hosts, grouped by offset from the base LID. Rebalancing handles one group after the
/// other, base LIDs first, and leaves out hosts whose virtual ports have LIDs.
fn targets(topology: &Topology, state: &State) -> Vec<Vec<Target>> {
    let known = &state.fabric.known;
    let mut groups = vec![Vec::new()];
    for (position, &lid) in state.lids.iter().enumerate() {
        let lid = Lid(lid);
        let place = &state.fabric.numbering.places[position];
        let (Some(present), Some(known_index)) = (topology.destination_of(lid), place.destination)
        else {
            continue;
        };
        if !present.kind.is_host() || !present.further.is_empty() {
            continue;
        }
        let offset = usize::from(place.offset);
        if groups.len() <= offset {
            groups.resize(offset + 1, Vec::new());
        }
        let switch = known.destinations()[known_index as usize].switch;
        groups[offset].push(Target {
            lid,
            base: present.lid,
            lids: present.lmc.lids(),
            position,
            column: state.fabric.numbering.column_of[switch.index()] as usize,
            switch,
        });
    }
    groups
}
