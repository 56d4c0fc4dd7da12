//! Shows missing nodes and cables, and looks them up.

use std::collections::{BTreeSet, HashSet};

use rsm_api::model::{GoneSwitch, GoneSwitches, Keyed, MissingKind, PortId, Selector};
use rsm_api::{LookupError, plain_names, timestamp, v1};
use rsm_ids::{Guid, Lid, PortKey, PortNum};
use rsm_mad::Time;
use rsm_mad::wire::attr::{NodeType, PortInfo, PortPhysicalState};
use rsm_model::expected::{self, Expected, LostAt, LostEnd, Missing};
use rsm_model::fabric::Fabric;
use rsm_plan::avoid::{NodeOrCable, Reason};
use rsm_routing::netlist::host_of;
use rsm_state::Snapshot;

use super::api_view::{api_key, shown_state};

/// A missing node, in words.
#[derive(Clone, Debug)]
pub struct GoneNode {
    /// The GUID of the node.
    pub guid: Guid,
    /// The description of the node when it was present.
    pub description: String,
    /// The former place: the other end of the node's first cable.
    pub place: String,
    /// The time when the node was last present, in words that follow `until`.
    pub until: String,
}

/// A missing node, with the names that lead to it.
pub(super) struct MissingNode {
    pub(super) guid: Guid,
    pub(super) description: String,
    /// Former end ports of the node.
    pub(super) ends: Vec<LostEnd>,
    place: String,
    until: String,
    /// The operator's order that keeps the port at the node's former place disabled, in words;
    /// empty without such an order.
    disabled: String,
}

impl MissingNode {
    pub(super) fn in_words(self) -> GoneNode {
        GoneNode {
            guid: self.guid,
            description: self.description,
            place: self.place,
            until: self.until,
        }
    }

    /// The node's description, and a text with its former place and the time when it was last
    /// present.
    pub(super) fn described(&self) -> (String, String) {
        let (place, until) = (&self.place, &self.until);
        let facts = match self.disabled.as_str() {
            "" => format!("gone, was at {place} until {until}"),
            disabled => format!("not reached at {place}: {disabled}"),
        };
        (self.description.clone(), plain_names(&facts))
    }

    /// The answer to a lookup of a host whose adapters are all `gone`, at least two of them.
    pub(super) fn error_of_host(gone: &[&MissingNode], selector: &Selector) -> LookupError {
        let first = gone[0];
        LookupError::HostGone {
            selector: selector.to_string(),
            nodes: gone.iter().map(|gone| gone.guid).collect(),
            place: format!("{} and {} more", first.place, gone.len() - 1).into(),
            until: first.until.as_str().into(),
            disabled: match gone.iter().all(|gone| !gone.disabled.is_empty()) {
                true => first.disabled.as_str().into(),
                false => Box::default(),
            },
        }
    }

    /// The answer to a lookup of the node, or of one of its ports.
    pub(super) fn error(&self, selector: &Selector, port: Option<PortNum>) -> LookupError {
        LookupError::Gone {
            selector: selector.to_string(),
            node: self.guid,
            port,
            name: match self.description.as_str() {
                "" => self.guid.to_string(),
                description => description.to_owned(),
            },
            place: self.place.as_str().into(),
            until: self.until.as_str().into(),
            disabled: self.disabled.as_str().into(),
        }
    }
}

/// All missing nodes. `unix_ms` converts a time of this run to Unix time.
pub(super) fn missing_nodes(
    snapshot: &Snapshot,
    unix_ms: &dyn Fn(Time) -> u64,
) -> Vec<MissingNode> {
    let (expected, fabric) = (&snapshot.expected, &snapshot.fabric);
    let nodes = expected
        .nodes()
        .filter(|(guid, _)| fabric.find(*guid).is_none());
    nodes
        .map(|(guid, node)| MissingNode {
            guid,
            description: node.description.clone(),
            ends: node.ends.clone(),
            place: place_of_node(expected, fabric, guid),
            until: until(node.at, unix_ms),
            disabled: expected
                .disabled_before(fabric, guid)
                .and_then(|port| expected.disabled_by(fabric, port))
                .unwrap_or_default(),
        })
        .collect()
}

