//! The inventory of hosts that are files: a tree like /sys, a library like NVML, programs like the
//! drivers'.

#![allow(
    clippy::disallowed_methods,
    reason = "time-outs are tested by the clock"
)]

mod fake;
mod nvml;
mod sources;
mod sys;
