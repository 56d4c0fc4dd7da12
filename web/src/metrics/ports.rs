//! Metrics of switches and ports, under the names and labels of `infiniband_exporter`, so that its
//! dashboards and rules work.

use rsm_api::link_rate::link_rate;
use rsm_api::model::{LinkFilter, NodeFilter, NodeKind, PortFilter, PortId, PortState};
use rsm_api::{Subnet, v1};
use rsm_ids::{Guid, PortNum};

use super::Shard;
use super::text::{Family, Text};

/// Writes every switch, by name and LID.
pub(super) fn switches(text: &mut Text, subnet: &dyn Subnet) {
    let filter = NodeFilter {
        kind: Some(NodeKind::Switch),
        ..NodeFilter::default()
    };
    let mut family = text.gauge("infiniband_switch_info", "Infiniband switch information");
    for node in subnet.nodes(None, usize::MAX, &filter).items {
        let node = &node.message;
        let lid = node.lids.first().copied().unwrap_or(0);
        info(&mut family, "switch", (&node.guid, &node.description, lid));
    }
}

fn info(family: &mut Family<'_>, label: &str, (guid, name, lid): (&str, &str, u32)) {
    let lid = lid.to_string();
    family.sample(&[("guid", guid), (label, name), ("lid", &lid)], 1);
}

/// A port as `ibnetdiscover` names it: ports of switches by the node's GUID and LID, other ports by
/// their own GUID and LID.
struct Address {
    guid: String,
    lid: u32,
}

/// An end of a link, with the other end.
struct End<'a> {
    number: u32,
    address: Address,
    name: &'a str,
    peer_number: u32,
    peer: Address,
    peer_name: &'a str,
    peer_kind: NodeKind,
    link: &'a v1::Link,
}

/// The ends of links at the nodes of a shard, by kind of node.
#[derive(Default)]
struct Ends<'a> {
    switches: Vec<End<'a>>,
    hosts: Vec<End<'a>>,
}

impl<'a> Ends<'a> {
    fn of(links: &'a [v1::Link], subnet: &dyn Subnet, shard: Shard) -> Ends<'a> {
        let mut ends = Ends::default();
        for link in links {
            let (Some(a), Some(b)) = (&link.a, &link.b) else {
                continue;
            };
            for (near, far) in [(a, b), (b, a)] {
                let end = end(link, near, far, subnet, shard);
                match near.kind() {
                    NodeKind::Switch => ends.switches.extend(end),
                    _ => ends.hosts.extend(end),
                }
            }
        }
        ends
    }
}

/// The end `near` of a link; `None` if it is not in the shard, or a node has just left.
fn end<'a>(
    link: &'a v1::Link,
    near: &'a v1::LinkEnd,
    far: &'a v1::LinkEnd,
    subnet: &dyn Subnet,
    shard: Shard,
) -> Option<End<'a>> {
    let node: Guid = near.port.as_ref()?.node_guid.parse().ok()?;
    if !shard.has(node) {
        return None;
    }
    Some(End {
        number: near.port.as_ref()?.number,
        address: address(near, subnet)?,
        name: &near.description,
        peer_number: far.port.as_ref()?.number,
        peer: address(far, subnet)?,
        peer_name: &far.description,
        peer_kind: far.kind(),
        link,
    })
}

fn address(end: &v1::LinkEnd, subnet: &dyn Subnet) -> Option<Address> {
    let port = end.port.as_ref()?;
    let number = match end.kind() {
        NodeKind::Switch => 0,
        _ => u8::try_from(port.number).ok()?,
    };
    let (guid, lid) = subnet.address(PortId {
        node: port.node_guid.parse().ok()?,
        number: PortNum(number),
    })?;
    Some(Address {
        guid: guid.to_string(),
        lid: lid.0.into(),
    })
}

/// Writes the rates and cables of each port, and the names of hosts.
pub(super) fn write(text: &mut Text, subnet: &dyn Subnet, shard: Shard) {
    let links = subnet.links(None, usize::MAX, &LinkFilter::default()).items;
    let links: Vec<v1::Link> = links.into_iter().map(|link| link.message).collect();
    let ends = Ends::of(&links, subnet, shard);
    let mut family = text.gauge("infiniband_hca_info", "Infiniband HCA information");
    for end in &ends.hosts {
        let port = (end.address.guid.as_str(), end.name, end.address.lid);
        info(&mut family, "hca", port);
    }
    let mut family = text.gauge(
        "infiniband_switch_uplink_info",
        "Infiniband switch uplink information",
    );
    uplinks(&mut family, "switch", &ends.switches);
    let mut family = text.gauge(
        "infiniband_hca_uplink_info",
        "Infiniband HCA uplink information",
    );
    uplinks(&mut family, "hca", &ends.hosts);
    rates(text, &ends);
    states(text, subnet, shard);
}

