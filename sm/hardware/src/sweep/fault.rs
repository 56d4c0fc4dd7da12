//! Faults that sweeps found. A fault is kept until an answer ends it.

use std::collections::{BTreeMap, BTreeSet};

use rsm_ids::{Guid, PortKey};
use rsm_mad::wire::header::Status;
use rsm_model::findings::{Finding, FindingKind, Severity, Subject};

use super::inventory::Inventory;
use super::{Query, m_key};

/// A fault behind one port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The link is up, and no node answered behind it.
    Unanswering {
        /// The node that is known behind the port; `None` if no node is known there.
        known: Option<Guid>,
    },
    /// The node behind the port answered with GUID zero.
    ZeroGuid,
    /// The port is cabled to itself.
    SelfCabled,
    /// The port is cabled to another port of its own node.
    Loopback(PortKey),
    /// The node behind the port has the GUID of another node, which was found behind `first`.
    DuplicateGuid {
        /// GUID that both nodes answer with.
        guid: Guid,
        /// Port behind which the GUID was found first.
        first: PortKey,
    },
    /// The directed path would have more hops than an SMP allows.
    TooFar,
}

/// All faults behind ports, and the unanswered and refused queries.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Faults {
    /// The fault behind each port.
    ports: BTreeMap<PortKey, Fault>,
    /// Queries that were not answered (`None`) or were refused with a status.
    owed: BTreeMap<Query, Option<Status>>,
}

impl Faults {
    /// Forgets all faults, before a full sweep.
    pub fn clear(&mut self) {
        *self = Faults::default();
    }

    /// Records a fault behind `port`, in place of an unanswered query for NodeInfo there.
    pub fn at_port(&mut self, port: PortKey, fault: Fault) {
        self.pay(Query::Node(Some(port)));
        self.ports.insert(port, fault);
    }

    /// Ends the fault behind `port`, and the unanswered query for NodeInfo there.
    pub(crate) fn heal_port(&mut self, port: PortKey) {
        self.pay(Query::Node(Some(port)));
        self.ports.remove(&port);
    }

    /// Whether a fault or missing answer in `before` has ended.
    pub(crate) fn has_healed(&self, before: &Faults) -> bool {
        before
            .ports
            .keys()
            .any(|port| !self.ports.contains_key(port))
            || before
                .owed
                .keys()
                .any(|query| !self.owed.contains_key(query))
    }

    /// The ports behind which a node was left out because of its GUID, each with that GUID and the
    /// port behind which the GUID was found first.
    pub fn duplicates(&self) -> impl Iterator<Item = (PortKey, Guid, PortKey)> + '_ {
        self.ports.iter().filter_map(|(&port, fault)| match *fault {
            Fault::DuplicateGuid { guid, first } => Some((port, guid, first)),
            _ => None,
        })
    }

    /// The fault behind `port`; `None` if there is none.
    pub fn port(&self, port: PortKey) -> Option<&Fault> {
        self.ports.get(&port)
    }

    /// Records that `query` got no answer (`status` is `None`), or was refused with a status.
    pub(crate) fn owe(&mut self, query: Query, status: Option<Status>) {
        self.owed.insert(query, status);
    }

    /// Records that `query` was answered.
    pub(crate) fn pay(&mut self, query: Query) {
        self.owed.remove(&query);
    }

    /// Forgets the faults of nodes that vanished.
    pub(crate) fn forget_nodes(&mut self, gone: &BTreeSet<Guid>) {
        self.ports.retain(|port, _| !gone.contains(&port.node));
        self.forget_owed(|query| query.node().is_some_and(|node| gone.contains(&node)));
    }

    /// Forgets the unanswered and refused queries for which `is_obsolete` returns true.
    pub(crate) fn forget_owed(&mut self, is_obsolete: impl Fn(Query) -> bool) {
        self.owed.retain(|&query, _| !is_obsolete(query));
    }

    /// Ports behind which NodeInfo must be asked again.
    pub fn to_ask_again(&self) -> impl Iterator<Item = PortKey> + '_ {
        self.ports
            .iter()
            .filter(|(_, fault)| matches!(fault, Fault::Unanswering { .. } | Fault::ZeroGuid))
            .map(|(&port, _)| port)
    }

    /// Ports behind which no node answers.
    pub(super) fn unanswering(&self) -> impl Iterator<Item = PortKey> + '_ {
        let ports = self.ports.iter();
        let silent = ports.filter(|(_, fault)| matches!(fault, Fault::Unanswering { .. }));
        silent.map(|(&port, _)| port)
    }

    /// Whether `query` was not answered, or was refused.
    pub(crate) fn is_owed(&self, query: Query) -> bool {
        self.owed.contains_key(&query)
    }

    /// The unanswered queries, without refused queries.
    pub fn owed(&self) -> impl Iterator<Item = Query> + '_ {
        self.owed
            .iter()
            .filter(|(_, status)| status.is_none())
            .map(|(&query, _)| query)
    }
}

