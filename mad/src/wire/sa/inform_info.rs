use rsm_ids::Lid;
use zerocopy::byteorder::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{components, gids, record};
use crate::wire::attr::{ProducerType, Trap};
use crate::wire::bits::bits;

/// InformInfo (IBA 13.4.8.3): a request to subscribe to reports or to unsubscribe.
///
/// ```text
/// byte  7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0
///    0  GID
///   16  LIDRangeBegin                     | LIDRangeEnd
///   20  -                                 | IsGeneric       | Subscribe
///   24  Type                              | TrapNumber or DeviceID
///   28  QPN                                                 | - - -|RespTime
///   32  -               | ProducerType or VendorID
///   36  - to byte 39
/// ```
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct InformInfo {
    gid: [u8; 16],
    lid_range_begin: U16,
    lid_range_end: U16,
    reserved_20: [u8; 2],
    is_generic: u8,
    subscribe: u8,
    notice_type: U16,
    trap_number: U16,
    qpn_and_resp_time: U32,
    producer: U32,
    reserved: [u8; 4],
}

record!(InformInfo, 0x0003, "InformInfo");

bits! { InformInfo {
    /// The first LID of the ports whose notices are reported; [`Self::LID_RANGE_ALL`] for all
    /// ports.
    lid_range_begin, set_lid_range_begin: Lid = lid_range_begin;
    /// The last LID of the range; 0 if the range is the first LID only.
    lid_range_end, set_lid_range_end: Lid = lid_range_end;
    /// 1 for generic notices, 0 for notices of a vendor.
    is_generic, set_is_generic: u8 = is_generic;
    /// 1 to subscribe, 0 to unsubscribe.
    subscribe, set_subscribe: u8 = subscribe;
    /// The type of notices, as in [`NoticeType`](crate::wire::attr::NoticeType); [`Self::ALL`] for
    /// all types.
    notice_type, set_notice_type: u16 = notice_type;
    /// The trap, in a subscription to generic notices; [`Self::ALL`] for all traps.
    trap_number, set_trap_number: Trap = trap_number;
    /// The device, in a subscription to notices of a vendor; [`Self::ALL`] for all devices.
    device_id, set_device_id: u16 = trap_number;
    /// The destination queue pair of reports; 24 bits.
    qpn, set_qpn: u32 = qpn_and_resp_time[31, 8];
    /// The time that the subscriber needs to answer a report: 4.096 µs × 2^value.
    resp_time_value, set_resp_time_value: u8 = qpn_and_resp_time[4, 0];
    /// The kind of node that sends the notices, in a subscription to generic notices;
    /// [`Self::ALL_PRODUCERS`] for all kinds.
    producer_type, set_producer_type: ProducerType = producer[23, 0];
    /// The IEEE number of the vendor, 24 bits, in a subscription to notices of a vendor;
    /// [`Self::ALL_PRODUCERS`] for all vendors.
    vendor_id, set_vendor_id: u32 = producer[23, 0];
} }

gids! { InformInfo {
    /// The GID of the port whose notices are reported; if it is 0, the LIDs select the ports.
    gid, set_gid = gid;
} }

impl InformInfo {
    /// The LIDRangeBegin that stands for all ports.
    pub const LID_RANGE_ALL: Lid = Lid(0xFFFF);
    /// The Type, TrapNumber or DeviceID that stands for every value.
    pub const ALL: u16 = 0xFFFF;
    /// The ProducerType or VendorID that stands for every value.
    pub const ALL_PRODUCERS: u32 = 0xFF_FFFF;

    /// The length in bytes of the fields, without the reserved bytes after them.
    const FIELDS_LEN: usize = 36;
    const COMPONENT_TABLE: &'static [super::Component] = &[];
}

/// InformInfoRecord (IBA 15.2.5.12): a subscription.
///
/// ```text
/// byte  0  SubscriberGID
///      16  Enum            | -
///      20  -
///      24  InformInfo, 36 bytes
///      60  - to byte 63
/// ```
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct InformInfoRecord {
    subscriber_gid: [u8; 16],
    enumeration: U16,
    reserved_18: [u8; 6],
    inform_info: [u8; InformInfo::FIELDS_LEN],
    reserved: [u8; 4],
}

record!(InformInfoRecord, 0x00F3, "InformInfoRecord");

bits! { InformInfoRecord {
    /// A number that distinguishes the subscriptions of one subscriber.
    enumeration, set_enumeration: u16 = enumeration;
} }

gids! { InformInfoRecord {
    /// The port that subscribed.
    subscriber_gid, set_subscriber_gid = subscriber_gid;
} }

components! { InformInfoRecord {
    0 SUBSCRIBER_GID = "SubscriberGID" at 0, 128;
    1 ENUM = "Enum" at 128, 16;
    3 GID = "GID" at 192, 128;
    4 LID_RANGE_BEGIN = "LIDRangeBegin" at 320, 16;
    5 LID_RANGE_END = "LIDRangeEnd" at 336, 16;
    7 IS_GENERIC = "IsGeneric" at 368, 8;
    8 SUBSCRIBE = "Subscribe" at 376, 8;
    9 TYPE = "Type" at 384, 16;
    10 TRAP_NUMBER = "TrapNumber/DeviceID" at 400, 16;
    11 QPN = "QPN" at 416, 24;
    13 RESP_TIME_VALUE = "RespTimeValue" at 443, 5;
    15 PRODUCER_TYPE = "ProducerType/VendorID" at 456, 24;
} }

impl InformInfoRecord {
    /// The InformInfo of the subscription.
    pub fn inform_info(&self) -> InformInfo {
        let mut info = InformInfo::default();
        let (used, _) = info.as_mut_bytes().split_at_mut(InformInfo::FIELDS_LEN);
        used.copy_from_slice(&self.inform_info);
        info
    }

    /// Sets [`Self::inform_info`].
    pub fn set_inform_info(&mut self, info: &InformInfo) -> &mut Self {
        let bytes = IntoBytes::as_bytes(info);
        self.inform_info = std::array::from_fn(|index| bytes[index]);
        self
    }
}
