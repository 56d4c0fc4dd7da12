//! The port for each GPU, and whether to expect GPUDirect RDMA between them.

mod walk;

pub(crate) use walk::walk;

pub use walk::{ForwardingPath, RouteError};

use super::fabric::GpuFabric;
use super::host::Host;
use super::inventory::Tier;
use super::rails::Rails;
use rsm_routing::topology::SwitchIdx;

/// The maximum number of fallbacks in a hint.
const MAX_FALLBACKS: usize = 2;

/// Whether to expect GPUDirect RDMA between a GPU and its port.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Gdr {
    /// Yes: only PCIe switches lie between GPU and port.
    Local,
    /// Yes: over the coherent link of GPU and processor (GH200, GB200).
    Coherent,
    /// Yes: the adapter has a PCIe function for GPUDirect RDMA, so that the tier does not matter.
    DataDirect,
    /// Only when the libraries' settings allow this tier (`NCCL_NET_GDR_LEVEL`).
    WhenAllowed,
    /// No: the driver of the GPU or adapter does not support it.
    Unsupported,
    /// The source does not state the tier.
    Unknown,
}

impl Gdr {
    /// Whether to expect GPUDirect RDMA without any setting.
    pub const fn is_expected(self) -> bool {
        matches!(self, Gdr::Local | Gdr::Coherent | Gdr::DataDirect)
    }

    /// The answer as text for the operator.
    pub const fn text(self) -> &'static str {
        match self {
            Gdr::Local => "yes",
            Gdr::Coherent => "yes, over C2C",
            Gdr::DataDirect => "yes, Data Direct",
            Gdr::WhenAllowed => "only when allowed",
            Gdr::Unsupported => "no driver",
            Gdr::Unknown => "unknown",
        }
    }
}

/// The reason why a GPU has its port.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum HintReason {
    /// No other compute port is as near.
    Nearest,
    /// Other ports are as near; this port is on the GPU's rail, and not all of them are.
    TieByRail,
    /// Other ports are as near; GPUs share them evenly, in the order of PCI addresses.
    TieByShare,
    /// A nearer port is down or not in the fabric.
    NearerIsDown,
    /// The source does not state the tier of the port.
    NoTier,
    /// No compute port works.
    NoPort,
}

impl HintReason {
    /// The reason as text for the operator.
    pub const fn text(self) -> &'static str {
        match self {
            HintReason::Nearest => "nearest",
            HintReason::TieByRail => "tie, by rail",
            HintReason::TieByShare => "tie, by share",
            HintReason::NearerIsDown => "nearer one is down",
            HintReason::NoTier => "no tier known",
            HintReason::NoPort => "no port works",
        }
    }
}

/// The hint for one GPU. Ports are given by their positions in the host's inventory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GpuHint {
    /// The position of the GPU in the host's inventory.
    pub gpu: usize,
    /// The ports to use, the best first; more than one if the host has more ports than GPUs.
    pub ports: Vec<usize>,
    /// The tier between the GPU and the first port.
    pub tier: Option<Tier>,
    /// The rail of the first port: the slot whose leaf the port reaches.
    pub rail: Option<u16>,
    /// The ports to use if the first port fails, nearest first; among equally near ports, ports
    /// that
    /// share neither the first port's adapter nor its leaf come first.
    pub fallbacks: Vec<usize>,
    /// Whether to expect GPUDirect RDMA.
    pub gdr: Gdr,
    /// The reason for the choice of the port.
    pub reason: HintReason,
}

impl GpuHint {
    /// The first port to use; `None` if no port works.
    pub fn port(&self) -> Option<usize> {
        self.ports.first().copied()
    }
}