/// Maximum number of attributes that a finding names; the finding counts further attributes.
const SHOWN: usize = 5;

/// The node or port that is silent if `query` gets no answer. `None` for the query to the local
/// node, whose port is not known yet.
pub fn subject_of(query: Query) -> Option<Subject> {
    match query {
        Query::Node(from) => from.map(Subject::Port),
        _ => query.node().map(Subject::Node),
    }
}

/// The silent ports and nodes: ports behind which no node answers, nodes with unanswered queries,
/// and suspects.
pub fn silent(inventory: &Inventory) -> BTreeSet<Subject> {
    let faults = &inventory.faults;
    let behind = faults.unanswering().map(Subject::Port);
    let owed = faults.owed().filter_map(subject_of);
    let suspects = inventory.suspects.iter().copied().map(Subject::Node);
    behind.chain(owed).chain(suspects).collect()
}

/// Findings about the faults of `inventory`. `severity` returns the severity of a subject's
/// silence, or `None` to omit its finding.
pub fn findings(
    inventory: &Inventory,
    severity: impl Fn(Subject) -> Option<Severity>,
) -> Vec<Finding> {
    let ports = inventory.faults.ports.iter().filter_map(|(&port, fault)| {
        let severity = severity(Subject::Port(port));
        finding_of_port(inventory, port, fault, severity)
    });
    let mut owed: BTreeMap<Guid, Vec<(&Query, &Option<Status>)>> = BTreeMap::new();
    for (query, status) in &inventory.faults.owed {
        if status.is_none() && subject_of(*query).and_then(&severity).is_none() {
            continue;
        }
        if let Some(node) = query.node() {
            owed.entry(node).or_default().push((query, status));
        }
    }
    let nodes = owed.into_iter().map(|(node, list)| {
        let severity = severity(Subject::Node(node));
        finding_of_node(inventory, node, &list, severity)
    });
    let behind = inventory.faults.ports.values();
    let behind = behind.filter_map(|fault| match fault {
        Fault::Unanswering { known } => *known,
        _ => None,
    });
    let unanswered = inventory.faults.owed().filter_map(Query::node);
    let named: BTreeSet<Guid> = behind.chain(unanswered).collect();
    let suspects = inventory.suspects.iter().copied();
    let suspects = suspects.filter(|node| !named.contains(node));
    let suspects = suspects.filter_map(|node| {
        let subject = Subject::Node(node);
        let severity = severity(subject)?;
        let text = format!(
            "{} does not answer; paths that do not need it avoid it, and its neighbours are asked whether its links are up",
            inventory.hardware.name(node)
        );
        let kind = FindingKind::Unanswering;
        Some(Finding::new(kind, subject, severity, text))
    });
    let keys = m_key::findings(inventory, |port| inventory.hardware.port_name(port));
    ports.chain(nodes).chain(suspects).chain(keys).collect()
}

/// The finding about a fault at a port; `None` for a silence that is too short for a finding.
fn finding_of_port(
    inventory: &Inventory,
    port: PortKey,
    fault: &Fault,
    severity: Option<Severity>,
) -> Option<Finding> {
    let name = |guid: Guid| inventory.hardware.name(guid);
    let place = |port: PortKey| inventory.hardware.port_name(port);
    let (kind, severity, text) = match fault {
        Fault::Unanswering { known: Some(guid) } => (
            FindingKind::Unanswering,
            severity?,
            format!(
                "{} does not answer behind {}, although the link is up; it is kept and asked again",
                name(*guid),
                place(port)
            ),
        ),
        Fault::Unanswering { known: None } => (
            FindingKind::Unanswering,
            severity?,
            format!(
                "no node answers behind {}, although the link is up; it is asked again",
                place(port)
            ),
        ),
        Fault::ZeroGuid => (
            FindingKind::ZeroGuid,
            Severity::Error,
            format!(
                "the node behind {} has GUID zero; program its GUID, it is left out until then",
                place(port)
            ),
        ),
        Fault::SelfCabled => (
            FindingKind::SelfCabled,
            Severity::Warning,
            format!(
                "{} is connected to itself; remove the loop-back plug",
                place(port)
            ),
        ),
        Fault::Loopback(other) => (
            FindingKind::LoopbackCable,
            Severity::Warning,
            format!(
                "a cable joins {} and port {} of the same node; no route uses it",
                place(port),
                other.port
            ),
        ),
        Fault::DuplicateGuid { guid, first } => (
            FindingKind::DuplicateGuid,
            Severity::Error,
            format!(
                "two nodes have GUID {guid}: {} had it first and is served as before, the node behind {} is left out; give \
                 one of them another GUID, or unplug it: the other node is served at once",
                match first.node == *guid {
                    true => name(*guid),
                    false => format!("the node behind {}", place(*first)),
                },
                place(port)
            ),
        ),
        Fault::TooFar => (
            FindingKind::Unanswering,
            Severity::Error,
            format!(
                "the node behind {} is more than 63 hops away and cannot be reached",
                place(port)
            ),
        ),
    };
    Some(Finding::new(kind, Subject::Port(port), severity, text))
}

