//! The history of the subnet's events, on the disk.
//!
//! ```text
//! DIR/history/segment-NNNNNNNNNNNNNNNN.log   records one after the other; NNNN: the number of the first one, hexadecimal
//! DIR/history/acts.log                       operator actions from segments that are gone
//! ```
//!
//! Each record is a `frame` with its own checksum: a damaged record costs only itself, and reading
//! continues at the next whole frame. Records are events in the form of the API, and the state of
//! the subnet: the whole [state](state::State) at the beginning of a segment, then its changes.
//! Each segment can therefore be read, and removed, without the other segments.
//!
//! [`Archive`] appends records and enforces the bounds; [`Segments`] reads records, possibly on
//! other threads. The oldest segments are removed first; operator actions in removed segments are
//! kept. rsm manages the subnet without the history: it starts even if the history is damaged or
//! missing.

pub mod archive;
pub mod difference;
mod finding_numbers;
pub mod frame;
pub mod moments;
mod operator_actions;
pub mod recorder;
pub mod scan;
pub mod state;

pub use self::archive::{Archive, Bounds};
pub use self::recorder::{RecordedState, Recorder};
pub use self::scan::Segments;

#[cfg(test)]
mod tests;
