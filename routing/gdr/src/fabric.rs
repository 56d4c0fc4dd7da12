//! The fabric as the subnet manager sees it, limited to what hints need.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use rsm_ids::{Guid, Lid, Lmc, PortNum};

use super::positions::HostPositions;
use rsm_routing::netlist::{Netlist, NodeKind, is_model};
use rsm_routing::tables::Tables;
use rsm_routing::topology::{PortUse, SwitchIdx, Topology};

/// A port of a channel adapter, cabled to a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FabricPort {
    /// The port's GUID.
    pub guid: Guid,
    /// The node GUID.
    pub node_guid: Guid,
    /// The system image GUID of the card; [`Guid::ZERO`] if none is stated.
    pub system_image_guid: Guid,
    /// The port number at the node.
    pub port: PortNum,
    /// NodeDescription, with replacement characters for invalid UTF-8.
    pub description: String,
    /// The base LID of the port.
    pub lid: Lid,
    /// The LMC: the port has 2^LMC LIDs.
    pub lmc: Lmc,
    /// The switch to which the port is cabled.
    pub leaf: SwitchIdx,
    /// The port of that switch.
    pub leaf_port: PortNum,
    /// The rate of the cable in tenths of Gb/s, as IBA 15.2.5.16 lists rates.
    pub rate_tenth_gbps: u16,
    /// The MTU in bytes, 256 to 4096.
    pub mtu: u16,
}

impl FabricPort {
    /// The host and the device in the NodeDescription; see [`host_and_device`].
    pub fn host_and_device(&self) -> Option<(&str, &str)> {
        host_and_device(&self.description)
    }
}

/// The host and the device of a NodeDescription of the customary form, `host-001 mlx5_0`.
///
/// `None` for any other text, such as the model name that firmware sets.
pub fn host_and_device(description: &str) -> Option<(&str, &str)> {
    let mut words = description.split_whitespace();
    let (host, device) = (words.next()?, words.next()?);
    (words.next().is_none() && !is_model(host)).then_some((host, device))
}

/// A place in the fabric where a device of a host was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormerPlace {
    /// The switch and its port, as text.
    pub place: String,
    /// The time when the host was last present, as text that follows `until`.
    pub until: String,
    /// The host's name in the device's description; `None` if it is the name of the host's
    /// inventory, with or without the domain.
    pub other_name: Option<String>,
}

impl fmt::Display for FormerPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} until {}", self.place, self.until)?;
        match &self.other_name {
            Some(name) => write!(f, " (there called {name})"),
            None => Ok(()),
        }
    }
}

/// A host with devices that were in the fabric and are not there now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AbsentHost {
    /// The absent devices by name, each with its former place.
    pub devices: BTreeMap<String, FormerPlace>,
    /// The former place of the first absent device.
    pub first: FormerPlace,
    /// The other hosts whose inventories have node GUIDs of the absent devices.
    pub claimants: BTreeSet<String>,
}

/// The fabric that inventories are joined with.
#[derive(Clone, Debug)]
pub struct GpuFabric {
    /// The switches.
    pub topology: Arc<Topology>,
    /// The programmed tables; `None` if unknown.
    pub tables: Option<Arc<Tables>>,
    /// The description of each switch, by its number.
    pub switch_names: Vec<String>,
    /// The positions of compute ports in the order that routes follow.
    pub positions: Arc<HostPositions>,
    /// The absent hosts, by name.
    pub absent: BTreeMap<String, AbsentHost>,
    /// The generation of the fabric, which every result repeats.
    pub generation: u64,
    /// The ports, sorted by GUID. The maps below have indices of this list.
    ports: Vec<FabricPort>,
    /// The port by node GUID and port number.
    by_node: BTreeMap<(Guid, PortNum), u32>,
    /// The ports by system image GUID.
    by_system: BTreeMap<Guid, Vec<u32>>,
    /// The ports by host and device in their descriptions.
    by_description: BTreeMap<String, BTreeMap<String, Vec<u32>>>,
    /// The hosts whose names in descriptions have a domain, by the first part of the name.
    by_first_part: BTreeMap<String, Vec<String>>,
    /// The adapter port by the switch port to which it is cabled.
    by_leaf_port: BTreeMap<(SwitchIdx, PortNum), u32>,
}

