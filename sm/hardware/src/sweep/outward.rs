//! The search outwards: after many faults at one instant, known paths are hearsay.
//!
//! When several nodes leave questions unanswered, the paths to all others may lead through what
//! died, and each dead path would be learnt by time-outs of its own. The sweep then withdraws all
//! questions under way and begins at the manager's own port: it asks a switch for SwitchInfo along
//! a path of which every hop has answered since, and goes on from there over the ports that are up
//! by its answer. A switch without PortStateChange has all its cables as known, and costs this one
//! Get; another one tells them port by port. All other questions wait until their switch has
//! answered, so that a silent switch costs one time-out for all that is asked of it and behind it.
//!
//! Switches that no such path reaches, or that leave SwitchInfo unanswered on all of them, are
//! suspects at the end of the sweep, or gone if no cable leads to them.
//!
//! Where switches that had answered fall silent, the search begins anew, four times at most. Heavy
//! losses start no search.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rsm_ids::{Guid, PortKey, PortNum};
use rsm_mad::ids::DirectedPath;

use super::inventory::Inventory;
use super::suspicion::{ATTEMPTS_TO_SUSPICION, Suspicion, cables};
use super::{Query, Sweep, SweepScope, paths, stale_paths};

/// How often one sweep begins at the manager's port again, because switches that had answered fell
/// silent.
const ROUNDS_MAX: u8 = 4;

/// Switches that had answered and then fall silent, from which on a search begins again.
const FALLEN_SILENT: usize = 2;

/// Further paths kept for a switch.
const FURTHER_MAX: usize = 4;

/// A search under way.
#[derive(Debug)]
pub(super) struct Outward {
    /// Further paths to each switch that was met, in the order of their discovery; the node holds
    /// the one in use.
    met: BTreeMap<Guid, VecDeque<DirectedPath>>,
    /// Switches that have answered.
    heard: BTreeSet<Guid>,
    /// Questions that wait for an answer of the switch on their way.
    parked: BTreeMap<Guid, BTreeSet<Query>>,
    /// Switches that had answered and then left questions unanswered.
    fell_silent: BTreeSet<Guid>,
    round: u8,
}

impl Outward {
    /// Whether `query`, which goes through `switch`, may go now.
    fn admits(&self, switch: Guid, query: Query) -> bool {
        let is_first = query == Query::Switch(switch) && self.met.contains_key(&switch);
        is_first || self.heard.contains(&switch)
    }

    /// Whether the port `end` is one of a switch that has answered, or the manager's own.
    fn passes(&self, inventory: &Inventory, end: PortKey) -> bool {
        self.heard.contains(&end.node) || inventory.local == Some(end)
    }
}

impl Sweep {
    /// Whether the sweep searches outwards.
    pub fn is_outward(&self) -> bool {
        self.outward.is_some()
    }

    /// Takes all paths for hearsay, and begins at the manager's port. Returns whether it does: a
    /// full sweep goes outwards anyway, and one ahead of a takeover reads nothing but SwitchInfo.
    pub(super) fn go_outward(&mut self, inventory: &mut Inventory) -> bool {
        let round = self.outward.as_ref().map_or(0, |before| before.round + 1);
        let is_full = matches!(self.scope, SweepScope::Full { .. });
        let Some(local) = inventory.local else {
            return false;
        };
        if is_full || self.ahead.is_some() || round >= ROUNDS_MAX {
            return false;
        }
        let before = self.outward.take();
        let parked = before.map(|before| before.parked).unwrap_or_default();
        let outward = Outward {
            met: BTreeMap::new(),
            heard: BTreeSet::new(),
            parked: BTreeMap::new(),
            fell_silent: BTreeSet::new(),
            round,
        };
        self.outward = Some(outward);
        let suspicion = std::mem::replace(&mut self.suspicion, Suspicion::of_new_search());
        self.waits_for_silent = false;
        self.asked.clear();
        self.waiting.clear();
        for way in self.targets.values_mut() {
            *way = None;
        }
        let probes = std::mem::take(&mut self.probes).into_iter();
        let probes = probes.map(|port| Query::Node(Some(port)));
        let mut others = std::mem::take(&mut self.others);
        others.retain(|&query| !self.misses_sample(query));
        let again: BTreeSet<Query> = probes
            .chain(others)
            .chain(suspicion.into_kept())
            .chain(parked.into_values().flatten())
            .collect();
        paths::forget(inventory);
        match inventory.node(local.node) {
            Some(node) if node.is_switch() => {
                self.meet_outward(inventory, local.node, DirectedPath::new());
            }
            _ => self.pass_on(inventory, local),
        }
        for query in again {
            self.again(query);
        }
        true
    }

    /// Keeps `query`, withdrawn because its path is hearsay, until its switch answers.
    pub fn park(&mut self, inventory: &Inventory, query: Query) {
        self.outstanding = self.outstanding.saturating_sub(1);
        if self.misses_sample(query) || self.defers(inventory, query) {
            return;
        }
        self.again(query);
    }

    /// Whether the search has not come as far as `query`; keeps it until then.
    pub(super) fn defers(&mut self, inventory: &Inventory, query: Query) -> bool {
        let Some(outward) = &mut self.outward else {
            return false;
        };
        let Some(switch) = stale_paths::switch_on_the_way(inventory, query) else {
            return false;
        };
        let is_local = inventory.local.is_some_and(|local| local.node == switch);
        if is_local || outward.admits(switch, query) {
            return false;
        }
        outward.parked.entry(switch).or_default().insert(query);
        self.asked.remove(&query);
        true
    }

