//! Compares, for each GPU of every sample, the adapter that NCCL takes with our settings, the
//! adapter that it takes without settings, and the best one.
//!
//! The rules are those of NCCL 2.30 (`net_ib/init.cc`, `graph/topo.cc`, `graph/paths.cc`): ports
//! that are Active and named by `NCCL_IB_HCA`, in the order of PCI addresses; for a GPU those with
//! the most bandwidth, of these the nearest, of these one by the GPU's number; over NVLink through
//! another GPU (PXN) where that avoids the processor.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use rsm_gdr::findings::GpuFindingKind;
use rsm_gdr::inventory::{
    Gpu, HcaPort, HostInventory, InventorySource, LinkLayer, NvLink, PcieLink, Tier,
};
use rsm_gdr::job::Pattern;
use rsm_gdr::render::{NcclVersion, RenderError, nccl_environment};
use rsm_gdr::roles::TrafficRole;
use rsm_gdr::{Analysis, Host};

use super::{NoChoice, alone, machine};
use crate::samples::{every_sample, samples};

/// NCCL's kinds of paths, nearest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Kind {
    Pix,
    Pxb,
    /// The path crosses the coherent link to the processor.
    P2c,
    /// The path crosses NVLink to another GPU, and continues on a path of that GPU.
    Pxn,
    Phb,
    Sys,
}

/// The maximum number of channels of a communicator.
const CHANNELS: usize = 64;
/// The bandwidths in GB/s of a PCIe link, of a port and of NVLinks that the inventory does not
/// state.
const PCIE: f64 = 48.0;
const PORT: f64 = 50.0;
const NVLINK: f64 = 200.0;

/// A path, with its bandwidth in GB/s.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Path {
    gbytes: f64,
    kind: Kind,
    /// The position of the GPU that relays; `None` for a path without a relay.
    relay: Option<usize>,
}

/// One process of NCCL on a host.
struct Nccl<'a> {
    host: &'a HostInventory,
    /// The positions of the ports that the process opens, in its order.
    nets: Vec<usize>,
    /// The farthest kind of path over which the process uses GPUDirect RDMA.
    level: Kind,
    /// The paths from each GPU to each port in `nets`, one row for each GPU.
    to_net: Vec<Path>,
    /// The paths from the ports to the GPUs, in the layout of `to_net`.
    to_gpu: Vec<Path>,
}

/// The value of a variable in an environment file; `None` if the file does not set it.
pub(super) fn setting<'a>(environment: &'a str, name: &str) -> Option<&'a str> {
    let value = |line: &'a str| line.strip_prefix(name)?.strip_prefix('=');
    environment.lines().find_map(value)
}

/// Whether `NCCL_IB_HCA` keeps a port.
pub(super) fn is_named(list: Option<&str>, port: &HcaPort) -> bool {
    let Some(list) = list else { return true };
    let (not, list) = list
        .strip_prefix('^')
        .map_or((false, list), |rest| (true, rest));
    let (exact, list) = list
        .strip_prefix('=')
        .map_or((false, list), |rest| (true, rest));
    let device = port.device.as_deref().unwrap_or_default();
    let fits = |entry: &str| {
        let mut parts = entry.split(':');
        let name = parts.next().unwrap_or_default();
        let number = parts.next().and_then(|number| number.parse::<u8>().ok());
        let same = if exact {
            device == name
        } else {
            device.starts_with(name)
        };
        same && number.is_none_or(|number| number == port.port)
    };
    list.split(',').any(fits) != not
}

/// NCCL's bandwidth of a PCIe link in GB/s.
fn gbytes(link: Option<PcieLink>) -> f64 {
    // NCCL's table has 60 units of 100 Mb/s for a lane at 8 GT/s.
    link.map_or(PCIE, |link| {
        f64::from(link.width) * f64::from(link.tenth_gts) * 0.75 / 80.0
    })
}

