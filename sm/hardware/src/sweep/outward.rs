//! The search outwards: used when many parts fail at once and known paths cannot be trusted.
//!
//! If several nodes leave queries unanswered, the paths to all other nodes may lead through dead
//! parts, and each dead path would cost time-outs. The sweep then withdraws all queries under way
//! and starts at the manager's own port. It asks each switch for SwitchInfo along a path on which
//! every hop has answered since, and continues over the switch's ports that are up. A switch
//! without PortStateChange still has its known cables, and costs only this Get; any other switch is
//! asked for each port. All other queries wait until their switch has answered, so a silent switch
//! costs one time-out for all queries to it and behind it.
//!
//! At the end of the sweep, a switch is a suspect if no such path reaches it, or if it left
//! SwitchInfo unanswered on all paths. A switch to which no cable leads is gone.
//!
//! If switches fall silent after they answered, the search starts again; one sweep makes at most
//! four searches. Packet loss alone does not start a search, even if it is heavy.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rsm_ids::{Guid, PortKey, PortNum};
use rsm_mad::ids::DirectedPath;

use super::inventory::Inventory;
use super::suspicion::{ATTEMPTS_TO_SUSPICION, Suspicion, cables};
use super::{Query, Sweep, SweepScope, paths, stale_paths};

/// Maximum number of searches in one sweep: the first search, and the restarts because switches
/// fell silent after they answered.
const SEARCHES_MAX: u8 = 4;

/// Number of switches that must fall silent after they answered to restart a search.
const FALLEN_SILENT: usize = 2;

/// Maximum number of paths that are kept for each switch besides the path in use.
const OTHER_PATHS_MAX: usize = 4;

/// State of a search outwards.
#[derive(Debug)]
pub(super) struct Outward {
    /// The switches found, each with further paths to it in the order of discovery. The record of
    /// the node has the path in use.
    reached: BTreeMap<Guid, VecDeque<DirectedPath>>,
    /// Switches that have answered.
    answered: BTreeSet<Guid>,
    /// Queries that wait until a switch on their path answers, by that switch.
    parked: BTreeMap<Guid, BTreeSet<Query>>,
    /// Switches that answered, and then left queries unanswered.
    fell_silent: BTreeSet<Guid>,
    /// Number of earlier searches in this sweep.
    earlier_searches: u8,
}

impl Outward {
    /// Whether `query`, whose path leads through `switch`, may be sent now.
    fn admits(&self, switch: Guid, query: Query) -> bool {
        let is_first = query == Query::Switch(switch) && self.reached.contains_key(&switch);
        is_first || self.answered.contains(&switch)
    }

    /// Whether the port `end` belongs to a switch that has answered, or is the manager's own port.
    fn passes(&self, inventory: &Inventory, end: PortKey) -> bool {
        self.answered.contains(&end.node) || inventory.hardware.local == Some(end)
    }
}

impl Sweep {
    /// Whether the sweep is searching outwards.
    pub fn is_outward(&self) -> bool {
        self.outward.is_some()
    }

    /// Gives up all known paths, and starts a search at the manager's port. Returns `false` if no
    /// search starts, because a full sweep goes outwards anyway, a sweep ahead of a takeover reads
    /// only SwitchInfo, or there have been [`SEARCHES_MAX`] searches.
    pub(super) fn go_outward(&mut self, inventory: &mut Inventory) -> bool {
        let earlier_searches = self
            .outward
            .as_ref()
            .map_or(0, |before| before.earlier_searches + 1);
        let is_full = matches!(self.reading.scope, SweepScope::Full { .. });
        let Some(local) = inventory.hardware.local else {
            return false;
        };
        if is_full || self.reported_ahead.is_some() || earlier_searches >= SEARCHES_MAX {
            return false;
        }
        let before = self.outward.take();
        let parked = before.map(|before| before.parked).unwrap_or_default();
        let outward = Outward {
            reached: BTreeMap::new(),
            answered: BTreeSet::new(),
            parked: BTreeMap::new(),
            fell_silent: BTreeSet::new(),
            earlier_searches,
        };
        self.outward = Some(outward);
        let suspicion = std::mem::replace(&mut self.suspicion, Suspicion::of_new_search());
        self.waits_for_silent = false;
        for way in self.targets.values_mut() {
            *way = None;
        }
        let mut waiting = self.reading.queries.start_over();
        waiting.retain(|&query| !self.reading.misses_sample(query));
        let again: BTreeSet<Query> = waiting
            .into_iter()
            .chain(suspicion.into_kept())
            .chain(parked.into_values().flatten())
            .collect();
        paths::forget(inventory);
        match inventory.hardware.node(local.node) {
            Some(node) if node.is_switch() => {
                self.record_outward_path(inventory, local.node, DirectedPath::new());
            }
            _ => self.continue_over(inventory, local),
        }
        for query in again {
            self.reading.again(query);
        }
        true
    }

