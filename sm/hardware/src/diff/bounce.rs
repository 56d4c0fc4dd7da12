//! Selects links to set to Down for a moment: the MTU and the number of VLs of a link do not change
//! while it is up.

use std::collections::BTreeMap;

use rsm_ids::PortKey;
use rsm_model::port_info::LinkMismatch;

use crate::sweep::inventory::Inventory;

/// The near and far end of the link at port `key`. A push sets the near end to Down: that end is
/// closer to the subnet manager, so its answer still arrives. `None` for a port without a cable,
/// for the subnet manager's own link, and for a link that was bounced before without effect.
fn near_and_far_end(inventory: &Inventory, key: PortKey) -> Option<(PortKey, PortKey)> {
    let peer = inventory.hardware.port(key)?.peer?;
    if inventory
        .hardware
        .local
        .is_some_and(|own| own == key || own == peer)
    {
        return None;
    }
    let distance = |key: PortKey| Some((inventory.hardware.node(key.node)?.path.hops().len(), key));
    let (near, far) = if distance(key)? <= distance(peer)? {
        (key, peer)
    } else {
        (peer, key)
    };
    let bounced = inventory.bounced.get(&near);
    bounced
        .is_none_or(|link| link.far != far)
        .then_some((near, far))
}

/// The next link to bounce, as (near end, far end). `None` if there is none, and while both ends of
/// a bounced link are not Active again, unless that link is overdue.
pub fn next(
    inventory: &Inventory,
    mismatches: &BTreeMap<PortKey, LinkMismatch>,
) -> Option<(PortKey, PortKey)> {
    let mut bounced = inventory.bounced.iter();
    if bounced.any(|(&near, link)| !link.is_overdue && !inventory.has_returned(near, link)) {
        return None;
    }
    mismatches
        .keys()
        .find_map(|&key| near_and_far_end(inventory, key))
}
