//! Answers requests that read.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use rsm_api::access::Grant;
use rsm_api::model::{
    Keyed, NodeFilter, NodeKind, PortFilter as Ports, PortId, PortState, Selector,
};
use rsm_api::{Label as _, Subnet, v1};
use rsm_ids::Guid;
use serde_json::{Map, Value, json};

use super::route::{PortFilter, Shown, System};
use super::{Refused, SmConf};

/// The version of UFM whose interface this is, in the form in which clients compare versions.
const UFM_VERSION: &str = "6.24.2";

/// The default partition.
const DEFAULT: u16 = 0x7fff;

/// The value shown in place of a key that is hidden and differs from the default.
const HIDDEN_KEY: u64 = 0x0000_0000_ffff_ffff;

pub(super) fn version() -> Value {
    json!({ "ufm_release_version": UFM_VERSION, "rsm_version": env!("CARGO_PKG_VERSION") })
}

pub(super) fn conf(conf: &SmConf) -> Value {
    let key = |own: bool, usual: u64| format!("{:#018x}", if own { HIDDEN_KEY } else { usual });
    json!({
        "subnet_prefix": format!("{:#018x}", conf.subnet_prefix),
        "m_key": key(conf.has_m_key, 0),
        "m_key_per_port": conf.m_key_per_port,
        "sm_key": key(conf.has_own_sm_key, 1),
        "sa_key": key(conf.has_own_sa_key, 0),
    })
}

/// A GUID as UFM writes it.
pub(super) fn plain(guid: &str) -> &str {
    guid.strip_prefix("0x").unwrap_or(guid)
}

/// The ports of an answer, by ascending node GUID and port number, without port 0 of switches.
pub(super) fn ports(subnet: &dyn Subnet, filter: &PortFilter) -> Result<Value, Refused> {
    let nodes = subnet.nodes(None, usize::MAX, &NodeFilter::default()).items;
    let nodes: BTreeMap<Guid, v1::Node> = nodes
        .into_iter()
        .map(|one| (one.key, one.message))
        .collect();
    let wanted = Ports {
        state: filter.active.then_some(PortState::Active),
        ..Ports::default()
    };
    let ports = subnet.ports(None, usize::MAX, &wanted).items;
    let ports = ports.iter().filter(|port| port.key.number.0 != 0);
    let shown = ports.filter_map(|port| {
        let node = nodes.get(&port.key.node)?;
        let system = system_of(node.kind());
        let of = filter.of.as_deref();
        let is_wanted = filter.system.is_none_or(|wanted| wanted == system)
            && of.is_none_or(|name| is_named(name, &node.guid, &node.description));
        is_wanted.then(|| shown_port(port, node, system, &nodes))
    });
    Ok(Value::Array(shown.collect()))
}

/// The kind of system that a node is to UFM.
pub(super) fn system_of(kind: NodeKind) -> System {
    match kind {
        NodeKind::Ca => System::Computer,
        NodeKind::Router => System::Router,
        NodeKind::Switch | NodeKind::Unspecified => System::Switch,
    }
}

/// Whether `name` is the GUID, the description or the first word of the description of a node.
pub(super) fn is_named(name: &str, guid: &str, description: &str) -> bool {
    plain(name).eq_ignore_ascii_case(plain(guid))
        || name == description
        || description.split(' ').next() == Some(name)
}

fn shown_port(
    port: &Keyed<PortId, v1::Port>,
    node: &v1::Node,
    system: System,
    nodes: &BTreeMap<Guid, v1::Node>,
) -> Value {
    let message = &port.message;
    let number = port.key.number.0;
    // External ports of a switch have no GUID of their own.
    let guid = match system {
        System::Switch => plain(&node.guid),
        System::Computer | System::Router => plain(&message.guid),
    };
    let peer = message.peer.as_ref();
    let peer_key = peer.and_then(|peer| peer.port.as_ref());
    let peer_node = peer_key.and_then(|key| nodes.get(&key.node_guid.parse().ok()?));
    // Roots are the first tier, and hosts come after their leaf.
    let rank = |node: &v1::Node| node.rank.map(|rank| rank + 1);
    let tier = rank(node).or_else(|| Some(rank(peer_node?)? + 1));
    let lid = match message.lid {
        0 => node.lids.first().copied().unwrap_or_default(),
        lid => lid,
    };
    let kind = match system {
        System::Computer => "Computer",
        System::Switch => "Switch",
        System::Router => "Router",
    };
    let is_up = message.physical_state() == v1::PhysicalState::LinkUp;
    let mut shown = json!({
        "guid": guid,
        "name": format!("{guid}_{number}"),
        "number": number,
        "external_number": number,
        "dname": number.to_string(),
        "label": number.to_string(),
        "description": format!("{kind} IB Port"),
        "systemID": plain(&node.guid),
        "system_name": node.description,
        "node_description": format!("{}:{number}", node.description),
        "lid": lid,
        "mtu": message.mtu_bytes,
        "physical_state": if is_up { "Link Up" } else { "Link Down" },
        "logical_state": logical(message.state()),
        "active_width": v1::LinkWidth::label(message.width).unwrap_or_default(),
        "active_speed": v1::LinkSpeed::label(message.speed).unwrap_or_default(),
        "capabilities": [],
        "severity": "Info",
        "tier": tier,
    });
    if let (Some(shown), Some(peer), Some(key)) = (shown.as_object_mut(), peer, peer_key) {
        let peer_guid = plain(&key.node_guid);
        let peer_fields = [
            ("peer", format!("{peer_guid}_{}", key.number)),
            ("peer_guid", peer_guid.to_owned()),
            ("peer_node_name", peer.description.clone()),
            ("peer_port_dname", key.number.to_string()),
            (
                "peer_node_description",
                format!("{}:{}", peer.description, key.number),
            ),
        ];
        shown.extend(peer_fields.map(|(name, value)| (name.to_owned(), Value::String(value))));
    }
    shown
}

