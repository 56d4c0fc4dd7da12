//! The state machine that reads and writes the congestion control settings of all agents.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rsm_config::{CongestionPolicy, SwitchPorts};
use rsm_ids::{Guid, Lid, PortKey, PortNum};
use rsm_mad::Time;
use rsm_mad::ids::Tid;
use rsm_mad::transport::Datagram;
use rsm_mad::wire::attr::{NodeType, PortState};
use rsm_mad::wire::congestion::CcMad;
use rsm_mad::wire::header::{AttrId, MadHeader, Method};
use rsm_model::congestion::{AgentStatus, CongestionView};
use rsm_model::fabric::{Fabric, Node, Port};
use rsm_model::findings::{Finding, FindingKind, Severity, Subject};

use super::agent::{Agent, Device};
use crate::agent_window::{AgentWindow, SEND_PAUSE, Transmit};
use crate::counters::Routes;

/// Reads and writes the settings of congestion control.
///
/// The owner calls [`CongestionManager::follow`] with each new model of the subnet, calls
/// [`CongestionManager::poll_transmit`] while it may write hardware, and passes datagrams of the
/// class to [`CongestionManager::handle`]. The manager has a record for each end port with a LID
/// that the policy concerns, and at most one request in flight to each agent.
#[derive(Clone, Default, Debug)]
pub struct CongestionManager {
    policy: Arc<CongestionPolicy>,
    fabric: Arc<Fabric>,
    agents: BTreeMap<PortKey, Agent>,
    /// Turns of agents, and the attributes of requests in flight; at most `policy.window` requests
    /// are in flight.
    window: AgentWindow<AttrId>,
    /// Agents by status, and by whether they belong to a switch. Agents with the status
    /// [`AgentStatus::Pending`] or [`AgentStatus::Set`] are omitted.
    not_set: BTreeMap<(AgentStatus, bool), BTreeSet<PortKey>>,
    view: CongestionView,
    /// Whether a status has changed since the last [`CongestionManager::take_news`].
    has_news: bool,
}

impl CongestionManager {
    /// A manager without agents. `first_tid` should differ from the transaction IDs of an earlier
    /// process, whose answers may still arrive.
    pub fn new(policy: Arc<CongestionPolicy>, first_tid: u32) -> CongestionManager {
        CongestionManager {
            policy,
            window: AgentWindow::new(first_tid),
            ..CongestionManager::default()
        }
    }

    /// Changes the policy. If it differs from the former policy, forgets all agents, so that their
    /// settings are read again.
    pub fn configure(&mut self, policy: &Arc<CongestionPolicy>) {
        if self.policy != *policy {
            self.policy = policy.clone();
            self.forget_all();
        }
    }

    /// Whether congestion control is on.
    pub fn is_on(&self) -> bool {
        self.policy.enabled
    }

    /// Forgets all agents, because another manager may now write their settings.
    pub fn forget_all(&mut self) {
        if self.agents.is_empty() && self.fabric.is_empty() {
            return;
        }
        let mut window = std::mem::take(&mut self.window);
        window.clear();
        *self = CongestionManager {
            policy: self.policy.clone(),
            window,
            has_news: true,
            ..CongestionManager::default()
        };
    }

    /// Follows a new model of the subnet. Returns whether the model differs from the previous
    /// model; false if congestion control is off.
    pub fn follow(&mut self, fabric: &Arc<Fabric>, now: Time) -> bool {
        if !self.policy.enabled || Arc::ptr_eq(&self.fabric, fabric) {
            return false;
        }
        let before = std::mem::replace(&mut self.fabric, fabric.clone());
        for (earlier, node) in before.differing(fabric) {
            match node {
                Some(node) => self.follow_node(node, earlier, now),
                None => earlier
                    .into_iter()
                    .for_each(|former| self.forget_ports(former.guid, &BTreeSet::new())),
            }
        }
        true
    }

    /// Creates and forgets agents of a node that has changed. The settings of the node are read
    /// again if one of its links has come up.
    fn follow_node(&mut self, node: &Node, earlier: Option<&Node>, now: Time) {
        let mut present = BTreeSet::new();
        if let Some(device) = self.device(node) {
            let ports = node.end_ports();
            let managed = ports.filter(|(_, port)| is_manageable(node, port));
            for (number, port) in managed {
                present.insert(number);
                let key = PortKey::new(node.guid, number);
                let is_same = self
                    .agents
                    .get(&key)
                    .is_some_and(|agent| agent.lid == port.lid() && agent.device == device);
                if !is_same || came_up(node, earlier) {
                    self.put(key, Agent::new(port.lid(), device, now));
                }
            }
        }
        self.forget_ports(node.guid, &present);
    }

