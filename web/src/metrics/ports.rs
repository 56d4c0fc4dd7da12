//! Switches and ports, under the names and labels of `infiniband_exporter`, so that its dashboards
//! and rules work.

use std::collections::HashMap;

use rsm_api::link_rate::link_rate;
use rsm_api::model::{Keyed, LinkFilter, NodeFilter, NodeKind};
use rsm_api::{Subnet, v1};
use rsm_ids::Guid;

use super::Shard;
use super::text::{Family, Text};

/// Every switch, by name and LID.
pub(super) fn switches(text: &mut Text, subnet: &dyn Subnet) {
    let filter = NodeFilter {
        kind: Some(NodeKind::Switch),
        ..NodeFilter::default()
    };
    let mut family = text.gauge("infiniband_switch_info", "Infiniband switch information");
    for node in subnet.nodes(None, usize::MAX, &filter).items {
        info(&mut family, "switch", &node.message);
    }
}

fn info(family: &mut Family<'_>, label: &str, node: &v1::Node) {
    let lid = node.lids.first().copied().unwrap_or(0).to_string();
    let labels = [
        ("guid", node.guid.as_str()),
        (label, &node.description),
        ("lid", &lid),
    ];
    family.sample(&labels, 1);
}

/// An end of a link, with the other end.
struct End<'a> {
    port: &'a v1::PortKey,
    name: &'a str,
    peer: &'a v1::PortKey,
    peer_name: &'a str,
    peer_kind: NodeKind,
    link: &'a v1::Link,
}

/// Links of nodes of a shard, an entry for each end there.
struct Ends<'a> {
    switches: Vec<End<'a>>,
    hosts: Vec<End<'a>>,
}

impl<'a> Ends<'a> {
    fn of(links: &'a [v1::Link], shard: Shard) -> Ends<'a> {
        let mut ends = Ends {
            switches: Vec::new(),
            hosts: Vec::new(),
        };
        for link in links {
            let (Some(a), Some(b)) = (&link.a, &link.b) else {
                continue;
            };
            for (near, far) in [(a, b), (b, a)] {
                let (Some(port), Some(peer)) = (&near.port, &far.port) else {
                    continue;
                };
                let node = port.node_guid.parse::<Guid>();
                if !node.is_ok_and(|node| shard.has(node)) {
                    continue;
                }
                let end = End {
                    port,
                    name: &near.description,
                    peer,
                    peer_name: &far.description,
                    peer_kind: far.kind(),
                    link,
                };
                match near.kind() {
                    NodeKind::Switch => ends.switches.push(end),
                    _ => ends.hosts.push(end),
                }
            }
        }
        ends
    }
}

/// The rates and cables of each port, and the names of hosts.
pub(super) fn write(text: &mut Text, subnet: &dyn Subnet, shard: Shard) {
    let nodes = subnet.nodes(None, usize::MAX, &NodeFilter::default()).items;
    let mut family = text.gauge("infiniband_hca_info", "Infiniband HCA information");
    for node in nodes.iter().filter(|node| shard.has(node.key)) {
        if node.message.kind() != NodeKind::Switch {
            info(&mut family, "hca", &node.message);
        }
    }
    let links = subnet.links(None, usize::MAX, &LinkFilter::default()).items;
    let links: Vec<v1::Link> = links.into_iter().map(|link| link.message).collect();
    let ends = Ends::of(&links, shard);
    let lids = lids(&nodes);
    let mut family = text.gauge(
        "infiniband_switch_uplink_info",
        "Infiniband switch uplink information",
    );
    uplinks(&mut family, "switch", &ends.switches, &lids);
    let mut family = text.gauge(
        "infiniband_hca_uplink_info",
        "Infiniband HCA uplink information",
    );
    uplinks(&mut family, "hca", &ends.hosts, &lids);
    rates(text, &ends);
}

fn lids(nodes: &[Keyed<Guid, v1::Node>]) -> HashMap<&str, u32> {
    let lid = |node: &v1::Node| node.lids.first().copied().unwrap_or(0);
    let entry = |node: &'_ Keyed<Guid, v1::Node>| lid(&node.message);
    nodes
        .iter()
        .map(|node| (node.message.guid.as_str(), entry(node)))
        .collect()
}

fn uplinks(family: &mut Family<'_>, label: &str, ends: &[End<'_>], lids: &HashMap<&str, u32>) {
    for end in ends {
        let lid = lids.get(end.peer.node_guid.as_str()).copied().unwrap_or(0);
        let kind = match end.peer_kind {
            NodeKind::Switch => "SW",
            NodeKind::Router => "RT",
            _ => "CA",
        };
        let labels = [
            ("guid", end.port.node_guid.as_str()),
            ("port", &end.port.number.to_string()),
            (label, end.name),
            ("uplink", end.peer_name),
            ("uplink_guid", &end.peer.node_guid),
            ("uplink_type", kind),
            ("uplink_port", &end.peer.number.to_string()),
            ("uplink_lid", &lid.to_string()),
        ];
        family.sample(&labels, 1);
    }
}

/// A hundred and more ports may have no known rate; they have no line.
fn rates(text: &mut Text, ends: &Ends<'_>) {
    let bytes = |end: &End<'_>| {
        let rate = link_rate(end.link.width(), end.link.speed())?;
        Some((rate.data_bits as f64 / 8.0, rate.raw_bits as f64 / 8.0))
    };
    let families: [(&'static str, &str, bool, bool); 4] = [
        (
            "infiniband_switch_port_rate_bytes_per_second",
            "Effective rate of a port of a switch",
            true,
            false,
        ),
        (
            "infiniband_switch_port_raw_rate_bytes_per_second",
            "Raw rate of a port of a switch",
            true,
            true,
        ),
        (
            "infiniband_hca_rate_bytes_per_second",
            "Effective rate of a port of an HCA",
            false,
            false,
        ),
        (
            "infiniband_hca_raw_rate_bytes_per_second",
            "Raw rate of a port of an HCA",
            false,
            true,
        ),
    ];
    for (name, help, of_switch, raw) in families {
        let mut family = text.gauge(name, help);
        let ends = if of_switch {
            &ends.switches
        } else {
            &ends.hosts
        };
        for end in ends {
            let Some((data_rate, raw_rate)) = bytes(end) else {
                continue;
            };
            let port = end.port.number.to_string();
            let labels = [("guid", end.port.node_guid.as_str()), ("port", &port)];
            family.sample(&labels, if raw { raw_rate } else { data_rate });
        }
    }
}
