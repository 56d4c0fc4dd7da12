//! The sweep: reads the state of the hardware.
//!
//! A [`Sweep`] sends Gets and records the answers in the [`Inventory`]. It has three scopes:
//!
//! * everything, by directed routes from the local port outwards;
//! * light: SwitchInfo and some parts of each switch, and queries that are still unanswered;
//! * targets: the ports of switches that reported a change, and new nodes behind them.
//!
//! One Get through each cable is enough: NodeInfo names the port that received it, so that one
//! answer shows both ends. The sweep reads a switch's table ([`Query::Table`]) up to LinearFDBTop,
//! unless it is known. A fresh switch therefore costs no Gets of tables, and a configured switch
//! need not be written again. Multicast tables ([`Query::Multicast`]) are read likewise, up to
//! MulticastFDBTop.
//!
//! A node that leaves Gets unanswered, or whose cables go down together, is a suspect: the sweep
//! asks its neighbours, and can end without the suspect's answers ([`Sweep::can_leave_out`]). If
//! several nodes become suspects at once, no known path can be trusted: the sweep then searches
//! outwards from the manager's port, along hops that have answered since.
//!
//! The sweep does no I/O: the caller takes Gets from [`Sweep::poll_ask`] and passes answers to
//! [`Sweep::handle`], in any order.

pub mod adaptive;
pub mod adaptive_trials;
mod ask;
mod attributes;
mod capabilities;
pub mod duplicates;
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
mod reset;
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
use rsm_model::capabilities::DeviceType;
use rsm_model::managed::BlockKey;
use rsm_model::{InventoryNode, InventoryPort, MISSES_TOLERATED};

pub use self::ask::{AgentAnswer, Ask};
use self::duplicates::Contests;
use self::fault::Faults;
use self::inventory::Inventory;
use self::outward::Outward;
pub use self::policy::SweepPolicy;
use self::port_states::Shown;
pub use self::query::Query;
use self::query_queue::QueryQueue;
use self::read_back::ReadBack;
use self::stale_paths::Moves;
use self::suspicion::Suspicion;
pub use self::suspicion::Withdrawal;
pub use self::vports::VPortQuery;

/// The scope of a sweep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SweepScope {
    /// The whole subnet. With `audit`, tables that are already known are read again.
    Full {
        /// Whether known forwarding tables are read back as well.
        audit: bool,
    },
    /// SwitchInfo of each switch, parts to read back, unanswered queries, and the local port while
    /// it has no cable.
    Light,
    /// The switches given to [`Sweep::add_target`].
    Targets,
}

/// A sweep under way.
#[derive(Debug)]
pub struct Sweep {
    scope: SweepScope,
    policy: SweepPolicy,
    queries: QueryQueue,
    /// Switches that reported a change, each with the path of its report.
    targets: HashMap<Guid, Option<DirectedPath>>,
    /// Targets that reported a second time.
    reported_again: BTreeSet<Guid>,
    contests: Contests,
    /// Nodes that a full sweep has found.
    entered: HashSet<Guid>,
    /// The faults at the beginning of the sweep.
    faults_before: Faults,
    /// Nodes with a missing answer, even if they answered other queries.
    silent: BTreeSet<Guid>,
    /// Ports that refused PortInfo in this sweep, and are asked without the bit for extended
    /// speeds; the value tells whether the port has answered since.
    without_extended_speeds: HashMap<PortKey, bool>,
    /// Device types that one node was asked for its capabilities.
    asked_capabilities: BTreeSet<DeviceType>,
    /// Tables of port states asked for because of a report.
    reported_tables: BTreeSet<Query>,
    /// States from tables that PortInfo must confirm.
    shown_states: HashMap<PortKey, Shown>,
    /// Switches that left a table of port states unanswered.
    silent_tables: BTreeSet<Guid>,
    suspicion: Suspicion,
    /// The search outwards; `None` unless known paths cannot be trusted.
    outward: Option<Outward>,
    /// Whether silent nodes get all their attempts before the sweep ends, unless other work is
    /// urgent.
    waits_for_silent: bool,
    /// Whether a report or answer showed a change.
    changed: bool,
    /// Whether an answer differs from the former one without a report of the change.
    stale: bool,
    /// The switches that showed PortStateChange in a sweep ahead of a takeover, which reads no more
    /// of them; `None` in other sweeps.
    ahead: Option<BTreeSet<Guid>>,
    /// Ports that this sweep reads in full, as an audit of the whole subnet does; port 0 stands for
    /// the rest of its node.
    audited: BTreeSet<PortKey>,
    moves: Moves,
    read_back: ReadBack,
    /// Number of cables probed, as a measure of progress.
    answered: usize,
}

