use std::fmt;

use rsm_ids::Guid;
use zerocopy::byteorder::network_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::attribute;
use crate::wire::bits::bits;
use crate::wire::codes::code_enum;

code_enum! {
    /// The state of a subnet manager (IBA 14.4.1).
    SmState {
        /// Another manager disabled the manager.
        NotActive = 0 "NOTACTIVE",
        /// The manager looks for nodes and for other managers.
        Discovering = 1 "DISCOVERING",
        /// The manager waits until the master fails or hands over.
        Standby = 2 "STANDBY",
        /// The manager manages the subnet.
        Master = 3 "MASTER",
    }
}

/// The attribute modifier of SMInfo: in a Set, the command of one manager to another (IBA 14.4.1).
/// Values without a name are kept.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SmControl(pub u32);

impl SmControl {
    /// The value in a Get, which carries no command.
    pub const NONE: SmControl = SmControl(0);
    /// The sender hands over: the receiver is to become the master.
    pub const HANDOVER: SmControl = SmControl(1);
    /// The sender has become the master after a handover.
    pub const ACKNOWLEDGE: SmControl = SmControl(2);
    /// The receiver, which is in standby, shall become not active.
    pub const DISABLE: SmControl = SmControl(3);
    /// The receiver, which is not active, shall become a standby.
    pub const STANDBY: SmControl = SmControl(4);
    /// The receiver, which is in standby, shall discover.
    pub const DISCOVER: SmControl = SmControl(5);
}

impl fmt::Display for SmControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NONE => f.pad("none"),
            Self::HANDOVER => f.pad("HANDOVER"),
            Self::ACKNOWLEDGE => f.pad("ACKNOWLEDGE"),
            Self::DISABLE => f.pad("DISABLE"),
            Self::STANDBY => f.pad("STANDBY"),
            Self::DISCOVER => f.pad("DISCOVER"),
            SmControl(value) => write!(f, "{value:#x}"),
        }
    }
}

impl fmt::Debug for SmControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// SMInfo (IBA 14.2.5.13): a subnet manager, its state and priority.
///
/// ```text
/// byte  7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0
///    0  GUID
///    8  SM_Key
///   16  ActCount
///   20  Priority| State | - to byte 63
/// ```
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct SmInfo {
    guid: U64,
    sm_key: U64,
    act_count: U32,
    priority_and_state: u8,
    reserved: [u8; 43],
}

attribute!(SmInfo, SM_INFO, "SMInfo");

bits! { SmInfo {
    /// The GUID of the port behind which the manager runs.
    guid, set_guid: Guid = guid;
    /// The key by which managers trust each other; 0 in an answer to an untrusted manager.
    sm_key, set_sm_key: u64 = sm_key;
    /// A counter that increases while the manager runs.
    act_count, set_act_count: u32 = act_count;
    /// The priority, 0 to 15. The manager with the highest priority becomes the master; between
    /// equal priorities, the manager with the lowest GUID.
    priority, set_priority: u8 = priority_and_state[7, 4];
    /// The manager's state.
    sm_state, set_sm_state: SmState = priority_and_state[3, 0];
} }
