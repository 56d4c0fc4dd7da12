//! The answers about systems, cables, ports out of use, and changes.

use std::collections::BTreeMap;

use rsm_api::model::{FindingFilter, LinkFilter, NodeFilter, PortFilter, PortState};
use rsm_api::v1::event::Change;
use rsm_api::{Label as _, Subnet, timestamp, v1};
use serde_json::{Value, json};

use super::route::System;
use super::show::{is_named, plain, system_of};

/// Lists cables by ascending key of their end `a`; with `of`, only cables with an end at that
/// system.
pub(super) fn links(subnet: &dyn Subnet, of: Option<&str>) -> Value {
    let all = subnet.links(None, usize::MAX, &LinkFilter::default()).items;
    let shown = all.iter().filter_map(|one| {
        let (a, b) = (End::of(&one.message.a)?, End::of(&one.message.b)?);
        let is_at = |end: &End<'_>| of.is_none_or(|name| is_named(name, end.guid, end.description));
        (is_at(&a) || is_at(&b)).then(|| shown_link(&one.message, &a, &b))
    });
    Value::Array(shown.collect())
}

/// An end of a cable.
struct End<'a> {
    guid: &'a str,
    number: u32,
    description: &'a str,
}

impl<'a> End<'a> {
    fn of(end: &'a Option<v1::LinkEnd>) -> Option<End<'a>> {
        let end = end.as_ref()?;
        let port = end.port.as_ref()?;
        Some(End {
            guid: plain(&port.node_guid),
            number: port.number,
            description: &end.description,
        })
    }

    /// UFM's name of the port.
    fn name(&self) -> String {
        format!("{}_{}", self.guid, self.number)
    }

    fn described(&self) -> String {
        format!("{}:{}", self.description, self.number)
    }
}

fn shown_link(link: &v1::Link, a: &End<'_>, b: &End<'_>) -> Value {
    let is_right = link.state() == PortState::Active && link.slow.is_none() && !link.damped;
    json!({
        "name": format!("{}:{}", a.name(), b.name()),
        "source_guid": a.guid,
        "source_port": a.number.to_string(),
        "source_port_dname": a.number.to_string(),
        "source_port_name": a.name(),
        "source_port_node_description": a.described(),
        "destination_guid": b.guid,
        "destination_port": b.number.to_string(),
        "destination_port_dname": b.number.to_string(),
        "destination_port_name": b.name(),
        "destination_port_node_description": b.described(),
        "width": v1::LinkWidth::label(link.width).unwrap_or_default(),
        "severity": if is_right { "Info" } else { "Warning" },
        "capabilities": [],
    })
}

/// Lists nodes by ascending GUID, each node as a system; with `kind`, only nodes of this kind.
pub(super) fn systems(subnet: &dyn Subnet, kind: Option<System>) -> Value {
    let mut alarms: BTreeMap<String, usize> = BTreeMap::new();
    let findings = subnet.findings(None, usize::MAX, &FindingFilter::default());
    for finding in findings.items {
        if finding.severity() != v1::Severity::Info {
            *alarms.entry(finding.node_guid).or_default() += 1;
        }
    }
    let nodes = subnet.nodes(None, usize::MAX, &NodeFilter::default()).items;
    let nodes = nodes.iter().map(|one| &one.message);
    let wanted = nodes.filter(|node| kind.is_none_or(|kind| kind == system_of(node.kind())));
    let shown = wanted.map(|node| {
        let alarms = alarms.get(&node.guid).copied().unwrap_or_default();
        shown_system(node, alarms)
    });
    Value::Array(shown.collect())
}

fn shown_system(node: &v1::Node, alarms: usize) -> Value {
    let kind = match system_of(node.kind()) {
        System::Computer => "host",
        System::Switch => "switch",
        System::Router => "router",
    };
    json!({
        "name": plain(&node.guid),
        "guid": plain(&node.guid),
        "system_guid": plain(&node.system_image_guid),
        "system_name": node.description,
        "type": kind,
        "state": "active",
        "severity": if alarms > 0 { "Warning" } else { "Info" },
        "total_alarms": alarms,
        "capabilities": [],
    })
}

/// Lists ports that routes avoid or are to avoid: drained ports (condition `MANUAL`), and ports
/// with errors.
pub(super) fn unhealthy_ports(subnet: &dyn Subnet) -> Value {
    let drained = subnet.drained(None, usize::MAX).items.into_iter();
    let since: BTreeMap<(String, Option<u32>), u64> = drained
        .map(|one| one.message)
        .map(|part| ((part.node_guid, part.port), part.since_unix_ms))
        .collect();
    let ports = subnet.ports(None, usize::MAX, &PortFilter::default()).items;
    let shown = ports.iter().filter_map(|one| {
        let key = one.message.key.as_ref()?;
        let of_port = (key.node_guid.clone(), Some(key.number));
        let of_node = (key.node_guid.clone(), None);
        let since = since.get(&of_port).or_else(|| since.get(&of_node));
        shown_unhealthy(&one.message, since.copied())
    });
    Value::Array(shown.collect())
}

/// A port that routes avoid or are to avoid; `None` for other ports, and for port 0. `since` is the
/// time at which an operator drained the port, in milliseconds since the Unix epoch.
pub(super) fn shown_unhealthy(port: &v1::Port, since: Option<u64>) -> Option<Value> {
    let condition = match port.avoidance() {
        v1::Avoidance::Unspecified => return None,
        v1::Avoidance::Draining | v1::Avoidance::Drained | v1::Avoidance::DrainedInUse => "MANUAL",
        v1::Avoidance::Isolated | v1::Avoidance::IsolatedInUse => "UNHEALTHY",
    };
    let key = port.key.as_ref().filter(|key| key.number != 0)?;
    let peer = port.peer.as_ref();
    let peer_port = peer.and_then(|peer| peer.port.as_ref());
    let peer_name = peer.map_or("", |peer| &peer.description);
    let peer_number = peer_port.map_or(0, |port| port.number);
    Some(json!({
        "UnhealthyGUID": plain(&key.node_guid),
        "UnhealthyNode": port.node_description,
        "UnhealthyPort": format!("{}/{}", port.node_description, key.number),
        "UnhealthyPortNumber": key.number,
        "UnhealthyPortDname": key.number.to_string(),
        "PeerGUID": peer_port.map_or("", |port| plain(&port.node_guid)),
        "PeerNode": peer_name,
        "PeerPort": format!("{peer_name}/{peer_number}"),
        "PeerPortNumber": peer_number,
        "PeerPortDname": peer_number.to_string(),
        "Condition": condition,
        "State": "Warning",
        "StatusTime": since.map(timestamp).unwrap_or_default(),
    }))
}

/// The kept events about nodes and cables, oldest first.
pub(super) fn events(subnet: &dyn Subnet) -> Value {
    let events = subnet.events(0, usize::MAX);
    Value::Array(
        events
            .iter()
            .filter_map(|event| shown_event(event))
            .collect(),
    )
}

/// An event about a node or a cable, with the number that UFM has for it; `None` for other events.
pub(super) fn shown_event(event: &v1::Event) -> Option<Value> {
    let of_link = |link: &v1::Link| {
        let (a, b) = (End::of(&link.a)?, End::of(&link.b)?);
        Some((a.name(), format!("{} - {}", a.described(), b.described())))
    };
    let of_node = |node: &v1::Node| Some((plain(&node.guid).to_owned(), node.description.clone()));
    let (number, name, severity, subject) = match event.change.as_ref()? {
        Change::LinkAppeared(link) => ("328", "Link is Up", "Info", of_link(link)),
        Change::LinkVanished(link) => ("329", "Link is Down", "Warning", of_link(link)),
        Change::NodeVanished(node) => ("331", "Node is Down", "Warning", of_node(node)),
        Change::NodeAppeared(node) => ("332", "Node is Up", "Info", of_node(node)),
        _ => return None,
    };
    let (object, described) = subject?;
    Some(json!({
        "id": event.sequence,
        "type": number,
        "event_type": number,
        "name": name,
        "severity": severity,
        // UFM's form: `2019-10-27 13:17:33`.
        "timestamp": shown_time(event.at_unix_ms),
        "object_name": object,
        "object_path": described,
        "description": format!("{name}: {described}"),
        "category": "Fabric Topology",
        "counter": "N/A",
    }))
}

/// A time in milliseconds since the Unix epoch, as UFM writes it: in UTC, to the second.
pub(super) fn shown_time(unix_ms: u64) -> String {
    let at = timestamp(unix_ms);
    at.get(..19).unwrap_or(&at).replace('T', " ")
}
