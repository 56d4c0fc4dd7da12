use rsm_ids::Lid;
use zerocopy::byteorder::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{gids, record};
use crate::wire::attr::PKey;
use crate::wire::bits::bits;
use crate::wire::codes::bit_mask;

bit_mask! {
    /// CapabilityMask of ClassPortInfo in the SA (IBA 15.2.5.1).
    SaCapabilityMask(u16) {
        /// The SA sends traps itself.
        TRAP = 0x0001 "IsTrapSupported",
        /// The SA answers Get and Set of Notice.
        NOTICE = 0x0002 "IsGetSetNoticeSupported",
        /// The SA answers all optional records except the records of the bits below.
        OPTIONAL_RECORDS = 0x0100 "IsSubnetOptionalRecordsSupported",
        /// The SA manages multicast groups.
        UD_MULTICAST = 0x0200 "IsUDMulticastSupported",
        /// The SA answers MultiPathRecord and TraceRecord.
        MULTI_PATH = 0x0400 "IsMultiPathSupported",
        /// The SA reinitialises ports.
        REINIT = 0x0800 "IsReInitSupported",
        /// The SA matches single bits of CapabilityMask in PortInfoRecord.
        PORT_INFO_CAPABILITY_MASK_MATCH = 0x2000 "IsPortInfoCapabilityMaskMatchSupported",
    }
}

bit_mask! {
    /// CapabilityMask2 of ClassPortInfo in the SA (IBA 15.2.5.1); 27 bits.
    SaCapabilityMask2(u32) {
        /// The SA knows QoS classes.
        QOS = 0x002 "IsQoSSupported",
        /// The SA states in paths the P_Key for packets in the opposite direction.
        REVERSE_PATH_P_KEY = 0x004 "IsReversePathPKeySupported",
        /// The SA sets MulticastFDBTop.
        MULTICAST_FDB_TOP = 0x008 "IsMulticastFDBTopSupported",
        /// The SA keeps HierarchyInfo.
        HIERARCHY = 0x010 "IsHierarchyInfoSupported",
        /// The SA assigns alias GUIDs to ports.
        ALIAS_GUIDS = 0x020 "IsAliasGUIDsSupported",
        /// The SA answers PortInfoRecord in full length.
        FULL_PORT_INFO_RECORD = 0x040 "IsFullPortInfoRecordSupported",
        /// The SA knows extended link speeds.
        EXTENDED_SPEEDS = 0x080 "IsExtendedSpeedsSupported",
        /// The SA keeps multicast ServiceRecords.
        MULTICAST_SERVICE_RECORD = 0x100 "IsMulticastServiceRecordSupported",
        /// The SA matches single bits of CapabilityMask2 in PortInfoRecord.
        PORT_INFO_CAPABILITY_MASK2_MATCH = 0x400 "IsPortInfoCapMask2MatchSupported",
        /// The SA knows send-only full members of multicast groups.
        SEND_ONLY_FULL_MEMBER = 0x1000 "IsSendOnlyFullMemberSupported",
        /// The SA knows links of two lanes.
        LINK_WIDTH_2X = 0x2000 "IsLinkWidth2xSupported",
        /// The SA knows links at HDR.
        LINK_SPEED_HDR = 0x8000 "IsLinkSpeedHDRSupported",
    }
}

/// ClassPortInfo (IBA 13.4.8.1) of the SA, with its capabilities. This SA never redirects, and the
/// trap fields are unused.
///
/// ```text
/// byte  7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0
///    0  BaseVersion     | ClassVersion    | CapabilityMask
///    4  CapabilityMask2, 27 bits                                  | RespTime
///    8  RedirectGID
///   24  RedirectTC      | RedirectSL| RedirectFL
///   28  RedirectLID                       | RedirectP_Key
///   32  -               | RedirectQP
///   36  RedirectQ_Key
///   40  TrapGID
///   56  TrapTC          | TrapSL| TrapFL
///   60  TrapLID                           | TrapP_Key
///   64  TrapHL          | TrapQP
///   68  TrapQ_Key
/// ```
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct ClassPortInfo {
    base_version: u8,
    class_version: u8,
    capability_mask: U16,
    capability_mask2_and_resp_time: U32,
    redirect_gid: [u8; 16],
    redirect_tc_sl_fl: U32,
    redirect_lid: U16,
    redirect_p_key: U16,
    redirect_qp: U32,
    redirect_q_key: U32,
    trap_gid: [u8; 16],
    trap_tc_sl_fl: U32,
    trap_lid: U16,
    trap_p_key: U16,
    trap_hl_qp: U32,
    trap_q_key: U32,
}

record!(ClassPortInfo, 0x0001, "ClassPortInfo");

bits! { ClassPortInfo {
    /// The MAD base version that the SA supports.
    base_version, set_base_version: u8 = base_version;
    /// The class version that the SA supports.
    class_version, set_class_version: u8 = class_version;
    /// The capabilities of the SA.
    capability_mask, set_capability_mask: SaCapabilityMask = capability_mask;
    /// Further capabilities of the SA.
    capability_mask2, set_capability_mask2: SaCapabilityMask2 = capability_mask2_and_resp_time[31, 5];
    /// The time that the SA needs to answer: 4.096 µs × 2^value.
    resp_time_value, set_resp_time_value: u8 = capability_mask2_and_resp_time[4, 0];
    /// The TClass of the redirection of requests.
    redirect_tc, set_redirect_tc: u8 = redirect_tc_sl_fl[31, 24];
    /// The service level of the redirection of requests.
    redirect_sl, set_redirect_sl: u8 = redirect_tc_sl_fl[23, 20];
    /// The FlowLabel of the redirection of requests.
    redirect_fl, set_redirect_fl: u32 = redirect_tc_sl_fl[19, 0];
    /// The LID of the redirection of requests.
    redirect_lid, set_redirect_lid: Lid = redirect_lid;
    /// The P_Key of the redirection of requests.
    redirect_p_key, set_redirect_p_key: PKey = redirect_p_key;
    /// The queue pair of the redirection of requests.
    redirect_qp, set_redirect_qp: u32 = redirect_qp[23, 0];
    /// The Q_Key of the redirection of requests.
    redirect_q_key, set_redirect_q_key: u32 = redirect_q_key;
    /// The TClass of the destination of traps.
    trap_tc, set_trap_tc: u8 = trap_tc_sl_fl[31, 24];
    /// The service level of the destination of traps.
    trap_sl, set_trap_sl: u8 = trap_tc_sl_fl[23, 20];
    /// The FlowLabel of the destination of traps.
    trap_fl, set_trap_fl: u32 = trap_tc_sl_fl[19, 0];
    /// The LID of the destination of traps.
    trap_lid, set_trap_lid: Lid = trap_lid;
    /// The P_Key of the destination of traps.
    trap_p_key, set_trap_p_key: PKey = trap_p_key;
    /// The HopLimit of the destination of traps.
    trap_hl, set_trap_hl: u8 = trap_hl_qp[31, 24];
    /// The queue pair of the destination of traps.
    trap_qp, set_trap_qp: u32 = trap_hl_qp[23, 0];
    /// The Q_Key of the destination of traps.
    trap_q_key, set_trap_q_key: u32 = trap_q_key;
} }

gids! { ClassPortInfo {
    /// The GID of the redirection of requests.
    redirect_gid, set_redirect_gid = redirect_gid;
    /// The GID of the destination of traps.
    trap_gid, set_trap_gid = trap_gid;
} }

impl ClassPortInfo {
    const COMPONENT_TABLE: &'static [super::Component] = &[];
}
