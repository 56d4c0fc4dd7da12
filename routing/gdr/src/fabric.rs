//! The fabric as the subnet manager sees it, as far as hints need it.

use std::collections::BTreeMap;
use std::sync::Arc;

use rsm_ids::{Guid, Lid, Lmc, PortNum};

use super::positions::HostPositions;
use rsm_routing::netlist::{Netlist, NodeKind};
use rsm_routing::tables::Tables;
use rsm_routing::topology::{PortUse, SwitchIdx, Topology};

/// A port of a channel adapter, cabled to a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FabricPort {
    /// The port's GUID.
    pub guid: Guid,
    /// The node's.
    pub node_guid: Guid,
    /// That of the card; [`Guid::ZERO`] where none is stated.
    pub system_image_guid: Guid,
    /// The port of the node.
    pub port: PortNum,
    /// NodeDescription, with replacement characters for invalid UTF-8.
    pub description: String,
    /// The base LID.
    pub lid: Lid,
    /// The LMC: the port has 2^LMC LIDs.
    pub lmc: Lmc,
    /// The switch that it is cabled to.
    pub leaf: SwitchIdx,
    /// The port of that switch.
    pub leaf_port: PortNum,
    /// The rate of the cable in tenths of Gb/s, as IBA 15.2.5.16 lists rates.
    pub rate_tenth_gbps: u16,
    /// The MTU in bytes, 256 to 4096.
    pub mtu: u16,
}

impl FabricPort {
    /// The host and the device that NodeDescription names, see [`host_and_device`].
    pub fn host_and_device(&self) -> Option<(&str, &str)> {
        host_and_device(&self.description)
    }
}

/// The host and the device that a NodeDescription names by custom, `host-001 mlx5_0`.
///
/// `None` where firmware still describes the model, or something else stands there.
pub fn host_and_device(description: &str) -> Option<(&str, &str)> {
    let mut words = description.split_whitespace();
    let (host, device) = (words.next()?, words.next()?);
    let model = host.starts_with("MT") && host[2..].bytes().all(|byte| byte.is_ascii_digit());
    (words.next().is_none() && !model).then_some((host, device))
}

/// A place in the fabric where something was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormerPlace {
    /// A port of a switch, by name.
    pub place: String,
    /// When it was there last, in words that follow `until`.
    pub until: String,
}

/// A host of which devices were in the fabric, and are not there now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AbsentHost {
    /// These devices of the host, and where each was.
    pub devices: BTreeMap<String, FormerPlace>,
    /// Where the first of them was.
    pub first: FormerPlace,
}

/// The fabric that inventories are joined with.
#[derive(Clone, Debug)]
pub struct GpuFabric {
    /// The switches.
    pub topology: Arc<Topology>,
    /// The programmed tables, where they are known.
    pub tables: Option<Arc<Tables>>,
    /// The description of each switch, by its number.
    pub switch_names: Vec<String>,
    /// The positions of compute ports in the order that routes follow.
    pub positions: Arc<HostPositions>,
    /// The hosts that are gone, by name.
    pub absent: BTreeMap<String, AbsentHost>,
    /// The state of the fabric; every result repeats it.
    pub generation: u64,
    ports: Vec<FabricPort>,
    by_node: BTreeMap<(Guid, PortNum), u32>,
    by_system: BTreeMap<Guid, Vec<u32>>,
    by_description: BTreeMap<String, BTreeMap<String, Vec<u32>>>,
    /// The hosts whose descriptions have a domain, by the first part of their names.
    by_first_part: BTreeMap<String, Vec<String>>,
    by_leaf_port: BTreeMap<(SwitchIdx, PortNum), u32>,
}

impl GpuFabric {
    /// The fabric with these ports of adapters; ports in no order, GUIDs unique.
    pub fn new(
        topology: Arc<Topology>,
        tables: Option<Arc<Tables>>,
        switch_names: Vec<String>,
        mut ports: Vec<FabricPort>,
        generation: u64,
    ) -> GpuFabric {
        ports.sort_by_key(|port| port.guid);
        let mut fabric = GpuFabric {
            topology,
            tables,
            switch_names,
            positions: Arc::default(),
            absent: BTreeMap::new(),
            generation,
            ports: Vec::new(),
            by_node: BTreeMap::new(),
            by_system: BTreeMap::new(),
            by_description: BTreeMap::new(),
            by_first_part: BTreeMap::new(),
            by_leaf_port: BTreeMap::new(),
        };
        // Ports are destinations, of which there are fewer than LIDs.
        for (index, port) in (0u32..).zip(&ports) {
            fabric.by_node.insert((port.node_guid, port.port), index);
            if !port.system_image_guid.is_zero() {
                fabric
                    .by_system
                    .entry(port.system_image_guid)
                    .or_default()
                    .push(index);
            }
            if let Some((host, device)) = port.host_and_device() {
                let host = fabric.by_description.entry(host.to_owned()).or_default();
                host.entry(device.to_owned()).or_default().push(index);
            }
            fabric
                .by_leaf_port
                .insert((port.leaf, port.leaf_port), index);
        }
        for host in fabric.by_description.keys() {
            if let Some((first, _)) = host.split_once('.') {
                let hosts = fabric.by_first_part.entry(first.to_owned()).or_default();
                hosts.push(host.clone());
            }
        }
        fabric.ports = ports;
        fabric
    }

