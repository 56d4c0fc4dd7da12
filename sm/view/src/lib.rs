//! Presents the subnet manager to readers: records of the API, history, dumps.
//!
//! Input: each [`Snapshot`](rsm_state::Snapshot) that the core publishes, the state of the SA, and
//! readings of counters. Output: answers of [`rsm_api`], commands to the core
//! ([`publish::Controller`]), files in OpenSM's formats ([`dump`]), and the records that
//! [`history`] keeps on disk.
//!
//! The crate never changes the subnet, and no reader ever waits for it. A record shows one
//! snapshot; it never combines parts of two snapshots.

pub mod dump;
pub mod history;
pub mod publish;
