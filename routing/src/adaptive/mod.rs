//! Adaptive routing: a switch may send a packet to any port of a set, and chooses again for each
//! packet.
//!
//! In addition to its forwarding table, a switch with adaptive routing has numbered *groups* of
//! ports, and for each LID an entry with the number of a group. The switch sends a packet to the
//! port of the group with the shortest queue; packets that must stay in order take the port of the
//! forwarding table. This module holds these tables as desired state. [`plan`] computes them from a
//! topology and forwarding tables, with one group for each destination leaf, and
//! [`crate::verify::verify_sets`] proves any such tables.
//!
//! [`plan`] follows the up*/down* order of the routes. At a switch that has a path down to the
//! destination, every member of a group starts a shortest path down; at any other switch, every
//! member starts a shortest path up. Any sequence of members is therefore an up*/down* path with
//! the minimum number of hops.

mod blocks;
mod push;
mod text;

pub use crate::engine::groups::{AdaptiveError, AdaptivePlan, GroupIds, Request, plan};
pub use crate::tables::{AdaptiveTable, AdaptiveTables, NO_GROUP};
pub use blocks::{Blocks, ENTRIES_PER_BLOCK, GROUPS_PER_BLOCK, blocks_changed};
pub use push::{Meanwhile, Phase, PhaseKind, phases, proved_phases};
pub use text::write_text;
