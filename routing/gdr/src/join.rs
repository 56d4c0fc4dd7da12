//! Matches ports of a host with ports of the fabric.
//!
//! The keys, from strongest to weakest, are: port GUID; node GUID and port number; system image
//! GUID and port number; NodeDescription. The strongest key that finds a port decides. If a weaker
//! key finds another port, the match reports a conflict, and never resolves it by a guess.

use rsm_ids::PortNum;

use super::fabric::GpuFabric;
use super::inventory::{HcaPort, HostInventory};

/// The key that found a port; strongest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum JoinKey {
    /// The port GUID.
    PortGuid,
    /// The node GUID and the port number.
    NodeGuid,
    /// The system image GUID of the card, common to all of its functions, and the port number.
    SystemImageGuid,
    /// The names of host and device in the NodeDescription.
    Description,
}

impl JoinKey {
    /// The key as text for the operator.
    pub const fn name(self) -> &'static str {
        match self {
            JoinKey::PortGuid => "port GUID",
            JoinKey::NodeGuid => "node GUID and port",
            JoinKey::SystemImageGuid => "system image GUID and port",
            JoinKey::Description => "node description",
        }
    }
}

/// The reason why a port of a host has no counterpart in the fabric.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum NotJoined {
    /// The port is an Ethernet port.
    Ethernet,
    /// The inventory states that the port is not Active.
    Down,
    /// The fabric has no port with the port's GUIDs or name.
    NotInFabric,
    /// Several ports of the fabric match the port's GUIDs or name.
    Ambiguous,
    /// Another host, which claims the same port of the fabric, has it.
    Taken,
    /// The port is a virtual function: the fabric has only the port of its physical function.
    VirtualFunction,
}

/// The match of one port of a host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Joined {
    /// The port is in the fabric.
    Port {
        /// The index in [`GpuFabric::ports`].
        fabric: u32,
        /// The key that found the port.
        by: JoinKey,
    },
    /// The port has no counterpart.
    Not(NotJoined),
}

impl Joined {
    /// The index in [`GpuFabric::ports`]; `None` for a port without a counterpart.
    pub const fn port(self) -> Option<u32> {
        match self {
            Joined::Port { fabric, .. } => Some(fabric),
            Joined::Not(_) => None,
        }
    }
}

/// Two keys of one port find different ports of the fabric.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JoinConflict {
    /// The position of the port in [`HostInventory::hca_ports`].
    pub port: usize,
    /// The key that decided, and the port of the fabric that it finds.
    pub kept: (JoinKey, u32),
    /// The key that disagrees, and the port of the fabric that it finds.
    pub other: (JoinKey, u32),
}

/// The matches of one host's ports.
#[derive(Clone, Default)]
pub(super) struct HostJoin {
    /// The match of each port.
    pub(super) joined: Vec<Joined>,
    /// The conflicts between keys.
    pub(super) conflicts: Vec<JoinConflict>,
    /// The ports that the fabric has by name, but with another GUID than the inventory's.
    pub(super) unknown_guids: Vec<usize>,
}

/// Matches every port of one host.
pub(super) fn join(name: &str, host: &HostInventory, fabric: &GpuFabric) -> HostJoin {
    let mut of_host = HostJoin::default();
    for (at, port) in host.hca_ports.iter().enumerate() {
        let joined = match host.is_virtual_function(at) {
            true => Joined::Not(NotJoined::VirtualFunction),
            false => join_port(name, at, port, fabric, &mut of_host.conflicts),
        };
        let by_name = matches!(joined, Joined::Port { by, .. } if by == JoinKey::Description);
        if by_name && port.port_guid.or(port.node_guid).is_some() {
            of_host.unknown_guids.push(at);
        }
        of_host.joined.push(joined);
    }
    of_host
}

/// The matches of a host without a fabric.
pub(super) fn join_nothing(host: &HostInventory) -> HostJoin {
    let of_port = |port| match host.is_virtual_function(port) {
        true => Joined::Not(NotJoined::VirtualFunction),
        false => Joined::Not(NotJoined::NotInFabric),
    };
    HostJoin {
        joined: (0..host.hca_ports.len()).map(of_port).collect(),
        ..HostJoin::default()
    }
}

/// The port of the fabric whose description states this host and device; `None` unless there is
/// exactly one.
pub(super) fn described(name: &str, port: &HcaPort, fabric: &GpuFabric) -> Option<u32> {
    let number = PortNum(port.port);
    let ports = fabric.by_description(name, port.device.as_deref()?);
    let mut found = ports
        .iter()
        .filter(|&&index| fabric.port(index).port == number);
    match (found.next(), found.next()) {
        (Some(&only), None) => Some(only),
        _ => None,
    }
}

/// Matches the port at `at` of the host `name`, and records conflicts between its keys.
fn join_port(
    name: &str,
    at: usize,
    port: &HcaPort,
    fabric: &GpuFabric,
    conflicts: &mut Vec<JoinConflict>,
) -> Joined {
    if !port.may_be_infiniband() {
        return Joined::Not(NotJoined::Ethernet);
    }
    let number = PortNum(port.port);
    let with_number = |ports: &[u32]| -> Vec<u32> {
        let same = |&&index: &&u32| fabric.port(index).port == number;
        ports.iter().filter(same).copied().collect()
    };
    let described = match &port.device {
        Some(device) => with_number(fabric.by_description(name, device)),
        None => Vec::new(),
    };
    let of_card = match port.system_image_guid {
        Some(guid) => with_number(fabric.by_system(guid)),
        None => Vec::new(),
    };
    // The device in the node's description distinguishes functions of one card.
    let of_card = match of_card.iter().find(|index| described.contains(index)) {
        Some(&both) => vec![both],
        None => of_card,
    };
    let found = [
        (
            JoinKey::PortGuid,
            port.port_guid
                .and_then(|guid| fabric.by_guid(guid))
                .into_iter()
                .collect(),
        ),
        (
            JoinKey::NodeGuid,
            port.node_guid
                .and_then(|guid| fabric.by_node(guid, number))
                .into_iter()
                .collect(),
        ),
        (JoinKey::SystemImageGuid, of_card),
        (JoinKey::Description, described),
    ];
    let mut decided: Option<(JoinKey, u32)> = None;
    let mut ambiguous = false;
    for (key, ports) in &found {
        match (&ports[..], decided) {
            ([], _) => {}
            (&[only], None) => decided = Some((*key, only)),
            (_, None) => ambiguous = true,
            (_, Some(kept)) if ports.contains(&kept.1) => {}
            (&[other, ..], Some(kept)) => {
                let other = (*key, other);
                conflicts.push(JoinConflict {
                    port: at,
                    kept,
                    other,
                });
            }
        }
    }
    match decided {
        Some((by, fabric)) => Joined::Port { fabric, by },
        None if ambiguous => Joined::Not(NotJoined::Ambiguous),
        None if port.active == Some(false) => Joined::Not(NotJoined::Down),
        None => Joined::Not(NotJoined::NotInFabric),
    }
}
