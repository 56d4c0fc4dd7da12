//! Finds the least-cost ways of a switch.

use std::collections::HashMap;

use super::super::super::paths::{NEVER, Row, Rows, TILE, Tile, UNREACHED, nearer};
use super::{FabricState, Filler};
use crate::digest::digest;
use crate::topology::SwitchIdx;

/// The number of ways in one byte of a set.
const BYTE_WAYS: usize = u8::BITS as usize;

/// The number of ways in one word of a set.
const WORD_WAYS: usize = u64::BITS as usize;

/// An upper bound of the number of ways of a switch, which has at most 254 ports.
const MAX_WAYS: usize = 256;

/// A set of ways, one bit for each.
pub(super) type Key = [u64; MAX_WAYS / WORD_WAYS];

/// The least-cost ways of a switch towards each column of a tile, one bit for each way.
pub(super) struct Keys {
    /// The bits by way and column: a row for each eight ways, with a byte for each column.
    rows: Vec<Row>,
    /// For each column, 0 if its ways equal those of the previous column.
    changes: Row,
    /// The ways of the current switch, grouped by neighbours with equal costs.
    equal_ways: Vec<EqualWays>,
}

/// Ways whose neighbours have equal costs.
struct EqualWays {
    is_above: bool,
    /// The cost of each of these ways, in hops.
    hops: u8,
    /// One of the neighbours.
    neighbour: usize,
    /// The set of these ways, one bit for each.
    ways: [u8; MAX_WAYS / BYTE_WAYS],
}

/// The switches that have equal rows of costs in a tile.
pub(super) struct SameRows {
    /// For each switch, the first switch with an equal row of costs down.
    down: Vec<u32>,
    /// For each switch, the first switch with an equal row of costs as taken.
    taken: Vec<u32>,
}

impl SameRows {
    pub(super) fn of(tile: &Tile) -> SameRows {
        SameRows {
            down: first_of_same(&tile.down),
            taken: first_of_same(&tile.taken),
        }
    }
}

/// For each row, the index of the first equal row; rows whose digests collide count as different.
fn first_of_same(rows: &Rows) -> Vec<u32> {
    let mut known: HashMap<u64, u32> = HashMap::new();
    let first = |(switch, row): (usize, &Row)| {
        // There are fewer switches than LIDs.
        let own = switch as u32;
        let first = *known.entry(digest(row)).or_insert(own);
        if rows[first as usize] == *row {
            first
        } else {
            own
        }
    };
    rows.iter().enumerate().map(first).collect()
}

impl Keys {
    pub(super) fn new(ways: usize) -> Keys {
        Keys {
            rows: vec![[0; TILE]; ways.div_ceil(BYTE_WAYS)],
            changes: [0; TILE],
            equal_ways: Vec::with_capacity(ways),
        }
    }

    /// Finds the least-cost ways towards each column of a tile. If `same` is given, neighbours with
    /// equal rows are read once.
    pub(super) fn set(
        &mut self,
        filler: &Filler<'_>,
        tile: &Tile,
        same: Option<&SameRows>,
        state: FabricState,
    ) {
        let next = next_costs(tile, filler.switch);
        self.group(filler, same, state);
        for key in &mut self.rows {
            *key = [0; TILE];
        }
        for equal_ways in &self.equal_ways {
            let weighted =
                (equal_ways.hops > 1).then(|| farther_costs(tile, filler.switch, equal_ways.hops));
            let (down, up) = weighted.as_ref().unwrap_or(&next);
            let (row, next) = if equal_ways.is_above {
                (&tile.taken[equal_ways.neighbour], up)
            } else {
                (&tile.down[equal_ways.neighbour], down)
            };
            for (&mask, key) in equal_ways.ways.iter().zip(&mut self.rows) {
                if mask != 0 {
                    for column in 0..TILE {
                        key[column] |= if row[column] == next[column] { mask } else { 0 };
                    }
                }
            }
        }
        self.changes = [0; TILE];
        for key in &self.rows {
            for column in 1..TILE {
                self.changes[column] |= key[column] ^ key[column - 1];
            }
        }
    }

