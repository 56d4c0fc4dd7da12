//! Compares hosts of one machine type by the PCI addresses of their GPUs and adapters or, without
//! addresses, by the names of their devices.
//!
//! A family is the set of hosts of one machine type: most PCI addresses of their GPUs and adapters
//! are equal. The family's template is the largest shape that several hosts share. A host that
//! lacks devices of the template, or has additional ones, is still compared by its other devices.

use std::collections::{BTreeMap, BTreeSet};

use super::fabric::GpuFabric;
use super::host::Host;
use super::inventory::{HostInventory, LinkLayer, PciAddress, Tier};
use super::join::{Joined, NotJoined};
use super::roles::{RoleReason, TrafficRole};
use rsm_routing::topology::SwitchIdx;

/// The key of a port by its place on PCIe: the address of the adapter, and the port's number there.
pub(crate) type PortKey = (PciAddress, u8);

/// At least one host in this many of a family must share the template, and at least two hosts.
const TEMPLATE_SHARE_DIVISOR: usize = 10;

/// The properties of a port in most hosts of a family.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct UsualPort {
    /// The port's role in most hosts.
    pub(crate) role: TrafficRole,
    /// The GPUs under the same PCIe switches as the port.
    pub(crate) near: BTreeSet<PciAddress>,
    /// The rate in Gb/s; `None` unless more than half of at least two hosts agree.
    pub(crate) gbps: Option<u32>,
}

/// The hosts of one machine type, and their template.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Family {
    /// The hosts by position, ascending.
    pub(crate) hosts: Vec<usize>,
    /// The hosts with exactly the template's addresses, by position.
    pub(crate) whole: Vec<usize>,
    /// The template's GPUs in the order of their indices in most whole hosts.
    pub(crate) gpus: Vec<PciAddress>,
    /// The template's ports.
    pub(crate) ports: BTreeMap<PortKey, UsualPort>,
    /// The template's compute ports by slot.
    pub(crate) slots: Vec<PortKey>,
}

/// All families, and the family of each host.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Peers {
    /// The families, in no particular order.
    pub(crate) families: Vec<Family>,
    /// The family of each host, by position; `None` if an address is missing or occurs twice.
    pub(crate) of_host: Vec<Option<usize>>,
    /// Groups of hosts without a family whose devices have equal names, each by position,
    /// ascending.
    layouts: Vec<Vec<usize>>,
    /// The layout of each host, by position: an index into `layouts`; `None` for a host with a
    /// family.
    layout_of: Vec<Option<usize>>,
}

/// The device names of a host without PCI addresses, which identify its machine type.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct DeviceNames<'a> {
    machine: Option<&'a str>,
    gpus: usize,
    ports: Vec<(Option<&'a str>, u8)>,
}

impl DeviceNames<'_> {
    fn of(host: &Host) -> DeviceNames<'_> {
        let inventory = &host.inventory;
        let ports = inventory.hca_ports.iter();
        DeviceNames {
            machine: inventory.machine.as_deref(),
            gpus: inventory.gpus.len(),
            ports: ports
                .map(|port| (port.device.as_deref(), port.port))
                .collect(),
        }
    }
}

/// The product name of a host, and the PCI addresses of its GPUs and ports.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Shape {
    machine: Option<String>,
    gpus: BTreeSet<PciAddress>,
    ports: BTreeSet<PortKey>,
}

/// The PCIe place of a port; `None` if unknown.
pub(crate) fn key(inventory: &HostInventory, port: usize) -> Option<PortKey> {
    let entry = &inventory.hca_ports[port];
    Some((entry.pci?, entry.port))
}

/// Whether a port is a virtual function, by the host's PCIe.
pub(crate) fn is_virtual(host: &Host, port: usize) -> bool {
    host.joined[port] == Joined::Not(NotJoined::VirtualFunction)
}

impl Shape {
    /// The shape of a host; `None` if a GPU or a port has no address, or two devices have the same
    /// address.
    fn of(host: &Host) -> Option<Shape> {
        let inventory = &host.inventory;
        let gpus: BTreeSet<PciAddress> = inventory
            .gpus
            .iter()
            .map(|gpu| gpu.pci)
            .collect::<Option<_>>()?;
        let real: Vec<usize> = (0..inventory.hca_ports.len())
            .filter(|&port| !is_virtual(host, port))
            .collect();
        let ports: BTreeSet<PortKey> = real
            .iter()
            .map(|&port| key(inventory, port))
            .collect::<Option<_>>()?;
        let unique = gpus.len() == inventory.gpus.len() && ports.len() == real.len();
        (unique && !gpus.is_empty()).then(|| Shape {
            machine: inventory.machine.clone(),
            gpus,
            ports,
        })
    }

    /// The number of GPUs and ports.
    fn size(&self) -> usize {
        self.gpus.len() + self.ports.len()
    }

