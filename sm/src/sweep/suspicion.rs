//! Nodes that may be dead.
//!
//! A switch that loses power takes its cables down and answers nothing. Its neighbours know of the
//! cables and are asked instead, by paths that avoid it; the switch itself is sent one question,
//! and everything else that was to be asked of it waits for an answer. Once no cable leads to it
//! any more, no answer of it is waited for.
//!
//! The caller reports questions that stay unanswered ([`Sweep::on_overdue`]) and takes back what is
//! not to be sent, or not to be waited for ([`Sweep::next_withdrawal`]).

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};

use rsm_ids::{Guid, PortNum};

use super::fault::Fault;
use super::inventory::{Inventory, NodeRecord, PortKey};
use super::managed::BlockKey;
use super::{Query, Scope, Sweep, paths};

/// Attempts in a row that a node leaves unanswered before it is a suspect: one may be lost by
/// itself.
const ATTEMPTS_TO_SUSPICION: u8 = 2;

/// As [`ATTEMPTS_TO_SUSPICION`], of a switch that just lost a cable: silence and a lost cable
/// together are no chance.
const ATTEMPTS_AFTER_LOST_CABLE: u8 = 1;

/// Questions that the caller is to take back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Withdrawal {
    /// Those to this node that were not sent yet: [`Sweep::postpone`] takes them until the node
    /// answers.
    Unsent(Guid),
    /// All to this node: no cable leads to it.
    Node(Guid),
    /// All to this port of a channel adapter: its cable is gone.
    Port(PortKey),
    /// NodeInfo of the node behind this port: its link is down.
    Behind(PortKey),
}

impl Withdrawal {
    /// Whether `query` is to be taken back.
    pub fn covers(self, query: Query) -> bool {
        match (self, query) {
            (Withdrawal::Unsent(guid) | Withdrawal::Node(guid), _) => query.node() == Some(guid),
            (Withdrawal::Behind(port), Query::Node(from)) => from == Some(port),
            (
                Withdrawal::Port(port),
                Query::Port(key)
                | Query::Sm(key)
                | Query::PKeys(key, _)
                | Query::Managed(BlockKey { port: key, .. }),
            ) => key == port,
            _ => false,
        }
    }
}

/// What a sweep knows of dead nodes, beside [`Inventory::suspects`].
#[derive(Default, Debug)]
pub(super) struct Suspicion {
    /// Nodes that answered since the sweep began, or since the last time that they let a question
    /// wait.
    heard: HashSet<Guid>,
    /// How many attempts of a question are known to be unanswered.
    unanswered: HashMap<Query, u8>,
    /// Ports of switches whose cables are gone by what their other ends say; the switches have not
    /// confirmed it.
    lost: BTreeMap<Guid, BTreeSet<PortNum>>,
    /// Nodes that became suspects in this sweep, or were so before and gave another reason.
    suspected: BTreeSet<Guid>,
    /// Suspects that were sent a question.
    asked: BTreeSet<Guid>,
    /// Suspects that let a question wait.
    overdue: BTreeSet<Guid>,
    /// Ports behind which NodeInfo is waited for.
    overdue_ports: BTreeSet<PortKey>,
    /// What is asked of suspects as soon as they answer.
    postponed: BTreeMap<Guid, BTreeSet<Query>>,
    /// Nodes that no cable leads to.
    unreachable: BTreeSet<Guid>,
    withdrawals: VecDeque<Withdrawal>,
    /// Paths to suspects may lead over cables that are gone.
    paths_stale: bool,
    /// Whether there are paths that [`Sweep::take_rerouted`] did not tell of.
    is_rerouted: bool,
    /// Questions that are asked again by path.
    by_path: HashSet<Query>,
    /// Whether there are suspects that [`Sweep::take_suspicion`] did not tell of.
    is_new: bool,
}