    /// The kind of device of `node`; `None` if the policy does not concern the node.
    fn device(&self, node: &Node) -> Option<Device> {
        let is_enhanced = || {
            node.switch
                .as_ref()
                .is_some_and(|switch| switch.enhanced_port0())
        };
        match node.kind() {
            NodeType::Switch if self.policy.concerns_switches() => {
                Some(Device::Switch(SwitchPorts {
                    external: node.info.num_ports(),
                    with_port_0: is_enhanced(),
                }))
            }
            NodeType::Ca if self.policy.concerns_adapters() => Some(Device::Adapter),
            _ => None,
        }
    }

    /// Forgets the agents of a node, except those of the ports `present`.
    fn forget_ports(&mut self, node: Guid, present: &BTreeSet<PortNum>) {
        let all = PortKey::new(node, PortNum(0))..=PortKey::new(node, PortNum(255));
        let keys = self.agents.range(all).map(|(&key, _)| key);
        let absent: Vec<PortKey> = keys.filter(|key| !present.contains(&key.port)).collect();
        for key in absent {
            self.unlist(key);
            self.agents.remove(&key);
            self.view.remove(key);
            self.has_news = true;
            // The answer to a request in flight will find no agent, and is ignored.
        }
    }

    /// The next request; `None` if no request is due, or the window is full.
    pub fn poll_transmit(&mut self, routes: &Routes, now: Time) -> Option<Transmit> {
        if !self.policy.enabled || !self.has_room() {
            return None;
        }
        let (due, key) = self.window.first_turn()?;
        if due > now {
            return None;
        }
        let agent = self.agents.get_mut(&key)?;
        let request = agent.request(&self.policy);
        let lid = agent.lid;
        agent.due = None;
        self.window.dequeue(due, key);
        let deadline = now + request.timeout;
        let tid = self.window.add(key, request.attribute, deadline);
        let mad = CcMad::request(
            request.method,
            request.attribute,
            request.modifier,
            tid,
            request.key,
            &request.data,
        );
        Some(Transmit {
            datagram: Datagram {
                mad: *mad.as_bytes(),
                remote: routes.to(lid),
            },
            timeout: request.timeout,
        })
    }

    /// Handles a request with this transaction ID that the transport did not accept. The agent gets
    /// another turn after a pause.
    pub fn not_sent(&mut self, tid: Tid, now: Time) {
        if let Some(flight) = self.window.remove(tid) {
            self.change(flight.agent, |agent, _| agent.due = Some(now + SEND_PAUSE));
        }
    }

    /// Handles a datagram of the class.
    pub fn handle(&mut self, datagram: &Datagram, now: Time) {
        let header = MadHeader::of(&datagram.mad);
        let flight = self.window.get(header.tid());
        let is_answer = header.method() == Method::GET_RESPONSE
            && flight.is_some_and(|flight| flight.request == header.attribute());
        if !is_answer {
            return;
        }
        if let Some(flight) = self.window.remove(header.tid()) {
            let mad = CcMad::from_bytes(&datagram.mad);
            self.change(flight.agent, |agent, policy| {
                agent.on_answer(policy, header.status(), mad.data(), now);
            });
        }
    }

    /// Handles a request with this transaction ID that the transport accepted and then failed to
    /// send.
    pub fn on_send_failed(&mut self, tid: Tid, now: Time) {
        if let Some(flight) = self.window.remove(tid) {
            self.change(flight.agent, |agent, _| agent.on_silence(now));
        }
    }

    /// Handles requests that were not answered in time.
    pub fn handle_deadline(&mut self, now: Time) {
        while let Some(flight) = self.window.remove_overdue(now) {
            self.change(flight.agent, |agent, _| agent.on_silence(now));
        }
    }

    /// Time of the next request or of the next deadline of a request in flight; `None` if no
    /// request is pending or in flight. With `may_send` false, only deadlines count.
    pub fn next_deadline(&self, may_send: bool) -> Option<Time> {
        let turn = self.window.first_turn().map(|(due, _)| due);
        let turn = turn.filter(|_| may_send && self.has_room() && self.policy.enabled);
        let silence = self.window.first_deadline();
        turn.into_iter().chain(silence).min()
    }

    /// Whether another request may be in flight.
    fn has_room(&self) -> bool {
        self.window.in_flight() < self.policy.window as usize
    }

