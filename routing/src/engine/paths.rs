//! Computes the costs of paths from every switch to every switch, in tiles of columns that fit a
//! cache.
//!
//! A column belongs to one destination switch; all LIDs of the switch share it. A row of a tile is
//! a fixed-size array of bytes, so that the passes over links compile to vector instructions.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::ops::{Index, IndexMut};
use std::sync::Arc;

use fixedbitset::FixedBitSet;
use rayon::prelude::*;

use crate::topology::{Order, SwitchIdx, Topology};

/// The number of columns in a tile. A tile of 4,000 switches is 1 MB: the size of a second-level
/// cache.
pub(super) const TILE: usize = 256;

/// The costs of one switch to the destinations of a tile.
pub(super) type Row = [u8; TILE];

/// The cost that means "no path".
pub(super) const UNREACHED: u8 = 255;

/// The maximum cost of a path that a row can represent, in hops between switches. No SM can
/// discover a longer path: directed routes end after 63 hops (IBA 14.2.1.2), which makes 126
/// between any two switches.
pub(super) const MAX_COST: u8 = 253;

/// A cost that no path has: the cost of the next switch if there is no next switch.
pub(super) const NEVER: u8 = MAX_COST + 1;

/// The costs from all switches to the destination switches of the columns `first..first + TILE`.
pub(super) struct Tile {
    /// The number of the first column.
    pub(super) first: usize,
    /// The weighted hops of the shortest path that only goes down; for engines without an order, of
    /// the shortest path.
    pub(super) down: Rows,
    /// The weighted hops of the path in use: `down` if there is one, else a path that first goes
    /// up. Empty for engines without an order.
    pub(super) taken: Rows,
}

/// The number of rows in a piece: the rows of a piece are adjacent in memory, and are copied
/// together if one of them changes while others share the piece.
const PIECE: usize = 32;

/// One row for each switch. A clone shares the rows; a change in either copy copies only the
/// changed piece.
#[derive(Clone, Default)]
pub(super) struct Rows {
    pieces: Vec<Arc<[Row; PIECE]>>,
    count: usize,
}