impl Sweep {
    /// Starts a sweep of `scope` with the next number.
    pub fn start(scope: SweepScope, inventory: &mut Inventory, policy: SweepPolicy) -> Sweep {
        let mut sweep = Sweep::empty(scope, inventory, policy);
        match scope {
            SweepScope::Full { .. } => {
                inventory.faults.clear();
                inventory.unlock_all();
                inventory.try_m_keys_again();
                inventory.retry_lids();
                sweep.ask(Query::Node(None));
            }
            SweepScope::Light => sweep.start_light(inventory),
            SweepScope::Targets => {}
        }
        sweep
    }

    fn empty(scope: SweepScope, inventory: &mut Inventory, policy: SweepPolicy) -> Sweep {
        inventory.epoch += 1;
        Sweep {
            scope,
            policy,
            queries: QueryQueue::default(),
            targets: HashMap::new(),
            reported_again: BTreeSet::new(),
            contests: Contests::default(),
            entered: HashSet::new(),
            faults_before: inventory.faults.clone(),
            silent: BTreeSet::new(),
            without_extended_speeds: HashMap::new(),
            asked_capabilities: BTreeSet::new(),
            reported_tables: BTreeSet::new(),
            shown_states: HashMap::new(),
            silent_tables: BTreeSet::new(),
            suspicion: Suspicion::default(),
            outward: None,
            waits_for_silent: false,
            changed: false,
            stale: false,
            ahead: None,
            audited: BTreeSet::new(),
            moves: Moves::default(),
            read_back: ReadBack::default(),
            answered: 0,
        }
    }

    fn start_light(&mut self, inventory: &Inventory) {
        let switches: Vec<Guid> = inventory.switches().map(|(guid, ..)| guid).collect();
        for guid in switches {
            self.ask(Query::Switch(guid));
        }
        // While the local port has no cable, no switch can report that a cable was plugged in.
        if let Some(local) = inventory.local
            && inventory
                .port(local)
                .is_some_and(|port| port.peer.is_none())
        {
            self.ask(Query::Port(local));
        }
        self.ask_again(inventory);
        self.ask_unread(inventory);
        for (port, ..) in inventory.faults.duplicates() {
            self.ask(Query::Node(Some(port)));
        }
        self.ask_vport_changes(inventory);
        for manager in inventory.managers() {
            self.ask(Query::Sm(manager));
        }
    }

    /// Repeats the queries without an answer.
    pub fn ask_again(&mut self, inventory: &Inventory) {
        let silent: Vec<PortKey> = inventory.faults.to_ask_again().collect();
        for port in silent {
            self.ask(Query::Node(Some(port)));
        }
        let owed: Vec<Query> = inventory.faults.owed().collect();
        for query in owed {
            self.ask(query);
        }
    }

    /// Asks nodes that have answered only NodeInfo: if an earlier sweep withdrew a query, no fault
    /// remains that would repeat it.
    fn ask_unread(&mut self, inventory: &Inventory) {
        let unread = |&(guid, node): &(Guid, &InventoryNode)| {
            let mut ports = (0..node.ports.len()).zip(&node.ports);
            ports.all(|(number, port)| {
                let key = PortKey::new(guid, PortNum(number as u8));
                port.info.is_none() && !inventory.is_locked(key)
            })
        };
        let unread: Vec<Guid> = inventory
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
        self.scope
    }

    /// Whether the sweep reads tables of the port that are known.
    fn audits(&self, key: PortKey) -> bool {
        matches!(self.scope, SweepScope::Full { audit: true }) || self.audited.contains(&key)
    }

    /// Number of nodes that answered.
    pub fn answered(&self) -> usize {
        self.answered
    }

    /// Number of queries settled, by an answer or by silence.
    pub fn settled(&self) -> usize {
        self.queries.settled()
    }

    /// Number of open queries.
    pub fn open(&self) -> usize {
        self.queries.open()
    }

    /// Whether a report or answer showed a change.
    pub fn found_change(&self) -> bool {
        self.changed
    }

    /// Whether a node answered that had not answered before.
    pub fn found_healed(&self, inventory: &Inventory) -> bool {
        inventory.faults.has_healed(&self.faults_before)
    }

