//! Finds the next hops of packets in a grid.

use rayon::prelude::*;

use crate::engine::columns::{Column, NO_GROUP};
use crate::engine::shape::{Coordinates, RowCables};
use crate::topology::{SwitchIdx, Topology};

/// A grid, by switch number.
pub(super) struct Grid<'a> {
    topology: &'a Topology,
    coordinates: &'a Coordinates,
    /// The coordinates of each switch.
    places: Vec<Vec<u16>>,
    /// For each dimension, the index of its first direction among the directions of all dimensions;
    /// one more element holds the number of all directions. A line or ring has two directions, up
    /// and down; a full row has one direction to each place.
    starts: Vec<usize>,
    /// The port group for each switch, dimension and direction, by [`Grid::direction_index`];
    /// [`NO_GROUP`] if there is none.
    groups: Vec<u8>,
    /// The neighbour for each switch, dimension and direction; `None` if there is none.
    neighbours: Vec<Option<SwitchIdx>>,
    /// For each switch, dimension and direction, the number of hops up to the end of the row or a
    /// break, or the length of an intact ring. In a full row, 1 if there is a neighbour.
    runs: Vec<u16>,
    /// For each dimension, the number of the bit of the service level that marks packets that cross
    /// the dateline; `None` without a dateline.
    level_bits: Vec<Option<u8>>,
}

/// The columns of a grid.
pub(super) struct GridColumns {
    /// One column for each destination.
    pub(super) columns: Vec<Vec<Column>>,
    /// The number of entries that differ from the entries in the intact fabric.
    pub(super) around_faults: usize,
    /// Two switches without a path between them; `None` if every pair has one.
    pub(super) cut_off: Option<(SwitchIdx, SwitchIdx)>,
}

const UP: usize = 0;
const DOWN: usize = 1;

