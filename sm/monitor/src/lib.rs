//! Monitoring in addition to the sweep: counters, the health of links, congestion control, and
//! error correction.
//!
//! Input: the published fabric, readings of counters, traps about links, the policies of
//! [`rsm_config`]. Output: datagrams of the general services, findings, and ports that routes
//! should avoid or that should be disabled; the core decides about such ports.
//!
//! Each part is a state machine without I/O: [`counters`] only reads, [`health`] sends nothing, and
//! [`congestion`] writes only the settings of its own class. [`correction`] computes whether links
//! will have more errors than forward error correction can correct.
//!
//! The crate must never know a plan, a forwarding table, or the role of this subnet manager.

mod agent_window;
pub mod congestion;
pub mod correction;
pub mod counters;
pub mod health;
