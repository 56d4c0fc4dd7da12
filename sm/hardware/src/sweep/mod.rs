//! The sweep: reads the state of the hardware.
//!
//! A [`Sweep`] sends Gets and records the answers in the [`Inventory`]. There are three scopes:
//!
//! * everything, by directed routes from the local port outwards;
//! * light: SwitchInfo and some parts of each switch, and queries that are still unanswered;
//! * targets: the ports of switches that reported a change, and new nodes behind them.
//!
//! One Get through each cable is enough: NodeInfo names the port that received the Get, so one
//! answer shows both ends. The sweep reads a switch's table ([`Query::Table`]) up to LinearFDBTop,
//! unless the table is known. A fresh switch therefore costs no Gets of tables, and a configured
//! switch need not be written again. The sweep reads multicast tables ([`Query::Multicast`]) in the
//! same way, up to MulticastFDBTop.
//!
//! A node that leaves Gets unanswered, or whose cables go down together, is a suspect: the sweep
//! asks its neighbours, and can end without the suspect's answers ([`Sweep::can_leave_out`]). A
//! full sweep asks suspects after all other nodes. If several nodes become suspects at once, no
//! known path can be trusted: other sweeps then search outwards from the manager's port, along hops
//! that have answered since.
//!
//! The sweep does no I/O: the caller takes Gets from [`Sweep::poll_ask`] and passes answers to
//! [`Sweep::handle`], in any order.

pub mod adaptive;
pub mod adaptive_trials;
mod ask;
mod attributes;
mod capabilities;
pub mod duplicates;
#[cfg(feature = "error-correction")]
mod error_correction;
mod extended_port;
pub mod fault;
mod held_keys;
pub mod inventory;
mod kind_answers;
pub mod m_key;
mod managed;
mod neighbours;
mod outward;
mod partition;
mod paths;
mod policy;
pub mod port_states;
mod query;
mod query_queue;
mod rate_limits;
pub mod reach;
pub mod read_back;
mod reading;
mod reset;
mod scope;
pub mod sl2vl;
mod stale_paths;
mod succession;
mod suspicion;
pub mod unverified;
mod vport_guids;
pub mod vports;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use rsm_ids::{Guid, PortKey, PortNum};
use rsm_mad::client::MKeys;
use rsm_mad::ids::DirectedPath;
use rsm_mad::wire::attr::{Attribute, NodeInfo, PortInfo, PortState};
use rsm_model::managed::BlockKey;
use rsm_model::{InventoryNode, InventoryPort, MISSES_TOLERATED, MKeySign};

pub use self::ask::{AgentAnswer, Ask};
use self::duplicates::Contests;
use self::fault::Faults;
use self::inventory::Inventory;
use self::outward::Outward;
pub use self::policy::SweepPolicy;
use self::port_states::PortStateTables;
pub use self::query::Query;
use self::read_back::ReadBack;
use self::reading::Reading;
pub use self::scope::SweepScope;
use self::stale_paths::Moves;
use self::suspicion::Suspicion;
pub use self::suspicion::Withdrawal;
pub use self::vports::VPortQuery;

/// The state at the beginning of a sweep. A full sweep clears this state in the inventory, and
/// determines it again.
#[derive(Debug)]
struct Before {
    faults: Faults,
    /// End ports that held a foreign M_Key.
    locked: Vec<(PortKey, MKeySign)>,
    suspects: BTreeSet<Guid>,
}

impl Before {
    /// Restores the faults and the foreign M_Keys in the inventory.
    fn restore(&self, inventory: &mut Inventory) {
        for &(port, sign) in &self.locked {
            if inventory.hardware.locked(port).is_none() {
                inventory.hardware.lock(port, sign);
            }
        }
        inventory.faults.clone_from(&self.faults);
    }
}

