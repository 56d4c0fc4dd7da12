//! Finds out whether LID-routed SMPs reach a switch, by following their routes through the known
//! tables.

use std::collections::HashMap;

use rsm_ids::{Guid, Lid, PortKey, PortNum};
use rsm_mad::ids::DirectedPath;
use rsm_model::lft_image::LFT_BLOCK;
use rsm_model::{InventoryPort, Mark};

use super::inventory::Inventory;

/// Maximum number of switches on a route. No sensible route is that long: a longer one is a loop.
const HOPS_MAX: usize = 64;

/// A LID by which an SMP reaches the agent of switch `guid` and its answer returns. `None` if a
/// table along the route is unknown, or `stays` returns false for an entry of the route (switch,
/// LID and output port).
///
/// LID-routed SMPs are cheaper than directed-route SMPs, which the processor of every switch on the
/// path must handle.
pub fn lid_of(
    inventory: &Inventory,
    guid: Guid,
    stays: impl Fn(Guid, Lid, u8) -> bool,
) -> Option<Lid> {
    let ends = Ends::of(inventory, guid)?;
    ends.are_joined(inventory, stays).then_some(ends.lid)
}

/// Results of [`lid_of`] for the present tables, which a push keeps: a switch gets hundreds of
/// Sets, and each Set changes few routes.
#[derive(Default, Debug)]
pub(crate) struct KnownRoutes {
    /// LID of the manager's port.
    own: Lid,
    /// Whether the manager's port is Active, so that it passes LID-routed packets.
    is_active: bool,
    /// Position in the log of writes up to which the routes are valid.
    mark: Mark,
    /// Number of writes of each block on any switch since the push began, by block.
    written: Vec<u32>,
    /// Route from the manager to each switch: switch → (count in `written` of the block with the
    /// switch's LID when the route was followed, whether the route reaches the switch).
    there: HashMap<Guid, (u32, bool)>,
    /// Route from each switch to the manager: switch → (count in `written` of the block with the
    /// manager's LID when the route was followed, whether the route reaches the manager).
    back: HashMap<Guid, (u32, bool)>,
}

impl KnownRoutes {
    /// The result of [`lid_of`]. `stays` must be the same function in all calls.
    pub(crate) fn lid_of(
        &mut self,
        inventory: &Inventory,
        guid: Guid,
        stays: impl Fn(Guid, Lid, u8) -> bool,
    ) -> Option<Lid> {
        let ends = Ends::of(inventory, guid)?;
        let is_active = inventory
            .hardware
            .port(ends.local)
            .is_some_and(InventoryPort::is_active);
        let state = (ends.own, is_active, inventory.hardware.mark());
        if (self.own, self.is_active, self.mark) != state {
            (self.own, self.is_active, self.mark) = state;
            self.there.clear();
            self.back.clear();
        }
        let leads =
            self.leads_there(inventory, &ends, &stays) && self.leads_back(inventory, &ends, &stays);
        debug_assert_eq!(leads, ends.are_joined(inventory, stays), "{guid}");
        leads.then_some(ends.lid)
    }

    /// Records that since `before`, a block was written on a switch and nothing else.
    pub(crate) fn block_written(&mut self, inventory: &Inventory, before: Mark, block: u16) {
        let block = usize::from(block);
        if self.written.len() <= block {
            self.written.resize(block + 1, 0);
        }
        self.written[block] += 1;
        self.nothing_written(inventory, before);
    }

    /// Records that since `before`, no entry changed although switches were marked as written.
    pub(crate) fn nothing_written(&mut self, inventory: &Inventory, before: Mark) {
        if self.mark == before {
            self.mark = inventory.hardware.mark();
        }
    }

    /// Number of writes of the block with `lid`.
    fn written(&self, lid: Lid) -> u32 {
        let written = self.written.get(lid.index() / LFT_BLOCK);
        written.copied().unwrap_or(0)
    }

    /// Whether the route from the manager reaches the switch.
    fn leads_there(
        &mut self,
        inventory: &Inventory,
        ends: &Ends,
        stays: impl Fn(Guid, Lid, u8) -> bool,
    ) -> bool {
        let written = self.written(ends.lid);
        match self.there.get(&ends.target.node) {
            Some(&(then, leads)) if then == written => leads,
            _ => {
                let leads = ends.leads_there(inventory, stays);
                self.there.insert(ends.target.node, (written, leads));
                leads
            }
        }
    }

    /// Whether the route from the switch reaches the manager.
    fn leads_back(
        &mut self,
        inventory: &Inventory,
        ends: &Ends,
        stays: impl Fn(Guid, Lid, u8) -> bool,
    ) -> bool {
        let written = self.written(ends.own);
        let mut passed = Vec::new();
        let mut at = ends.target;
        let leads = loop {
            match self.back.get(&at.node) {
                Some(&(then, leads)) if then == written => break leads,
                _ if passed.len() == HOPS_MAX => return false,
                _ => passed.push(at.node),
            }
            match hop(inventory, at, ends.own, ends.local, &stays) {
                Hop::On(next) => at = next,
                Hop::End(leads) => break leads,
            }
        };
        // The result holds for all switches passed, because they are on one route.
        let passed = passed.into_iter().map(|switch| (switch, (written, leads)));
        self.back.extend(passed);
        leads
    }
}

