//! Performance management: its datagrams, and the counters of a port (IBA 16.1).
//!
//! A request names the port in PortSelect of its attribute, not in the attribute modifier. The
//! counters are a table, [`Counter::ALL`], so that agents and readers handle all counters in one
//! loop.

mod capability;
mod counter;
mod details;
mod port_counters;
mod speeds;

use std::fmt;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

pub use capability::{PerfCapabilityMask, PerfCapabilityMask2};
pub use counter::{Counter, CounterSet};
pub use details::{PortRcvErrorDetails, PortXmitDiscardDetails};
pub use port_counters::{PortCounterAttribute, PortCounters, PortCountersExtended};
pub use speeds::PortExtendedSpeedsCounters;

use super::header::{AttrId, BASE_VERSION, Class, MadHeader, Method, Status};
use super::{MAD_LEN, MadBytes};
use crate::ids::Tid;

/// The only version of the class (IBA 16.1).
pub const CLASS_VERSION: u8 = 1;

/// The number of data bytes in a datagram of performance management.
pub const PERF_DATA_LEN: usize = 192;

/// The PortSelect that means all ports of a switch together, if
/// [`PerfCapabilityMask::ALL_PORT_SELECT`] is set (IBA 16.1.3.5).
pub const ALL_PORTS: u8 = 0xFF;

/// The attribute identifiers of this class, whose numbers the class defines for itself.
pub mod attribute {
    use super::AttrId;

    /// The capabilities of the agent; laid out as [`crate::wire::sa::ClassPortInfo`].
    pub const CLASS_PORT_INFO: AttrId = AttrId(0x0001);
    /// Counters of up to 32 bits, which stop at their highest value.
    pub const PORT_COUNTERS: AttrId = AttrId(0x0012);
    /// The causes of PortRcvErrors.
    pub const PORT_RCV_ERROR_DETAILS: AttrId = AttrId(0x0015);
    /// The causes of PortXmitDiscards.
    pub const PORT_XMIT_DISCARD_DETAILS: AttrId = AttrId(0x0016);
    /// The counters of a port with 64 bits each.
    pub const PORT_COUNTERS_EXTENDED: AttrId = AttrId(0x001D);
    /// The blocks and symbols that forward error correction corrected, and the blocks that it could
    /// not correct.
    pub const PORT_EXTENDED_SPEEDS_COUNTERS: AttrId = AttrId(0x001F);
}

/// A datagram of performance management (IBA 16.1.1).
///
/// ```text
/// byte
///    0  common header
///   24  - to byte 63
///   64  data to byte 255
/// ```
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct PerfMad {
    header: MadHeader,
    reserved: [u8; 40],
    data: [u8; PERF_DATA_LEN],
}

const _: () = assert!(size_of::<PerfMad>() == MAD_LEN);

impl PerfMad {
    /// A request with the data of an attribute.
    pub fn request(
        method: Method,
        attribute: AttrId,
        tid: Tid,
        data: &[u8; PERF_DATA_LEN],
    ) -> PerfMad {
        let mut header = MadHeader::default();
        header
            .set_base_version(BASE_VERSION)
            .set_class(Class::PERFORMANCE)
            .set_class_version(CLASS_VERSION)
            .set_method(method)
            .set_attribute(attribute)
            .set_tid(tid);
        PerfMad {
            header,
            reserved: [0; 40],
            data: *data,
        }
    }

    /// The datagram in `bytes`.
    pub fn from_bytes(bytes: &MadBytes) -> &PerfMad {
        zerocopy::transmute_ref!(bytes)
    }

    /// The datagram in `bytes`, mutable in place.
    pub fn from_bytes_mut(bytes: &mut MadBytes) -> &mut PerfMad {
        zerocopy::transmute_mut!(bytes)
    }

    /// The bytes of the datagram.
    pub fn as_bytes(&self) -> &MadBytes {
        zerocopy::transmute_ref!(self)
    }

    /// The common header.
    pub fn header(&self) -> &MadHeader {
        &self.header
    }

    /// The data of the attribute.
    pub fn data(&self) -> &[u8; PERF_DATA_LEN] {
        &self.data
    }

    /// The data of the attribute, mutable in place.
    pub fn data_mut(&mut self) -> &mut [u8; PERF_DATA_LEN] {
        &mut self.data
    }
}

impl fmt::Debug for PerfMad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.header.write_with(Status(self.header.status().0), f)
    }
}
