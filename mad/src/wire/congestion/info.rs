use zerocopy::byteorder::network_endian::{U16, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::cc_attribute;
use crate::wire::bits;

/// CongestionInfo (IBA A10.4.3.3): the capabilities of a node.
///
/// ```text
/// byte  7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0
///    0  CongestionInfo                    | ControlTableCap
/// ```
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct CongestionInfo {
    congestion_info: U16,
    control_table_cap: u8,
}

cc_attribute!(CongestionInfo, CONGESTION_INFO);

bits! { CongestionInfo {
    /// The capabilities, in the numbering of the annex.
    congestion_info, set_congestion_info: u16 = congestion_info;
    /// The number of blocks of 64 entries that the CongestionControlTable of an adapter has.
    control_table_cap, set_control_table_cap: u8 = control_table_cap;
} }

/// CongestionKeyInfo (IBA A10.4.3.4): the key of an agent.
///
/// ```text
/// byte  7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0
///    0  CC_Key, to byte 7
///    8  P - - - - - - - | -               | CC_KeyLeasePeriod
///   12  CC_KeyViolations                  |
/// ```
///
/// P is CC_KeyProtectBit.
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct CongestionKeyInfo {
    cc_key: U64,
    protect: U16,
    lease_period: U16,
    violations: U16,
}

cc_attribute!(CongestionKeyInfo, CONGESTION_KEY_INFO);

bits! { CongestionKeyInfo {
    /// The key; zero means that the agent accepts requests with any key.
    cc_key, set_cc_key: u64 = cc_key;
    /// Whether the agent hides its key from requests with another key.
    protect_bit, set_protect_bit: bool = protect[15, 15];
    /// The time in seconds from a request with a wrong key until the agent ends its protection; 0
    /// means never.
    lease_period, set_lease_period: u16 = lease_period;
    /// The number of requests with a wrong key.
    violations, set_violations: u16 = violations;
} }
