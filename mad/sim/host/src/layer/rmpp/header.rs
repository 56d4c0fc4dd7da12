//! The header of RMPP, and the values of its fields.

use rsm_mad::wire::MadBytes;
use zerocopy::byteorder::network_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The RMPP header (IBA 13.6.2.1), bytes 24 to 35 of a datagram.
///
/// ```text
/// byte  7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0   | 7 6 5 4 3 2 1 0
///   24  RMPPVersion     | RMPPType        | RRespTime | Flags | RMPPStatus
///   28  SegmentNumber, or reserved
///   32  PayloadLength, or NewWindowLast, or reserved
/// ```
#[derive(Debug, Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(in crate::layer) struct RmppHeader {
    pub(in crate::layer) version: u8,
    pub(in crate::layer) kind: u8,
    pub(in crate::layer) time_and_flags: u8,
    pub(in crate::layer) status: u8,
    pub(in crate::layer) segment: U32,
    /// PayloadLength in a DATA packet, NewWindowLast in an ACK.
    pub(in crate::layer) length_or_window: U32,
}

/// The offset of the header in a datagram.
const OFFSET: usize = 24;

impl RmppHeader {
    /// The RMPP header of a datagram.
    pub(in crate::layer) fn of(mad: &MadBytes) -> RmppHeader {
        // The header has 12 bytes, which fit into a datagram of 256 bytes at any offset up to 244.
        RmppHeader::read_from_prefix(&mad[OFFSET..])
            .map(|(header, _)| header)
            .unwrap_or_default()
    }

    /// Writes the header into a datagram.
    pub(in crate::layer) fn write_into(&self, mad: &mut MadBytes) {
        mad[OFFSET..OFFSET + size_of::<RmppHeader>()].copy_from_slice(self.as_bytes());
    }

    pub(in crate::layer) fn has(&self, flag: Flags) -> bool {
        self.time_and_flags & flag.0 != 0
    }
}

/// The RMPPFlags field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::layer) struct Flags(pub(in crate::layer) u8);

impl Flags {
    pub(in crate::layer) const ACTIVE: Flags = Flags(1);
    pub(in crate::layer) const FIRST: Flags = Flags(2);
    pub(in crate::layer) const LAST: Flags = Flags(4);
}

/// The values of the RMPPType field.
pub(in crate::layer) struct Kind;

impl Kind {
    pub(in crate::layer) const DATA: u8 = 1;
    pub(in crate::layer) const ACK: u8 = 2;
    pub(in crate::layer) const STOP: u8 = 3;
    pub(in crate::layer) const ABORT: u8 = 4;
}

/// The values of the RMPPStatus field (IBA 13.6.2.1, table of status codes).
pub(in crate::layer) struct RmppStatusCode;

impl RmppStatusCode {
    pub(in crate::layer) const RESOURCES_EXHAUSTED: u8 = 1;
    pub(in crate::layer) const TOTAL_TIME_TOO_LONG: u8 = 118;
    pub(in crate::layer) const INCONSISTENT_FIRST: u8 = 120;
    pub(in crate::layer) const BAD_TYPE: u8 = 121;
    pub(in crate::layer) const WINDOW_TOO_SMALL: u8 = 122;
    pub(in crate::layer) const SEGMENT_TOO_BIG: u8 = 123;
    pub(in crate::layer) const ILLEGAL_STATUS: u8 = 124;
    pub(in crate::layer) const UNSUPPORTED_VERSION: u8 = 125;
}

/// The status codes that an ABORT can have.
pub(in crate::layer) const ABORT_CODES: std::ops::RangeInclusive<u8> = 118..=127;
