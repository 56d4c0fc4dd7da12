//! Stale paths: directed routes that lead to another node than intended, because cables were moved.
//!
//! A directed route names ports, not nodes, and only NodeInfo shows which node answers. If a sweep
//! finds a known node behind another port than before, other nodes may have answered the requests
//! along old routes, and their answers may have been recorded for the wrong node. Once the sweep
//! has all its answers, it therefore follows its routes over the cables known now. It repeats each
//! request whose route no longer leads to its node, and asks for NodeInfo behind each port whose
//! neighbour was found elsewhere.
//!
//! If cables between switches were moved, Sets and the Gets of earlier sweeps may also have reached
//! the wrong switch. A race between moved cables and answers can also make one switch appear as
//! two. In both cases, a full sweep follows.

use std::collections::BTreeSet;

use rsm_ids::{Guid, PortKey, PortNum};
use rsm_mad::ids::DirectedPath;
use rsm_mad::wire::attr::PortState;
use rsm_model::InventoryPort;

use super::fault::Fault;
use super::inventory::Inventory;
use super::{Query, Sweep, SweepScope, paths};

/// Maximum number of times that one sweep repeats requests. Two nodes with one GUID look like a
/// cable that moves with each answer, and would cause repetitions without end.
const REPETITIONS_MAX: u8 = 3;

/// Moved cables that a sweep has found.
#[derive(Default, Debug)]
pub(super) struct Moves {
    /// Whether a known node was found behind another port since the last repetition.
    is_due: bool,
    /// Ports whose former neighbour was found behind another port.
    displaced: BTreeSet<PortKey>,
    /// Whether a cable between two switches was moved, or a search outwards hides whether one was.
    is_of_trunk: bool,
    /// See [`Sweep::moved_hosts`].
    hosts: BTreeSet<PortKey>,
    /// Number of repetitions so far.
    repetitions: u8,
}

impl Moves {
    /// Whether a known node was found behind another port, and the sweep has not asked behind the
    /// former port again.
    pub(super) fn are_due(&self) -> bool {
        self.is_due
    }

    /// Records that a cable is about to be added between two ports, at least one of which had
    /// another cable.
    pub(super) fn record_move(&mut self, inventory: &Inventory, a: PortKey, b: PortKey) {
        self.is_due = true;
        let is_switch = |key: PortKey| inventory.hardware.is_switch(key.node);
        self.is_of_trunk |= is_switch(a) && is_switch(b);
        for key in [a, b] {
            let peer = inventory.hardware.port(key).and_then(|port| port.peer);
            self.displaced.extend(peer);
        }
    }

    /// Records that the cable known at `from` is about to be removed.
    pub(super) fn record_displaced(&mut self, inventory: &Inventory, from: PortKey) {
        self.is_due = true;
        let peer = inventory.hardware.port(from).and_then(|port| port.peer);
        self.displaced.extend(peer);
    }

    /// Records a port of a host that was found behind another cable than before.
    pub(super) fn record_moved_host(&mut self, host: PortKey) {
        self.hosts.insert(host);
    }
}

impl Sweep {
    /// Repeats the requests that another node than intended may have answered. Returns whether
    /// there are any.
    pub fn retry_stale_paths(&mut self, inventory: &mut Inventory) -> bool {
        let is_due =
            std::mem::take(&mut self.moves.is_due) && self.moves.repetitions < REPETITIONS_MAX;
        let displaced = std::mem::take(&mut self.moves.displaced);
        // A full sweep follows the cables that it finds.
        if !is_due || matches!(self.reading.scope, SweepScope::Full { .. }) {
            return false;
        }
        if self.is_outward() {
            // The search outwards uses its own paths until it ends. A full sweep follows.
            self.moves.is_of_trunk = true;
            return false;
        }
        self.moves.repetitions += 1;
        let bare: Vec<PortKey> = displaced
            .into_iter()
            .filter(|&key| inventory.hardware.passes_on(key))
            .filter(|&key| inventory.hardware.port(key).is_some_and(lacks_neighbour))
            .collect();
        let asked = self.reading.queries.asked();
        let asked: BTreeSet<(Guid, Query)> = asked
            .filter_map(|query| Some((last_switch_on_path(inventory, query)?, query)))
            .collect();
        let mut stale: BTreeSet<Guid> = asked.iter().map(|&(guid, _)| guid).collect();
        stale.retain(|&guid| {
            let report = self.targets.get(&guid).copied().flatten();
            let path = inventory.hardware.node(guid).map(|node| node.path);
            let mut routes = report.into_iter().chain(path);
            routes.any(|route| !arrives(inventory, route, guid))
        });
        if bare.is_empty() && stale.is_empty() {
            return false;
        }
        paths::refresh(inventory);
        for (guid, query) in asked.into_iter().filter(|(guid, _)| stale.contains(guid)) {
            // The path of the report may be stale as well: ask the switch along its new path.
            self.targets.entry(guid).and_modify(|path| *path = None);
            self.reading.again(query);
        }
        for key in bare {
            self.reading.again(Query::Node(Some(key)));
        }
        true
    }

    /// Whether the wrong node may have answered a query of this or an earlier sweep, or executed a
    /// Set, so that a full sweep must follow.
    pub fn is_contradicted(&self, inventory: &Inventory) -> bool {
        let is_full = matches!(self.reading.scope, SweepScope::Full { .. });
        let faults = &inventory.faults;
        let is_of_switch = |guid| {
            let end = inventory.hardware.port_with_guid(guid);
            let guid = end.map_or(guid, |end| end.node);
            inventory.hardware.is_switch(guid)
        };
        let is_new = |port| {
            let before = self.before.faults.port(port);
            !matches!(before, Some(Fault::DuplicateGuid { .. }))
        };
        let has_switch_twice = || {
            let mut duplicates = faults.duplicates();
            duplicates.any(|(port, guid, _)| is_of_switch(guid) && is_new(port))
        };
        !is_full && (self.moves.is_of_trunk || has_switch_twice())
    }

    /// Takes the ports of hosts that were found behind another cable than before. They must be read
    /// once more, because a late answer of another host may have been recorded last.
    pub fn moved_hosts(&mut self) -> BTreeSet<PortKey> {
        std::mem::take(&mut self.moves.hosts)
    }
}

/// Whether the link of a port is up and no cable is known there.
fn lacks_neighbour(port: &InventoryPort) -> bool {
    port.peer.is_none() && port.state().is_some_and(|state| state != PortState::Down)
}

/// The last switch on the directed route of a query: the target switch itself, or the switch next
/// to the target host. `None` if that switch is not known.
pub(super) fn last_switch_on_path(inventory: &Inventory, query: Query) -> Option<Guid> {
    let key = match query {
        Query::Node(from) => from?,
        query => PortKey::new(query.node()?, query.port()),
    };
    let node = inventory.hardware.node(key.node)?;
    if node.is_switch() {
        return Some(key.node);
    }
    let peer = match key.port {
        PortNum::ZERO => node.external_ports().find_map(|(_, port)| port.peer),
        number => node.port(number)?.peer,
    };
    Some(peer?.node)
}

/// Whether a route leads to `guid` over the cables known now.
fn arrives(inventory: &Inventory, route: DirectedPath, guid: Guid) -> bool {
    let Some(local) = inventory.hardware.local else {
        return false;
    };
    let mut hops = route.hops().iter();
    let end = hops.try_fold(local.node, |node, &exit| {
        let peer = inventory.hardware.port(PortKey::new(node, exit))?.peer?;
        Some(peer.node)
    });
    end == Some(guid)
}
