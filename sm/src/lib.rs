//! A subnet manager for InfiniBand.
//!
//! One pipeline, a folder for each stage: [`sweep`] reads the hardware into the [`model`],
//! [`fabric`] resolves its cables, [`plan`] decides the intended state, [`diff`] finds the
//! differences, [`push`] writes them. [`core`] takes events through the stages; everything that
//! touches a clock, a socket or a file is outside of it.

#[cfg(test)]
mod aggregated;
pub mod avoid;
pub mod cli;
pub mod congestion;
pub mod core;
pub mod counters;
pub mod daemon;
pub mod diff;
pub mod dump;
pub mod health;
pub mod history;
pub mod migrate;
pub mod offline;
pub mod plan;
pub mod publish;
pub mod push;
pub mod qos;
pub mod sa;
pub mod state;
pub mod sweep;
pub mod whatif;
mod witness;
