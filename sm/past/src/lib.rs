//! The past of the counters: what each port counted in each step of time, on the disk.
//!
//! | tier | step | kept |
//! |---|---|---|
//! | [`Tier::Seconds`] | 10 seconds | 360 steps: an hour |
//! | [`Tier::Minutes`] | 1 minute | 1,440 steps: a day |
//! | [`Tier::Quarters`] | 15 minutes | 96 steps for each day of [`Bounds::days`] |
//!
//! A reading belongs, in each tier, to the step of its own time, and has everything that the port
//! counted since its reading before. So the sum over any steps is the sum of the readings in them,
//! and a port that was not read in a step is a gap there, not a zero.
//!
//! # What is stored
//!
//! Errors are exact, and stored where they moved; symbols that error correction mended, which move
//! everywhere, where so many are mended that a port is worth watching. Traffic moves at every port, and five exact
//! values of 1.1 billion steps (45,056 hosts, 30 days) would take 20 GB. They are rounded to six
//! significant bits, which is at most 1/64 up or down, and the exponent with its mantissa goes to
//! [pco], a compressor of columns of numbers: it needs as many bits as the values differ. General
//! compressors see no repetition in such columns, and formats of time series (Gorilla) compress one
//! series at a time, where the collector delivers a step of all ports at once.
//!
//! # Files
//!
//! A tier is a row of segments, a segment a row of [frames](frame): a roster of ports, then for
//! each step a head with the sums of the fabric, and chunks of 4,096 ports. A frame has a checksum
//! of its own, so that damage costs the frame that it is in. A damaged roster costs the
//! steps of its ports in that segment, a damaged head the step.
//!
//! Bounds count steps and bytes, never ages: a wrong clock removes nothing.

mod chunk;
#[cfg(test)]
mod cost;
pub mod frame;
mod gather;
mod head;
mod quantity;
mod query;
mod roster;
mod rounded;
mod segment;
mod store;
#[cfg(test)]
mod tests;
mod tier;

pub use gather::Reading;
pub use quantity::{Counts, Quantity};
pub use query::{
    CorrectedStep, Moved, MovedErrors, Part, Point, Series, Span, Trend, Trends, Wanted,
};
pub use store::{Bounds, Past, PastReader};
pub use tier::Tier;