impl<'a> Nccl<'a> {
    /// `across` is the bandwidth between processors in GB/s, which NCCL knows by their models.
    fn new(host: &'a HostInventory, environment: &str, across: f64) -> Nccl<'a> {
        let list = setting(environment, "NCCL_IB_HCA");
        let opens = |&port: &usize| {
            let port = &host.hca_ports[port];
            port.active != Some(false) && is_named(list, port)
        };
        let mut nets: Vec<usize> = (0..host.hca_ports.len()).filter(opens).collect();
        // Devices without a path come last.
        nets.sort_by_key(|&net| (host.hca_ports[net].pci.is_none(), host.hca_ports[net].pci));
        let level = match setting(environment, "NCCL_NET_GDR_LEVEL") {
            None => Kind::P2c,
            Some("PIX") => Kind::Pix,
            Some("PXB") => Kind::Pxb,
            Some("PHB") => Kind::Phb,
            Some("SYS") => Kind::Sys,
            Some(other) => panic!("NCCL has no level {other}"),
        };
        let mut nccl = Nccl {
            host,
            nets,
            level,
            to_net: Vec::new(),
            to_gpu: Vec::new(),
        };
        for gpu in 0..host.gpus.len() {
            let paths: Vec<Path> = nccl
                .nets
                .iter()
                .map(|&net| nccl.direct(gpu, net, across))
                .collect();
            nccl.to_net.extend(paths);
        }
        nccl.to_gpu.clone_from(&nccl.to_net);
        nccl.mark_coherent();
        nccl.set_relays();
        nccl
    }

    /// The path between a GPU and the port at position `net` of the inventory.
    fn direct(&self, gpu: usize, net: usize, across: f64) -> Path {
        let (entry, port) = (&self.host.gpus[gpu], &self.host.hca_ports[net]);
        let kind = match self.host.tier(gpu, net) {
            Some(Tier::Pix) => Kind::Pix,
            Some(Tier::Pxb) => Kind::Pxb,
            Some(Tier::Phb | Tier::Node) => Kind::Phb,
            // If the inventory has no tier, NCCL sees no common bridge either.
            Some(Tier::Sys) | None => Kind::Sys,
        };
        let up = match (kind, entry.c2c_gbytes) {
            (Kind::Phb | Kind::Sys, Some(c2c)) => f64::from(c2c),
            _ => gbytes(entry.pcie),
        };
        let wire = port.gbps.map_or(PORT, |gbps| f64::from(gbps) / 8.0);
        let between = if kind == Kind::Sys { across } else { f64::MAX };
        let gbytes = up.min(gbytes(port.pcie)).min(wire).min(between);
        Path {
            gbytes,
            kind,
            relay: None,
        }
    }

    /// The index in `to_net` of the path between a GPU and the port at `net` in `nets`.
    fn at(&self, gpu: usize, net: usize) -> usize {
        gpu * self.nets.len() + net
    }

    /// The positions of the nearest paths among the paths with the highest bandwidth.
    fn local(paths: impl Iterator<Item = Path> + Clone) -> Vec<usize> {
        let most = paths.clone().map(|path| path.gbytes).fold(0.0, f64::max);
        let widest = |path: &Path| path.gbytes == most;
        let nearest = paths.clone().filter(widest).map(|path| path.kind).min();
        let best = paths
            .enumerate()
            .filter(|(_, path)| widest(path) && Some(path.kind) == nearest);
        best.map(|(place, _)| place).collect()
    }

    fn local_nets(&self, gpu: usize) -> Vec<usize> {
        Nccl::local((0..self.nets.len()).map(|net| self.to_net[self.at(gpu, net)]))
    }

    fn local_gpus(&self, net: usize) -> Vec<usize> {
        Nccl::local((0..self.host.gpus.len()).map(|gpu| self.to_gpu[self.at(gpu, net)]))
    }

    /// The port of a GPU in a channel, by its position in `nets`.
    fn net(&self, gpu: usize, channel: usize) -> Option<usize> {
        let nets = self.local_nets(gpu);
        let sharing = self.local_gpus(*nets.first()?).len();
        let each = nets.len().div_ceil(sharing);
        let mut place = usize::from(self.host.gpus[gpu].index) % sharing;
        if nets.len().is_power_of_two() {
            let bits = nets.len().trailing_zeros();
            place = (0..bits)
                .filter(|bit| (place >> bit) & 1 == 1)
                .map(|bit| 1 << (bits - 1 - bit))
                .sum();
        }
        Some(nets[(place + channel % each) % nets.len()])
    }

    /// The first GPU that uses a port in any channel; `None` if no GPU uses it.
    fn owner(&self, net: usize) -> Option<usize> {
        let gpus = self.local_gpus(net);
        let mut turns =
            (0..CHANNELS).flat_map(|channel| gpus.iter().map(move |&gpu| (gpu, channel)));
        let found = turns.find(|&(gpu, channel)| self.net(gpu, channel) == Some(net));
        found.map(|(gpu, _)| gpu)
    }

    /// Whether the drivers support GPUDirect RDMA, and the level allows the distance.
    fn gdr(&self, gpu: usize, net: usize) -> bool {
        let path = self.to_net[self.at(gpu, net)];
        let gpu = path.relay.unwrap_or(gpu);
        drivers_support_gdr(self.host, gpu, self.nets[net])
            && self.to_net[self.at(gpu, net)].kind <= self.level
    }

    /// Marks the paths of GPUs with a coherent link to their best ports.
    fn mark_coherent(&mut self) {
        for gpu in 0..self.host.gpus.len() {
            if self.host.gpus[gpu].c2c_gbytes.is_none() {
                continue;
            }
            for net in self.local_nets(gpu) {
                let at = self.at(gpu, net);
                for path in [&mut self.to_net[at], &mut self.to_gpu[at]] {
                    if path.kind == Kind::Phb {
                        path.kind = Kind::P2c;
                    }
                }
            }
        }
    }

    /// Replaces paths by paths through other GPUs where these are better. Paths without GPUDirect
    /// RDMA go through the processor.
    fn set_relays(&mut self) {
        for net in 0..self.nets.len() {
            for gpu in 0..self.host.gpus.len() {
                let at = self.at(gpu, net);
                if let Some(peer) = self.owner(net).filter(|&peer| peer != gpu) {
                    let (mine, theirs) = (self.to_net[at], self.to_net[self.at(peer, net)]);
                    let linked = self.host.links_between(gpu, peer) > 0;
                    let better = theirs.gbytes > mine.gbytes || mine.kind > Kind::Pxn;
                    if theirs.kind <= Kind::P2c && self.gdr(peer, net) && linked && better {
                        self.to_net[at] = Path {
                            gbytes: theirs.gbytes.min(NVLINK),
                            kind: Kind::Pxn,
                            relay: Some(peer),
                        };
                    }
                }
                if self.to_net[at].kind < Kind::Phb && !self.gdr(gpu, net) {
                    for path in [&mut self.to_net[at], &mut self.to_gpu[at]] {
                        (path.kind, path.relay) = (path.kind.max(Kind::Phb), None);
                    }
                }
            }
        }
    }

    /// The port of a GPU in the first channel, by its position in the inventory, and its worth.
    fn choice(&self, gpu: usize, host: &Host) -> Option<(usize, Worth)> {
        let net = self.net(gpu, 0)?;
        let port = self.nets[net];
        let worth = Worth {
            off_network: host.roles[port].0 != TrafficRole::Compute,
            without_gdr: !self.gdr(gpu, net),
            distance: self.to_net[self.at(gpu, net)].kind,
        };
        Some((port, worth))
    }
}

/// Whether the drivers of a GPU and of a port support GPUDirect RDMA.
fn drivers_support_gdr(host: &HostInventory, gpu: usize, port: usize) -> bool {
    host.gpus[gpu].gdr != Some(false) && host.hca_ports[port].gdr != Some(false)
}

/// The worth of a choice to a GPU, the best first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Worth {
    /// A port for storage, of Ethernet or a virtual function.
    off_network: bool,
    without_gdr: bool,
    distance: Kind,
}

