//! The header of the reliable multi-packet transaction protocol (IBA 13.6).

use std::fmt;

use zerocopy::byteorder::network_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::codes::{bit_mask, code_enum};
use super::header::MadHeader;
use super::{MAD_LEN, MadBytes, bits};

/// The only version of the protocol (IBA 13.6.2).
pub const RMPP_VERSION: u8 = 1;

code_enum! {
    /// The type of a packet of the protocol (IBA 13.6.2.1).
    RmppType {
        /// The datagram is not a packet of the protocol, but a whole message.
        None = 0 "none",
        /// A segment of a message.
        Data = 1 "DATA",
        /// The receiver acknowledges segments and opens the window of the sender.
        Ack = 2 "ACK",
        /// The receiver lacks resources, and the sender has to give up.
        Stop = 3 "STOP",
        /// One of the two sides gives up.
        Abort = 4 "ABORT",
    }
}

bit_mask! {
    /// The three flags of a packet (IBA 13.6.2.1).
    RmppFlags(u8) {
        /// The datagram belongs to the protocol. The flag is clear in a message of one datagram
        /// that does not use the protocol.
        ACTIVE = 0x1 "ACTIVE",
        /// The first segment of a message.
        FIRST = 0x2 "FIRST",
        /// The last segment of a message.
        LAST = 0x4 "LAST",
    }
}

code_enum! {
    /// The reason in STOP and ABORT why a transfer ended (IBA 13.6.2.1). The class defines the
    /// values 128 to 191, and vendors the values 192 to 255.
    RmppStatus {
        /// The packet reports no error.
        Normal = 0 "normal",
        /// The sender of the STOP has no room left.
        ResourcesExhausted = 1 "resources exhausted",
        /// The transfer took too long (ABORT).
        TotalTimeTooLong = 118 "total transaction time too long",
        /// The last segment and PayloadLength contradict each other (ABORT).
        InconsistentLast = 119 "inconsistent last and PayloadLength",
        /// The first segment has a number other than 1, or another segment has number 1 (ABORT).
        InconsistentFirst = 120 "inconsistent first and SegmentNumber",
        /// The packet has an unknown type (ABORT).
        BadType = 121 "bad RMPPType",
        /// NewWindowLast is below SegmentNumber (ABORT).
        NewWindowLastTooSmall = 122 "NewWindowLast too small",
        /// The segment is beyond the window (ABORT).
        SegmentNumberTooBig = 123 "SegmentNumber too big",
        /// The status does not belong to the type (ABORT).
        IllegalStatus = 124 "illegal status",
        /// The packet has an unknown version (ABORT).
        UnsupportedVersion = 125 "unsupported version",
        /// Segments were not acknowledged after too many retries (ABORT).
        TooManyRetries = 126 "too many retries",
        /// The transfer ends for any other reason (ABORT).
        Unspecified = 127 "unspecified",
    }
}

/// The RMPP header (IBA 13.6.2), the 12 bytes behind the common header in classes that use the
/// protocol.
///
/// ```text
/// byte  7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0
///    0  RMPPVersion     | RMPPType        | RRespTime |Flags| RMPPStatus
///    4  Data1: SegmentNumber
///    8  Data2: PayloadLength (DATA), NewWindowLast (ACK)
/// ```
#[derive(
    Clone, Copy, PartialEq, Eq, Default, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct RmppHeader {
    version: u8,
    kind: u8,
    resp_time_and_flags: u8,
    status: u8,
    data1: U32,
    data2: U32,
}

const _: () = assert!(size_of::<RmppHeader>() == RmppHeader::LEN);

/// The layout of a datagram with this header.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Packet {
    header: MadHeader,
    rmpp: RmppHeader,
    data: [u8; MAD_LEN - size_of::<MadHeader>() - RmppHeader::LEN],
}

bits! { RmppHeader {
    /// The version of the protocol: 1, or 0 if it is not used.
    version, set_version: u8 = version;
    /// The type of the packet.
    rmpp_type, set_rmpp_type: RmppType = kind;
    /// The time that the sender of the packet needs to answer: 4.096 µs × 2^value; 31
    /// ([`Self::RESP_TIME_NONE`]) if the time is not stated.
    resp_time, set_resp_time: u8 = resp_time_and_flags[7, 3];
    /// The flags of the packet.
    flags, set_flags: RmppFlags = resp_time_and_flags[2, 0];
    /// The reason why the transfer ended; 0 in DATA and ACK.
    status, set_status: RmppStatus = status;
    /// The number of the segment, from 1; in an ACK the number of the last segment received in
    /// order.
    segment_number, set_segment_number: u32 = data1;
    /// The number of bytes of the message behind the class's header, as the protocol counts them;
    /// valid in DATA. The first segment has the number for all segments together or 0, the last
    /// segment its own number.
    payload_length, set_payload_length: u32 = data2;
    /// The last segment that the sender may send before the next ACK; valid in ACK.
    new_window_last, set_new_window_last: u32 = data2;
} }

impl RmppHeader {
    /// The length of the header in bytes.
    pub const LEN: usize = 12;

    /// The value of [`Self::resp_time`] for a time that is not stated.
    pub const RESP_TIME_NONE: u8 = 31;

    /// The header of a datagram of a class that uses the protocol.
    pub fn of(mad: &MadBytes) -> &RmppHeader {
        let packet: &Packet = zerocopy::transmute_ref!(mad);
        &packet.rmpp
    }

    /// Whether the datagram belongs to the protocol.
    pub fn is_active(&self) -> bool {
        self.flags().contains(RmppFlags::ACTIVE)
    }
}

impl fmt::Debug for RmppHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "RMPP {} flags {} status {} segment {} data2 {}",
            self.rmpp_type(),
            self.flags(),
            self.status(),
            self.segment_number(),
            self.payload_length(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_has_the_bytes_of_the_figure() {
        let mut header = RmppHeader::default();
        header
            .set_version(RMPP_VERSION)
            .set_rmpp_type(RmppType::Data)
            .set_resp_time(RmppHeader::RESP_TIME_NONE)
            .set_flags(RmppFlags::ACTIVE | RmppFlags::LAST)
            .set_segment_number(2)
            .set_payload_length(0x0102);
        assert_eq!(
            header.as_bytes(),
            [1, 1, 0xFD, 0, 0, 0, 0, 2, 0, 0, 0x01, 0x02]
        );
        assert!(header.is_active());
        assert_eq!(header.new_window_last(), 0x0102);
    }
}
