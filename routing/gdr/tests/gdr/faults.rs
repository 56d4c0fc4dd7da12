//! Injects faults into simulated hosts with eight GPUs, eight compute adapters and two storage
//! adapters, and states the findings that must result.

use std::collections::{BTreeMap, BTreeSet};

use rsm_gdr::findings::GpuFindingKind;
use rsm_gdr::generate::{FleetFaults, Storage, fleet};
use rsm_gdr::hosts::GpuInventory;
use rsm_gdr::inventory::{HcaPort, HostInventory, LinkLayer, NvLink, PcieLink, PcieSettings, Tier};
use rsm_ids::{Guid, PortNum};
use rsm_routing::generate::generate;
use rsm_routing::generate::rng::Rng;
use rsm_routing::netlist::{Cable, LinkSpeed, Netlist, Node, NodeKind};

/// The number of GPUs, and of compute adapters, of each host.
const SLOTS: usize = 8;
/// The number of hosts of a unit: seven sockets of each leaf are free.
const HOSTS_OF_UNIT: usize = 25;

/// A fault that is injected into one or several hosts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    AdaptersPermuted,
    GpusPermuted,
    OneNvLink,
    AllNvLinks,
    AllNvLinksUnclear,
    AdapterUnderOtherSwitch,
    AdapterOffBus,
    GpuOffBus,
    EthernetMode,
    HalfPopulated,
    MostHalfPopulated,
    StorageCable,
    CablesSwapped,
    CableMisplaced,
    PortSlow,
    HostSlow,
    PcieNarrow,
    PcieSlow,
    GpuPcieNarrow,
    OldFirmware,
    GuidUnknown,
    GuidClaimed,
    OtherInventory,
    WithoutInventory,
    VirtualFunctions,
    RackExchanged,
    HalfExchanged,
    UnitExchanged,
    TierWorse,
    NameTwice,
    LeafSlow,
    WithoutGdr,
    GpuAtOtherNode,
    AcsRedirect,
    IommuTranslates,
    StrictOrdering,
}

impl Fault {
    pub(crate) const ALL: [Fault; 36] = [
        Fault::AdaptersPermuted,
        Fault::GpusPermuted,
        Fault::OneNvLink,
        Fault::AllNvLinks,
        Fault::AllNvLinksUnclear,
        Fault::AdapterUnderOtherSwitch,
        Fault::AdapterOffBus,
        Fault::GpuOffBus,
        Fault::EthernetMode,
        Fault::HalfPopulated,
        Fault::MostHalfPopulated,
        Fault::StorageCable,
        Fault::CablesSwapped,
        Fault::CableMisplaced,
        Fault::PortSlow,
        Fault::HostSlow,
        Fault::PcieNarrow,
        Fault::PcieSlow,
        Fault::GpuPcieNarrow,
        Fault::OldFirmware,
        Fault::GuidUnknown,
        Fault::GuidClaimed,
        Fault::OtherInventory,
        Fault::WithoutInventory,
        Fault::VirtualFunctions,
        Fault::RackExchanged,
        Fault::HalfExchanged,
        Fault::UnitExchanged,
        Fault::TierWorse,
        Fault::NameTwice,
        Fault::LeafSlow,
        Fault::WithoutGdr,
        Fault::GpuAtOtherNode,
        Fault::AcsRedirect,
        Fault::IommuTranslates,
        Fault::StrictOrdering,
    ];

    /// Whether the fault can be found in a fleet of `hosts` hosts: most faults are a difference
    /// from other hosts.
    pub(crate) fn shows_among(self, hosts: usize) -> bool {
        match hosts {
            1 => self.shows_alone(),
            _ => self != Fault::UnitExchanged || hosts > 2 * HOSTS_OF_UNIT,
        }
    }

    /// Whether the fault can be found in a fleet of one host.
    fn shows_alone(self) -> bool {
        !matches!(
            self,
            Fault::AllNvLinks
                | Fault::AllNvLinksUnclear
                | Fault::HalfPopulated
                | Fault::MostHalfPopulated
                | Fault::CablesSwapped
                | Fault::CableMisplaced
                | Fault::HostSlow
                | Fault::PcieNarrow
                | Fault::PcieSlow
                | Fault::GpuPcieNarrow
                | Fault::OldFirmware
                | Fault::GuidClaimed
                | Fault::OtherInventory
                | Fault::WithoutInventory
                | Fault::RackExchanged
                | Fault::HalfExchanged
                | Fault::UnitExchanged
                | Fault::TierWorse
                | Fault::NameTwice
                | Fault::LeafSlow
                | Fault::GpuAtOtherNode
        )
    }

