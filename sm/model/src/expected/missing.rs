//! Missing nodes and cables, grouped by failure: a switch with all its cables and the hosts behind
//! it is one entry.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use rsm_ids::{Guid, PortKey, PortNum};
use rsm_mad::wire::attr::{NodeType, PortState};
use serde::Serialize;

use super::{Expected, LostAt, LostPort, shown_at};
use crate::fabric::Fabric;
use crate::findings::{Finding, FindingKind, Severity, Subject};
use crate::text::count;

/// Number of entries with findings of their own; one more finding counts the rest. The switches of
/// a dead rack fit.
const FINDINGS: usize = 64;

/// Number of cables that the finding about one exchange names; two exchanged cables are the common
/// case.
const NAMED_CABLES: usize = 4;

/// The kinds of missing entries.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum MissingKind {
    /// A switch, with its cables and the hosts behind it.
    Switch,
    /// Cables between switches that are present.
    Cable,
    /// Cables between switches that lead elsewhere than before, while every end has a cable.
    Exchanged,
    /// A channel adapter or router.
    Host,
    /// Cables of a host that is present.
    HostCable,
}

/// One entry: a missing node, or missing cables of a present one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Missing {
    /// Key of the entry: the port for a single cable, port 0 of the node for anything else.
    pub key: PortKey,
    /// Kind of the entry.
    pub kind: MissingKind,
    /// Name of the node.
    pub name: String,
    /// Time at which the part went missing; for several cables, the time of the first one.
    pub at: LostAt,
    /// State of the first missing port before the loss.
    pub state: PortState,
    /// Missing cables: the end at the node, and the other end.
    pub cables: Vec<(PortKey, PortKey)>,
    /// The names of the nodes at the other ends, in the same order.
    pub peers: Vec<String>,
    /// Number of missing hosts that are listed with this switch: all cables of such a host lead to
    /// missing switches, the first cable to this switch.
    pub hosts_behind: usize,
    /// Number of routes, each from a switch to a LID, that the next plan moved; `None` if the plan
    /// did not count them.
    pub moved: Option<u64>,
    /// Redundancy left, as text for the operator; empty if none was lost.
    pub left: String,
    /// Present far ends of exchanged cables, or the disabled end of missing cables, as text for the
    /// operator; empty if the cables are gone.
    pub now: String,
}

/// Numbers of missing parts by kind.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct MissingCounts {
    /// Switches.
    pub switches: u64,
    /// Cables between two switches, including those of missing switches.
    pub cables: u64,
    /// Channel adapters and routers.
    pub hosts: u64,
    /// Cables of channel adapters and routers that are present.
    pub host_cables: u64,
    /// Cables between two switches that lead elsewhere than before.
    pub exchanged_cables: u64,
}

/// Formats as `1 switch and 36 cables missing, 2 cables exchanged`; empty if nothing is missing or
/// exchanged.
impl fmt::Display for MissingCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gone = [
            (self.switches, "switch", "switches"),
            (self.cables, "cable", "cables"),
            (self.hosts, "host", "hosts"),
            (self.host_cables, "host cable", "host cables"),
        ];
        let gone = gone.into_iter().filter(|&(number, ..)| number > 0);
        let gone: Vec<String> = gone
            .map(|(number, one, many)| count(number, one, many))
            .collect();
        let mut parts = Vec::new();
        match gone.split_last() {
            None => {}
            Some((last, [])) => parts.push(format!("{last} missing")),
            Some((last, first)) => parts.push(format!("{} and {last} missing", first.join(", "))),
        }
        if self.exchanged_cables > 0 {
            let cables = count(self.exchanged_cables, "cable", "cables");
            parts.push(format!("{cables} exchanged"));
        }
        f.write_str(&parts.join(", "))
    }
}

/// Number of links from a switch to other switches, now and before.
#[derive(Clone, Copy)]
struct Links {
    up: usize,
    expected: usize,
}

