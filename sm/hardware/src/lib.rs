//! Reads the state of devices, and writes the plan to them.
//!
//! Input: a plan, the policies of sweeps and pushes, and the answers of devices. Output: datagrams
//! to send, the answers recorded in the [`Hardware`](rsm_model::Hardware), and findings about
//! devices that answer wrongly or not at all.
//!
//! Three steps without I/O follow each other:
//!
//! ```text
//! [`sweep`]  reads nodes, ports and tables, until each query is answered or has no attempts left
//! [`diff`]   compares the hardware with the plan; no other code decides which Sets are needed
//! [`push`]   sends these Sets, in the order that keeps the fabric free of loops, and reads back
//! ```
//!
//! The crate must never choose a route or a LID, read a clock, or open a socket.
//!
//! Invariants: a Set is sent only for a difference that [`diff`] found; an image changes only by a
//! confirmed answer; a device that refuses twice gets a finding, and no third attempt.

pub mod diff;
pub mod link_step;
pub mod push;
pub mod sweep;
