//! Generates inventories for simulated fabrics, and faults with known findings.
//!
//! Hosts follow from the NodeDescriptions. A host has as many GPUs as adapters: GPU k and adapter k
//! are under one PCIe switch, half of them at each of two processors, and all GPUs are on
//! NVSwitches.

mod cables;
mod storage;

use std::collections::{BTreeMap, BTreeSet};

use rsm_ids::Guid;

use super::findings::GpuFindingKind;
use super::hosts::{GpuInventory, HostError};
use super::inventory::{
    Gpu, HcaPort, HostInventory, InventorySource, LinkFamily, LinkLayer, NvLink, PciAddress,
    PcieLink, Tier,
};
use rsm_routing::generate::rng::Rng;
use rsm_routing::netlist::{Netlist, NetlistError, Node, NodeKind};

pub use cables::{recabled, with_servers};
pub use storage::Storage;

/// The PCIe link of each GPU and adapter.
const PCIE: PcieLink = PcieLink {
    width: 16,
    tenth_gts: 320,
};

/// The firmware of each adapter.
const FIRMWARE: &str = "28.39.1002";

/// The number of NVLinks from each GPU to the switches, as on H100.
const NVLINKS: u8 = 18;
/// The bus of the first function at each of the two processors.
const BUSES: [u8; 2] = [0x10, 0x90];

/// The faults of a generated fleet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FleetFaults {
    /// The number of hosts whose GPUs are numbered in another order than their PCI addresses.
    pub gpu_order: usize,
    /// The number of hosts whose adapters are named in another order than their PCI addresses.
    pub hca_order: usize,
    /// The number of pairs of exchanged cables.
    pub swapped_cables: usize,
    /// The number of GPUs with one NVLink down.
    pub nvlinks: usize,
    /// The connections of the hosts' storage ports.
    pub storage: Storage,
    /// The seed for the choice of hosts, GPUs and cables.
    pub seed: u64,
}

/// The finding that a fault must cause.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ExpectedFinding {
    /// The kind of the finding.
    pub kind: GpuFindingKind,
    /// The hosts of the finding: all hosts with this fault, or both ends of exchanged cables.
    pub hosts: BTreeSet<String>,
    /// The ports of the finding, as `host device`; empty if only the kind matters.
    pub ports: BTreeSet<String>,
    /// The GPUs of the finding, by index.
    pub gpus: Vec<u16>,
}

/// A fabric, the inventories of its hosts, and their faults.
#[derive(Clone, Debug)]
pub struct Fleet {
    /// The fabric with its faults.
    pub netlist: Netlist,
    /// The inventories of the hosts.
    pub inventory: GpuInventory,
    /// The complete list of expected findings, sorted.
    pub expected: Vec<ExpectedFinding>,
}

/// The reason why there is no fleet.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FleetError {
    /// The description of a node is not a host name.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The netlist with the faults breaks a rule.
    #[error(transparent)]
    Netlist(#[from] NetlistError),
}

/// The hosts of a fabric by name; for each adapter of a host, the device number and the node.
type Hosts = BTreeMap<String, BTreeMap<u32, usize>>;

/// Generates a fleet for a fabric, with faults.
///
/// # Errors
/// The names or device numbers of a host do not suit an inventory.
pub fn fleet(netlist: Netlist, faults: FleetFaults) -> Result<Fleet, FleetError> {
    let mut rng = Rng::new(faults.seed);
    let hosts = hosts(&netlist);
    let names: Vec<&String> = hosts.keys().collect();
    let places = DrawnFaults::draw(&hosts, faults, &mut rng);
    let (mut nodes, mut cables) = netlist.clone().into_parts();
    let mut expected = Vec::new();
    for ends in &places.swapped_cables {
        expected.extend(swap(&netlist, &mut cables, ends));
    }
    let mut inventory = GpuInventory::new();
    for (place, (name, devices)) in hosts.iter().enumerate() {
        let gpu_at = order(devices.len(), places.gpu_order.contains(&place), &mut rng);
        let name_at = order(devices.len(), places.hca_order.contains(&place), &mut rng);
        let numbers: Vec<u32> = devices.keys().copied().collect();
        let adapters: Vec<usize> = devices.values().copied().collect();
        let mut host = host(&nodes, &adapters, &gpu_at);
        for (slot, (&node, &named)) in adapters.iter().zip(&name_at).enumerate() {
            let device = format!("mlx5_{}", numbers[named]);
            nodes[node].description = format!("{name} {device}").into_bytes();
            host.hca_ports[slot].device = Some(device);
        }
        for gpu in places.gpus_with_nvlink_down(place) {
            break_link(&mut host, gpu);
            let mut finding = expectation(GpuFindingKind::NvLinkDegraded, name);
            finding.gpus = vec![host.gpus[gpu].index];
            expected.push(finding);
        }
        faults.storage.add_ports(place, &mut host);
        inventory.insert(name, host, 0)?;
    }
    expected.extend(places.order_findings(&names));
    faults.storage.add_fabric(&names, &mut nodes, &mut cables);
    expected.sort();
    Ok(Fleet {
        netlist: Netlist::new(nodes, cables)?,
        inventory,
        expected,
    })
}