    /// The number of hosts with the fault: for most faults one or three, which must give one
    /// finding.
    fn count(self, hosts: usize, seed: u64) -> usize {
        match self {
            Fault::HalfPopulated => hosts.div_ceil(4),
            Fault::MostHalfPopulated => hosts - hosts.div_ceil(4),
            Fault::VirtualFunctions => hosts,
            Fault::CablesSwapped
            | Fault::GuidClaimed
            | Fault::OtherInventory
            | Fault::NameTwice => 2,
            // These faults affect the unit of one host.
            Fault::RackExchanged
            | Fault::HalfExchanged
            | Fault::UnitExchanged
            | Fault::LeafSlow => 1,
            _ if hosts > 3 && seed % 2 == 1 => 3,
            _ => 1,
        }
    }
}

/// The expected result: one finding of this kind with these hosts, ports and GPUs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Expected {
    pub(crate) kind: GpuFindingKind,
    pub(crate) hosts: BTreeSet<String>,
    /// The ports of the finding's first host, as `host device`; empty if the inventory lacks the
    /// device.
    pub(crate) ports: BTreeSet<String>,
    /// The indices of GPUs; `None` if the finding is not about GPUs.
    pub(crate) gpus: Option<Vec<u16>>,
}

/// A fabric and the inventories of its hosts.
pub(crate) struct World {
    nodes: Vec<Node>,
    cables: Vec<Cable>,
    hosts: BTreeMap<String, HostInventory>,
}

/// A superpod's fabric, with `count` of its hosts.
pub(crate) fn fabric(count: usize) -> Netlist {
    let units = count.div_ceil(HOSTS_OF_UNIT);
    let netlist = generate(&format!("superpod:su={units}")).expect("a published fabric");
    let (mut nodes, cables) = netlist.into_parts();
    let names: BTreeSet<String> = nodes
        .iter()
        .filter(|node| node.kind == NodeKind::Ca && node.name().contains(" mlx5_"))
        .map(host_of)
        .collect();
    // The generator numbers the hosts of a unit consecutively.
    let in_unit = names.len() / units;
    let stays: BTreeSet<usize> = (0..names.len())
        .filter(|place| place % in_unit < HOSTS_OF_UNIT)
        .take(count)
        .collect();
    let gone: BTreeSet<&String> = names
        .iter()
        .enumerate()
        .filter(|(place, _)| !stays.contains(place))
        .map(|(_, name)| name)
        .collect();
    let mut is_gone = vec![false; nodes.len()];
    for (node, is_gone) in nodes.iter_mut().zip(&mut is_gone) {
        if node.kind == NodeKind::Ca && gone.contains(&host_of(node)) {
            *is_gone = true;
            node.description = b"spare".to_vec();
        }
    }
    let kept = |cable: &Cable| !is_gone[cable.a.0] && !is_gone[cable.b.0];
    let cables = cables.into_iter().filter(kept).collect();
    Netlist::new(nodes, cables).expect("fewer cables")
}

/// The name of the host in the description of a node.
fn host_of(node: &Node) -> String {
    let name = node.name();
    name.split(' ').next().unwrap_or_default().to_owned()
}

impl World {
    /// The fleet with the faults that the generator makes, if any.
    pub(crate) fn new(netlist: &Netlist, faults: FleetFaults) -> World {
        let fleet = fleet(netlist.clone(), faults).expect("hosts with plain names");
        let (nodes, cables) = fleet.netlist.into_parts();
        let record = |(name, record): (&String, &rsm_gdr::hosts::HostRecord)| {
            (name.clone(), HostInventory::clone(&record.inventory))
        };
        World {
            nodes,
            cables,
            hosts: fleet.inventory.hosts().iter().map(record).collect(),
        }
    }

    /// The fabric and the inventories, checked.
    pub(crate) fn finish(self) -> (Netlist, GpuInventory) {
        let mut inventory = GpuInventory::new();
        for (name, host) in self.hosts {
            inventory.insert(&name, host, 0).expect("valid hosts");
        }
        let netlist = Netlist::new(self.nodes, self.cables).expect("a valid fabric");
        (netlist, inventory)
    }

