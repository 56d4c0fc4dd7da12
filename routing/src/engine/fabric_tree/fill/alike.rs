//! Shares equal parts of tables, so that they are computed once for several switches.
//!
//! In a tree, all switches of a rank send most packets up, over the same ports in the same
//! rotation. Above the leaves, where hosts make no difference, whole tables are equal except for
//! the entry of the switch itself. Sharing never affects the result.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use rayon::prelude::*;

use super::super::super::paths::Tile;
use super::super::Plan;
use super::classes::Class;
use super::keys::SameRows;
use super::{FabricState, Run};
use crate::tables::{Lft, Pool};

/// The maximum number of rows to keep, of at most 48 KB each. Regular trees have one row for each
/// level; if ports are cabled in no order, hardly any two switches share a row.
const MAX_ROWS: usize = 64;

/// Entries by LID, keyed by the divider and the round-robin list of ports.
type Rows = HashMap<(u32, Vec<u8>), Arc<[u8]>>;

/// Parts of the tables that have been computed, for other tables to share.
#[derive(Default)]
pub(in super::super) struct Alike {
    pub(super) pool: Pool,
    /// The switches with equal costs in each tile; empty if few tables are computed.
    same: Vec<SameRows>,
    /// The switches with equal costs in the complete fabric, in each tile; empty if few tables are
    /// computed, or no part is missing.
    same_intact: Vec<SameRows>,
    rows: Mutex<Rows>,
    /// Tables without the entries of destinations at the switch itself, by shape.
    tables: Mutex<HashMap<Shape, Lft>>,
    /// For each switch, the columns to which it takes a detour; empty if few tables are computed.
    pub(super) detours: Vec<Vec<u32>>,
}

impl Alike {
    /// Prepares for the tables of many switches.
    pub(in super::super) fn of(plan: &Plan<'_>) -> Alike {
        let same = |tiles: &[Arc<Tile>]| tiles.par_iter().map(|tile| SameRows::of(tile)).collect();
        Alike {
            same: same(plan.tiles),
            same_intact: plan.intact_tiles.map(same).unwrap_or_default(),
            detours: plan.detours.columns_by_switch(plan.known.switch_count()),
            ..Alike::default()
        }
    }

    /// The switches with equal costs in a tile; `None` if few tables are computed.
    pub(super) fn same(&self, tile: usize, state: FabricState) -> Option<&SameRows> {
        match state {
            FabricState::Present => self.same.get(tile),
            FabricState::Complete => self.same_intact.get(tile),
        }
    }

    /// Fills `table` for this divider and this rotation of ports: from a kept row, or else with
    /// `make`.
    pub(super) fn row(
        &self,
        divider: u32,
        rotation: &[u8],
        table: &mut [u8],
        make: impl FnOnce(&mut [u8]),
    ) {
        let key = (divider, rotation.to_vec());
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

    /// Returns the table for this shape: that of another switch if there is one, else the result of
    /// `make`.
    pub(super) fn table(&self, shape: Shape, make: impl FnOnce() -> Lft) -> Lft {
        let known = self.tables.lock().get(&shape).cloned();
        known.unwrap_or_else(|| {
            let made = make();
            self.tables.lock().entry(shape).or_insert(made).clone()
        })
    }
}

/// All inputs that determine a switch's entries for destinations at other switches.
#[derive(PartialEq, Eq, Hash)]
pub(super) struct Shape {
    /// The end position of each run of columns, and its class.
    runs: Vec<(usize, usize)>,
    classes: Vec<CommonClass>,
}

/// A class whose ports do not depend on the switch.
#[derive(PartialEq, Eq, Hash)]
enum CommonClass {
    Nowhere,
    Port(u8),
    Rotation(u32, Vec<u8>),
}

impl Shape {
    /// The shape of a switch's table; `None` if a class lacks a port, because the ports in its
    /// place differ from switch to switch.
    pub(super) fn of(classes: &[Class], runs: &[Run]) -> Option<Shape> {
        let common = |class: &Class| match class {
            Class::Nowhere => Some(CommonClass::Nowhere),
            Class::Port(port) => Some(CommonClass::Port(*port)),
            Class::Mixed(class) => class
                .is_intact
                .then(|| CommonClass::Rotation(class.divider, class.base.clone())),
        };
        let joined = runs.chunk_by(|one, other| one.class == other.class);
        let last = joined.filter_map(<[Run]>::last);
        Some(Shape {
            classes: classes.iter().map(common).collect::<Option<_>>()?,
            runs: last.map(|run| (run.positions.end, run.class)).collect(),
        })
    }
}
