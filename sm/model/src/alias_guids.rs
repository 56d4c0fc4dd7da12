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
    /// The planned GUIDs of a block of a port's GUIDInfo.
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

    /// The blocks in which a port has aliases.
    pub fn blocks(&self, port: Guid) -> BTreeSet<u8> {
        let aliases = self.by_port.get(&port).into_iter().flatten();
        aliases.map(|(&index, _)| index / ENTRIES).collect()
    }
}
