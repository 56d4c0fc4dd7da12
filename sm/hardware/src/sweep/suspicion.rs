//! Suspects: nodes that may be dead.
//!
//! A switch that loses power takes its cables down and answers nothing. The sweep then asks the
//! switch's neighbours for the cables, on paths that avoid the switch. The switch itself gets one
//! query; all other queries to it wait until it answers. Once no cable leads to the switch, the
//! sweep no longer waits for it.
//!
//! The caller reports overdue queries ([`Sweep::on_overdue`]) and withdraws queries that the sweep
//! no longer needs ([`Sweep::next_withdrawal`]).

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};

use rsm_ids::{Guid, PortKey, PortNum};
use rsm_model::managed::BlockKey;
use rsm_model::{InventoryNode, InventoryPort};

use super::fault::Fault;
use super::inventory::Inventory;
use super::{Query, Sweep, SweepScope, paths};

/// Number of successive unanswered attempts of a query that make a node a suspect: a single one may
/// be packet loss.
pub(super) const ATTEMPTS_TO_SUSPICION: u8 = 2;

/// Number of signs of faults at one instant from which no known path is trusted. A sign is a node
/// that leaves queries unanswered, or a switch that lost cables according to its neighbours but
/// reported no change, as a switch without power does.
const SIGNS_OF_MANY_FAULTS: usize = 4;

/// Value of [`SIGNS_OF_MANY_FAULTS`] once [`REPORTS_AT_ONCE`] switches have reported changes.
const SIGNS_BESIDE_REPORTS: usize = 2;

/// Number of reporting switches that indicates several faults: after one fault in a small fabric,
/// fewer switches report.
const REPORTS_AT_ONCE: usize = 6;

/// Value of [`ATTEMPTS_TO_SUSPICION`] for a switch that just lost a cable: silence and a lost cable
/// together are hardly a coincidence.
const ATTEMPTS_AFTER_LOST_CABLE: u8 = 1;

/// If packet loss explains more successive unanswered attempts than this, no search outwards
/// starts: such loss also silences several nodes at once, and asking every switch again would cost
/// more than it saves.
const EXPLAINED_BEFORE_OUTWARD: u8 = 2;

/// Queries that the caller must withdraw.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Withdrawal {
    /// Unsent queries to this node. [`Sweep::postpone`] keeps them until the node answers.
    Unsent(Guid),
    /// All queries to this node: no cable leads to it.
    Node(Guid),
    /// All queries to this node and to the nodes behind its ports: a search outwards has found no
    /// cable to it so far, or a full sweep asks it after all others. [`Sweep::park`] keeps the
    /// queries.
    ForLater(Guid),
    /// All queries to this port of a channel adapter: its cable is gone.
    Port(PortKey),
    /// NodeInfo of the node behind this port: its link is down.
    Behind(PortKey),
    /// All queries, whose paths cannot be trusted. [`Sweep::park`] keeps them.
    Everything,
    /// This query. [`Sweep::reroute`] sends it again by another path.
    Overdue(Query),
}