/// The hosts, GPUs and cables with faults; hosts are numbered in the order of their names.
struct DrawnFaults {
    /// The hosts whose GPUs are numbered in another order.
    gpu_order: BTreeSet<usize>,
    /// The hosts whose adapters are named in another order.
    hca_order: BTreeSet<usize>,
    /// The pairs of adapters whose cables are exchanged, each as (host, device number, node).
    swapped_cables: Vec<[(String, u32, usize); 2]>,
    /// The GPUs with one NVLink down, as (host, GPU).
    nvlinks: BTreeSet<(usize, usize)>,
}

impl DrawnFaults {
    /// Draws the places of the faults, limited by the number of hosts.
    fn draw(hosts: &Hosts, faults: FleetFaults, rng: &mut Rng) -> DrawnFaults {
        let devices: Vec<(&String, &BTreeMap<u32, usize>)> = hosts.iter().collect();
        // A host has at most one fault of order or cables, so that each fault has a finding of its
        // own.
        let mut free = rng.sample(devices.len(), devices.len());
        shuffle(&mut free, rng);
        let mut take = |count: usize| free.split_off(free.len() - count.min(free.len()));
        let gpu_order = take(faults.gpu_order).into_iter().collect();
        let hca_order = take(faults.hca_order).into_iter().collect();
        let with_cables = take(2 * faults.swapped_cables);
        let mut any_adapter = |host: usize| {
            let (name, devices) = devices[host];
            let nth = rng.below(devices.len());
            let (&device, &node) = devices.iter().nth(nth).unwrap_or((&0, &0));
            (name.clone(), device, node)
        };
        let swapped_cables = with_cables
            .chunks_exact(2)
            .map(|pair| [pair[0], pair[1]].map(&mut any_adapter))
            .collect();
        let mut nvlinks = BTreeSet::new();
        while nvlinks.len() < faults.nvlinks.min(devices.len()) {
            let host = rng.below(devices.len());
            nvlinks.insert((host, rng.below(devices[host].1.len())));
        }
        DrawnFaults {
            gpu_order,
            hca_order,
            swapped_cables,
            nvlinks,
        }
    }

    /// The GPUs of a host with one NVLink down.
    fn gpus_with_nvlink_down(&self, host: usize) -> impl Iterator<Item = usize> {
        self.nvlinks
            .range((host, 0)..(host + 1, 0))
            .map(|&(_, gpu)| gpu)
    }

    /// The findings about another order of GPUs or adapters, one for all hosts that share the
    /// order.
    fn order_findings(&self, names: &[&String]) -> Vec<ExpectedFinding> {
        let kinds = [
            (GpuFindingKind::RailOrderGpus, &self.gpu_order),
            (GpuFindingKind::RailOrderHcas, &self.hca_order),
        ];
        let finding = |(kind, places): (GpuFindingKind, &BTreeSet<usize>)| {
            let hosts: BTreeSet<String> =
                places.iter().map(|&place| names[place].clone()).collect();
            let first = hosts.first()?.clone();
            Some(ExpectedFinding {
                hosts,
                ..expectation(kind, &first)
            })
        };
        kinds.into_iter().filter_map(finding).collect()
    }
}

/// The expected finding about one host, without ports and GPUs.
fn expectation(kind: GpuFindingKind, host: &str) -> ExpectedFinding {
    ExpectedFinding {
        kind,
        hosts: BTreeSet::from([host.to_owned()]),
        ports: BTreeSet::new(),
        gpus: Vec::new(),
    }
}

/// The hosts in descriptions; each host has its adapters by the number at the end of the device
/// name.
fn hosts(netlist: &Netlist) -> Hosts {
    let mut hosts = Hosts::new();
    for (index, node) in netlist.nodes().iter().enumerate() {
        if node.kind != NodeKind::Ca || node.is_aggregation_node() {
            continue;
        }
        let text = node.name();
        let mut words = text.split_whitespace();
        let (Some(host), Some(device), None) = (words.next(), words.next(), words.next()) else {
            continue;
        };
        if let Some(number) = device
            .rsplit('_')
            .next()
            .and_then(|digits| digits.parse().ok())
        {
            hosts
                .entry(host.to_owned())
                .or_default()
                .insert(number, index);
        }
    }
    hosts
}

fn shuffle<T>(list: &mut [T], rng: &mut Rng) {
    for at in (1..list.len()).rev() {
        list.swap(at, rng.below(at + 1));
    }
}