/// A sweep under way.
#[derive(Debug)]
pub struct Sweep {
    reading: Reading,
    /// Nodes that reported a change, each with the reversed path of its report; `None` if that path
    /// is not known, or a search outwards is under way.
    targets: HashMap<Guid, Option<DirectedPath>>,
    /// Targets that reported a second time.
    reported_again: BTreeSet<Guid>,
    /// Ports of hosts that reported a change.
    joined_ports: BTreeSet<PortKey>,
    contests: Contests,
    /// Nodes that this sweep has found.
    found_nodes: HashSet<Guid>,
    before: Before,
    /// Nodes with a missing answer, even if they answered other queries.
    silent: BTreeSet<Guid>,
    /// Ports that refused PortInfo in this sweep, and get the query without the bit for extended
    /// speeds. The value tells whether the port has answered since.
    without_extended_speeds: HashMap<PortKey, bool>,
    port_states: PortStateTables,
    suspicion: Suspicion,
    /// The search outwards; `None` unless known paths cannot be trusted.
    outward: Option<Outward>,
    /// Whether silent nodes get all their attempts before the sweep ends, unless other work is
    /// urgent.
    waits_for_silent: bool,
    /// Whether an answer differed from the former answer although no report announced a change.
    stale: bool,
    /// In a sweep ahead of a takeover, the switches that showed PortStateChange: this kind of sweep
    /// reads only SwitchInfo of a switch. `None` in other sweeps.
    reported_ahead: Option<BTreeSet<Guid>>,
    moves: Moves,
    /// Number of answers to NodeInfo, as a measure of progress.
    answered: usize,
}

impl Sweep {
    /// Starts a sweep of `scope`, and raises the inventory's epoch by one.
    pub fn start(scope: SweepScope, inventory: &mut Inventory, policy: SweepPolicy) -> Sweep {
        let mut sweep = Sweep::empty(scope, inventory, policy);
        match scope {
            SweepScope::Full { .. } => {
                inventory.faults.clear();
                inventory.hardware.unlock_all();
                inventory.try_m_keys_again();
                inventory.hardware.retry_lids();
                sweep.reading.ask(Query::Node(None));
            }
            SweepScope::Light => sweep.start_light(inventory),
            SweepScope::Targets => {}
        }
        sweep
    }

    /// A sweep without queries, with the next epoch of the inventory.
    fn empty(scope: SweepScope, inventory: &mut Inventory, policy: SweepPolicy) -> Sweep {
        inventory.hardware.epoch += 1;
        Sweep {
            reading: Reading::new(scope, policy),
            targets: HashMap::new(),
            reported_again: BTreeSet::new(),
            joined_ports: BTreeSet::new(),
            contests: Contests::default(),
            found_nodes: HashSet::new(),
            before: Before {
                faults: inventory.faults.clone(),
                locked: inventory.hardware.all_locked().collect(),
                suspects: inventory.suspects.clone(),
            },
            silent: BTreeSet::new(),
            without_extended_speeds: HashMap::new(),
            port_states: PortStateTables::default(),
            suspicion: Suspicion::default(),
            outward: None,
            waits_for_silent: false,
            stale: false,
            reported_ahead: None,
            moves: Moves::default(),
            answered: 0,
        }
    }

    /// Queues the queries of a light sweep.
    fn start_light(&mut self, inventory: &Inventory) {
        let switches: Vec<Guid> = inventory
            .hardware
            .switches()
            .map(|(guid, ..)| guid)
            .collect();
        for guid in switches {
            self.reading.ask(Query::Switch(guid));
        }
        // While the local port has no cable, no switch can report that a cable was plugged in.
        if let Some(local) = inventory.hardware.local
            && inventory
                .hardware
                .port(local)
                .is_some_and(|port| port.peer.is_none())
        {
            self.reading.ask(Query::Port(local));
        }
        self.ask_again(inventory);
        self.ask_unread(inventory);
        for (port, ..) in inventory.faults.duplicates() {
            self.reading.ask(Query::Node(Some(port)));
        }
        vports::ask_vport_changes(&mut self.reading, inventory);
        for manager in inventory.hardware.managers() {
            self.reading.ask(Query::Sm(manager));
        }
    }

    /// Repeats the queries that earlier sweeps left without an answer.
    pub fn ask_again(&mut self, inventory: &Inventory) {
        let silent: Vec<PortKey> = inventory.faults.to_ask_again().collect();
        for port in silent {
            self.reading.ask(Query::Node(Some(port)));
        }
        let owed: Vec<Query> = inventory.faults.owed().collect();
        for query in owed {
            self.reading.ask(query);
        }
    }

