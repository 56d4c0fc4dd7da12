//! The header of all management datagrams (IBA 13.4.3).

use std::fmt;

use zerocopy::byteorder::network_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::bits::newtype_fields;
use super::{MadBytes, bits};
use crate::ids::Tid;

/// The only base version (IBA 13.4.3).
pub const BASE_VERSION: u8 = 1;

/// The common MAD header (IBA 13.4.3), the first 24 bytes of every datagram.
///
/// ```text
/// byte  7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0
///    0  BaseVersion     | MgmtClass       | ClassVersion    |R| Method
///    4  Status                            | ClassSpecific
///    8  TransactionID
///   16  AttributeID                       | reserved
///   20  AttributeModifier
/// ```
#[derive(
    Clone, Copy, PartialEq, Eq, Default, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct MadHeader {
    base_version: u8,
    class: u8,
    class_version: u8,
    method: u8,
    status: U16,
    class_specific: U16,
    tid: U64,
    attribute: U16,
    reserved: U16,
    modifier: U32,
}

const _: () = assert!(size_of::<MadHeader>() == 24);

impl MadHeader {
    /// The header of any datagram.
    pub fn of(mad: &MadBytes) -> &MadHeader {
        let smp: &super::smp::Smp = zerocopy::transmute_ref!(mad);
        smp.header()
    }
}

bits! { MadHeader {
    /// The version of the MAD base format; 1.
    base_version, set_base_version: u8 = base_version;
    /// The management class.
    class, set_class: Class = class;
    /// The version of the class's format: 1 for subnet management, 2 for the SA.
    class_version, set_class_version: u8 = class_version;
    /// The method, with its R (response) bit.
    method, set_method: Method = method;
    /// All 16 bits of the status. In directed-route SMPs the top bit is D, the direction, which
    /// [`Smp::status`](super::smp::Smp::status) excludes.
    status, set_status: Status = status;
    /// The 16 bits whose meaning depends on the class: HopPointer and HopCount in a directed-route
    /// SMP, reserved in the other classes used here.
    class_specific, set_class_specific: u16 = class_specific;
    /// The transaction identifier.
    tid, set_tid: Tid = tid;
    /// The attribute identifier.
    attribute, set_attribute: AttrId = attribute;
    /// The attribute modifier: a block or port number, or a control code.
    modifier, set_modifier: u32 = modifier;
} }

impl MadHeader {
    /// Writes the header on one line, with `status` in place of the header's own status, which may
    /// include D.
    pub(super) fn write_with(&self, status: Status, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {} {} modifier {:#010x} tid {} status {status}",
            self.class(),
            self.method(),
            self.attribute(),
            self.modifier(),
            self.tid(),
        )
    }
}

impl fmt::Debug for MadHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_with(self.status(), f)
    }
}

/// A management class (IBA 13.4.4). Values without a name are kept.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Class(pub u8);

impl Class {
    /// Subnet management with LID-routed packets.
    pub const SUBNET_LID_ROUTED: Class = Class(0x01);
    /// Subnet administration (SA).
    pub const SUBNET_ADMINISTRATION: Class = Class(0x03);
    /// Performance management.
    pub const PERFORMANCE: Class = Class(0x04);
    /// Baseboard management.
    pub const BASEBOARD: Class = Class(0x05);
    /// Device management.
    pub const DEVICE: Class = Class(0x06);
    /// Communication management.
    pub const COMMUNICATION: Class = Class(0x07);
    /// SNMP tunnelling.
    pub const SNMP: Class = Class(0x08);
    /// The class of NVIDIA devices, one of the classes that vendors define (0x09 to 0x0F).
    pub const VENDOR_DEVICE: Class = Class(0x0A);
    /// Congestion control.
    pub const CONGESTION_CONTROL: Class = Class(0x21);
    /// Subnet management with directed-route packets.
    pub const SUBNET_DIRECTED: Class = Class(0x81);

    /// Whether datagrams of this class are SMPs, which travel on VL15 between QPs 0.
    pub const fn is_subnet_management(self) -> bool {
        self.0 == Self::SUBNET_LID_ROUTED.0 || self.0 == Self::SUBNET_DIRECTED.0
    }
}

/// A method (IBA 13.4.5). Values without a name are kept.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Method(pub u8);

