//! The shape of a fabric, recognised from its graph alone, with its faults.

mod grid;
mod groups;
mod layout;

pub use grid::{Coordinates, NoGrid, RowCables};
pub use groups::{Groups, NoGroups};
pub use layout::{LayoutDimension, LayoutMisfit, LayoutSeed, SeedLink, TorusLayout};
