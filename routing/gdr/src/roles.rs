//! The role of each port of a host.
//!
//! No single signal is right on every machine. The roles therefore follow from several signals, in
//! this order: the operator's configuration; the link layer; PCIe, on machines that show their
//! topology (a port under a switch with a GPU serves the GPU); the rate (a port does not serve a
//! GPU that has a faster port as near); and the number of ports of every GPU of the machine (ports
//! that one GPU has in excess get another role, first the port whose leaf also serves nodes without
//! GPUs). Last, hosts of one machine type are compared: a port gets the role that it has on most
//! of these hosts (`peers`).

use std::collections::BTreeMap;

use rsm_ids::Guid;

use super::fabric::GpuFabric;
use super::inventory::{HostInventory, LinkLayer, Tier};
use super::join::{Joined, NotJoined};
use rsm_routing::engine::Category;
use rsm_routing::topology::SwitchIdx;

/// The role of a port.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum TrafficRole {
    /// Traffic between GPUs.
    Compute,
    /// Storage, and all other traffic that needs bandwidth.
    Storage,
    /// The host's own traffic: the port is slow next to the compute ports.
    Management,
    /// No traffic of this fabric: the port is Ethernet, or no source declares it InfiniBand.
    Outside,
}

impl TrafficRole {
    /// The name of the role in lower case.
    pub const fn name(self) -> &'static str {
        match self {
            TrafficRole::Compute => "compute",
            TrafficRole::Storage => "storage",
            TrafficRole::Management => "management",
            TrafficRole::Outside => "outside",
        }
    }

    /// The category in which routes to ports of this role are spread; `None` for ports outside the
    /// fabric.
    pub const fn category(self) -> Option<Category> {
        match self {
            TrafficRole::Compute => Some(Category::Compute),
            TrafficRole::Storage => Some(Category::Storage),
            TrafficRole::Management => Some(Category::Management),
            TrafficRole::Outside => None,
        }
    }

    /// The role of the ports of a category; `None` for categories of ports inside switches.
    pub const fn of(category: Category) -> Option<TrafficRole> {
        match category {
            Category::Compute => Some(TrafficRole::Compute),
            Category::Storage => Some(TrafficRole::Storage),
            Category::Management => Some(TrafficRole::Management),
            Category::Aggregation | Category::Switch => None,
        }
    }
}

/// The reason for the role of a port.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum RoleReason {
    /// The operator configured the role.
    Configured,
    /// The port is an Ethernet port.
    Ethernet,
    /// The port is not in the fabric, and no source declares it InfiniBand.
    NotInFabric,
    /// A GPU is under the same PCIe switches as the port.
    NearGpu,
    /// The port is the nearest port to a GPU without a port of its own.
    NearestOfGpu,
    /// The machine shows no PCIe switch that a GPU and a port share: it is a virtual machine, or a
    /// server without switches.
    NoPcieSignal,
    /// No GPU is near the port, and other ports have GPUs near them.
    FarFromGpus,
    /// The port is slower than another port that is as near to the same GPUs.
    Slower,
    /// The port's GPUs have more ports near them than other GPUs of the machine have.
    Excess,
    /// The host has no GPU.
    NoGpu,
    /// Most hosts of this machine type have this role at the port.
    LikePeers,
    /// The port is a virtual function, which has no port of its own in the fabric.
    VirtualFunction,
}

impl RoleReason {
    /// The reason as text for the operator.
    pub const fn text(self) -> &'static str {
        match self {
            RoleReason::Configured => "configured",
            RoleReason::Ethernet => "Ethernet",
            RoleReason::NotInFabric => "not in the fabric",
            RoleReason::NearGpu => "a GPU is under the same PCIe switches",
            RoleReason::NearestOfGpu => "the nearest that a GPU has",
            RoleReason::NoPcieSignal => "no PCIe switch is visible",
            RoleReason::FarFromGpus => "no GPU is near",
            RoleReason::Slower => "slower than another one as near",
            RoleReason::Excess => "more ports than other GPUs have",
            RoleReason::NoGpu => "no GPU",
            RoleReason::LikePeers => "as in most hosts of this type",
            RoleReason::VirtualFunction => "virtual function",
        }
    }
}

/// A role with its reason.
pub type ReasonedRole = (TrafficRole, RoleReason);

/// The use of each leaf, one of the signals for roles.
pub(super) struct LeafUse {
    /// The share of each leaf's end ports that belong to nodes without GPUs, in thousandths.
    foreign: BTreeMap<SwitchIdx, u32>,
}

