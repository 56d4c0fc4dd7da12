//! The inventory of hosts that are files: a tree like /sys, a library like NVML, programs like the
//! drivers'.

mod fake;
mod nvml;
mod sources;
mod sys;
