//! Routing from the results of an earlier routing, with a look at the changes only.
//!
//! Columns of costs do not depend on each other, and within one the costs are the only ones in
//! which every switch is one hop further than its best neighbour. So a column changes only where
//! that fails next to a link that has gone or come, and a look at the ends of those links finds the
//! columns to compute again. An entry changes only at such an end, or where the costs around it
//! did.

mod mending;

use std::collections::BTreeSet;
use std::sync::Arc;

use rayon::prelude::*;
use rsm_ids::Lid;

use self::mending::{Mended, Work};
use super::super::order::Order;
use super::super::paths::{Neighbours, Tile, Ways};
use super::super::{AbsentRoots, Options, Ranking, Routing};
use super::apex::Apexes;
use super::detours::{self, Detours};
use super::even::Own;
use super::fill::{self, Filler, Gathered};
use super::live::Live;
use super::numbering::Numbering;
use super::turns::Turns;
use super::{Categories, Numbers, Plan, gone, lids};
use crate::lanes::Lanes;
use crate::tables::{BLOCK_LIDS, Lft, NO_PATH, Tables};
use crate::topology::{SwitchIdx, Topology, TopologyId};

/// An entry of a table that changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Change {
    /// The switch whose entry it is.
    pub switch: SwitchIdx,
    /// The LID of the entry.
    pub lid: Lid,
    /// The output port in force, [`NO_PATH`] for none.
    pub before: u8,
    /// The new output port, [`NO_PATH`] for none.
    pub after: u8,
}

/// The results that a routing keeps for the next.
#[derive(Clone)]
pub(crate) struct State {
    pub(super) known: Arc<Topology>,
    /// The topology that was routed.
    pub(super) present: TopologyId,
    pub(super) live: Live,
    /// The order of the costs.
    pub(super) order: Arc<Order>,
    pub(super) apexes: Arc<Apexes>,
    pub(super) detours: Arc<Detours>,
    pub(super) connect_roots: bool,
    pub(super) neighbours: Arc<Neighbours>,
    pub(super) up_turns: Arc<Vec<Vec<u8>>>,
    /// By position.
    pub(super) lids: Arc<Vec<u16>>,
    pub(super) numbering: Arc<Numbering>,
    pub(super) turns: Arc<Turns>,
    pub(super) own: Arc<Own>,
    pub(super) tiles: Vec<Arc<Tile>>,
    pub(super) intact: Vec<Arc<Tile>>,
    /// By the numbers of the topology that they were made for.
    pub(super) tables: Tables,
    pub(super) categories: Arc<Categories>,
    pub(super) numbers: Arc<Numbers>,
    /// How many components the fabric of these tables had.
    pub(super) parts: usize,
    pub(super) reason: String,
    /// How many moves in [`State::own`] rebalancing made while parts are missing.
    pub(super) relieved: usize,
}

impl State {
    /// Whether `topology` is like the one that was routed.
    pub(super) fn is_for(&self, topology: &Topology) -> bool {
        match topology.changes_since(&self.present) {
            Some([]) => true,
            _ => Live::of(&self.known, topology).as_ref() == Some(&self.live),
        }
    }

    /// The routing that made this state.
    pub(super) fn into_routing(self, ranking: Ranking) -> Routing {
        let here = self.live.switches.iter().zip(self.order.levels());
        let here = here.filter(|(here, _)| here.is_some());
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
            reason: format!("fabric-tree: {}{relieved}", self.reason),
            ranks: Some(here.map(|(_, &level)| level).collect()),
            ranking: Some(Ranking {
                prepared: Prepared::by_changes(self),
                ..ranking
            }),
        }
    }
}

/// A state, as part of a ranking. It can be made again at any time, and makes no difference to the
/// routes.
#[derive(Clone)]
pub struct Prepared {
    /// `None` where the next routing has to begin from the topology.
    pub(crate) state: Option<Arc<State>>,
    /// Why the routes were computed from the topology; `None` where those before were changed.
    pub(crate) whole: Option<&'static str>,
}