/// The best worth that any setting could give to a GPU, among the compute ports that work. `nccl`
/// must allow every distance, and have no limit between processors.
fn best(nccl: &Nccl<'_>, host: &Host, gpu: usize) -> Option<Worth> {
    let live = host
        .compute_ports()
        .into_iter()
        .filter(|&port| host.works(port, false));
    let of_port = |port: usize| {
        let net = nccl.nets.iter().position(|&net| net == port)?;
        let path = nccl.to_net[nccl.at(gpu, net)];
        Some(Worth {
            off_network: false,
            without_gdr: !drivers_support_gdr(nccl.host, path.relay.unwrap_or(gpu), port),
            distance: path.kind,
        })
    };
    live.filter_map(of_port).min()
}

/// The number of GPUs with each worth, as text.
fn summary(worths: &[Worth]) -> String {
    let mut count: BTreeMap<String, usize> = BTreeMap::new();
    for worth in worths {
        let place = if worth.off_network {
            " off the network"
        } else {
            ""
        };
        let gdr = if worth.without_gdr {
            " without GDR"
        } else {
            ""
        };
        *count
            .entry(format!("{:?}{gdr}{place}", worth.distance))
            .or_default() += 1;
    }
    let parts = count.iter().map(|(text, count)| format!("{count} {text}"));
    parts.collect::<Vec<_>>().join(", ")
}