    /// Whether this full sweep failed to reach a known node that may still exist.
    pub fn is_incomplete(&self, inventory: &Inventory) -> bool {
        let mut nodes = inventory.nodes();
        nodes.any(|(guid, _)| !self.entered.contains(&guid))
    }

    /// Whether every query is settled.
    pub fn is_done(&self) -> bool {
        self.queries.open() == 0
    }

    /// Adds a switch that reported a change: asks again for its state and all its ports.
    ///
    /// After a second report, the sweep repeats all its earlier queries of the switch. Returns
    /// `false` for a further report in the same sweep: another sweep must follow.
    pub fn add_target(&mut self, inventory: &Inventory, guid: Guid) -> bool {
        let Some(node) = inventory.node(guid) else {
            return true;
        };
        if self.targets.contains_key(&guid) {
            return self.ask_target_again(guid);
        }
        let way = match self.is_outward() {
            true => None,
            false => reach::way_of_reports(inventory, guid),
        };
        self.targets.insert(guid, way);
        self.changed = true;
        if node.is_switch() {
            self.again(Query::Switch(guid));
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
            if self.queries.has_asked(query) {
                self.again(query);
            }
        }
        true
    }

    /// Adds an end port whose attributes changed: asks again for its PortInfo and its node's
    /// description.
    ///
    /// Returns whether the port exists.
    pub fn add_port(&mut self, inventory: &Inventory, key: PortKey) -> bool {
        let known = inventory.port(key).is_some();
        if known {
            self.changed = true;
            self.again(Query::Port(key));
            self.again(Query::Description(key.node));
        }
        known
    }

    /// Adds a port of a switch that may have changed: asks again for its PortInfo.
    pub fn read_again(&mut self, key: PortKey) {
        self.ask(Query::Port(key));
    }

    /// Adds the subnet manager behind an end port, to check whether it is still there.
    pub fn add_manager(&mut self, key: PortKey) {
        self.ask(Query::Sm(key));
    }

    /// The next Get; `None` if none waits.
    pub fn poll_ask(&mut self, inventory: &mut Inventory) -> Option<Ask> {
        loop {
            let query = self.queries.pop()?;
            self.find_way_to_suspect(inventory, query);
            let Some(ask) = self.address(inventory, query) else {
                // If a path to the node is found, the query may be asked again.
                self.queries.forget(query);
                continue;
            };
            if !self.holds_back(inventory, query) {
                self.queries.sent();
                return Some(ask);
            }
        }
    }

