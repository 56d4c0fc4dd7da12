//! Alias GUIDs of ports, as the devices must hold them.
//!
//! A sweep asks for GUIDInfo only at ports that have, or once had, alias GUIDs: a fabric without
//! alias GUIDs costs no request.

use std::collections::{BTreeMap, BTreeSet};

use rsm_ids::Guid;
use rsm_mad::wire::attr::GuidInfo;

/// Entries in one block of GUIDInfo (IBA 14.2.5.5).
const ENTRIES: u8 = GuidInfo::ENTRIES as u8;

/// The alias GUIDs of all ports, as the SA assigned them, without index 0, the port's own GUID.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct AliasGuids {
    /// Alias GUIDs by port GUID, then by index in the port's GUIDInfo.
    pub by_port: BTreeMap<Guid, BTreeMap<u8, Guid>>,
}

impl AliasGuids {
    /// The planned GUIDs of a block of a port's GUIDInfo; zero for an index without a GUID.
    pub fn block(&self, port: Guid, block: u8) -> [Guid; GuidInfo::ENTRIES] {
        let mut guids = [Guid::ZERO; GuidInfo::ENTRIES];
        if block == 0 {
            guids[0] = port;
        }
        let aliases = self.by_port.get(&port).into_iter().flatten();
        for (&index, &alias) in aliases.filter(|&(&index, _)| index / ENTRIES == block) {
            guids[usize::from(index % ENTRIES)] = alias;
        }
        guids
    }

    /// GUIDs of the ports whose aliases differ between this set and `other`.
    pub fn differing(&self, other: &AliasGuids) -> BTreeSet<Guid> {
        let one_way = |from: &AliasGuids, to: &AliasGuids| {
            let ports = from.by_port.iter();
            let differing = ports.filter(|&(port, aliases)| to.by_port.get(port) != Some(aliases));
            differing.map(|(&port, _)| port).collect::<BTreeSet<Guid>>()
        };
        let mut ports = one_way(self, other);
        ports.extend(one_way(other, self));
        ports
    }

    /// The blocks in which a port has aliases.
    pub fn blocks(&self, port: Guid) -> BTreeSet<u8> {
        let aliases = self.by_port.get(&port).into_iter().flatten();
        aliases.map(|(&index, _)| index / ENTRIES).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ports_with_other_aliases_differ() {
        let set = |aliases: &[(u64, u8, u64)]| {
            let mut set = AliasGuids::default();
            for &(port, index, alias) in aliases {
                let of_port = set.by_port.entry(Guid(port)).or_default();
                of_port.insert(index, Guid(alias));
            }
            set
        };
        let before = set(&[(1, 1, 11), (2, 1, 21), (3, 1, 31)]);
        let after = set(&[(1, 1, 11), (2, 2, 21), (4, 1, 41)]);
        let differing = BTreeSet::from([Guid(2), Guid(3), Guid(4)]);
        assert_eq!(before.differing(&after), differing);
        assert_eq!(after.differing(&before), differing);
        assert!(before.differing(&before).is_empty());
    }
}