    /// Whether a status has changed since the last call that returned true. Always false while a
    /// request is in flight or due at `now`, so that readers get the result of all requests at once
    /// instead of each answer.
    pub fn take_news(&mut self, now: Time) -> bool {
        let turn = self.window.first_turn();
        let is_busy = turn.is_some_and(|(due, _)| due <= now);
        if is_busy || self.window.in_flight() > 0 {
            return false;
        }
        std::mem::take(&mut self.has_news)
    }

    /// The status of all agents.
    pub fn view(&self) -> &CongestionView {
        &self.view
    }

    /// Changes an agent, and updates the lists that contain it.
    fn change(&mut self, key: PortKey, change: impl FnOnce(&mut Agent, &CongestionPolicy)) {
        let Some(mut agent) = self.agents.get(&key).cloned() else {
            return;
        };
        // An agent with a turn was created after the request, whose answer it must not get.
        if agent.due.is_some() {
            return;
        }
        change(&mut agent, &self.policy);
        self.put(key, agent);
    }

    /// Adds or replaces an agent, and updates the lists that contain it.
    fn put(&mut self, key: PortKey, agent: Agent) {
        self.unlist(key);
        let report = agent.report();
        if let Some(due) = agent.due {
            self.window.enqueue(due, key);
        }
        if !matches!(report.status, AgentStatus::Pending | AgentStatus::Set) {
            let group = (report.status, key.port == PortNum::ZERO);
            self.not_set.entry(group).or_default().insert(key);
        }
        self.has_news |= self.view.agent(key) != Some(&report);
        self.view.put(key, report);
        self.agents.insert(key, agent);
    }

    /// Removes an agent from the turns and from [`CongestionManager::not_set`], but not from the
    /// agents.
    fn unlist(&mut self, key: PortKey) {
        let Some(agent) = self.agents.get(&key) else {
            return;
        };
        if let Some(due) = agent.due {
            self.window.dequeue(due, key);
        }
        let group = (agent.report().status, key.port == PortNum::ZERO);
        if let Some(same) = self.not_set.get_mut(&group) {
            same.remove(&key);
            if same.is_empty() {
                self.not_set.remove(&group);
            }
        }
    }

    /// The findings: one for each reason why agents lack the policy's settings, and one that counts
    /// the devices without congestion control. `name` returns the name of a node.
    pub fn findings(&self, name: impl Fn(Guid) -> String) -> Vec<Finding> {
        let troubles = self
            .not_set
            .iter()
            .filter(|((status, _), _)| status.is_trouble());
        let mut findings: Vec<Finding> = troubles
            .filter_map(|((status, _), ports)| {
                let first = *ports.first()?;
                let others = match ports.len() - 1 {
                    0 => String::new(),
                    1 => ", and so does one other port".to_owned(),
                    more => format!(", and so do {more} other ports"),
                };
                let text = format!(
                    "{} port {} {status}{others}: packets there are marked and slowed down as the \
                     device was set before; see `rsmctl congestion`",
                    name(first.node),
                    first.port
                );
                Some((Subject::Port(first), Severity::Warning, text))
            })
            .map(|(subject, severity, text)| {
                Finding::new(FindingKind::CongestionControl, subject, severity, text)
            })
            .collect();
        findings.extend(self.without_agent());
        findings
    }

    /// The finding that counts the devices without congestion control; `None` if there are none.
    fn without_agent(&self) -> Option<Finding> {
        let absent = |of_switches: bool| -> usize {
            let all = self.not_set.iter();
            let absent = all.filter(|((status, is_switch), _)| {
                !status.is_trouble() && *is_switch == of_switches
            });
            absent.map(|(_, ports)| ports.len()).sum()
        };
        let (switches, adapters) = (absent(true), absent(false));
        (switches + adapters > 0).then(|| {
            let text = format!(
                "{switches} switches and {adapters} ports of adapters have no congestion control \
                 or do not answer it: they mark no packets, or do not slow down"
            );
            let kind = FindingKind::CongestionControl;
            Finding::new(kind, Subject::Subnet, Severity::Info, text)
        })
    }
}

/// Whether general service datagrams reach a port, and answers return.
fn is_manageable(node: &Node, port: &Port) -> bool {
    let has_link = node.is_switch() || port.state() == PortState::Active;
    has_link && port.lid() != Lid::NONE && !node.unmanageable
}

/// Whether a link of the node came up, so that the node may have been reset.
fn came_up(node: &Node, earlier: Option<&Node>) -> bool {
    let Some(earlier) = earlier else { return true };
    let mut ports = node.ports.iter().zip(&earlier.ports);
    ports.any(|(now, before)| {
        now.state() == PortState::Active && before.state() != PortState::Active
    })
}