impl Method {
    /// A request for an attribute.
    pub const GET: Method = Method(0x01);
    /// A request to change an attribute.
    pub const SET: Method = Method(0x02);
    /// A datagram without a response.
    pub const SEND: Method = Method(0x03);
    /// A report of an event at the sender.
    pub const TRAP: Method = Method(0x05);
    /// A trap that the manager passes on to a subscriber.
    pub const REPORT: Method = Method(0x06);
    /// A request to the sender of a trap not to repeat the trap.
    pub const TRAP_REPRESS: Method = Method(0x07);
    /// A request to the SA for all records that match (IBA 15.2.2).
    pub const GET_TABLE: Method = Method(0x12);
    /// A request to the SA for the nodes along a path.
    pub const GET_TRACE_TABLE: Method = Method(0x13);
    /// A request to the SA for records, which consists of several packets.
    pub const GET_MULTI: Method = Method(0x14);
    /// A request to the SA to revoke an earlier Set.
    pub const DELETE: Method = Method(0x15);
    /// The response to [`Method::GET`] and to [`Method::SET`].
    pub const GET_RESPONSE: Method = Method(0x81);
    /// The response to [`Method::REPORT`].
    pub const REPORT_RESPONSE: Method = Method(0x86);
    /// The response to [`Method::GET_TABLE`] and to [`Method::GET_TRACE_TABLE`].
    pub const GET_TABLE_RESPONSE: Method = Method(0x92);
    /// The response to [`Method::GET_MULTI`].
    pub const GET_MULTI_RESPONSE: Method = Method(0x94);
    /// The response to [`Method::DELETE`].
    pub const DELETE_RESPONSE: Method = Method(0x95);

    /// The bit R, which is set in responses except TrapRepress, the answer to a Trap.
    pub const RESPONSE_BIT: u8 = 0x80;

    /// Whether the R bit is set.
    pub const fn is_response(self) -> bool {
        self.0 & Self::RESPONSE_BIT != 0
    }

    /// The method of the response to this method; `None` if the specification defines none.
    pub const fn response(self) -> Option<Method> {
        match self {
            Self::GET | Self::SET => Some(Self::GET_RESPONSE),
            Self::TRAP => Some(Self::TRAP_REPRESS),
            Self::REPORT => Some(Self::REPORT_RESPONSE),
            Self::GET_TABLE | Self::GET_TRACE_TABLE => Some(Self::GET_TABLE_RESPONSE),
            Self::GET_MULTI => Some(Self::GET_MULTI_RESPONSE),
            Self::DELETE => Some(Self::DELETE_RESPONSE),
            _ => None,
        }
    }
}

/// The status of a response (IBA 13.4.7): bits 0 to 4 have the same meaning in all classes, and the
/// class defines the meaning of bits 8 to 14.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Status(pub u16);

impl Status {
    /// The request had no error.
    pub const OK: Status = Status(0);
    /// The agent dropped the request for lack of time; the requester may send it again.
    pub const BUSY: Status = Status(0x0001);
    /// Another agent is responsible (general services only).
    pub const REDIRECT: Status = Status(0x0002);
    /// The agent does not know this class or version.
    pub const BAD_VERSION: Status = Status(0x0004);
    /// The agent does not know this method.
    pub const UNSUPPORTED_METHOD: Status = Status(0x0008);
    /// The agent does not know this method for this attribute.
    pub const UNSUPPORTED_METHOD_ATTRIBUTE: Status = Status(0x000C);
    /// A field of the attribute, or the attribute modifier, has a value that the agent refuses.
    pub const INVALID_FIELD: Status = Status(0x001C);

    /// The bit D, the direction of a directed-route SMP, which shares the word with its 15-bit
    /// status (IBA 14.2.1.2).
    pub const DIRECTION_BIT: u16 = 0x8000;
    const CODE_MASK: u16 = 0x001C;
    const CLASS_SHIFT: u32 = 8;

    /// Whether no bit is set at all.
    pub const fn is_ok(self) -> bool {
        self.0 == 0
    }

    /// Whether the agent asks to send the request again.
    pub const fn is_busy(self) -> bool {
        self.0 & Self::BUSY.0 != 0
    }

    /// The code in bits 2 to 4, which names the invalid part of the request: zero or one of the
    /// constants from [`Self::BAD_VERSION`] to [`Self::INVALID_FIELD`].
    pub const fn code(self) -> Status {
        Status(self.0 & Self::CODE_MASK)
    }

    /// The bits 8 to 15, which the class defines. In a directed-route SMP bit 15 is D.
    pub const fn class_specific(self) -> u8 {
        (self.0 >> Self::CLASS_SHIFT) as u8
    }

    /// The status without the direction bit D.
    pub const fn without_direction(self) -> Status {
        Status(self.0 & !Self::DIRECTION_BIT)
    }
}

/// An attribute identifier (IBA 13.4.8, 14.2.5). Values without a name are kept.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct AttrId(pub u16);