impl Withdrawal {
    /// Whether `query` must be withdrawn.
    pub fn covers(self, query: Query) -> bool {
        match (self, query) {
            (Withdrawal::ForLater(guid), Query::Node(Some(from))) => from.node == guid,
            (Withdrawal::Unsent(guid) | Withdrawal::Node(guid) | Withdrawal::ForLater(guid), _) => {
                query.node() == Some(guid)
            }
            (Withdrawal::Behind(port), Query::Node(from)) => from == Some(port),
            (Withdrawal::Everything, _) => true,
            (Withdrawal::Overdue(overdue), _) => overdue == query,
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

/// State of a sweep's suspicions; the suspects themselves are in [`Inventory::suspects`].
#[derive(Default, Debug)]
pub(super) struct Suspicion {
    /// Nodes that answered since the sweep began, or since their last overdue query.
    heard: HashSet<Guid>,
    /// Number of unanswered attempts of each query.
    unanswered: HashMap<Query, u8>,
    /// Ports whose cables are gone according to the far ends, by switch. The switch itself has not
    /// answered about these ports yet.
    lost: BTreeMap<Guid, BTreeSet<PortNum>>,
    /// Nodes that became suspects in this sweep, or showed another sign of being dead.
    suspected: BTreeSet<Guid>,
    /// Suspects that were sent a query.
    asked: BTreeSet<Guid>,
    /// Suspects that a full sweep has asked after all others, and that have not answered since.
    asked_last: BTreeSet<Guid>,
    /// Whether there may be suspects that a full sweep has postponed and not asked yet.
    may_ask_last: bool,
    /// Suspects with an overdue query.
    overdue: BTreeSet<Guid>,
    /// Ports behind which NodeInfo is overdue.
    overdue_ports: BTreeSet<PortKey>,
    /// Queries that suspects get as soon as they answer.
    postponed: BTreeMap<Guid, BTreeSet<Query>>,
    /// Nodes to which no cable leads.
    unreachable: BTreeSet<Guid>,
    withdrawals: VecDeque<Withdrawal>,
    /// Whether paths to suspects may lead over cables that are gone.
    paths_stale: bool,
    /// Whether paths changed since [`Sweep::take_rerouted`].
    is_rerouted: bool,
    /// Queries that were sent again by another path.
    by_path: HashSet<Query>,
    /// Queries sent since the last search of paths, while there were suspects.
    sent_by_present_paths: HashSet<Query>,
    /// Whether there are new suspects since [`Sweep::take_suspicion`].
    is_new: bool,
    /// Nodes that were not suspects when they left a query unanswered, and have answered no other
    /// query since.
    overdue_at_once: BTreeSet<Guid>,
    /// New suspects, and switches that lost a cable: the sweep has not checked yet whether a cable
    /// still leads to them.
    unexamined: BTreeSet<Guid>,
    /// Whether paths lead through new suspects.
    passes_suspects: bool,
}

impl Suspicion {
    /// The state at the start of a search outwards, which withdraws all earlier queries.
    pub(super) fn of_new_search() -> Suspicion {
        Suspicion {
            withdrawals: VecDeque::from([Withdrawal::Everything]),
            is_new: true,
            ..Suspicion::default()
        }
    }

    /// The queries that a new search must repeat: those that waited for an answer of a suspect, and
    /// those about ports whose cables are gone according to the far ends.
    pub(super) fn into_kept(self) -> impl Iterator<Item = Query> {
        let ports = self.lost.into_iter().flat_map(|(node, ports)| {
            let of_node = ports.into_iter();
            of_node.map(move |port| Query::Port(PortKey::new(node, port)))
        });
        self.postponed.into_values().flatten().chain(ports)
    }

    /// Whether an overdue query does not count against its node yet, because the node has answered
    /// since its last overdue query. The next overdue query counts.
    pub(super) fn excuses(&mut self, guid: Guid) -> bool {
        self.heard.remove(&guid)
    }

    /// Resets the attempts of an overdue query that is sent again by the present path.
    pub(super) fn send_again(&mut self, query: Query) {
        self.unanswered.remove(&query);
        self.withdrawals.push_back(Withdrawal::Overdue(query));
    }

    /// See [`Sweep::is_by_path`].
    pub(super) fn is_by_path(&self, query: Query) -> bool {
        self.by_path.contains(&query)
    }

    /// Takes back the unsent queries to a node, until it answers.
    pub(super) fn keep_unsent(&mut self, guid: Guid) {
        self.withdrawals.push_back(Withdrawal::Unsent(guid));
    }

    /// Withdraws all queries to a switch to which no cable leads, until one does.
    pub(super) fn take_back(&mut self, guid: Guid) {
        self.withdrawals.push_back(Withdrawal::ForLater(guid));
    }

    /// Lets the sweep end without the missing answers of a node.
    pub(super) fn await_no_longer(&mut self, inventory: &mut Inventory, guid: Guid) {
        self.overdue.insert(guid);
        self.is_new |= inventory.suspects.insert(guid);
    }
}

impl Sweep {
    /// Handles overdue queries, each with the number of its attempts that were not answered in
    /// time. Packet loss explains `explained` attempts of each query. The client repeats the
    /// queries.
    pub fn on_overdue(
        &mut self,
        inventory: &mut Inventory,
        overdue: impl IntoIterator<Item = (Query, u8)>,
        explained: u8,
    ) {
        for (query, attempts) in overdue {
            self.note_overdue(inventory, query, attempts, explained);
        }
        self.examine_suspects(inventory);
    }

    /// Handles one overdue query: makes its node a suspect, or starts a search outwards, if there
    /// are enough signs.
    fn note_overdue(
        &mut self,
        inventory: &mut Inventory,
        query: Query,
        attempts: u8,
        explained: u8,
    ) {
        // Firmware that does not know an optional attribute may never answer. Queries that no
        // longer belong to this sweep are about to be withdrawn.
        if query.is_optional() || !self.reading.queries.has_asked(query) {
            return;
        }
        if self.reading.read_back.is_late_sample(query) {
            if self.reading.read_back.is_ended() {
                // Its repetitions would keep a place in the client's window.
                self.suspicion
                    .withdrawals
                    .push_back(Withdrawal::Overdue(query));
            }
            return;
        }
        if attempts <= explained && !self.is_outward() {
            return;
        }
        let before = self.suspicion.unanswered.insert(query, attempts);
        if before.is_some_and(|before| before >= attempts) {
            return;
        }
        let attempts = attempts.saturating_sub(explained);
        let node = match query {
            Query::Node(None) => None,
            Query::Node(Some(from)) => {
                if attempts >= ATTEMPTS_TO_SUSPICION {
                    self.suspicion.overdue_ports.insert(from);
                }
                if before.is_none() && self.is_full() {
                    // The link may have gone down since this sweep read the port.
                    self.reading.again(Query::Port(from));
                }
                let peer = inventory.hardware.port(from).and_then(|port| port.peer);
                peer.map(|peer| peer.node)
            }
            _ => query.node(),
        };
        let Some(guid) = node.filter(|&guid| inventory.hardware.node(guid).is_some()) else {
            return;
        };
        if self.is_outward() {
            return self.overdue_outward(inventory, query, guid, attempts);
        }
        if self.suspicion.heard.remove(&guid) {
            return;
        }
        let distrusts_paths = explained <= EXPLAINED_BEFORE_OUTWARD
            && self.has_lost_its_paths(inventory, guid, attempts);
        if distrusts_paths && self.go_outward(inventory) {
            return;
        }
        let enough = if distrusts_paths || self.suspicion.lost.contains_key(&guid) {
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

    /// Records that `guid` is silent. Returns whether so many nodes are silent at once that known
    /// paths probably lead through dead parts. In a light sweep, a node counts only after a second
    /// attempt: the sweep asks so many nodes that packet loss alone silences some of them.
    fn has_lost_its_paths(&mut self, inventory: &Inventory, guid: Guid, attempts: u8) -> bool {
        let enough = match self.reading.scope {
            SweepScope::Light => ATTEMPTS_TO_SUSPICION,
            SweepScope::Full { .. } | SweepScope::Targets => ATTEMPTS_AFTER_LOST_CABLE,
        };
        let silent = &mut self.suspicion.overdue_at_once;
        if attempts >= enough && !inventory.suspects.contains(&guid) {
            silent.insert(guid);
        }
        silent.len() >= self.signs_of_many_faults()
    }

    /// Number of signs at one instant from which no known path is trusted.
    fn signs_of_many_faults(&self) -> usize {
        match self.targets.len() >= REPORTS_AT_ONCE {
            true => SIGNS_BESIDE_REPORTS,
            false => SIGNS_OF_MANY_FAULTS,
        }
    }

    /// The next queries that the caller must withdraw; `None` if there are none.
    pub fn next_withdrawal(&mut self) -> Option<Withdrawal> {
        self.suspicion.withdrawals.pop_front()
    }

    /// Keeps `query`, which was withdrawn before it was sent, until its node answers another query.
    pub fn postpone(&mut self, query: Query) {
        self.reading.queries.withdraw();
        self.keep_for_later(query);
    }

    /// Drops `query`, which was withdrawn.
    pub fn withdrawn(&mut self, query: Query) {
        self.reading.queries.withdraw();
        self.reading.queries.forget(query);
    }

    /// Whether there are new suspects since the last call.
    pub fn take_suspicion(&mut self) -> bool {
        std::mem::take(&mut self.suspicion.is_new)
    }

    /// Makes silent nodes get all their attempts, even if the sweep found changes; only urgent work
    /// ends the sweep earlier.
    pub fn wait_for_silent_nodes(&mut self) {
        self.waits_for_silent = true;
    }

    /// Whether silent nodes get all their attempts, even if the sweep found changes.
    pub fn waits_for_silent_nodes(&self) -> bool {
        self.waits_for_silent
    }

    /// Whether the sweep may end without answers that are overdue ([`Sweep::is_overdue`]), once all
    /// queries are sent. The sweep must have found a change (a full sweep: got a report, or found
    /// that no cable leads to a node), or other work must be `urgent`.
    pub fn can_leave_out(&self, urgent: bool) -> bool {
        let worthwhile = match self.reading.scope {
            _ if self.waits_for_silent => false,
            SweepScope::Full { .. } => {
                !self.targets.is_empty() || !self.suspicion.unreachable.is_empty()
            }
            SweepScope::Light | SweepScope::Targets => self.reading.changed,
        };
        let all_asked = self.reading.queries.all_sent();
        let overdue = &self.suspicion;
        let some_overdue = !overdue.overdue.is_empty()
            || !overdue.overdue_ports.is_empty()
            || self.reading.read_back.has_late_samples();
        all_asked && some_overdue && (worthwhile || urgent)
    }

    /// Whether the sweep may end without the answer to `query`: its node has overdue queries, or
    /// the answer only serves reading back.
    pub fn is_overdue(&self, query: Query) -> bool {
        match query {
            _ if self.reading.read_back.is_sample(query) => true,
            Query::Node(Some(from)) => self.suspicion.overdue_ports.contains(&from),
            _ => query
                .node()
                .is_some_and(|guid| self.suspicion.overdue.contains(&guid)),
        }
    }

    /// Searches paths again. The caller of the sweep then reroutes overdue queries. Returns the
    /// nodes without a path.
    fn find_ways(&mut self, inventory: &mut Inventory) -> Vec<Guid> {
        self.suspicion.paths_stale = false;
        self.suspicion.is_rerouted = true;
        self.suspicion.sent_by_present_paths.clear();
        paths::refresh(inventory)
    }

    /// Whether paths have changed since the last call.
    pub fn take_rerouted(&mut self) -> bool {
        std::mem::take(&mut self.suspicion.is_rerouted)
    }

    /// Sends `query` again on the present path. The query was withdrawn because its former path may
    /// have led over a dead node.
    pub fn reroute(&mut self, query: Query) {
        self.reading.queries.withdraw();
        if self.reading.misses_sample(query) {
            return;
        }
        self.suspicion.by_path.insert(query);
        self.reading.again(query);
    }

    /// Queues `query`, which was withdrawn before it was sent, so that it takes the present path.
    pub fn queue_again(&mut self, query: Query) {
        self.reading.queries.withdraw();
        self.reading.queries.push(query);
    }

    /// Whether `query` was [rerouted](Sweep::reroute). A query is rerouted only once: after that, a
    /// silent node gets the usual attempts.
    pub(super) fn is_by_path(&self, query: Query) -> bool {
        self.suspicion.is_by_path(query)
    }

    /// Whether another path may have been found for `query` since it was sent.
    pub fn may_reroute(&self, query: Query) -> bool {
        let suspicion = &self.suspicion;
        !suspicion.by_path.contains(&query) && !suspicion.sent_by_present_paths.contains(&query)
    }

    /// Records that `query` is sent over the present paths.
    pub(super) fn note_sent(&mut self, inventory: &Inventory, query: Query) {
        if !inventory.suspects.is_empty() {
            self.suspicion.sent_by_present_paths.insert(query);
        }
    }

    /// Finds a path to a suspect over present cables, before a query is sent to it.
    pub(super) fn find_way_to_suspect(&mut self, inventory: &mut Inventory, query: Query) {
        let suspicion = &self.suspicion;
        let will_be_asked =
            |guid| inventory.suspects.contains(&guid) && !suspicion.asked.contains(&guid);
        if suspicion.paths_stale && query.node().is_some_and(will_be_asked) {
            self.find_ways(inventory);
        }
    }

    /// The node whose silence holds `query` back; `None` if no node does. In a full sweep, a silent
    /// switch also holds back NodeInfo behind its ports.
    fn holder(&self, query: Query) -> Option<Guid> {
        match query {
            Query::Node(Some(from)) if self.is_full() => Some(from.node),
            _ => query.node(),
        }
    }

    /// Whether `query` must not be sent now: no cable leads to its node, or its node is a suspect
    /// with an unanswered query. In the second case, keeps the query until the node answers.
    pub(super) fn holds_back(&mut self, inventory: &Inventory, query: Query) -> bool {
        if self.is_outward() {
            return self.defers(inventory, query);
        }
        let Some(guid) = self.holder(query) else {
            return false;
        };
        if self.suspicion.unreachable.contains(&guid) {
            self.reading.queries.forget(query);
            return true;
        }
        let is_to_holder = query.node().is_some();
        if !inventory.suspects.contains(&guid) || is_to_holder && self.suspicion.asked.insert(guid)
        {
            return false;
        }
        self.keep_for_later(query);
        true
    }

    /// Handles any answer of a node, which ends its suspicion.
    pub(super) fn hear(&mut self, inventory: &mut Inventory, guid: Guid) {
        self.hear_outward(guid);
        let suspicion = &mut self.suspicion;
        suspicion.heard.insert(guid);
        suspicion.overdue_at_once.remove(&guid);
        let was_suspect = inventory.suspects.remove(&guid);
        let was_cut_off = suspicion.unreachable.remove(&guid);
        if !was_suspect && !was_cut_off {
            return;
        }
        suspicion.suspected.remove(&guid);
        suspicion.asked.remove(&guid);
        suspicion.asked_last.remove(&guid);
        suspicion.may_ask_last = true;
        suspicion.overdue.remove(&guid);
        let postponed = suspicion.postponed.remove(&guid).unwrap_or_default();
        let lost = suspicion.lost.remove(&guid).unwrap_or_default();
        for query in postponed {
            self.reading.again(query);
        }
        let may_be_reset = was_cut_off || !lost.is_empty();
        for port in lost {
            self.reading.again(Query::Port(PortKey::new(guid, port)));
        }
        if may_be_reset && self.reading.queries.has_asked(Query::Switch(guid)) {
            // A reset takes the links of a switch down, too. This sweep may have read SwitchInfo
            // before that.
            self.reading.again(Query::Switch(guid));
        }
        if was_cut_off && !self.is_outward() {
            paths::refresh(inventory);
        }
    }

    /// Handles an answer of the port itself: forgets the loss of its cable that the far end showed.
    pub(super) fn confirmed(&mut self, key: PortKey) {
        if let Some(ports) = self.suspicion.lost.get_mut(&key.node) {
            ports.remove(&key.port);
            if ports.is_empty() {
                self.suspicion.lost.remove(&key.node);
            }
        }
    }

    /// Handles a link that is down: withdraws the probe through it.
    pub(super) fn link_down(&mut self, key: PortKey) {
        // If the link comes back within this sweep, its neighbour must be asked again.
        if self.reading.queries.forget(Query::Node(Some(key))) {
            let withdrawals = &mut self.suspicion.withdrawals;
            withdrawals.push_back(Withdrawal::Behind(key));
        }
    }

    /// Handles the loss of the cable from `from` to `peer`, which an answer of `from` shows: the
    /// last answer of `peer` is no longer valid.
    pub(super) fn lost(&mut self, inventory: &mut Inventory, from: PortKey, peer: PortKey) {
        let is_switch = inventory.hardware.is_switch(peer.node);
        let is_local = inventory.hardware.local == Some(peer);
        inventory.hardware.put_manager(peer, None);
        if !is_switch
            && !is_local
            && let Some(port) = inventory.hardware.port_mut(peer)
        {
            port.info = None;
            port.forget_tables();
        }
        if is_switch {
            self.lost_by_switch(inventory, from, peer);
        } else if !is_local {
            self.reading.queries.forget(Query::Port(peer));
            let withdrawals = &mut self.suspicion.withdrawals;
            withdrawals.push_back(Withdrawal::Port(peer));
            let node = inventory.hardware.node(peer.node);
            let has_cables = node.is_some_and(|node| cables(node).next().is_some());
            if !has_cables {
                self.give_up(peer.node);
            }
        }
    }

    /// Handles a lost cable of a switch. One query to the switch clarifies the loss: its own trap
    /// may be under way or lost. A switch that lost several cables and reported none may be dead.
    fn lost_by_switch(&mut self, inventory: &mut Inventory, from: PortKey, peer: PortKey) {
        if self.is_outward() {
            return self.mark_outward_stale(inventory, peer);
        }
        let leads_to_peer = paths::lead_over(inventory, from, peer);
        let leads_back = paths::lead_over(inventory, peer, from);
        if leads_to_peer && !leads_back && inventory.suspects.contains(&peer.node) {
            // A dead switch loses one cable after the other, and the sweep needs a path to it for
            // at most one query.
            self.suspicion.paths_stale = true;
        } else if leads_to_peer || leads_back {
            self.find_ways(inventory);
        }
        let ports = self.suspicion.lost.entry(peer.node).or_default();
        ports.insert(peer.port);
        let is_alone = ports.len() == 1;
        let unheard = self.suspicion.lost.keys();
        let unheard = unheard.filter(|&&guid| !self.is_target(guid)).count();
        if unheard >= self.signs_of_many_faults() && self.go_outward(inventory) {
            return;
        }
        if !is_alone && !self.is_target(peer.node) {
            self.suspect(inventory, peer.node);
        } else {
            self.reading.again(Query::Port(peer));
            self.suspicion.unexamined.insert(peer.node);
        }
        self.examine_suspects(inventory);
    }

    /// Makes a node a suspect, and asks its neighbours about it. The caller examines the new
    /// suspects afterwards, all at once: each search of paths crosses the whole fabric.
    fn suspect(&mut self, inventory: &mut Inventory, guid: Guid) {
        self.suspicion.unexamined.insert(guid);
        let witnesses = witnesses(inventory, guid);
        if inventory.suspects.insert(guid) {
            self.suspicion.is_new = true;
            let mut ends = witnesses.iter();
            self.suspicion.passes_suspects |=
                ends.any(|&end| is_reached_from(inventory, guid, end));
        }
        if self.suspicion.suspected.insert(guid) {
            self.suspicion.withdrawals.push_back(if self.is_full() {
                self.suspicion.asked.insert(guid);
                Withdrawal::ForLater(guid)
            } else {
                Withdrawal::Unsent(guid)
            });
            let lost = self.suspicion.lost.get(&guid);
            if let Some(&port) = lost.and_then(|ports| ports.first()) {
                self.reading.again(Query::Port(PortKey::new(guid, port)));
            }
            for witness in witnesses {
                self.reading.again(Query::Port(witness));
            }
        }
    }

    /// Searches paths around new suspects through which other nodes are reached. Stops waiting for
    /// suspects to which no cable leads, and for nodes behind these.
    fn examine_suspects(&mut self, inventory: &mut Inventory) {
        let unexamined = std::mem::take(&mut self.suspicion.unexamined);
        let suspects = &inventory.suspects;
        let may_be_cut_off: Vec<Guid> = unexamined
            .iter()
            .copied()
            .filter(|&guid| {
                let is_switch = inventory.hardware.is_switch(guid);
                let witnesses = witnesses(inventory, guid);
                witnesses.iter().all(|witness| match is_switch {
                    true => suspects.contains(&witness.node),
                    // Paths to a host end there, so that its neighbours alone tell whether it is
                    // reached.
                    false => !self.leads_on(inventory, *witness),
                })
            })
            .collect();
        let passes_suspects = std::mem::take(&mut self.suspicion.passes_suspects);
        if may_be_cut_off.is_empty() && !passes_suspects {
            return;
        }
        let gone: BTreeSet<Guid> = self.find_ways(inventory).into_iter().collect();
        if may_be_cut_off.iter().any(|guid| gone.contains(guid)) {
            for node in gone {
                self.give_up(node);
            }
        }
    }

    /// Whether a path may lead over the cable at this port.
    fn leads_on(&self, inventory: &Inventory, key: PortKey) -> bool {
        let port = inventory.hardware.port(key);
        port.is_some_and(InventoryPort::is_up) && !self.suspicion.unreachable.contains(&key.node)
    }

    /// Asks the suspects of a full sweep after all other nodes: a silent node would keep a place in
    /// the client's window for seconds. Each suspect gets one query with all its attempts. Hosts
    /// come last, because the answers of their switches show which hosts are gone; hosts at silent
    /// switches are not asked. Returns whether a query waits now.
    pub(super) fn ask_suspects_last(&mut self, inventory: &Inventory) -> bool {
        let is_all_settled = self.reading.queries.open() == 0;
        let may_ask = std::mem::take(&mut self.suspicion.may_ask_last) || is_all_settled;
        if !self.is_full() || !may_ask {
            return false;
        }
        let suspicion = &mut self.suspicion;
        let is_due = |guid: &Guid| {
            let suspects = &inventory.suspects;
            let witnesses = || witnesses(inventory, *guid).into_iter();
            !suspicion.asked_last.contains(guid)
                && (inventory.hardware.is_switch(*guid)
                    || is_all_settled && witnesses().any(|end| !suspects.contains(&end.node)))
        };
        let due: Vec<Guid> = suspicion.postponed.keys().copied().filter(is_due).collect();
        for &guid in &due {
            suspicion.asked_last.insert(guid);
            suspicion.asked.remove(&guid);
            for query in suspicion.postponed.remove(&guid).unwrap_or_default() {
                self.reading.again(query);
            }
        }
        !due.is_empty()
    }

    fn is_full(&self) -> bool {
        matches!(self.reading.scope, SweepScope::Full { .. })
    }

    /// Records that no cable leads to a node, and withdraws the queries to it.
    fn give_up(&mut self, guid: Guid) {
        if self.suspicion.unreachable.insert(guid) {
            let withdrawals = &mut self.suspicion.withdrawals;
            withdrawals.push_back(Withdrawal::Node(guid));
        }
    }

    /// Keeps a query until the node whose silence holds it back answers.
    fn keep_for_later(&mut self, query: Query) {
        if self.reading.misses_sample(query) {
            return;
        }
        if self.is_outward() {
            return self.keep_outward(query);
        }
        if let Some(guid) = self.holder(query)
            && !self.suspicion.unreachable.contains(&guid)
        {
            let postponed = &mut self.suspicion.postponed;
            postponed.entry(guid).or_default().insert(query);
            self.suspicion.may_ask_last = true;
        }
    }

    /// Records a missing answer for every remaining suspect without one, so that the next sweep
    /// asks it again: the suspect's queries may have been withdrawn.
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
            let is_switch = inventory.hardware.is_switch(guid);
            let query = if is_switch {
                Query::Switch(guid)
            } else {
                Query::Description(guid)
            };
            inventory.faults.owe(query, None);
        }
    }

    /// Records the postponed queries of remaining suspects as unanswered.
    pub(super) fn owe_postponed(&mut self, inventory: &mut Inventory) {
        for (guid, queries) in std::mem::take(&mut self.suspicion.postponed) {
            if self.suspicion.unreachable.contains(&guid) {
                continue;
            }
            for query in queries {
                match query {
                    Query::PortStates(guid, block) => {
                        for key in self.port_states.ports_of_table(inventory, guid, block) {
                            self.on_missing(inventory, Query::Port(key), None);
                        }
                    }
                    // The query was never sent, so the missing answer says nothing about the kind
                    // of device.
                    Query::Capabilities(_) | Query::ExtendedPort(_) => {}
                    #[cfg(feature = "error-correction")]
                    Query::ErrorCorrection(_) => {}
                    Query::VPorts(..) => inventory.faults.owe(query, None),
                    _ => self.on_missing(inventory, query, None),
                }
            }
        }
    }
}

/// The far ends of a node's cables whose agents can be asked without passing the node: ports of
/// other switches, and the local port.
fn witnesses(inventory: &Inventory, guid: Guid) -> Vec<PortKey> {
    let can_tell = |peer: &PortKey| {
        let is_switch = inventory.hardware.is_switch(peer.node);
        is_switch && peer.node != guid || inventory.hardware.local == Some(*peer)
    };
    inventory
        .hardware
        .node(guid)
        .map(|node| cables(node).filter(can_tell).collect())
        .unwrap_or_default()
}

/// Whether the path to `end`, the far end of one of a node's cables, leads through the node.
fn is_reached_from(inventory: &Inventory, guid: Guid, end: PortKey) -> bool {
    let here = inventory.hardware.port(end).and_then(|port| port.peer);
    here.is_some_and(|here| here.node == guid && paths::lead_over(inventory, here, end))
}

/// The far ends of a node's cables.
pub(super) fn cables(node: &InventoryNode) -> impl Iterator<Item = PortKey> + '_ {
    node.external_ports().filter_map(|(_, port)| port.peer)
}