    /// Whether two shapes belong to one machine type: at least half of the GPUs and ports of the
    /// smaller shape are at addresses of the other, and the product names do not differ.
    fn is_like(&self, other: &Shape) -> bool {
        let products = match (&self.machine, &other.machine) {
            (Some(mine), Some(theirs)) => mine == theirs,
            _ => true,
        };
        let half = |common: usize, one: usize, other: usize| 2 * common >= one.min(other);
        let gpus = self.gpus.intersection(&other.gpus).count();
        let ports = self.ports.intersection(&other.ports).count();
        products
            && gpus > 0
            && half(gpus, self.gpus.len(), other.gpus.len())
            && half(ports, self.ports.len(), other.ports.len())
    }

    /// The number of GPUs that have exactly one adapter under the same PCIe switches.
    fn paired(&self, host: &Host) -> usize {
        let inventory = &host.inventory;
        let near = |gpu: usize| {
            let ports = 0..inventory.hca_ports.len();
            ports.filter(move |&port| inventory.tier(gpu, port).is_some_and(Tier::is_local))
        };
        (0..inventory.gpus.len())
            .filter(|&gpu| near(gpu).count() == 1)
            .count()
    }
}

impl Peers {
    /// Finds the families of hosts, whose roles are known.
    pub(crate) fn find(hosts: &[Host]) -> Peers {
        let mut by_shape: BTreeMap<Shape, Vec<usize>> = BTreeMap::new();
        for (place, host) in hosts.iter().enumerate() {
            if let Some(shape) = Shape::of(host) {
                by_shape.entry(shape).or_default().push(place);
            }
        }
        let mut shapes: Vec<(Shape, Vec<usize>)> = by_shape.into_iter().collect();
        shapes.sort_by_key(|(shape, hosts)| {
            let frequent_and_large = std::cmp::Reverse((hosts.len(), shape.size()));
            (frequent_and_large, hosts[0])
        });
        let mut families: Vec<Vec<(Shape, Vec<usize>)>> = Vec::new();
        for shape in shapes {
            match families
                .iter_mut()
                .find(|family| family[0].0.is_like(&shape.0))
            {
                Some(family) => family.push(shape),
                None => families.push(vec![shape]),
            }
        }
        let mut peers = Peers {
            families: Vec::new(),
            of_host: vec![None; hosts.len()],
            layouts: Vec::new(),
            layout_of: vec![None; hosts.len()],
        };
        for shapes in families {
            let number = peers.families.len();
            for &host in shapes.iter().flat_map(|(_, hosts)| hosts) {
                peers.of_host[host] = Some(number);
            }
            peers.families.push(Family::new(shapes, hosts));
        }
        peers.find_layouts(hosts);
        peers
    }

    /// Groups the hosts without a family by their device names.
    fn find_layouts(&mut self, hosts: &[Host]) {
        let mut by_layout: BTreeMap<DeviceNames<'_>, Vec<usize>> = BTreeMap::new();
        for (place, host) in hosts.iter().enumerate() {
            if self.of_host[place].is_none() && !host.inventory.gpus.is_empty() {
                by_layout
                    .entry(DeviceNames::of(host))
                    .or_default()
                    .push(place);
            }
        }
        for members in by_layout.into_values() {
            for &place in &members {
                self.layout_of[place] = Some(self.layouts.len());
            }
            self.layouts.push(members);
        }
    }

    /// The layout of a host; `None` for a host with a family.
    pub(crate) fn layout(&self, host: usize) -> Option<usize> {
        self.layout_of.get(host).copied().flatten()
    }

    /// The family of a host; `None` for a host without a family.
    pub(crate) fn family(&self, host: usize) -> Option<&Family> {
        Some(&self.families[self.of_host.get(host).copied().flatten()?])
    }
}

impl Family {
    fn new(shapes: Vec<(Shape, Vec<usize>)>, hosts: &[Host]) -> Family {
        let count: usize = shapes.iter().map(|(_, hosts)| hosts.len()).sum();
        let common = 2.max(count.div_ceil(TEMPLATE_SHARE_DIVISOR));
        let template = shapes.iter().max_by_key(|(shape, of_shape)| {
            let is_common = of_shape.len() >= common;
            let paired = shape.paired(&hosts[of_shape[0]]);
            // On a tie, the shape of the lowest host is the template.
            let first = std::cmp::Reverse(of_shape[0]);
            (is_common, shape.size(), paired, of_shape.len(), first)
        });
        let mut family = Family::default();
        for (_, of_shape) in &shapes {
            family.hosts.extend(of_shape);
        }
        family.hosts.sort_unstable();
        let Some((shape, whole)) = template else {
            return family;
        };
        family.whole.clone_from(whole);
        let order = |&host: &usize| {
            let gpus = hosts[host].inventory.gpus.iter();
            gpus.filter_map(|gpu| gpu.pci).collect::<Vec<_>>()
        };
        family.gpus = usual_order(family.whole.iter().map(order))
            .unwrap_or_else(|| shape.gpus.iter().copied().collect());
        family.ports = shape
            .ports
            .iter()
            .map(|&key| (key, family.usual_port(key, hosts)))
            .collect();
        family
    }

