//! Tests of the probe on fake hosts: a folder in place of `/sys`, a library in place of NVML, and
//! scripts in place of the drivers' tools.

mod fake;
mod nvml;
mod sources;
mod sys;
