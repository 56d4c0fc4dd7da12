use std::fmt;

use rsm_ids::Lid;
use zerocopy::byteorder::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::attribute;
use super::trap::{Details, TrapDetails};
use super::vport_trap::{self, NVIDIA};
use crate::wire::bits::{bits, newtype_fields};
use crate::wire::codes::code_enum;

code_enum! {
    /// The urgency of a notice (IBA 13.4.8.2).
    NoticeType {
        /// The notice reports a failure.
        Fatal = 0x00 "fatal",
        /// The notice reports a change that needs action.
        Urgent = 0x01 "urgent",
        /// The notice reports a wrong key.
        Security = 0x02 "security",
        /// The notice reports a change of the subnet.
        SubnetManagement = 0x03 "subnet management",
        /// The notice is for information only.
        Informational = 0x04 "informational",
        /// There is no notice.
        Empty = 0x7F "empty",
    }
}

/// The kind of node that sent a generic notice (IBA 13.4.8.2); 24 bits. Values without a name are
/// kept.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ProducerType(pub u32);

impl ProducerType {
    /// A channel adapter.
    pub const CA: ProducerType = ProducerType(1);
    /// A switch.
    pub const SWITCH: ProducerType = ProducerType(2);
    /// A router.
    pub const ROUTER: ProducerType = ProducerType(3);
    /// The manager of the class, such as a subnet manager.
    pub const CLASS_MANAGER: ProducerType = ProducerType(4);
}

impl fmt::Display for ProducerType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::CA => f.pad("CA"),
            Self::SWITCH => f.pad("switch"),
            Self::ROUTER => f.pad("router"),
            Self::CLASS_MANAGER => f.pad("class manager"),
            ProducerType(value) => write!(f, "{value:#x}"),
        }
    }
}

impl fmt::Debug for ProducerType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The number of a generic trap (IBA 14.2.5.1). Values without a name are kept.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Trap(pub u16);

impl Trap {
    /// A port has become reachable. Sent to subscribers by the SA.
    pub const GID_IN_SERVICE: Trap = Trap(64);
    /// A port is no longer reachable. Sent to subscribers by the SA.
    pub const GID_OUT_OF_SERVICE: Trap = Trap(65);
    /// A multicast group was created. Sent to subscribers by the SA.
    pub const GROUP_CREATED: Trap = Trap(66);
    /// A multicast group was deleted. Sent to subscribers by the SA.
    pub const GROUP_DELETED: Trap = Trap(67);
    /// The state of a switch's port changed.
    pub const LINK_STATE_CHANGED: Trap = Trap(128);
    /// A link has too many errors.
    pub const LINK_INTEGRITY: Trap = Trap(129);
    /// A port's buffers overran too often.
    pub const BUFFER_OVERRUN: Trap = Trap(130);
    /// A port's peer has not sent credits in time.
    pub const FLOW_CONTROL_WATCHDOG: Trap = Trap(131);
    /// The capability mask or another local attribute of a port changed.
    pub const LOCAL_CHANGE: Trap = Trap(144);
    /// A node's system image GUID changed.
    pub const SYSTEM_IMAGE_GUID_CHANGED: Trap = Trap(145);
    /// A packet had a wrong M_Key.
    pub const BAD_M_KEY: Trap = Trap(256);
    /// A packet had a wrong P_Key.
    pub const BAD_P_KEY: Trap = Trap(257);
    /// A packet had a wrong Q_Key.
    pub const BAD_Q_KEY: Trap = Trap(258);
    /// A packet had a P_Key that a switch's port does not let through.
    pub const BAD_P_KEY_AT_SWITCH: Trap = Trap(259);
}

impl fmt::Display for Trap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for Trap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "trap {}", self.0)
    }
}

newtype_fields!(ProducerType: u32, Trap: u16);

