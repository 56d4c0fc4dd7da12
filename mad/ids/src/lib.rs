//! Identifiers of an InfiniBand subnet, shared by every layer.
//!
//! These types have no behaviour beyond their range and text form, so that the routing library
//! (without MADs) and the MAD layer (without routing) use the same types.

mod gid;
mod guid;
mod lid;
mod link;
mod port;
mod rate;
mod unix_ms;

pub use gid::{Gid, ParseGidError};
pub use guid::{Guid, ParseGuidError};
pub use lid::{Lid, Lmc, LmcRangeError, ParseLidError};
pub use link::{LinkRate, LinkSpeed, LinkWidth, ParseLinkError};
pub use port::{PortKey, PortNum};
pub use rate::{RATES, rate_code};
pub use unix_ms::UnixMs;
