use std::fmt;

use rsm_ids::PortNum;
use zerocopy::byteorder::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{CongestionControlTableEntry, cc_attribute};
use crate::wire::bits;
use crate::wire::codes::bit_mask;

bit_mask! {
    /// Control_Map of SwitchCongestionSetting: the fields that a Set changes.
    SwitchControlMap(u32) {
        /// A Set changes Victim_Mask.
        VICTIM_MASK = 0x01 "victim mask",
        /// A Set changes Credit_Mask.
        CREDIT_MASK = 0x02 "credit mask",
        /// A Set changes Threshold and Packet_Size.
        THRESHOLD = 0x04 "threshold and packet size",
        /// A Set changes CS_Threshold and CS_ReturnDelay.
        CREDIT_STARVATION = 0x08 "credit starvation",
        /// A Set changes Marking_Rate.
        MARKING_RATE = 0x10 "marking rate",
    }
}

/// A mask of the ports of a switch: port 0 is the lowest bit of the last byte.
#[derive(
    Clone, Copy, PartialEq, Eq, Default, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct PortMask(pub [u8; PortMask::LEN]);

impl PortMask {
    /// The length of the mask in bytes.
    pub const LEN: usize = 32;

    /// The index of the byte with the bit of `port`, and a mask with that bit.
    const fn byte_and_bit(port: PortNum) -> (usize, u8) {
        (Self::LEN - 1 - port.0 as usize / 8, 1 << (port.0 % 8))
    }

    /// Whether `port` is in the mask.
    pub const fn contains(&self, port: PortNum) -> bool {
        let (byte, bit) = Self::byte_and_bit(port);
        self.0[byte] & bit != 0
    }

    /// The mask with `port` added.
    pub const fn with(mut self, port: PortNum) -> PortMask {
        let (byte, bit) = Self::byte_and_bit(port);
        self.0[byte] |= bit;
        self
    }
}

/// The hexadecimal digits of the mask as a number of 256 bits, without leading zeroes.
impl fmt::Display for PortMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("0x")?;
        let Some(first) = self.0.iter().position(|&byte| byte != 0) else {
            return f.write_str("0");
        };
        write!(f, "{:x}", self.0[first])?;
        self.0[first + 1..]
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for PortMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// SwitchCongestionSetting (IBA A10.4.3.6): how a switch marks packets.
///
/// ```text
/// byte  7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0
///    0  Control_Map
///    4  Victim_Mask, to byte 35
///   36  Credit_Mask, to byte 67
///   68  Thresho.| - - - - | Packet_Size     | CS_Thr. | - - - - | -
///   72  CS_ReturnDelay                    | Marking_Rate
/// ```
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct SwitchCongestionSetting {
    control_map: U32,
    /// The ports that mark packets even as victims of congestion; other ports mark only as roots.
    pub victim_mask: PortMask,
    /// The ports that apply credit starvation.
    pub credit_mask: PortMask,
    threshold: u8,
    packet_size: u8,
    cs_threshold: U16,
    /// The delay with which a starved port returns credits.
    pub cs_return_delay: CongestionControlTableEntry,
    marking_rate: U16,
}

cc_attribute!(SwitchCongestionSetting, SWITCH_CONGESTION_SETTING);

bits! { SwitchCongestionSetting {
    /// The fields that a Set changes.
    control_map, set_control_map: SwitchControlMap = control_map;
    /// The willingness of a port to mark packets, 0 (never) to 15 (most often).
    threshold, set_threshold: u8 = threshold[7, 4];
    /// The size below which a packet is not marked, in credits of 64 bytes.
    packet_size, set_packet_size: u8 = packet_size;
    /// The willingness of a port to apply credit starvation, 0 (never) to 15 (most often).
    cs_threshold, set_cs_threshold: u8 = cs_threshold[15, 12];
    /// The mean number of packets between two marks.
    marking_rate, set_marking_rate: u16 = marking_rate;
} }

/// The number of ports in a block of a [`SwitchPortCongestionSetting`].
pub const PORT_BLOCK_LEN: usize = 48;

/// An entry of [`SwitchPortCongestionSetting`] (IBA A10.4.3.7): one port.
///
/// ```text
/// byte  7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0
///    0  V C - - Thresho.| Packet_Size     | Cong_Parm_Marking_Rate
/// ```
///
/// V is Valid; C is Control_Type.
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
pub struct SwitchPortCongestionEntry {
    control: u8,
    packet_size: u8,
    marking_rate: U16,
}

bits! { SwitchPortCongestionEntry {
    /// Whether the port has its own setting, which differs from the setting of its switch. A Set
    /// changes the entries with this bit.
    valid, set_valid: bool = control[7, 7];
    /// Whether the port applies credit starvation rather than marking.
    control_type, set_control_type: bool = control[6, 6];
    /// The willingness of the port to mark packets, 0 (never) to 15 (most often).
    threshold, set_threshold: u8 = control[3, 0];
    /// The size below which a packet is not marked, in credits of 64 bytes.
    packet_size, set_packet_size: u8 = packet_size;
    /// The mean number of packets between two marks; with credit starvation, the delay with which
    /// credits are returned.
    marking_rate, set_marking_rate: u16 = marking_rate;
} }

/// SwitchPortCongestionSetting (IBA A10.4.3.7): 48 ports of a switch, from port 0 on. The attribute
/// modifier is the number of the block.
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct SwitchPortCongestionSetting {
    /// The entries of the block by port.
    pub entries: [SwitchPortCongestionEntry; PORT_BLOCK_LEN],
}

cc_attribute!(SwitchPortCongestionSetting, SWITCH_PORT_CONGESTION_SETTING);