    /// Handles the answer to `query`.
    pub fn handle(&mut self, inventory: &mut Inventory, query: Query, answer: AgentAnswer<'_>) {
        self.queries.settle();
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

    /// Ends the sweep: drops nodes without a cable to them, and gives every other node its path.
    ///
    /// Returns the dropped nodes. A node that is cabled to a port whose link is up stays, even if
    /// it did not answer.
    pub fn finish(&mut self, inventory: &mut Inventory) -> Vec<Guid> {
        self.end_contests(inventory);
        self.owe_postponed(inventory);
        self.count_misses(inventory);
        self.end_outward(inventory);
        if let SweepScope::Full { .. } = self.scope {
            for key in self.disproved_cables(inventory) {
                inventory.part(key);
            }
        }
        let gone = paths::refresh(inventory);
        for &guid in &gone {
            inventory.remove(guid);
            inventory.faults.forget_node(guid);
            inventory.unlock_node(guid);
            self.changed = true;
        }
        Sweep::owe_one_each(inventory);
        let mut faults = std::mem::take(&mut inventory.faults);
        faults.forget_owed(|query| {
            self.address(inventory, query).is_none() || inventory.is_vain(&self.policy, query)
        });
        inventory.faults = faults;
        self.changed |= inventory.faults != self.faults_before;
        gone
    }

    /// Cables that this sweep probed and did not confirm, each given by the port of a switch or the
    /// local port. Cables of silent ports or nodes are not included, because they may still exist.
    fn disproved_cables(&self, inventory: &Inventory) -> Vec<PortKey> {
        let faults = &inventory.faults;
        let asks_through = |key: PortKey| {
            self.entered.contains(&key.node)
                && inventory.passes_on(key)
                && !faults.is_owed(Query::Port(key))
        };
        let mut disproved = Vec::new();
        for (guid, node) in inventory.nodes() {
            for (number, port) in node.external_ports() {
                let key = PortKey::new(guid, number);
                let Some(peer) = port.peer else { continue };
                if port.peer_epoch != inventory.epoch
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
        let regular = self.scope != SweepScope::Targets;
        let epoch = inventory.epoch;
        for &guid in &self.silent {
            if let Some(node) = inventory.node_mut(guid).filter(|node| node.epoch != epoch)
                && (regular || node.missed == 0)
            {
                node.missed = node.missed.saturating_add(1);
                self.changed |= node.missed == MISSES_TOLERATED + 1;
            }
        }
    }

    /// Queues a query, unless this sweep has it already.
    fn ask(&mut self, query: Query) {
        if self.queries.has_asked(query) {
            self.read_back.is_wanted(query);
        } else {
            self.again(query);
        }
    }

    /// Queues a query again, even if this sweep has sent it. A waiting query will show the new
    /// state; a query under way may not.
    fn again(&mut self, query: Query) {
        self.read_back.is_wanted(query);
        self.queries.push(query);
    }

    /// Queues all queries that a full sweep has about a node.
    fn ask_node(&mut self, inventory: &Inventory, guid: Guid) {
        let Some(node) = inventory.node(guid) else {
            return;
        };
        self.ask(Query::Description(guid));
        if node.is_switch() {
            self.ask(Query::Switch(guid));
            for number in 0..node.ports.len() {
                self.ask(Query::Port(PortKey::new(guid, PortNum(number as u8))));
            }
        } else {
            for (number, port) in node.external_ports() {
                if port.peer.is_some() || inventory.local == Some(PortKey::new(guid, number)) {
                    self.ask(Query::Port(PortKey::new(guid, number)));
                }
            }
        }
    }

    /// Queues the queries about a switch whose SwitchInfo shows PortStateChange.
    fn ask_reported(&mut self, inventory: &Inventory, guid: Guid) {
        if self.is_target(guid) {
            // The report already queued the queries of the switch's ports.
            return self.ask_node_but_ports(guid);
        }
        self.ask_node_but_ports(guid);
        self.ask_reported_ports(inventory, guid);
    }

    fn ask_node_but_ports(&mut self, guid: Guid) {
        self.ask(Query::Description(guid));
        self.ask(Query::Port(PortKey::new(guid, PortNum::ZERO)));
    }

    fn address(&self, inventory: &Inventory, query: Query) -> Option<Ask> {
        // The LID route may lead over the part that just changed; only a light sweep has time to
        // try it.
        let lid = match query {
            Query::Switch(guid)
                if self.scope == SweepScope::Light
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
            response_time: query
                .target(inventory)
                .map_or(Duration::ZERO, |node| inventory.response_time(node)),
            m_keys,
            path,
            alternate,
        };
        match query {
            Query::Node(None) => Some(ask(0, (DirectedPath::new(), None))),
            Query::Node(Some(port)) => {
                let state = inventory.port(port).and_then(InventoryPort::state);
                if state == Some(PortState::Down) {
                    return None;
                }
                let (path, alternate) =
                    self.ways_to(inventory, PortKey::new(port.node, PortNum::ZERO))?;
                let alternate = alternate.and_then(|way| way.child(port.port).ok());
                // The agent behind a port is not known, so that each port counts as an agent.
                let target = !port.node.0 ^ u64::from(port.port.0);
                Some(ask(target, (path.child(port.port).ok()?, alternate)))
            }
            Query::Port(key)
            | Query::Sm(key)
            | Query::PKeys(key, _)
            | Query::ExtendedPort(key)
            | Query::ErrorCorrection(key)
            | Query::VPorts(key, _)
            | Query::Managed(BlockKey { port: key, .. }) => {
                Some(ask(key.node.0, self.ways_to(inventory, key)?))
            }
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
                let node = self.ways_to(inventory, PortKey::new(guid, PortNum::ZERO))?;
                Some(ask(guid.0, node))
            }
        }
    }

    /// The paths to an agent. For a switch that reported a change, the path of its report comes
    /// first.
    fn ways_to(
        &self,
        inventory: &Inventory,
        key: PortKey,
    ) -> Option<(DirectedPath, Option<DirectedPath>)> {
        let (path, alternate) = inventory.way_to(key)?;
        Some(match self.targets.get(&key.node) {
            Some(&Some(way)) if way != path => (way, Some(path)),
            _ => (path, alternate),
        })
    }
}