impl<'a> Grid<'a> {
    pub(super) fn new(topology: &'a Topology, coordinates: &'a Coordinates) -> Grid<'a> {
        let places = coordinates.by_switch(topology);
        let mut starts = vec![0];
        let mut directions = 0;
        for (&size, row) in coordinates.sizes.iter().zip(&coordinates.rows) {
            directions += match row {
                RowCables::Line | RowCables::Ring => 2,
                RowCables::Full => usize::from(size),
            };
            starts.push(directions);
        }
        let slots = places.len() * directions;
        let mut grid = Grid {
            topology,
            coordinates,
            starts,
            groups: vec![NO_GROUP; slots],
            neighbours: vec![None; slots],
            runs: vec![0; slots],
            places,
            level_bits: coordinates.level_bits(),
        };
        for switch in topology.indices() {
            for (number, group) in topology.groups(switch).enumerate() {
                if let Some((dimension, is_up)) = grid.step(switch, group.neighbour) {
                    let direction = match coordinates.rows[dimension] {
                        RowCables::Full => grid.place(group.neighbour, dimension),
                        _ if is_up => UP,
                        _ => DOWN,
                    };
                    let direction_index = grid.direction_index(switch, dimension, direction);
                    // A switch has at most 254 groups.
                    grid.groups[direction_index] = number as u8;
                    grid.neighbours[direction_index] = Some(group.neighbour);
                }
            }
        }
        grid.find_runs();
        grid
    }

    /// Computes `runs`.
    fn find_runs(&mut self) {
        for switch in self.topology.indices() {
            for dimension in 0..self.dimensions() {
                let longest = match self.coordinates.rows[dimension] {
                    RowCables::Full => 1,
                    RowCables::Line | RowCables::Ring => self.coordinates.sizes[dimension],
                };
                for direction in self.directions(dimension) {
                    let start = self.direction_index(switch, dimension, direction);
                    let mut run = 0;
                    let mut at = switch;
                    while run < longest {
                        match self.neighbours[self.direction_index(at, dimension, direction)] {
                            Some(after) => at = after,
                            None => break,
                        }
                        run += 1;
                    }
                    self.runs[start] = run;
                }
            }
        }
    }

    /// The index of a direction of a switch in `groups`, `neighbours` and `runs`.
    fn direction_index(&self, switch: SwitchIdx, dimension: usize, direction: usize) -> usize {
        switch.index() * self.starts[self.dimensions()] + self.starts[dimension] + direction
    }

    /// The directions of a dimension.
    fn directions(&self, dimension: usize) -> std::ops::Range<usize> {
        0..self.starts[dimension + 1] - self.starts[dimension]
    }

    /// The place of a switch in its row of a dimension.
    fn place(&self, switch: SwitchIdx, dimension: usize) -> usize {
        usize::from(self.places[switch.index()][dimension])
    }

    /// The dimension in which two switches are neighbours, and whether the second is the next one;
    /// `None` if they are not neighbours.
    fn step(&self, from: SwitchIdx, to: SwitchIdx) -> Option<(usize, bool)> {
        let [from, to] = [from, to].map(|end| &self.places[end.index()]);
        self.coordinates.step(from, to)
    }

    pub(super) fn dimensions(&self) -> usize {
        self.coordinates.sizes.len()
    }

    /// The number of dimensions whose rows are rings.
    pub(super) fn rings(&self) -> usize {
        self.level_bits.iter().flatten().count()
    }

    /// The number of the service level bit of a dimension; `None` if its rows are no rings.
    pub(super) fn level_bit(&self, dimension: usize) -> Option<u8> {
        self.level_bits[dimension]
    }

    /// The dimension in which two neighbours differ; `None` if the switches are not neighbours.
    pub(super) fn dimension(&self, from: SwitchIdx, to: SwitchIdx) -> Option<usize> {
        self.step(from, to).map(|(dimension, _)| dimension)
    }

    /// The service level of a pair: one bit for each ring whose dateline, between its last and its
    /// first switch, lies on the path in the intact fabric.
    pub(super) fn level(&self, from: SwitchIdx, to: SwitchIdx) -> u8 {
        let [a, b] = [from, to].map(|end| &self.places[end.index()]);
        let mut level = 0;
        for (dimension, bit) in self.level_bits.iter().enumerate() {
            let (here, there) = (a[dimension], b[dimension]);
            let (Some(bit), true) = (bit, here != there) else {
                continue;
            };
            let crosses = match self.direction(from, to, dimension) {
                UP => here > there,
                _ => here < there,
            };
            level |= u8::from(crosses) << bit;
        }
        level
    }

    /// The shorter direction in a dimension; in a full row, the direction of the place itself. If
    /// both directions are equally long, the lower of the two positions decides, so that both carry
    /// about the same load. Packets and their answers then take the same links, as they must:
    /// answers have the service level of their request.
    fn direction(&self, from: SwitchIdx, to: SwitchIdx, dimension: usize) -> usize {
        if self.coordinates.rows[dimension] == RowCables::Full {
            return self.place(to, dimension);
        }
        let [a, b] = [from, to].map(|end| &self.places[end.index()]);
        let up = self.hops(a[dimension], b[dimension], dimension, UP);
        let down = self.hops(a[dimension], b[dimension], dimension, DOWN);
        match up.cmp(&down) {
            std::cmp::Ordering::Less => UP,
            std::cmp::Ordering::Greater => DOWN,
            std::cmp::Ordering::Equal => {
                let (here, there) = (a[dimension], b[dimension]);
                let crosses = here.min(there) % 2 == 1;
                // From the lower position, the direction up does not cross the dateline.
                if (here < there) == crosses { DOWN } else { UP }
            }
        }
    }

    /// The number of hops from one position to another in a dimension; [`u16::MAX`] if a line does
    /// not lead there in this direction.
    fn hops(&self, from: u16, to: u16, dimension: usize, direction: usize) -> u16 {
        let size = self.coordinates.sizes[dimension];
        if self.coordinates.rows[dimension] == RowCables::Full {
            return 1;
        }
        let (low, high) = if direction == UP {
            (from, to)
        } else {
            (to, from)
        };
        if low <= high {
            high - low
        } else if self.coordinates.rows[dimension] == RowCables::Ring {
            size - (low - high)
        } else {
            u16::MAX
        }
    }

    /// The port group that leads from one switch towards another, and whether the group differs
    /// from that in the intact fabric; `None` if there is no path.
    fn next(&self, from: SwitchIdx, to: SwitchIdx) -> Option<(u8, bool)> {
        let [a, b] = [from, to].map(|end| &self.places[end.index()]);
        let mut dimensions =
            (0..self.dimensions()).filter(|&dimension| a[dimension] != b[dimension]);
        let first = dimensions.next()?;
        let wanted = self.direction(from, to, first);
        let direction_index = self.direction_index(from, first, wanted);
        if self.hops(a[first], b[first], first, wanted) <= self.runs[direction_index] {
            return Some((self.groups[direction_index], false));
        }
        if let Some(direction) = self.other_direction(from, to, first, wanted) {
            return Some((
                self.groups[self.direction_index(from, first, direction)],
                true,
            ));
        }
        // The packet continues in the wanted direction up to the switch before the break. Only
        // there it turns to a later dimension, so that as few packets as possible turn back to an
        // earlier one.
        if self.runs[direction_index] > 0 {
            return Some((self.groups[direction_index], true));
        }
        dimensions.find_map(|later| {
            let direction_index =
                self.direction_index(from, later, self.direction(from, to, later));
            Some((self.groups[direction_index], true)).filter(|&(group, _)| group != NO_GROUP)
        })
    }

    /// The direction in which a packet reaches its place in a row if the wanted direction is
    /// broken: the opposite one or, in a full row, the direction to a third switch. The lowest
    /// third switch is taken, so that in most rows the detours around several broken cables close
    /// no cycle. `None` if no direction leads to the place.
    fn other_direction(
        &self,
        from: SwitchIdx,
        to: SwitchIdx,
        dimension: usize,
        wanted: usize,
    ) -> Option<usize> {
        let [here, there] = [from, to].map(|end| self.places[end.index()][dimension]);
        let leads = |&direction: &usize| {
            let direction_index = self.direction_index(from, dimension, direction);
            match self.coordinates.rows[dimension] {
                RowCables::Line | RowCables::Ring => {
                    self.hops(here, there, dimension, direction) <= self.runs[direction_index]
                }
                RowCables::Full => self.neighbours[direction_index].is_some_and(|third| {
                    self.neighbours[self.direction_index(third, dimension, usize::from(there))]
                        .is_some()
                }),
            }
        };
        let mut others = self.directions(dimension).filter(|&other| other != wanted);
        others.find(leads)
    }

    /// Computes the columns to all switches.
    pub(super) fn columns(&self) -> GridColumns {
        let found: Vec<(Column, usize, Option<SwitchIdx>)> = (0..self.topology.switch_count()
            as u32)
            .into_par_iter()
            .map(|to| self.column(SwitchIdx(to)))
            .collect();
        let mut all = GridColumns {
            columns: Vec::with_capacity(found.len()),
            around_faults: 0,
            cut_off: None,
        };
        for (to, (column, around_faults, cut_off)) in (0..).map(SwitchIdx).zip(found) {
            all.columns.push(vec![column]);
            all.around_faults += around_faults;
            all.cut_off = all.cut_off.or(cut_off.map(|from| (from, to)));
        }
        all
    }

    /// The column to a switch, the number of its entries around faults, and a switch of the
    /// component without a path to it.
    fn column(&self, to: SwitchIdx) -> (Column, usize, Option<SwitchIdx>) {
        let mut column = vec![NO_GROUP; self.topology.switch_count()];
        let mut around_faults = 0;
        let mut cut_off = None;
        // Only switches of the component need a path.
        let component = &self.topology.components()[self.topology.component_of(to)];
        for from in component
            .switches
            .iter()
            .copied()
            .filter(|&from| from != to)
        {
            match self.next(from, to) {
                Some((group, is_detour)) => {
                    column[from.index()] = group;
                    around_faults += usize::from(is_detour);
                }
                None => cut_off = cut_off.or(Some(from)),
            }
        }
        (column, around_faults, cut_off)
    }
}
