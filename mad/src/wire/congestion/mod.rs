//! Congestion control: its datagrams and attributes (IBA annex A10).
//!
//! Switches mark packets that wait in a queue (FECN); adapters answer a mark with a notification
//! (BECN) and then send more slowly. The settings of switches and adapters are attributes of a
//! general service class, which a CC_Key protects.

mod adapter;
mod info;
mod log;
mod switch;

use std::fmt;

use zerocopy::byteorder::network_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

pub use adapter::{
    CaCongestionEntry, CaCongestionSetting, CongestionControlTable, CongestionControlTableEntry,
    TABLE_BLOCK_LEN,
};
pub use info::{CongestionInfo, CongestionKeyInfo};
pub use log::{
    ADAPTER_LOG, ADAPTER_LOG_LEN, AdapterCongestionLog, AdapterLogEvent, CongestionTimestamp,
    SWITCH_LOG, SWITCH_LOG_LEN, SwitchCongestionLog, SwitchLogEvent,
};
pub use switch::{
    PORT_BLOCK_LEN, PortMask, SwitchCongestionSetting, SwitchControlMap, SwitchPortCongestionEntry,
    SwitchPortCongestionSetting,
};

use super::bits;
use super::header::{AttrId, BASE_VERSION, Class, MadHeader, Method, Status};
use super::{MAD_LEN, MadBytes};
use crate::ids::Tid;

/// The version of the class that OpenSM and infiniband-diags use.
pub const CLASS_VERSION: u8 = 2;

/// The number of management data bytes in a datagram of congestion control.
pub const CC_DATA_LEN: usize = 192;

/// The number of bytes of a datagram of congestion control that a CongestionLog may fill: log data
/// and management data.
pub const CC_LOG_LEN: usize = 224;

/// The attribute identifiers of this class, with numbers that are specific to the class (IBA
/// A10.4.3).
pub mod attribute {
    use super::AttrId;

    /// The capabilities of the agent; laid out as [`crate::wire::sa::ClassPortInfo`].
    pub const CLASS_PORT_INFO: AttrId = AttrId(0x0001);
    /// The capabilities of the node.
    pub const CONGESTION_INFO: AttrId = AttrId(0x0011);
    /// The key of the agent.
    pub const CONGESTION_KEY_INFO: AttrId = AttrId(0x0012);
    /// The events that the agent recorded; laid out at [`super::CcMad::log_mut`].
    pub const CONGESTION_LOG: AttrId = AttrId(0x0013);
    /// The settings by which a switch marks packets.
    pub const SWITCH_CONGESTION_SETTING: AttrId = AttrId(0x0014);
    /// The settings by which single ports of a switch mark packets.
    pub const SWITCH_PORT_CONGESTION_SETTING: AttrId = AttrId(0x0015);
    /// The settings by which an adapter slows down, for each service level.
    pub const CA_CONGESTION_SETTING: AttrId = AttrId(0x0016);
    /// The delays by which an adapter slows down.
    pub const CONGESTION_CONTROL_TABLE: AttrId = AttrId(0x0017);
    /// The clock of the agent.
    pub const TIMESTAMP: AttrId = AttrId(0x0018);
}

/// An attribute of congestion control: a view of the first bytes of the management data.
pub trait CcAttribute:
    Copy + Default + FromBytes + IntoBytes + Immutable + KnownLayout + Unaligned
{
    /// The identifier that names the attribute in the header.
    const ID: AttrId;

    /// The attribute at the front of `data`.
    fn of(data: &[u8; CC_DATA_LEN]) -> Self {
        const { assert!(size_of::<Self>() <= CC_DATA_LEN) };
        let mut value = Self::default();
        let length = size_of::<Self>();
        value.as_mut_bytes().copy_from_slice(&data[..length]);
        value
    }

    /// The management data that begin with the attribute and end with zeroes.
    fn to_data(&self) -> [u8; CC_DATA_LEN] {
        let mut data = [0; CC_DATA_LEN];
        data[..size_of::<Self>()].copy_from_slice(self.as_bytes());
        data
    }
}

/// Implements [`CcAttribute`] for a zerocopy structure, with a `Default` of zeroes.
macro_rules! cc_attribute {
    ($view:ident, $id:ident) => {
        impl $crate::wire::congestion::CcAttribute for $view {
            const ID: $crate::wire::header::AttrId = $crate::wire::congestion::attribute::$id;
        }

        impl Default for $view {
            fn default() -> Self {
                zerocopy::FromZeros::new_zeroed()
            }
        }
    };
}
use cc_attribute;

/// A datagram of congestion control (IBA A10.4.1).
///
/// ```text
/// byte
///    0  common header
///   24  CC_Key
///   32  log data to byte 63; a CongestionLog begins here
///   64  management data to byte 255
/// ```
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct CcMad {
    header: MadHeader,
    cc_key: U64,
    log: [u8; 32],
    data: [u8; CC_DATA_LEN],
}

const _: () = assert!(size_of::<CcMad>() == MAD_LEN);

bits! { CcMad {
    /// The key that the agent compares with its own.
    cc_key, set_cc_key: u64 = cc_key;
} }

impl CcMad {
    /// A request with management data.
    pub fn request(
        method: Method,
        attribute: AttrId,
        modifier: u32,
        tid: Tid,
        cc_key: u64,
        data: &[u8; CC_DATA_LEN],
    ) -> CcMad {
        let mut header = MadHeader::default();
        header
            .set_base_version(BASE_VERSION)
            .set_class(Class::CONGESTION_CONTROL)
            .set_class_version(CLASS_VERSION)
            .set_method(method)
            .set_attribute(attribute)
            .set_modifier(modifier)
            .set_tid(tid);
        CcMad {
            header,
            cc_key: U64::new(cc_key),
            log: [0; 32],
            data: *data,
        }
    }

    /// The datagram in `bytes`.
    pub fn from_bytes(bytes: &MadBytes) -> &CcMad {
        zerocopy::transmute_ref!(bytes)
    }

    /// The datagram in `bytes`, mutable in place.
    pub fn from_bytes_mut(bytes: &mut MadBytes) -> &mut CcMad {
        zerocopy::transmute_mut!(bytes)
    }

    /// The bytes of the datagram.
    pub fn as_bytes(&self) -> &MadBytes {
        zerocopy::transmute_ref!(self)
    }

    /// The common header.
    pub fn header(&self) -> &MadHeader {
        &self.header
    }

    /// The management data.
    pub fn data(&self) -> &[u8; CC_DATA_LEN] {
        &self.data
    }

    /// The log data and the management data, which together contain a CongestionLog.
    pub fn log(&self) -> &[u8; CC_LOG_LEN] {
        let (_, log) = self
            .as_bytes()
            .split_last_chunk()
            .expect("a MAD is longer than a log");
        log
    }

    /// The log data and the management data, mutable in place.
    pub fn log_mut(&mut self) -> &mut [u8; CC_LOG_LEN] {
        let bytes: &mut MadBytes = zerocopy::transmute_mut!(self);
        let (_, log) = bytes
            .split_last_chunk_mut()
            .expect("a MAD is longer than a log");
        log
    }

    /// The management data, mutable in place.
    pub fn data_mut(&mut self) -> &mut [u8; CC_DATA_LEN] {
        &mut self.data
    }
}

impl fmt::Debug for CcMad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.header.write_with(Status(self.header.status().0), f)
    }
}