impl GpuFabric {
    /// The record of a host that left the fabric, under its name or under the name without the
    /// domain; `None` if there is no such record.
    pub fn absent_host(&self, name: &str) -> Option<&AbsentHost> {
        let first = name.split('.').next().unwrap_or_default();
        self.absent.get(name).or_else(|| self.absent.get(first))
    }

    /// Creates a fabric with these adapter ports, in any order; GUIDs must be unique.
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
        // Ports are destinations; there are fewer of them than LIDs.
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

    /// Creates the fabric that a subnet manager would see if it ran the netlist with the LIDs of
    /// `topology`. All ports have the MTU `mtu`.
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
                    // The fastest link has 2,400 Gb/s: 24,000 tenths fit 16 bits.
                    rate_tenth_gbps: (cable.rate().gbps() * 10.0) as u16,
                    mtu,
                });
            }
        }
        GpuFabric::new(topology, tables, names, ports, 0)
    }

    /// All ports, sorted by GUID.
    pub fn ports(&self) -> &[FabricPort] {
        &self.ports
    }

    /// The port at an index of [`GpuFabric::ports`].
    ///
    /// # Panics
    /// If the index belongs to another fabric.
    pub fn port(&self, index: u32) -> &FabricPort {
        &self.ports[index as usize]
    }

    /// The index of the port with a port GUID; `None` if no port has the GUID.
    pub fn by_guid(&self, guid: Guid) -> Option<u32> {
        let found = self
            .ports
            .binary_search_by_key(&guid, |port| port.guid)
            .ok();
        found.map(|index| index as u32)
    }

    /// The index of a port of the node with a node GUID; `None` if there is no such port.
    pub fn by_node(&self, guid: Guid, port: PortNum) -> Option<u32> {
        self.by_node.get(&(guid, port)).copied()
    }

    /// The ports with this system image GUID, usually the ports of one card.
    pub fn by_system(&self, guid: Guid) -> &[u32] {
        self.by_system.get(&guid).map_or(&[], Vec::as_slice)
    }

    /// The ports whose NodeDescription states this host and device.
    pub fn by_description(&self, host: &str, device: &str) -> &[u32] {
        self.devices(host)
            .and_then(|host| host.get(device))
            .map_or(&[], Vec::as_slice)
    }

    /// The name that descriptions use for a host: the host's own name, or, if only one of the two
    /// has a domain, the name with the same first part. Names with two different domains are two
    /// hosts. `None` if no description fits, or if several hosts have that first part.
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

    /// The hosts in descriptions, each with its devices, both sorted by name.
    pub fn hosts(&self) -> impl Iterator<Item = (&str, &BTreeMap<String, Vec<u32>>)> {
        self.by_description
            .iter()
            .map(|(host, devices)| (host.as_str(), devices))
    }

    /// The devices of one host, each with its ports; `None` if [`GpuFabric::described_host`] finds
    /// no name for the host.
    pub fn devices(&self, host: &str) -> Option<&BTreeMap<String, Vec<u32>>> {
        self.by_description.get(self.described_host(host)?)
    }

    /// The adapter port cabled to a port of a switch; `None` if no adapter is cabled to it.
    pub fn at(&self, leaf: SwitchIdx, port: PortNum) -> Option<u32> {
        self.by_leaf_port.get(&(leaf, port)).copied()
    }

    /// The name of a switch: its description without control characters, which could end a line of
    /// a file; the GUID of a switch without a description.
    pub fn switch_name(&self, switch: SwitchIdx) -> String {
        match self.switch_names.get(switch.index()) {
            Some(name) if !name.is_empty() => name.replace(char::is_control, "\u{fffd}"),
            _ => self.topology.switch(switch).guid.to_string(),
        }
    }
}
