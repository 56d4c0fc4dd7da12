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
/// The number of leaves at each spine of a fabric with several spines, whose last two ports lead to
/// the spines before and after it.
const LEAVES_PER_SPINE: usize = RADIX as usize - 2;
/// The number of hosts whose two adapters share a pair of storage switches.
const HOSTS_PER_SWITCH: usize = 56;
/// The number of storage adapters of a host.
const ADAPTERS: usize = 2;
/// The number of servers at each storage switch.
const SERVERS: usize = 4;
/// The number of the first spine in GUIDs; leaves are numbered from 0.
const FIRST_SPINE: usize = 0xffff;
/// The base of GUIDs that no other generator uses.
const GUIDS: u64 = 0x0050_5603_0000_0000;

impl Storage {
    /// GUID of the device `nth` of `index`. `kind` is 0 for switches, 1 for adapters of hosts, and
    /// 2 for storage servers.
    fn guid(kind: u64, index: usize, nth: usize) -> Guid {
        Guid(GUIDS + (kind << 28) + ((index as u64) << 8) + ((nth as u64) << 4))
    }

    /// Adds the storage adapters to the inventory of the `place`-th host.
    pub(super) fn add_ports(self, place: usize, host: &mut HostInventory) {
        if self == Storage::None {
            return;
        }
        let before = host.hca_ports.len();
        for nth in 0..ADAPTERS {
            let node = Storage::guid(1, place, nth);
            let mut port = HcaPort::new(Some(format!("mlx5_{}", before + nth)));
            // Bus 0x70 of processor 0 or bus 0xf0 of processor 1, after all other devices. With
            // `NearGpu` as well: only the tiers say that the first adapter is near the first GPU.
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
                let is_near_first_adapter = tiers[gpu * (before + ADAPTERS)] == Some(Tier::Pix);
                tiers.push(Some(match () {
                    () if self == Storage::NearGpu && nth == 0 && is_near_first_adapter => {
                        Tier::Pix
                    }
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
        let pairs = hosts.len().div_ceil(HOSTS_PER_SWITCH);
        let top = nodes.len();
        let leaves_per_spine = add_spines(pairs * ADAPTERS, nodes, cables);
        let mut leaves = Vec::new();
        for pair in 0..pairs {
            for nth in 0..ADAPTERS {
                let number = pair * ADAPTERS + nth;
                let leaf = nodes.len();
                nodes.push(switch(
                    Storage::guid(0, number, 0),
                    &format!("storage-leaf-{number}"),
                ));
                leaves.push(leaf);
                let (spine, place) = (number / leaves_per_spine, number % leaves_per_spine);
                cables.push(cable((top + spine, place + 1), (leaf, RADIX.into())));
                for server in 0..SERVERS {
                    let node = nodes.len();
                    let name = format!("store-{number}-{server} mlx5_0");
                    nodes.push(adapter(
                        Storage::guid(2, number * SERVERS + server, 0),
                        &name,
                    ));
                    let port = HOSTS_PER_SWITCH + 1 + server;
                    cables.push(cable((leaf, port), (node, 1)));
                }
            }
        }
        for (place, host) in hosts.iter().enumerate() {
            let prefix = format!("{host} ").into_bytes();
            let of_host = nodes
                .iter()
                .filter(|node| node.description.starts_with(&prefix));
            let before = of_host.count();
            for nth in 0..ADAPTERS {
                let node = nodes.len();
                nodes.push(adapter(
                    Storage::guid(1, place, nth),
                    &format!("{host} mlx5_{}", before + nth),
                ));
                let leaf = leaves[place / HOSTS_PER_SWITCH * ADAPTERS + nth];
                cables.push(cable((leaf, place % HOSTS_PER_SWITCH + 1), (node, 1)));
            }
        }
    }
}

/// Adds the spines above `leaves` leaves: one spine, or as many as needed, cabled in a line.
/// Returns the number of leaves at each spine; they have the spine's ports from 1 on.
fn add_spines(leaves: usize, nodes: &mut Vec<Node>, cables: &mut Vec<Cable>) -> usize {
    let (count, leaves_per_spine) = match leaves <= usize::from(RADIX) {
        true => (1, usize::from(RADIX)),
        false => (leaves.div_ceil(LEAVES_PER_SPINE), LEAVES_PER_SPINE),
    };
    for spine in 0..count {
        let name = match spine {
            0 => "storage-spine".to_owned(),
            _ => format!("storage-spine-{spine}"),
        };
        let node = nodes.len();
        nodes.push(switch(Storage::guid(0, FIRST_SPINE + spine, 0), &name));
        if spine > 0 {
            cables.push(cable(
                (node - 1, LEAVES_PER_SPINE + 1),
                (node, LEAVES_PER_SPINE + 2),
            ));
        }
    }
    leaves_per_spine
}

/// A cable between two ends, each a node and its port.
fn cable(a: (usize, usize), b: (usize, usize)) -> Cable {
    let [a, b] = [a, b].map(|(node, port)| (node, PortNum(port as u8)));
    Cable {
        a,
        b,
        width: LinkWidth::X4,
        speed: LinkSpeed::Ndr,
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

#[cfg(test)]
mod tests {
    use super::*;
    use rsm_routing::netlist::Netlist;

    fn fabric(hosts: usize) -> Netlist {
        let names: Vec<String> = (0..hosts).map(|host| format!("host-{host:05}")).collect();
        let borrowed: Vec<&String> = names.iter().collect();
        let (mut nodes, mut cables) = (Vec::new(), Vec::new());
        Storage::Far.add_fabric(&borrowed, &mut nodes, &mut cables);
        Netlist::new(nodes, cables).unwrap()
    }

    #[test]
    fn fabric_of_more_hosts_than_one_spine_joins_has_several_spines_in_a_line() {
        for (hosts, spines) in [(1, 1), (32 * 56, 1), (32 * 56 + 1, 2), (63 * 56, 3)] {
            let netlist = fabric(hosts);
            let is_spine = |node: &Node| node.name().starts_with("storage-spine");
            let count = netlist.nodes().iter().filter(|node| is_spine(node)).count();
            assert_eq!(count, spines, "{hosts} hosts");
            // Every node is reached from the first node, and no cable is in a cycle.
            let mut joined: Vec<usize> = (0..netlist.nodes().len()).collect();
            fn root(joined: &mut [usize], mut at: usize) -> usize {
                while joined[at] != at {
                    joined[at] = joined[joined[at]];
                    at = joined[at];
                }
                at
            }
            for cable in netlist.cables() {
                let ends = [cable.a.0, cable.b.0].map(|end| root(&mut joined, end));
                assert_ne!(ends[0], ends[1], "{hosts} hosts");
                joined[ends[0]] = ends[1];
            }
            assert_eq!(netlist.cables().len() + 1, netlist.nodes().len());
        }
    }
}