    /// Asks nodes that have answered NodeInfo but no PortInfo. An earlier sweep may have withdrawn
    /// the queries to them, and no fault is recorded that would repeat these queries.
    fn ask_unread(&mut self, inventory: &Inventory) {
        let unread = |&(guid, node): &(Guid, &InventoryNode)| {
            let mut ports = (0..node.ports.len()).zip(&node.ports);
            ports.all(|(number, port)| {
                let key = PortKey::new(guid, PortNum(number as u8));
                port.info.is_none() && !inventory.hardware.is_locked(key)
            })
        };
        let unread: Vec<Guid> = inventory
            .hardware
            .nodes()
            .filter(unread)
            .map(|(guid, _)| guid)
            .collect();
        for guid in unread {
            self.ask_node(inventory, guid);
        }
    }

    /// The scope of the sweep.
    pub fn scope(&self) -> SweepScope {
        self.reading.scope
    }

    /// Number of answers to NodeInfo, as a measure of progress.
    pub fn answered(&self) -> usize {
        self.answered
    }

    /// Number of queries settled, by an answer or by silence.
    pub fn settled(&self) -> usize {
        self.reading.queries.settled()
    }

    /// Number of open queries.
    pub fn open(&self) -> usize {
        self.reading.queries.open()
    }

    /// Whether a report or answer showed a change.
    pub fn found_change(&self) -> bool {
        self.reading.changed
    }

    /// Whether a node answered that was silent before this sweep.
    pub fn found_healed(&self, inventory: &Inventory) -> bool {
        inventory.faults.has_healed(&self.before.faults)
    }

    /// The known nodes that may still exist and that this full sweep did not reach.
    pub fn unreached<'a>(&'a self, inventory: &'a Inventory) -> impl Iterator<Item = Guid> + 'a {
        let nodes = inventory.hardware.nodes().map(|(guid, _)| guid);
        nodes.filter(|guid| !self.found_nodes.contains(guid))
    }

    /// The parts to read back, and the parts that differed.
    pub fn read_back(&self) -> &ReadBack {
        &self.reading.read_back
    }

    /// Like [`Sweep::read_back`], to set the parts to read or to take the parts that differed.
    pub fn read_back_mut(&mut self) -> &mut ReadBack {
        &mut self.reading.read_back
    }

    /// Whether every query is settled.
    pub fn is_done(&self) -> bool {
        self.reading.queries.open() == 0
    }

    /// Adds a switch that reported a change: asks again for its state and all its ports.
    ///
    /// After a second report, the sweep repeats all its earlier queries of the switch. Returns
    /// `false` for a further report in the same sweep: another sweep must follow.
    pub fn add_target(&mut self, inventory: &Inventory, guid: Guid) -> bool {
        let Some(node) = inventory.hardware.node(guid) else {
            return true;
        };
        if self.targets.contains_key(&guid) {
            return self.ask_target_again(guid);
        }
        let path = match self.is_outward() {
            true => None,
            false => reach::path_of_reports(inventory, guid),
        };
        self.targets.insert(guid, path);
        self.reading.changed = true;
        self.reading.yield_to_report();
        if node.is_switch() {
            self.reading.again(Query::Switch(guid));
            self.ask_reported_ports(inventory, guid);
        } else {
            self.ask_node(inventory, guid);
        }
        true
    }

    /// Whether `guid` reported a change to this sweep.
    pub fn is_target(&self, guid: Guid) -> bool {
        self.targets.contains_key(&guid)
    }

    /// Repeats the queries to a target that were sent before its second report. A switch that loses
    /// several cables sends one report for each, nearly all of them before most Gets are answered.
    /// Returns whether this is the first repetition in this sweep.
    fn ask_target_again(&mut self, guid: Guid) -> bool {
        if !self.reported_again.insert(guid) {
            return false;
        }
        let ports = (1..=u8::MAX).map(|number| PortKey::new(guid, PortNum(number)));
        let tables = (0..=1).map(|block| Query::PortStates(guid, block));
        let queries = std::iter::once(Query::Switch(guid))
            .chain(tables)
            .chain(ports.map(Query::Port));
        for query in queries {
            if self.reading.queries.has_asked(query) {
                self.reading.again(query);
            }
        }
        true
    }

