//! Hints for whole fleets: generated ones, and samples of real machines.

mod fleet;
mod import;
mod join;
mod render;
mod samples;
mod seats;