impl LeafUse {
    /// Computes the use of each leaf. `of_gpu_hosts` says which ports of [`GpuFabric::ports`]
    /// belong to hosts with GPUs.
    pub(super) fn new(fabric: &GpuFabric, of_gpu_hosts: &[bool]) -> LeafUse {
        let mut count: BTreeMap<SwitchIdx, (u32, u32)> = BTreeMap::new();
        for (port, &of_gpu_host) in fabric.ports().iter().zip(of_gpu_hosts) {
            let (foreign, all) = count.entry(port.leaf).or_default();
            *all += 1;
            *foreign += u32::from(!of_gpu_host);
        }
        let share = |(foreign, all)| 1000 * foreign / all;
        LeafUse {
            foreign: count
                .into_iter()
                .map(|(leaf, count)| (leaf, share(count)))
                .collect(),
        }
    }
}

impl LeafUse {
    /// The share of a leaf's end ports that belong to nodes without GPUs, in thousandths; `None` if
    /// the switch has no end ports.
    pub(super) fn foreign(&self, leaf: SwitchIdx) -> Option<u32> {
        self.foreign.get(&leaf).copied()
    }
}

/// The role of each port of a host, in the order of the inventory's ports.
pub(super) fn roles(
    host: &HostInventory,
    joined: &[Joined],
    fabric: Option<(&GpuFabric, &LeafUse)>,
    configured: &BTreeMap<Guid, TrafficRole>,
) -> Vec<ReasonedRole> {
    let mut out: Vec<Option<ReasonedRole>> = (0..host.hca_ports.len())
        .map(|port| {
            certain_role(
                host,
                joined,
                fabric.map(|(fabric, _)| fabric),
                configured,
                port,
            )
        })
        .collect();
    let is_unknown = |port: usize| fabric.is_some() && is_of_unknown_kind(host, joined, port);
    if host.gpus.is_empty() {
        return finish(
            host,
            out,
            is_unknown,
            (TrafficRole::Storage, RoleReason::NoGpu),
        );
    }
    let open: Vec<usize> = (0..out.len()).filter(|&port| out[port].is_none()).collect();
    let near = |gpu: usize, port: usize| host.tier(gpu, port).is_some_and(Tier::is_local);
    let gpus = 0..host.gpus.len();
    let is_near = |port: usize| gpus.clone().any(|gpu| near(gpu, port));
    if !open.iter().any(|&port| is_near(port)) {
        return finish(
            host,
            out,
            is_unknown,
            (TrafficRole::Compute, RoleReason::NoPcieSignal),
        );
    }
    for &port in open.iter().filter(|&&port| is_near(port)) {
        out[port] = Some((TrafficRole::Compute, RoleReason::NearGpu));
    }
    demote_slower(host, joined, fabric, &open, &mut out);
    demote_excess(host, joined, fabric, &open, &mut out);
    // A GPU without a port of its own gets one: a port that is nearer to it than the ports of other
    // GPUs.
    for gpu in gpus.clone() {
        let compute = |port: &usize| matches!(out[*port], Some((TrafficRole::Compute, _)));
        let tier = |port: &usize| host.tier(gpu, *port).map_or(u8::MAX, |tier| tier as u8);
        let best = open.iter().filter(|port| compute(port)).map(tier).min();
        let is_nearest =
            |port: &&usize| out[**port].is_none() && best.is_none_or(|best| tier(port) < best);
        let nearest = open
            .iter()
            .filter(is_nearest)
            .min_by_key(|port| (tier(port), **port));
        if let Some(&port) = nearest
            && best.is_none_or(|best| best > Tier::GDR_LIMIT as u8)
        {
            out[port] = Some((TrafficRole::Compute, RoleReason::NearestOfGpu));
        }
    }
    // A missing port near a GPU without another port counts as an InfiniBand port that is down; any
    // other missing port does not.
    let surplus =
        |port: &usize| is_unknown(*port) && !matches!(out[*port], Some((TrafficRole::Compute, _)));
    let surplus: Vec<usize> = open.iter().copied().filter(surplus).collect();
    for port in surplus {
        out[port] = Some((TrafficRole::Outside, RoleReason::NotInFabric));
    }
    finish(
        host,
        out,
        is_unknown,
        (TrafficRole::Storage, RoleReason::FarFromGpus),
    )
}