/// Missing switches, missing cables between switches, and the switches that have lost cables to
/// hosts.
pub(super) fn gone_switches(snapshot: &Snapshot) -> GoneSwitches {
    let (expected, fabric) = (&snapshot.expected, &snapshot.fabric);
    let is_switch = |end: PortKey| expected.is_switch(fabric, end.node);
    let nodes = expected.nodes();
    let is_gone = |guid: Guid| fabric.find(guid).is_none();
    let switches = nodes.filter(|&(guid, node)| node.kind == NodeType::Switch && is_gone(guid));
    let switches = switches.map(|(guid, node)| {
        let mut peers = expected.ports_of(guid).map(|(_, port)| port.peer);
        GoneSwitch {
            guid,
            description: node.description.clone(),
            lid: node.ends.first().map_or(Lid::NONE, |end| end.lid),
            has_hosts: peers.any(|peer| !is_switch(peer)),
        }
    });
    let mut leaves = BTreeSet::new();
    let mut cables = Vec::new();
    for (a, b) in expected.lost_cables() {
        match (is_switch(a), is_switch(b)) {
            (true, true) => cables.push([api_key(a), api_key(b)]),
            (true, false) => drop(leaves.insert(a.node)),
            (false, true) => drop(leaves.insert(b.node)),
            (false, false) => {}
        }
    }
    GoneSwitches {
        switches: switches.collect(),
        cables,
        leaves: leaves.into_iter().collect(),
    }
}

/// Former place of a missing node: the other end of its first cable.
fn place_of_node(expected: &Expected, fabric: &Fabric, guid: Guid) -> String {
    let Some((_, port)) = expected.ports_of(guid).next() else {
        return "a place that is not known".to_owned();
    };
    let name = expected.port_name(fabric, port.peer);
    match fabric.find(port.peer.node) {
        Some(_) => name,
        None => format!("{name}, which is gone as well,"),
    }
}

/// Time when a missing part was last present, in words that follow `until`.
fn until(at: LostAt, unix_ms: &dyn Fn(Time) -> u64) -> String {
    lost_unix_ms(at, unix_ms).map_or_else(|| "before this start of rsm".to_owned(), timestamp)
}

/// All missing nodes and cables, in ascending order of key: a switch with its cables and the hosts
/// behind it is one item.
pub(super) fn shown(
    snapshot: &Snapshot,
    unix_ms: &dyn Fn(Time) -> u64,
) -> Vec<Keyed<PortId, v1::Missing>> {
    let missing = snapshot.expected.missing(&snapshot.fabric);
    items(snapshot, missing, unix_ms)
}

/// The missing nodes and cables above the key `after`, each by itself, in ascending order of key.
pub(super) fn each(
    snapshot: &Snapshot,
    after: Option<PortKey>,
    limit: usize,
    unix_ms: &dyn Fn(Time) -> u64,
) -> Vec<Keyed<PortId, v1::Missing>> {
    let missing = snapshot.expected.each(&snapshot.fabric, after, limit);
    items(snapshot, missing, unix_ms)
}

fn items(
    snapshot: &Snapshot,
    missing: Vec<Missing>,
    unix_ms: &dyn Fn(Time) -> u64,
) -> Vec<Keyed<PortId, v1::Missing>> {
    let mut hosts: HashSet<&str> = HashSet::new();
    if missing.iter().any(|one| host_of_adapter(one).is_some()) {
        let nodes = snapshot.fabric.nodes();
        hosts.extend(nodes.filter_map(|node| host_of(node.reported())));
    }
    let items = missing.into_iter().map(|missing| {
        let of_present_host = host_of_adapter(&missing).is_some_and(|host| hosts.contains(host));
        let mut item = item(snapshot, missing, unix_ms);
        item.message.of_present_host = of_present_host;
        item
    });
    items.collect()
}

/// The host of a missing adapter; `None` for other parts, and for an adapter whose description
/// names no host.
fn host_of_adapter(missing: &Missing) -> Option<&str> {
    match missing.kind {
        expected::MissingKind::Host => host_of(&missing.name),
        _ => None,
    }
}

