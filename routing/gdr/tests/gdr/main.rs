//! Tests of hints for whole fleets: generated fleets, and samples of real machines.

mod bounds;
mod by_name;
mod cases;
mod faults;
mod fleet;
mod host_order;
mod import;
mod join;
mod merge;
mod meshes;
mod names;
mod nvlink;
mod processes;
mod render;
mod roles_unclear;
mod samples;
mod schedulers;
mod table;
mod tiers;
mod unlike;
mod variants;
mod versions;
mod why;
