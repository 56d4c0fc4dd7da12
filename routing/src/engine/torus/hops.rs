//! The next hop of a packet in a grid.

use rayon::prelude::*;

use crate::engine::columns::{Column, NO_GROUP};
use crate::engine::shape::Coordinates;
use crate::topology::{SwitchIdx, Topology};

/// A grid with its switches by number.
pub(super) struct Grid<'a> {
    topology: &'a Topology,
    coordinates: &'a Coordinates,
    places: Vec<Vec<u16>>,
    /// The port group for each switch, dimension and direction (0 up, 1 down).
    groups: Vec<u8>,
    /// For each switch, dimension and direction, the number of hops until the row is broken; the
    /// length of the ring if it is intact.
    runs: Vec<u16>,
    /// For each dimension, the bit of the service level which says that the dateline is crossed.
    level_bits: Vec<Option<u8>>,
}

/// The columns of a grid.
pub(super) struct Found {
    /// One column for each destination.
    pub(super) columns: Vec<Vec<Column>>,
    /// The number of entries that differ from those of the intact fabric.
    pub(super) around_faults: usize,
    /// A pair without a path, if there is one.
    pub(super) cut_off: Option<(SwitchIdx, SwitchIdx)>,
}

const UP: usize = 0;
const DOWN: usize = 1;

impl<'a> Grid<'a> {
    pub(super) fn new(topology: &'a Topology, coordinates: &'a Coordinates) -> Grid<'a> {
        let places = coordinates.by_switch(topology);
        let dimensions = coordinates.sizes.len();
        let mut grid = Grid {
            topology,
            coordinates,
            groups: vec![NO_GROUP; places.len() * dimensions * 2],
            runs: vec![0; places.len() * dimensions * 2],
            places,
            level_bits: coordinates.level_bits(),
        };
        let mut next = vec![None; grid.groups.len()];
        for switch in topology.indices() {
            for (number, group) in topology.groups(switch).enumerate() {
                if let Some((dimension, is_up)) = grid.step(switch, group.neighbour) {
                    let way = grid.way(switch, dimension, if is_up { UP } else { DOWN });
                    // A switch has at most 254 groups.
                    grid.groups[way] = number as u8;
                    next[way] = Some(group.neighbour);
                }
            }
        }
        grid.find_runs(&next);
        grid
    }

    /// Finds how far each row leads in both directions.
    fn find_runs(&mut self, next: &[Option<SwitchIdx>]) {
        for switch in self.topology.indices() {
            for dimension in 0..self.dimensions() {
                for direction in [UP, DOWN] {
                    let start = self.way(switch, dimension, direction);
                    let mut run = 0;
                    let mut at = switch;
                    while run < self.coordinates.sizes[dimension] {
                        match next[self.way(at, dimension, direction)] {
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

    fn way(&self, switch: SwitchIdx, dimension: usize, direction: usize) -> usize {
        (switch.index() * self.dimensions() + dimension) * 2 + direction
    }

    fn step(&self, from: SwitchIdx, to: SwitchIdx) -> Option<(usize, bool)> {
        let [from, to] = [from, to].map(|end| &self.places[end.index()]);
        self.coordinates.step(from, to)
    }

    pub(super) fn dimensions(&self) -> usize {
        self.coordinates.sizes.len()
    }

    pub(super) fn rings(&self) -> usize {
        self.level_bits.iter().flatten().count()
    }

    pub(super) fn level_bit(&self, dimension: usize) -> Option<u8> {
        self.level_bits[dimension]
    }

    /// The dimension in which two neighbours differ.
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

    /// The shorter direction in a dimension. If both are equally long, the lower of the two
    /// positions decides, so that both directions carry about the same load. The way back is then
    /// the same path, because answers have the service level of their request.
    fn direction(&self, from: SwitchIdx, to: SwitchIdx, dimension: usize) -> usize {
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

    /// The hops from one position to another in a dimension; [`u16::MAX`] if the row ends before.
    fn hops(&self, from: u16, to: u16, dimension: usize, direction: usize) -> u16 {
        let size = self.coordinates.sizes[dimension];
        let (low, high) = if direction == UP {
            (from, to)
        } else {
            (to, from)
        };
        if low <= high {
            high - low
        } else if self.coordinates.wraps[dimension] {
            size - (low - high)
        } else {
            u16::MAX
        }
    }

    /// The group that leads from one switch towards another, and whether it differs from the intact
    /// fabric; `None` if there is no path.
    fn next(&self, from: SwitchIdx, to: SwitchIdx) -> Option<(u8, bool)> {
        let [a, b] = [from, to].map(|end| &self.places[end.index()]);
        let mut dimensions =
            (0..self.dimensions()).filter(|&dimension| a[dimension] != b[dimension]);
        let first = dimensions.next()?;
        let wanted = self.direction(from, to, first);
        for direction in [wanted, UP + DOWN - wanted] {
            let hops = self.hops(a[first], b[first], first, direction);
            let way = self.way(from, first, direction);
            if hops <= self.runs[way] {
                return Some((self.groups[way], direction != wanted));
            }
        }
        // The packet continues until it is next to the missing corner: only the neighbours of the
        // corner turn, so that there are as few turns back as possible.
        let way = self.way(from, first, wanted);
        if self.runs[way] > 0 {
            return Some((self.groups[way], true));
        }
        dimensions.find_map(|later| {
            let way = self.way(from, later, self.direction(from, to, later));
            Some((self.groups[way], true)).filter(|&(group, _)| group != NO_GROUP)
        })
    }

    pub(super) fn columns(&self) -> Found {
        let found: Vec<(Column, usize, Option<SwitchIdx>)> = (0..self.topology.switch_count()
            as u32)
            .into_par_iter()
            .map(|to| self.column(SwitchIdx(to)))
            .collect();
        let mut all = Found {
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

    fn column(&self, to: SwitchIdx) -> (Column, usize, Option<SwitchIdx>) {
        let mut column = vec![NO_GROUP; self.topology.switch_count()];
        let mut around_faults = 0;
        let mut cut_off = None;
        // Switches that no cables connect are no fault.
        let part = &self.topology.components()[self.topology.component_of(to)];
        for from in part.switches.iter().copied().filter(|&from| from != to) {
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
