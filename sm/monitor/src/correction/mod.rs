//! Forward error correction: how many errors a link can correct, and whether the errors of a port
//! will exceed that limit.
//!
//! Input: the speed and the error-correcting code of a link, and the number of symbols corrected in
//! each hour. Output: the number of symbols per second that the code can correct, and a
//! [`CorrectionTrend`] if the errors grow towards that limit.

mod code;
mod trend;

pub use self::code::mendable_per_s;
pub use self::trend::{CorrectionTrend, HOLD_TIME, HORIZON, Hour, WINDOW};