fn uplinks(family: &mut Family<'_>, label: &str, ends: &[End<'_>]) {
    for end in ends {
        let kind = match end.peer_kind {
            NodeKind::Switch => "SW",
            NodeKind::Router => "RT",
            _ => "CA",
        };
        let labels = [
            ("guid", end.address.guid.as_str()),
            ("port", &end.number.to_string()),
            (label, end.name),
            ("uplink", end.peer_name),
            ("uplink_guid", &end.peer.guid),
            ("uplink_type", kind),
            ("uplink_port", &end.peer_number.to_string()),
            ("uplink_lid", &end.peer.lid.to_string()),
        ];
        family.sample(&labels, 1);
    }
}

/// The labels of a family of rates.
#[derive(Clone, Copy)]
enum RateLabels {
    /// GUID and number of a switch's port.
    Switch,
    /// The GUID of an HCA's port.
    Hca,
    /// The GUID of an HCA's port, and the HCA's name, as SckyzO's fork has it.
    NamedHca,
}

/// The families of rates: name, help, labels, and whether the rate is the raw rate.
const RATES: [(&str, &str, RateLabels, bool); 6] = [
    (
        "infiniband_switch_port_rate_bytes_per_second",
        "Effective rate of a port of a switch",
        RateLabels::Switch,
        false,
    ),
    (
        "infiniband_switch_port_raw_rate_bytes_per_second",
        "Raw rate of a port of a switch",
        RateLabels::Switch,
        true,
    ),
    (
        "infiniband_hca_rate_bytes_per_second",
        "Effective rate of a port of an HCA",
        RateLabels::Hca,
        false,
    ),
    (
        "infiniband_hca_raw_rate_bytes_per_second",
        "Raw rate of a port of an HCA",
        RateLabels::Hca,
        true,
    ),
    (
        "infiniband_hca_port_rate_bytes_per_second",
        "Effective rate of a port of an HCA",
        RateLabels::NamedHca,
        false,
    ),
    (
        "infiniband_hca_port_raw_rate_bytes_per_second",
        "Raw rate of a port of an HCA",
        RateLabels::NamedHca,
        true,
    ),
];

/// Writes the rates of ports; a port whose rate is unknown has no line.
fn rates(text: &mut Text, ends: &Ends<'_>) {
    for (name, help, labels, is_raw) in RATES {
        let mut family = text.gauge(name, help);
        let ends = match labels {
            RateLabels::Switch => &ends.switches,
            RateLabels::Hca | RateLabels::NamedHca => &ends.hosts,
        };
        for end in ends {
            let Some(rate) = link_rate(end.link.width(), end.link.speed()) else {
                continue;
            };
            let guid = ("guid", end.address.guid.as_str());
            let bits = if is_raw {
                rate.raw_bits
            } else {
                rate.data_bits
            };
            let bytes = bits as f64 / 8.0;
            match labels {
                RateLabels::Switch => {
                    family.sample(&[guid, ("port", &end.number.to_string())], bytes);
                }
                RateLabels::Hca => family.sample(&[guid], bytes),
                RateLabels::NamedHca => family.sample(&[guid, ("hca", end.name)], bytes),
            }
        }
    }
}

/// Writes whether each external port of the switches in a shard has a link, as SckyzO's fork does.
fn states(text: &mut Text, subnet: &dyn Subnet, shard: Shard) {
    let filter = PortFilter {
        node_kind: Some(NodeKind::Switch),
        ..PortFilter::default()
    };
    let ports = subnet.ports(None, usize::MAX, &filter).items.into_iter();
    let ports = ports.filter(|port| port.key.number.0 != 0 && shard.has(port.key.node));
    let mut family = text.gauge(
        "infiniband_switch_port_state",
        "Whether a port of a switch has a link",
    );
    for port in ports {
        let labels = [
            ("guid", port.key.node.to_string()),
            ("port", port.key.number.0.to_string()),
            ("switch", port.message.node_description.clone()),
        ];
        let labels = labels
            .each_ref()
            .map(|(name, value)| (*name, value.as_str()));
        let is_up = port.message.state() != PortState::Down;
        family.sample(&labels, u64::from(is_up));
    }
}