/// The role of a port that is certain without a comparison with other ports.
fn certain_role(
    host: &HostInventory,
    joined: &[Joined],
    fabric: Option<&GpuFabric>,
    configured: &BTreeMap<Guid, TrafficRole>,
    port: usize,
) -> Option<ReasonedRole> {
    let entry = &host.hca_ports[port];
    let of_fabric = fabric.and_then(|fabric| Some(fabric.port(joined.get(port)?.port()?)));
    let guid = of_fabric.map(|port| port.guid).or(entry.port_guid);
    if let Some(&role) = guid.and_then(|guid| configured.get(&guid)) {
        return Some((role, RoleReason::Configured));
    }
    if entry.link_layer == Some(LinkLayer::Ethernet) {
        return Some((TrafficRole::Outside, RoleReason::Ethernet));
    }
    let is_virtual = joined.get(port) == Some(&Joined::Not(NotJoined::VirtualFunction));
    is_virtual.then_some((TrafficRole::Outside, RoleReason::VirtualFunction))
}

/// Whether a port is missing from the fabric and no source declares its link layer.
fn is_of_unknown_kind(host: &HostInventory, joined: &[Joined], port: usize) -> bool {
    let missing = matches!(
        joined.get(port),
        Some(Joined::Not(NotJoined::NotInFabric | NotJoined::Down))
    );
    missing && host.hca_ports[port].link_layer.is_none()
}

/// The rate of a port in Gb/s: the trained rate of its cable, else the rate that the host states.
fn rate(
    host: &HostInventory,
    joined: &[Joined],
    fabric: Option<&GpuFabric>,
    port: usize,
) -> Option<u32> {
    let of_fabric = fabric.and_then(|fabric| Some(fabric.port(joined.get(port)?.port()?)));
    match of_fabric {
        Some(port) => Some(u32::from(port.rate_tenth_gbps) / 10),
        None => host.hca_ports[port].gbps,
    }
}

/// Gives ports the storage role if every GPU near them has a faster port that is at least as near.
fn demote_slower(
    host: &HostInventory,
    joined: &[Joined],
    fabric: Option<(&GpuFabric, &LeafUse)>,
    open: &[usize],
    out: &mut [Option<ReasonedRole>],
) {
    let fabric = fabric.map(|(fabric, _)| fabric);
    let near = |gpu: usize, port: usize| host.tier(gpu, port).is_some_and(Tier::is_local);
    let candidates: Vec<usize> = open
        .iter()
        .copied()
        .filter(|&port| out[port].is_some())
        .collect();
    for &port in &candidates {
        let Some(mine) = rate(host, joined, fabric, port) else {
            continue;
        };
        let faster = |gpu: usize| {
            candidates.iter().any(|&other| {
                let rate = rate(host, joined, fabric, other);
                near(gpu, other)
                    && host.tier(gpu, other) <= host.tier(gpu, port)
                    && rate > Some(mine)
            })
        };
        if (0..host.gpus.len())
            .filter(|&gpu| near(gpu, port))
            .all(faster)
        {
            out[port] = Some((TrafficRole::Storage, RoleReason::Slower));
        }
    }
}

/// Gives the storage role to ports of GPUs that have more ports than is usual in the machine.
fn demote_excess(
    host: &HostInventory,
    joined: &[Joined],
    fabric: Option<(&GpuFabric, &LeafUse)>,
    open: &[usize],
    out: &mut [Option<ReasonedRole>],
) {
    let is_compute = |port: usize, out: &[Option<ReasonedRole>]| {
        matches!(out[port], Some((TrafficRole::Compute, _)))
    };
    let groups = groups(host, open, |port| is_compute(port, out));
    // The number of ports per GPU in sixtieths, so that 1/2 and 2/3 are whole numbers.
    let ratio = |(gpus, ports): &(Vec<usize>, Vec<usize>)| 60 * ports.len() / gpus.len();
    let mut count: BTreeMap<usize, usize> = BTreeMap::new();
    for group in &groups {
        *count.entry(ratio(group)).or_default() += 1;
    }
    // Take the most frequent ratio; on a tie, the smallest.
    let usual = count
        .iter()
        .max_by_key(|&(&ratio, &count)| (count, std::cmp::Reverse(ratio)));
    let Some((&usual, &frequent)) = usual else {
        return;
    };
    // If several ratios are equally frequent, all are usual: then only the fabric shows which ports
    // are in excess.
    let is_unique = count.values().filter(|&&count| count == frequent).count() == 1;
    for (gpus, ports) in &groups {
        if ratio(&(gpus.clone(), ports.clone())) <= usual {
            continue;
        }
        let keep = (usual * gpus.len()).div_ceil(60);
        let use_of = |&port: &usize| NearPort::of(host, joined, fabric, port);
        let mut order: Vec<NearPort> = ports.iter().map(use_of).collect();
        order.sort();
        for port in order
            .iter()
            .skip(keep)
            .filter(|port| is_unique || port.is_other())
        {
            out[port.port] = Some((TrafficRole::Storage, RoleReason::Excess));
        }
    }
}

