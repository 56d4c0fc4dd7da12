//! Converts nodes, ports and links of the fabric to messages of the API.

use std::collections::BTreeSet;

use rsm_api::model::{NodeKind, PhysicalState, PortState};
use rsm_api::v1_fields::{link_speed, link_width};
use rsm_api::{model, v1};
use rsm_ids::{Guid, Lid, LinkSpeed, LinkWidth, Lmc, PortKey, PortNum};
use rsm_mad::Time;
use rsm_mad::wire::attr;
use rsm_mad::wire::attr::{Capabilities, NodeType, PortInfo, PortPhysicalState};
use rsm_model::capabilities::DeviceCapabilities;
use rsm_model::expected::Expected;
use rsm_model::fabric::{Fabric, Node, NodeIx, Port, PortRef};
use rsm_model::slow_links::{SlowLink, SlowLinks};
use rsm_plan::Plan;

use super::avoided::Marks;
use super::missing::lost_unix_ms;

/// Identifies a node, or one of its ports.
pub(super) type PartKey = (Guid, Option<PortNum>);

/// Description of a node; empty if the fabric lacks it.
pub(super) fn description(fabric: &Fabric, node: Guid) -> String {
    let node = fabric.node_of(node);
    node.map_or_else(String::new, |node| node.description.clone())
}

pub(super) fn api_key(key: PortKey) -> model::PortId {
    model::PortId {
        node: key.node,
        number: key.port,
    }
}

pub(super) fn core_key(key: model::PortId) -> PortKey {
    PortKey::new(key.node, key.number)
}

/// Kind of a node. A node that is neither switch nor router counts as a channel adapter.
pub(super) fn kind(node: &Node) -> NodeKind {
    match node.kind() {
        NodeType::Switch => NodeKind::Switch,
        NodeType::Router => NodeKind::Router,
        NodeType::Ca | NodeType::Unknown(_) => NodeKind::Ca,
    }
}

/// Numbers of the existing ports; only switches have port 0.
pub(super) fn port_numbers(node: &Node) -> impl DoubleEndedIterator<Item = PortNum> + use<> {
    let first = usize::from(kind(node) != NodeKind::Switch);
    // A node has at most 255 ports, including port 0.
    (first..node.ports.len()).map(|number| PortNum(number as u8))
}

/// Numbers of the ports with addresses: port 0 of a switch, all ports of other nodes.
pub(super) fn end_port_numbers(node: &Node) -> impl Iterator<Item = PortNum> + use<> {
    let is_switch = kind(node) == NodeKind::Switch;
    let count = if is_switch { 1 } else { usize::MAX };
    port_numbers(node).take(count)
}

pub(super) fn holds_lid(port: &Port) -> bool {
    port.lid().is_unicast()
}

/// Logical state of a port; Down for a port that never answered.
pub(super) fn state(port: &Port) -> PortState {
    shown_state(port.state())
}

/// Logical state as a message; Down for a reserved value.
pub(super) fn shown_state(state: attr::PortState) -> PortState {
    match state {
        attr::PortState::Init => PortState::Init,
        attr::PortState::Armed => PortState::Armed,
        attr::PortState::Active => PortState::Active,
        attr::PortState::Down | attr::PortState::NoChange | attr::PortState::Unknown(_) => {
            PortState::Down
        }
    }
}

/// Physical state of a port. Port 0 of a switch may state none, because it has no link; in that
/// case its logical state decides.
fn physical_state(port: &Port) -> PhysicalState {
    let stated = port.info.as_ref().map(PortInfo::port_physical_state);
    match stated {
        Some(PortPhysicalState::Sleep) => PhysicalState::Sleep,
        Some(PortPhysicalState::Polling) => PhysicalState::Polling,
        Some(PortPhysicalState::Disabled) => PhysicalState::Disabled,
        Some(PortPhysicalState::PortConfigurationTraining) => PhysicalState::Training,
        Some(PortPhysicalState::LinkUp) => PhysicalState::LinkUp,
        Some(PortPhysicalState::LinkErrorRecovery) => PhysicalState::Recovery,
        Some(PortPhysicalState::PhyTest) => PhysicalState::PhyTest,
        Some(PortPhysicalState::NoChange | PortPhysicalState::Unknown(_)) | None => {
            if port.up {
                PhysicalState::LinkUp
            } else {
                PhysicalState::Polling
            }
        }
    }
}

/// PortInfo of a port whose link is up; `None` for any other port, whose PortInfo is outdated.
fn info_if_up(port: &Port) -> Option<&PortInfo> {
    port.info.as_ref().filter(|_| port.up)
}

fn capabilities(held: Capabilities) -> Box<v1::DeviceCapabilities> {
    Box::new(v1::DeviceCapabilities {
        names: held.named().map(|one| one.name().to_owned()).collect(),
        unnamed: held.unnamed().map(u32::from).collect(),
    })
}

fn width(port: &Port) -> Option<LinkWidth> {
    info_if_up(port)?.link_width_active().single()
}

fn speed(port: &Port) -> Option<LinkSpeed> {
    info_if_up(port)?;
    port.speed()
}

fn slow(link: SlowLink) -> v1::SlowLink {
    let width = link.ends.map(|ends| ends.width);
    let speed = link.ends.map(|ends| ends.speed);
    v1::SlowLink {
        width: link_width(width).into(),
        speed: link_speed(speed).into(),
        siblings_mbps: link.siblings.map_or(0, |siblings| siblings.siblings_mbps),
    }
}

