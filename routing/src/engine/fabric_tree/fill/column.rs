//! Costs towards one destination switch.

use std::collections::HashMap;
use std::sync::Arc;

use rayon::prelude::*;

use super::super::super::paths::{Rows, TILE, Tile};
use super::super::Plan;

/// The costs of every switch towards one column.
pub(super) trait Costs {
    /// By way down.
    fn down(&self, switch: usize) -> u8;
    /// As it is taken.
    fn taken(&self, switch: usize) -> u8;
}

/// Where they are computed: next to those of other columns.
pub(super) struct InTile<'a> {
    pub(super) tile: &'a Tile,
    /// Within the tile.
    pub(super) column: usize,
}

impl Costs for InTile<'_> {
    fn down(&self, switch: usize) -> u8 {
        self.tile.down[switch][self.column]
    }

    fn taken(&self, switch: usize) -> u8 {
        self.tile.taken[switch][self.column]
    }
}

/// Next to each other, for as many looks as there are switches.
pub(super) struct Column {
    down: Vec<u8>,
    taken: Vec<u8>,
}

impl Column {
    fn of(tiles: &[Arc<Tile>], column: usize) -> Column {
        let tile = &tiles[column / TILE];
        let gather = |rows: &Rows| rows.iter().map(|row| row[column % TILE]).collect();
        Column {
            down: gather(&tile.down),
            taken: gather(&tile.taken),
        }
    }
}

impl Costs for Column {
    fn down(&self, switch: usize) -> u8 {
        self.down[switch]
    }

    fn taken(&self, switch: usize) -> u8 {
        self.taken[switch]
    }
}

/// Gathering a column is worth it when more than one switch in so many needs it: each has that many
/// neighbours, or more.
const ASKED_BY: usize = 16;

/// The columns that many switches need.
#[derive(Default)]
pub(in super::super) struct Gathered(HashMap<usize, (Column, Option<Column>)>);

impl Gathered {
    /// Of the columns that each switch needs.
    pub(in super::super) fn of(plan: &Plan<'_>, asked: &[Vec<u32>]) -> Gathered {
        let mut times = vec![0; plan.numbering.columns.len()];
        for &column in asked.iter().flatten() {
            times[column as usize] += 1;
        }
        let worth: Vec<usize> = (0..times.len())
            .filter(|&column| times[column] * ASKED_BY > asked.len())
            .collect();
        let gather = |column: usize| {
            let intact = plan.intact_tiles.map(|tiles| Column::of(tiles, column));
            (column, (Column::of(plan.tiles, column), intact))
        };
        let gathered: Vec<_> = worth.into_par_iter().map(gather).collect();
        Gathered(gathered.into_iter().collect())
    }

    /// The present costs, and those of the complete fabric where parts are missing.
    pub(super) fn get(&self, column: usize) -> Option<(&Column, Option<&Column>)> {
        let (now, intact) = self.0.get(&column)?;
        Some((now, intact.as_ref()))
    }
}