impl Rows {
    /// Creates rows in which no switch has a path.
    fn unreached(count: usize) -> Rows {
        let piece = Arc::new([[UNREACHED; TILE]; PIECE]);
        Rows {
            pieces: vec![piece; count.div_ceil(PIECE)],
            count,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Row> {
        let rows = self.pieces.iter().flat_map(|piece| piece.iter());
        rows.take(self.count)
    }
}

impl Index<usize> for Rows {
    type Output = Row;

    fn index(&self, switch: usize) -> &Row {
        &self.pieces[switch / PIECE][switch % PIECE]
    }
}

impl IndexMut<usize> for Rows {
    fn index_mut(&mut self, switch: usize) -> &mut Row {
        &mut Arc::make_mut(&mut self.pieces[switch / PIECE])[switch % PIECE]
    }
}

impl Tile {
    /// The number of columns that are destinations; the rest of a row is padding.
    pub(super) fn width(&self) -> usize {
        (self.down.len() - self.first).min(TILE)
    }

    /// The costs of the paths in use from `switch`.
    pub(super) fn cost(&self, switch: SwitchIdx) -> &Row {
        let rows = if self.taken.is_empty() {
            &self.down
        } else {
            &self.taken
        };
        &rows[switch.index()]
    }
}

/// Computes all tiles; the argument of `make` is the first column of a tile.
fn tiles(topology: &Topology, make: impl Fn(usize) -> Tile + Sync) -> Vec<Tile> {
    (0..topology.switch_count().div_ceil(TILE))
        .into_par_iter()
        .map(|tile| make(tile * TILE))
        .collect()
}

/// Rows with the cost 0 from each switch in `columns` to its own column, and no other path.
fn own_columns(switches: usize, columns: impl Iterator<Item = SwitchIdx>) -> Rows {
    let mut rows = Rows::unreached(switches);
    for (column, switch) in columns.take(TILE).enumerate() {
        rows[switch.index()][column] = 0;
    }
    rows
}

/// Lowers the costs in `row` to the costs through a neighbour that is `hops` away and has the costs
/// `by`.
fn lower(row: &mut Row, by: &Row, hops: u8) {
    for (cell, &other) in row.iter_mut().zip(by) {
        *cell = (*cell).min(farther(other, hops));
    }
}

/// The cost of a path that is `hops` longer; [`UNREACHED`] if that exceeds [`MAX_COST`].
pub(super) fn farther(cost: u8, hops: u8) -> u8 {
    if cost <= MAX_COST - hops {
        cost + hops
    } else {
        UNREACHED
    }
}

/// The cost that the next switch must have if a switch has the cost `own` and the hop costs `hops`;
/// [`NEVER`] if there is no next switch.
pub(super) fn nearer(own: u8, hops: u8) -> u8 {
    if own != UNREACHED && own >= hops {
        own - hops
    } else {
        NEVER
    }
}

/// Costs between all switches of a fabric.
pub(super) struct Costs {
    /// The destination switch of each column.
    pub(super) columns: Vec<SwitchIdx>,
    pub(super) neighbours: Neighbours,
    pub(super) tiles: Vec<Tile>,
}

impl Costs {
    /// The destination switches of a tile.
    pub(super) fn columns_of(&self, tile: &Tile) -> &[SwitchIdx] {
        &self.columns[tile.first..][..tile.width()]
    }
}

/// Computes the costs of up*/down* paths on the complete fabric: down if a path down exists, else
/// up to the cheapest neighbour. `columns` contains every switch once.
pub(super) fn up_down(topology: &Topology, order: &Order, columns: Vec<SwitchIdx>) -> Costs {
    let mut all_groups = FixedBitSet::with_capacity(topology.group_count());
    all_groups.insert_range(..);
    let neighbours = Neighbours::new(topology, order);
    let tiles = up_down_between(order, Ways::new(&neighbours, &all_groups), &columns);
    Costs {
        columns,
        neighbours,
        tiles,
    }
}

/// Computes costs as [`up_down`] does, over the neighbours that `ways` permits.
pub(super) fn up_down_between(order: &Order, ways: Ways<'_>, columns: &[SwitchIdx]) -> Vec<Tile> {
    (0..columns.len().div_ceil(TILE))
        .into_par_iter()
        .map(|number| tile(order, ways, columns, number * TILE))
        .collect()
}

/// Computes the tile that starts at `columns[first]`.
pub(super) fn tile(order: &Order, ways: Ways<'_>, columns: &[SwitchIdx], first: usize) -> Tile {
    let mut down = own_columns(columns.len(), columns[first..].iter().copied());
    for &switch in order.highest_first().iter().rev() {
        let mut row = down[switch.index()];
        for (below, hops) in ways.below(switch) {
            lower(&mut row, &down[below], hops);
        }
        down[switch.index()] = row;
    }
    let mut taken = down.clone();
    for &switch in order.highest_first() {
        let mut up = [UNREACHED; TILE];
        for (above, hops) in ways.above(switch) {
            lower(&mut up, &taken[above], hops);
        }
        let row = &mut taken[switch.index()];
        for (cell, &up) in row.iter_mut().zip(&up) {
            // The packet may have come to this switch because of its path down, so that path has to
            // be taken.
            *cell = if *cell == UNREACHED { up } else { *cell };
        }
    }
    Tile { first, down, taken }
}

/// Computes the costs of one switch from its neighbours, as rows of [`Tile::down`] and
/// [`Tile::taken`]. `own` is the switch's own column within the tile, if the tile contains it.
pub(super) fn row(
    switch: SwitchIdx,
    own: Option<usize>,
    ways: Ways<'_>,
    tile: &Tile,
) -> (Row, Row) {
    let mut row = [UNREACHED; TILE];
    if let Some(own) = own {
        row[own] = 0;
    }
    for (below, hops) in ways.below(switch) {
        lower(&mut row, &tile.down[below], hops);
    }
    let mut up = [UNREACHED; TILE];
    for (above, hops) in ways.above(switch) {
        lower(&mut up, &tile.taken[above], hops);
    }
    for (cell, &down) in up.iter_mut().zip(&row) {
        *cell = if down == UNREACHED { *cell } else { down };
    }
    (row, up)
}

/// Repairs one column of a tile, whose destination is `own`, after the ways of the switches `ends`
/// have changed; continues from switch to switch as long as costs change. Returns the switches
/// whose costs changed; a switch may occur twice.
pub(super) fn mend(
    order: &Order,
    ways: Ways<'_>,
    own: SwitchIdx,
    column: usize,
    ends: &FixedBitSet,
    tile: &mut Tile,
) -> Vec<SwitchIdx> {
    let mut updated = Vec::new();
    let place = |switch: usize| order.place(SwitchIdx(switch as u32));
    // A switch comes after all switches on which its cost depends: for costs down, the lowest comes
    // first.
    let mut waiting: BTreeSet<Reverse<usize>> =
        ends.ones().map(|end| Reverse(place(end))).collect();
    let mut changed: BTreeSet<usize> = ends.ones().map(place).collect();
    while let Some(Reverse(next)) = waiting.pop_first() {
        let switch = order.highest_first()[next];
        let costs = ways
            .below(switch)
            .map(|(below, hops)| farther(tile.down[below][column], hops));
        let least = if switch == own {
            0
        } else {
            costs.min().unwrap_or(UNREACHED)
        };
        if tile.down[switch.index()][column] != least {
            tile.down[switch.index()][column] = least;
            updated.push(switch);
            changed.insert(next);
            waiting.extend(ways.above(switch).map(|(above, _)| Reverse(place(above))));
        }
    }
    // For the costs of the paths taken, the highest switch comes first.
    while let Some(next) = changed.pop_first() {
        let switch = order.highest_first()[next];
        let down = tile.down[switch.index()][column];
        let least = if down == UNREACHED {
            let costs = ways
                .above(switch)
                .map(|(above, hops)| farther(tile.taken[above][column], hops));
            costs.min().unwrap_or(UNREACHED)
        } else {
            down
        };
        if tile.taken[switch.index()][column] != least {
            tile.taken[switch.index()][column] = least;
            updated.push(switch);
            changed.extend(ways.below(switch).map(|(below, _)| place(below)));
        }
    }
    updated
}

/// The neighbours above and below each switch, each with the port group that leads to it.
pub(super) struct Neighbours {
    /// The neighbours of switch `s`, as pairs of neighbour and port group, are
    /// `of[start[s]..start[s + 1]]`. The neighbours below it begin at `below[s]`.
    of: Vec<(u32, u32)>,
    start: Vec<u32>,
    below: Vec<u32>,
    /// The cost of each port group, in hops.
    hops: Vec<u8>,
}

impl Neighbours {
    pub(super) fn new(topology: &Topology, order: &Order) -> Neighbours {
        let mut neighbours = Neighbours {
            of: Vec::with_capacity(topology.group_count()),
            start: vec![0],
            below: Vec::with_capacity(topology.switch_count()),
            hops: Vec::with_capacity(topology.group_count()),
        };
        for switch in topology.indices() {
            let groups = topology.groups(switch);
            let hops = groups.map(|group| topology.hops(switch, group));
            neighbours.hops.extend(hops);
            for above in [true, false] {
                if !above {
                    neighbours.below.push(neighbours.of.len() as u32);
                }
                for group in topology.group_range(switch) {
                    let neighbour = topology.group(group).neighbour;
                    if order.is_above(neighbour, switch) == above {
                        neighbours.of.push((neighbour.0, group as u32));
                    }
                }
            }
            neighbours.start.push(neighbours.of.len() as u32);
        }
        neighbours
    }

    /// The cost of a port group, in hops.
    pub(super) fn hops(&self, group: u32) -> u8 {
        self.hops[group as usize]
    }

    /// The neighbours above a switch, each with its port group.
    pub(super) fn above(&self, switch: SwitchIdx) -> &[(u32, u32)] {
        &self.of[self.start[switch.index()] as usize..self.below[switch.index()] as usize]
    }

    /// The neighbours below a switch, each with its port group.
    pub(super) fn below(&self, switch: SwitchIdx) -> &[(u32, u32)] {
        &self.of[self.below[switch.index()] as usize..self.start[switch.index() + 1] as usize]
    }
}

/// The neighbours that packets can reach at present.
#[derive(Clone, Copy)]
pub(super) struct Ways<'a> {
    neighbours: &'a Neighbours,
    /// The port groups with a link that is present.
    live_groups: &'a FixedBitSet,
}

impl<'a> Ways<'a> {
    pub(super) fn new(neighbours: &'a Neighbours, live_groups: &'a FixedBitSet) -> Ways<'a> {
        Ways {
            neighbours,
            live_groups,
        }
    }