impl AttrId {
    /// The capabilities of a class agent (general services only).
    pub const CLASS_PORT_INFO: AttrId = AttrId(0x0001);
    /// The content of a trap, a report and their answers.
    pub const NOTICE: AttrId = AttrId(0x0002);
    /// A subscription to reports.
    pub const INFORM_INFO: AttrId = AttrId(0x0003);
    /// A text about a node, for people.
    pub const NODE_DESCRIPTION: AttrId = AttrId(0x0010);
    /// The kind of node, and the port by which the request entered.
    pub const NODE_INFO: AttrId = AttrId(0x0011);
    /// Capacities and flags of a switch.
    pub const SWITCH_INFO: AttrId = AttrId(0x0012);
    /// The GUIDs of a port.
    pub const GUID_INFO: AttrId = AttrId(0x0014);
    /// Addresses, state and capabilities of a port.
    pub const PORT_INFO: AttrId = AttrId(0x0015);
    /// The partitions of a port.
    pub const P_KEY_TABLE: AttrId = AttrId(0x0016);
    /// The VL of each service level.
    pub const SL_TO_VL_MAPPING: AttrId = AttrId(0x0017);
    /// The shares of the VLs in the bandwidth of a link.
    pub const VL_ARBITRATION: AttrId = AttrId(0x0018);
    /// The exit ports of unicast packets at a switch, indexed by LID.
    pub const LINEAR_FORWARDING_TABLE: AttrId = AttrId(0x0019);
    /// The exit ports of unicast packets at a switch, as LID and port pairs.
    pub const RANDOM_FORWARDING_TABLE: AttrId = AttrId(0x001A);
    /// The exit ports of multicast packets at a switch.
    pub const MULTICAST_FORWARDING_TABLE: AttrId = AttrId(0x001B);
    /// The state of a subnet manager.
    pub const SM_INFO: AttrId = AttrId(0x0020);
    /// The diagnostics of the vendor.
    pub const VENDOR_DIAG: AttrId = AttrId(0x0030);
    /// The identification light of a port.
    pub const LED_INFO: AttrId = AttrId(0x0031);
    /// Forward error correction of a port.
    pub const PORT_INFO_EXTENDED: AttrId = AttrId(0x0033);
    /// The states of the ports of a switch.
    pub const SWITCH_PORT_STATE_TABLE: AttrId = AttrId(0x0034);
    /// NVIDIA: the capabilities of an agent.
    pub const GENERAL_INFO: AttrId = AttrId(0xFF17);
    /// NVIDIA: adaptive routing of a switch.
    pub const AR_INFO: AttrId = AttrId(0xFF20);
    /// NVIDIA: the rate limits and bandwidth shares of the service levels of a port.
    pub const QOS_CONFIG_SL: AttrId = AttrId(0xFF82);
    /// NVIDIA: properties of a port for which PortInfo has no field.
    pub const EXTENDED_PORT_INFO: AttrId = AttrId(0xFF90);
    /// NVIDIA: properties of a node for which NodeInfo has no field.
    pub const EXTENDED_NODE_INFO: AttrId = AttrId(0xFF91);
    /// NVIDIA: properties of a switch for which SwitchInfo has no field.
    pub const EXTENDED_SWITCH_INFO: AttrId = AttrId(0xFF92);
    /// NVIDIA: groups of ports of a switch.
    pub const AR_GROUP_TABLE: AttrId = AttrId(0xFF21);
    /// NVIDIA: groups and static ports by LID.
    pub const AR_LINEAR_FORWARDING_TABLE: AttrId = AttrId(0xFF23);
    /// NVIDIA: the capacities and the state of a port's virtual ports as a whole.
    pub const VIRTUALIZATION_INFO: AttrId = AttrId(0xFFB0);
    /// NVIDIA: a virtual port.
    pub const VPORT_INFO: AttrId = AttrId(0xFFB1);
    /// NVIDIA: the virtual node of a virtual port.
    pub const VNODE_INFO: AttrId = AttrId(0xFFB2);
    /// NVIDIA: the states of virtual ports.
    pub const VPORT_STATE: AttrId = AttrId(0xFFB3);
    /// NVIDIA: the text of a virtual node.
    pub const VNODE_DESCRIPTION: AttrId = AttrId(0xFFB4);
    /// NVIDIA: the GUIDs of a virtual port.
    pub const VPORT_GUID_INFO: AttrId = AttrId(0xFFB5);
    /// NVIDIA: the partition keys of a virtual port.
    pub const VPORT_P_KEY_TABLE: AttrId = AttrId(0xFFB6);
}

newtype_fields!(Class: u8, Method: u8, Status: u16, AttrId: u16, Tid: u64);

/// Implements the text forms of the newtypes: the name in the specification, or the number in
/// hexadecimal.
macro_rules! named {
    ($type:ident, $width:literal, { $($name:ident => $text:literal),* $(,)? }) => {
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match *self {
                    $(Self::$name => f.pad($text),)*
                    Self(value) => write!(f, concat!("{:#0", $width, "x}"), value),
                }
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    };
}

