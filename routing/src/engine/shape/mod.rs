//! What a fabric is: recognised from its graph alone, with what is broken in it.

mod grid;
mod groups;

pub use grid::{Coordinates, NoGrid};
pub use groups::{Groups, NoGroups};