impl Expected {
    /// The missing entries, ascending by key.
    pub fn missing(&self, fabric: &Fabric) -> Vec<Missing> {
        let behind = self.hosts_behind();
        let of_nodes = self
            .nodes
            .iter()
            .filter(|(guid, _)| !behind.contains_key(guid));
        let mut missing: Vec<Missing> = of_nodes
            .map(|(&guid, _)| self.missing_node(fabric, guid, &behind))
            .collect();
        let groups = self.cables_by_node(fabric);
        missing.extend(
            groups
                .into_iter()
                .map(|(node, cables)| self.missing_cables(fabric, node, cables)),
        );
        let exchanges = self.exchanges(fabric).into_iter();
        missing.extend(exchanges.map(|ends| self.exchanged(fabric, &ends)));
        missing.sort_by_key(|missing| missing.key);
        missing
    }

    /// Counts the missing entries, each cable once.
    pub fn counts(&self, fabric: &Fabric) -> MissingCounts {
        let mut counts = MissingCounts::default();
        for node in self.nodes.values() {
            *match node.kind {
                NodeType::Switch => &mut counts.switches,
                _ => &mut counts.hosts,
            } += 1;
        }
        for (here, there) in self.lost_cables() {
            let mut hosts = [here, there].into_iter();
            let host = hosts.find(|end| !self.is_switch(fabric, end.node));
            match host {
                None => counts.cables += 1,
                Some(host) if self.nodes.contains_key(&host.node) => {}
                Some(_) => counts.host_cables += 1,
            }
        }
        let exchanges = self.exchanges(fabric);
        // Each cable has two ends.
        counts.exchanged_cables = exchanges.iter().map(|ends| ends.len() as u64 / 2).sum();
        counts
    }

    /// Missing cables, each once, by their two ends.
    pub fn lost_cables(&self) -> impl Iterator<Item = (PortKey, PortKey)> {
        let ports = self.ports.iter();
        let ends = ports.map(|(&key, port)| (key, port.peer));
        ends.filter(|&(here, there)| {
            let other = self.ports.get(&there).map(|other| other.peer);
            here < there || other != Some(here)
        })
    }

    /// The entry for one exchange, given the ends of its cables (at least one end).
    fn exchanged(&self, fabric: &Fabric, ends: &[PortKey]) -> Missing {
        let before = |end: &PortKey| Some((*end, self.recabled.get(end)?));
        let before: Vec<(PortKey, &LostPort)> = ends.iter().filter_map(before).collect();
        let cables = before.iter().map(|&(here, port)| (here, port.peer));
        let cables: Vec<(PortKey, PortKey)> = cables.filter(|(a, b)| a < b).collect();
        let key = cables.first().map_or(ends[0], |&(here, _)| here);
        let now = cables.iter().map(|&(here, there)| {
            let now = shown_at(fabric, here).unwrap_or(there);
            let [here, now, there] = [here, now, there].map(|port| self.port_name(fabric, port));
            format!("{here} leads to {now} (was at {there})")
        });
        let mut now: Vec<String> = now.take(NAMED_CABLES).collect();
        if let Some(more @ 1..) = cables.len().checked_sub(NAMED_CABLES) {
            now.push(format!("and {more} more"));
        }
        Missing {
            key,
            kind: MissingKind::Exchanged,
            name: self.name(fabric, key.node),
            at: before
                .iter()
                .map(|(_, port)| port.at)
                .min()
                .unwrap_or(LostAt::Unknown),
            state: before
                .first()
                .map_or(PortState::Down, |(_, port)| port.state),
            peers: cables
                .iter()
                .map(|(_, far)| self.name(fabric, far.node))
                .collect(),
            cables,
            hosts_behind: 0,
            moved: None,
            left: String::new(),
            now: now.join(", "),
        }
    }

