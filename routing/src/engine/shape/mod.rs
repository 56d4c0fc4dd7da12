//! Recognises the shape of a fabric (a torus, or groups of switches) from its graph alone, even if
//! cables or switches are missing.

mod grid;
mod groups;
mod layout;

pub use grid::{Coordinates, NoGrid, RowCables};
pub use groups::{Groups, NoGroups};
pub use layout::{LayoutDimension, LayoutMisfit, LayoutSeed, SeedLink, TorusLayout};