named!(Class, 4, {
    SUBNET_LID_ROUTED => "SubnLID",
    SUBNET_ADMINISTRATION => "SubnAdm",
    PERFORMANCE => "Perf",
    BASEBOARD => "BM",
    DEVICE => "DevMgt",
    COMMUNICATION => "ComMgt",
    SNMP => "SNMP",
    VENDOR_DEVICE => "VendorDevice",
    CONGESTION_CONTROL => "CC",
    SUBNET_DIRECTED => "SubnDirected",
});

named!(Method, 4, {
    GET => "Get",
    SET => "Set",
    SEND => "Send",
    TRAP => "Trap",
    REPORT => "Report",
    TRAP_REPRESS => "TrapRepress",
    GET_TABLE => "GetTable",
    GET_TRACE_TABLE => "GetTraceTable",
    GET_MULTI => "GetMulti",
    DELETE => "Delete",
    GET_RESPONSE => "GetResp",
    REPORT_RESPONSE => "ReportResp",
    GET_TABLE_RESPONSE => "GetTableResp",
    GET_MULTI_RESPONSE => "GetMultiResp",
    DELETE_RESPONSE => "DeleteResp",
});

named!(Status, 6, {
    OK => "ok",
    BUSY => "busy",
    REDIRECT => "redirect",
    BAD_VERSION => "bad version",
    UNSUPPORTED_METHOD => "unsupported method",
    UNSUPPORTED_METHOD_ATTRIBUTE => "unsupported method and attribute",
    INVALID_FIELD => "invalid field",
});

named!(AttrId, 6, {
    CLASS_PORT_INFO => "ClassPortInfo",
    NOTICE => "Notice",
    INFORM_INFO => "InformInfo",
    NODE_DESCRIPTION => "NodeDescription",
    NODE_INFO => "NodeInfo",
    SWITCH_INFO => "SwitchInfo",
    GUID_INFO => "GUIDInfo",
    PORT_INFO => "PortInfo",
    P_KEY_TABLE => "P_KeyTable",
    SL_TO_VL_MAPPING => "SLtoVLMappingTable",
    VL_ARBITRATION => "VLArbitrationTable",
    LINEAR_FORWARDING_TABLE => "LinearForwardingTable",
    RANDOM_FORWARDING_TABLE => "RandomForwardingTable",
    MULTICAST_FORWARDING_TABLE => "MulticastForwardingTable",
    SM_INFO => "SMInfo",
    VENDOR_DIAG => "VendorDiag",
    LED_INFO => "LedInfo",
    PORT_INFO_EXTENDED => "PortInfoExtended",
    SWITCH_PORT_STATE_TABLE => "SwitchPortStateTable",
    GENERAL_INFO => "GeneralInfo",
    AR_INFO => "ARInfo",
    QOS_CONFIG_SL => "QoSConfigSL",
    EXTENDED_PORT_INFO => "ExtendedPortInfo",
    EXTENDED_NODE_INFO => "ExtendedNodeInfo",
    EXTENDED_SWITCH_INFO => "ExtendedSwitchInfo",
    AR_GROUP_TABLE => "ARGroupTable",
    AR_LINEAR_FORWARDING_TABLE => "ARLinearForwardingTable",
    VIRTUALIZATION_INFO => "VirtualizationInfo",
    VPORT_INFO => "VPortInfo",
    VNODE_INFO => "VNodeInfo",
    VPORT_STATE => "VPortState",
    VNODE_DESCRIPTION => "VNodeDescription",
    VPORT_GUID_INFO => "VPortGUIDInfo",
    VPORT_P_KEY_TABLE => "VPortP_KeyTable",
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_without_a_name_print_as_numbers() {
        assert_eq!(AttrId(0xFFA1).to_string(), "0xffa1");
        assert_eq!(Class(0x0B).to_string(), "0x0b");
        assert_eq!(Method::GET.to_string(), "Get");
    }

    #[test]
    fn busy_bit_beside_other_bits_is_recognized() {
        assert!(Status(0x001D).is_busy());
        assert_eq!(Status(0x001D).code(), Status::INVALID_FIELD);
        assert_eq!(Status(0x8001).without_direction(), Status::BUSY);
    }

    #[test]
    fn every_request_method_has_its_answer() {
        assert_eq!(Method::SET.response(), Some(Method::GET_RESPONSE));
        assert_eq!(Method::TRAP.response(), Some(Method::TRAP_REPRESS));
        assert_eq!(Method::GET_RESPONSE.response(), None);
        assert!(!Method::TRAP_REPRESS.is_response());
    }
}
