//! Duplicate GUIDs: nodes behind two ports answer with the same GUID.
//!
//! A *place* is the port behind which a node is found. The place that had the GUID first keeps it,
//! wherever the second node is. If a known node seems to be elsewhere, the sweep first asks behind
//! its known place: a host that was moved no longer answers there, a host with a duplicate does.
//! The port of the second node is left out ([`Fault::DuplicateGuid`]). It is asked again once the
//! first place has lost the GUID, by each light sweep, and after each report of its switch.
//!
//! A place that loses its host while the GUID is elsewhere keeps its right to the GUID for
//! [`RIGHT_LASTS`]: a rebooting host is still the first one, even if its duplicate was served
//! meanwhile. If no sweep has found either place before, the first place is that of the former run,
//! according to the stored cabling; otherwise the place whose link a manager has brought to a
//! higher state.

use std::cell::OnceCell;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use rsm_ids::{Guid, PortKey, PortNum};
use rsm_mad::Time;
use rsm_mad::wire::attr::{NodeInfo, NodeType, PortState};
use rsm_model::{InventoryNode, InventoryPort};

use super::fault::Fault;
use super::inventory::Inventory;
use super::{Query, Sweep, SweepScope};

/// Maximum number of repeated queries behind one port in one sweep because of duplicates. A node
/// that answers with another GUID each time must not keep the sweep from ending.
const PROBES_MAX: u8 = 16;

/// Time for which a place has the right to the GUID of a host that was later found elsewhere:
/// longer than a reboot or a repair, and shorter than a moved host usually stays.
pub const RIGHT_LASTS: Duration = Duration::from_secs(24 * 60 * 60);

/// The undecided contests for GUIDs in one sweep.
#[derive(Default, Debug)]
pub(super) struct Contests {
    /// The other ports behind which a GUID was found, with the answers from there, by the port
    /// behind which the GUID is known and which is asked again.
    open: BTreeMap<PortKey, BTreeMap<PortKey, NodeInfo>>,
    /// Number of queries of this sweep behind each port because of duplicates.
    probes: BTreeMap<PortKey, u8>,
    /// Missing end ports by GUID; computed at the first lookup.
    missing: OnceCell<HashMap<Guid, PortKey>>,
}

impl Contests {
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
}

/// Places with a right to a GUID that is elsewhere now.
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
    /// Time at which the host was found elsewhere; `None` until the end of that sweep.
    at: Option<Time>,
}

impl Rights {
    /// Sets the time `now` for rights of the sweep that has just ended, and drops expired rights.
    pub fn date(&mut self, now: Time) {
        self.by_place.retain(|_, right| {
            let at = *right.at.get_or_insert(now);
            now.since(at) < RIGHT_LASTS
        });
    }

    fn has(&self, place: PortKey, info: &NodeInfo) -> bool {
        let right = self.by_place.get(&place);
        right.is_some_and(|right| right.host == here(info) || right.guid == info.port_guid())
    }
}

impl Sweep {
    /// The first place of a node that answers `info` behind `from` although it cannot be at both
    /// places. `None` if no such place is known, or the link of the first place is known to be
    /// down.
    pub(super) fn first_place(
        &self,
        inventory: &Inventory,
        from: PortKey,
        info: &NodeInfo,
    ) -> Option<PortKey> {
        let is_full = matches!(self.scope, SweepScope::Full { .. });
        let stands = |&other: &PortKey| {
            let state = inventory.port(other).and_then(InventoryPort::state);
            other != from && inventory.passes_on(other) && state != Some(PortState::Down)
        };
        // A full sweep asks behind the remaining ports later.
        let is_met = |other: &PortKey| !is_full || self.entered.contains(&other.node);
        let stands_and_met = |other: &PortKey| stands(other) && is_met(other);
        let here = here(info);
        if here == from {
            return None;
        }
        let known = inventory.node(here.node);
        let other_device = known
            .filter(|known| are_different(&known.info, info))
            .and_then(|known| {
                // A host that a sweep finds before the switch must not take the switch's place.
                cables(known).find(|other| stands(other) && (known.is_switch() || is_met(other)))
            });
        let same_port = || inventory.port(here)?.peer.filter(stands_and_met);
        let same_port_guid = || {
            let holder = inventory.port_with_guid(info.port_guid())?;
            let is_same = holder == here || is_switch(info) && holder.node == here.node;
            let node = inventory.node(holder.node).filter(|_| !is_same)?;
            match node.is_switch() {
                true => cables(node).find(stands_and_met),
                false => node.port(holder.port)?.peer.filter(stands_and_met),
            }
        };
        other_device.or_else(same_port).or_else(same_port_guid)
    }

    /// The port of the node that has the GUID of the device behind `from` and is certainly present:
    /// the node that forwarded the Get, or the manager's own node. `None` if there is no such
    /// conflict.
    pub(super) fn impersonated(
        &self,
        inventory: &Inventory,
        from: PortKey,
        info: &NodeInfo,
    ) -> Option<PortKey> {
        let guid = info.node_guid();
        let known = inventory.node(guid)?;
        let near = [
            inventory.local,
            Some(PortKey::new(from.node, PortNum::ZERO)),
        ];
        let near = near.into_iter().flatten().find(|near| near.node == guid);
        near.filter(|_| are_different(&known.info, info))
    }