    /// Adds an end port whose attributes changed: asks again for its PortInfo and its node's
    /// description.
    ///
    /// Returns `false` for a port that does not exist, and for a further report in the same sweep:
    /// another sweep must follow, because thousands of booting hosts would keep this sweep open.
    pub fn add_port(&mut self, inventory: &Inventory, key: PortKey) -> bool {
        let is_first = inventory.hardware.port(key).is_some() && self.joined_ports.insert(key);
        if is_first {
            self.reading.changed = true;
            self.reading.again(Query::Port(key));
            self.reading.again(Query::Description(key.node));
        }
        is_first
    }

    /// Adds a port that may have changed: asks for its PortInfo, unless this sweep already has.
    pub fn read_again(&mut self, key: PortKey) {
        self.reading.ask(Query::Port(key));
    }

    /// Adds ports that may have changed without a report. If a switch has a proved port state table
    /// and enough of the ports, the table is read instead of PortInfo, except for ports with an
    /// unverified Set.
    pub fn read_all_again(
        &mut self,
        inventory: &Inventory,
        ports: impl IntoIterator<Item = PortKey>,
    ) {
        let reading = &mut self.reading;
        self.port_states.read_all_again(reading, inventory, ports);
    }

    /// Asks again behind ports that were left out because another place had the node's GUID, if
    /// that place has lost the GUID or the contest is undecided. Returns whether there are such
    /// ports.
    pub fn ask_left_out_again(&mut self, inventory: &mut Inventory) -> bool {
        self.contests
            .ask_left_out_again(&mut self.reading, inventory)
    }

    /// Adds the subnet manager behind an end port, to check whether it is still there.
    pub fn add_manager(&mut self, key: PortKey) {
        self.reading.ask(Query::Sm(key));
    }

    /// The next Get; `None` if none waits.
    pub fn poll_ask(&mut self, inventory: &mut Inventory) -> Option<Ask> {
        loop {
            let Some(query) = self.reading.queries.pop() else {
                if self.ask_suspects_last(inventory) {
                    continue;
                }
                return None;
            };
            self.find_way_to_suspect(inventory, query);
            let Some(ask) = self.get_for(inventory, query) else {
                // If a path to the node is found, the query may be asked again.
                self.reading.queries.forget(query);
                continue;
            };
            if !self.holds_back(inventory, query) {
                self.reading.queries.sent();
                self.note_sent(inventory, query);
                return Some(ask);
            }
        }
    }

    /// Handles the answer to `query`.
    pub fn handle(&mut self, inventory: &mut Inventory, query: Query, answer: AgentAnswer<'_>) {
        self.reading.queries.settle();
        if let (Some(guid), false) = (query.node(), matches!(answer, AgentAnswer::Silence)) {
            if let Query::Port(key) = query {
                self.confirmed(key);
            }
            self.hear(inventory, guid);
        }
        match (query, answer) {
            (Query::Node(from), AgentAnswer::Data(data)) => {
                self.on_node(inventory, from, NodeInfo::from_data(data))
            }
            (Query::Node(from), _) => self.on_silence(inventory, from),
            (query, AgentAnswer::Data(data)) => self.on_attribute(inventory, query, data),
            (query, AgentAnswer::Refused(status) | AgentAnswer::RefusedRepetition(status)) => {
                self.on_missing(inventory, query, Some(status));
            }
            (query, AgentAnswer::Silence) => self.on_missing(inventory, query, None),
        }
    }

    /// Ends the sweep: drops nodes to which no cable leads, and gives every other node its path.
    ///
    /// Returns the dropped nodes. A node that is cabled to a port whose link is up stays, even if
    /// the node did not answer.
    pub fn finish(&mut self, inventory: &mut Inventory) -> Vec<Guid> {
        let is_full = matches!(self.reading.scope, SweepScope::Full { .. });
        if is_full && self.answered == 0 {
            // Not even the own node has answered, so this sweep shows nothing about other nodes.
            self.before.restore(inventory);
            inventory.faults.owe(Query::Node(None), None);
        }
        self.contests.end(inventory);
        self.owe_postponed(inventory);
        self.count_misses(inventory);
        self.end_outward(inventory);
        if is_full {
            for key in self.disproved_cables(inventory) {
                inventory.unplug(key);
            }
        }
        let gone = paths::refresh(inventory);
        for &guid in &gone {
            inventory.remove(guid);
            inventory.hardware.unlock_node(guid);
            self.reading.changed = true;
        }
        if !gone.is_empty() {
            let gone = gone.iter().copied().collect();
            inventory.faults.forget_nodes(&gone);
        }
        Sweep::owe_one_each(inventory);
        let mut faults = std::mem::take(&mut inventory.faults);
        faults.forget_owed(|query| {
            self.get_for(inventory, query).is_none()
                || inventory.is_useless(&self.reading.policy, query)
        });
        inventory.faults = faults;
        self.reading.changed |= inventory.faults != self.before.faults;
        gone
    }

