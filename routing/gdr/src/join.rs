//! The match of ports of a host and ports of the fabric.
//!
//! Keys from the strongest to the weakest: port GUID; node GUID and port; system image GUID and
//! port; NodeDescription. The strongest that finds a port decides. When a weaker one finds another
//! port, the join reports a conflict and never settles it by guessing.

use rsm_ids::PortNum;

use super::fabric::GpuFabric;
use super::inventory::{HcaPort, HostInventory};

/// The key that found a port, strongest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum JoinKey {
    /// The GUID of the port itself.
    PortGuid,
    /// The GUID of the node, and the number of the port.
    NodeGuid,
    /// The GUID of the card, which all of its functions share, and the number of the port.
    SystemImageGuid,
    /// The name of the host and of the device in NodeDescription.
    Description,
}

impl JoinKey {
    /// The key, for people.
    pub const fn name(self) -> &'static str {
        match self {
            JoinKey::PortGuid => "port GUID",
            JoinKey::NodeGuid => "node GUID and port",
            JoinKey::SystemImageGuid => "system image GUID and port",
            JoinKey::Description => "node description",
        }
    }
}

/// Why a port of a host has no counterpart in the fabric.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum NotJoined {
    /// An Ethernet port.
    Ethernet,
    /// The host's inventory states that it is not Active.
    Down,
    /// The fabric has no port with its GUIDs or name.
    NotInFabric,
    /// Several ports of the fabric match its GUIDs or name.
    Ambiguous,
    /// The port of the fabric belongs to another host that claims it.
    Taken,
    /// A virtual function: the fabric has the port of its physical function only.
    VirtualFunction,
}

/// The match of one port of a host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Joined {
    /// A port of the fabric.
    Port {
        /// The place in [`GpuFabric::ports`].
        fabric: u32,
        /// The key that found it.
        by: JoinKey,
    },
    /// A port without a counterpart.
    Not(NotJoined),
}

impl Joined {
    /// The place in [`GpuFabric::ports`].
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
    /// The port, by its place in [`HostInventory::hca_ports`].
    pub port: usize,
    /// The key that decided, and the port of the fabric.
    pub kept: (JoinKey, u32),
    /// The key that disagrees, and the port it finds.
    pub other: (JoinKey, u32),
}

/// The ports of one host, joined.
#[derive(Clone, Default)]
pub(super) struct HostJoin {
    /// The match of each port.
    pub(super) joined: Vec<Joined>,
    /// The disagreements of keys.
    pub(super) conflicts: Vec<JoinConflict>,
    /// Ports that the fabric has by name, under another GUID than the inventory's.
    pub(super) unknown_guids: Vec<usize>,
}

/// Joins every port of one host.
pub(super) fn join(name: &str, host: &HostInventory, fabric: &GpuFabric) -> HostJoin {
    let mut of_host = HostJoin::default();
    for (at, port) in host.hca_ports.iter().enumerate() {
        let joined = match host.is_virtual_function(at) {
            true => Joined::Not(NotJoined::VirtualFunction),
            false => one(name, at, port, fabric, &mut of_host.conflicts),
        };
        let by_name = matches!(joined, Joined::Port { by, .. } if by == JoinKey::Description);
        if by_name && port.port_guid.or(port.node_guid).is_some() {
            of_host.unknown_guids.push(at);
        }
        of_host.joined.push(joined);
    }
    of_host
}

/// The joins of a host without a fabric.
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

/// The port of the fabric that is described as a host's port.
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

fn one(
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
    // The device in the node's description tells functions of one card apart.
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
