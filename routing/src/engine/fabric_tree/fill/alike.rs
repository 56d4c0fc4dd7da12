//! Equal parts of several switches' tables, computed once.
//!
//! In a tree all switches of a rank send most packets up, by the same turns over the same ports;
//! and above the leaves, where no hosts make a difference, whole tables are equal but for the entry
//! of the switch itself. None of this affects the result.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use rayon::prelude::*;

use super::super::super::paths::Tile;
use super::super::Plan;
use super::classes::Class;
use super::keys::SameRows;
use super::{Run, When};
use crate::tables::{Lft, Pool};

/// How many rows are kept, of 48 KB at most. Regular trees have one for each level; where ports are
/// cabled in no order, hardly two switches share one.
const MAX_ROWS: usize = 64;

/// Entries by LID, by the divider and the ports that take turns.
type Rows = HashMap<(u32, Vec<u8>), Arc<[u8]>>;

/// Tables under construction, and results kept from earlier ones.
#[derive(Default)]
pub(in super::super) struct Alike {
    pub(super) pool: Pool,
    /// By tile; empty where a comparison was not worth it.
    same: Vec<SameRows>,
    same_intact: Vec<SameRows>,
    rows: Mutex<Rows>,
    tables: Mutex<HashMap<Shape, Lft>>,
    /// By switch: the columns to which it takes a detour; empty where few tables are made.
    pub(super) detours: Vec<Vec<u32>>,
}

impl Alike {
    /// For the tables of many switches.
    pub(in super::super) fn of(plan: &Plan<'_>) -> Alike {
        let same = |tiles: &[Arc<Tile>]| tiles.par_iter().map(|tile| SameRows::of(tile)).collect();
        Alike {
            same: same(plan.tiles),
            same_intact: plan.intact_tiles.map(same).unwrap_or_default(),
            detours: plan.detours.columns_by_switch(plan.known.switch_count()),
            ..Alike::default()
        }
    }

    /// The equal rows of a tile.
    pub(super) fn same(&self, tile: usize, when: When) -> Option<&SameRows> {
        match when {
            When::Now => self.same.get(tile),
            When::Usually => self.same_intact.get(tile),
        }
    }

    /// Writes the output of `make` for this divider and these turns.
    pub(super) fn row(
        &self,
        divider: u32,
        turns: &[u8],
        table: &mut [u8],
        make: impl FnOnce(&mut [u8]),
    ) {
        let key = (divider, turns.to_vec());
        let known = self.rows.lock().get(&key).cloned();
        if let Some(row) = known {
            table.copy_from_slice(&row);
            return;
        }
        make(table);
        let mut rows = self.rows.lock();
        if rows.len() < MAX_ROWS {
            rows.entry(key).or_insert_with(|| Arc::from(&*table));
        }
    }

    /// The table that `make` makes for this shape.
    pub(super) fn table(&self, shape: Shape, make: impl FnOnce() -> Lft) -> Lft {
        let known = self.tables.lock().get(&shape).cloned();
        known.unwrap_or_else(|| {
            let made = make();
            self.tables.lock().entry(shape).or_insert(made).clone()
        })
    }
}

/// All inputs of the entries of a switch for destinations at other switches.
#[derive(PartialEq, Eq, Hash)]
pub(super) struct Shape {
    /// Where each run of columns ends, and the class that it is of.
    runs: Vec<(usize, usize)>,
    classes: Vec<Simple>,
}

/// A class whose ports do not depend on the switch.
#[derive(PartialEq, Eq, Hash)]
enum Simple {
    Nowhere,
    Port(u8),
    Turns(u32, Vec<u8>),
}

impl Shape {
    /// `None` where entries take detours, which differ at each switch.
    pub(super) fn of(classes: &[Class], runs: &[Run]) -> Option<Shape> {
        let simple = |class: &Class| match class {
            Class::Nowhere => Some(Simple::Nowhere),
            Class::Port(port) => Some(Simple::Port(*port)),
            Class::Mixed(class) => class
                .is_intact
                .then(|| Simple::Turns(class.divider, class.base.clone())),
        };
        let joined = runs.chunk_by(|one, other| one.class == other.class);
        let last = joined.filter_map(<[Run]>::last);
        Some(Shape {
            classes: classes.iter().map(simple).collect::<Option<_>>()?,
            runs: last.map(|run| (run.positions.end, run.class)).collect(),
        })
    }
}
