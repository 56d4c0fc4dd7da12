//! Missing nodes and cables, grouped by failure: a switch with all its cables and the hosts behind
//! it is one entry.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use rsm_ids::{Guid, PortKey, PortNum};
use rsm_mad::wire::attr::{NodeType, PortState};
use rsm_routing::netlist::host_of;
use serde::Serialize;

use super::{Accept, Expected, Fate, LostAt, LostNode, LostPort, shown_at};
use crate::fabric::Fabric;
use crate::findings::{Finding, FindingKind, Severity, Subject};
use crate::text::count;

/// Maximum number of entries with findings of their own, enough for the switches of a dead rack;
/// one more finding counts all others.
const FINDINGS_MAX: usize = 64;

/// Maximum number of cables that the finding about one exchange names; two exchanged cables are the
/// common case.
pub(super) const NAMED_CABLES: usize = 4;

/// The kinds of missing entries.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum MissingKind {
    /// A switch, with its cables and the hosts behind it.
    Switch,
    /// Cables between switches that are present.
    Cable,
    /// Cables that lead to each other's ends: every end is cabled, and leads elsewhere than before.
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
    /// Number of missing adapters that are listed with this switch: all cables of such an adapter
    /// lead to missing switches, the first cable to this switch.
    pub hosts_behind: usize,
    /// Largest [`LostPort::moved`](super::LostPort::moved) of the lost ports; `None` if no plan
    /// counted its moves.
    pub moved: Option<u64>,
    /// Redundancy left, as text for the operator; empty if none was lost.
    pub left: String,
    /// Present far ends of exchanged cables, or the disabled end of missing cables, as text for the
    /// operator; empty if the cables are gone.
    pub now: String,
    /// The move that puts exchanged cables back, or the way to enable a disabled end, as text for
    /// the operator; empty if the cables are gone.
    pub mend: String,
    /// The fate of the cables.
    pub fate: Fate,
}

/// Numbers of missing parts by kind.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct MissingCounts {
    /// Switches.
    pub switches: u64,
    /// Cables between two switches, including those of missing switches.
    pub cables: u64,
    /// Hosts without a present adapter, by the names in their descriptions, and routers.
    pub hosts: u64,
    /// Missing channel adapters of hosts that have a present adapter.
    pub adapters: u64,
    /// Cables of channel adapters and routers that are present.
    pub host_cables: u64,
    /// Cables that lead elsewhere than before.
    pub exchanged_cables: u64,
}

impl MissingCounts {
    /// Counts of missing nodes, without cables.
    pub fn nodes(&self) -> MissingCounts {
        MissingCounts {
            switches: self.switches,
            hosts: self.hosts,
            adapters: self.adapters,
            ..MissingCounts::default()
        }
    }
}

/// Formats as `1 switch and 36 cables missing, 2 cables exchanged`; empty if nothing is missing or
/// exchanged.
impl fmt::Display for MissingCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gone = [
            (self.switches, "switch", "switches"),
            (self.cables, "cable", "cables"),
            (self.hosts, "host", "hosts"),
            (self.adapters, "adapter", "adapters"),
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

/// Number of hosts whose adapters are all among `missing`, and number of missing adapters of the
/// other hosts. `others` are the descriptions of the nodes outside `missing`.
fn whole_hosts<'a>(
    missing: impl Iterator<Item = &'a LostNode>,
    others: impl Iterator<Item = &'a str>,
) -> (u64, u64) {
    let mut whole = 0;
    let mut adapters: BTreeMap<&str, u64> = BTreeMap::new();
    for node in missing {
        match host_of(&node.description) {
            Some(host) => *adapters.entry(host).or_default() += 1,
            None => whole += 1,
        }
    }
    let mut of_other_hosts = 0;
    if !adapters.is_empty() {
        for host in others.filter_map(host_of) {
            of_other_hosts += adapters.remove(host).unwrap_or(0);
        }
    }
    (whole + adapters.len() as u64, of_other_hosts)
}

/// The descriptions of all nodes of a fabric.
fn descriptions(fabric: &Fabric) -> impl Iterator<Item = &str> {
    fabric.nodes().map(|node| node.description.as_str())
}

/// A missing part as an entry of its own, under the key of its node or near end.
enum SingleEntry {
    Node,
    /// A cable, by its near and its far end.
    Cable(PortKey, PortKey),
    /// A cable of an exchange, by its index in [`Missing::cables`].
    Exchanged(Missing, usize),
}