    /// Keeps `query`, which was withdrawn because its path cannot be trusted, until the switch on
    /// its path answers.
    pub fn park(&mut self, inventory: &Inventory, query: Query) {
        self.reading.queries.withdraw();
        if self.reading.misses_sample(query) || self.defers(inventory, query) {
            return;
        }
        self.reading.again(query);
    }

    /// Whether `query` must wait because the switch on its path has not answered this search yet.
    /// If so, keeps the query until the switch answers.
    pub(super) fn defers(&mut self, inventory: &Inventory, query: Query) -> bool {
        let Some(outward) = &mut self.outward else {
            return false;
        };
        let Some(switch) = stale_paths::last_switch_on_path(inventory, query) else {
            return false;
        };
        let is_local = inventory
            .hardware
            .local
            .is_some_and(|local| local.node == switch);
        if is_local || outward.admits(switch, query) {
            return false;
        }
        outward.parked.entry(switch).or_default().insert(query);
        self.reading.queries.forget(query);
        true
    }

    /// Continues over the cable at `from`, a port that this search found up.
    pub(super) fn continue_over(&mut self, inventory: &mut Inventory, from: PortKey) {
        if self.outward.is_none() {
            return;
        }
        let Some(node) = inventory.hardware.node(from.node) else {
            return;
        };
        let peer = node.port(from.port).and_then(|port| port.peer);
        if let (Some(peer), Ok(path)) = (peer, node.path.child(from.port))
            && peer.node != from.node
            && inventory.hardware.is_switch(peer.node)
        {
            self.record_outward_path(inventory, peer.node, path);
        }
    }

    /// Records `path` to a switch, on which every hop has answered.
    pub(super) fn record_outward_path(
        &mut self,
        inventory: &mut Inventory,
        guid: Guid,
        path: DirectedPath,
    ) {
        let Some(outward) = &mut self.outward else {
            return;
        };
        if let Some(further) = outward.reached.get_mut(&guid) {
            if further.len() < OTHER_PATHS_MAX {
                further.push_back(path);
            }
            return;
        }
        outward.reached.insert(guid, VecDeque::new());
        inventory.hardware.set_paths(guid, path, None);
        self.reading.again(Query::Switch(guid));
    }

    /// Handles an answer of a switch: queues the queries that waited for it.
    pub(super) fn hear_outward(&mut self, guid: Guid) {
        let Some(outward) = &mut self.outward else {
            return;
        };
        if !outward.reached.contains_key(&guid) || !outward.answered.insert(guid) {
            return;
        }
        for query in outward.parked.remove(&guid).unwrap_or_default() {
            self.reading.ask(query);
        }
    }

    /// Handles SwitchInfo of a switch. If it shows no change (`is_changed`), continues over all
    /// cables of the switch that are up; otherwise the answers about its ports continue the search.
    pub(super) fn continue_search(
        &mut self,
        inventory: &mut Inventory,
        guid: Guid,
        is_changed: bool,
    ) {
        if self.outward.is_none() {
            return;
        }
        if self.is_target(guid) {
            // Ports that answered before this search may have changed since.
            self.ask_reported_ports(inventory, guid);
        } else if !is_changed {
            let Some(node) = inventory.hardware.node(guid) else {
                return;
            };
            let up = node.external_ports().filter(|(_, port)| port.is_up());
            let up: Vec<PortNum> = up.map(|(number, _)| number).collect();
            for number in up {
                self.continue_over(inventory, PortKey::new(guid, number));
            }
        }
    }

