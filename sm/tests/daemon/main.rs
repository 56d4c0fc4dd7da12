//! Tests the daemon's parts that need a process, a disk or files.

mod dump_opensm;
mod failing_files;
mod gpu;
mod notify;
mod plan_command;
mod proof_by_changes;
mod service;
mod simulated_fabric;