    /// Asks behind `first` whether the node that answered `info` behind `from` is still there.
    pub(super) fn contest(
        &mut self,
        inventory: &mut Inventory,
        from: PortKey,
        first: PortKey,
        info: &NodeInfo,
    ) {
        if inventory.port(from).is_some_and(|port| port.peer.is_some()) {
            // The former neighbour of this port is gone.
            self.note_displaced(inventory, from);
            inventory.part(from);
        }
        if !self.contests.admits(first) {
            let guid = guid_in_conflict(inventory, first, info);
            leave_out(inventory, from, first, guid);
            return;
        }
        let contenders = self.contests.open.entry(first).or_default();
        contenders.insert(from, *info);
        // If the port is down, its PortInfo arrives before the query behind it times out.
        self.again(Query::Port(first));
        self.again(Query::Node(Some(first)));
    }

    /// Decides the contests about the GUIDs behind `place`, where a node answered `info`.
    pub(super) fn decide(
        &mut self,
        inventory: &mut Inventory,
        place: PortKey,
        info: &NodeInfo,
        contenders: BTreeMap<PortKey, NodeInfo>,
    ) {
        for (from, claim) in contenders {
            let is_joined = inventory.port(place).and_then(|port| port.peer) == Some(here(info));
            let guid = match claim.node_guid() == info.node_guid() {
                true => info.node_guid(),
                false => info.port_guid(),
            };
            if !is_joined || !are_in_conflict(&claim, info) {
                self.again(Query::Node(Some(from)));
            } else if self.precedes(inventory, from, place, &claim) {
                inventory.part(place);
                leave_out(inventory, place, from, guid);
                self.again(Query::Node(Some(from)));
            } else {
                leave_out(inventory, from, place, guid);
            }
        }
    }

    /// Decides the contests about the GUIDs behind `place`, where no node answers. A hanging host
    /// keeps its place as long as its switch shows a link that did not train again.
    pub(super) fn decide_silent(&mut self, inventory: &mut Inventory, place: PortKey) {
        let contenders = self.contests.close(place);
        if contenders.is_empty() {
            return;
        }
        let switch = inventory.node(place.node);
        let has_answered = switch.is_some_and(|node| node.epoch == inventory.epoch);
        let is_same_link = progress(inventory, place) > 0;
        if !has_answered || !is_same_link {
            inventory.part(place);
        }
        for (from, claim) in contenders {
            if has_answered && is_same_link {
                let guid = guid_in_conflict(inventory, place, &claim);
                leave_out(inventory, from, place, guid);
            } else {
                self.again(Query::Node(Some(from)));
            }
        }
    }

    /// Whether `from` has a better right than `place` to the GUIDs that both of them show.
    fn precedes(
        &self,
        inventory: &Inventory,
        from: PortKey,
        place: PortKey,
        claim: &NodeInfo,
    ) -> bool {
        let holder = inventory.port(place).and_then(|port| port.peer);
        let node = holder.and_then(|holder| inventory.node(holder.node));
        let is_new = node.is_some_and(|node| node.first_epoch == inventory.epoch);
        inventory.rights.has(from, claim)
            || is_new && progress(inventory, from) > progress(inventory, place)
    }

    /// Asks again behind ports that were left out in favour of a place that has lost the GUID, and
    /// behind ports with an undecided contest. Returns whether there are any.
    pub fn ask_left_out_again(&mut self, inventory: &mut Inventory) -> bool {
        let open = std::mem::take(&mut self.contests.open);
        let undecided = open.into_values().flat_map(BTreeMap::into_keys);
        let duplicates = inventory.faults.duplicates();
        let free = duplicates.filter(|&(_, guid, first)| !has_guid(inventory, first, guid));
        let mut ports: Vec<PortKey> = undecided.chain(free.map(|(port, ..)| port)).collect();
        ports.retain(|&port| self.contests.admits(port));
        for &port in &ports {
            self.again(Query::Node(Some(port)));
        }
        !ports.is_empty()
    }

    /// Records the contests that the sweep could not decide: their first places keep the GUIDs.
    pub(super) fn end_contests(&mut self, inventory: &mut Inventory) {
        for (first, contenders) in std::mem::take(&mut self.contests.open) {
            for (from, claim) in contenders {
                let guid = guid_in_conflict(inventory, first, &claim);
                leave_out(inventory, from, first, guid);
            }
        }
    }

    /// Records that a host answers `info` behind `from`: each of its former places without a node
    /// gets a right to its GUIDs.
    pub(super) fn note_rights(
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
        let missing = self.contests.missing.get_or_init(|| {
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
            let is_bare = inventory.port(place).is_none_or(|port| port.peer.is_none());
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

/// Leaves out the node behind `from`, because the node behind `first` also has `guid`.
pub(super) fn leave_out(inventory: &mut Inventory, from: PortKey, first: PortKey, guid: Guid) {
    let fault = Fault::DuplicateGuid { guid, first };
    inventory.faults.at_port(from, fault);
}

/// The GUID of `claim` that the node known behind `first` also has: its node GUID, or the GUID of
/// its port.
fn guid_in_conflict(inventory: &Inventory, first: PortKey, claim: &NodeInfo) -> Guid {
    let holder = inventory.port(first).and_then(|port| port.peer);
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

/// Whether two answers come from different devices, even if they show one node GUID.
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

/// Rank of the state to which a manager has brought the link at `place`; higher for a higher state.
fn progress(inventory: &Inventory, place: PortKey) -> u8 {
    match inventory.port(place).and_then(InventoryPort::state) {
        Some(PortState::Active) => 2,
        Some(PortState::Armed) => 1,
        _ => 0,
    }
}

/// Whether the node at `place`, or the node behind it, has this GUID as its own or as a port's.
fn has_guid(inventory: &Inventory, place: PortKey, guid: Guid) -> bool {
    if place.node == guid {
        return true;
    }
    let Some(holder) = inventory.port(place).and_then(|port| port.peer) else {
        return false;
    };
    let port = inventory.port(holder);
    holder.node == guid || port.is_some_and(|port| port.guid == guid)
}
