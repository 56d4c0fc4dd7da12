use rsm_ids::PortNum;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::attribute;

/// SLtoVLMappingTable (IBA 14.2.5.8): the VL on which packets of each service level leave a port.
/// Packets of a service level that is mapped to VL 15 are dropped.
///
/// ```text
/// byte  7 6 5 4 | 3 2 1 0
///    0  SL0toVL | SL1toVL
///    1  SL2toVL | SL3toVL
///    .  ...
///    7  SL14toVL| SL15toVL
///    8  - to byte 63
/// ```
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct SlToVlMapping {
    pairs: [u8; Self::ENTRIES / 2],
    reserved: [u8; 56],
}

attribute!(SlToVlMapping, SL_TO_VL_MAPPING, "SLtoVLMappingTable");

impl SlToVlMapping {
    /// The number of service levels.
    pub const ENTRIES: usize = 16;
    /// The VL number that drops packets of a service level, 15.
    pub const DROP: u8 = 15;

    const ALL_OUTPUTS: u32 = 1 << 16;
    const ALL_INPUTS: u32 = 1 << 17;

    /// The attribute modifier of the table for packets from port `input` to port `output` of a
    /// switch. The modifier is 0 for CAs and routers.
    pub const fn modifier(input: PortNum, output: PortNum) -> u32 {
        (input.0 as u32) << 8 | output.0 as u32
    }

    /// The attribute modifier that sets one table from every input to every output at once, if
    /// [`SwitchInfo::optimized_sl_to_vl_mapping_programming`](super::SwitchInfo::optimized_sl_to_vl_mapping_programming)
    /// is non-zero.
    pub const fn modifier_all_ports() -> u32 {
        Self::ALL_INPUTS | Self::ALL_OUTPUTS
    }

    /// The attribute modifier that sets one table from every input to `output`, if
    /// [`SwitchInfo::optimized_sl_to_vl_mapping_programming`](super::SwitchInfo::optimized_sl_to_vl_mapping_programming)
    /// is non-zero.
    pub const fn modifier_all_inputs(output: PortNum) -> u32 {
        Self::ALL_INPUTS | output.0 as u32
    }

    /// The input port that a modifier names; `None` if the modifier covers all input ports.
    pub const fn modifier_input(modifier: u32) -> Option<PortNum> {
        if modifier & Self::ALL_INPUTS != 0 {
            None
        } else {
            Some(PortNum((modifier >> 8) as u8))
        }
    }

    /// The output port that a modifier names; `None` if the modifier covers all output ports.
    pub const fn modifier_output(modifier: u32) -> Option<PortNum> {
        if modifier & Self::ALL_OUTPUTS != 0 {
            None
        } else {
            Some(PortNum(modifier as u8))
        }
    }

    /// The VL of each service level, 0 to 15.
    pub fn vls(&self) -> [u8; Self::ENTRIES] {
        std::array::from_fn(|sl| {
            let pair = self.pairs[sl / 2];
            if sl % 2 == 0 { pair >> 4 } else { pair & 0xF }
        })
    }

    /// Replaces the VLs of all service levels; only the low four bits of each number are used.
    pub fn set_vls(&mut self, vls: [u8; Self::ENTRIES]) -> &mut Self {
        self.pairs = std::array::from_fn(|pair| vls[2 * pair] << 4 | (vls[2 * pair + 1] & 0xF));
        self
    }
}