/// Numbers of a switch's links to other switches: present, and present or missing.
#[derive(Clone, Copy)]
struct Links {
    up: usize,
    expected: usize,
}

/// Links of switches to other switches. Caches the counts, because many missing parts have the same
/// neighbors.
struct LinksOf<'a> {
    expected: &'a Expected,
    fabric: &'a Fabric,
    counted: BTreeMap<Guid, Links>,
}

impl<'a> LinksOf<'a> {
    /// Creates an empty cache.
    fn new(expected: &'a Expected, fabric: &'a Fabric) -> LinksOf<'a> {
        LinksOf {
            expected,
            fabric,
            counted: BTreeMap::new(),
        }
    }

    /// The links of a switch; counts them at the first call for the switch.
    fn of(&mut self, switch: Guid) -> Links {
        let (expected, fabric) = (self.expected, self.fabric);
        let count = || expected.links_of(fabric, switch);
        *self.counted.entry(switch).or_insert_with(count)
    }

    /// The switch at a far end of these cables that keeps the smallest share of its links; `None`
    /// if no present switch is there.
    fn worst_neighbor(&mut self, cables: &[(PortKey, PortKey)]) -> Option<(String, Links)> {
        let (expected, fabric) = (self.expected, self.fabric);
        let far: BTreeSet<Guid> = cables.iter().map(|(_, far)| far.node).collect();
        let neighbors = far
            .into_iter()
            .filter(|&guid| fabric.find(guid).is_some() && expected.is_switch(fabric, guid));
        let worst = neighbors
            .map(|guid| (guid, self.of(guid)))
            .min_by(|(_, a), (_, b)| (a.up * b.expected).cmp(&(b.up * a.expected)));
        worst.map(|(guid, links)| (expected.name(fabric, guid), links))
    }
}

impl Expected {
    /// The missing entries, ascending by key.
    pub fn missing(&self, fabric: &Fabric) -> Vec<Missing> {
        let behind = self.hosts_behind();
        let mut hosts_of: BTreeMap<Guid, usize> = BTreeMap::new();
        for &switch in behind.values() {
            *hosts_of.entry(switch).or_default() += 1;
        }
        let mut links = LinksOf::new(self, fabric);
        let of_nodes = self
            .nodes
            .iter()
            .filter(|(guid, _)| !behind.contains_key(guid));
        let mut missing: Vec<Missing> = of_nodes
            .map(|(&guid, _)| Missing {
                hosts_behind: hosts_of.get(&guid).copied().unwrap_or(0),
                ..self.missing_node(&mut links, guid, &behind)
            })
            .collect();
        let groups = self.cables_by_node(fabric);
        missing.extend(
            groups
                .into_iter()
                .map(|cables| self.missing_cables(&mut links, cables)),
        );
        let exchanges = self.exchanges(fabric).into_iter();
        missing.extend(exchanges.map(|ends| self.exchanged(fabric, &ends)));
        missing.sort_by_key(|missing| missing.key);
        missing
    }

    /// Counts the missing entries, each cable once.
    pub fn counts(&self, fabric: &Fabric) -> MissingCounts {
        let mut counts = MissingCounts::default();
        let is_switch = |node: &&LostNode| node.kind == NodeType::Switch;
        counts.switches = self.nodes.values().filter(is_switch).count() as u64;
        let hosts = self.nodes.values().filter(|node| !is_switch(node));
        (counts.hosts, counts.adapters) = whole_hosts(hosts, descriptions(fabric));
        let is_lost = |guid: Guid| self.nodes.contains_key(&guid);
        (counts.cables, counts.host_cables) = self.cables(fabric, self.lost_cables(), is_lost);
        counts.exchanged_cables = self.exchanged_cables(fabric);
        counts
    }

    /// Numbers of cables between two switches, and of cables of hosts. Cables of a host that
    /// satisfies `is_counted` are left out, because they count as part of that host.
    fn cables(
        &self,
        fabric: &Fabric,
        cables: impl Iterator<Item = (PortKey, PortKey)>,
        is_counted: impl Fn(Guid) -> bool,
    ) -> (u64, u64) {
        let (mut between_switches, mut of_hosts) = (0, 0);
        for (here, there) in cables {
            let mut ends = [here, there].into_iter();
            match ends.find(|end| !self.is_switch(fabric, end.node)) {
                None => between_switches += 1,
                Some(host) if is_counted(host.node) => {}
                Some(_) => of_hosts += 1,
            }
        }
        (between_switches, of_hosts)
    }

