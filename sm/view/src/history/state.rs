//! The state of the subnet, in the form in which the history keeps it.

use std::collections::{BTreeMap, BTreeSet};

use rsm_ids::{Guid, PortKey, PortNum};
use rsm_mad::wire::attr::{NodeType, PortInfo, PortState};
use rsm_model::fabric::{Fabric, Node};
use rsm_state::{Role, Snapshot};

use super::finding_numbers::numbered;

/// Maximum length of a finding's text in the state, in bytes: some findings list many parts.
const MAX_TEXT: usize = 512;

/// A node in the history.
#[derive(Clone, PartialEq, prost::Message)]
pub struct NodeState {
    /// Node GUID.
    #[prost(fixed64, tag = "1")]
    pub guid: u64,
    /// NodeInfo.NodeType (IBA 14.2.5.3).
    #[prost(uint32, tag = "2")]
    pub kind: u32,
    /// Node description.
    #[prost(string, tag = "3")]
    pub description: String,
    /// Base LIDs of the end ports, ascending, with the port number in the upper 16 bits and the LID
    /// in the lower.
    #[prost(uint32, repeated, tag = "4")]
    pub lids: Vec<u32>,
}

/// A cable in the history, seen from its lower end.
#[derive(Clone, PartialEq, prost::Message)]
pub struct LinkState {
    /// Node GUID of the lower end.
    #[prost(fixed64, tag = "1")]
    pub(crate) a_node: u64,
    /// Port number of the lower end.
    #[prost(uint32, tag = "2")]
    pub a_port: u32,
    /// Node GUID of the other end; 0 if only the lower end is named.
    #[prost(fixed64, tag = "3")]
    pub(crate) b_node: u64,
    /// Port number of the other end.
    #[prost(uint32, tag = "4")]
    pub b_port: u32,
    /// Active width and speed in words, such as `4x ndr`; empty if they are unknown.
    #[prost(string, tag = "5")]
    pub rate: String,
    /// Whether the link was training: an end was in the state Init.
    #[prost(bool, tag = "6")]
    pub(crate) training: bool,
}

/// A finding in the history.
#[derive(Clone, PartialEq, prost::Message)]
pub struct FindingState {
    /// Code of the finding's kind.
    #[prost(string, tag = "1")]
    pub kind: String,
    /// Node GUID of the subject; 0 if it has none.
    #[prost(fixed64, tag = "2")]
    pub node: u64,
    /// Port number of the subject; absent if it has none.
    #[prost(uint32, optional, tag = "3")]
    pub port: Option<u32>,
    /// Number that distinguishes findings of one kind about one subject.
    #[prost(uint32, tag = "4")]
    pub index: u32,
    /// Text of the finding when it was raised.
    #[prost(string, tag = "5")]
    pub text: String,
}

/// A whole state, or a change of it.
#[derive(Clone, PartialEq, prost::Message)]
pub struct StateChange {
    /// Generation of the plan in force; 0 if there is none.
    #[prost(uint64, tag = "1")]
    pub plan: u64,
    /// Engine of the plan in force.
    #[prost(string, tag = "2")]
    pub engine: String,
    /// Role of the subnet manager, in one word.
    #[prost(string, tag = "3")]
    pub role: String,
    /// Nodes that are new or changed.
    #[prost(message, repeated, tag = "4")]
    pub nodes: Vec<NodeState>,
    /// GUIDs of vanished nodes.
    #[prost(fixed64, repeated, tag = "5")]
    pub(crate) nodes_gone: Vec<u64>,
    /// Cables that are new or changed.
    #[prost(message, repeated, tag = "6")]
    pub links: Vec<LinkState>,
    /// Vanished cables, each named by its lower end.
    #[prost(message, repeated, tag = "7")]
    pub(crate) links_gone: Vec<LinkState>,
    /// New findings.
    #[prost(message, repeated, tag = "8")]
    pub findings: Vec<FindingState>,
    /// Findings that no longer hold, without their text.
    #[prost(message, repeated, tag = "9")]
    pub(crate) findings_gone: Vec<FindingState>,
}