fn logical(state: PortState) -> &'static str {
    match state {
        PortState::Active => "Active",
        PortState::Armed => "Armed",
        PortState::Init => "Initialize",
        PortState::Down | PortState::Unspecified => "Down",
    }
}

/// All partitions that `grant` may see, or one partition; an unknown partition is an empty object.
pub(super) fn pkeys(
    subnet: &dyn Subnet,
    grant: &Grant,
    of: Option<u16>,
    shown: Shown,
) -> Result<Value, Refused> {
    let Some(p_key) = of else {
        let partitions = subnet.partitions(None, usize::MAX).items.into_iter();
        let seen = partitions.filter(|one| grant.sees(one.key));
        let all = seen.map(|one| {
            let shown = shown_pkey(subnet, &one.message, shown)?;
            Ok((format!("{:#x}", one.key), shown))
        });
        return all.collect::<Result<Map<_, _>, _>>().map(Value::Object);
    };
    if !grant.sees(p_key) {
        let text = format!("the partition {p_key:#x} is none of this tenant's");
        return Err((StatusCode::FORBIDDEN, text));
    }
    let found = subnet
        .partitions(p_key.checked_sub(1), 1)
        .items
        .into_iter()
        .next();
    match found.filter(|found| found.key == p_key) {
        Some(found) => shown_pkey(subnet, &found.message, shown),
        None => Ok(json!({})),
    }
}

fn shown_pkey(subnet: &dyn Subnet, one: &v1::Partition, shown: Shown) -> Result<Value, Refused> {
    let is_default = one.p_key == u32::from(DEFAULT);
    let mut value = Map::new();
    let name = if is_default { "management" } else { &one.name };
    value.insert("partition".to_owned(), name.into());
    value.insert("ip_over_ib".to_owned(), one.ipoib.into());
    if is_default {
        let membership = v1::Membership::label(one.hosts_membership).unwrap_or("none");
        value.insert("membership".to_owned(), membership.into());
    }
    if shown.guids {
        let guids = guids(subnet, u16::try_from(one.p_key).unwrap_or_default())?;
        value.insert("guids".to_owned(), guids);
    }
    if shown.qos {
        // The value is in kilobytes, and smaller MTUs have none.
        let qos = json!({
            "mtu_limit": one.mtu_bytes.div_ceil(1024),
            "service_level": one.service_level,
            "rate_limit": one.rate_gbps,
        });
        value.insert("qos_conf".to_owned(), qos);
    }
    Ok(Value::Object(value))
}

/// The members made by the API, present or not, and present members from the file.
fn guids(subnet: &dyn Subnet, p_key: u16) -> Result<Value, Refused> {
    let gone = |error: rsm_api::LookupError| (StatusCode::NOT_FOUND, error.to_string());
    let mut members: BTreeMap<String, (bool, i32)> = BTreeMap::new();
    let present = subnet
        .partition_members(p_key, None, usize::MAX)
        .map_err(gone)?;
    for member in present.items {
        let selector = Selector::Guid {
            guid: member.key.node,
            port: Some(member.key.number),
        };
        // A port that has gone meanwhile is no member.
        if let Ok(port) = subnet.port(&selector) {
            let held = (member.message.index == 0, member.message.membership);
            members.insert(plain(&port.message.guid).to_owned(), held);
        }
    }
    let made = subnet
        .partition_guids(p_key, None, usize::MAX)
        .map_err(gone)?;
    for member in made.items {
        let wanted = (member.message.index0, member.message.membership);
        members.insert(plain(&member.message.guid).to_owned(), wanted);
    }
    let members = members.into_iter().map(|(guid, (index0, membership))| {
        json!({
            "guid": guid,
            "index0": index0,
            "membership": v1::Membership::label(membership).unwrap_or("full"),
        })
    });
    Ok(Value::Array(members.collect()))
}