/// Converts parts of one snapshot to messages of the API.
#[derive(Clone, Copy)]
pub(super) struct ApiView<'a> {
    pub(super) fabric: &'a Fabric,
    pub(super) plan: Option<&'a Plan>,
    pub(super) damped: &'a BTreeSet<PortKey>,
    pub(super) marks: &'a Marks,
    pub(super) slow_links: &'a SlowLinks,
    pub(super) capabilities: &'a DeviceCapabilities,
    pub(super) expected: &'a Expected,
    /// Unix time of [`Time::ZERO`], in milliseconds.
    pub(super) began_unix_ms: u64,
}

impl ApiView<'_> {
    pub(super) fn node(&self, ix: NodeIx) -> v1::Node {
        let node = self.fabric.node(ix);
        let active = node
            .ports
            .iter()
            .skip(1)
            .filter(|port| state(port) == PortState::Active);
        v1::Node {
            guid: node.guid.to_string(),
            system_image_guid: node.info.system_image_guid().to_string(),
            kind: kind(node).into(),
            description: node.description.clone(),
            num_ports: node.info.num_ports().into(),
            // The number is at most 254: a node has no more external ports.
            ports_active: active.count() as u32,
            lids: end_port_numbers(node)
                .map(|number| &node.ports[number.index()])
                .filter(|port| holds_lid(port))
                .map(|port| port.lid().0.into())
                .collect(),
            vendor_id: node.info.vendor_id(),
            device_id: node.info.device_id().into(),
            revision: node.info.revision(),
            distance: node.distance.into(),
            rank: self.rank(node.guid).map(u32::from),
            suspected: node.suspected,
            avoidance: self.marks.node(node.guid).into(),
            capabilities: self.capabilities.of(&node.info).map(capabilities),
        }
    }

    fn rank(&self, guid: Guid) -> Option<u8> {
        let plan = self.plan?;
        let switch = plan.topology.switch_by_guid(guid)?;
        plan.routing.ranks.as_ref()?.get(switch.index()).copied()
    }

    fn key(&self, at: PortRef) -> v1::PortKey {
        api_key(self.fabric.key(at)).into()
    }

    pub(super) fn port(&self, at: PortRef) -> v1::Port {
        let node = self.fabric.node(at.node);
        let port = self.fabric.port(at);
        let kind = kind(node);
        let addressed = kind != NodeKind::Switch || at.port == PortNum::ZERO;
        let (guid, lid, lmc) = if addressed {
            (port.guid, port.lid(), port.lmc())
        } else {
            (Guid::ZERO, Lid::NONE, Lmc::ZERO)
        };
        let up = info_if_up(port);
        let mtu_bytes = up.and_then(|info| info.neighbor_mtu().bytes());
        let operational_vls = up.and_then(|info| info.operational_vls().data_vls());
        v1::Port {
            key: Some(self.key(at)),
            guid: guid.to_string(),
            node_description: node.description.clone(),
            node_kind: kind.into(),
            lid: lid.0.into(),
            lmc: lmc.get().into(),
            state: state(port).into(),
            physical_state: physical_state(port).into(),
            width: link_width(width(port)).into(),
            speed: link_speed(speed(port)).into(),
            mtu_bytes: mtu_bytes.unwrap_or(0).into(),
            operational_vls: operational_vls.unwrap_or(0).into(),
            error_correction: port
                .error_correction
                .map(|mode| mode.to_string())
                .unwrap_or_default(),
            peer: self.fabric.peer(at).map(|peer| v1::Peer {
                port: Some(self.key(peer)),
                description: self.fabric.node(peer.node).description.clone(),
            }),
            avoidance: self.avoidance(at).into(),
            gone_cable: self.gone_cable(at),
        }
    }

    /// The cable that the port lost; `None` if the port has a cable now, or never had one.
    pub(super) fn gone_cable(&self, at: PortRef) -> Option<v1::GoneCable> {
        let key = self.fabric.key(at);
        let lost = self.expected.port(key)?;
        let disabled = self.expected.disabled_of([key, lost.peer]);
        let disabled = disabled.and_then(|port| self.expected.disabled_by(self.fabric, port));
        let unix_ms = |at: Time| self.began_unix_ms + at.as_nanos() / 1_000_000;
        Some(v1::GoneCable {
            port: Some(api_key(lost.peer).into()),
            description: self.expected.name(self.fabric, lost.peer.node),
            lost_unix_ms: lost_unix_ms(lost.at, &unix_ms),
            disabled: disabled.unwrap_or_default(),
        })
    }

    /// The link at `at`, seen from its lower end; `None` if there is none.
    pub(super) fn link(&self, at: PortRef) -> Option<v1::Link> {
        let there = self.fabric.peer(at)?;
        let (a, b) = (at.min(there), at.max(there));
        let (near, far) = (self.fabric.port(a), self.fabric.port(b));
        let damped = [a, b].map(|end| self.damped.contains(&self.fabric.key(end)));
        Some(v1::Link {
            a: Some(self.end(a)),
            b: Some(self.end(b)),
            state: state(near).min(state(far)).into(),
            width: link_width(width(near).or_else(|| width(far))).into(),
            speed: link_speed(speed(near).or_else(|| speed(far))).into(),
            damped: damped.contains(&true),
            avoidance: self.avoidance(a).into(),
            slow: self
                .slow_links
                .get(self.fabric.key(a), self.fabric.key(b))
                .map(slow),
        })
    }

    /// Mark of the cable at a port, or of the port if it has no cable.
    fn avoidance(&self, at: PortRef) -> v1::Avoidance {
        let there = self.fabric.peer(at);
        self.marks
            .cable([Some(at), there].map(|end| end.map(|end| self.fabric.key(end))))
    }

    fn end(&self, at: PortRef) -> v1::LinkEnd {
        let node = self.fabric.node(at.node);
        v1::LinkEnd {
            port: Some(self.key(at)),
            description: node.description.clone(),
            kind: kind(node).into(),
        }
    }
}
