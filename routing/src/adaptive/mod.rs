//! Adaptive routing: sets of ports of which a switch may take any, at any time.
//!
//! A switch with adaptive routing has numbered *groups* of ports beside its forwarding table, and
//! an entry by LID that names one of them. It sends a packet to any port of the group, by its
//! queues; packets that must stay in order take the port of the forwarding table. This module has
//! these tables as desired state. [`plan`] makes them from a topology and forwarding tables, one
//! group for each destination leaf, and [`crate::verify::verify_sets`] proves any of them.
//!
//! [`plan`] keeps to the up*/down* order of the routes: from a switch with a way down, every
//! member of a group leads down by one of the shortest ways down; elsewhere up by one of the
//! shortest. So any sequence of members is an up*/down* path of as many hops as the shortest.

mod blocks;
mod push;
mod text;

pub use crate::engine::groups::{AdaptiveError, AdaptivePlan, GroupIds, Request, plan};
pub use crate::tables::{AdaptiveTable, AdaptiveTables, NO_GROUP};
pub use blocks::{Blocks, ENTRIES_PER_BLOCK, GROUPS_PER_BLOCK, blocks_changed};
pub use push::{Meanwhile, Phase, PhaseKind, phases, proved_phases};
pub use text::write_text;