    /// Whether the family has other hosts to compare a host with.
    pub(crate) fn has_peers(&self) -> bool {
        self.hosts.len() > 1
    }

    /// The most frequent role and the most frequent near GPUs of the port with this key.
    fn usual_port(&self, key: PortKey, hosts: &[Host]) -> UsualPort {
        let mut roles = Vec::new();
        let mut near = Vec::new();
        for &place in &self.hosts {
            let host = &hosts[place];
            if let Some(port) = port_at(&host.inventory, key) {
                roles.push(host.roles[port].0);
                near.push(near_gpus(&host.inventory, port));
            }
        }
        UsualPort {
            role: most_frequent(roles).unwrap_or(TrafficRole::Outside),
            near: most_frequent(near).unwrap_or_default(),
            gbps: None,
        }
    }

    /// Takes the usual rate of each port from the fabric.
    pub(crate) fn learn_rates(&mut self, hosts: &[Host], fabric: &GpuFabric) {
        for (&key, usual) in &mut self.ports {
            let rates: Vec<u32> = self
                .hosts
                .iter()
                .filter_map(|&place| {
                    let port = port_at(&hosts[place].inventory, key)?;
                    rate(&hosts[place], port, fabric)
                })
                .collect();
            usual.gbps = majority(&rates).filter(|_| rates.len() > 1);
        }
    }

    /// Numbers the slots: compute ports in the order that most whole hosts have.
    pub(crate) fn number_slots(&mut self, hosts: &[Host]) {
        let orders = self.whole.iter().map(|&place| {
            let host = &hosts[place];
            let keys = host
                .compute_slots()
                .map(|port| key(&host.inventory, port))
                .collect::<Option<Vec<_>>>();
            keys.unwrap_or_default()
        });
        let compute = |(key, usual): (&PortKey, &UsualPort)| {
            (usual.role == TrafficRole::Compute).then_some(*key)
        };
        let known: BTreeSet<PortKey> = self.ports.iter().filter_map(compute).collect();
        let fits = |order: &Vec<PortKey>| order.iter().copied().collect::<BTreeSet<_>>() == known;
        self.slots = usual_order(orders.filter(fits)).unwrap_or(known.into_iter().collect());
    }
}

/// The port of a host at a PCIe place; `None` if no port is there.
pub(crate) fn port_at(inventory: &HostInventory, wanted: PortKey) -> Option<usize> {
    (0..inventory.hca_ports.len()).find(|&port| key(inventory, port) == Some(wanted))
}

/// The addresses of the GPUs under the same PCIe switches as a port.
pub(crate) fn near_gpus(inventory: &HostInventory, port: usize) -> BTreeSet<PciAddress> {
    let gpus = inventory.gpus.iter().enumerate();
    gpus.filter(|&(gpu, _)| inventory.tier(gpu, port).is_some_and(Tier::is_local))
        .filter_map(|(_, gpu)| gpu.pci)
        .collect()
}

/// The rate of a joined port's cable in Gb/s; `None` for a port that is not joined.
pub(crate) fn rate(host: &Host, port: usize, fabric: &GpuFabric) -> Option<u32> {
    let of_fabric = fabric.port(host.joined[port].port()?);
    Some(u32::from(of_fabric.rate_tenth_gbps) / 10)
}

/// The leaf of a joined port; `None` for a port that is not joined.
pub(crate) fn leaf(host: &Host, port: usize, fabric: &GpuFabric) -> Option<SwitchIdx> {
    Some(fabric.port(host.joined[port].port()?).leaf)
}

/// The value that more than half of `values` have; `None` if no value is that frequent.
pub(crate) fn majority<T: Ord + Clone>(values: &[T]) -> Option<T> {
    let mut count: BTreeMap<&T, usize> = BTreeMap::new();
    for value in values {
        *count.entry(value).or_default() += 1;
    }
    let found = count
        .into_iter()
        .find(|&(_, count)| 2 * count > values.len());
    found.map(|(value, _)| value.clone())
}

/// The most frequent value, the lowest on a tie; `None` if there are no values.
fn most_frequent<T: Ord>(values: Vec<T>) -> Option<T> {
    let mut count: BTreeMap<T, usize> = BTreeMap::new();
    for value in values {
        *count.entry(value).or_default() += 1;
    }
    let mut best: Option<(T, usize)> = None;
    for (value, count) in count {
        if best.as_ref().is_none_or(|(_, most)| count > *most) {
            best = Some((value, count));
        }
    }
    best.map(|(value, _)| value)
}

