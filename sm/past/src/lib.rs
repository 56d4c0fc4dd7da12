//! The past of the counters: the counts of each port in each step of time, on the disk.
//!
//! | tier | step | kept |
//! |---|---|---|
//! | [`Tier::Seconds`] | 10 seconds | 360 steps: an hour |
//! | [`Tier::Minutes`] | 1 minute | 1,440 steps: a day |
//! | [`Tier::Quarters`] | 15 minutes | 96 steps for each day of [`Bounds::days`] |
//!
//! In each tier, a reading belongs to the step of its own time, and contains everything that the
//! port counted since its former reading. The sum over any steps is therefore the sum of the
//! readings in them, and a step without a reading of a port is a gap for that port, not a zero.
//!
//! # Stored values
//!
//! Errors are exact, and stored where they moved; symbols that error correction mended, which move
//! everywhere, where so many are mended that a port is worth watching. Traffic moves at every port,
//! and five exact values of 1.1 billion steps (45,056 hosts, 30 days) would take 20 GB. They are
//! rounded to six significant bits, an error of at most 1/64, and the exponent with its mantissa
//! goes to [pco], a compressor of columns of numbers, which uses as many bits as the values differ.
//! General compressors find no repetition in such columns, and time series formats (Gorilla)
//! compress one series at a time, whereas the collector delivers a step of all ports at once.
//!
//! # Files
//!
//! A tier is a sequence of segments, and a segment is a sequence of [frames](frame): a roster of
//! ports, then for each step a head with the sums of the fabric, and chunks of 4,096 ports. Each
//! frame has its own checksum, so that damage is confined to its frame. A damaged roster loses the
//! steps of its ports in that segment, a damaged head its step.
//!
//! Bounds count steps and bytes, never ages: a wrong clock removes no data.

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
