//! Which ways of a switch cost least.

use super::super::super::paths::{NEVER, Row, TILE, Tile, UNREACHED};
use super::{Filler, When};
use crate::topology::SwitchIdx;

/// How many ways one byte stands for.
const BYTE_WAYS: usize = u8::BITS as usize;

const WORD_WAYS: usize = u64::BITS as usize;

/// Ways, one bit for each: a switch has at most 254 ports.
pub(super) type Key = [u64; 4];

/// Which ways of a switch cost least towards each column of a tile, one bit for each way.
pub(super) struct Keys {
    /// By eight ways: a byte for each column.
    rows: Vec<Row>,
    /// By column: 0 where it has the ways of the one before.
    changes: Row,
}

impl Keys {
    pub(super) fn new(ways: usize) -> Keys {
        Keys {
            rows: vec![[0; TILE]; ways.div_ceil(BYTE_WAYS)],
            changes: [0; TILE],
        }
    }

    /// The keys of a tile.
    pub(super) fn set(&mut self, filler: &Filler<'_>, tile: &Tile, when: When) {
        let (down, up) = next_costs(tile, filler.switch);
        for (ways, key) in filler.ways.chunks(BYTE_WAYS).zip(self.rows.iter_mut()) {
            *key = [0; TILE];
            for (bit, way) in ways.iter().enumerate() {
                let (is_there, is_above) = way.stands(when);
                if !is_there {
                    continue;
                }
                let (row, next) = if is_above {
                    (&tile.taken[way.neighbour], &up)
                } else {
                    (&tile.down[way.neighbour], &down)
                };
                let mask = 1u8 << bit;
                for column in 0..TILE {
                    key[column] |= if row[column] == next[column] { mask } else { 0 };
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

    pub(super) fn column(&self, column: usize) -> Key {
        let mut key = Key::default();
        for (number, row) in self.rows.iter().enumerate() {
            let way = number * BYTE_WAYS;
            key[way / WORD_WAYS] |= u64::from(row[column]) << (way % WORD_WAYS);
        }
        key
    }

    /// Whether a column, not the first one, has the same ways as the one before.
    pub(super) fn continues(&self, column: usize) -> bool {
        self.changes[column] == 0
    }
}

/// The ways that a key stands for.
pub(super) fn ways(key: &Key) -> Vec<usize> {
    let mut ways = Vec::new();
    for (number, &word) in key.iter().enumerate() {
        let mut bits = word;
        while bits != 0 {
            ways.push(number * WORD_WAYS + bits.trailing_zeros() as usize);
            bits &= bits - 1;
        }
    }
    ways
}

/// What the next switch must cost, by column: on the way down, and on the way up.
fn next_costs(tile: &Tile, switch: SwitchIdx) -> (Row, Row) {
    let (mut down, mut up) = ([NEVER; TILE], [NEVER; TILE]);
    let (own, taken) = (&tile.down[switch.index()], &tile.taken[switch.index()]);
    for column in 0..TILE {
        if own[column] != UNREACHED && own[column] != 0 {
            down[column] = own[column] - 1;
        }
        if own[column] == UNREACHED && taken[column] != UNREACHED {
            up[column] = taken[column] - 1;
        }
    }
    (down, up)
}
