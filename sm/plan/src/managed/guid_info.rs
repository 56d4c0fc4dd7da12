//! GUIDInfo: the alias GUIDs of a port. Sweeps read it only from ports that need aliases; its
//! content at other ports has no effect.

use rsm_mad::wire::attr::{Attribute, GuidInfo};

use super::Planned;

/// The blocks with alias GUIDs.
pub(super) static GUID_INFO: Planned = Planned {
    blocks: |source, _, port| {
        let blocks = source.alias_guids.blocks(port.guid);
        blocks.into_iter().map(u16::from).collect()
    },
    content: |source, _, port, block| {
        let mut info = GuidInfo::default();
        // Indices have 8 bits, so that block numbers fit.
        info.set_guids(source.alias_guids.block(port.guid, block as u8));
        Some(*info.as_data())
    },
};