    /// A netlist as a subnet manager would run it, with the LIDs of `topology`.
    pub fn from_netlist(
        netlist: &Netlist,
        topology: Arc<Topology>,
        tables: Option<Arc<Tables>>,
        mtu: u16,
    ) -> GpuFabric {
        let mut names = vec![String::new(); topology.switch_count()];
        let mut ports = Vec::new();
        for (index, node) in netlist.nodes().iter().enumerate() {
            if node.kind == NodeKind::Switch {
                if let Some(switch) = topology.switch_by_guid(node.guid) {
                    names[switch.index()] = node.name();
                }
                continue;
            }
            if node.is_aggregation_node() {
                continue;
            }
            for port in node.end_ports() {
                let Some(cable) = netlist.cable((index, port)) else {
                    continue;
                };
                let (peer, leaf_port) = cable.across((index, port));
                let Some(leaf) = topology.switch_by_guid(netlist.nodes()[peer].guid) else {
                    continue;
                };
                let PortUse::Destination(at) = topology.port_use(leaf, leaf_port) else {
                    continue;
                };
                let destination = &topology.destinations()[at as usize];
                ports.push(FabricPort {
                    guid: destination.guid,
                    node_guid: node.guid,
                    system_image_guid: node.system_image_guid,
                    port,
                    description: node.name(),
                    lid: destination.lid,
                    lmc: destination.lmc,
                    leaf,
                    leaf_port,
                    // The fastest link has 2,400 Gb/s.
                    rate_tenth_gbps: (cable.rate().gbps() * 10.0) as u16,
                    mtu,
                });
            }
        }
        GpuFabric::new(topology, tables, names, ports, 0)
    }

    /// Every port, in the order of GUIDs.
    pub fn ports(&self) -> &[FabricPort] {
        &self.ports
    }

    /// A port by its place.
    ///
    /// # Panics
    /// When the place is of another fabric.
    pub fn port(&self, index: u32) -> &FabricPort {
        &self.ports[index as usize]
    }

    /// The port with a GUID.
    pub fn by_guid(&self, guid: Guid) -> Option<u32> {
        let found = self
            .ports
            .binary_search_by_key(&guid, |port| port.guid)
            .ok();
        found.map(|index| index as u32)
    }

    /// A port of the node with a GUID.
    pub fn by_node(&self, guid: Guid, port: PortNum) -> Option<u32> {
        self.by_node.get(&(guid, port)).copied()
    }

    /// The ports with this system image GUID, mostly those of one card.
    pub fn by_system(&self, guid: Guid) -> &[u32] {
        self.by_system.get(&guid).map_or(&[], Vec::as_slice)
    }

    /// The ports whose nodes are described as a device of a host.
    pub fn by_description(&self, host: &str, device: &str) -> &[u32] {
        self.devices(host)
            .and_then(|host| host.get(device))
            .map_or(&[], Vec::as_slice)
    }

    /// The name of a host in descriptions: its own, or with a domain on one of the two sides the
    /// one whose first part is the same. Two domains are two hosts.
    pub fn described_host(&self, host: &str) -> Option<&str> {
        let same = |name: &str| Some(self.by_description.get_key_value(name)?.0.as_str());
        let other = || match host.split_once('.') {
            Some((first, _)) => same(first),
            None => match &self.by_first_part.get(host)?[..] {
                [only] => Some(only.as_str()),
                _ => None,
            },
        };
        same(host).or_else(other)
    }

    /// The hosts that descriptions name, each with its devices, both in the order of their names.
    pub fn hosts(&self) -> impl Iterator<Item = (&str, &BTreeMap<String, Vec<u32>>)> {
        self.by_description
            .iter()
            .map(|(host, devices)| (host.as_str(), devices))
    }

    /// The devices of one host, see [`GpuFabric::described_host`].
    pub fn devices(&self, host: &str) -> Option<&BTreeMap<String, Vec<u32>>> {
        self.by_description.get(self.described_host(host)?)
    }

    /// The port cabled to a port of a switch.
    pub fn at(&self, leaf: SwitchIdx, port: PortNum) -> Option<u32> {
        self.by_leaf_port.get(&(leaf, port)).copied()
    }

    /// The name of a switch: its description without control characters, which could end a line of
    /// a file, or its GUID where it has none.
    pub fn switch_name(&self, switch: SwitchIdx) -> String {
        match self.switch_names.get(switch.index()) {
            Some(name) if !name.is_empty() => name.replace(char::is_control, "\u{fffd}"),
            _ => self.topology.switch(switch).guid.to_string(),
        }
    }
}
