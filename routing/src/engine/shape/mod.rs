//! The shape of a fabric, recognised from its graph alone, with its faults.

mod grid;
mod groups;

pub use grid::{Coordinates, NoGrid};
pub use groups::{Groups, NoGroups};