    /// Missing hosts whose missing cables all lead to missing switches, each with the first of
    /// these switches.
    fn hosts_behind(&self) -> BTreeMap<Guid, Guid> {
        let is_lost_switch = |guid: &Guid| {
            let node = self.nodes.get(guid);
            node.is_some_and(|node| node.kind == NodeType::Switch)
        };
        let mut behind = BTreeMap::new();
        for (&guid, node) in &self.nodes {
            if node.kind == NodeType::Switch {
                continue;
            }
            let mut peers = self.ports_of(guid).map(|(_, port)| port.peer.node);
            let first = self.ports_of(guid).next().map(|(_, port)| port.peer.node);
            if let Some(first) = first
                && peers.all(|peer| is_lost_switch(&peer))
            {
                behind.insert(guid, first);
            }
        }
        behind
    }

    fn missing_node(&self, fabric: &Fabric, guid: Guid, behind: &BTreeMap<Guid, Guid>) -> Missing {
        let node = &self.nodes[&guid];
        let is_switch = node.kind == NodeType::Switch;
        let cables: Vec<(PortKey, PortKey)> = self
            .ports_of(guid)
            .filter(|(_, port)| behind.get(&port.peer.node) != Some(&guid))
            .map(|(key, port)| (key, port.peer))
            .collect();
        let (kind, left) = match (is_switch, self.worst_neighbour(fabric, &cables)) {
            (true, Some((name, Links { up, expected }))) => (
                MissingKind::Switch,
                format!(
                    "of its neighbours {name} has the fewest links to switches left, {up} of {expected}"
                ),
            ),
            (true, None) => (MissingKind::Switch, String::new()),
            (false, _) => (MissingKind::Host, String::new()),
        };
        Missing {
            kind,
            at: node.at,
            hosts_behind: behind.values().filter(|&&switch| switch == guid).count(),
            left,
            ..self.described(fabric, PortKey::new(guid, PortNum::ZERO), cables)
        }
    }

    /// Missing cables between present nodes, each listed under the end whose node misses more
    /// cables.
    fn cables_by_node(&self, fabric: &Fabric) -> BTreeMap<Guid, Vec<(PortKey, PortKey)>> {
        let mut cables = BTreeSet::new();
        let mut count: BTreeMap<Guid, usize> = BTreeMap::new();
        for (&key, port) in &self.ports {
            let is_whole = [key, port.peer]
                .iter()
                .all(|end| !self.nodes.contains_key(&end.node) && fabric.find(end.node).is_some());
            if is_whole && cables.insert((key.min(port.peer), key.max(port.peer))) {
                *count.entry(key.node).or_default() += 1;
                *count.entry(port.peer.node).or_default() += 1;
            }
        }
        let mut groups: BTreeMap<Guid, Vec<(PortKey, PortKey)>> = BTreeMap::new();
        for (a, b) in cables {
            let is_host = |end: PortKey| !self.is_switch(fabric, end.node);
            // A host's cable is listed under the host.
            let (near, far) = match (is_host(a), is_host(b)) {
                (true, false) => (a, b),
                (false, true) => (b, a),
                _ if count[&b.node] > count[&a.node] => (b, a),
                _ => (a, b),
            };
            groups.entry(near.node).or_default().push((near, far));
        }
        groups
    }

    fn missing_cables(
        &self,
        fabric: &Fabric,
        node: Guid,
        cables: Vec<(PortKey, PortKey)>,
    ) -> Missing {
        let key = match cables[..] {
            [(near, _)] => near,
            _ => PortKey::new(node, PortNum::ZERO),
        };
        let (kind, left) = if self.is_switch(fabric, node) {
            let Links { up, expected } = self.links_of(fabric, node);
            let name = self.name(fabric, node);
            let mut left = format!("{name} has {up} of {expected} links to switches left");
            if let Some((name, Links { up, expected })) = self.worst_neighbour(fabric, &cables) {
                left.push_str(&format!(", {name} {up} of {expected}"));
            }
            (MissingKind::Cable, left)
        } else {
            (MissingKind::HostCable, String::new())
        };
        Missing {
            kind,
            left,
            now: self.disabled(fabric, &cables).unwrap_or_default(),
            ..self.described(fabric, key, cables)
        }
    }

