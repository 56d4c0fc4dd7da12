//! Duplicate GUIDs: nodes behind two ports answer with the same GUID.
//!
//! A *place* is the port behind which a node is found. The place that had a GUID first keeps it. If
//! a known node seems to be elsewhere, the sweep asks behind its known place. A host that was moved
//! no longer answers there. If a host does answer there, two hosts have the GUID, and the second
//! place is left out ([`Fault::DuplicateGuid`]): the node behind it is not managed. The sweep asks
//! behind the second place again once the first place has lost the GUID. Light sweeps, and sweeps
//! after a report of its switch, always ask there.
//!
//! A place that loses its host while the GUID is elsewhere keeps its right to the GUID for
//! [`RIGHT_LASTS`]: a host that comes back after a reboot gets its GUID back, even if its duplicate
//! was managed in between. If no sweep has found either place before, the place in the stored
//! cabling of the former run is the first one. If neither is stored, it is the place whose link a
//! manager has brought to a higher state.

use std::cell::OnceCell;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use rsm_ids::{Guid, PortKey, PortNum};
use rsm_mad::Time;
use rsm_mad::wire::attr::{NodeInfo, NodeType, PortState};
use rsm_model::{InventoryNode, InventoryPort};

use super::Query;
use super::fault::Fault;
use super::inventory::Inventory;
use super::reading::Reading;

/// Maximum number of queries behind one port that a sweep repeats because of duplicates. A node
/// that answers with another GUID each time must not keep the sweep from ending.
const PROBES_MAX: u8 = 16;

/// Time for which a place has the right to the GUID of a host that was later found elsewhere:
/// longer than a reboot or a repair, and shorter than a moved host usually stays.
pub const RIGHT_LASTS: Duration = Duration::from_secs(24 * 60 * 60);

/// The undecided contests for GUIDs in one sweep.
#[derive(Default, Debug)]
pub(super) struct Contests {
    /// Known place of a GUID, where the sweep asks again → other places that showed the GUID →
    /// their answers.
    open: BTreeMap<PortKey, BTreeMap<PortKey, NodeInfo>>,
    /// Number of queries of this sweep behind each port because of duplicates.
    probes: BTreeMap<PortKey, u8>,
    /// GUID → missing end port; computed at the first lookup.
    missing: OnceCell<HashMap<Guid, PortKey>>,
}

impl Contests {
    /// Whether a contest is undecided.
    pub(super) fn are_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// Ends the contests about the GUIDs behind `place`. Returns the other places with their
    /// answers.
    pub(super) fn close(&mut self, place: PortKey) -> BTreeMap<PortKey, NodeInfo> {
        self.open.remove(&place).unwrap_or_default()
    }

    /// Whether the sweep may ask behind `place` once more. Counts the query.
    fn admits(&mut self, place: PortKey) -> bool {
        let probes = self.probes.entry(place).or_default();
        *probes += u8::from(*probes <= PROBES_MAX);
        *probes <= PROBES_MAX
    }

    /// Asks behind `first` whether the node that answered `info` behind `from` is still there.
    pub(super) fn contest(
        &mut self,
        reading: &mut Reading,
        inventory: &mut Inventory,
        from: PortKey,
        first: PortKey,
        info: &NodeInfo,
    ) {
        if !self.admits(first) {
            let guid = guid_in_conflict(inventory, first, info);
            leave_out(inventory, from, first, guid);
            return;
        }
        let contenders = self.open.entry(first).or_default();
        contenders.insert(from, *info);
        // If the port is down, PortInfo shows it before the query behind the port times out.
        reading.again(Query::Port(first));
        reading.again(Query::Node(Some(first)));
    }

    /// Decides the contests about the GUIDs behind `place`, where no node answers. A hanging host
    /// keeps its place as long as its switch shows a link that did not train again.
    pub(super) fn decide_silent(
        &mut self,
        reading: &mut Reading,
        inventory: &mut Inventory,
        place: PortKey,
    ) {
        let contenders = self.close(place);
        if contenders.is_empty() {
            return;
        }
        let switch = inventory.hardware.node(place.node);
        let has_answered = switch.is_some_and(|node| node.epoch == inventory.hardware.epoch);
        let is_same_link = link_rank(inventory, place) > 0;
        if !has_answered || !is_same_link {
            inventory.unplug(place);
        }
        for (from, claim) in contenders {
            if has_answered && is_same_link {
                let guid = guid_in_conflict(inventory, place, &claim);
                leave_out(inventory, from, place, guid);
            } else {
                reading.again(Query::Node(Some(from)));
            }
        }
    }

    /// Asks again behind places with an undecided contest, and behind places that were left out if
    /// the first place has lost the GUID. Returns whether it asks behind any place.
    pub(super) fn ask_left_out_again(
        &mut self,
        reading: &mut Reading,
        inventory: &mut Inventory,
    ) -> bool {
        let open = std::mem::take(&mut self.open);
        let undecided = open.into_values().flat_map(BTreeMap::into_keys);
        let duplicates = inventory.faults.duplicates();
        let free = duplicates.filter(|&(_, guid, first)| !has_guid(inventory, first, guid));
        let mut ports: Vec<PortKey> = undecided.chain(free.map(|(port, ..)| port)).collect();
        ports.retain(|&port| self.admits(port));
        for &port in &ports {
            reading.again(Query::Node(Some(port)));
        }
        !ports.is_empty()
    }

