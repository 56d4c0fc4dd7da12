//! The encodings of adaptive routing that are not public, collected here so that a correction
//! changes one line.
//!
//! The comment of each encoding states the assumption and its certainty. `docs/limits.md` says how
//! a site can confirm it.

use rsm_ids::PortNum;

/// The bit field of the block number in the attribute modifier of ARGroupTable and of the adaptive
/// linear forwarding table. Assumed: the block number is in the low bits, and the other bits are 0,
/// which means one group table and one pLFT. Strongly inferred from parameter lists; the positions
/// of group table and pLFT in the modifier are unknown, and both numbers are 0.
pub(super) const AR_BLOCK: BlockField = BlockField { shift: 0, bits: 12 };

/// The order of bits in the 256-bit port mask of a group. Assumed: port 0 is bit 0 of the last
/// byte, as in the port masks of the IBTA. Inferred by analogy alone.
pub(super) const MASK_PORT_0: MaskOrder = MaskOrder::LastByte;

/// The bit field of a block number in an attribute modifier.
pub(super) struct BlockField {
    shift: u32,
    bits: u32,
}

impl BlockField {
    /// The modifier for a block; bits beyond the field are lost.
    pub(super) const fn modifier(&self, block: u16) -> u32 {
        (block as u32 & self.mask()) << self.shift
    }

    /// The block number in a modifier; `None` if other bits are set.
    pub(super) const fn block(&self, modifier: u32) -> Option<u16> {
        let block = modifier >> self.shift & self.mask();
        if modifier == block << self.shift {
            Some(block as u16)
        } else {
            None
        }
    }

    const fn mask(&self) -> u32 {
        (1 << self.bits) - 1
    }
}

/// The possible orders of the bits of a port mask.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(
    dead_code,
    reason = "the order that is not assumed is kept for a correction"
)]
pub(super) enum MaskOrder {
    /// Port 0 is bit 0 of the first byte.
    FirstByte,
    /// Port 0 is bit 0 of the last byte.
    LastByte,
}

impl MaskOrder {
    /// The byte and the bit of a port in the mask.
    pub(super) const fn byte_and_bit(self, port: PortNum) -> (usize, u8) {
        let byte = port.0 as usize / 8;
        let bit = 1 << (port.0 % 8);
        match self {
            MaskOrder::FirstByte => (byte, bit),
            MaskOrder::LastByte => (31 - byte, bit),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_port_has_a_bit_of_its_own_in_either_order() {
        for order in [MaskOrder::FirstByte, MaskOrder::LastByte] {
            let mut mask = [0u8; 32];
            for port in 0..=u8::MAX {
                let (byte, bit) = order.byte_and_bit(PortNum(port));
                assert_eq!(mask[byte] & bit, 0);
                mask[byte] |= bit;
            }
            assert_eq!(mask, [0xFF; 32]);
        }
        assert_eq!(MASK_PORT_0.byte_and_bit(PortNum(0)), (31, 1));
        assert_eq!(MASK_PORT_0.byte_and_bit(PortNum(9)), (30, 2));
    }

    #[test]
    fn a_modifier_with_unknown_bits_names_no_block() {
        assert_eq!(AR_BLOCK.modifier(0x0ABC), 0x0ABC);
        assert_eq!(AR_BLOCK.block(0x0ABC), Some(0x0ABC));
        assert_eq!(AR_BLOCK.modifier(0xFABC), 0x0ABC);
        assert_eq!(AR_BLOCK.block(0x1_0ABC), None);
        assert_eq!(AR_BLOCK.block(0x1ABC), None);
    }
}