impl Sweep {
    /// `query` was sent, and `attempts` times its answer did not come in time; it is sent again.
    pub fn on_overdue(&mut self, inventory: &mut Inventory, query: Query, attempts: u8) {
        if query.is_optional() {
            // Firmware that does not know the attribute may leave it unanswered for ever.
            return;
        }
        let before = self.suspicion.unanswered.insert(query, attempts);
        if before.is_some_and(|before| before >= attempts) {
            return;
        }
        let node = match query {
            Query::Node(None) => None,
            Query::Node(Some(from)) => {
                if attempts >= ATTEMPTS_TO_SUSPICION {
                    self.suspicion.overdue_ports.insert(from);
                }
                let peer = inventory.port(from).and_then(|port| port.peer);
                peer.map(|peer| peer.node)
            }
            _ => query.node(),
        };
        let Some(guid) = node.filter(|&guid| inventory.node(guid).is_some()) else {
            return;
        };
        if self.suspicion.heard.remove(&guid) {
            return;
        }
        let enough = if self.suspicion.lost.contains_key(&guid) {
            ATTEMPTS_AFTER_LOST_CABLE
        } else {
            ATTEMPTS_TO_SUSPICION
        };
        if attempts >= enough {
            self.suspicion.overdue.insert(guid);
            self.suspicion.asked.insert(guid);
            self.suspect(inventory, guid);
        }
    }

    /// The next questions to be taken back, if any.
    pub fn next_withdrawal(&mut self) -> Option<Withdrawal> {
        self.suspicion.withdrawals.pop_front()
    }

    /// `query` was taken back before it was sent: it waits until the node answers something else.
    pub fn postpone(&mut self, query: Query) {
        self.outstanding = self.outstanding.saturating_sub(1);
        self.keep_for_later(query);
    }

    /// `query` was taken back, and is not asked again.
    pub fn withdrawn(&mut self, query: Query) {
        self.outstanding = self.outstanding.saturating_sub(1);
        self.asked.remove(&query);
    }

    /// Whether there are suspects since the last call.
    pub fn take_suspicion(&mut self) -> bool {
        std::mem::take(&mut self.suspicion.is_new)
    }

    /// Whether the sweep can end without the answers that are still out, if only suspects owe them:
    /// something differed that is worth going on with, or, in a full sweep, was reported; or
    /// something else is `urgent`.
    pub fn can_leave_out(&self, urgent: bool) -> bool {
        let worthwhile = match self.scope {
            Scope::Full { .. } => !self.targets.is_empty(),
            Scope::Light | Scope::Targets => self.changed,
        };
        let all_asked = self.probes.is_empty() && self.others.is_empty();
        let overdue = &self.suspicion;
        let some_overdue = !overdue.overdue.is_empty() || !overdue.overdue_ports.is_empty();
        all_asked && some_overdue && (worthwhile || urgent)
    }

    /// Whether the answer to `query` is owed by a node that lets questions wait.
    pub fn is_overdue(&self, query: Query) -> bool {
        match query {
            Query::Node(Some(from)) => self.suspicion.overdue_ports.contains(&from),
            _ => query
                .node()
                .is_some_and(|guid| self.suspicion.overdue.contains(&guid)),
        }
    }

    /// Finds every node's paths anew. Questions that are overdue are asked again by them.
    fn find_ways(&mut self, inventory: &mut Inventory) -> Vec<Guid> {
        self.suspicion.paths_stale = false;
        self.suspicion.is_rerouted = true;
        paths::refresh(inventory)
    }

    /// Whether paths have changed since the last call.
    pub fn take_rerouted(&mut self) -> bool {
        std::mem::take(&mut self.suspicion.is_rerouted)
    }

    /// `query` was taken back, because its way may have led over what is dead: it is asked again by
    /// the path of now.
    pub fn reroute(&mut self, query: Query) {
        self.outstanding = self.outstanding.saturating_sub(1);
        self.suspicion.by_path.insert(query);
        self.again(query);
    }

    /// Whether `query` was [rerouted](Sweep::reroute). Once is enough: who stays silent then is
    /// asked as often as anybody.
    pub fn is_by_path(&self, query: Query) -> bool {
        self.suspicion.by_path.contains(&query)
    }

    /// Before a suspect is asked: finds a path to it over cables that are there.
    pub(super) fn find_way_to_suspect(&mut self, inventory: &mut Inventory, query: Query) {
        let suspicion = &self.suspicion;
        let will_be_asked =
            |guid| inventory.suspects.contains(&guid) && !suspicion.asked.contains(&guid);
        if suspicion.paths_stale && query.node().is_some_and(will_be_asked) {
            self.find_ways(inventory);
        }
    }

