//! A subnet manager for InfiniBand.
//!
//! One pipeline, a folder for each stage: [`sweep`] reads the hardware into the [`model`],
//! [`fabric`] resolves its cables, [`plan`] decides the intended state, [`diff`] finds the
//! differences, [`push`] writes them. [`core`] takes events through the stages; everything that
//! touches a clock, a socket or a file is outside of it.

pub mod cli;
pub mod daemon;
pub mod migrate;
pub mod offline;
