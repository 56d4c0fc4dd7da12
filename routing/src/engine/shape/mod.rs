//! What a fabric is: recognised from its graph alone, with what is broken in it.

mod grid;

pub use grid::{Coordinates, NoGrid};
