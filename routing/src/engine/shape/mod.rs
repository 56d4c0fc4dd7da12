//! Recognises the shape of a fabric from its graph alone: meshes, tori and HyperX, and the groups
//! of a dragonfly+.

mod grid;
mod groups;
mod layout;

pub use grid::{Coordinates, NoGrid, RowCables};
pub use groups::{Groups, NoGroups};
pub use layout::{LayoutDimension, LayoutMisfit, LayoutSeed, SeedLink, TorusLayout};
