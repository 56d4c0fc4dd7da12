//! GUIDInfo, with the alias GUIDs of a port. Sweeps read it only if the port needs one: the content
//! on other ports does not matter.

use rsm_mad::wire::attr::{Attribute, GuidInfo};

use super::{Managed, Origin};

/// GUIDInfo (IBA 14.2.5.5).
pub(super) const GUID_INFO: Managed = Managed {
    attribute: GuidInfo::ID,
    reason: "alias GUIDs differ",
    origin: Origin::Hosts,
    modifier: |_, block| u32::from(block),
    is_readable: |_| true,
    habit: |_| None,
    blocks: |source, _, port| {
        let blocks = source.inventory.alias_guids.blocks(port.guid);
        blocks.into_iter().map(u16::from).collect()
    },
    content: |source, _, port, block| {
        let mut info = GuidInfo::default();
        // Indices have 8 bits, so block numbers fit.
        let alias_guids = &source.inventory.alias_guids;
        info.set_guids(alias_guids.block(port.guid, block as u8));
        Some(*info.as_data())
    },
    agrees: |block, held, wanted| {
        // The first entry is the port's own GUID and read-only.
        let own = if block == 0 { 8 } else { 0 };
        held[own..] == wanted[own..]
    },
};