    /// Whether this full sweep may be given up, so that a plan uses its readings so far. It may not
    /// while the place of a GUID is in doubt: a node that was found at another port than before
    /// would get the packets of the node that is known by the same GUID.
    pub fn may_give_way(&self) -> bool {
        !self.contests.are_open() && !self.moves.are_due()
    }

    /// Gives this full sweep up: restores the faults and the foreign M_Keys from before the sweep,
    /// and keeps only former suspects that have not answered. Returns the switches and the end
    /// ports that reported a change to this sweep.
    pub fn give_way(self, inventory: &mut Inventory) -> (Vec<Guid>, BTreeSet<PortKey>) {
        self.before.restore(inventory);
        let suspects = &mut inventory.suspects;
        suspects.retain(|guid| self.before.suspects.contains(guid));
        (self.targets.into_keys().collect(), self.joined_ports)
    }

    /// Cables that this full sweep could probe and did not confirm, each named by the port of a
    /// switch or by the local port. Leaves out cables of silent ports or nodes, which may still
    /// exist.
    fn disproved_cables(&self, inventory: &Inventory) -> Vec<PortKey> {
        let faults = &inventory.faults;
        let asks_through = |key: PortKey| {
            self.found_nodes.contains(&key.node)
                && inventory.hardware.passes_on(key)
                && !faults.is_owed(Query::Port(key))
        };
        let mut disproved = Vec::new();
        for (guid, node) in inventory.hardware.nodes() {
            for (number, port) in node.external_ports() {
                let key = PortKey::new(guid, number);
                let Some(peer) = port.peer else { continue };
                if port.peer_epoch != inventory.hardware.epoch
                    && asks_through(key)
                    && faults.port(key).is_none()
                    && faults.port(peer).is_none()
                {
                    disproved.push(key);
                }
            }
        }
        disproved
    }

    /// Counts a miss for each node that answered nothing in this sweep. A sweep of targets counts
    /// at most the first miss of a node.
    fn count_misses(&mut self, inventory: &mut Inventory) {
        let regular = self.reading.scope != SweepScope::Targets;
        let epoch = inventory.hardware.epoch;
        for &guid in &self.silent {
            if let Some(node) = inventory
                .hardware
                .node_mut(guid)
                .filter(|node| node.epoch != epoch)
                && (regular || node.missed == 0)
            {
                node.missed = node.missed.saturating_add(1);
                self.reading.changed |= node.missed == MISSES_TOLERATED + 1;
            }
        }
    }

    /// Queues all queries that a full sweep has about a node.
    fn ask_node(&mut self, inventory: &Inventory, guid: Guid) {
        let Some(node) = inventory.hardware.node(guid) else {
            return;
        };
        self.reading.ask(Query::Description(guid));
        if node.is_switch() {
            self.reading.ask(Query::Switch(guid));
            for number in 0..node.ports.len() {
                self.reading
                    .ask(Query::Port(PortKey::new(guid, PortNum(number as u8))));
            }
        } else {
            for (number, port) in node.external_ports() {
                if port.peer.is_some()
                    || inventory.hardware.local == Some(PortKey::new(guid, number))
                {
                    self.reading.ask(Query::Port(PortKey::new(guid, number)));
                }
            }
        }
    }

    /// Queues the queries about a switch whose SwitchInfo shows PortStateChange.
    fn ask_reported(&mut self, inventory: &Inventory, guid: Guid) {
        if self.is_target(guid) {
            // The report has already queued the queries of the switch's ports.
            return self.ask_node_but_ports(guid);
        }
        self.ask_node_but_ports(guid);
        self.ask_reported_ports(inventory, guid);
    }

