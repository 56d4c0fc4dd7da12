use zerocopy::byteorder::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{CC_LOG_LEN, PortMask};
use crate::wire::bits;

/// LogType of the log of a switch.
pub const SWITCH_LOG: u8 = 1;

/// LogType of the log of an adapter.
pub const ADAPTER_LOG: u8 = 2;

/// The number of events in the log of a switch.
pub const SWITCH_LOG_LEN: usize = 15;

/// The number of events in the log of an adapter. The annex has 16, which do not fit into a
/// datagram since its errata; infiniband-diags reads 13.
pub const ADAPTER_LOG_LEN: usize = 13;

/// An event in the log of a switch, 12 bytes; an empty entry is zero.
pub type SwitchLogEvent = [u8; 12];

/// An event in the log of an adapter, 16 bytes; an empty entry is zero.
pub type AdapterLogEvent = [u8; 16];

/// CongestionLog of a switch (IBA A10.4.3.5): the packets that the switch marked.
///
/// ```text
/// byte  7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0
///    0  LogType         | CongestionFlags | LogEventsCounter
///    4  CurrentTimeStamp
///    8  PortMap, to byte 39
///   40  CongestionLogEvents: 15 events of 12 bytes, to byte 219
/// ```
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct SwitchCongestionLog {
    log_type: u8,
    congestion_flags: u8,
    events: U16,
    current_time: U32,
    /// The ports that marked packets.
    pub port_map: PortMask,
    /// The latest events.
    pub log: [SwitchLogEvent; SWITCH_LOG_LEN],
}

bits! { SwitchCongestionLog {
    /// The kind of the log, [`SWITCH_LOG`].
    log_type, set_log_type: u8 = log_type;
    /// The conditions that are true now, by bits in the numbering of the annex.
    congestion_flags, set_congestion_flags: u8 = congestion_flags;
    /// The number of events since the log was last read.
    events, set_events: u16 = events;
    /// The time of the answer, in units of 1.024 µs.
    current_time, set_current_time: u32 = current_time;
} }

/// CongestionLog of an adapter (IBA A10.4.3.5): the notifications that made the adapter slow down.
///
/// ```text
/// byte  7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0
///    0  LogType         | CongestionFlags | ThresholdEventCounter
///    4  ThresholdCongestionEventMap       | -
///    8  CurrentTimeStamp
///   12  CongestionLogEvents: 13 events of 16 bytes, to byte 219
/// ```
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct AdapterCongestionLog {
    log_type: u8,
    congestion_flags: u8,
    events: U16,
    event_map: U16,
    reserved: U16,
    current_time: U32,
    /// The latest events.
    pub log: [AdapterLogEvent; ADAPTER_LOG_LEN],
}

bits! { AdapterCongestionLog {
    /// The kind of the log, [`ADAPTER_LOG`].
    log_type, set_log_type: u8 = log_type;
    /// The conditions that are true now, by bits in the numbering of the annex.
    congestion_flags, set_congestion_flags: u8 = congestion_flags;
    /// The number of events since the log was last read.
    events, set_events: u16 = events;
    /// The service levels with events, by bits.
    event_map, set_event_map: u16 = event_map;
    /// The time of the answer, in units of 1.024 µs.
    current_time, set_current_time: u32 = current_time;
} }

/// Implements for a log its `Default`, which has no events, and its bytes in a datagram.
macro_rules! congestion_log {
    ($view:ident, $log_type:ident) => {
        impl Default for $view {
            fn default() -> Self {
                let mut log: Self = zerocopy::FromZeros::new_zeroed();
                log.set_log_type($log_type);
                log
            }
        }

        impl $view {
            /// The bytes of a datagram from the log data on, which end with zeroes.
            pub fn to_log(&self) -> [u8; CC_LOG_LEN] {
                const { assert!(size_of::<$view>() <= CC_LOG_LEN) };
                let mut bytes = [0; CC_LOG_LEN];
                bytes[..size_of::<$view>()].copy_from_slice(self.as_bytes());
                bytes
            }
        }
    };
}

congestion_log!(SwitchCongestionLog, SWITCH_LOG);
congestion_log!(AdapterCongestionLog, ADAPTER_LOG);

/// Timestamp (IBA A10.4.3.10): the clock of the agent.
///
/// ```text
/// byte  7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0
///    0  TimeStamp
/// ```
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct CongestionTimestamp {
    time: U32,
}

super::cc_attribute!(CongestionTimestamp, TIMESTAMP);

bits! { CongestionTimestamp {
    /// The time of the answer, in units of 1.024 µs.
    time, set_time: u32 = time;
} }