    /// Groups the ways of a switch by neighbours with equal costs.
    fn group(&mut self, filler: &Filler<'_>, same: Option<&SameRows>, state: FabricState) {
        self.equal_ways.clear();
        for (number, way) in filler.ways.iter().enumerate() {
            let (is_present, is_above) = way.presence_and_direction(state);
            if !is_present {
                continue;
            }
            let neighbour = match same {
                Some(same) if is_above => same.taken[way.neighbour] as usize,
                Some(same) => same.down[way.neighbour] as usize,
                None => way.neighbour,
            };
            let is_same = |equal_ways: &EqualWays| {
                (equal_ways.is_above, equal_ways.neighbour, equal_ways.hops)
                    == (is_above, neighbour, way.hops)
            };
            // Ways to neighbours of one kind are usually adjacent.
            let known = self
                .equal_ways
                .iter()
                .rposition(is_same)
                .unwrap_or_else(|| {
                    self.equal_ways.push(EqualWays {
                        is_above,
                        hops: way.hops,
                        neighbour,
                        ways: [0; MAX_WAYS / BYTE_WAYS],
                    });
                    self.equal_ways.len() - 1
                });
            self.equal_ways[known].ways[number / BYTE_WAYS] |= 1 << (number % BYTE_WAYS);
        }
    }

    /// The least-cost ways towards a column.
    pub(super) fn column(&self, column: usize) -> Key {
        let mut key = Key::default();
        for (number, row) in self.rows.iter().enumerate() {
            let way = number * BYTE_WAYS;
            key[way / WORD_WAYS] |= u64::from(row[column]) << (way % WORD_WAYS);
        }
        key
    }

    /// For each column, nonzero if it is the first or its ways differ from those of the previous
    /// column. The switch's `own` column, to which no way leads, joins the previous column.
    pub(super) fn starts(&self, own: Option<usize>) -> Row {
        let mut starts = self.changes;
        starts[0] = 1;
        if let Some(own) = own {
            starts[own] = 0;
            if let Some(after) = starts.get_mut(own + 1) {
                let is_same =
                    |before: usize| self.rows.iter().all(|key| key[before] == key[own + 1]);
                *after = u8::from(!own.checked_sub(1).is_some_and(is_same));
            }
        }
        starts
    }
}

/// The columns whose value is nonzero.
pub(super) fn nonzero(row: &Row) -> impl Iterator<Item = usize> + '_ {
    const WORD: usize = size_of::<u64>();
    let (words, _) = row.as_chunks::<WORD>();
    let words = words
        .iter()
        .enumerate()
        .filter(|(_, word)| **word != [0; WORD]);
    words.flat_map(|(number, word)| {
        let columns = word.iter().enumerate().filter(|(_, column)| **column != 0);
        columns.map(move |(place, _)| number * WORD + place)
    })
}

/// The numbers of the ways that a key represents.
pub(super) fn ways(key: &Key) -> Vec<usize> {
    let count: u32 = key.iter().map(|word| word.count_ones()).sum();
    let mut ways = Vec::with_capacity(count as usize);
    for (number, &word) in key.iter().enumerate() {
        let mut bits = word;
        while bits != 0 {
            ways.push(number * WORD_WAYS + bits.trailing_zeros() as usize);
            bits &= bits - 1;
        }
    }
    ways
}

/// For each column, the cost that the next switch must have: on a path down, and on a path up.
fn next_costs(tile: &Tile, switch: SwitchIdx) -> (Row, Row) {
    let (mut down, mut up) = ([NEVER; TILE], [NEVER; TILE]);
    let (own, taken) = (&tile.down[switch.index()], &tile.taken[switch.index()]);
    // A cost of 0 and an unreached column have no next switch: one less than either is above all
    // costs. The computation has no branch, because it runs for every switch and tile.
    let one_less = |cost: u8| cost.wrapping_sub(1).min(NEVER);
    for column in 0..TILE {
        down[column] = one_less(own[column]);
        let goes_up = if own[column] == UNREACHED { 0 } else { NEVER };
        up[column] = one_less(taken[column]).max(goes_up);
    }
    (down, up)
}

/// For each column, the cost that the next switch must have after a hop that costs `hops`: on a
/// path down, and on a path up.
fn farther_costs(tile: &Tile, switch: SwitchIdx, hops: u8) -> (Row, Row) {
    let (mut down, mut up) = ([NEVER; TILE], [NEVER; TILE]);
    let (own, taken) = (&tile.down[switch.index()], &tile.taken[switch.index()]);
    for column in 0..TILE {
        down[column] = nearer(own[column], hops);
        if own[column] == UNREACHED {
            up[column] = nearer(taken[column], hops);
        }
    }
    (down, up)
}