    /// Queues the queries of the external ports of a switch that reported a change.
    fn ask_reported_ports(&mut self, inventory: &Inventory, guid: Guid) {
        // Answers to earlier Gets may be older than the report that this sweep got.
        let repeats = self.is_target(guid);
        let reading = &mut self.reading;
        self.port_states
            .ask_reported_ports(reading, inventory, guid, repeats);
    }

    /// Queues the queries of a switch's description and of its port 0.
    fn ask_node_but_ports(&mut self, guid: Guid) {
        self.reading.ask(Query::Description(guid));
        self.reading
            .ask(Query::Port(PortKey::new(guid, PortNum::ZERO)));
    }

    /// The Get for `query`; `None` if no path leads to the agent, or the port to probe is Down.
    fn get_for(&self, inventory: &Inventory, query: Query) -> Option<Ask> {
        // The LID route may lead over the part that just changed. Only a light sweep has time to
        // try that route.
        let lid = match query {
            Query::Switch(guid)
                if self.reading.scope == SweepScope::Light
                    && !self.is_outward()
                    && !self.is_by_path(query) =>
            {
                reach::lid_of(inventory, guid, |_, _, _| true)
            }
            _ => None,
        };
        let m_keys = match (query, query.node()) {
            (Query::Node(from), _) => inventory.m_keys_behind(from),
            (Query::Sm(key), _) => inventory.m_keys_to_manager(key, 0),
            (_, Some(node)) => inventory.m_keys_to_read(PortKey::new(node, query.port())),
            (_, None) => MKeys::NONE,
        };
        let ask = |target, (path, alternate)| Ask {
            lid,
            query,
            attribute: query.attribute(),
            modifier: match query {
                Query::Port(key) if self.without_extended_speeds.contains_key(&key) => {
                    PortInfo::modifier(key.port, false)
                }
                _ => query.modifier(inventory),
            },
            target,
            response_time: query.target(inventory).map_or(Duration::ZERO, |node| {
                inventory.hardware.response_time(node)
            }),
            m_keys,
            path,
            alternate,
        };
        match query {
            Query::Node(None) => Some(ask(0, (DirectedPath::new(), None))),
            Query::Node(Some(port)) => {
                let state = inventory.hardware.port(port).and_then(InventoryPort::state);
                if state == Some(PortState::Down) {
                    return None;
                }
                let (path, alternate) =
                    self.paths_to(inventory, PortKey::new(port.node, PortNum::ZERO))?;
                let alternate = alternate.and_then(|path| path.child(port.port).ok());
                // The agent behind a port is unknown, so each port counts as an agent of its own.
                let target = !port.node.0 ^ u64::from(port.port.0);
                Some(ask(target, (path.child(port.port).ok()?, alternate)))
            }
            Query::Port(key)
            | Query::Sm(key)
            | Query::PKeys(key, _)
            | Query::ExtendedPort(key)
            | Query::VPorts(key, _)
            | Query::Managed(BlockKey { port: key, .. }) => {
                Some(ask(key.node.0, self.paths_to(inventory, key)?))
            }
            #[cfg(feature = "error-correction")]
            Query::ErrorCorrection(key) => Some(ask(key.node.0, self.paths_to(inventory, key)?)),
            Query::Description(guid)
            | Query::Switch(guid)
            | Query::Table(guid, _)
            | Query::Multicast(guid, _)
            | Query::AdaptiveRouting(guid)
            | Query::ArGroups(guid, _)
            | Query::ArEntries(guid, _)
            | Query::Capabilities(guid)
            | Query::PortStates(guid, _)
            | Query::SlToVl(guid, ..) => {
                let node = self.paths_to(inventory, PortKey::new(guid, PortNum::ZERO))?;
                Some(ask(guid.0, node))
            }
        }
    }

    /// The path to an agent, and an alternate path if there is one. For a node that reported a
    /// change, the path of its report comes first. `None` if no path is known.
    fn paths_to(
        &self,
        inventory: &Inventory,
        key: PortKey,
    ) -> Option<(DirectedPath, Option<DirectedPath>)> {
        let (path, alternate) = inventory.hardware.paths_to(key)?;
        Some(match self.targets.get(&key.node) {
            Some(&Some(report)) if report != path => (report, Some(path)),
            _ => (path, alternate),
        })
    }
}