/// Identifies a finding, as code, node GUID, port number and index.
pub(super) type FindingKey = (String, u64, Option<u32>, u32);

/// Kind and subject of findings, as code, node GUID and port number.
type FindingSubject = (String, u64, Option<u32>);

/// A node in a [`State`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct NodeRow {
    pub(super) kind: u32,
    pub(super) description: Box<str>,
    /// Ports and LIDs, as in [`NodeState::lids`].
    pub(super) lids: Box<[u32]>,
}

/// A cable in a [`State`]: the other end, as node GUID and port number, and the rate as in
/// [`LinkState`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct LinkRow {
    pub(super) peer: (u64, u32),
    pub(super) rate: Box<str>,
}

/// The subnet at one moment: nodes, LIDs, cables, findings, engine. Takes about 15 MB for 45,056
/// hosts.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct State {
    pub(super) plan: u64,
    pub(super) engine: String,
    pub(super) role: String,
    /// Nodes by GUID.
    pub(super) nodes: BTreeMap<u64, NodeRow>,
    /// Cables by their lower end, as node GUID and port number.
    pub(super) links: BTreeMap<(u64, u32), LinkRow>,
    /// Cables whose links train, by their lower end. A change of only this is no record of the
    /// history: events have it.
    pub(super) training: BTreeSet<(u64, u32)>,
    /// Texts of findings.
    pub(super) findings: BTreeMap<FindingKey, Box<str>>,
}

impl State {
    /// Applies a change, or a whole state if this state is empty.
    pub fn apply(&mut self, change: StateChange) {
        self.plan = change.plan;
        self.engine = change.engine;
        self.role = change.role;
        for guid in change.nodes_gone {
            self.nodes.remove(&guid);
        }
        for node in change.nodes {
            let row = NodeRow {
                kind: node.kind,
                description: node.description.into(),
                lids: node.lids.into(),
            };
            self.nodes.insert(node.guid, row);
        }
        for link in change.links_gone {
            self.links.remove(&(link.a_node, link.a_port));
            self.training.remove(&(link.a_node, link.a_port));
        }
        for link in change.links {
            let row = LinkRow {
                peer: (link.b_node, link.b_port),
                rate: link.rate.into(),
            };
            let end = (link.a_node, link.a_port);
            self.links.insert(end, row);
            set_member(&mut self.training, end, link.training);
        }
        for finding in change.findings_gone {
            self.findings.remove(&key(&finding));
        }
        for finding in change.findings {
            let key = key(&finding);
            self.findings.insert(key, finding.text.into());
        }
    }

    /// The whole state, as one change of an empty state.
    pub fn base(&self) -> StateChange {
        let nodes = self.nodes.iter().map(|(&guid, row)| node_state(guid, row));
        let links = self.links.iter().map(|(&end, row)| LinkState {
            training: self.training.contains(&end),
            ..link_state(end, row)
        });
        let findings = self.findings.iter();
        StateChange {
            nodes: nodes.collect(),
            links: links.collect(),
            findings: findings
                .map(|(key, text)| finding_state(key, text.to_string()))
                .collect(),
            ..self.heading()
        }
    }

    /// A change with only plan, engine and role of this state.
    fn heading(&self) -> StateChange {
        StateChange {
            plan: self.plan,
            engine: self.engine.clone(),
            role: self.role.clone(),
            ..StateChange::default()
        }
    }

    /// Updates this state to `snapshot`, and returns the change; `None` if nothing changed.
    /// `before` is the fabric from which this state was last made: the comparison covers
    /// only nodes that the two fabrics do not share, or all nodes if `before` is `None`.
    pub fn follow(&mut self, before: Option<&Fabric>, snapshot: &Snapshot) -> Option<StateChange> {
        let old_heading = self.heading();
        let plan = snapshot.plan.as_deref();
        self.plan = plan.map_or(0, |plan| plan.generation);
        self.engine = plan.map_or("", |plan| plan.routing.engine).to_owned();
        self.role = role(&snapshot.role).to_owned();
        let mut change = self.heading();
        let is_same = old_heading == change;
        self.follow_nodes(before, &snapshot.fabric, &mut change);
        self.follow_findings(snapshot, &mut change);
        (!is_same || change != self.heading()).then_some(change)
    }

