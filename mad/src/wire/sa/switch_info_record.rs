use rsm_ids::Lid;
use zerocopy::byteorder::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{components, narrow, record, widen};
use crate::wire::attr::SwitchInfo;
use crate::wire::bits::bits;

/// SwitchInfoRecord (IBA 15.2.5.5): a switch.
///
/// ```text
/// byte  0  LID             | -
///       4  SwitchInfo, 20 bytes
/// ```
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct SwitchInfoRecord {
    lid: U16,
    reserved_2: [u8; 2],
    switch_info: [u8; 20],
}

record!(SwitchInfoRecord, 0x0014, "SwitchInfoRecord");

bits! { SwitchInfoRecord {
    /// The LID of the switch's port 0.
    lid, set_lid: Lid = lid;
} }

components! { SwitchInfoRecord {
    0 LID = "LID" at 0, 16;
    2 LINEAR_FDB_CAP = "LinearFDBCap" at 32, 16;
    3 RANDOM_FDB_CAP = "RandomFDBCap" at 48, 16;
    4 MULTICAST_FDB_CAP = "MulticastFDBCap" at 64, 16;
    5 LINEAR_FDB_TOP = "LinearFDBTop" at 80, 16;
    6 DEFAULT_PORT = "DefaultPort" at 96, 8;
    7 DEFAULT_MULTICAST_PRIMARY_PORT = "DefaultMulticastPrimaryPort" at 104, 8;
    8 DEFAULT_MULTICAST_NOT_PRIMARY_PORT = "DefaultMulticastNotPrimaryPort" at 112, 8;
    9 LIFE_TIME_VALUE = "LifeTimeValue" at 120, 5;
    10 PORT_STATE_CHANGE = "PortStateChange" at 125, 1;
    11 OPTIMIZED_SL_TO_VL_MAPPING_PROGRAMMING = "OptimizedSLtoVLMappingProgramming" at 126, 2;
    12 LIDS_PER_PORT = "LIDsPerPort" at 128, 16;
    13 PARTITION_ENFORCEMENT_CAP = "PartitionEnforcementCap" at 144, 16;
    14 INBOUND_ENFORCEMENT_CAP = "InboundEnforcementCap" at 160, 1;
    15 OUTBOUND_ENFORCEMENT_CAP = "OutboundEnforcementCap" at 161, 1;
    16 FILTER_RAW_INBOUND_CAP = "FilterRawInboundCap" at 162, 1;
    17 FILTER_RAW_OUTBOUND_CAP = "FilterRawOutboundCap" at 163, 1;
    18 ENHANCED_PORT0 = "EnhancedPort0" at 164, 1;
    20 MULTICAST_FDB_TOP = "MulticastFDBTop" at 176, 16;
} }

impl SwitchInfoRecord {
    /// The SwitchInfo of the switch.
    pub fn switch_info(&self) -> SwitchInfo {
        widen(&self.switch_info)
    }

    /// Sets [`Self::switch_info`].
    pub fn set_switch_info(&mut self, info: &SwitchInfo) -> &mut Self {
        self.switch_info = narrow(info);
        self
    }
}