    /// Changes all inventories, with the hosts' places in the order of their names.
    pub(crate) fn each_host(&mut self, change: impl Fn(usize, &mut HostInventory)) {
        for (place, host) in self.hosts.values_mut().enumerate() {
            change(place, host);
        }
    }

    /// The position of the node to which a host's port belongs.
    fn node(&self, host: &str, port: usize) -> usize {
        let guid = self.hosts[host].hca_ports[port].node_guid;
        let same = |node: &Node| Some(node.guid) == guid;
        self.nodes
            .iter()
            .position(same)
            .expect("a port of the fabric")
    }

    /// Exchanges the cables of two ports.
    fn exchange(&mut self, one: (&str, usize), other: (&str, usize)) {
        let nodes = [self.node(one.0, one.1), self.node(other.0, other.1)];
        for cable in &mut self.cables {
            for end in [&mut cable.a, &mut cable.b] {
                if let Some(at) = nodes.iter().position(|node| *node == end.0) {
                    end.0 = nodes[1 - at];
                }
            }
        }
    }

    /// The hosts of the unit of a host, in the order of names.
    fn unit_of(&self, name: &str) -> Vec<String> {
        let names: Vec<&String> = self.hosts.keys().collect();
        let place = names.iter().position(|other| *other == name);
        let unit = place.expect("a known host") / HOSTS_OF_UNIT;
        let of_unit = names.chunks(HOSTS_OF_UNIT).nth(unit).unwrap_or_default();
        of_unit.iter().map(|name| (*name).clone()).collect()
    }

    /// Replaces the name of a host in the descriptions of its nodes.
    fn rename(&mut self, host: &str, to: &str) {
        let from = format!("{host} ");
        for node in &mut self.nodes {
            if let Some(device) = node.name().strip_prefix(&from) {
                node.description = format!("{to} {device}").into_bytes();
            }
        }
    }

    /// Reduces each inventory to what the matrix of `nvidia-smi` has: names and distances.
    pub(crate) fn by_names(&mut self) {
        for host in self.hosts.values_mut() {
            host.machine = None;
            host.pcie_settings = PcieSettings::default();
            for gpu in &mut host.gpus {
                (gpu.pci, gpu.pcie, gpu.gdr) = (None, None, None);
            }
            for port in &mut host.hca_ports {
                *port = HcaPort::new(port.device.clone());
            }
        }
    }

    fn cable(&mut self, host: &str, port: usize) -> &mut Cable {
        let node = self.node(host, port);
        let at = |cable: &&mut Cable| cable.a.0 == node || cable.b.0 == node;
        self.cables.iter_mut().find(at).expect("a cabled port")
    }

    /// The switch at the other end of a port's cable.
    fn leaf(&mut self, host: &str, port: usize) -> usize {
        let node = self.node(host, port);
        let cable = self.cable(host, port);
        let end = if cable.a.0 == node { cable.b } else { cable.a };
        end.0
    }

    /// Moves a port's cable to a free socket of a switch.
    fn move_cable(&mut self, host: &str, port: usize, leaf: usize) {
        let used: BTreeSet<PortNum> = self
            .cables
            .iter()
            .flat_map(|cable| [cable.a, cable.b])
            .filter(|end| end.0 == leaf)
            .map(|end| end.1)
            .collect();
        let mut sockets = (1..=self.nodes[leaf].num_ports).map(PortNum);
        let free = sockets
            .find(|socket| !used.contains(socket))
            .expect("a free socket");
        let node = self.node(host, port);
        let cable = self.cable(host, port);
        let end = if cable.a.0 == node {
            &mut cable.b
        } else {
            &mut cable.a
        };
        *end = (leaf, free);
    }

    /// Removes the cable of a port.
    fn unplug(&mut self, host: &str, port: usize) {
        let node = self.node(host, port);
        self.cables
            .retain(|cable| cable.a.0 != node && cable.b.0 != node);
    }

    pub(crate) fn host(&mut self, name: &str) -> &mut HostInventory {
        self.hosts.get_mut(name).expect("a known host")
    }