    fn follow_nodes(&mut self, before: Option<&Fabric>, now: &Fabric, change: &mut StateChange) {
        let touched: Vec<Guid> = match before {
            Some(before) => before.differing_nodes(now).map(|node| node.guid).collect(),
            None => {
                let known = self.nodes.keys().map(|&guid| Guid(guid));
                known.chain(now.nodes().map(|node| node.guid)).collect()
            }
        };
        let touched: BTreeSet<Guid> = touched.into_iter().collect();
        for guid in touched {
            let node = now.node_of(guid);
            self.follow_node(guid, node, change);
            self.follow_links(guid, node, now, change);
        }
    }

    fn follow_node(&mut self, guid: Guid, node: Option<&Node>, change: &mut StateChange) {
        let Some(node) = node else {
            if self.nodes.remove(&guid.0).is_some() {
                change.nodes_gone.push(guid.0);
            }
            return;
        };
        let row = node_row(node);
        if self.nodes.get(&guid.0) != Some(&row) {
            change.nodes.push(node_state(guid.0, &row));
            self.nodes.insert(guid.0, row);
        }
    }

    /// Updates the cables of a node, under their lower ends, which may be at the node or at a peer.
    fn follow_links(
        &mut self,
        guid: Guid,
        node: Option<&Node>,
        fabric: &Fabric,
        change: &mut StateChange,
    ) {
        let mut rows = BTreeMap::new();
        for (here, there) in node.into_iter().flat_map(Node::cables) {
            let (a, b) = (here.min(there), here.max(there));
            let row = LinkRow {
                peer: end(b),
                rate: rate(fabric, a, b).into(),
            };
            set_member(&mut self.training, end(a), is_training(fabric, a, b));
            rows.insert(end(a), row);
        }
        let own = (guid.0, 0)..=(guid.0, u32::MAX);
        let gone: Vec<_> = self.links.range(own).map(|(&end, _)| end).collect();
        for end in gone.into_iter().filter(|end| !rows.contains_key(end)) {
            self.links.remove(&end);
            self.training.remove(&end);
            change.links_gone.push(lower_end(end));
        }
        for (end, row) in rows {
            if self.links.get(&end) != Some(&row) {
                change.links.push(LinkState {
                    training: self.training.contains(&end),
                    ..link_state(end, &row)
                });
                self.links.insert(end, row);
            }
        }
    }

    fn follow_findings(&mut self, snapshot: &Snapshot, change: &mut StateChange) {
        let mut by_subject: BTreeMap<FindingSubject, Vec<&str>> = BTreeMap::new();
        for finding in snapshot.findings.iter() {
            let (node, port) = subject(finding.subject);
            let about = (finding.kind.code().to_owned(), node, port);
            by_subject
                .entry(about)
                .or_default()
                .push(cut(&finding.text));
        }
        let mut now: BTreeMap<FindingKey, Box<str>> = BTreeMap::new();
        for ((kind, node, port), texts) in by_subject {
            let first = (kind.clone(), node, port, 0);
            let last = (kind.clone(), node, port, u32::MAX);
            let known = self.findings.range(first..=last);
            let known: BTreeMap<u32, &str> = known.map(|(key, text)| (key.3, &**text)).collect();
            for (index, text) in numbered(&known, &texts, node != 0) {
                now.insert((kind.clone(), node, port, index), text.into());
            }
        }
        let gone = self.findings.keys().filter(|key| !now.contains_key(*key));
        for key in gone {
            change.findings_gone.push(finding_state(key, String::new()));
        }
        for (key, text) in &mut now {
            match self.findings.get(key) {
                Some(known) => text.clone_from(known),
                None => change.findings.push(finding_state(key, text.to_string())),
            }
        }
        self.findings = now;
    }
}