/// The sort key of ports near a GPU: ports that most likely serve the GPU come first.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct NearPort {
    /// Whether there is a fabric, and the port is not in it.
    is_missing: bool,
    /// Whether the host states that the port is not active.
    is_inactive: bool,
    /// The share of nodes without GPUs at the port's leaf, in thousandths.
    foreign: u32,
    /// The rate of the port: faster ports come first.
    slow: std::cmp::Reverse<Option<u32>>,
    /// The tier to the nearest GPU.
    tier: Option<Tier>,
    /// Whether no source states the link layer of the port.
    lacks_link_layer: bool,
    /// The position of the port in the inventory, which breaks ties.
    port: usize,
}

impl NearPort {
    fn of(
        host: &HostInventory,
        joined: &[Joined],
        fabric: Option<(&GpuFabric, &LeafUse)>,
        port: usize,
    ) -> NearPort {
        let there = joined.get(port).and_then(|joined| joined.port());
        let foreign = fabric.zip(there).and_then(|((fabric, leaves), index)| {
            leaves.foreign.get(&fabric.port(index).leaf).copied()
        });
        let rate = rate(host, joined, fabric.map(|(fabric, _)| fabric), port);
        NearPort {
            is_missing: fabric.is_some() && there.is_none(),
            is_inactive: host.hca_ports[port].active == Some(false),
            foreign: foreign.unwrap_or(0),
            slow: std::cmp::Reverse(rate),
            tier: host.nearest_gpu(port),
            lacks_link_layer: host.hca_ports[port].link_layer.is_none(),
            port,
        }
    }

    /// Whether the state of the port or of its leaf shows that the port does not serve the GPU.
    fn is_other(&self) -> bool {
        self.is_missing || self.is_inactive || self.foreign > 0
    }
}

/// Groups of GPUs and the compute ports near them, as indices of the inventory: a group contains
/// every GPU that shares PCIe switches with one of its ports.
fn groups(
    host: &HostInventory,
    open: &[usize],
    is_compute: impl Fn(usize) -> bool,
) -> Vec<(Vec<usize>, Vec<usize>)> {
    let mut groups: Vec<(Vec<usize>, Vec<usize>)> = Vec::new();
    for &port in open.iter().filter(|&&port| is_compute(port)) {
        let near = |gpu: &usize| host.tier(*gpu, port).is_some_and(Tier::is_local);
        let mut merged: (Vec<usize>, Vec<usize>) =
            ((0..host.gpus.len()).filter(near).collect(), vec![port]);
        let touches = |group: &(Vec<usize>, Vec<usize>), of: &[usize]| {
            group.0.iter().any(|gpu| of.contains(gpu))
        };
        let mut kept = Vec::new();
        for group in groups {
            if touches(&group, &merged.0) {
                merged.0.extend(group.0);
                merged.1.extend(group.1);
            } else {
                kept.push(group);
            }
        }
        merged.0.sort_unstable();
        merged.0.dedup();
        merged.1.sort_unstable();
        kept.push(merged);
        groups = kept;
    }
    groups.sort();
    groups
}

/// Gives ports without a role the role `rest`, or [`TrafficRole::Outside`] if their kind is
/// unknown. Slow storage ports become management ports.
fn finish(
    host: &HostInventory,
    out: Vec<Option<ReasonedRole>>,
    is_unknown: impl Fn(usize) -> bool,
    rest: ReasonedRole,
) -> Vec<ReasonedRole> {
    let open = |port| match is_unknown(port) {
        true => (TrafficRole::Outside, RoleReason::NotInFabric),
        false => rest,
    };
    let mut roles: Vec<ReasonedRole> = (0..)
        .zip(out)
        .map(|(port, role)| role.unwrap_or_else(|| open(port)))
        .collect();
    let rates = |wanted: TrafficRole, roles: &[ReasonedRole]| -> Option<u32> {
        let of_role = roles
            .iter()
            .zip(&host.hca_ports)
            .filter(|(role, _)| role.0 == wanted);
        of_role.filter_map(|(_, port)| port.gbps).max()
    };
    if let Some(compute) = rates(TrafficRole::Compute, &roles) {
        for (role, port) in roles.iter_mut().zip(&host.hca_ports) {
            // A quarter of the compute rate or less is too slow for storage.
            if role.0 == TrafficRole::Storage && port.gbps.is_some_and(|rate| rate * 4 <= compute) {
                role.0 = TrafficRole::Management;
            }
        }
    }
    roles
}