/// An unanswered or refused query in the words of a finding; `status` is the status of a refusal.
fn describe(query: &Query, status: &Option<Status>) -> String {
    let what = match query {
        Query::Port(key) => format!("{} of port {}", query.attribute(), key.port),
        Query::PKeys(key, block) => {
            format!("{} block {block} of port {}", query.attribute(), key.port)
        }
        Query::Managed(key) => {
            let (block, port) = (key.place.block, key.port.port);
            format!("{} block {block} of port {port}", query.attribute())
        }
        Query::Table(_, block) => format!("{} block {block}", query.attribute()),
        Query::SlToVl(_, input, output) => {
            format!("{} from port {input} to port {output}", query.attribute())
        }
        Query::Multicast(_, at) => format!(
            "{} block {} position {}",
            query.attribute(),
            at.block,
            at.position
        ),
        _ => query.attribute().to_string(),
    };
    match status {
        Some(status) => format!("{what} ({status})"),
        None => format!("{what} (no answer)"),
    }
}

/// The finding about a node that left the queries of `list` unanswered, or refused them. `severity`
/// is the severity of its silence; `None` if the silence is too short for a finding.
fn finding_of_node(
    inventory: &Inventory,
    node: Guid,
    list: &[(&Query, &Option<Status>)],
    severity: Option<Severity>,
) -> Finding {
    if m_key::shows_node_info_only(inventory, node) {
        let text = format!(
            "{} answers NodeInfo and nothing else: it holds an M_Key other than sm.m_key with protection level 2 or 3, or \
             its management processor hangs; it is not managed; set sm.m_key to the key of the subnet manager before, or \
             reset the device",
            inventory.hardware.name(node)
        );
        let (kind, subject) = (FindingKind::MKeyMismatch, Subject::Node(node));
        let severity = severity.unwrap_or(Severity::Error);
        return Finding::new(kind, subject, severity, text);
    }
    let more = list.len().saturating_sub(SHOWN);
    let shown = list.iter().take(SHOWN);
    let shown = shown.map(|(query, status)| describe(query, status));
    let mut text = format!(
        "{} does not answer {}",
        inventory.hardware.name(node),
        shown.collect::<Vec<String>>().join(", ")
    );
    if more > 0 {
        text.push_str(&format!(", and {more} more"));
    }
    // A node that answers some queries gets only a warning, however long other queries stay
    // unanswered.
    let subject = Subject::Node(node);
    let is_silent = inventory.suspects.contains(&node);
    let severity = severity.filter(|_| is_silent);
    let severity = severity.unwrap_or(Severity::Warning);
    Finding::new(FindingKind::Incomplete, subject, severity, text)
}

#[cfg(test)]
mod tests {
    use rsm_ids::PortNum;

    use super::*;

    #[test]
    fn each_silent_node_has_one_finding_with_its_first_five_queries() {
        let [suspect, behind_port, asked] = [1, 2, 3].map(Guid);
        let port = PortKey::new(Guid(9), PortNum(1));
        let mut inventory = Inventory::default();
        inventory.suspects.extend([suspect, behind_port, asked]);
        let known = Some(behind_port);
        inventory.faults.at_port(port, Fault::Unanswering { known });
        for block in 0..7 {
            inventory.faults.owe(Query::Table(asked, block), None);
        }
        let findings = findings(&inventory, |_| Some(Severity::Warning));
        let subjects: Vec<Subject> = findings.iter().map(|one| one.subject).collect();
        let (port, asked) = (Subject::Port(port), Subject::Node(asked));
        assert_eq!(subjects, [port, asked, Subject::Node(suspect)]);
        let text = &findings[1].text;
        assert!(text.contains("block 4 (no answer), and 2 more"), "{text}");
        assert!(!text.contains("block 5"), "{text}");
    }
}
