//! Routing anew from what an earlier routing computed: only what changed is looked at.
//!
//! Columns of costs do not depend on each other, and within one the costs are the only ones in which every switch is one
//! hop further than its best neighbour. So a column changes only where that fails next to a link that has gone or come,
//! and one look at the ends of those links tells which columns are to be computed again. An entry changes only at such an
//! end, or where the costs around it did.

use std::sync::Arc;

use fixedbitset::FixedBitSet;
use rayon::prelude::*;
use rsm_ids::Lid;

use super::super::order::Order;
use super::super::paths::{self, Neighbours, TILE, Tile, Ways};
use super::super::{Options, Ranking, Routing};
use super::fill::{Filler, Scratch};
use super::live::Live;
use super::numbering::Numbering;
use super::turns::Turns;
use super::{Categories, Plan, lids, reaches_all};
use crate::lanes::Lanes;
use crate::tables::{Lft, NO_PATH, Tables};
use crate::topology::{SwitchIdx, Topology};
use crate::verify::Change;

/// What a routing leaves for the next.
pub(crate) struct State {
    pub(super) known: Arc<Topology>,
    pub(super) live: Live,
    pub(super) order: Arc<Order>,
    pub(super) neighbours: Arc<Neighbours>,
    pub(super) up_turns: Arc<Vec<Vec<u8>>>,
    /// By position.
    pub(super) lids: Arc<Vec<u16>>,
    pub(super) numbering: Arc<Numbering>,
    pub(super) turns: Arc<Turns>,
    pub(super) tiles: Vec<Arc<Tile>>,
    pub(super) intact: Vec<Arc<Tile>>,
    /// By the numbers of the topology that they were made for.
    pub(super) tables: Tables,
    pub(super) categories: Categories,
    pub(super) reason: String,
}

/// A state, as part of a ranking. It can be made again at any time, and makes no difference to what comes out.
#[derive(Clone, Default)]
pub struct Prepared(pub(crate) Option<Arc<State>>);

impl std::fmt::Debug for Prepared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() {
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
    /// The entries that differ, by switch and LID. A switch that was not there had no entries.
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// The routing, as it would have been computed from nothing.
    pub fn into_routing(self) -> Routing {
        let mut lfts = self.before;
        for of_switch in self
            .changes
            .chunk_by(|one, other| one.switch == other.switch)
        {
            let lft = &mut lfts[of_switch[0].switch.index()];
            for change in of_switch {
                lft.set_entry(change.lid, change.after);
            }
        }
        let mut state = self.state;
        state.tables = Tables { lfts };
        let here = state.live.switches.iter().zip(state.order.levels());
        Routing {
            lanes: Lanes::default(),
            coordinates: None,
            tables: state.tables.clone(),
            engine: "fabric-tree",
            reason: format!("fabric-tree: {}", state.reason),
            ranks: Some(
                here.filter(|(here, _)| here.is_some())
                    .map(|(_, &level)| level)
                    .collect(),
            ),
            ranking: Some(Ranking {
                prepared: Prepared(Some(Arc::new(state))),
                ..self.ranking
            }),
        }
    }
}

/// The routing of `topology` as the difference to that which `options` have the ranking of; `None` where there is none, or
/// where more has changed than links, switches and hosts that are known, or an order that reaches everything is to be found.
pub fn replan(topology: &Topology, options: &Options) -> Option<Replan> {
    let ranking = options.previous_ranking.as_ref()?;
    let earlier = ranking.prepared.0.as_deref()?;
    let known = &earlier.known;
    let mut roots = options.root_guids.clone();
    roots.sort_unstable();
    roots.dedup();
    if earlier.categories != options.categories || ranking.roots != roots {
        return None;
    }
    let live = Live::of(known, topology)?;
    let work = Work {
        earlier,
        known,
        live: &live,
    };
    let ends = work.ends();
    let ways = Ways::new(&earlier.neighbours, &live.groups);
    let changed = work.first_changes(ways, &ends);
    let mut tiles = earlier.tiles.clone();
    // By switch: the columns in which its entries may change.
    let mut touched: Vec<Vec<u32>> = vec![Vec::new(); known.switch_count()];
    for (number, columns) in changed.iter().enumerate() {
        if !columns.is_clear() {
            tiles[number] = Arc::new(work.again(number, columns, &ends, ways));
            work.touch(
                &earlier.tiles[number],
                &tiles[number],
                columns,
                &mut touched,
            );
        }
    }
    let comes_or_goes: Vec<usize> = (0..known.destinations().len())
        .filter(|&number| {
            live.destinations.contains(number) != earlier.live.destinations.contains(number)
        })
        .collect();
    let all = !comes_or_goes.is_empty();
    let to_check: Vec<&Tile> = (0..tiles.len())
        .filter(|&number| all || !changed[number].is_clear())
        .map(|number| &*tiles[number])
        .collect();
    if !reaches_all(topology, &live, &earlier.numbering, &to_check) {
        return None;
    }
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
    let plan = Plan {
        known,
        present: topology,
        live: &live,
        order: &earlier.order,
        usual_order: &earlier.order,
        numbering: &earlier.numbering,
        turns: &earlier.turns,
        lids: &lids,
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
    let gone: Vec<Lid> = comes_or_goes
        .iter()
        .flat_map(|&number| known.destinations()[number].lids())
        .filter(|&lid| topology.destination_of(lid).is_none())
        .collect();
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
                let mut scratch: Scratch = Box::new([0; 1 << 16]);
                return differences(number, before, filler.table(&mut scratch).as_slice());
            }
            let mut entries = filler.entries(&touched[switch.index()]);
            entries.extend(gone.iter().map(|&lid| (lid, NO_PATH)));
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
        live: live.clone(),
        order: earlier.order.clone(),
        neighbours: earlier.neighbours.clone(),
        up_turns: earlier.up_turns.clone(),
        lids,
        numbering: earlier.numbering.clone(),
        turns: earlier.turns.clone(),
        tiles,
        intact: earlier.intact.clone(),
        tables: Tables::default(),
        categories: earlier.categories.clone(),
        reason: earlier.reason.clone(),
    };
    Some(Replan {
        state,
        before: here.into_iter().map(|(_, before)| before).collect(),
        changes: changes.into_iter().flatten().collect(),
        ranking: Ranking {
            prepared: Prepared(None),
            ..ranking.clone()
        },
    })
}