    /// Records the contests that the sweep could not decide: their first places keep the GUIDs.
    pub(super) fn end(&mut self, inventory: &mut Inventory) {
        for (first, contenders) in std::mem::take(&mut self.open) {
            for (from, claim) in contenders {
                let guid = guid_in_conflict(inventory, first, &claim);
                leave_out(inventory, from, first, guid);
            }
        }
    }

    /// Records that a host answers `info` behind `from`. Gives each former place of the host, if no
    /// node is there now, a right to the host's GUIDs. `before` is the place where the host was
    /// last found.
    pub(super) fn record_rights(
        &mut self,
        inventory: &mut Inventory,
        from: PortKey,
        before: Option<PortKey>,
        info: &NodeInfo,
    ) {
        inventory.rights.by_place.remove(&from);
        if is_switch(info) {
            return;
        }
        let (host, guid) = (here(info), info.port_guid());
        let kept = [&inventory.expected, &inventory.stored_cabling];
        let missing = self.missing.get_or_init(|| {
            let nodes = kept.iter().flat_map(|kept| kept.nodes());
            let ends = nodes.flat_map(|(node, lost)| {
                let ends = lost.ends.iter();
                ends.map(move |end| (end.guid, PortKey::new(node, end.port)))
            });
            ends.collect()
        });
        let same_guid = missing.get(&guid).copied();
        let ports = std::iter::once(host).chain(same_guid);
        let places = ports.flat_map(|port| kept.map(|kept| Some(kept.port(port)?.peer)));
        let places: Vec<PortKey> = places.chain([before]).flatten().collect();
        for place in places {
            let is_bare = inventory
                .hardware
                .port(place)
                .is_none_or(|port| port.peer.is_none());
            let fault = inventory.faults.port(place);
            let is_duplicate = matches!(fault, Some(Fault::DuplicateGuid { .. }));
            if place != from && is_bare && !is_duplicate {
                let right = Right {
                    host,
                    guid,
                    at: None,
                };
                inventory.rights.by_place.entry(place).or_insert(right);
            }
        }
    }
}

/// Places with a right to a GUID although the node with the GUID is elsewhere now.
#[derive(Clone, Default, Debug)]
pub struct Rights {
    by_place: BTreeMap<PortKey, Right>,
}

/// The right of a place to the GUIDs of its former host.
#[derive(Clone, Copy, Debug)]
struct Right {
    /// Port of the host.
    host: PortKey,
    /// GUID of the port.
    guid: Guid,
    /// Time at which the host was found elsewhere; `None` until the sweep that found it ends.
    at: Option<Time>,
}

impl Rights {
    /// Sets the time of the rights from the sweep that has just ended to `now`, and drops expired
    /// rights.
    pub fn stamp_and_expire(&mut self, now: Time) {
        self.by_place.retain(|_, right| {
            let at = *right.at.get_or_insert(now);
            now.since(at) < RIGHT_LASTS
        });
    }

    /// Whether `place` has a right to a GUID in `info`.
    fn has(&self, place: PortKey, info: &NodeInfo) -> bool {
        let right = self.by_place.get(&place);
        right.is_some_and(|right| right.host == here(info) || right.guid == info.port_guid())
    }
}

/// The place that had a GUID of `info` before a node answered `info` behind `from`, if one node
/// cannot be at both places. `None` if no such place is known, or its link is known to be down.
/// `is_met` tells whether a node counts: in a full sweep, only nodes that the sweep has found
/// count.
pub(super) fn first_place(
    inventory: &Inventory,
    from: PortKey,
    info: &NodeInfo,
    is_met: impl Fn(Guid) -> bool,
) -> Option<PortKey> {
    let is_usable = |&other: &PortKey| {
        let state = inventory
            .hardware
            .port(other)
            .and_then(InventoryPort::state);
        other != from && inventory.hardware.passes_on(other) && state != Some(PortState::Down)
    };
    let counts = |other: &PortKey| is_usable(other) && is_met(other.node);
    let here = here(info);
    if here == from {
        return None;
    }
    let known = inventory.hardware.node(here.node);
    let other_device = known
        .filter(|known| are_different(&known.info, info))
        .and_then(|known| {
            // A host that a sweep finds before the switch must not take the switch's GUID.
            cables(known)
                .find(|other| is_usable(other) && (known.is_switch() || is_met(other.node)))
        });
    let same_port = || inventory.hardware.port(here)?.peer.filter(counts);
    let same_port_guid = || {
        let holder = inventory.hardware.port_with_guid(info.port_guid())?;
        let is_same = holder == here || is_switch(info) && holder.node == here.node;
        let node = inventory.hardware.node(holder.node).filter(|_| !is_same)?;
        match node.is_switch() {
            true => cables(node).find(counts),
            false => node.port(holder.port)?.peer.filter(counts),
        }
    };
    other_device.or_else(same_port).or_else(same_port_guid)
}