    /// Handles an answer of a neighbour that shows the loss of the cable to `peer`: the switch of
    /// `peer` must answer SwitchInfo again before it gets other queries. If no cable leads to that
    /// switch any longer, the search does not wait for it.
    pub(super) fn mark_outward_stale(&mut self, inventory: &mut Inventory, peer: PortKey) {
        let Some(outward) = &mut self.outward else {
            return;
        };
        let guid = peer.node;
        let parked = outward.parked.entry(guid).or_default();
        parked.insert(Query::Port(peer));
        if !outward.reached.contains_key(&guid) {
            return;
        }
        let had_answered = outward.answered.remove(&guid);
        let is_joined = inventory
            .hardware
            .node(guid)
            .is_some_and(|node| cables(node).any(|end| outward.passes(inventory, end)));
        if !is_joined {
            outward.reached.remove(&guid);
            self.suspicion.take_back(guid);
        } else if had_answered {
            self.ask_first_again(inventory, guid);
        }
    }

    /// Keeps a query that was withdrawn before it was sent.
    pub(super) fn keep_outward(&mut self, query: Query) {
        self.reading.queries.forget(query);
        if let (Some(outward), Some(guid)) = (&mut self.outward, query.node()) {
            outward.parked.entry(guid).or_default().insert(query);
        }
    }

    /// Sends an overdue query of a search again: by the next path to its switch, or once more by
    /// the last path if there is no other. Returns whether the query is sent again.
    pub(super) fn sends_again(
        &mut self,
        inventory: &mut Inventory,
        query: Query,
        guid: Guid,
    ) -> bool {
        let Some(outward) = &mut self.outward else {
            return false;
        };
        let further = outward.reached.get_mut(&guid).and_then(VecDeque::pop_front);
        if let Some(path) = further {
            inventory.hardware.set_paths(guid, path, None);
        } else if self.suspicion.is_by_path(query) {
            return false;
        }
        self.suspicion.send_again(query);
        true
    }

    /// Handles an overdue query of a search to the node `guid`. `attempts` is the number of its
    /// unanswered attempts that packet loss does not explain.
    ///
    /// If several switches fall silent after they answered, the search restarts. A single silent
    /// switch is asked for SwitchInfo again, and becomes a suspect if it leaves that Get unanswered
    /// on all paths.
    pub(super) fn overdue_outward(
        &mut self,
        inventory: &mut Inventory,
        query: Query,
        guid: Guid,
        attempts: u8,
    ) {
        let is_excused = attempts == 0 || self.suspicion.excuses(guid);
        let Some(outward) = &mut self.outward else {
            return;
        };
        if !is_excused && outward.answered.contains(&guid) {
            outward.fell_silent.insert(guid);
            if outward.fell_silent.len() >= FALLEN_SILENT && self.go_outward(inventory) {
                return;
            }
            return self.ask_first_again(inventory, guid);
        }
        let is_first = query == Query::Switch(guid);
        let enough = if is_first { 1 } else { ATTEMPTS_TO_SUSPICION };
        if self.sends_again(inventory, query, guid) || is_excused || attempts < enough {
            return;
        }
        if !matches!(query, Query::Node(_)) {
            self.suspicion.await_no_longer(inventory, guid);
        }
    }

    /// Withdraws the unsent queries to a switch that answered and then fell silent, and asks it for
    /// SwitchInfo again.
    fn ask_first_again(&mut self, inventory: &mut Inventory, guid: Guid) {
        let Some(outward) = &mut self.outward else {
            return;
        };
        outward.answered.remove(&guid);
        let further = outward.reached.get_mut(&guid).and_then(VecDeque::pop_front);
        if let Some(path) = further {
            inventory.hardware.set_paths(guid, path, None);
        }
        self.suspicion.keep_unsent(guid);
        self.reading.again(Query::Switch(guid));
    }

    /// Ends the search with the sweep: switches that have not answered are suspects, and the
    /// queries kept for them count as unanswered.
    pub(super) fn end_outward(&mut self, inventory: &mut Inventory) {
        let Some(outward) = self.outward.take() else {
            return;
        };
        let switches: Vec<Guid> = inventory
            .hardware
            .switches()
            .map(|(guid, ..)| guid)
            .collect();
        let unanswered = switches
            .into_iter()
            .filter(|guid| !outward.answered.contains(guid));
        inventory.suspects.extend(unanswered);
        paths::forget(inventory);
        let parked = outward.parked.into_values().flatten();
        for query in parked.filter(|query| !query.is_optional()) {
            inventory.faults.owe(query, None);
        }
    }
}
