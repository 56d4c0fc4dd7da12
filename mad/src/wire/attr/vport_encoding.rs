//! The encodings of virtual port attributes that are not public, collected here so that a
//! correction changes one line.
//!
//! The layouts of the data are exact. `docs/limits.md` says how a site can confirm the encodings in
//! this file.

/// The field of a virtual port's index in the modifier of VPortInfo, VNodeInfo and
/// VNodeDescription. Assumed to be the low half, which is nearly certain: the index is the only
/// number in the modifier.
pub(super) const INDEX: ModifierField = ModifierField { shift: 0 };

/// The field of a virtual port's index in the modifier of VPortGUIDInfo and of the P_KeyTable of a
/// virtual port. Assumed to be the high half, where P_KeyTable has the port, by analogy alone.
pub(super) const INDEX_BESIDE_BLOCK: ModifierField = ModifierField { shift: 16 };

/// The field of the block number in the modifiers of [`INDEX_BESIDE_BLOCK`]. Assumed to be the low
/// half, by the same analogy.
pub(super) const BLOCK: ModifierField = ModifierField { shift: 0 };

/// The value of VPortStateChange whose Set clears the bit. Assumed to be 1, as for PortStateChange
/// of SwitchInfo (IBA 14.2.5.4), by analogy alone.
pub(super) const STATE_CHANGE_CLEARED_BY: bool = true;

/// A field of 16 bits in an attribute modifier.
pub(super) struct ModifierField {
    shift: u32,
}

impl ModifierField {
    /// The bits of the modifier that encode `value`.
    pub(super) const fn modifier(&self, value: u16) -> u32 {
        (value as u32) << self.shift
    }

    /// The number in this field of a modifier.
    pub(super) const fn of(&self, modifier: u32) -> u16 {
        (modifier >> self.shift) as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn index_and_block_do_not_overlap() {
        let modifier = INDEX_BESIDE_BLOCK.modifier(0xFFFF);
        assert_eq!(modifier & BLOCK.modifier(0xFFFF), 0);
        let both = INDEX_BESIDE_BLOCK.modifier(0x1234) | BLOCK.modifier(0x5678);
        assert_eq!(INDEX_BESIDE_BLOCK.of(both), 0x1234);
        assert_eq!(BLOCK.of(both), 0x5678);
        assert_eq!(INDEX.of(INDEX.modifier(0xABCD)), 0xABCD);
    }
}