    /// Whether `query` is not to be asked now: its node is not reached, or is a suspect that owes
    /// an answer already.
    pub(super) fn holds_back(&mut self, inventory: &Inventory, query: Query) -> bool {
        let Some(guid) = query.node() else {
            return false;
        };
        if self.suspicion.unreachable.contains(&guid) {
            self.asked.remove(&query);
            return true;
        }
        if !inventory.suspects.contains(&guid) || self.suspicion.asked.insert(guid) {
            return false;
        }
        self.keep_for_later(query);
        true
    }

    /// A node answered, whatever the answer is: it is no suspect.
    pub(super) fn hear(&mut self, inventory: &mut Inventory, guid: Guid) {
        let suspicion = &mut self.suspicion;
        suspicion.heard.insert(guid);
        let was_suspect = inventory.suspects.remove(&guid);
        let was_cut_off = suspicion.unreachable.remove(&guid);
        if !was_suspect && !was_cut_off {
            return;
        }
        suspicion.suspected.remove(&guid);
        suspicion.asked.remove(&guid);
        suspicion.overdue.remove(&guid);
        let postponed = suspicion.postponed.remove(&guid).unwrap_or_default();
        let lost = suspicion.lost.remove(&guid).unwrap_or_default();
        for query in postponed {
            self.again(query);
        }
        for port in lost {
            self.again(Query::Port(PortKey::new(guid, port)));
        }
        if was_cut_off {
            paths::refresh(inventory);
        }
    }

    /// A port answered for itself: what its cable's other end said is of no account.
    pub(super) fn confirmed(&mut self, key: PortKey) {
        if let Some(ports) = self.suspicion.lost.get_mut(&key.node) {
            ports.remove(&key.port);
            if ports.is_empty() {
                self.suspicion.lost.remove(&key.node);
            }
        }
    }

    /// The link at `key` is down: the node behind it is not asked for through it.
    pub(super) fn link_down(&mut self, key: PortKey) {
        // Should the link come back within this sweep, everything about it is new.
        if self.asked.remove(&Query::Node(Some(key))) {
            let withdrawals = &mut self.suspicion.withdrawals;
            withdrawals.push_back(Withdrawal::Behind(key));
        }
    }

    /// The cable from `from` to `peer` is gone by the word of `from`: what `peer` last said of
    /// itself no longer holds.
    pub(super) fn lost(&mut self, inventory: &mut Inventory, from: PortKey, peer: PortKey) {
        let is_switch = inventory.node(peer.node).is_some_and(NodeRecord::is_switch);
        let is_local = inventory.local == Some(peer);
        inventory.put_manager(peer, None);
        if !is_switch
            && !is_local
            && let Some(port) = inventory.port_mut(peer)
        {
            port.info = None;
            port.forget_tables();
        }
        if is_switch {
            self.lost_by_switch(inventory, from, peer);
        } else if !is_local {
            self.asked.remove(&Query::Port(peer));
            let withdrawals = &mut self.suspicion.withdrawals;
            withdrawals.push_back(Withdrawal::Port(peer));
            let node = inventory.node(peer.node);
            let has_cables = node.is_some_and(|node| cables(node).next().is_some());
            if !has_cables {
                self.give_up(peer.node);
            }
        }
    }

    /// The switch of `peer` lost a cable. One question to it settles that: its own trap may be
    /// under way or lost. A switch that lost several and reported none may be dead.
    fn lost_by_switch(&mut self, inventory: &mut Inventory, from: PortKey, peer: PortKey) {
        let leads_to_peer = paths::lead_over(inventory, from, peer);
        let leads_back = paths::lead_over(inventory, peer, from);
        if leads_to_peer && !leads_back && inventory.suspects.contains(&peer.node) {
            // A dead switch loses one cable after the other, and the sweep needs a path to it for
            // one question at most.
            self.suspicion.paths_stale = true;
        } else if leads_to_peer || leads_back {
            self.find_ways(inventory);
        }
        let ports = self.suspicion.lost.entry(peer.node).or_default();
        ports.insert(peer.port);
        if ports.len() > 1 && !self.is_target(peer.node) {
            self.suspect(inventory, peer.node);
        } else {
            self.again(Query::Port(peer));
            self.give_up_if_cut_off(inventory, peer.node);
        }
    }

