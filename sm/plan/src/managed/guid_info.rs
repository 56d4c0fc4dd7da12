//! GUIDInfo: the alias GUIDs of a port. Sweeps read GUIDInfo only from ports that need alias GUIDs;
//! GUIDInfo of other ports has no effect.

use rsm_mad::wire::attr::{Attribute, GuidInfo};

use super::Planned;

/// The planned blocks of GUIDInfo: the blocks of a port that contain its alias GUIDs.
pub(super) static GUID_INFO: Planned = Planned {
    blocks: |source, _, port| {
        let blocks = source.alias_guids.blocks(port.guid);
        blocks.into_iter().map(u16::from).collect()
    },
    content: |source, _, port, block| {
        let mut info = GuidInfo::default();
        // Block numbers fit: the index of a GUID has 8 bits.
        info.set_guids(source.alias_guids.block(port.guid, block as u8));
        Some(*info.as_data())
    },
};