/// Notice (IBA 13.4.8.2): the content of a Trap, a Report and their answers. The 64 data bytes of
/// an SMP have no room for the IssuerGID, which follows in a datagram of the SA.
///
/// ```text
/// byte  7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0
///    0  G| Type         | ProducerType or VendorID
///    4  TrapNumber or DeviceID            | IssuerLID
///    8  T| NoticeCount                    | DataDetails, to byte 63
/// ```
///
/// G is IsGeneric, T NoticeToggle.
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Notice {
    type_and_producer: U32,
    trap_number: U16,
    issuer_lid: U16,
    toggle_and_count: U16,
    data_details: [u8; Self::DETAILS_LEN],
}

attribute!(Notice, NOTICE, "Notice");

bits! { Notice {
    /// Whether the notice is generic, that is, defined by the specification and not by a vendor.
    is_generic, set_is_generic: bool = type_and_producer[31, 31];
    /// The type of the notice: its urgency.
    notice_type, set_notice_type: NoticeType = type_and_producer[30, 24];
    /// The kind of node that sent the notice; valid in a generic notice.
    producer_type, set_producer_type: ProducerType = type_and_producer[23, 0];
    /// The IEEE number of the vendor, 24 bits; valid in a vendor's notice.
    vendor_id, set_vendor_id: u32 = type_and_producer[23, 0];
    /// The trap number; valid in a generic notice.
    trap_number, set_trap_number: Trap = trap_number;
    /// The vendor's device number; valid in a vendor's notice.
    device_id, set_device_id: u16 = trap_number;
    /// The LID of the port that sent the notice.
    issuer_lid, set_issuer_lid: Lid = issuer_lid;
    /// A bit that changes with each notice that the sender puts into its queue.
    notice_toggle, set_notice_toggle: bool = toggle_and_count[15, 15];
    /// The number of notices that wait in the sender's queue; 15 bits.
    notice_count, set_notice_count: u16 = toggle_and_count[14, 0];
} }

impl Notice {
    /// The length of the details in bytes.
    pub const DETAILS_LEN: usize = 54;

    /// Creates a generic notice with `details`.
    ///
    /// The caller passes a `trap` whose details have the type of `details`.
    pub fn generic<D: Details>(
        notice_type: NoticeType,
        producer: ProducerType,
        trap: Trap,
        issuer: Lid,
        details: &D,
    ) -> Notice {
        let mut notice = Notice {
            data_details: *details.as_details(),
            ..Notice::default()
        };
        notice
            .set_is_generic(true)
            .set_notice_type(notice_type)
            .set_producer_type(producer)
            .set_trap_number(trap)
            .set_issuer_lid(issuer);
        notice
    }

    /// Creates a notice of NVIDIA about virtual ports; `details` contain the trap number.
    pub fn nvidia<D: Details>(
        notice_type: NoticeType,
        device: u16,
        issuer: Lid,
        details: &D,
    ) -> Notice {
        let mut notice = Notice {
            data_details: *details.as_details(),
            ..Notice::default()
        };
        notice
            .set_notice_type(notice_type)
            .set_vendor_id(NVIDIA)
            .set_device_id(device)
            .set_issuer_lid(issuer);
        notice
    }

    /// The trap number in the details of an NVIDIA notice; `None` for any other notice.
    pub fn nvidia_trap(&self) -> Option<u16> {
        let is_nvidia = !self.is_generic() && self.vendor_id() == NVIDIA;
        is_nvidia.then(|| vport_trap::number(&self.data_details))
    }

    /// The details as bytes.
    pub fn data_details(&self) -> &[u8; Self::DETAILS_LEN] {
        &self.data_details
    }

    /// The details, mutable in place.
    pub fn data_details_mut(&mut self) -> &mut [u8; Self::DETAILS_LEN] {
        &mut self.data_details
    }

    /// The details, decoded by the trap number.
    pub fn details(&self) -> TrapDetails<'_> {
        if self.nvidia_trap().is_some() {
            return TrapDetails::of_nvidia(&self.data_details);
        }
        TrapDetails::new(self.is_generic(), self.trap_number(), &self.data_details)
    }
}