    /// Asks about a node instead of asking it.
    fn suspect(&mut self, inventory: &mut Inventory, guid: Guid) {
        let witnesses = witnesses(inventory, guid);
        if inventory.suspects.insert(guid) {
            self.suspicion.is_new = true;
            if witnesses
                .iter()
                .any(|&end| is_reached_from(inventory, guid, end))
            {
                self.find_ways(inventory);
            }
        }
        if self.suspicion.suspected.insert(guid) {
            let withdrawals = &mut self.suspicion.withdrawals;
            withdrawals.push_back(Withdrawal::Unsent(guid));
            let lost = self.suspicion.lost.get(&guid);
            if let Some(&port) = lost.and_then(|ports| ports.first()) {
                self.again(Query::Port(PortKey::new(guid, port)));
            }
            // A full sweep asks them anyway.
            if !matches!(self.scope, Scope::Full { .. }) {
                for witness in witnesses {
                    self.again(Query::Port(witness));
                }
            }
        }
        self.give_up_if_cut_off(inventory, guid);
    }

    /// Waits for no answer of `guid`, nor of what is only behind it, if no cable leads there any
    /// more.
    fn give_up_if_cut_off(&mut self, inventory: &mut Inventory, guid: Guid) {
        let suspects = &inventory.suspects;
        let mut witnesses = witnesses(inventory, guid).into_iter();
        if witnesses.any(|witness| !suspects.contains(&witness.node)) {
            return;
        }
        let gone = self.find_ways(inventory);
        if gone.contains(&guid) {
            for node in gone {
                self.give_up(node);
            }
        }
    }

    fn give_up(&mut self, guid: Guid) {
        if self.suspicion.unreachable.insert(guid) {
            let withdrawals = &mut self.suspicion.withdrawals;
            withdrawals.push_back(Withdrawal::Node(guid));
        }
    }

    fn keep_for_later(&mut self, query: Query) {
        if let Some(guid) = query.node()
            && !self.suspicion.unreachable.contains(&guid)
        {
            let postponed = &mut self.suspicion.postponed;
            postponed.entry(guid).or_default().insert(query);
        }
    }

    /// Every suspect that is still there owes an answer, so that it is asked again: it may have
    /// been suspected for a question that was taken back.
    pub(super) fn owe_one_each(inventory: &mut Inventory) {
        let faults = &inventory.faults;
        let silent = faults
            .to_ask_again()
            .filter_map(|port| match faults.port(port) {
                Some(Fault::Unanswering { known }) => *known,
                _ => None,
            });
        let in_debt: BTreeSet<Guid> = faults
            .owed()
            .filter_map(Query::node)
            .chain(silent)
            .collect();
        for guid in inventory
            .suspects
            .difference(&in_debt)
            .copied()
            .collect::<Vec<_>>()
        {
            let is_switch = inventory.node(guid).is_some_and(NodeRecord::is_switch);
            let query = if is_switch {
                Query::Switch(guid)
            } else {
                Query::Description(guid)
            };
            inventory.faults.owe(query, None);
        }
    }

    /// What suspects that are still there were not asked, because they owe other answers, is owed
    /// as well.
    pub(super) fn owe_postponed(&mut self, inventory: &mut Inventory) {
        for (guid, queries) in std::mem::take(&mut self.suspicion.postponed) {
            if self.suspicion.unreachable.contains(&guid) {
                continue;
            }
            for query in queries {
                self.on_missing(inventory, query, None);
            }
        }
    }
}

/// The ports at the other ends of a node's cables whose agents can be asked without passing the
/// node.
fn witnesses(inventory: &Inventory, guid: Guid) -> Vec<PortKey> {
    let can_tell = |peer: &PortKey| {
        let is_switch = inventory.node(peer.node).is_some_and(NodeRecord::is_switch);
        is_switch && peer.node != guid || inventory.local == Some(*peer)
    };
    inventory
        .node(guid)
        .map(|node| cables(node).filter(can_tell).collect())
        .unwrap_or_default()
}

/// Whether the path to the other `end` of one of a node's cables leads through the node.
fn is_reached_from(inventory: &Inventory, guid: Guid, end: PortKey) -> bool {
    let here = inventory.port(end).and_then(|port| port.peer);
    here.is_some_and(|here| here.node == guid && paths::lead_over(inventory, here, end))
}

/// The other ends of a node's cables.
fn cables(node: &NodeRecord) -> impl Iterator<Item = PortKey> + '_ {
    node.external_ports().filter_map(|(_, port)| port.peer)
}