/// Nothing, from an engine that always begins from the topology.
impl Default for Prepared {
    fn default() -> Prepared {
        Prepared {
            state: None,
            whole: Some("the engine has no other way"),
        }
    }
}

impl Prepared {
    /// The state of routes that were made from those before.
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

/// A routing as the difference to the one before it.
pub struct Replan {
    state: State,
    /// By switch, as it is numbered now: its table before.
    before: Vec<Lft>,
    changes: Vec<Change>,
    ranking: Ranking,
}

impl Replan {
    /// The entries that differ, by switch and LID. A new switch had no entries.
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// The same routing as one computed from nothing. It shares memory with `previous`, tables of
    /// the same topology, where both are equal.
    pub fn into_routing(self, previous: Option<&Tables>) -> Routing {
        let entries = self.changes.iter();
        let entries = entries.map(|change| (change.switch, change.lid, change.after));
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

/// The routing of `topology` as the difference to the one whose ranking `options` have.
///
/// # Errors
/// Why the routes have to be computed from the topology, in a few words: there are none in force,
/// more has changed than which of the known links, switches and hosts are there, or another order
/// is needed to reach everything.
pub fn replan(topology: &Topology, options: &Options) -> Result<Replan, &'static str> {
    let ranking = (options.previous_ranking.as_ref()).ok_or("no routes are in force")?;
    let earlier = ranking.prepared.state.as_deref();
    let earlier = earlier.ok_or("nothing is kept of how the routes in force were made")?;
    let known = &earlier.known;
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
    let live = match topology.changes_since(&earlier.present) {
        Some(changed) => earlier.live.follow(known, topology, changed),
        None => Live::of(known, topology),
    };
    let live = live.ok_or("a cable, switch or host is where none was seen before")?;
    if earlier.relieved > 0 && live.is_complete() {
        return Err("entries that were moved while parts were missing go back");
    }
    let work = Work {
        earlier,
        known,
        live: &live,
    };
    let ends = work.ends();
    let ways = Ways::new(&earlier.neighbours, &live.groups);
    let changed = work.first_changes(ways, &ends);
    let mended: Vec<Mended> = (0..changed.len())
        .into_par_iter()
        .map(|number| work.again(number, &changed[number], &ends, ways))
        .collect();
    // By switch: the columns in which its entries may change.
    let mut touched: Vec<Vec<u32>> = vec![Vec::new(); known.switch_count()];
    for (number, mended) in mended.iter().enumerate() {
        work.touch(number, mended, &mut touched);
    }
    let comes_or_goes: Vec<usize> = (0..known.destinations().len())
        .filter(|&number| {
            live.destinations.contains(number) != earlier.live.destinations.contains(number)
        })
        .collect();
    let mut changed: BTreeSet<u32> = mended.iter().flat_map(Mended::columns).collect();
    let asks_more = work.asks_more(topology) || !comes_or_goes.is_empty();
    let tiles: Vec<Arc<Tile>> = mended.into_iter().map(|mended| mended.tile).collect();
    let inputs = detours::Inputs {
        known,
        present: topology,
        live: &live,
        numbering: &earlier.numbering,
        order: &earlier.order,
        tiles: &tiles,
        apexes: &earlier.apexes,
        connect_roots: earlier.connect_roots,
    };
    if asks_more {
        changed.extend(inputs.unreached());
    }
    let detours = earlier.detours.follow(&inputs, &changed, &ends);
    let detours = detours.ok_or("no detours lead around what is missing")?;
    detours.touch(&earlier.detours, &mut touched);
    for &number in &comes_or_goes {
        let leaf = known.destinations()[number].switch;
        let column = earlier.numbering.column_of[leaf.index()] as usize;
        for columns in &mut touched {
            columns.push(column as u32);
        }
    }
    let lids = if comes_or_goes.is_empty() {
        earlier.lids.clone()
    } else {
        Arc::new(lids(known, &live, &earlier.numbering))
    };
    let gone = gone(known, topology, &live);
    let plan = Plan {
        known,
        present: topology,
        live: &live,
        order: &earlier.order,
        usual_order: &earlier.order,
        detours: &detours,
        numbering: &earlier.numbering,
        turns: &earlier.turns,
        own: &earlier.own,
        lids: &lids,
        gone: &gone,
        up_turns: &earlier.up_turns,
        tiles: &tiles,
        intact_tiles: (!live.is_complete()).then_some(&earlier.intact[..]),
    };
    let here: Vec<(SwitchIdx, Lft)> = known
        .indices()
        .filter(|switch| live.switches[switch.index()].is_some())
        .map(|switch| {
            let was = earlier.live.switches[switch.index()];
            (
                switch,
                was.map_or_else(Lft::default, |was| earlier.tables.lft(was).clone()),
            )
        })
        .collect();
    let goes: Vec<Lid> = comes_or_goes
        .iter()
        .flat_map(|&number| known.destinations()[number].lids())
        .filter(|&lid| topology.destination_of(lid).is_none())
        .collect();
    let gathered = Gathered::of(&plan, &touched);
    let changes: Vec<Vec<Change>> = here
        .par_iter()
        .enumerate()
        .map(|(number, (switch, before))| {
            let is_new = earlier.live.switches[switch.index()].is_none();
            if !is_new && !ends.contains(switch.index()) && touched[switch.index()].is_empty() {
                return Vec::new();
            }
            // Numbered as in the topology, whose order is that of the known fabric.
            let number = SwitchIdx(number as u32);
            let filler = Filler::new(&plan, *switch);
            if is_new || ends.contains(switch.index()) {
                return differences(number, before, filler.table(&mut fill::scratch()));
            }
            let mut entries = filler.entries(&touched[switch.index()], &gathered);
            entries.extend(goes.iter().map(|&lid| (lid, NO_PATH)));
            entries.sort_unstable();
            entries
                .into_iter()
                .map(|(lid, after)| Change {
                    switch: number,
                    lid,
                    before: before.entry(lid),
                    after,
                })
                .filter(|change| change.before != change.after)
                .collect()
        })
        .collect();
    let state = State {
        known: known.clone(),
        present: topology.id().clone(),
        live: live.clone(),
        order: earlier.order.clone(),
        apexes: earlier.apexes.clone(),
        connect_roots: earlier.connect_roots,
        neighbours: earlier.neighbours.clone(),
        up_turns: earlier.up_turns.clone(),
        lids,
        numbering: earlier.numbering.clone(),
        turns: earlier.turns.clone(),
        own: earlier.own.clone(),
        tiles,
        intact: earlier.intact.clone(),
        tables: Tables::default(),
        categories: earlier.categories.clone(),
        numbers: earlier.numbers.clone(),
        parts: topology.components().len(),
        reason: earlier.reason.clone(),
        relieved: earlier.relieved,
        detours: Arc::new(detours),
    };
    Ok(Replan {
        before: here.into_iter().map(|(_, before)| before).collect(),
        changes: changes.into_iter().flatten().collect(),
        ranking: Ranking {
            follows: state.detours.followed(known, &earlier.order),
            prepared: Prepared::default(),
            ..ranking.clone()
        },
        state,
    })
}

fn differences(switch: SwitchIdx, before: &Lft, after: &[u8]) -> Vec<Change> {
    // Beyond the end of `after` there is no path.
    let last = after
        .len()
        .max(before.top().map_or(0, |top| top.index() + 1));
    let mut changes = Vec::new();
    for block in 0..last.div_ceil(BLOCK_LIDS) {
        let first = block * BLOCK_LIDS;
        let after = &after[first.min(after.len())..(first + BLOCK_LIDS).min(after.len())];
        let before = before.block(block);
        if before[..] == *after {
            continue;
        }
        let after = after.iter().copied().chain(std::iter::repeat(NO_PATH));
        for (offset, (&before, after)) in before.iter().zip(after).enumerate() {
            if before != after {
                changes.push(Change {
                    switch,
                    // Tables are indexed by LID.
                    lid: Lid((first + offset) as u16),
                    before,
                    after,
                });
            }
        }
    }
    changes
}