    /// Removes a port from the inventory, and its node's name and cable from the fabric.
    pub(crate) fn remove_port(&mut self, name: &str, port: usize) {
        self.unplug(name, port);
        let node = self.node(name, port);
        self.nodes[node].description = b"gone".to_vec();
        let host = self.host(name);
        let ports = host.hca_ports.len();
        host.hca_ports.remove(port);
        let mut place = 0..;
        host.tiers
            .retain(|_| place.next().is_some_and(|at: usize| at % ports != port));
    }

    /// Removes a GPU with its links, and renumbers the GPUs after it.
    fn remove_gpu(&mut self, name: &str, gpu: usize) {
        let host = self.host(name);
        let ports = host.hca_ports.len();
        host.gpus.remove(gpu);
        for (index, gpu) in (0u16..).zip(&mut host.gpus) {
            gpu.index = index;
        }
        host.tiers.drain(gpu * ports..(gpu + 1) * ports);
        let moved = |end: u16| end - u16::from(usize::from(end) > gpu);
        host.nvlinks
            .retain(|link| usize::from(link.a) != gpu && usize::from(link.b) != gpu);
        for NvLink { a, b, .. } in &mut host.nvlinks {
            (*a, *b) = (moved(*a), moved(*b));
        }
    }

    /// Puts a port's adapter beside the GPU of another slot.
    fn move_adapter(&mut self, name: &str, port: usize, to: usize) {
        let host = self.host(name);
        let ports = host.hca_ports.len();
        let (pci, numa) = (host.hca_ports[to].pci, host.hca_ports[to].numa);
        let entry = &mut host.hca_ports[port];
        entry.numa = numa;
        entry.pci = pci.map(|mut pci| {
            pci.device = 2;
            pci
        });
        for gpu in 0..host.gpus.len() {
            host.tiers[gpu * ports + port] = host.tiers[gpu * ports + to];
        }
    }

    /// Adds a virtual function of each compute adapter.
    fn add_virtual_functions(&mut self, name: &str) {
        let host = self.host(name);
        let ports = host.hca_ports.len();
        let functions: Vec<HcaPort> = (0..SLOTS)
            .map(|slot| {
                let physical = &host.hca_ports[slot];
                let mut port = HcaPort::new(Some(format!("mlx5_{}", ports + slot)));
                port.pci = physical.pci.map(|mut pci| {
                    pci.function = 2;
                    pci
                });
                port.numa = physical.numa;
                port.system_image_guid = physical.system_image_guid;
                port.port_guid = physical.port_guid.map(|guid| Guid(guid.0 | 0xf00 << 48));
                port.link_layer = Some(LinkLayer::InfiniBand);
                port
            })
            .collect();
        let rows: Vec<Vec<Option<Tier>>> = host.tiers.chunks(ports).map(<[_]>::to_vec).collect();
        host.tiers = rows
            .into_iter()
            .flat_map(|row| [&row[..], &row[..SLOTS]].concat())
            .collect();
        host.hca_ports.extend(functions);
    }
}

/// The fleet with a fault, and the finding that must result. The generator makes the wrong orders
/// of GPUs and adapters, this module all other faults.
pub(crate) fn with(fault: Fault, netlist: &Netlist, count: usize, seed: u64) -> (World, Expected) {
    let faults = FleetFaults {
        gpu_order: usize::from(fault == Fault::GpusPermuted) * fault.count(count, seed),
        hca_order: usize::from(fault == Fault::AdaptersPermuted) * fault.count(count, seed),
        storage: Storage::Far,
        seed,
        ..FleetFaults::default()
    };
    let mut rng = Rng::new(seed ^ 0x5eed);
    let slot = rng.below(SLOTS);
    let other_slot = (slot + 1 + rng.below(SLOTS - 1)) % SLOTS;
    let made = fleet(netlist.clone(), faults).expect("hosts with plain names");
    let mut world = World::new(netlist, faults);
    let names: Vec<String> = world.hosts.keys().cloned().collect();
    let mut order: Vec<usize> = (0..names.len()).collect();
    rng.shuffle(&mut order);
    // Wrong cables in several units would give several findings, so all hosts are of one unit.
    if matches!(fault, Fault::StorageCable | Fault::CableMisplaced) {
        let unit = order[0] / HOSTS_OF_UNIT;
        order.retain(|place| place / HOSTS_OF_UNIT == unit);
    }
    order.truncate(fault.count(count, seed));
    let hosts: Vec<String> = order.iter().map(|&place| names[place].clone()).collect();
    let mut expected = Expected {
        kind: kind(fault),
        hosts: hosts.iter().cloned().collect(),
        ports: BTreeSet::new(),
        gpus: None,
    };
    if let Some(made) = made.expected.first() {
        expected.hosts.clone_from(&made.hosts);
    }
    inject(fault, &mut world, &hosts, (slot, other_slot), &mut expected);
    (world, expected)
}