/// The largest number of GPUs that share a port.
fn max_gpus_of_a_port(ports: &[usize]) -> usize {
    let sharing = |port: &usize| ports.iter().filter(|other| *other == port).count();
    ports.iter().map(sharing).max().unwrap_or(0)
}

/// The text about NCCL's choices on a host: with our settings, without settings, and the best ones.
/// Asserts that ours are the best. `None` for a host without GPUs or compute ports.
pub(super) fn line(name: &str, analysis: &Analysis, across: f64) -> Option<String> {
    let host = &analysis.hosts[0];
    if host.inventory.gpus.is_empty() {
        return None;
    }
    let free = Nccl::new(&host.inventory, "NCCL_NET_GDR_LEVEL=SYS\n", f64::MAX);
    let best: Vec<Worth> = (0..host.inventory.gpus.len())
        .map(|gpu| best(&free, host, gpu))
        .collect::<Option<_>>()?;
    let environment =
        nccl_environment(analysis, "host", NcclVersion::RAILS).expect("names are known");
    let choices = |environment: &str| -> Vec<(usize, Worth)> {
        let nccl = Nccl::new(&host.inventory, environment, across);
        let choice = |gpu| nccl.choice(gpu, host).expect("a port that works");
        (0..host.inventory.gpus.len()).map(choice).collect()
    };
    let (ours, without) = (choices(&environment), choices(""));
    let list = host
        .inventory
        .gpus
        .iter()
        .zip(&ours)
        .zip(&without)
        .zip(&best);
    for (((gpu, ours), without), best) in list {
        let context = format!(
            "{name}, GPU{}, {across} GB/s: {ours:?}, without {without:?}, best {best:?}: {environment}",
            gpu.index
        );
        assert_eq!(ours.1, *best, "{context}");
        assert!(ours.1 <= without.1, "{context}");
    }
    let worths = |choices: &[(usize, Worth)]| {
        summary(&choices.iter().map(|choice| choice.1).collect::<Vec<_>>())
    };
    let ports = |choices: &[(usize, Worth)]| {
        max_gpus_of_a_port(&choices.iter().map(|choice| choice.0).collect::<Vec<_>>())
    };
    assert!(
        ports(&ours) <= ports(&without).max(best.len().div_ceil(host.compute_ports().len())),
        "{name}"
    );
    let (with, bare) = (ports(&ours), ports(&without));
    let mut text = format!("{name}\n");
    let _ = writeln!(
        text,
        "  ours     {}; at most {with} GPUs a port",
        worths(&ours)
    );
    let _ = writeln!(
        text,
        "  without  {}; at most {bare} GPUs a port",
        worths(&without)
    );
    let _ = writeln!(text, "  best     {}", summary(&best));
    Some(text)
}