/// A port of the node whose GUID a different device, behind `from`, also shows, if the node is
/// certainly present: it forwarded the Get, or is the manager's own node. `None` without such a
/// conflict.
pub(super) fn impersonated_port(
    inventory: &Inventory,
    from: PortKey,
    info: &NodeInfo,
) -> Option<PortKey> {
    let guid = info.node_guid();
    let known = inventory.hardware.node(guid)?;
    let near = [
        inventory.hardware.local,
        Some(PortKey::new(from.node, PortNum::ZERO)),
    ];
    let near = near.into_iter().flatten().find(|near| near.node == guid);
    near.filter(|_| are_different(&known.info, info))
}

/// Decides the contests about the GUIDs behind `place`, where a node answered `info`.
pub(super) fn decide(
    reading: &mut Reading,
    inventory: &mut Inventory,
    place: PortKey,
    info: &NodeInfo,
    contenders: BTreeMap<PortKey, NodeInfo>,
) {
    for (from, claim) in contenders {
        let is_joined =
            inventory.hardware.port(place).and_then(|port| port.peer) == Some(here(info));
        let guid = match claim.node_guid() == info.node_guid() {
            true => info.node_guid(),
            false => info.port_guid(),
        };
        if !is_joined || !are_in_conflict(&claim, info) {
            reading.again(Query::Node(Some(from)));
        } else if precedes(inventory, from, place, &claim) {
            inventory.unplug(place);
            leave_out(inventory, place, from, guid);
            reading.again(Query::Node(Some(from)));
        } else {
            leave_out(inventory, from, place, guid);
        }
    }
}

/// Whether `from` has a better right than `place` to the GUIDs that both show. `claim` is the
/// answer from behind `from`.
fn precedes(inventory: &Inventory, from: PortKey, place: PortKey, claim: &NodeInfo) -> bool {
    let holder = inventory.hardware.port(place).and_then(|port| port.peer);
    let node = holder.and_then(|holder| inventory.hardware.node(holder.node));
    let is_new = node.is_some_and(|node| node.first_epoch == inventory.hardware.epoch);
    inventory.rights.has(from, claim)
        || is_new && link_rank(inventory, from) > link_rank(inventory, place)
}

/// Leaves out the node behind `from`, because the node behind `first` also has `guid`.
pub(super) fn leave_out(inventory: &mut Inventory, from: PortKey, first: PortKey, guid: Guid) {
    let fault = Fault::DuplicateGuid { guid, first };
    inventory.faults.at_port(from, fault);
}

/// The GUID of `claim` that the node known behind `first` also has: the node GUID, or the port
/// GUID.
fn guid_in_conflict(inventory: &Inventory, first: PortKey, claim: &NodeInfo) -> Guid {
    let holder = inventory.hardware.port(first).and_then(|port| port.peer);
    match holder.is_none_or(|holder| holder.node == claim.node_guid()) {
        true => claim.node_guid(),
        false => claim.port_guid(),
    }
}

/// The port from which a node answered.
fn here(info: &NodeInfo) -> PortKey {
    PortKey::new(info.node_guid(), info.local_port_num())
}

fn is_switch(info: &NodeInfo) -> bool {
    info.node_type() == NodeType::Switch
}

/// Whether two answers certainly come from different devices, even if they show one node GUID.
fn are_different(a: &NodeInfo, b: &NodeInfo) -> bool {
    let device = |info: &NodeInfo| (info.node_type(), info.num_ports(), info.system_image_guid());
    device(a) != device(b)
}

/// Whether two answers from behind different ports show a GUID that only one node may have.
fn are_in_conflict(a: &NodeInfo, b: &NodeInfo) -> bool {
    let has_same_port_guid = a.port_guid() == b.port_guid();
    if a.node_guid() != b.node_guid() {
        return has_same_port_guid;
    }
    let is_same_port = a.local_port_num() == b.local_port_num();
    are_different(a, b) || is_same_port || has_same_port_guid && !is_switch(a)
}

/// The other ends of a node's cables.
fn cables(node: &InventoryNode) -> impl Iterator<Item = PortKey> + '_ {
    node.external_ports().filter_map(|(_, port)| port.peer)
}

/// Rank of the link state at `place`: 2 for Active, 1 for Armed, 0 for other states. Only a manager
/// brings a link to Armed or Active.
fn link_rank(inventory: &Inventory, place: PortKey) -> u8 {
    match inventory
        .hardware
        .port(place)
        .and_then(InventoryPort::state)
    {
        Some(PortState::Active) => 2,
        Some(PortState::Armed) => 1,
        _ => 0,
    }
}

/// Whether `guid` is the GUID of the node at `place`, or a node or port GUID behind `place`.
fn has_guid(inventory: &Inventory, place: PortKey, guid: Guid) -> bool {
    if place.node == guid {
        return true;
    }
    let Some(holder) = inventory.hardware.port(place).and_then(|port| port.peer) else {
        return false;
    };
    let port = inventory.hardware.port(holder);
    holder.node == guid || port.is_some_and(|port| port.guid == guid)
}
