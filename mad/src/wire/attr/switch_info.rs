use rsm_ids::{Lid, PortNum};
use zerocopy::byteorder::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::attribute;
use crate::wire::bits::bits;

/// SwitchInfo (IBA 14.2.5.4): capacities, tops and flags of a switch.
///
/// ```text
/// byte  7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0
///    0  LinearFDBCap                      | RandomFDBCap
///    4  MulticastFDBCap                   | LinearFDBTop
///    8  DefaultPort     | DefMcastPrimary | DefMcastNotPrim | LifeTime|P|Opt
///   12  LIDsPerPort                       | PartitionEnforcementCap
///   16  I|O|R|S|E|- - - | - - - - - - - - | MulticastFDBTop
///   20  - to byte 63
/// ```
///
/// P is PortStateChange, Opt OptimizedSLtoVLMappingProgramming, I InboundEnforcementCap, O
/// OutboundEnforcementCap, R FilterRawInboundCap, S FilterRawOutboundCap and E EnhancedPort0.
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct SwitchInfo {
    linear_fdb_cap: U16,
    random_fdb_cap: U16,
    multicast_fdb_cap: U16,
    linear_fdb_top: U16,
    default_port: u8,
    default_multicast_primary_port: u8,
    default_multicast_not_primary_port: u8,
    life_time_and_flags: u8,
    lids_per_port: U16,
    partition_enforcement_cap: U16,
    flags: u8,
    reserved_17: u8,
    multicast_fdb_top: U16,
    reserved: [u8; 44],
}

attribute!(SwitchInfo, SWITCH_INFO, "SwitchInfo");

bits! { SwitchInfo {
    /// The number of entries that the linear forwarding table can hold, from LID 0. Read only.
    linear_fdb_cap, set_linear_fdb_cap: u16 = linear_fdb_cap;
    /// The number of entries of the random forwarding table; 0 if the switch has none. Read only.
    random_fdb_cap, set_random_fdb_cap: u16 = random_fdb_cap;
    /// The number of entries of the multicast forwarding table, from LID 0xC000. Read only.
    multicast_fdb_cap, set_multicast_fdb_cap: u16 = multicast_fdb_cap;
    /// The highest LID whose linear forwarding entry is used; packets to higher LIDs are dropped.
    linear_fdb_top, set_linear_fdb_top: Lid = linear_fdb_top;
    /// The port for LIDs that a random forwarding table does not list.
    default_port, set_default_port: PortNum = default_port;
    /// The exit port of multicast packets without a table entry that entered by any port but the
    /// primary port.
    default_multicast_primary_port, set_default_multicast_primary_port: PortNum = default_multicast_primary_port;
    /// The exit port of multicast packets without a table entry that entered by the primary port.
    default_multicast_not_primary_port, set_default_multicast_not_primary_port: PortNum = default_multicast_not_primary_port;
    /// LifeTimeValue: the switch drops packets that it has held for more than 4.096 µs × 2^value; 0
    /// to 31. Above 19, the switch never drops packets for their age.
    life_time_value, set_life_time_value: u8 = life_time_and_flags[7, 3];
    /// Whether the state of some port has changed since this bit was last cleared; writing 1 clears
    /// the bit.
    port_state_change, set_port_state_change: bool = life_time_and_flags[2, 2];
    /// OptimizedSLtoVLMappingProgramming: nonzero if one Set of an SLtoVLMappingTable can cover
    /// many ports; see
    /// [`SlToVlMapping::modifier_all_ports`](super::SlToVlMapping::modifier_all_ports). 0 to 3.
    /// Read only.
    optimized_sl_to_vl_mapping_programming, set_optimized_sl_to_vl_mapping_programming: u8 = life_time_and_flags[1, 0];
    /// The number of LIDs that a random forwarding table entry can cover at a port. Read only.
    lids_per_port, set_lids_per_port: u16 = lids_per_port;
    /// The number of P_KeyTable entries of each external port; 0 if the switch does not enforce
    /// partitions. Read only.
    partition_enforcement_cap, set_partition_enforcement_cap: u16 = partition_enforcement_cap;
    /// Whether the switch can enforce partitions on packets that enter by a port. Read only.
    inbound_enforcement_cap, set_inbound_enforcement_cap: bool = flags[7, 7];
    /// Whether the switch can enforce partitions on packets that leave by a port. Read only.
    outbound_enforcement_cap, set_outbound_enforcement_cap: bool = flags[6, 6];
    /// Whether the switch can filter raw packets that enter by a port. Read only.
    filter_raw_inbound_cap, set_filter_raw_inbound_cap: bool = flags[5, 5];
    /// Whether the switch can filter raw packets that leave by a port. Read only.
    filter_raw_outbound_cap, set_filter_raw_outbound_cap: bool = flags[4, 4];
    /// Whether port 0 is an enhanced port 0, with all functions of a CA port. Read only.
    enhanced_port0, set_enhanced_port0: bool = flags[3, 3];
    /// The highest multicast LID whose forwarding entry is used; 0 means the whole table, and
    /// 0xBFFF means no entry. The field is valid if
    /// [`CapabilityMask::IS_MULTICAST_FDB_TOP_SUPPORTED`](super::CapabilityMask::IS_MULTICAST_FDB_TOP_SUPPORTED)
    /// is set on port 0.
    multicast_fdb_top, set_multicast_fdb_top: Lid = multicast_fdb_top;
} }