/// The operator's order about a missing part, in words that follow its state; empty if there is
/// none. `seen` names the operator of a disabled port already.
fn order(snapshot: &Snapshot, missing: &Missing) -> String {
    let cables = missing.cables.iter();
    let ports = cables.flat_map(|&(near, far)| [near, far]);
    let parts = ports.map(NodeOrCable::Port);
    let mut parts = parts.chain([NodeOrCable::Node(missing.key.node)]);
    let drained = |part| match snapshot.avoid.reason(part) {
        Some(Reason::Drained(order)) => Some(order),
        Some(Reason::Unhealthy(_)) | None => None,
    };
    let Some(order) = parts.find_map(drained) else {
        return String::new();
    };
    let note = order.whole_note();
    match (order.disabled, note.as_str()) {
        (true, "") => String::new(),
        (true, note) => format!(": {note}"),
        (false, note) => {
            let since = timestamp(order.since_unix_ms);
            let note = if note.is_empty() { "" } else { ": " }.to_owned() + note;
            format!("; drained by {} at {since}{note}", order.by)
        }
    }
}

fn item(
    snapshot: &Snapshot,
    missing: Missing,
    unix_ms: &dyn Fn(Time) -> u64,
) -> Keyed<PortId, v1::Missing> {
    let (fabric, order) = (&snapshot.fabric, order(snapshot, &missing));
    Keyed {
        key: api_key(missing.key),
        message: v1::Missing {
            node_guid: missing.key.node.to_string(),
            port: (missing.key.port != PortNum::ZERO).then(|| missing.key.port.0.into()),
            kind: kind(missing.kind).into(),
            place: former_place(&missing),
            lost_unix_ms: lost_unix_ms(missing.at, unix_ms),
            last_state: shown_state(missing.state).into(),
            cables: missing.cables.len() as u64,
            hosts_behind: missing.hosts_behind as u64,
            moved_routes: missing.moved,
            seen: match (missing.now.as_str(), missing.mend.as_str()) {
                ("", _) => state_of_other_end(fabric, &missing) + &order,
                (now, "") => format!("{now}{order}"),
                (now, mend) => format!("{now}{order}; {mend}"),
            },
            of_present_host: false,
            name: missing.name,
            left: missing.left,
        },
    }
}

/// Former place of a missing part: `leaf-03:7 and 3 more`.
fn former_place(missing: &Missing) -> String {
    let first = missing.cables.first().zip(missing.peers.first());
    let Some(((_, far), name)) = first else {
        return "a place that is not known".to_owned();
    };
    match missing.cables.len() - 1 {
        0 => format!("{name}:{}", far.port),
        more => format!("{name}:{} and {more} more", far.port),
    }
}

/// Present state of the other end of a missing part's cable: of the first cable whose other end is
/// present. The text names that end if it is not at the first cable.
fn state_of_other_end(fabric: &Fabric, missing: &Missing) -> String {
    let mut far = missing.cables.iter().zip(&missing.peers).enumerate();
    let far = far.find_map(|(at, (&(_, far), name))| Some((fabric.find_port(far)?, at, name)));
    let Some((at, place, name)) = far else {
        return "its switch is gone as well".to_owned();
    };
    let port = fabric.port(at);
    let state = port.info.as_ref().map(PortInfo::port_physical_state);
    let text = match state {
        _ if port.up && port.peer.is_none() => {
            "the link is up, no node answers: its firmware hangs"
        }
        _ if port.up => "leads elsewhere now: cabled anew",
        Some(PortPhysicalState::Disabled) => "the port is disabled",
        Some(PortPhysicalState::PortConfigurationTraining) => {
            "the link trains and does not come up: cable or optics"
        }
        Some(PortPhysicalState::Sleep) => "the port sleeps",
        _ => "no signal: no power, or cable out",
    };
    match place {
        0 => text.to_owned(),
        _ => format!("at {name}:{}: {text}", at.port),
    }
}

/// Time when a part went missing, in milliseconds since the Unix epoch; `None` if it is unknown.
pub(super) fn lost_unix_ms(at: LostAt, unix_ms: &dyn Fn(Time) -> u64) -> Option<u64> {
    match at {
        LostAt::Unknown => None,
        LostAt::Unix(unix_ms) => Some(unix_ms),
        LostAt::Run(at) => Some(unix_ms(at)),
    }
}

fn kind(kind: expected::MissingKind) -> MissingKind {
    match kind {
        expected::MissingKind::Switch => MissingKind::Switch,
        expected::MissingKind::Cable => MissingKind::Cable,
        expected::MissingKind::Host => MissingKind::Host,
        expected::MissingKind::HostCable => MissingKind::HostCable,
        expected::MissingKind::Exchanged => MissingKind::Exchanged,
    }
}