    /// Describes the first disabled end of these cables, for the operator.
    fn disabled(&self, fabric: &Fabric, cables: &[(PortKey, PortKey)]) -> Option<String> {
        let mut ends = cables.iter().flat_map(|&(near, far)| [near, far]);
        let end = ends.find(|&end| fabric.is_disabled(end))?;
        Some(format!("{} is disabled", self.port_name(fabric, end)))
    }

    /// Fills in the fields that entries of nodes and entries of cables share.
    fn described(&self, fabric: &Fabric, key: PortKey, cables: Vec<(PortKey, PortKey)>) -> Missing {
        let ends = cables.iter().flat_map(|(near, far)| [near, far]);
        let ports: Vec<LostPort> = ends
            .filter_map(|end| self.ports.get(end).copied())
            .collect();
        Missing {
            key,
            kind: MissingKind::Host,
            name: self.name(fabric, key.node),
            at: ports
                .iter()
                .map(|port| port.at)
                .min()
                .unwrap_or(LostAt::Unknown),
            state: ports.first().map_or(PortState::Down, |port| port.state),
            peers: cables
                .iter()
                .map(|(_, far)| self.name(fabric, far.node))
                .collect(),
            hosts_behind: 0,
            moved: ports.iter().filter_map(|port| port.moved).max(),
            left: String::new(),
            now: String::new(),
            cables,
        }
    }

    /// The switch at a far end of these cables that keeps the smallest share of its links.
    fn worst_neighbour(
        &self,
        fabric: &Fabric,
        cables: &[(PortKey, PortKey)],
    ) -> Option<(String, Links)> {
        let far: BTreeSet<Guid> = cables.iter().map(|(_, far)| far.node).collect();
        let there = far
            .into_iter()
            .filter(|&guid| fabric.find(guid).is_some() && self.is_switch(fabric, guid));
        let worst = there
            .map(|guid| (guid, self.links_of(fabric, guid)))
            .min_by(|(_, a), (_, b)| (a.up * b.expected).cmp(&(b.up * a.expected)));
        worst.map(|(guid, links)| (self.name(fabric, guid), links))
    }

    fn links_of(&self, fabric: &Fabric, switch: Guid) -> Links {
        let node = fabric.node_of(switch);
        let ports = node.into_iter().flat_map(|node| &node.ports);
        let up = ports
            .filter(|port| port.up)
            .filter_map(|port| port.peer)
            .filter_map(|peer| fabric.node_of(peer.node))
            .filter(|node| node.kind() == NodeType::Switch)
            .count();
        let lost = self.ports_of(switch);
        let lost = lost.filter(|(_, port)| self.is_switch(fabric, port.peer.node));
        Links {
            up,
            expected: up + lost.count(),
        }
    }

    /// Whether a node, present or missing, is a switch.
    pub fn is_switch(&self, fabric: &Fabric, guid: Guid) -> bool {
        let here = fabric.find(guid).map(|ix| fabric.node(ix).kind());
        let kind = here.or_else(|| Some(self.nodes.get(&guid)?.kind));
        kind == Some(NodeType::Switch)
    }

    /// The name of a node, present or missing; the GUID if the node has no name.
    pub fn name(&self, fabric: &Fabric, guid: Guid) -> String {
        match (fabric.find(guid), self.nodes.get(&guid)) {
            (Some(ix), _) => fabric.node(ix).name(),
            (None, Some(node)) if !node.description.is_empty() => node.description.clone(),
            _ => guid.to_string(),
        }
    }

    /// The name of a port for operators: `leaf-03 port 7`.
    pub fn port_name(&self, fabric: &Fabric, port: PortKey) -> String {
        format!("{} port {}", self.name(fabric, port.node), port.port)
    }

