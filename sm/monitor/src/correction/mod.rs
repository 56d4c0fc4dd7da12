//! Forward error correction: how much a link's code can mend, and whether the errors of a port will
//! exceed it.
//!
//! In: the speed and the code of a link, and the symbols that it corrected hour by hour. Out: the
//! symbols a second that the code can mend, and a [`Rise`] that will reach them.

mod code;
mod rise;

pub use self::code::mendable_per_s;
pub use self::rise::{HORIZON, Hour, LASTS, Rise, WINDOW};
