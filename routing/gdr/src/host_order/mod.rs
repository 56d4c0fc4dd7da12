//! The order of compute ports, by which routes to them are spread.
//!
//! Traffic of a job stays on its rails, and goes from host to host: shifts, rings, trees. Flows
//! share no link if hosts have the same order on every rail and routes follow that order,
//! regardless of the leaf ports at which cables end. Every leaf therefore has a rank, in the order
//! of units and rails, and a host has the same place at each of its leaves: the place of its cable,
//! if hosts are cabled alike.
//!
//! A host keeps its position while other hosts leave and return, so that routes do not change. An
//! absent host loses its position when another host needs the position.

mod blocks;
mod take;

pub use self::blocks::{Block, Blocks};
use super::fabric::GpuFabric;
pub use super::positions::{HostPosition, HostPositions, MAX_POSITIONS, PositionError};

impl HostPositions {
    /// These positions, extended to every port of `blocks`. A present port keeps its position
    /// unless its cable has moved; numbers change if leaves need more places than before.
    pub fn with(&self, blocks: &Blocks, fabric: &GpuFabric) -> HostPositions {
        take::extend_positions(self, blocks, fabric)
    }
}
