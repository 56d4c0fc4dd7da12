//! Programs of a subnet manager for InfiniBand: the daemon and its command line.
//!
//! The crates form one pipeline; each stage is a crate, and each crate is below the next:
//!
//! ```text
//! rsm-model     what the hardware holds      rsm-store    what survives a restart
//! rsm-config    what the operator wants
//! rsm-plan      job ─▶ plan and its proof
//! rsm-hardware  sweep, difference, push      rsm-monitor  counters, health, congestion
//! rsm-state     what readers see
//! rsm-core      events ─▶ effects            rsm-sa       hosts' requests ─▶ answers
//! rsm-view      state ─▶ API, history, dumps
//! ```
//!
//! All code that uses a clock, a socket, a thread or a file is here, in [`daemon`]; the crates
//! below decide and never wait. [`cli`] is the command line, [`migrate`] reads OpenSM's files,
//! [`offline`] reads and generates fabrics without hardware.

pub mod cli;
pub mod daemon;
pub mod migrate;
pub mod offline;
