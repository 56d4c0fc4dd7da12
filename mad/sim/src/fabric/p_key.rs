//! The P_Keys of an end port, as its general service interface uses them (IBA 10.9.3).

use rsm_mad::wire::attr::{Attribute, PKey, PKeyTable};

use super::port::{Port, PortTables};

/// The number of P_Keys in a block.
const ENTRIES: u16 = PKeyTable::ENTRIES as u16;

impl Port {
    /// The key at `index` of the port's table.
    pub(crate) fn p_key(&self, index: u16) -> PKey {
        key_at(self.tables.as_deref(), index)
    }

    /// Whether the port's table has exactly this key, so that programs at the port can send packets
    /// with the key.
    pub(crate) fn holds_p_key(&self, key: PKey) -> bool {
        find(self.tables.as_deref(), |own| own == key).is_some()
    }

    /// The index of the key that admits a packet with `key`: the first key of the same partition,
    /// unless both keys are of limited members.
    pub(crate) fn p_key_index(&self, key: PKey) -> Option<u16> {
        index_for(self.tables.as_deref(), key)
    }
}

impl PortTables {
    /// The P_Key index of a key at the port, as [`Port::p_key_index`] returns it.
    pub(crate) fn p_key_index(&self, key: PKey) -> Option<u16> {
        index_for(Some(self), key)
    }
}

/// The key at `index`. `None` stands for the tables after power-on.
fn key_at(tables: Option<&PortTables>, index: u16) -> PKey {
    let block = tables.and_then(|tables| tables.p_keys.get(&(index / ENTRIES)));
    match block {
        Some(data) => {
            let entry = usize::from(index % ENTRIES);
            PKeyTable::from_data(data).p_key(entry).unwrap_or_default()
        }
        // The table of a port after power-on holds this key.
        None if index == 0 => PKey::DEFAULT_FULL,
        None => PKey::INVALID,
    }
}

/// The index of the key that admits a packet with `key`, as [`Port::p_key_index`] returns it.
fn index_for(tables: Option<&PortTables>, key: PKey) -> Option<u16> {
    find(tables, |own| {
        own.base() == key.base() && (own.is_full() || key.is_full())
    })
}

/// The index of the first valid key for which `is_wanted` is true.
fn find(tables: Option<&PortTables>, is_wanted: impl Fn(PKey) -> bool) -> Option<u16> {
    // Blocks that were never written contain no key, except the first block.
    let written = tables
        .iter()
        .flat_map(|tables| tables.p_keys.keys().copied());
    let blocks = std::iter::once(0).chain(written.filter(|&block| block != 0));
    blocks
        // The agent checked each written block against the table's size of at most 65,535 entries.
        .flat_map(|block| (0..ENTRIES).map(move |entry| block * ENTRIES + entry))
        .find(|&index| {
            let own = key_at(tables, index);
            own.is_valid() && is_wanted(own)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fresh_port_is_a_full_member_of_the_default_partition() {
        assert_eq!(key_at(None, 0), PKey::DEFAULT_FULL);
        assert_eq!(key_at(None, 1), PKey::INVALID);
        assert_eq!(index_for(None, PKey::DEFAULT_LIMITED), Some(0));
        assert_eq!(index_for(None, PKey(0x8010)), None);
        assert_eq!(index_for(None, PKey::INVALID), None);
    }

    #[test]
    fn limited_members_admit_only_packets_of_full_members() {
        let mut keys = [PKey::INVALID; PKeyTable::ENTRIES];
        (keys[0], keys[5]) = (PKey::DEFAULT_LIMITED, PKey(0x8010));
        let mut block = PKeyTable::default();
        block.set_p_keys(keys);
        let mut tables = PortTables::default();
        tables.p_keys.insert(1, *block.as_data());
        assert_eq!(index_for(Some(&tables), PKey::DEFAULT_LIMITED), Some(0));
        assert_eq!(index_for(Some(&tables), PKey(0x0010)), Some(37));
        assert_eq!(key_at(Some(&tables), 37), PKey(0x8010));

        tables.p_keys.insert(0, *block.as_data());
        assert_eq!(index_for(Some(&tables), PKey::DEFAULT_LIMITED), None);
        assert_eq!(index_for(Some(&tables), PKey::DEFAULT_FULL), Some(0));
        assert_eq!(index_for(Some(&tables), PKey(0x0010)), Some(5));
    }
}