    /// Number of cables that were exchanged.
    fn exchanged_cables(&self, fabric: &Fabric) -> u64 {
        let exchanges = self.exchanges(fabric);
        // Each cable has two ends.
        exchanges.iter().map(|ends| ends.len() as u64 / 2).sum()
    }

    /// Counts the entries that all of `accepts` together would give up, each cable once.
    pub fn given_up(&self, accepts: &[Accept], fabric: &Fabric) -> MissingCounts {
        let mut after = self.clone();
        for &accept in accepts {
            after.accept(accept, fabric);
        }
        let is_given_up = |guid: Guid| self.nodes.contains_key(&guid) && after.node(guid).is_none();
        let nodes = self.nodes.iter().filter(|(guid, _)| is_given_up(**guid));
        let nodes: Vec<&LostNode> = nodes.map(|(_, node)| node).collect();
        let is_switch = |node: &LostNode| node.kind == NodeType::Switch;
        let hosts = nodes.iter().copied().filter(|node| !is_switch(node));
        let left = after.nodes.values().map(|node| node.description.as_str());
        let (hosts, adapters) = whole_hosts(hosts, descriptions(fabric).chain(left));
        let is_left = |(here, there): (PortKey, PortKey)| {
            let peer = |end| after.port(end).map(|lost| lost.peer);
            peer(here) == Some(there) || peer(there) == Some(here)
        };
        let gone = self.lost_cables().filter(|&ends| !is_left(ends));
        let (cables, host_cables) = self.cables(fabric, gone, is_given_up);
        let exchanged = self.exchanged_cables(fabric);
        MissingCounts {
            switches: nodes.iter().filter(|node| is_switch(node)).count() as u64,
            cables,
            hosts,
            adapters,
            host_cables,
            exchanged_cables: exchanged.saturating_sub(after.exchanged_cables(fabric)),
        }
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

    /// The first `limit` missing nodes, cables and exchanged cables with a key above `after`, each
    /// as an entry of its own, ascending. All pages together have as many entries as
    /// [`Expected::counts`] counts.
    pub fn each(&self, fabric: &Fabric, after: Option<PortKey>, limit: usize) -> Vec<Missing> {
        let mut parts: BTreeMap<PortKey, SingleEntry> = BTreeMap::new();
        let nodes = self.nodes.keys();
        parts.extend(nodes.map(|&guid| (PortKey::new(guid, PortNum::ZERO), SingleEntry::Node)));
        for (here, there) in self.lost_cables() {
            let [near, far] = self.host_first(fabric, [here, there]);
            // The cable of a missing host belongs to it.
            if self.is_switch(fabric, near.node) || !self.nodes.contains_key(&near.node) {
                // If one port had two cables in succession, the far end distinguishes them.
                let key = if parts.contains_key(&near) { far } else { near };
                parts.insert(key, SingleEntry::Cable(near, far));
            }
        }
        for ends in self.exchanges(fabric) {
            let whole = self.exchanged(fabric, &ends);
            for (at, &(near, _)) in whole.cables.iter().enumerate() {
                parts.insert(near, SingleEntry::Exchanged(whole.clone(), at));
            }
        }
        let no_hosts_behind = BTreeMap::new();
        let mut links = LinksOf::new(self, fabric);
        let remaining = parts
            .into_iter()
            .filter(|&(key, _)| after.is_none_or(|after| key > after));
        let described = remaining.take(limit).map(|(key, part)| match part {
            SingleEntry::Node => self.missing_node(&mut links, key.node, &no_hosts_behind),
            SingleEntry::Cable(near, far) => Missing {
                key,
                ..self.missing_cables(&mut links, vec![(near, far)])
            },
            SingleEntry::Exchanged(whole, at) => Missing {
                key,
                name: self.name(fabric, key.node),
                cables: vec![whole.cables[at]],
                peers: vec![whole.peers[at].clone()],
                now: self.leads_now(fabric, whole.cables[at]),
                ..whole
            },
        });
        described.collect()
    }

    /// The ends of a cable, the host's end before the switch's end.
    fn host_first(&self, fabric: &Fabric, ends: [PortKey; 2]) -> [PortKey; 2] {
        let [a, b] = ends;
        let is_host = |end: PortKey| !self.is_switch(fabric, end.node);
        match is_host(b) && !is_host(a) {
            true => [b, a],
            false => [a, b],
        }
    }

    /// Describes where an exchanged cable leads now, and led before.
    fn leads_now(&self, fabric: &Fabric, (here, there): (PortKey, PortKey)) -> String {
        let now = shown_at(fabric, here).unwrap_or(there);
        let [here, now, there] = [here, now, there].map(|port| self.port_name(fabric, port));
        format!("{here} leads to {now} (was at {there})")
    }

    /// The move that puts exchanged cables back, in words.
    fn mend(&self, fabric: &Fabric, cables: &[(PortKey, PortKey)]) -> String {
        match cables {
            &[(a, one), (b, other)]
                if shown_at(fabric, a) == Some(other) && shown_at(fabric, b) == Some(one) =>
            {
                let [one, other] = [one, other].map(|port| self.port_name(fabric, port));
                format!("exchange the plugs in {one} and {other}")
            }
            _ => "put each cable back where it was".to_owned(),
        }
    }

    /// The entry for one exchange, given the ends of its cables (at least one).
    fn exchanged(&self, fabric: &Fabric, ends: &[PortKey]) -> Missing {
        let before = |end: &PortKey| Some((*end, self.recabled.get(end)?));
        let before: Vec<(PortKey, &LostPort)> = ends.iter().filter_map(before).collect();
        let cables = before.iter().map(|&(here, port)| (here, port.peer));
        let cables: Vec<(PortKey, PortKey)> = cables
            .filter(|(a, b)| a < b)
            .map(|(a, b)| self.host_first(fabric, [a, b]).into())
            .collect();
        let key = cables.first().map_or(ends[0], |&(here, _)| here);
        let now = cables.iter().map(|&cable| self.leads_now(fabric, cable));
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
            mend: self.mend(fabric, &cables),
            cables,
            hosts_behind: 0,
            moved: None,
            left: String::new(),
            now: now.join(", "),
            fate: Fate::Gone,
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

    /// The entry for a missing node, without the cables to the hosts that are listed with it.
    fn missing_node(
        &self,
        links: &mut LinksOf<'_>,
        guid: Guid,
        behind: &BTreeMap<Guid, Guid>,
    ) -> Missing {
        let node = &self.nodes[&guid];
        let is_switch = node.kind == NodeType::Switch;
        let cables: Vec<(PortKey, PortKey)> = self
            .ports_of(guid)
            .filter(|(_, port)| behind.get(&port.peer.node) != Some(&guid))
            .map(|(key, port)| (key, port.peer))
            .collect();
        let (kind, left) = match (is_switch, links.worst_neighbor(&cables)) {
            (true, Some((name, Links { up, expected }))) => (
                MissingKind::Switch,
                format!(
                    "of its neighbors {name} has the fewest links to switches left, {up} of {expected}"
                ),
            ),
            (true, None) => (MissingKind::Switch, String::new()),
            (false, _) => (MissingKind::Host, String::new()),
        };
        let disabled = self.disabled_before(links.fabric, guid);
        Missing {
            kind,
            at: node.at,
            left,
            now: disabled
                .and_then(|port| self.disabled_by(links.fabric, port))
                .unwrap_or_default(),
            mend: disabled.map_or_else(String::new, |port| self.enable(links.fabric, port)),
            fate: disabled.map_or(Fate::Gone, |_| Fate::Disabled),
            ..self.described(links.fabric, PortKey::new(guid, PortNum::ZERO), cables)
        }
    }

    /// Missing cables between present nodes, grouped by the end whose node misses more cables. A
    /// moved or disabled cable is a group of its own.
    fn cables_by_node(&self, fabric: &Fabric) -> Vec<Vec<(PortKey, PortKey)>> {
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
        let mut alone = Vec::new();
        for (a, b) in cables {
            // A host's cable is listed under the host.
            let [mut near, mut far] = self.host_first(fabric, [a, b]);
            let is_between_switches = self.is_switch(fabric, near.node);
            if is_between_switches && count[&far.node] > count[&near.node] {
                (near, far) = (far, near);
            }
            match self.fate(fabric, &[(near, far)]).0 {
                Fate::Gone => groups.entry(near.node).or_default().push((near, far)),
                Fate::Disabled | Fate::Moved => alone.push(vec![(near, far)]),
            }
        }
        groups.into_values().chain(alone).collect()
    }

    /// The entry for cables with their near ends at one node, at least one.
    fn missing_cables(&self, links: &mut LinksOf<'_>, cables: Vec<(PortKey, PortKey)>) -> Missing {
        let fabric = links.fabric;
        let node = cables[0].0.node;
        let key = match cables[..] {
            [(near, _)] => near,
            _ => PortKey::new(node, PortNum::ZERO),
        };
        let (kind, left) = if self.is_switch(fabric, node) {
            let Links { up, expected } = links.of(node);
            let name = self.name(fabric, node);
            let mut left = format!("{name} has {up} of {expected} links to switches left");
            if let Some((name, Links { up, expected })) = links.worst_neighbor(&cables) {
                left.push_str(&format!(", {name} {up} of {expected}"));
            }
            (MissingKind::Cable, left)
        } else {
            (MissingKind::HostCable, String::new())
        };
        let (fate, now, mend) = self.fate(fabric, &cables);
        Missing {
            kind,
            left,
            now,
            mend,
            fate,
            ..self.described(fabric, key, cables)
        }
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
            mend: String::new(),
            fate: Fate::Gone,
            cables,
        }
    }

    /// Counts the links of a switch to other switches: present, and present or missing.
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

    /// Findings about missing entries: one finding for each of the first `FINDINGS_MAX` entries,
    /// and one for all others. Findings about differences from the design follow.
    pub fn findings(&self, fabric: &Fabric) -> Vec<Finding> {
        let mut missing = self.missing(fabric);
        missing.sort_by_key(|missing| (missing.kind, missing.key));
        let rest = missing.len().saturating_sub(FINDINGS_MAX);
        let mut findings: Vec<Finding> = missing
            .iter()
            .take(FINDINGS_MAX)
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
    /// The far ends of the missing cables, for operators: `leaf-03 port 7 and 3 more`.
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

    /// The finding about a missing entry.
    fn finding(&self) -> Finding {
        let name = &self.name;
        let (kind, severity, mut text) = match self.kind {
            MissingKind::Switch => (
                FindingKind::SwitchMissing,
                Severity::Warning,
                match self.fate == Fate::Disabled {
                    false => format!("the switch {name} is gone, was at {}", self.place()),
                    true => format!("the switch {name} is not reached at {}", self.place()),
                },
            ),
            MissingKind::Host => (
                FindingKind::HostMissing,
                Severity::Info,
                match (host_of(name), self.fate == Fate::Disabled) {
                    (Some(_), false) => {
                        format!("the adapter {name} is gone, was at {}", self.place())
                    }
                    (None, false) => format!("the host {name} is gone, was at {}", self.place()),
                    (_, true) => format!("{name} is not reached at {}", self.place()),
                },
            ),
            MissingKind::Cable => (FindingKind::CableMissing, Severity::Warning, self.cable()),
            MissingKind::HostCable => (FindingKind::CableMissing, Severity::Info, self.cable()),
            MissingKind::Exchanged => (
                FindingKind::CablesExchanged,
                Severity::Warning,
                format!("cables were exchanged: {}", self.now),
            ),
        };
        if self.at == LostAt::Unknown {
            text.push_str(", not seen since rsm started");
        }
        let mut costs = Vec::new();
        if self.hosts_behind > 0 {
            let adapters = count(self.hosts_behind, "adapter", "adapters");
            costs.push(format!("{adapters} went with it"));
        }
        costs.extend(Some(self.left.clone()).filter(|left| !left.is_empty()));
        costs.extend(
            self.moved
                .map(|routes| format!("{routes} routes were moved")),
        );
        if !costs.is_empty() {
            text.push_str(&format!(": {}", costs.join("; ")));
        }
        text.push_str(&self.remedy());
        let subject = match self.key.port {
            PortNum::ZERO => Subject::Node(self.key.node),
            _ => Subject::Port(self.key),
        };
        Finding::new(kind, subject, severity, text)
    }

    /// Text about missing cables, as the start of a finding.
    fn cable(&self) -> String {
        let name = &self.name;
        match self.cables[..] {
            [(near, _)] if self.fate == Fate::Moved => format!(
                "the cable from {name} port {} to {} is not where it was",
                near.port,
                self.place()
            ),
            [(near, _)] if self.fate == Fate::Disabled => format!(
                "the link from {name} port {} to {} is down",
                near.port,
                self.place()
            ),
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
