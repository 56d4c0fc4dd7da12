//! The P_Key table of a port as the hardware holds it.

use rsm_ids::PortNum;
use rsm_mad::wire::attr::{NodeInfo, NodeType, PKey, PKeyTable, SwitchInfo};

use super::inventory::BlockState;

/// A P_KeyTable, as far as it is known.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct PKeyImage {
    /// [`PKeyTable::ENTRIES`] for each block in `states`.
    keys: Vec<PKey>,
    states: Vec<BlockState>,
    /// Whether the blocks past `states` are empty, although they were not read.
    rest_empty: bool,
}

impl PKeyImage {
    /// The table of a port after power-on: full membership of the default partition only (IBA
    /// 10.9.1.2).
    pub fn initial() -> PKeyImage {
        PKeyImage {
            keys: vec![PKey::DEFAULT_FULL],
            states: Vec::new(),
            rest_empty: true,
        }
    }

    /// The state of block `block`.
    pub fn state(&self, block: u16) -> BlockState {
        match self.states.get(usize::from(block)) {
            Some(&state) => state,
            None if self.rest_empty => BlockState::Known,
            None => BlockState::Unknown,
        }
    }

    /// Whether block `block` is known to hold exactly `keys`, which may be fewer than a block has:
    /// keys beyond the table's end do not count.
    pub fn holds(&self, block: u16, keys: &[PKey]) -> bool {
        let first = usize::from(block) * PKeyTable::ENTRIES;
        self.state(block) == BlockState::Known
            && keys
                .iter()
                .enumerate()
                .all(|(index, &key)| self.key(first + index) == key)
    }

    /// The key at `index` of the table as last known; unread indices have no key.
    pub fn key(&self, index: usize) -> PKey {
        self.keys.get(index).copied().unwrap_or(PKey::INVALID)
    }

    /// The keys as last known, by index, as far as blocks were read or written.
    pub fn keys(&self) -> &[PKey] {
        &self.keys
    }

    /// Records that the hardware holds `table` in block `block`.
    pub fn store(&mut self, block: u16, table: &PKeyTable) {
        self.grow(block);
        let first = usize::from(block) * PKeyTable::ENTRIES;
        self.keys[first..][..PKeyTable::ENTRIES].copy_from_slice(&table.p_keys());
        self.states[usize::from(block)] = BlockState::Known;
    }

    /// Records that block `block` may hold anything between its old and a new content.
    pub fn mark_dirty(&mut self, block: u16) {
        self.grow(block);
        self.states[usize::from(block)] = BlockState::Dirty;
    }

    /// Records that the blocks that were not read are empty.
    pub fn mark_rest_empty(&mut self) {
        self.rest_empty = true;
    }

    /// Whether the table is as after power-on, as far as it was read.
    pub fn is_initial(&self) -> bool {
        let mut keys = self.keys.iter();
        keys.next() == Some(&PKey::DEFAULT_FULL) && keys.all(|&key| key == PKey::INVALID)
    }

    fn grow(&mut self, block: u16) {
        let needed = usize::from(block) + 1;
        if self.states.len() < needed {
            let between = if self.rest_empty {
                BlockState::Known
            } else {
                BlockState::Unknown
            };
            self.states.resize(needed, between);
            self.keys.resize(needed * PKeyTable::ENTRIES, PKey::INVALID);
        }
    }
}

/// Capacity of the table of port `port`, in keys: by NodeInfo for end ports, by SwitchInfo for a
/// switch's external ones.
pub fn capacity(node: &NodeInfo, switch: Option<&SwitchInfo>, port: PortNum) -> u16 {
    if node.node_type() == NodeType::Switch && port != PortNum::ZERO {
        switch.map_or(0, SwitchInfo::partition_enforcement_cap)
    } else {
        node.partition_cap()
    }
}

/// The modifier for block `block` of the table of port `port`; on other nodes than switches the
/// path of the Get selects the port.
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

    fn table(keys: &[u16]) -> PKeyTable {
        let mut all = [PKey::INVALID; PKeyTable::ENTRIES];
        for (slot, &key) in all.iter_mut().zip(keys) {
            *slot = PKey(key);
        }
        let mut table = PKeyTable::default();
        table.set_p_keys(all);
        table
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
        assert_eq!(image.state(2), BlockState::Dirty);
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