fn differences(switch: SwitchIdx, before: &Lft, after: &[u8]) -> Vec<Change> {
    let lids = before.as_slice().len().max(after.len());
    (0..lids)
        .map(|lid| {
            // Tables are indexed by LID.
            let lid = Lid(lid as u16);
            Change {
                switch,
                lid,
                before: before.entry(lid),
                after: after.get(lid.index()).copied().unwrap_or(NO_PATH),
            }
        })
        .filter(|change| change.before != change.after)
        .collect()
}

struct Work<'a> {
    earlier: &'a State,
    known: &'a Topology,
    live: &'a Live,
}

impl Work<'_> {
    /// Switches at which a link or a destination has come or gone.
    fn ends(&self) -> FixedBitSet {
        let mut ends = FixedBitSet::with_capacity(self.known.switch_count());
        let mut links = self.live.links.clone();
        links.symmetric_difference_with(&self.earlier.live.links);
        let mut destinations = self.live.destinations.clone();
        destinations.symmetric_difference_with(&self.earlier.live.destinations);
        if !links.is_clear() {
            for switch in self.known.indices() {
                if links.contains_any_in_range(self.known.links_of(switch)) {
                    ends.insert(switch.index());
                }
            }
        }
        for number in destinations.ones() {
            ends.insert(self.known.destinations()[number].switch.index());
        }
        ends
    }

    /// By tile: the columns in which the cost of one of `ends` is not what its neighbours make it any more.
    fn first_changes(&self, ways: Ways<'_>, ends: &FixedBitSet) -> Vec<FixedBitSet> {
        let of_tile = |tile: &Arc<Tile>| {
            let mut columns = FixedBitSet::with_capacity(TILE);
            // What has gone leads nowhere, and whatever its costs are, nobody asks for them until it is back.
            let here = |end: &usize| self.live.switches[*end].is_some();
            for end in ends.ones().filter(here) {
                let switch = SwitchIdx(end as u32);
                let own = self.earlier.numbering.column_of[end] as usize;
                let own = own.checked_sub(tile.first).filter(|&own| own < TILE);
                let (down, taken) = paths::row(switch, own, ways, tile);
                let rows = down.iter().zip(&tile.down[end]);
                let rows = rows.zip(taken.iter().zip(&tile.taken[end]));
                for (column, ((down, was_down), (taken, was_taken))) in rows.enumerate() {
                    if down != was_down || taken != was_taken {
                        columns.insert(column);
                    }
                }
            }
            columns
        };
        self.earlier.tiles.par_iter().map(of_tile).collect()
    }

    /// A tile with some of its columns computed again.
    fn again(
        &self,
        number: usize,
        columns: &FixedBitSet,
        ends: &FixedBitSet,
        ways: Ways<'_>,
    ) -> Tile {
        let earlier = &self.earlier.tiles[number];
        let order = &self.earlier.order;
        let mut tile = Tile {
            first: earlier.first,
            down: earlier.down.clone(),
            taken: earlier.taken.clone(),
        };
        for column in columns.ones() {
            let own = self.earlier.numbering.columns[tile.first + column];
            paths::mend(order, ways, own, column, ends, &mut tile);
        }
        tile
    }

    /// Adds the columns of a tile to the switches whose costs differ in them, and to their neighbours.
    fn touch(&self, old: &Tile, new: &Tile, columns: &FixedBitSet, touched: &mut [Vec<u32>]) {
        for switch in self.known.indices() {
            let at = switch.index();
            for column in columns.ones() {
                if old.down[at][column] != new.down[at][column]
                    || old.taken[at][column] != new.taken[at][column]
                {
                    let number = (old.first + column) as u32;
                    touched[at].push(number);
                    for group in self.known.groups(switch) {
                        let columns = &mut touched[group.neighbour.index()];
                        if columns.last() != Some(&number) {
                            columns.push(number);
                        }
                    }
                }
            }
        }
    }
}