/// The hints for the GPUs of one host; `place` is the position of the host among the hosts of
/// `rails`.
pub(super) fn hints(
    host: &Host,
    place: usize,
    fabric: Option<(&GpuFabric, &Rails)>,
) -> Vec<GpuHint> {
    let compute = host.compute_ports();
    let live: Vec<usize> = compute
        .iter()
        .copied()
        .filter(|&port| host.works(port, fabric.is_some()))
        .collect();
    let leaf = |port: usize| {
        let (fabric, _) = fabric?;
        Some(fabric.port(host.joined[port].port()?).leaf)
    };
    let targets = target_leaves(host, place, fabric.map(|(_, rails)| rails));
    let misfit = |gpu: usize, port: usize| match leaf(port) {
        Some(leaf) if !targets[gpu].is_empty() => u64::from(!targets[gpu].contains(&leaf)),
        _ => 0,
    };
    let assigned = host.assign_among(&live, misfit);
    let rail = |port: usize| -> Option<u16> {
        let (_, rails) = fabric?;
        let at_leaf = || rails.rails_at(place, leaf(port)?).next();
        let slot = host.slot(port)?;
        // If several rails end at one leaf, a port has the number of its own slot.
        match rails.rail(place, slot) {
            Some(own) if Some(own.leaf) == leaf(port) => u16::try_from(slot).ok(),
            _ => at_leaf(),
        }
    };
    let inventory = &host.inventory;
    let hint_of = |(gpu, ports): (usize, Vec<usize>)| {
        let tier = ports.first().and_then(|&port| inventory.tier(gpu, port));
        let mut rest: Vec<usize> = live
            .iter()
            .copied()
            .filter(|port| !ports.contains(port))
            .collect();
        let first = ports.first().copied();
        rest.sort_by_key(|&port| {
            (
                inventory.tier(gpu, port).map_or(u8::MAX, |tier| tier as u8),
                first.is_some_and(|first| inventory.share_adapter(first, port)),
                first.is_some_and(|first| leaf(port).is_some() && leaf(first) == leaf(port)),
                port,
            )
        });
        rest.truncate(MAX_FALLBACKS);
        GpuHint {
            gpu,
            tier,
            rail: ports.first().and_then(|&port| rail(port)),
            gdr: gdr(host, gpu, ports.first().copied()),
            reason: reason(host, gpu, &ports, &compute, &live, misfit),
            fallbacks: rest,
            ports,
        }
    };
    assigned.into_iter().enumerate().map(hint_of).collect()
}

/// The leaves that each GPU's traffic should reach: the leaves of the rails of the ports that the
/// GPU has if all ports work.
pub(crate) fn target_leaves(
    host: &Host,
    place: usize,
    rails: Option<&Rails>,
) -> Vec<Vec<SwitchIdx>> {
    let rail = |port: &usize| Some(rails?.rail(place, host.slot(*port)?)?.leaf);
    let ports: Vec<usize> = host.compute_slots().collect();
    let assigned = host.assign_among(&ports, |_, _| 0);
    assigned
        .iter()
        .map(|ports| ports.iter().filter_map(rail).collect())
        .collect()
}

/// The reason why a GPU has `ports`. `misfit` returns 1 for a GPU and a port that is not on the
/// GPU's rail.
fn reason(
    host: &Host,
    gpu: usize,
    ports: &[usize],
    compute: &[usize],
    live: &[usize],
    misfit: impl Fn(usize, usize) -> u64,
) -> HintReason {
    let Some(&port) = ports.first() else {
        return HintReason::NoPort;
    };
    let tier = |port: usize| host.inventory.tier(gpu, port);
    let Some(mine) = tier(port) else {
        return HintReason::NoTier;
    };
    let nearer = |&&other: &&usize| tier(other).is_some_and(|tier| tier < mine);
    if compute.iter().any(|other| nearer(&other)) {
        return HintReason::NearerIsDown;
    }
    let as_near: Vec<usize> = live
        .iter()
        .copied()
        .filter(|&other| tier(other) == Some(mine))
        .collect();
    let is_on_rail = |port: usize| misfit(gpu, port) == 0;
    match as_near.len() {
        0 | 1 => HintReason::Nearest,
        _ if is_on_rail(port) && !as_near.iter().all(|&port| is_on_rail(port)) => {
            HintReason::TieByRail
        }
        _ => HintReason::TieByShare,
    }
}

/// Whether to expect GPUDirect RDMA between a GPU and its first port.
fn gdr(host: &Host, gpu: usize, port: Option<usize>) -> Gdr {
    let Some(port) = port else {
        return Gdr::Unknown;
    };
    let (entry, adapter) = (&host.inventory.gpus[gpu], &host.inventory.hca_ports[port]);
    if entry.gdr == Some(false) || adapter.gdr == Some(false) {
        return Gdr::Unsupported;
    }
    // Beyond the processor at the end of the GPU's coherent link, the link no longer helps.
    // `nvidia-smi` shows SYS even for ports at the same NUMA node (GB200).
    let apart = |tier: Tier| {
        let numa = entry.numa.zip(adapter.numa);
        tier == Tier::Sys && numa.is_some_and(|(gpu, port)| gpu != port)
    };
    match host.inventory.tier(gpu, port) {
        _ if adapter.data_direct => Gdr::DataDirect,
        Some(tier) if tier <= Tier::GDR_LIMIT => Gdr::Local,
        Some(tier) if entry.c2c_gbytes.is_some() && !apart(tier) => Gdr::Coherent,
        Some(_) => Gdr::WhenAllowed,
        None => Gdr::Unknown,
    }
}