    /// The neighbours above a switch that packets can reach, as [`Ways::live`] returns them.
    fn above(self, switch: SwitchIdx) -> impl Iterator<Item = (usize, u8)> + 'a {
        self.live(self.neighbours.above(switch))
    }

    /// The neighbours below a switch that packets can reach, as [`Ways::live`] returns them.
    fn below(self, switch: SwitchIdx) -> impl Iterator<Item = (usize, u8)> + 'a {
        self.live(self.neighbours.below(switch))
    }

    /// The elements of `neighbours` that packets can reach, each with the cost of its port group in
    /// hops.
    fn live(self, neighbours: &'a [(u32, u32)]) -> impl Iterator<Item = (usize, u8)> + 'a {
        neighbours
            .iter()
            .filter(move |(_, group)| self.live_groups.contains(*group as usize))
            .map(move |&(neighbour, group)| (neighbour as usize, self.neighbours.hops(group)))
    }
}

/// Computes the costs of shortest paths.
pub(super) fn shortest(topology: &Topology) -> Vec<Tile> {
    if !topology.rules().hops.is_empty() {
        return cheapest(topology);
    }
    tiles(topology, |first| {
        let mut down = own_columns(topology.switch_count(), topology.indices().skip(first));
        let width = (down.len() - first).min(TILE);
        let mut seen = vec![false; down.len()];
        let mut queue = Vec::with_capacity(down.len());
        for column in 0..width {
            seen.fill(false);
            seen[first + column] = true;
            queue.clear();
            queue.push(SwitchIdx((first + column) as u32));
            let mut done = 0;
            while let Some(&switch) = queue.get(done) {
                done += 1;
                let next = farther(down[switch.index()][column], 1);
                for group in topology.groups(switch) {
                    let neighbour = group.neighbour.index();
                    if !seen[neighbour] {
                        seen[neighbour] = true;
                        down[neighbour][column] = next;
                        queue.push(group.neighbour);
                    }
                }
            }
        }
        Tile {
            first,
            down,
            taken: Rows::default(),
        }
    })
}