#[test]
fn with_our_settings_nccl_takes_the_best_port_for_each_gpu_of_every_sample() {
    let Some(data) = samples() else { return };
    let (mut table, mut gpus) = (String::new(), 0);
    for (name, host) in every_sample(&data) {
        let (host, no_choice) = (machine(host.clone()), NoChoice::of(&host));
        for reversed in [false, true] {
            let mut host = host.clone();
            if reversed {
                reverse_ports(&mut host);
            }
            let analysis = alone(host);
            // NCCL's lowest bandwidth between processors in GB/s, a usual one, and the highest.
            for across in [6.0, 22.0, 40.0] {
                let text = line(name, &analysis, across);
                assert_eq!(text.is_none(), no_choice.is_some(), "{name}: {no_choice:?}");
                if !reversed
                    && across == 22.0
                    && let Some(text) = text
                {
                    gpus += analysis.hosts[0].inventory.gpus.len();
                    table += &text;
                }
            }
        }
    }
    assert!(gpus > 100, "{gpus} GPUs");
    crate::render::golden("nccl-choices.txt", &table);
}

/// Lists the ports in the opposite order, as verbs may.
fn reverse_ports(host: &mut HostInventory) {
    let ports = host.hca_ports.len();
    host.hca_ports.reverse();
    for row in host.tiers.chunks_mut(ports.max(1)) {
        row.reverse();
    }
}

/// A host of four GPUs, with NVLinks if `linked` is set. Each GPU has a port under its switch,
/// except that the port of the last GPU has the tier `last`.
pub(super) fn far_port(last: Tier, linked: bool) -> HostInventory {
    let mut host = HostInventory::empty(InventorySource::Generated);
    host.gpus = (0..4)
        .map(|index| Gpu {
            index,
            ..Gpu::default()
        })
        .collect();
    host.hca_ports = (0..4)
        .map(|place| {
            let mut port = HcaPort::new(Some(format!("mlx5_{place}")));
            port.link_layer = Some(LinkLayer::InfiniBand);
            port
        })
        .collect();
    let tier = |gpu: usize, port: usize| match (gpu == port, gpu == 3 || port == 3) {
        (true, false) => Tier::Pix,
        (true, true) => last,
        _ => Tier::Sys,
    };
    host.tiers = (0..16).map(|cell| Some(tier(cell / 4, cell % 4))).collect();
    if linked {
        let pairs = (0..4).flat_map(|a| (a + 1..4).map(move |b| NvLink { a, b, links: 18 }));
        host.nvlinks = pairs.collect();
    }
    host.nvlinks_known = true;
    host
}

/// The GPUDirect RDMA level that the file for a host sets; `None` if it sets none.
fn level(host: HostInventory) -> Option<String> {
    let analysis = alone(host);
    line("made", &analysis, 22.0).expect("ports for computing");
    let environment =
        nccl_environment(&analysis, "host", NcclVersion::RAILS).expect("names are known");
    setting(&environment, "NCCL_NET_GDR_LEVEL").map(str::to_owned)
}