/// The kind of the finding that a fault must give.
fn kind(fault: Fault) -> GpuFindingKind {
    match fault {
        Fault::AdaptersPermuted => GpuFindingKind::RailOrderHcas,
        Fault::GpusPermuted => GpuFindingKind::RailOrderGpus,
        Fault::OneNvLink | Fault::AllNvLinks | Fault::AllNvLinksUnclear => {
            GpuFindingKind::NvLinkDegraded
        }
        Fault::AdapterUnderOtherSwitch => GpuFindingKind::HcaMoved,
        Fault::AdapterOffBus => GpuFindingKind::HcaMissing,
        Fault::GpuOffBus => GpuFindingKind::GpuMissing,
        Fault::EthernetMode => GpuFindingKind::HcaEthernetMode,
        Fault::HalfPopulated | Fault::MostHalfPopulated => GpuFindingKind::HalfPopulated,
        Fault::StorageCable => GpuFindingKind::StorageOnComputeLeaf,
        Fault::CablesSwapped => GpuFindingKind::RailCablesSwapped,
        Fault::CableMisplaced => GpuFindingKind::RailCableMisplaced,
        Fault::PortSlow => GpuFindingKind::PortSlow,
        Fault::HostSlow => GpuFindingKind::HostSlow,
        Fault::PcieNarrow | Fault::PcieSlow | Fault::GpuPcieNarrow => GpuFindingKind::PcieDegraded,
        Fault::OldFirmware => GpuFindingKind::FirmwareDiffers,
        Fault::GuidUnknown => GpuFindingKind::GuidUnknown,
        Fault::GuidClaimed => GpuFindingKind::PortClaimedTwice,
        Fault::OtherInventory => GpuFindingKind::InventoryOfAnotherHost,
        Fault::WithoutInventory => GpuFindingKind::NoInventory,
        Fault::VirtualFunctions => GpuFindingKind::VirtualFunctions,
        Fault::RackExchanged => GpuFindingKind::RailCablesSwapped,
        Fault::HalfExchanged | Fault::UnitExchanged => GpuFindingKind::RailsDisagree,
        Fault::TierWorse => GpuFindingKind::TierWorse,
        Fault::NameTwice => GpuFindingKind::HostNameTwice,
        Fault::LeafSlow => GpuFindingKind::LeafSlow,
        Fault::WithoutGdr => GpuFindingKind::GdrUnsupported,
        Fault::GpuAtOtherNode => GpuFindingKind::NumaDiffers,
        Fault::AcsRedirect => GpuFindingKind::AcsRedirect,
        Fault::IommuTranslates => GpuFindingKind::IommuTranslates,
        Fault::StrictOrdering => GpuFindingKind::RelaxedOrderingOff,
    }
}

/// Injects a fault at `slots.0` of the hosts; `slots.1` is another slot.
fn inject(
    fault: Fault,
    world: &mut World,
    hosts: &[String],
    slots: (usize, usize),
    expected: &mut Expected,
) {
    let (slot, other) = slots;
    match fault {
        Fault::CablesSwapped => {
            let [one, two] = [(&hosts[0][..], slot), (&hosts[1][..], other)];
            world.exchange(one, two);
            let ports = [one, two].map(|(host, slot)| format!("{host} mlx5_{slot}"));
            expected.ports.extend(ports);
        }
        Fault::GuidClaimed | Fault::OtherInventory => {
            let theirs = world.hosts[&hosts[1]].clone();
            let mine = world.host(&hosts[0]);
            expected.hosts.remove(&hosts[1]);
            if fault == Fault::OtherInventory {
                *mine = theirs;
                return;
            }
            let (port, theirs) = (&mut mine.hca_ports[slot], &theirs.hca_ports[slot]);
            port.node_guid = theirs.node_guid;
            port.port_guid = theirs.port_guid;
            port.system_image_guid = theirs.system_image_guid;
            expected.ports.insert(format!("{} mlx5_{slot}", hosts[0]));
        }
        Fault::NameTwice => {
            world.rename(&hosts[1], &hosts[0]);
            world.hosts.remove(&hosts[1]);
            expected.hosts.remove(&hosts[1]);
        }
        Fault::RackExchanged | Fault::HalfExchanged | Fault::UnitExchanged | Fault::LeafSlow => {
            inject_in_unit(fault, world, &hosts[0], slots, expected)
        }
        _ => {
            for host in hosts {
                inject_one(fault, world, host, slots, expected);
            }
        }
    }
}