/// The most frequent order; `None` on a tie.
fn usual_order<T: Ord + Clone>(orders: impl Iterator<Item = Vec<T>>) -> Option<Vec<T>> {
    let mut count: BTreeMap<Vec<T>, usize> = BTreeMap::new();
    for order in orders {
        *count.entry(order).or_default() += 1;
    }
    let most = count.values().copied().max()?;
    let mut best = count.into_iter().filter(|&(_, count)| count == most);
    let (order, _) = best.next()?;
    best.next().is_none().then_some(order)
}

/// Gives ports the roles that they have in most hosts of the family, or of the layout.
///
/// A slow port beside a storage adapter, or an adapter whose GPU is gone, thereby keeps its role.
pub(crate) fn align_roles_with_peers(
    hosts: &mut [Host],
    peers: &Peers,
    fabric: Option<&GpuFabric>,
) {
    for family in peers.families.iter().filter(|family| family.has_peers()) {
        let compute_leaves = fabric.map(|fabric| family.compute_leaves(hosts, fabric));
        for &place in &family.hosts {
            let host = &mut hosts[place];
            for port in 0..host.roles.len() {
                let usual = key(&host.inventory, port).and_then(|key| family.ports.get(&key));
                match (usual, fabric, &compute_leaves) {
                    (Some(usual), _, _) => set_role_of_peers(host, port, usual.role),
                    // No other host uses this PCIe place: a port at a rail's leaf serves GPUs.
                    (None, Some(fabric), Some(leaves))
                        if leaf(host, port, fabric).is_some_and(|leaf| leaves.contains(&leaf)) =>
                    {
                        set_role_of_peers(host, port, TrafficRole::Compute);
                    }
                    _ => {}
                }
            }
        }
    }
    for layout in peers.layouts.iter().filter(|layout| layout.len() > 1) {
        for port in 0..hosts[layout[0]].roles.len() {
            let roles = layout.iter().map(|&place| hosts[place].roles[port].0);
            if let Some(usual) = most_frequent(roles.collect()) {
                for &place in layout {
                    set_role_of_peers(&mut hosts[place], port, usual);
                }
            }
        }
    }
}

/// Sets the role of a port to the role of its peers, unless a setting or the protocol decides
/// otherwise.
fn set_role_of_peers(host: &mut Host, port: usize, usual: TrafficRole) {
    let (role, reason) = host.roles[port];
    let decided = matches!(
        reason,
        RoleReason::Configured | RoleReason::Ethernet | RoleReason::VirtualFunction
    );
    let ethernet = host.inventory.hca_ports[port].link_layer == Some(LinkLayer::Ethernet);
    let out_of_fabric = usual == TrafficRole::Outside && host.joined[port].port().is_some();
    if !decided && !ethernet && !out_of_fabric && usual != role {
        host.roles[port] = (usual, RoleReason::LikePeers);
    }
}

impl Family {
    /// The leaves at which compute ports of the template outnumber other ports.
    fn compute_leaves(&self, hosts: &[Host], fabric: &GpuFabric) -> BTreeSet<SwitchIdx> {
        let mut count: BTreeMap<SwitchIdx, (usize, usize)> = BTreeMap::new();
        for &place in &self.hosts {
            let host = &hosts[place];
            for port in 0..host.roles.len() {
                let usual = key(&host.inventory, port).and_then(|key| self.ports.get(&key));
                if let (Some(usual), Some(leaf)) = (usual, leaf(host, port, fabric)) {
                    let (compute, others) = count.entry(leaf).or_default();
                    match usual.role {
                        TrafficRole::Compute => *compute += 1,
                        _ => *others += 1,
                    }
                }
            }
        }
        let of_rails = count
            .into_iter()
            .filter(|(_, (compute, others))| compute > others);
        of_rails.map(|(leaf, _)| leaf).collect()
    }
}

/// Puts each compute port into its slot of the template. Ports at other PCIe places stay unplaced;
/// their leaves decide later.
pub(crate) fn number_by_place(hosts: &mut [Host], peers: &Peers) {
    for family in &peers.families {
        let slot_of: BTreeMap<PortKey, usize> = family
            .slots
            .iter()
            .enumerate()
            .map(|(slot, &key)| (key, slot))
            .collect();
        for &place in &family.hosts {
            let host = &mut hosts[place];
            let compute: Vec<usize> = host.compute_slots().collect();
            let mut slots = vec![None; family.slots.len()];
            host.unplaced.clear();
            for port in compute {
                let slot = key(&host.inventory, port).and_then(|key| slot_of.get(&key));
                match slot {
                    Some(&slot) => slots[slot] = Some(port),
                    None => host.unplaced.push(port),
                }
            }
            host.slots = slots;
        }
    }
}