/// The natural order of `count` items, or another order if `is_other`.
fn order(count: usize, is_other: bool, rng: &mut Rng) -> Vec<usize> {
    match is_other {
        true => another_order(count, rng),
        false => (0..count).collect(),
    }
}

/// An order of `count` items that differs from the natural order, if there is one.
fn another_order(count: usize, rng: &mut Rng) -> Vec<usize> {
    let natural: Vec<usize> = (0..count).collect();
    let mut order = natural.clone();
    while count > 1 && order == natural {
        shuffle(&mut order, rng);
    }
    order
}

/// The NUMA node and the address of the GPU or adapter in slot `slot` of `count`: half of the slots
/// are behind each processor.
fn address(slot: usize, count: usize, device: u8) -> (u16, PciAddress) {
    let numa = usize::from(slot >= count.div_ceil(2) && count > 1);
    // Each processor has at most 32 slots.
    let bus = BUSES[numa].saturating_add((slot % 32) as u8 * 2);
    (
        numa as u16,
        PciAddress {
            domain: 0,
            bus,
            device,
            function: 0,
        },
    )
}

/// A host with an adapter for each node and a GPU beside each adapter: GPU number `gpu` is in slot
/// `gpu_at[gpu]`.
fn host(nodes: &[Node], adapters: &[usize], gpu_at: &[usize]) -> HostInventory {
    let count = adapters.len();
    let mut host = HostInventory::empty(InventorySource::Generated);
    host.machine = Some("simulated".to_owned());
    for (slot, &node) in adapters.iter().enumerate() {
        let node = &nodes[node];
        let (numa, pci) = address(slot, count, 0);
        let mut port = HcaPort::new(None);
        port.pci = Some(pci);
        port.numa = Some(numa);
        port.pcie = Some(PCIE);
        port.firmware = Some(FIRMWARE.to_owned());
        port.node_guid = Some(node.guid);
        port.port_guid = Some(node.port(rsm_ids::PortNum(1)).guid);
        port.system_image_guid = Some(node.system_image_guid).filter(|guid| *guid != Guid::ZERO);
        port.link_layer = Some(LinkLayer::InfiniBand);
        port.active = Some(true);
        host.hca_ports.push(port);
    }
    for (index, &slot) in (0u16..).zip(gpu_at) {
        let (numa, pci) = address(slot, count, 1);
        host.gpus.push(Gpu {
            index,
            pci: Some(pci),
            numa: Some(numa),
            pcie: Some(PCIE),
            switch_links: Some(NVLINKS),
            gdr: Some(true),
            ..Gpu::default()
        });
        host.tiers.extend((0..count).map(|port| {
            let same_processor = address(port, count, 0).0 == numa;
            Some(match () {
                () if port == slot => Tier::Pix,
                () if same_processor => Tier::Node,
                () => Tier::Sys,
            })
        }));
    }
    host.link_family = LinkFamily::NvLink {
        generation: Some(4),
    };
    host.nvlinks_known = true;
    for a in 0..count as u16 {
        host.nvlinks.extend((a + 1..count as u16).map(|b| NvLink {
            a,
            b,
            links: NVLINKS,
        }));
    }
    host
}

/// Takes down one NVLink of a GPU.
fn break_link(host: &mut HostInventory, gpu: usize) {
    host.gpus[gpu].switch_links = Some(NVLINKS - 1);
    for link in &mut host.nvlinks {
        if usize::from(link.a) == gpu || usize::from(link.b) == gpu {
            link.links = NVLINKS - 1;
        }
    }
}

/// Exchanges the far ends of two adapters' cables, and returns the expected finding. If both cables
/// end at one leaf, nothing is exchanged, and the result is `None`.
fn swap(
    netlist: &Netlist,
    cables: &mut [rsm_routing::netlist::Cable],
    ends: &[(String, u32, usize); 2],
) -> Option<ExpectedFinding> {
    let port = rsm_ids::PortNum(1);
    let leaf = |node: usize| netlist.peer((node, port)).map(|(leaf, _)| leaf);
    let [(_, _, one), (_, _, other)] = ends;
    if leaf(*one) == leaf(*other) {
        return None;
    }
    for cable in cables.iter_mut() {
        for end in [&mut cable.a, &mut cable.b] {
            if end.0 == *one {
                end.0 = *other;
            } else if end.0 == *other {
                end.0 = *one;
            }
        }
    }
    Some(ExpectedFinding {
        kind: GpuFindingKind::RailCablesSwapped,
        hosts: ends.iter().map(|(host, _, _)| host.clone()).collect(),
        ports: ends
            .iter()
            .map(|(host, device, _)| format!("{host} mlx5_{device}"))
            .collect(),
        gpus: Vec::new(),
    })
}
