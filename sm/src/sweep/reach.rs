//! Paths of packets by LID, by the tables that switches are known to hold.

use rsm_ids::{Guid, Lid, PortNum};
use rsm_mad::ids::DirectedPath;

use super::inventory::{Inventory, PortKey};
use super::lft_image::LFT_BLOCK;

/// More switches than any sensible path has; a longer one is a loop.
const HOPS_MAX: usize = 64;

/// The LID by which an SMP reaches the agent of switch `guid` and its answer gets back. The tables
/// on the way are known, and `stays` is true for each of their entries (switch, LID and output
/// port). Only its target processes an SMP by LID; every switch on the way processes a
/// directed-route SMP.
pub fn lid_of(
    inventory: &Inventory,
    guid: Guid,
    stays: impl Fn(Guid, Lid, u8) -> bool,
) -> Option<Lid> {
    let local = inventory.local?;
    let own = inventory.port(local)?.info.as_ref()?.lid();
    let target = PortKey::new(guid, PortNum::ZERO);
    let lid = inventory.port(target)?.info.as_ref()?.lid();
    let leads = own.is_unicast()
        && lid.is_unicast()
        && leads_to(inventory, local, lid, target, &stays)
        && leads_to(inventory, target, own, local, &stays);
    leads.then_some(lid)
}

/// The directed path to switch `guid`: the route of its packets to the subnet manager, backwards.
///
/// The report of a switch has just come by that route, so every cable on it is alive; the shortest
/// path may lead through the link that went down.
pub fn way_of_reports(inventory: &Inventory, guid: Guid) -> Option<DirectedPath> {
    let local = inventory.local?;
    let own = inventory.port(local)?.info.as_ref()?.lid();
    let mut entries = Vec::new();
    let mut at = guid;
    while at != local.node {
        let switch = inventory.node(at)?.switch.as_ref()?;
        if !own.is_unicast()
            || entries.len() == HOPS_MAX
            || !switch.lft.is_known(own.index() / LFT_BLOCK)
        {
            return None;
        }
        let exit = PortNum(switch.lft.entries().entry(own));
        let peer = inventory.port(PortKey::new(at, exit))?.peer?;
        entries.push(peer.port);
        at = peer.node;
    }
    entries.reverse();
    DirectedPath::from_hops(&entries).ok()
}

fn leads_to(
    inventory: &Inventory,
    from: PortKey,
    lid: Lid,
    to: PortKey,
    stays: impl Fn(Guid, Lid, u8) -> bool,
) -> bool {
    let mut at = from;
    for _ in 0..HOPS_MAX {
        // The packet is at `at`, and leaves by `exit`.
        let Some(node) = inventory.node(at.node) else {
            return false;
        };
        let exit = match &node.switch {
            Some(switch) if lid <= switch.info.linear_fdb_top() => {
                if !switch.lft.is_known(lid.index() / LFT_BLOCK) {
                    return false;
                }
                let entry = switch.lft.entries().entry(lid);
                if !stays(at.node, lid, entry) {
                    return false;
                }
                PortNum(entry)
            }
            Some(_) => return false,
            None => at.port,
        };
        if exit == PortNum::ZERO {
            return at.node == to.node;
        }
        // A link that is up passes SMPs (IBA 7.2.7), but packets by LID are known to pass only
        // Active links.
        let Some(port) = node.port(exit).filter(|port| port.is_active()) else {
            return false;
        };
        let Some(peer) = port.peer else { return false };
        if peer == to {
            return true;
        }
        at = peer;
        if inventory.node(at.node).is_none_or(|node| !node.is_switch()) {
            return false;
        }
    }
    false
}