/// The number of hosts of a rack.
const HOSTS_OF_RACK: usize = 4;

/// Injects a fault into the unit of a host.
fn inject_in_unit(
    fault: Fault,
    world: &mut World,
    host: &str,
    (slot, other): (usize, usize),
    expected: &mut Expected,
) {
    let unit = world.unit_of(host);
    expected.hosts = unit.iter().cloned().collect();
    if fault == Fault::LeafSlow {
        for host in &unit {
            world.cable(host, slot).speed = LinkSpeed::Hdr;
        }
        return;
    }
    // If the halves differ, the slot decides between the smaller and the larger one.
    let of_unit = match fault {
        Fault::RackExchanged => HOSTS_OF_RACK,
        Fault::HalfExchanged if slot % 2 == 0 => unit.len() / 2,
        Fault::HalfExchanged => unit.len().div_ceil(2),
        _ => unit.len(),
    };
    for host in &unit[..of_unit] {
        world.exchange((host, slot), (host, other));
    }
    if fault == Fault::RackExchanged {
        expected.hosts = unit[..of_unit].iter().cloned().collect();
    }
}

/// Adds the devices of the first host that the finding must name.
fn expect_devices(fault: Fault, name: &str, slot: usize, expected: &mut Expected) {
    let port = match fault {
        Fault::AdapterUnderOtherSwitch
        | Fault::GpuOffBus
        | Fault::EthernetMode
        | Fault::CableMisplaced
        | Fault::PortSlow
        | Fault::PcieNarrow
        | Fault::PcieSlow
        | Fault::OldFirmware
        | Fault::StrictOrdering
        | Fault::GuidUnknown => Some(slot),
        Fault::StorageCable => Some(storage_port(slot)),
        _ => None,
    };
    if let Some(port) = port
        && expected.hosts.first().is_some_and(|first| first == name)
    {
        expected.ports.insert(format!("{name} mlx5_{port}"));
    }
    if matches!(
        fault,
        Fault::OneNvLink
            | Fault::AdapterOffBus
            | Fault::GpuPcieNarrow
            | Fault::TierWorse
            | Fault::GpuAtOtherNode
            | Fault::IommuTranslates
    ) {
        expected.gpus = Some(vec![slot as u16]);
    }
}

/// One of the two storage ports.
fn storage_port(slot: usize) -> usize {
    SLOTS + slot % 2
}

