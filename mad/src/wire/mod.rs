//! Management datagrams on the wire: views over bytes, never copies into other shapes.
//!
//! # Contract
//!
//! * **No panic.** For any 256 bytes, every view of them can be taken and every accessor of every
//!   view returns. Lengths in a datagram are clamped to its size.
//! * **No allocation.** Views borrow; text forms write into the caller's formatter.
//! * **Nothing is rejected, nothing is lost.** A value without a name here is kept unchanged, and
//!   a reserved bit survives a read-modify-write.
//! * **Setters stay inside their field.** A value wider than its field loses its upper bits rather
//!   than spilling into the neighbours.
//!
//! Views have alignment 1, so that they can be taken anywhere in a buffer; numbers are big-endian
//! on the wire and native in every signature. Byte 0 bit 7 (the most significant) is the first bit
//! sent, as in the figures of the InfiniBand Architecture Specification ("IBA" below).

pub mod attr;
mod bits;
mod codes;
pub mod congestion;
mod dissect;
pub mod fields;
pub mod header;
pub mod perf;
pub mod rmpp;
pub mod sa;
pub(crate) mod segment;
pub mod smp;
pub mod vendor;

use bits::bits;
pub use dissect::{Dissection, dissect};
pub use segment::segments;

/// The length of every management datagram in bytes (IBA 13.4.2).
pub const MAD_LEN: usize = 256;

/// The bytes of one management datagram.
pub type MadBytes = [u8; MAD_LEN];