    /// Findings about missing entries: one finding for each of the first `FINDINGS` entries, and
    /// one for all others. Findings about differences from the design follow.
    pub fn findings(&self, fabric: &Fabric) -> Vec<Finding> {
        let mut missing = self.missing(fabric);
        missing.sort_by_key(|missing| (missing.kind, missing.key));
        let rest = missing.len().saturating_sub(FINDINGS);
        let mut findings: Vec<Finding> = missing
            .iter()
            .take(FINDINGS)
            .map(Missing::finding)
            .collect();
        if rest > 0 || self.dropped > 0 {
            let mut text = format!(
                "{rest} more nodes and cables are missing: rsmctl expect lists what was there before"
            );
            if self.dropped > 0 {
                let dropped = self.dropped;
                text.push_str(&format!("; {dropped} were too many to be remembered"));
            }
            let (kind, severity) = (FindingKind::CableMissing, Severity::Warning);
            findings.push(Finding::new(kind, Subject::Subnet, severity, text));
        }
        findings.extend(self.design_findings(fabric));
        findings
    }
}

impl Missing {
    /// Place where the missing part was: `leaf-03 port 7 and 3 more`.
    pub fn place(&self) -> String {
        let first = self.cables.first().zip(self.peers.first());
        let Some(((_, far), name)) = first else {
            return "a place that is not known".to_owned();
        };
        let place = format!("{name} port {}", far.port);
        match self.cables.len() - 1 {
            0 => place,
            more => format!("{place} and {more} more"),
        }
    }

    fn finding(&self) -> Finding {
        let name = &self.name;
        let (kind, severity, what) = match self.kind {
            MissingKind::Switch => (
                FindingKind::SwitchMissing,
                Severity::Warning,
                format!("the switch {name} is gone, was at {}", self.place()),
            ),
            MissingKind::Host => (
                FindingKind::HostMissing,
                Severity::Info,
                format!("the host {name} is gone, was at {}", self.place()),
            ),
            MissingKind::Cable => (FindingKind::CableMissing, Severity::Warning, self.cable()),
            MissingKind::HostCable => (FindingKind::CableMissing, Severity::Info, self.cable()),
            MissingKind::Exchanged => (
                FindingKind::CablesExchanged,
                Severity::Warning,
                format!("cables between switches were exchanged: {}", self.now),
            ),
        };
        let mut text = what;
        if self.at == LostAt::Unknown {
            text.push_str(", not seen since rsm started");
        }
        let mut costs = Vec::new();
        if self.hosts_behind > 0 {
            costs.push(format!("{} hosts went with it", self.hosts_behind));
        }
        costs.extend(Some(self.left.clone()).filter(|left| !left.is_empty()));
        costs.extend(self.moved.map(|ways| format!("{ways} routes were moved")));
        if !costs.is_empty() {
            text.push_str(&format!(": {}", costs.join("; ")));
        }
        if self.kind != MissingKind::Exchanged && !self.now.is_empty() {
            text.push_str(&format!(
                "; {}: enable it (ibportstate), unless an operator disabled it",
                self.now
            ));
        }
        let named = match self.key.port {
            PortNum::ZERO => self.key.node.to_string(),
            _ => self.key.to_string(),
        };
        text.push_str(&match self.kind {
            MissingKind::Exchanged => format!(
                "; routes use them as they are now: put them back, or if they are to stay: rsmctl expect --accept {named}"
            ),
            _ => format!("; if it is gone for good: rsmctl expect --accept {named}"),
        });
        let subject = match self.key.port {
            PortNum::ZERO => Subject::Node(self.key.node),
            _ => Subject::Port(self.key),
        };
        Finding::new(kind, subject, severity, text)
    }

    fn cable(&self) -> String {
        let name = &self.name;
        match self.cables[..] {
            [(near, _)] => format!(
                "the cable from {name} port {} to {} is gone, was {}",
                near.port,
                self.place(),
                self.state
            ),
            _ => format!(
                "{} cables of {name} are gone, to {}",
                self.cables.len(),
                self.place()
            ),
        }
    }
}
