//! The programs of a subnet manager for InfiniBand: the daemon and its command line.
//!
//! One pipeline, a crate for each stage, each below the next:
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
//! Whatever touches a clock, a socket, a thread or a file is here, in [`daemon`]; the crates below
//! decide and never wait. [`cli`] is the command line, [`migrate`] reads OpenSM's files,
//! [`offline`] reads and generates fabrics without hardware.

pub mod cli;
pub mod daemon;
pub mod migrate;
pub mod offline;