fn role(role: &Role) -> &'static str {
    match role {
        Role::Discovering => "discovering",
        Role::Master => "master",
        Role::Standby { .. } => "standby",
        Role::NotActive => "not active",
    }
}

fn subject(subject: rsm_model::findings::Subject) -> (u64, Option<u32>) {
    use rsm_model::findings::Subject;
    match subject {
        Subject::Subnet => (0, None),
        Subject::Node(guid) => (guid.0, None),
        Subject::Port(key) => (key.node.0, Some(key.port.0.into())),
    }
}

/// Cuts a text to at most [`MAX_TEXT`] bytes.
fn cut(text: &str) -> &str {
    let mut end = text.len().min(MAX_TEXT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

fn end(key: PortKey) -> (u64, u32) {
    (key.node.0, key.port.0.into())
}

pub(super) fn key(finding: &FindingState) -> FindingKey {
    let kind = finding.kind.clone();
    (kind, finding.node, finding.port, finding.index)
}

fn node_row(node: &Node) -> NodeRow {
    let is_switch = node.is_switch();
    let ports = (0..=u8::MAX).map(PortNum).zip(&node.ports);
    let ends = ports.filter(|(number, port)| {
        (*number == PortNum::ZERO) == is_switch && port.lid().is_unicast()
    });
    NodeRow {
        kind: match node.kind() {
            NodeType::Ca => 1,
            NodeType::Switch => 2,
            NodeType::Router => 3,
            NodeType::Unknown(other) => other.into(),
        },
        description: node.description.as_str().into(),
        lids: ends
            .map(|(number, port)| u32::from(number.0) << 16 | u32::from(port.lid().0))
            .collect(),
    }
}

/// Adds an end to a set, or removes it.
fn set_member(set: &mut BTreeSet<(u64, u32)>, end: (u64, u32), is_member: bool) {
    match is_member {
        true => set.insert(end),
        false => set.remove(&end),
    };
}

/// Whether the link of a cable trains.
fn is_training(fabric: &Fabric, a: PortKey, b: PortKey) -> bool {
    [a, b].into_iter().any(|key| {
        let port = fabric.find_port(key).map(|at| fabric.port(at));
        let info = port
            .filter(|port| port.up)
            .and_then(|port| port.info.as_ref());
        info.is_some_and(|info| info.port_state() == PortState::Init)
    })
}

/// Width and speed of a cable in words, such as `4x ndr`; empty if they are unknown.
fn rate(fabric: &Fabric, a: PortKey, b: PortKey) -> String {
    let info = |key: PortKey| -> Option<&PortInfo> {
        let port = fabric.port(fabric.find_port(key)?);
        port.info.as_ref().filter(|_| port.up)
    };
    let Some(info) = info(a).or_else(|| info(b)) else {
        return String::new();
    };
    let width = info.link_width_active().single();
    match (width, info.effective_speed()) {
        (Some(width), Some(speed)) => format!("{width} {speed}"),
        _ => String::new(),
    }
}

fn node_state(guid: u64, row: &NodeRow) -> NodeState {
    NodeState {
        guid,
        kind: row.kind,
        description: row.description.to_string(),
        lids: row.lids.to_vec(),
    }
}

fn link_state(end: (u64, u32), row: &LinkRow) -> LinkState {
    LinkState {
        b_node: row.peer.0,
        b_port: row.peer.1,
        rate: row.rate.to_string(),
        ..lower_end(end)
    }
}

fn lower_end(end: (u64, u32)) -> LinkState {
    LinkState {
        a_node: end.0,
        a_port: end.1,
        ..LinkState::default()
    }
}

fn finding_state(key: &FindingKey, text: String) -> FindingState {
    FindingState {
        kind: key.0.clone(),
        node: key.1,
        port: key.2,
        index: key.3,
        text,
    }
}
