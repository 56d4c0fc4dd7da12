use rsm_ids::{Lid, PortNum};
use zerocopy::byteorder::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{components, record};
use crate::wire::attr::PortInfo;
use crate::wire::bits::bits;

/// PortInfoRecord (IBA 15.2.5.3): the PortInfo of an end port or of an external port of a switch.
///
/// ```text
/// byte  0  EndportLID      | PortNum | Options
///       4  PortInfo, 64 bytes
///      68  - to byte 71
/// ```
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct PortInfoRecord {
    end_port_lid: U16,
    port: u8,
    options: u8,
    port_info: PortInfo,
    reserved: [u8; 4],
}

record!(PortInfoRecord, 0x0012, "PortInfoRecord");

bits! { PortInfoRecord {
    /// The base LID of the end port; for an external port of a switch the base LID of port 0.
    end_port_lid, set_end_port_lid: Lid = end_port_lid;
    /// The number of the port.
    port_num, set_port_num: PortNum = port;
    /// The options of the query. The top bit requests that extended link speeds and CapabilityMask2
    /// are returned unchanged.
    options, set_options: u8 = options;
} }

components! { PortInfoRecord {
    0 END_PORT_LID = "EndportLID" at 0, 16;
    1 PORT_NUM = "PortNum" at 16, 8;
    2 OPTIONS = "Options" at 24, 8;
    3 M_KEY = "M_Key" at 32, 64;
    4 GID_PREFIX = "GidPrefix" at 96, 64;
    5 BASE_LID = "LID" at 160, 16;
    6 MASTER_SM_LID = "MasterSMLID" at 176, 16;
    7 CAPABILITY_MASK = "CapabilityMask" at 192, 32;
    8 DIAG_CODE = "DiagCode" at 224, 16;
    9 M_KEY_LEASE_PERIOD = "M_KeyLeasePeriod" at 240, 16;
    10 LOCAL_PORT_NUM = "LocalPortNum" at 256, 8;
    11 LINK_WIDTH_ENABLED = "LinkWidthEnabled" at 264, 8;
    12 LINK_WIDTH_SUPPORTED = "LinkWidthSupported" at 272, 8;
    13 LINK_WIDTH_ACTIVE = "LinkWidthActive" at 280, 8;
    14 LINK_SPEED_SUPPORTED = "LinkSpeedSupported" at 288, 4;
    15 PORT_STATE = "PortState" at 292, 4;
    16 PORT_PHYSICAL_STATE = "PortPhysicalState" at 296, 4;
    17 LINK_DOWN_DEFAULT_STATE = "LinkDownDefaultState" at 300, 4;
    18 M_KEY_PROTECT_BITS = "M_KeyProtectBits" at 304, 2;
    20 LMC = "LMC" at 309, 3;
    21 LINK_SPEED_ACTIVE = "LinkSpeedActive" at 312, 4;
    22 LINK_SPEED_ENABLED = "LinkSpeedEnabled" at 316, 4;
    23 NEIGHBOR_MTU = "NeighborMTU" at 320, 4;
    24 MASTER_SM_SL = "MasterSMSL" at 324, 4;
    25 VL_CAP = "VLCap" at 328, 4;
    26 INIT_TYPE = "InitType" at 332, 4;
    27 VL_HIGH_LIMIT = "VLHighLimit" at 336, 8;
    28 VL_ARBITRATION_HIGH_CAP = "VLArbitrationHighCap" at 344, 8;
    29 VL_ARBITRATION_LOW_CAP = "VLArbitrationLowCap" at 352, 8;
    30 INIT_TYPE_REPLY = "InitTypeReply" at 360, 4;
    31 MTU_CAP = "MTUCap" at 364, 4;
    32 VL_STALL_COUNT = "VLStallCount" at 368, 3;
    33 HOQ_LIFE = "HOQLife" at 371, 5;
    34 OPERATIONAL_VLS = "OperationalVLs" at 376, 4;
    35 PARTITION_ENFORCEMENT_INBOUND = "PartitionEnforcementInbound" at 380, 1;
    36 PARTITION_ENFORCEMENT_OUTBOUND = "PartitionEnforcementOutbound" at 381, 1;
    37 FILTER_RAW_INBOUND = "FilterRawInbound" at 382, 1;
    38 FILTER_RAW_OUTBOUND = "FilterRawOutbound" at 383, 1;
    39 M_KEY_VIOLATIONS = "M_KeyViolations" at 384, 16;
    40 P_KEY_VIOLATIONS = "P_KeyViolations" at 400, 16;
    41 Q_KEY_VIOLATIONS = "Q_KeyViolations" at 416, 16;
    42 GUID_CAP = "GUIDCap" at 432, 8;
    43 CLIENT_REREGISTER = "ClientReregister" at 440, 1;
    44 MULTICAST_P_KEY_TRAP_SUPPRESSION_ENABLED = "MulticastPKeyTrapSuppressionEnabled" at 441, 2;
    45 SUBNET_TIMEOUT = "SubnetTimeOut" at 443, 5;
    47 RESP_TIME_VALUE = "RespTimeValue" at 451, 5;
    48 LOCAL_PHY_ERRORS = "LocalPhyErrors" at 456, 4;
    49 OVERRUN_ERRORS = "OverrunErrors" at 460, 4;
    50 MAX_CREDIT_HINT = "MaxCreditHint" at 464, 16;
    52 LINK_ROUND_TRIP_LATENCY = "LinkRoundTripLatency" at 488, 24;
    53 CAPABILITY_MASK2 = "CapabilityMask2" at 512, 16;
    54 LINK_SPEED_EXT_ACTIVE = "LinkSpeedExtActive" at 528, 4;
    55 LINK_SPEED_EXT_SUPPORTED = "LinkSpeedExtSupported" at 532, 4;
    57 LINK_SPEED_EXT_ENABLED = "LinkSpeedExtEnabled" at 539, 5;
} }

impl PortInfoRecord {
    /// A bit of a query's attribute modifier. If it is set, CapabilityMask and CapabilityMask2
    /// match if they have all bits that are set in the query (IBA 15.4.4).
    pub const CAPABILITY_MASK_MATCH: u32 = 1 << 31;

    /// The top bit of Options: the requester knows extended link speeds and CapabilityMask2.
    pub const EXTENDED_SPEEDS: u8 = 0x80;

    /// The PortInfo of the port.
    pub fn port_info(&self) -> &PortInfo {
        &self.port_info
    }

    /// The PortInfo of the port, mutable in place.
    pub fn port_info_mut(&mut self) -> &mut PortInfo {
        &mut self.port_info
    }
}
