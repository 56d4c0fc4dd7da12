//! The past of the counters: the counts of each port in each step of time, on the disk.
//!
//! | tier | step | kept |
//! |---|---|---|
//! | [`Tier::Seconds`] | 10 seconds | 360 steps: an hour |
//! | [`Tier::Minutes`] | 1 minute | 1,440 steps: a day |
//! | [`Tier::Quarters`] | 15 minutes | 96 steps for each day of [`Bounds::days`] |
//!
//! In each tier, a reading belongs to the step that contains its time, and consists of everything
//! that the port counted since its previous reading. The sum over several steps is therefore the
//! sum of the readings in them. A step without a reading of a port is a gap for that port, not a
//! zero.
//!
//! # Stored values
//!
//! Errors are exact, and stored only for ports where they occurred. Symbols are corrected at every
//! port; their counts are stored only for ports with many of them.
//!
//! Every port has traffic, and five exact values of 1.1 billion steps (45,056 hosts, 30 days) would
//! take 20 GB. Traffic is therefore rounded to six significant bits, with an error of at most 1/64.
//! Exponent and mantissa together form a code, and [pco], a compressor of columns of numbers,
//! stores only as many bits of the codes as differ. General compressors find no repetition in such
//! columns. Time series formats (Gorilla) compress one series at a time, whereas the collector
//! delivers a step of all ports at once.
//!
//! # Files
//!
//! A tier is a sequence of segments, and a segment is a sequence of [frames](frame): a table of
//! ports, then for each step a head with the sums of the fabric, and chunks of 4,096 ports. Each
//! frame has a checksum, so that damage is confined to a frame. If a port table is damaged, the
//! steps of its ports in that segment are lost; if a head is damaged, its step is lost.
//!
//! Bounds count steps and bytes, never ages: a wrong clock removes no data.

mod chunk;
#[cfg(test)]
mod cost;
pub mod frame;
mod head;
mod port_table;
mod quantity;
mod query;
mod rounded;
mod segment;
mod step_accumulator;
mod store;
#[cfg(test)]
mod tests;
mod tier;

pub use quantity::{Counts, Quantity};
pub use query::{
    CorrectedStep, Moved, MovedErrors, Part, Point, Series, Span, Trend, Trends, Wanted,
};
pub use step_accumulator::Reading;
pub use store::{Bounds, Past, PastReader};
pub use tier::Tier;
