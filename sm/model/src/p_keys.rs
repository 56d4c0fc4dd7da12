//! The P_KeyTable of a port, as the device holds it.

use rsm_ids::PortNum;
use rsm_mad::wire::attr::{NodeInfo, NodeType, PKey, PKeyTable, SwitchInfo};

use super::image::{BlockTable, Image};

/// A P_KeyTable as far as it is known, in blocks of [`PKeyTable::ENTRIES`] keys.
pub type PKeyImage = Image<Vec<PKey>>;

impl BlockTable for Vec<PKey> {
    type Place = u16;
    /// Keys of a block, possibly fewer than [`PKeyTable::ENTRIES`]: entries beyond the end of the
    /// table do not count.
    type Block = [PKey];

    fn has_block(&self, block: u16, keys: &[PKey]) -> bool {
        let first = usize::from(block) * PKeyTable::ENTRIES;
        let mut keys = (first..).zip(keys);
        keys.all(|(index, key)| self.get(index).unwrap_or(&PKey::INVALID) == key)
    }

    fn set_block(&mut self, block: u16, keys: &[PKey]) {
        let first = usize::from(block) * PKeyTable::ENTRIES;
        let end = first + PKeyTable::ENTRIES;
        self.resize(self.len().max(end), PKey::INVALID);
        self[first..][..keys.len()].copy_from_slice(keys);
    }
}

impl PKeyImage {
    /// The table of a port after power-on: full membership of the default partition only (IBA
    /// 10.9.1.2).
    pub fn initial() -> PKeyImage {
        Image::known(vec![PKey::DEFAULT_FULL])
    }

    /// The keys by index as last known, as far as blocks were read or written.
    pub fn keys(&self) -> &[PKey] {
        self.content()
    }

    /// Whether the known keys are those after power-on; `false` if no key is known.
    pub fn is_initial(&self) -> bool {
        let mut keys = self.keys().iter();
        keys.next() == Some(&PKey::DEFAULT_FULL) && keys.all(|&key| key == PKey::INVALID)
    }
}

/// Capacity of the P_KeyTable of port `port` in keys: from NodeInfo for end ports, from SwitchInfo
/// for a switch's external ports.
pub fn capacity(node: &NodeInfo, switch: Option<&SwitchInfo>, port: PortNum) -> u16 {
    if node.node_type() == NodeType::Switch && port != PortNum::ZERO {
        switch.map_or(0, SwitchInfo::partition_enforcement_cap)
    } else {
        node.partition_cap()
    }
}

/// AttributeModifier of block `block` of the table of port `port`. The modifier names the port only
/// on switches; on other nodes, the path of the Get selects it.
pub fn modifier(is_switch: bool, port: PortNum, block: u16) -> u32 {
    let port = if is_switch { port } else { PortNum::ZERO };
    PKeyTable::modifier(port, block)
}

/// Number of blocks of a table of `capacity` keys.
pub fn blocks(capacity: u16) -> u16 {
    capacity.div_ceil(PKeyTable::ENTRIES as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(keys: &[u16]) -> Vec<PKey> {
        keys.iter().copied().map(PKey).collect()
    }

    #[test]
    fn unread_blocks_are_unknown() {
        let mut image = PKeyImage::default();
        assert!(!image.holds(0, &[]) && !image.is_initial());
        image.store(0, &table(&[0xffff]));
        assert!(image.is_initial());
        assert!(image.holds(0, &[PKey(0xffff), PKey(0)]) && !image.holds(0, &[PKey(0x7fff)]));
        assert!(!image.holds(1, &[PKey(0); 32]));
        image.mark_rest_empty();
        assert!(image.holds(1, &[PKey(0); 32]) && !image.holds(3, &[PKey(1)]));
        image.mark_dirty(2);
        assert!(!image.is_known(2));
        assert!(image.holds(1, &[PKey(0); 32]));
        assert!(!image.holds(2, &[PKey(0); 32]));
        image.store(2, &table(&[1, 0, 0x8003]));
        assert!(image.holds(2, &[PKey(1), PKey(0), PKey(0x8003)]) && !image.is_initial());
        assert_eq!(image.keys().len(), 96);
    }

    #[test]
    fn keys_beyond_the_end_do_not_count() {
        let mut image = PKeyImage::default();
        image.store(0, &table(&[0xffff, 0, 0x1234]));
        assert!(image.holds(0, &[PKey(0xffff), PKey(0)]));
        assert_eq!(
            [
                blocks(0),
                blocks(1),
                blocks(32),
                blocks(33),
                blocks(u16::MAX)
            ],
            [0, 1, 1, 2, 2048]
        );
    }
}
