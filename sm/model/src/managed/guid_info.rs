//! GUIDInfo: the alias GUIDs of a port.

use rsm_mad::wire::attr::{Attribute, GuidInfo};

use super::{Managed, Origin};

/// GUIDInfo (IBA 14.2.5.5).
pub(super) static GUID_INFO: Managed = Managed {
    attribute: GuidInfo::ID,
    name: "GUIDInfo",
    reason: "alias GUIDs differ",
    origin: Origin::Hosts,
    modifier: |_, block| u32::from(block),
    is_readable: |_| true,
    habit: |_| None,
    agrees: |block, held, wanted| {
        // The first entry is the port's own GUID and read-only.
        let own = if block == 0 { 8 } else { 0 };
        held[own..] == wanted[own..]
    },
};