/// Injects a fault into one host.
fn inject_one(
    fault: Fault,
    world: &mut World,
    name: &str,
    (slot, other): (usize, usize),
    expected: &mut Expected,
) {
    expect_devices(fault, name, slot, expected);
    match fault {
        Fault::OneNvLink => lose_link(world.host(name), slot),
        Fault::AllNvLinks => lose_links(world.host(name)),
        Fault::AllNvLinksUnclear => {
            // A matrix of `nvidia-smi topo -m` that is cut before its legend gives these values.
            let host = world.host(name);
            lose_links(host);
            (host.nvlinks_known, host.nvlinks_unclear) = (false, true);
            host.gpus.iter_mut().for_each(|gpu| gpu.switch_links = None);
        }
        Fault::AdapterUnderOtherSwitch => world.move_adapter(name, slot, other),
        Fault::AdapterOffBus => world.remove_port(name, slot),
        Fault::GpuOffBus => world.remove_gpu(name, slot),
        Fault::EthernetMode => {
            world.unplug(name, slot);
            let port = &mut world.host(name).hca_ports[slot];
            port.link_layer = Some(LinkLayer::Ethernet);
            (port.port_guid, port.active) = (None, Some(true));
        }
        Fault::HalfPopulated | Fault::MostHalfPopulated => {
            for slot in [7, 5, 3, 1] {
                world.remove_port(name, slot);
            }
        }
        Fault::StorageCable => {
            let leaf = world.leaf(name, slot);
            world.move_cable(name, storage_port(slot), leaf);
        }
        Fault::CableMisplaced => {
            let leaf = world.leaf(name, other);
            world.move_cable(name, slot, leaf);
        }
        Fault::PortSlow => world.cable(name, slot).speed = LinkSpeed::Hdr,
        Fault::HostSlow => {
            for slot in 0..SLOTS {
                world.cable(name, slot).speed = LinkSpeed::Hdr;
            }
        }
        Fault::PcieNarrow => narrow(&mut world.host(name).hca_ports[slot].pcie, 8),
        Fault::GpuPcieNarrow => narrow(&mut world.host(name).gpus[slot].pcie, 4),
        Fault::PcieSlow => {
            let link = &mut world.host(name).hca_ports[slot].pcie;
            *link = link.map(|link| PcieLink {
                tenth_gts: 160,
                ..link
            });
        }
        Fault::OldFirmware => {
            world.host(name).hca_ports[slot].firmware = Some("28.35.1012".to_owned());
        }
        Fault::GuidUnknown => forget_guids(&mut world.host(name).hca_ports[slot]),
        Fault::WithoutInventory => drop(world.hosts.remove(name)),
        Fault::VirtualFunctions => world.add_virtual_functions(name),
        Fault::TierWorse
        | Fault::WithoutGdr
        | Fault::GpuAtOtherNode
        | Fault::AcsRedirect
        | Fault::IommuTranslates
        | Fault::StrictOrdering => change_settings(fault, world.host(name), slot),
        // The generator and `inject` make these faults.
        Fault::AdaptersPermuted
        | Fault::GpusPermuted
        | Fault::CablesSwapped
        | Fault::GuidClaimed
        | Fault::OtherInventory
        | Fault::NameTwice
        | Fault::RackExchanged
        | Fault::HalfExchanged
        | Fault::UnitExchanged
        | Fault::LeafSlow => {}
    }
}

/// Changes how the host reaches the GPU or adapter of a slot.
fn change_settings(fault: Fault, host: &mut HostInventory, slot: usize) {
    let settings = &mut host.pcie_settings;
    match fault {
        Fault::TierWorse => {
            let ports = host.hca_ports.len();
            host.tiers[slot * ports + slot] = Some(Tier::Node);
        }
        Fault::WithoutGdr => {
            let gpus = &mut host.gpus;
            gpus.iter_mut().for_each(|gpu| gpu.gdr = Some(false));
        }
        Fault::GpuAtOtherNode => {
            let numa = &mut host.gpus[slot].numa;
            *numa = numa.map(|node| 1 - node);
        }
        Fault::AcsRedirect => {
            let bridge = "0000:15:01.0".parse().expect("an address");
            settings.acs_redirect.push(bridge);
        }
        Fault::IommuTranslates => settings.iommu_translated.extend(host.gpus[slot].pci),
        Fault::StrictOrdering => settings.strict_ordering.extend(host.hca_ports[slot].pci),
        other => panic!("{other:?} is no setting"),
    }
}

/// Reduces the lanes of a link.
fn narrow(link: &mut Option<PcieLink>, lanes: u8) {
    *link = link.map(|link| PcieLink {
        width: lanes,
        ..link
    });
}

/// Removes one link between a GPU and its switches, and one to each other GPU.
fn lose_link(host: &mut HostInventory, gpu: usize) {
    host.gpus[gpu].switch_links = host.gpus[gpu].switch_links.map(|links| links - 1);
    for link in &mut host.nvlinks {
        if usize::from(link.a) == gpu || usize::from(link.b) == gpu {
            link.links -= 1;
        }
    }
}

/// Removes all NVLinks of a host.
fn lose_links(host: &mut HostInventory) {
    host.nvlinks.clear();
    for gpu in &mut host.gpus {
        gpu.switch_links = Some(0);
    }
}

/// Gives a port GUIDs that the fabric does not have.
fn forget_guids(port: &mut HcaPort) {
    let HcaPort {
        node_guid,
        port_guid,
        system_image_guid,
        ..
    } = port;
    for guid in [node_guid, port_guid, system_image_guid] {
        *guid = guid.map(|guid| Guid(guid.0 ^ 0xdead << 40));
    }
}
