//! The details of generic traps: the 54 bytes DataDetails of a Notice, trap by trap (IBA 14.2.5.1).

use rsm_ids::{Guid, Lid, PortNum};
use zerocopy::byteorder::network_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::capability::{CapabilityMask, CapabilityMask2};
use super::notice::{Notice, Trap};
use super::p_key_table::PKey;
use super::vport_trap::{
    self, VPORT_LOCAL_CHANGE, VPORT_STATE_CHANGE, VPortLocalChange, VPortStateChange,
};
use crate::ids::Gid;
use crate::wire::bits::bits;
use crate::wire::codes::bit_mask;
use crate::wire::header::{AttrId, Method};

/// A layout of the 54 bytes DataDetails.
pub trait Details: Copy + Default {
    /// Views `bytes` as the details. Any bytes are valid.
    fn from_details(bytes: &[u8; Notice::DETAILS_LEN]) -> &Self;

    /// The bytes as they are sent.
    fn as_details(&self) -> &[u8; Notice::DETAILS_LEN];
}

/// Implements [`Details`] for views, and their `Default` of zeroes.
macro_rules! details {
    ($($view:ident),*) => {$(
        const _: () = assert!(size_of::<$view>() == Notice::DETAILS_LEN);

        impl $crate::wire::attr::Details for $view {
            fn from_details(bytes: &[u8; Notice::DETAILS_LEN]) -> &Self {
                zerocopy::transmute_ref!(bytes)
            }

            fn as_details(&self) -> &[u8; Notice::DETAILS_LEN] {
                zerocopy::transmute_ref!(self)
            }
        }

        impl Default for $view {
            fn default() -> Self {
                zerocopy::FromZeros::new_zeroed()
            }
        }
    )*};
}

pub(super) use details;

details!(
    GidChange,
    LinkStateChange,
    PortThreshold,
    LocalChange,
    SystemImageGuidChange,
    BadMKey,
    BadKeys,
    BadPKeyAtSwitch
);

