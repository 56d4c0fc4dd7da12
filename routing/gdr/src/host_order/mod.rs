//! The order of compute ports, which routes to them follow.
//!
//! Traffic of a job stays on its rails, and goes from one host to another: shifts, rings, trees. It
//! meets nowhere where hosts stand in the same order on every rail, and routes follow that order,
//! whatever ports of the leaves the cables end at. So every leaf has a rank, in the order of units
//! and rails, and a host the same place at each of its leaves: that of its cable, as far as hosts
//! are cabled alike.
//!
//! A host keeps its position, however many hosts come and go around it, so that routes stay; an
//! absent host loses its position when another host needs it.

mod blocks;
mod take;

pub use self::blocks::{Block, Blocks};
use super::fabric::GpuFabric;
pub use super::positions::{HostPosition, HostPositions, MAX_POSITIONS, PositionError};

impl HostPositions {
    /// These positions, and one for every port of `blocks`. A present port keeps its position
    /// unless its cable moved; numbers change where leaves need more places than they had.
    pub fn with(&self, blocks: &Blocks, fabric: &GpuFabric) -> HostPositions {
        take::take(self, blocks, fabric)
    }
}
