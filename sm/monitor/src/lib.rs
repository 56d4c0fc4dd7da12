//! Watches beside the sweep: counters, the health of links, congestion control.
//!
//! In: the published fabric, readings of counters, traps about links, the policies of
//! [`rsm_config`]. Out: datagrams of the general services, findings, and the ports that routes
//! should go around or that should be disabled; the core decides whether they do.
//!
//! Each part is a machine without I/O: [`counters`] reads and never writes, [`health`] sends
//! nothing, [`congestion`] writes the settings of its own class alone.
//!
//! Nothing here knows a plan, a forwarding table, or the role of this subnet manager.

pub mod congestion;
pub mod counters;
pub mod health;
