//! Storage networks of generated fabrics: adapters of hosts, switches and servers beside the rails.

use rsm_ids::{Guid, PortNum};

use crate::inventory::{HcaPort, HostInventory, LinkLayer, PciAddress, Tier};
use rsm_routing::netlist::{Cable, LinkSpeed, LinkWidth, Node, NodeKind, PortSpec};

/// The storage connections of hosts beside the rails.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Storage {
    /// Hosts have no storage adapters.
    #[default]
    None,
    /// Every host has two adapters on separate switches, far from the GPUs.
    Far,
    /// Every host has two adapters as with `Far`, one of them under the PCIe switch of the first
    /// GPU.
    NearGpu,
}

/// The number of ports of a storage switch.
const RADIX: u8 = 64;
/// The number of hosts whose two adapters share a pair of storage switches.
const HOSTS_PER_SWITCH: usize = 56;
/// The number of storage adapters of a host.
const ADAPTERS: usize = 2;
/// The number of servers at each storage switch.
const SERVERS: usize = 4;
/// The base of GUIDs that no other generator uses.
const GUIDS: u64 = 0x0050_5603_0000_0000;

impl Storage {
    /// GUID of the device `nth` of `index`. `kind` is 0 for switches, 1 for adapters of hosts, and
    /// 2 for storage servers.
    fn guid(kind: u64, index: usize, nth: usize) -> Guid {
        Guid(GUIDS + (kind << 28) + ((index as u64) << 8) + ((nth as u64) << 4))
    }

    /// Adds the storage adapters to the inventory of the `place`-th host.
    pub(super) fn add_ports(self, _name: &str, place: usize, host: &mut HostInventory) {
        if self == Storage::None {
            return;
        }
        let before = host.hca_ports.len();
        for nth in 0..ADAPTERS {
            let node = Storage::guid(1, place, nth);
            let mut port = HcaPort::new(Some(format!("mlx5_{}", before + nth)));
            // Bus 0x70 of processor 0 or bus 0xf0 of processor 1, after all other devices.
            let bus = [0x70, 0xf0][nth % 2];
            port.pci = Some(PciAddress {
                domain: 0,
                bus,
                device: 0,
                function: 0,
            });
            port.numa = Some(nth as u16);
            port.node_guid = Some(node);
            port.port_guid = Some(Guid(node.0 + 1));
            port.link_layer = Some(LinkLayer::InfiniBand);
            port.active = Some(true);
            host.hca_ports.push(port);
        }
        let mut tiers = Vec::with_capacity(host.gpus.len() * host.hca_ports.len());
        for (gpu, entry) in host.gpus.iter().enumerate() {
            tiers.extend_from_slice(&host.tiers[gpu * before..(gpu + 1) * before]);
            for nth in 0..ADAPTERS {
                let first = tiers[gpu * (before + ADAPTERS)] == Some(Tier::Pix);
                tiers.push(Some(match () {
                    () if self == Storage::NearGpu && nth == 0 && first => Tier::Pix,
                    () if entry.numa == Some(nth as u16) => Tier::Node,
                    () => Tier::Sys,
                }));
            }
        }
        host.tiers = tiers;
    }

    /// Adds storage switches, servers and the hosts' adapters to a fabric.
    pub(super) fn add_fabric(
        self,
        hosts: &[&String],
        nodes: &mut Vec<Node>,
        cables: &mut Vec<Cable>,
    ) {
        if self == Storage::None {
            return;
        }
        let top = nodes.len();
        nodes.push(switch(Storage::guid(0, 0xffff, 0), "storage-spine"));
        let mut leaves = Vec::new();
        let join = |cables: &mut Vec<Cable>, switch: usize, port: usize, node: usize| {
            cables.push(Cable {
                a: (switch, PortNum(port as u8)),
                b: (node, PortNum(1)),
                width: LinkWidth::X4,
                speed: LinkSpeed::Ndr,
            });
        };
        for pair in 0..hosts.len().div_ceil(HOSTS_PER_SWITCH) {
            for nth in 0..ADAPTERS {
                let number = pair * ADAPTERS + nth;
                let leaf = nodes.len();
                nodes.push(switch(
                    Storage::guid(0, number, 0),
                    &format!("storage-leaf-{number}"),
                ));
                leaves.push(leaf);
                cables.push(Cable {
                    a: (top, PortNum(number as u8 + 1)),
                    b: (leaf, PortNum(RADIX)),
                    width: LinkWidth::X4,
                    speed: LinkSpeed::Ndr,
                });
                for server in 0..SERVERS {
                    let node = nodes.len();
                    let name = format!("store-{number}-{server} mlx5_0");
                    nodes.push(adapter(
                        Storage::guid(2, number * SERVERS + server, 0),
                        &name,
                    ));
                    join(cables, leaf, HOSTS_PER_SWITCH + 1 + server, node);
                }
            }
        }
        for (place, host) in hosts.iter().enumerate() {
            for nth in 0..ADAPTERS {
                let node = nodes.len();
                let number = nodes
                    .iter()
                    .filter(|node| node.description.starts_with(format!("{host} ").as_bytes()))
                    .count();
                nodes.push(adapter(
                    Storage::guid(1, place, nth),
                    &format!("{host} mlx5_{number}"),
                ));
                let leaf = leaves[place / HOSTS_PER_SWITCH * ADAPTERS + nth];
                join(cables, leaf, place % HOSTS_PER_SWITCH + 1, node);
            }
        }
    }
}

fn switch(guid: Guid, name: &str) -> Node {
    node(NodeKind::Switch, guid, name, RADIX)
}

fn adapter(guid: Guid, name: &str) -> Node {
    let mut node = node(NodeKind::Ca, guid, name, 1);
    let spec = PortSpec {
        guid: Guid(guid.0 + 1),
        lid: rsm_ids::Lid::NONE,
        lmc: rsm_ids::Lmc::ZERO,
    };
    node.ports.insert(PortNum(1), spec);
    node
}

fn node(kind: NodeKind, guid: Guid, name: &str, num_ports: u8) -> Node {
    Node {
        kind,
        guid,
        system_image_guid: guid,
        vendor_id: 0x2c9,
        device_id: 0x1021,
        description: name.as_bytes().to_vec(),
        num_ports,
        enhanced_port0: false,
        ports: std::collections::BTreeMap::new(),
    }
}
