//! Presents the subnet manager to readers: records of the API, history, dumps.
//!
//! Inputs are each [`Snapshot`](rsm_state::Snapshot) that the core publishes, the state of the SA,
//! and readings of counters. Outputs are answers of [`rsm_api`], commands to the core
//! ([`publish::Controller`]), files in OpenSM's formats ([`dump`]), and the records that
//! [`history`] keeps on disk.
//!
//! Nothing here changes the subnet, and no reader ever waits for it. A record shows what is true of
//! one snapshot as a whole; it never joins parts of two.

pub mod dump;
pub mod history;
pub mod publish;
