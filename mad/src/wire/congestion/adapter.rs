use zerocopy::byteorder::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::cc_attribute;
use crate::wire::bits;

/// The number of entries in a block of a [`CongestionControlTable`].
pub const TABLE_BLOCK_LEN: usize = 64;

/// An entry of [`CaCongestionSetting`] (IBA A10.4.3.8): one service level.
///
/// ```text
/// byte  7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0
///    0  CCTI_Timer                        | CCTI_Increase   | Trigger_Thresh.
///    4  CCTI_Min        | -
/// ```
#[derive(
    Clone,
    Copy,
    PartialEq,
    Eq,
    Default,
    Debug,
    FromBytes,
    IntoBytes,
    Immutable,
    KnownLayout,
    Unaligned,
)]
#[repr(C)]
pub struct CaCongestionEntry {
    ccti_timer: U16,
    ccti_increase: u8,
    trigger_threshold: u8,
    ccti_min: u8,
    reserved: [u8; 3],
}

bits! { CaCongestionEntry {
    /// The time after which the index into the table decreases by one, in units of 1.024 µs.
    ccti_timer, set_ccti_timer: u16 = ccti_timer;
    /// The number by which a BECN increases the index.
    ccti_increase, set_ccti_increase: u8 = ccti_increase;
    /// The index at which the adapter logs an event.
    trigger_threshold, set_trigger_threshold: u8 = trigger_threshold;
    /// The lowest value of the index.
    ccti_min, set_ccti_min: u8 = ccti_min;
} }

/// CACongestionSetting (IBA A10.4.3.8): how an adapter slows down, by service level.
///
/// ```text
/// byte  7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0
///    0  Port_Control                      | Control_Map
///    4  CACongestionEntryList: 16 entries of 8 bytes, to byte 131
/// ```
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct CaCongestionSetting {
    port_control: U16,
    control_map: U16,
    /// The entries by service level.
    pub entries: [CaCongestionEntry; 16],
}

cc_attribute!(CaCongestionSetting, CA_CONGESTION_SETTING);

bits! { CaCongestionSetting {
    /// Bit 0 states whether all packets of a service level of the port slow down together, or only
    /// the packets of one queue pair.
    port_control, set_port_control: u16 = port_control;
    /// The service levels whose entries a Set changes, by bits.
    control_map, set_control_map: u16 = control_map;
} }

/// An entry of a [`CongestionControlTable`] (IBA A10.4.3.9): a delay between packets.
///
/// ```text
/// byte  7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0
///    0  Sh. | CCT_Multiplier
/// ```
///
/// Sh. is CCT_Shift.
#[derive(
    Clone,
    Copy,
    PartialEq,
    Eq,
    Default,
    Debug,
    FromBytes,
    IntoBytes,
    Immutable,
    KnownLayout,
    Unaligned,
)]
#[repr(C)]
pub struct CongestionControlTableEntry {
    shift_multiplier: U16,
}

bits! { CongestionControlTableEntry {
    /// The exponent of the delay, 0 to 3.
    shift, set_shift: u8 = shift_multiplier[15, 14];
    /// The factor of the delay, 0 to 16,383.
    multiplier, set_multiplier: u16 = shift_multiplier[13, 0];
} }

/// CongestionControlTable (IBA A10.4.3.9): a block of delays, from which the index of a service
/// level or queue pair selects one. The attribute modifier is the number of the block.
///
/// ```text
/// byte  7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0
///    0  CCTI_Limit                        | -
///    4  CCTEntryList: 64 entries of 2 bytes, to byte 131
/// ```
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct CongestionControlTable {
    ccti_limit: U16,
    reserved: U16,
    /// The entries of the block.
    pub entries: [CongestionControlTableEntry; TABLE_BLOCK_LEN],
}

cc_attribute!(CongestionControlTable, CONGESTION_CONTROL_TABLE);

bits! { CongestionControlTable {
    /// The highest index of the whole table.
    ccti_limit, set_ccti_limit: u16 = ccti_limit;
} }