/// The details of a notice, by its trap number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TrapDetails<'a> {
    /// The details of traps 64 to 67.
    GidChange(&'a GidChange),
    /// The details of trap 128.
    LinkStateChange(&'a LinkStateChange),
    /// The details of traps 129 to 131.
    PortThreshold(&'a PortThreshold),
    /// The details of trap 144.
    LocalChange(&'a LocalChange),
    /// The details of trap 145.
    SystemImageGuidChange(&'a SystemImageGuidChange),
    /// The details of trap 256.
    BadMKey(&'a BadMKey),
    /// The details of traps 257 and 258.
    BadKeys(&'a BadKeys),
    /// The details of trap 259.
    BadPKeyAtSwitch(&'a BadPKeyAtSwitch),
    /// The details of trap 1146 of NVIDIA.
    VPortStateChange(&'a VPortStateChange),
    /// The details of trap 1144 of NVIDIA.
    VPortLocalChange(&'a VPortLocalChange),
    /// The details of any other trap.
    Other(&'a [u8; Notice::DETAILS_LEN]),
}

impl<'a> TrapDetails<'a> {
    /// The details in `bytes`, which contain the number of an NVIDIA trap.
    pub(super) fn of_nvidia(bytes: &'a [u8; Notice::DETAILS_LEN]) -> Self {
        match vport_trap::number(bytes) {
            VPORT_STATE_CHANGE => Self::VPortStateChange(Details::from_details(bytes)),
            VPORT_LOCAL_CHANGE => Self::VPortLocalChange(Details::from_details(bytes)),
            _ => Self::Other(bytes),
        }
    }

    /// The details in `bytes`, in the layout of the trap number.
    pub(super) fn new(generic: bool, trap: Trap, bytes: &'a [u8; Notice::DETAILS_LEN]) -> Self {
        if !generic {
            return Self::Other(bytes);
        }
        match trap {
            Trap::GID_IN_SERVICE
            | Trap::GID_OUT_OF_SERVICE
            | Trap::GROUP_CREATED
            | Trap::GROUP_DELETED => Self::GidChange(Details::from_details(bytes)),
            Trap::LINK_STATE_CHANGED => Self::LinkStateChange(Details::from_details(bytes)),
            Trap::LINK_INTEGRITY | Trap::BUFFER_OVERRUN | Trap::FLOW_CONTROL_WATCHDOG => {
                Self::PortThreshold(Details::from_details(bytes))
            }
            Trap::LOCAL_CHANGE => Self::LocalChange(Details::from_details(bytes)),
            Trap::SYSTEM_IMAGE_GUID_CHANGED => {
                Self::SystemImageGuidChange(Details::from_details(bytes))
            }
            Trap::BAD_M_KEY => Self::BadMKey(Details::from_details(bytes)),
            Trap::BAD_P_KEY | Trap::BAD_Q_KEY => Self::BadKeys(Details::from_details(bytes)),
            Trap::BAD_P_KEY_AT_SWITCH => Self::BadPKeyAtSwitch(Details::from_details(bytes)),
            _ => Self::Other(bytes),
        }
    }
}

/// Traps 64 to 67: a port or a multicast group appeared or disappeared.
///
/// ```text
/// byte  0  -, 6 bytes
///       6  GIDADDR, 16 bytes
///      22  - to byte 53
/// ```
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct GidChange {
    reserved_0: [u8; 6],
    gid: [u8; 16],
    reserved: [u8; 32],
}

impl GidChange {
    /// The GID of the port or the group.
    pub fn gid(&self) -> Gid {
        Gid(u128::from_be_bytes(self.gid))
    }

    /// Sets [`Self::gid`].
    pub fn set_gid(&mut self, gid: Gid) -> &mut Self {
        self.gid = gid.0.to_be_bytes();
        self
    }
}

/// Trap 128: the state of one or more ports of a switch changed.
///
/// ```text
/// byte  0  LIDADDR
///       2  - to byte 53
/// ```
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct LinkStateChange {
    lid: U16,
    reserved: [u8; 52],
}

bits! { LinkStateChange {
    /// The LID of the switch.
    lid, set_lid: Lid = lid;
} }

/// Traps 129, 130 and 131: a port reached a threshold of errors.
///
/// ```text
/// byte  0  -                 | LIDADDR
///       4  PORTNO | - to byte 53
/// ```
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct PortThreshold {
    reserved_0: [u8; 2],
    lid: U16,
    port: u8,
    reserved: [u8; 49],
}

bits! { PortThreshold {
    /// The LID of the node.
    lid, set_lid: Lid = lid;
    /// The port to which the trap refers.
    port_num, set_port_num: PortNum = port;
} }

bit_mask! {
    /// The changes, in trap 144 with OtherLocalChanges.
    LocalChanges(u16) {
        /// The NodeDescription changed.
        NODE_DESCRIPTION = 0x0001 "NodeDescription",
        /// LinkWidthEnabled changed.
        LINK_WIDTH_ENABLED = 0x0002 "LinkWidthEnabled",
        /// LinkSpeedEnabled, LinkSpeedExtEnabled or a similar field changed.
        LINK_SPEED_ENABLED = 0x0004 "LinkSpeedEnabled",
        /// The priority of the subnet manager behind the port changed.
        SM_PRIORITY = 0x0008 "SMPriority",
        /// HierarchyInfo changed.
        HIERARCHY_INFO = 0x0010 "HierarchyInfo",
        /// CapabilityMask2 changed.
        CAPABILITY_MASK2 = 0x0020 "CapabilityMask2",
    }
}

/// Trap 144: a local attribute of a port changed.
///
/// ```text
/// byte  7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0
///    0  -                                 | LIDADDR
///    4  -               | - - - - - - - |O| CapabilityMask
///    8  CapabilityMask                    | changes
///   12  CapabilityMask2                   | - to byte 53
/// ```
///
/// O is OtherLocalChanges.
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct LocalChange {
    reserved_0: [u8; 2],
    lid: U16,
    reserved_4: u8,
    flags: u8,
    capability_mask: U32,
    changes: U16,
    capability_mask2: U16,
    reserved: [u8; 40],
}

bits! { LocalChange {
    /// The LID of the port.
    lid, set_lid: Lid = lid;
    /// Whether [`Self::changes`] lists the changes; otherwise the capability mask changed.
    other_local_changes, set_other_local_changes: bool = flags[0, 0];
    /// The present capability mask.
    capability_mask, set_capability_mask: CapabilityMask = capability_mask;
    /// The changes that the trap reports.
    changes, set_changes: LocalChanges = changes;
    /// The present second capability mask.
    capability_mask2, set_capability_mask2: CapabilityMask2 = capability_mask2;
} }

/// Trap 145: a node's system image GUID changed.
///
/// ```text
/// byte  0  -                 | LIDADDR
///       4  -                 | SYSTEMIMAGEGUID
///      14  - to byte 53
/// ```
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct SystemImageGuidChange {
    reserved_0: [u8; 2],
    lid: U16,
    reserved_4: [u8; 2],
    system_image_guid: U64,
    reserved: [u8; 40],
}

bits! { SystemImageGuidChange {
    /// The LID of the port.
    lid, set_lid: Lid = lid;
    /// The present GUID.
    system_image_guid, set_system_image_guid: Guid = system_image_guid;
} }

/// Trap 256: a subnet management packet had a wrong M_Key.
///
/// ```text
/// byte  7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0
///    0  -                                 | LIDADDR
///    4  DRSLID                            | METHOD          | -
///    8  ATTRIBUTEID                       | ATTRIBUTEMODIFIER
///   12  ATTRIBUTEMODIFIER                 | M_KEY
///   20  M_KEY                             | -               | N|T| DRHopCount
///   24  DRNoticeReturnPath, 30 bytes
/// ```
///
/// N is DRNotice, T DRPathTruncated.
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct BadMKey {
    reserved_0: [u8; 2],
    lid: U16,
    dr_slid: U16,
    method: u8,
    reserved_7: u8,
    attribute: U16,
    modifier: U32,
    m_key: U64,
    reserved_22: u8,
    route: u8,
    return_path: [u8; 30],
}

bits! { BadMKey {
    /// The source LID of the packet, if the packet was LID-routed.
    lid, set_lid: Lid = lid;
    /// The DrSLID of the packet.
    dr_slid, set_dr_slid: Lid = dr_slid;
    /// The method of the packet.
    method, set_method: Method = method;
    /// The attribute of the packet.
    attribute, set_attribute: AttrId = attribute;
    /// The attribute modifier of the packet.
    modifier, set_modifier: u32 = modifier;
    /// The M_Key of the packet.
    m_key, set_m_key: u64 = m_key;
    /// Whether the packet was a directed-route packet.
    dr_notice, set_dr_notice: bool = route[7, 7];
    /// Whether [`Self::return_path`] holds only the beginning of the path.
    dr_path_truncated, set_dr_path_truncated: bool = route[6, 6];
    /// The HopCount of the packet; 0 to 63, of which the return path holds at most 30.
    dr_hop_count, set_dr_hop_count: u8 = route[5, 0];
} }

impl BadMKey {
    /// The return path of the packet.
    pub fn return_path(&self) -> &[u8; 30] {
        &self.return_path
    }

    /// The return path, mutable in place.
    pub fn return_path_mut(&mut self) -> &mut [u8; 30] {
        &mut self.return_path
    }
}

/// Traps 257 and 258: a packet had a wrong P_Key or Q_Key.
///
/// ```text
/// byte  7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0
///    0  -                                 | LIDADDR1
///    4  LIDADDR2                          | KEY
///    8  KEY                               | SL    | - - - - | QP1
///   12  QP1                               | -               | QP2
///   16  QP2                               | GIDADDR1, 16 bytes
///   34  GIDADDR2, 16 bytes
///   50  - to byte 53
/// ```
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct BadKeys {
    reserved_0: [u8; 2],
    lid1: U16,
    lid2: U16,
    key: U32,
    sl_and_qp1: U32,
    qp2: U32,
    gid1: [u8; 16],
    gid2: [u8; 16],
    reserved: [u8; 4],
}

bits! { BadKeys {
    /// The source LID of the packet.
    lid1, set_lid1: Lid = lid1;
    /// The destination LID of the packet.
    lid2, set_lid2: Lid = lid2;
    /// The Q_Key of the packet, or its P_Key in the low 16 bits.
    key, set_key: u32 = key;
    /// The service level of the packet; 0 to 15.
    sl, set_sl: u8 = sl_and_qp1[31, 28];
    /// The source queue pair of the packet; 24 bits.
    qp1, set_qp1: u32 = sl_and_qp1[23, 0];
    /// The destination queue pair of the packet; 24 bits.
    qp2, set_qp2: u32 = qp2[23, 0];
} }

/// Trap 259: the port of a switch dropped a packet because of its P_Key.
///
/// ```text
/// byte  7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0
///    0  DataValid                         | LIDADDR1
///    4  LIDADDR2                          | P_KEY
///    8  SL    | - - - - | QP1
///   12  -               | QP2
///   16  GIDADDR1, 16 bytes
///   32  GIDADDR2, 16 bytes
///   48  SWLIDADDR                         | PORTNO          | - to byte 53
/// ```
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct BadPKeyAtSwitch {
    data_valid: U16,
    lid1: U16,
    lid2: U16,
    p_key: U16,
    sl_and_qp1: U32,
    qp2: U32,
    gid1: [u8; 16],
    gid2: [u8; 16],
    switch_lid: U16,
    port: u8,
    reserved: [u8; 3],
}

bits! { BadPKeyAtSwitch {
    /// The mask of the other fields that the switch filled in (IBA 14.2.5.1).
    data_valid, set_data_valid: u16 = data_valid;
    /// The source LID of the packet.
    lid1, set_lid1: Lid = lid1;
    /// The destination LID of the packet.
    lid2, set_lid2: Lid = lid2;
    /// The P_Key of the packet.
    p_key, set_p_key: PKey = p_key;
    /// The service level of the packet; 0 to 15.
    sl, set_sl: u8 = sl_and_qp1[31, 28];
    /// The source queue pair of the packet; 24 bits.
    qp1, set_qp1: u32 = sl_and_qp1[23, 0];
    /// The destination queue pair of the packet; 24 bits.
    qp2, set_qp2: u32 = qp2[23, 0];
    /// The LID of the switch.
    switch_lid, set_switch_lid: Lid = switch_lid;
    /// The port of the switch that dropped the packet.
    port_num, set_port_num: PortNum = port;
} }

/// Accessors of the two GIDs of a packet.
macro_rules! gid_pair {
    ($($view:ident),*) => {$(
        impl $view {
            /// The source port of the packet.
            pub fn gid1(&self) -> Gid {
                Gid(u128::from_be_bytes(self.gid1))
            }

            /// Sets [`Self::gid1`].
            pub fn set_gid1(&mut self, gid: Gid) -> &mut Self {
                self.gid1 = gid.0.to_be_bytes();
                self
            }

            /// The destination port of the packet.
            pub fn gid2(&self) -> Gid {
                Gid(u128::from_be_bytes(self.gid2))
            }

            /// Sets [`Self::gid2`].
            pub fn set_gid2(&mut self, gid: Gid) -> &mut Self {
                self.gid2 = gid.0.to_be_bytes();
                self
            }
        }
    )*};
}

gid_pair!(BadKeys, BadPKeyAtSwitch);
