//! Asks devices and writes to them.
//!
//! In: a plan, the policies of sweeps and pushes, and the answers of devices. Out: datagrams to
//! send, what the answers say, recorded in the [`Hardware`](rsm_model::Hardware), and findings
//! about devices that answer wrongly or not at all.
//!
//! Three machines without I/O follow each other:
//!
//! ```text
//! [`sweep`]  asks: nodes, ports, tables, until each question is answered or has run out of tries
//! [`diff`]   compares the hardware with the plan: the only place that decides which Sets are needed
//! [`push`]   sends these Sets, in the order that keeps the fabric free of loops, and reads back
//! ```
//!
//! Nothing here chooses a route or a LID, reads a clock, or opens a socket.
//!
//! Invariants: a Set goes out only for a difference that [`diff`] found; an image changes only by a
//! confirmed answer; what a device refused twice is a finding and not a third try.

pub mod diff;
pub mod link_step;
pub mod push;
pub mod sweep;