    /// Goes on over the cable in `from`, whose port is up by an answer of this search.
    pub(super) fn pass_on(&mut self, inventory: &mut Inventory, from: PortKey) {
        if self.outward.is_none() {
            return;
        }
        let Some(node) = inventory.node(from.node) else {
            return;
        };
        let peer = node.port(from.port).and_then(|port| port.peer);
        if let (Some(peer), Ok(path)) = (peer, node.path.child(from.port))
            && peer.node != from.node
            && inventory.is_switch(peer.node)
        {
            self.meet_outward(inventory, peer.node, path);
        }
    }

    /// Takes `path`, of which every hop has answered, to a switch.
    pub(super) fn meet_outward(
        &mut self,
        inventory: &mut Inventory,
        guid: Guid,
        path: DirectedPath,
    ) {
        let Some(outward) = &mut self.outward else {
            return;
        };
        if let Some(further) = outward.met.get_mut(&guid) {
            if further.len() < FURTHER_MAX {
                further.push_back(path);
            }
            return;
        }
        outward.met.insert(guid, VecDeque::new());
        inventory.lead_to(guid, path, None);
        self.again(Query::Switch(guid));
    }

    /// After an answer of a switch: its questions go.
    pub(super) fn hear_outward(&mut self, guid: Guid) {
        let Some(outward) = &mut self.outward else {
            return;
        };
        if !outward.met.contains_key(&guid) || !outward.heard.insert(guid) {
            return;
        }
        for query in outward.parked.remove(&guid).unwrap_or_default() {
            self.ask(query);
        }
    }

    /// After SwitchInfo: passes on over all cables, or asks for the ports first.
    pub(super) fn search_on(&mut self, inventory: &mut Inventory, guid: Guid, is_changed: bool) {
        if self.outward.is_none() {
            return;
        }
        if self.is_target(guid) {
            // Ports answered before this search may have changed since.
            self.ask_reported_ports(inventory, guid);
        } else if !is_changed {
            let Some(node) = inventory.node(guid) else {
                return;
            };
            let up = node.external_ports().filter(|(_, port)| port.is_up());
            let up: Vec<PortNum> = up.map(|(number, _)| number).collect();
            for number in up {
                self.pass_on(inventory, PortKey::new(guid, number));
            }
        }
    }

    /// A neighbour that has answered lost its cable to `peer`: the switch there counts as not heard,
    /// and answers SwitchInfo before anything else goes to it. If no cable leads to it any longer,
    /// it is not waited for.
    pub(super) fn mark_outward_stale(&mut self, inventory: &mut Inventory, peer: PortKey) {
        let Some(outward) = &mut self.outward else {
            return;
        };
        let guid = peer.node;
        let parked = outward.parked.entry(guid).or_default();
        parked.insert(Query::Port(peer));
        if !outward.met.contains_key(&guid) {
            return;
        }
        let was_heard = outward.heard.remove(&guid);
        let is_joined = inventory
            .node(guid)
            .is_some_and(|node| cables(node).any(|end| outward.passes(inventory, end)));
        if !is_joined {
            outward.met.remove(&guid);
            self.suspicion.take_back(guid);
        } else if was_heard {
            self.ask_first_again(inventory, guid);
        }
    }

    /// Keeps a question that was taken back before it was sent.
    pub(super) fn keep_outward(&mut self, query: Query) {
        self.asked.remove(&query);
        if let (Some(outward), Some(guid)) = (&mut self.outward, query.node()) {
            outward.parked.entry(guid).or_default().insert(query);
        }
    }

    /// Sends an overdue question of a search again: by another path to its switch as long as there are
    /// some, then once more by the same. Returns whether it does.
    pub(super) fn sends_again(
        &mut self,
        inventory: &mut Inventory,
        query: Query,
        guid: Guid,
    ) -> bool {
        let Some(outward) = &mut self.outward else {
            return false;
        };
        let further = outward.met.get_mut(&guid).and_then(VecDeque::pop_front);
        if let Some(path) = further {
            inventory.lead_to(guid, path, None);
        } else if self.suspicion.is_by_path(query) {
            return false;
        }
        self.suspicion.send_again(query);
        true
    }

    /// Handles an overdue question of a search, of whose attempts losses do not explain `attempts`.
    ///
    /// Several switches that had answered and fall silent make the search begin anew. One alone is
    /// asked for SwitchInfo again before anything else, and a switch that leaves this unanswered on
    /// all its paths is a suspect.
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
        if !is_excused && outward.heard.contains(&guid) {
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

    /// Takes back what waits for a switch that had answered, and asks it for SwitchInfo.
    fn ask_first_again(&mut self, inventory: &mut Inventory, guid: Guid) {
        let Some(outward) = &mut self.outward else {
            return;
        };
        outward.heard.remove(&guid);
        let further = outward.met.get_mut(&guid).and_then(VecDeque::pop_front);
        if let Some(path) = further {
            inventory.lead_to(guid, path, None);
        }
        self.suspicion.keep_unsent(guid);
        self.again(Query::Switch(guid));
    }

    /// Ends the search outward with the sweep: places that it did not reach are suspects, if a
    /// cable leads there, and owe the answers to the questions that were kept for them.
    pub(super) fn end_outward(&mut self, inventory: &mut Inventory) {
        let Some(outward) = self.outward.take() else {
            return;
        };
        let switches: Vec<Guid> = inventory.switches().map(|(guid, ..)| guid).collect();
        let unheard = switches
            .into_iter()
            .filter(|guid| !outward.heard.contains(guid));
        inventory.suspects.extend(unheard);
        paths::forget(inventory);
        let parked = outward.parked.into_values().flatten();
        for query in parked.filter(|query| !query.is_optional()) {
            inventory.faults.owe(query, None);
        }
    }
}