/// Computes the costs of shortest paths if some links cost several hops.
fn cheapest(topology: &Topology) -> Vec<Tile> {
    // For each switch, its neighbours, each with the cost in hops from that neighbour to the
    // switch.
    let hops_back = |switch: SwitchIdx, neighbour: SwitchIdx| {
        let group_back = topology
            .groups(neighbour)
            .find(|group| group.neighbour == switch);
        // Every link has two ends.
        group_back.map_or(1, |group| topology.hops(neighbour, group))
    };
    let of_switch = |switch: SwitchIdx| {
        let neighbours = topology.groups(switch).map(|group| group.neighbour);
        let hops = neighbours.map(|neighbour| (neighbour, hops_back(switch, neighbour)));
        hops.collect()
    };
    let neighbours: Vec<Vec<(SwitchIdx, u8)>> = topology.indices().map(of_switch).collect();
    tiles(topology, |first| {
        let mut down = own_columns(topology.switch_count(), topology.indices().skip(first));
        let width = (down.len() - first).min(TILE);
        let mut by_cost: Vec<Vec<SwitchIdx>> = vec![Vec::new(); usize::from(MAX_COST) + 1];
        for column in 0..width {
            by_cost[0].push(SwitchIdx((first + column) as u32));
            for cost in 0..=MAX_COST {
                while let Some(switch) = by_cost[usize::from(cost)].pop() {
                    if down[switch.index()][column] != cost {
                        // A cheaper path was found meanwhile.
                        continue;
                    }
                    for &(neighbour, hops) in &neighbours[switch.index()] {
                        let next = farther(cost, hops);
                        if next < down[neighbour.index()][column] {
                            down[neighbour.index()][column] = next;
                            by_cost[usize::from(next)].push(neighbour);
                        }
                    }
                }
            }
        }
        Tile {
            first,
            down,
            taken: Rows::default(),
        }
    })
}

/// A switch that has no path to some switch of its component, because the path would be longer than
/// [`MAX_COST`]; `None` if there is none. Only for engines that connect all pairs of a component.
pub(super) fn overlong(topology: &Topology, tiles: &[Tile]) -> Option<SwitchIdx> {
    topology.indices().find(|&switch| {
        let component = topology.component_of(switch);
        tiles.iter().any(|tile| {
            tile.cost(switch)[..tile.width()]
                .iter()
                .enumerate()
                .any(|(column, &cost)| {
                    let destination = SwitchIdx((tile.first + column) as u32);
                    cost == UNREACHED && topology.component_of(destination) == component
                })
        })
    })
}
