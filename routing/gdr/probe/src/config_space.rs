//! Reads registers of a PCIe function's configuration space that affect GPUDirect RDMA.

/// The offset of the status register, whose bit 4 marks the presence of a capability list.
const STATUS: usize = 0x06;
/// The offset of the pointer to the first capability.
const CAPABILITIES: usize = 0x34;
/// The ID of the PCI Express capability.
const PCI_EXPRESS: u8 = 0x10;
/// The offset of Device Control in the PCI Express capability, and its bit Enable Relaxed Ordering.
const DEVICE_CONTROL: (usize, u16) = (8, 1 << 4);
/// The offset of the first extended capability.
const EXTENDED: usize = 0x100;
/// The ID of the extended capability Access Control Services (ACS).
const ACS: u16 = 0x000d;
/// The offset of ACS Control, with its bits P2P Request Redirect and P2P Completion Redirect.
const ACS_CONTROL: (usize, u16) = (6, 0b1100);
/// The bit Direct Translated P2P of ACS Control: requests that the IOMMU has translated are not
/// redirected.
const DIRECT_TRANSLATED: u16 = 1 << 6;
/// The maximum number of capabilities that fit into a configuration space.
const MAX_CAPABILITIES: usize = 1024;

/// The little-endian word at offset `at`; `None` beyond the end.
fn word(config: &[u8], at: usize) -> Option<u16> {
    let bytes = config.get(at..at + 2)?;
    Some(u16::from_le_bytes([bytes[0], bytes[1]]))
}

/// Whether the function may mark its requests for relaxed ordering; `None` if the bytes lack the
/// PCI Express capability.
pub(crate) fn has_relaxed_ordering(config: &[u8]) -> Option<bool> {
    if word(config, STATUS)? & (1 << 4) == 0 {
        return None;
    }
    let mut at = usize::from(config.get(CAPABILITIES)? & !3);
    for _ in 0..MAX_CAPABILITIES {
        if at == 0 {
            return None;
        }
        if *config.get(at)? == PCI_EXPRESS {
            let (offset, bit) = DEVICE_CONTROL;
            return Some(word(config, at + offset)? & bit != 0);
        }
        at = usize::from(config.get(at + 1)? & !3);
    }
    None
}

/// Whether a bridge sends requests between functions below it up to the processor (ACS); `None` if
/// the bytes lack extended capabilities.
pub(crate) fn redirects_peers(config: &[u8]) -> Option<bool> {
    let mut at = EXTENDED;
    for _ in 0..MAX_CAPABILITIES {
        let id = word(config, at)?;
        let version_and_next = word(config, at + 2)?;
        if id == ACS {
            let (offset, redirect) = ACS_CONTROL;
            let control = word(config, at + offset)?;
            return Some(control & redirect != 0 && control & DIRECT_TRANSLATED == 0);
        }
        at = usize::from(version_and_next >> 4) & !3;
        if at < EXTENDED {
            return Some(false);
        }
    }
    Some(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A space with the PCI Express capability at 0x60, behind another one at 0x40, and ACS at
    /// 0x148, behind another one at 0x100.
    fn space(device_control: u16, acs_control: u16) -> Vec<u8> {
        let mut config = vec![0; 4096];
        config[STATUS] = 0x10;
        config[CAPABILITIES] = 0x40;
        config[0x40..0x42].copy_from_slice(&[0x01, 0x60]);
        config[0x60] = PCI_EXPRESS;
        config[0x68..0x6a].copy_from_slice(&device_control.to_le_bytes());
        config[0x100..0x104].copy_from_slice(&[0x01, 0x00, 0x82, 0x14]);
        config[0x148..0x14c].copy_from_slice(&[0x0d, 0x00, 0x01, 0x00]);
        config[0x14e..0x150].copy_from_slice(&acs_control.to_le_bytes());
        config
    }

    #[test]
    fn control_bits_are_found_behind_other_capabilities() {
        assert_eq!(has_relaxed_ordering(&space(0x2910, 0)), Some(true));
        assert_eq!(has_relaxed_ordering(&space(0x2900, 0)), Some(false));
        // 0x1d is what firmware sets for virtual machines: validation, redirects, forwarding.
        for (control, redirects) in [(0x1d, true), (0x04, true), (0x01, false), (0x5d, false)] {
            let found = redirects_peers(&space(0, control));
            assert_eq!(found, Some(redirects), "{control:#x}");
        }
    }

    #[test]
    fn cut_spaces_are_unknown_and_circular_lists_end() {
        let whole = space(0x2910, 0x1d);
        // The kernel shows 64 bytes without the right to the rest.
        assert_eq!(has_relaxed_ordering(&whole[..64]), None);
        assert_eq!(redirects_peers(&whole[..256]), None);
        assert_eq!(has_relaxed_ordering(&[]), None);
        let mut circular = whole.clone();
        circular[0x41] = 0x40;
        assert_eq!(has_relaxed_ordering(&circular), None);
        circular[0x103] = 0x10;
        assert_eq!(redirects_peers(&circular), Some(false));
    }
}