/// The two ends of a LID-routed SMP.
struct Ends {
    /// Port of this manager, and its LID.
    local: PortKey,
    own: Lid,
    /// Port 0 of the switch, and its LID.
    target: PortKey,
    lid: Lid,
}

impl Ends {
    /// The ends of an SMP to the switch `guid`; `None` if an end has no LID, or the switch accepts
    /// no LID-routed SMPs.
    fn of(inventory: &Inventory, guid: Guid) -> Option<Ends> {
        if !inventory.hardware.takes_smps_by_lid(guid) {
            return None;
        }
        let local = inventory.hardware.local?;
        let own = inventory.hardware.port(local)?.info.as_ref()?.lid();
        let target = PortKey::new(guid, PortNum::ZERO);
        let lid = inventory.hardware.port(target)?.info.as_ref()?.lid();
        (own.is_unicast() && lid.is_unicast()).then_some(Ends {
            local,
            own,
            target,
            lid,
        })
    }

    /// Whether the routes in both directions arrive.
    fn are_joined(&self, inventory: &Inventory, stays: impl Fn(Guid, Lid, u8) -> bool) -> bool {
        self.leads_there(inventory, &stays)
            && leads_to(inventory, self.target, self.own, self.local, &stays)
    }

    fn leads_there(&self, inventory: &Inventory, stays: impl Fn(Guid, Lid, u8) -> bool) -> bool {
        leads_to(inventory, self.local, self.lid, self.target, stays)
    }
}

/// The directed path to switch `guid` that reverses the route of its packets to the subnet manager;
/// `None` if that route is not known.
///
/// A report of the switch has just arrived by this route, so every cable of the route works. The
/// shortest path may lead through a link that went down.
pub(crate) fn path_of_reports(inventory: &Inventory, guid: Guid) -> Option<DirectedPath> {
    let local = inventory.hardware.local?;
    let own = inventory.hardware.port(local)?.info.as_ref()?.lid();
    let mut entries = Vec::new();
    let mut at = guid;
    while at != local.node {
        let switch = inventory.hardware.node(at)?.switch.as_ref()?;
        if !own.is_unicast()
            || entries.len() == HOPS_MAX
            || !switch.lft.is_known(own.index() / LFT_BLOCK)
        {
            return None;
        }
        let exit = PortNum(switch.lft.entries().entry(own));
        let peer = inventory.hardware.port(PortKey::new(at, exit))?.peer?;
        entries.push(peer.port);
        at = peer.node;
    }
    entries.reverse();
    DirectedPath::from_hops(&entries).ok()
}

/// Whether a packet to `lid`, a LID of `to`, arrives if it starts at `from`.
fn leads_to(
    inventory: &Inventory,
    from: PortKey,
    lid: Lid,
    to: PortKey,
    stays: impl Fn(Guid, Lid, u8) -> bool,
) -> bool {
    let mut at = from;
    for _ in 0..HOPS_MAX {
        match hop(inventory, at, lid, to, &stays) {
            Hop::On(next) => at = next,
            Hop::End(leads) => return leads,
        }
    }
    false
}

/// The result of following a packet by one hop.
enum Hop {
    /// The packet is at this port of a switch.
    On(PortKey),
    /// The route ends: at its destination if `true`.
    End(bool),
}

/// Follows a packet to `lid`, a LID of `to`, by one hop from `at`.
fn hop(
    inventory: &Inventory,
    at: PortKey,
    lid: Lid,
    to: PortKey,
    stays: impl Fn(Guid, Lid, u8) -> bool,
) -> Hop {
    let Some(node) = inventory.hardware.node(at.node) else {
        return Hop::End(false);
    };
    let exit = match &node.switch {
        Some(switch) if lid <= switch.info.linear_fdb_top() => {
            if !switch.lft.is_known(lid.index() / LFT_BLOCK) {
                return Hop::End(false);
            }
            let entry = switch.lft.entries().entry(lid);
            if !stays(at.node, lid, entry) {
                return Hop::End(false);
            }
            PortNum(entry)
        }
        Some(_) => return Hop::End(false),
        None => at.port,
    };
    if exit == PortNum::ZERO {
        return Hop::End(at.node == to.node);
    }
    // Any link that is up passes SMPs (IBA 7.2.7), but only Active links certainly pass LID-routed
    // SMPs.
    let port = node.port(exit).filter(|port| port.is_active());
    let Some(peer) = port.and_then(|port| port.peer) else {
        return Hop::End(false);
    };
    if peer == to {
        return Hop::End(true);
    }
    match inventory.hardware.node(peer.node) {
        Some(node) if node.is_switch() => Hop::On(peer),
        _ => Hop::End(false),
    }
}