#[test]
fn file_sets_the_gdr_level_only_if_a_gpu_needs_it() {
    // A GPU without NVLink needs its own distance.
    assert_eq!(level(far_port(Tier::Node, false)).as_deref(), Some("PHB"));
    assert_eq!(level(far_port(Tier::Pxb, false)), None);
    // With NVLink, NCCL relays through a GPU with a port of its own.
    assert_eq!(level(far_port(Tier::Node, true)), None);
    assert_eq!(level(far_port(Tier::Sys, true)), None);
    // With a coherent link, a path through the processor is not a detour.
    let coherent = |tier| {
        let mut host = far_port(tier, false);
        for gpu in &mut host.gpus {
            gpu.c2c_gbytes = Some(200);
        }
        host
    };
    assert_eq!(level(coherent(Tier::Node)), None);
    // NCCL uses the coherent link on its own since 2.27, and relays since 2.12.
    let of_version = |host, version| {
        let file = nccl_environment(&alone(host), "host", version).expect("names are known");
        setting(&file, "NCCL_NET_GDR_LEVEL").map(str::to_owned)
    };
    let phb = Some("PHB".to_owned());
    assert_eq!(of_version(coherent(Tier::Node), NcclVersion(2, 26, 5)), phb);
    assert_eq!(
        of_version(coherent(Tier::Node), NcclVersion(2, 27, 0)),
        None
    );
    assert_eq!(
        of_version(far_port(Tier::Node, true), NcclVersion(2, 11, 4)),
        phb
    );
    assert_eq!(
        of_version(far_port(Tier::Node, true), NcclVersion(2, 12, 0)),
        None
    );
    // No level helps if the driver of the GPU does not support GPUDirect RDMA.
    let mut without = far_port(Tier::Node, false);
    without.gpus[3].gdr = Some(false);
    assert_eq!(level(without), None);
}

/// Whether a finding asks the operator to allow GPUDirect RDMA over longer distances. Asserts that
/// a job has such a warning only if there is such a finding.
fn asks_for_gdr_level(analysis: &Analysis) -> bool {
    let kind = GpuFindingKind::GpuWithoutLocalHca;
    let found = analysis.findings.iter().any(|finding| finding.kind == kind);
    let gpus = analysis.hosts[0].inventory.gpus.len();
    let request = analysis.job_request(vec!["host".to_owned()], gpus, Pattern::Ring);
    let plan = analysis.plan(&request).expect("a known host");
    let warned = (plan.warnings.iter()).any(|warning| warning.contains("NCCL_NET_GDR_LEVEL"));
    assert!(
        found || !warned,
        "{:?} {:?}",
        plan.warnings,
        analysis.findings
    );
    found
}

#[test]
fn findings_ask_for_the_gdr_level_only_if_the_file_sets_it() {
    for (host, expected) in [
        (far_port(Tier::Node, false), true),
        (far_port(Tier::Sys, false), true),
        (far_port(Tier::Node, true), false),
        (far_port(Tier::Pix, false), false),
    ] {
        let analysis = alone(host);
        assert_eq!(
            asks_for_gdr_level(&analysis),
            expected,
            "{:?}",
            analysis.findings
        );
    }
    let Some(data) = samples() else { return };
    let mut asking = 0;
    for (name, mut host) in every_sample(&data) {
        for (place, port) in host.hca_ports.iter_mut().enumerate() {
            port.device.get_or_insert_with(|| format!("mlx5_{place}"));
        }
        if host.gpus.is_empty() {
            continue;
        }
        let analysis = alone(host);
        let set = match nccl_environment(&analysis, "host", NcclVersion::RAILS) {
            Ok(file) => setting(&file, "NCCL_NET_GDR_LEVEL").is_some(),
            // This sample has no adapters of the fabric.
            Err(refused) => {
                assert!(
                    matches!(refused, RenderError::NotInFabric(_)),
                    "{name}: {refused}"
                );
                false
            }
        };
        assert!(
            set || !asks_for_gdr_level(&analysis),
            "{name}: {:?}",
            analysis.findings
        );
        asking += usize::from(asks_for_gdr_level(&analysis));
    }
    assert!(asking > 0);
}
