use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::RenderError;
use super::ports::{by_rail, device, find_host, of_fabric, plane};
use crate::Analysis;
use crate::host::Host;
use crate::inventory::{PciAddress, Tier};
use crate::nccl::{NcclVersion, gpus_to_allow};

/// The maximum number of NCCL_IB_HCA entries that NCCL keeps.
const MAX_IB_HCA: usize = 32;

/// Writes NCCL's environment for a host: one `NAME=value` per line.
///
/// Ports are in the order of rails, which is the same on all hosts whatever the names of devices.
///
/// # Errors
/// No port of the host is in the fabric (NCCL would then use any adapter), an adapter has no name,
/// or there are more adapters than NCCL accepts.
pub fn nccl_environment(
    analysis: &Analysis,
    host: &str,
    version: NcclVersion,
) -> Result<String, RenderError> {
    let (place, entry) = find_host(analysis, host)?;
    let ports = by_rail(analysis, place);
    if ports.is_empty() {
        return Err(RenderError::NotInFabric(host.to_owned()));
    }
    if ports.len() > MAX_IB_HCA {
        return Err(RenderError::TooManyPorts {
            found: ports.len(),
            limit: MAX_IB_HCA,
        });
    }
    let mut list = Vec::with_capacity(ports.len());
    let mut planes = BTreeSet::new();
    for &(port, rail) in &ports {
        let of_host = &entry.inventory.hca_ports[port];
        let mut text = format!("{}:{}", device(of_host)?, of_host.port);
        if let (Some(rail), Some(of_fabric)) = (rail, of_fabric(analysis, entry, port)) {
            let plane = plane(analysis, of_fabric);
            planes.insert(plane);
            if version >= NcclVersion::RAILS {
                let _ = write!(text, ":{rail}:{plane}");
            }
        }
        list.push(text);
    }
    let mut out = String::new();
    // The second `=` requests exactly these names; otherwise NCCL treats them as prefixes.
    let _ = writeln!(out, "NCCL_IB_HCA=={}", list.join(","));
    // NCCL must not cross rails in parts of the fabric without a connection; otherwise it may.
    let _ = writeln!(
        out,
        "NCCL_CROSS_NIC={}",
        if planes.len() > 1 { 0 } else { 2 }
    );
    if version >= NcclVersion::FAILOVER && fleet_has_twin_ports(analysis) {
        out.push_str("NCCL_IB_RESILIENCY_PORT_FAILOVER=1\n");
        if version >= NcclVersion::RECOVERY {
            out.push_str("NCCL_IB_RESILIENCY_PORT_RECOVERY=1\n");
        }
    }
    if let Some(level) = gdr_level(analysis, place, version) {
        let _ = writeln!(out, "NCCL_NET_GDR_LEVEL={level}");
    }
    if let Some(sl) = analysis.config.level() {
        let _ = writeln!(out, "NCCL_IB_SL={sl}");
    }
    if let Some(is_adaptive) = analysis.config.is_adaptive() {
        let _ = writeln!(out, "NCCL_IB_ADAPTIVE_ROUTING={}", u8::from(is_adaptive));
    }
    Ok(out)
}

/// Whether every GPU host has two compute ports on one adapter. NCCL fuses such ports into one
/// device, so that the other port continues the traffic of a failed port.
///
/// All hosts of a job need the same setting: with it, NCCL 2.30 sends a message's number instead of
/// its size (`recvMatchingScheme`), and neither end checks which of the two it receives. A host
/// without such ports therefore turns the setting off for all. A port that is down counts, because
/// the host will get it back.
fn fleet_has_twin_ports(analysis: &Analysis) -> bool {
    let mut hosts = analysis
        .hosts
        .iter()
        .filter(|host| !host.inventory.gpus.is_empty())
        .peekable();
    let has_twins = |host: &Host| {
        let ports = host.compute_ports();
        let are_twins =
            |one: usize, other: usize| one != other && host.inventory.share_adapter(one, other);
        let has_twin = |&one: &usize| ports.iter().any(|&other| are_twins(one, other));
        ports.iter().any(has_twin)
    };
    hosts.peek().is_some() && hosts.all(has_twins)
}

/// The value of NCCL_NET_GDR_LEVEL, if NCCL's own limit would keep GPUDirect RDMA off; else `None`.
fn gdr_level(analysis: &Analysis, place: usize, version: NcclVersion) -> Option<&'static str> {
    let needed = gpus_to_allow(analysis, place, version);
    let hints = analysis.hints[place].iter();
    let tier = hints
        .filter(|hint| needed.contains(&hint.gpu))
        .filter_map(|hint| hint.tier)
        .max()?;
    Some(tier.nccl_level())
}

/// Devices of one host that PCIe switches join, up to the depth that NCCL can use.
struct Branch {
    /// The NUMA node; -1 if it is unknown.
    numa: i32,
    /// The switches, each with the positions of its GPUs and ports. Several switches are attached
    /// to a further switch.
    switches: Vec<(Vec<usize>, Vec<usize>)>,
}

/// Writes the topology file for NCCL, for hosts that hide their own: addresses, PCIe switches as
/// far as tiers imply them, and rail and plane of each port for versions that read them.
///
/// NCCL finds everything else (processors, models) itself.
///
/// # Errors
/// A device has no address or no name.
pub fn nccl_topology(
    analysis: &Analysis,
    host: &str,
    version: NcclVersion,
) -> Result<String, RenderError> {
    let (place, entry) = find_host(analysis, host)?;
    let rails = by_rail(analysis, place);
    let compute: Vec<usize> = rails.iter().map(|&(port, _)| port).collect();
    let mut branches = branches(entry, &compute);
    branches.sort_by_key(|branch| branch.numa);
    let mut out = "<system version=\"1\">\n".to_owned();
    let mut bridges = 0u8;
    for same_node in branches.chunk_by(|one, other| one.numa == other.numa) {
        let _ = writeln!(out, "  <cpu numaid=\"{}\">", same_node[0].numa);
        for branch in same_node {
            let devices: usize = branch
                .switches
                .iter()
                .map(|(gpus, ports)| gpus.len() + ports.len())
                .sum();
            let nested = branch.switches.len() > 1;
            let mut depth = 2;
            if nested {
                open_bridge(&mut out, depth, &mut bridges);
                depth += 1;
            }
            for (gpus, ports) in &branch.switches {
                let under_switch = devices > 1;
                if under_switch {
                    open_bridge(&mut out, depth, &mut bridges);
                    depth += 1;
                }
                for &gpu in gpus {
                    let entry = &entry.inventory.gpus[gpu];
                    let missing = || RenderError::NoPciAddress(format!("GPU{}", entry.index));
                    pci(&mut out, depth, entry.pci.ok_or_else(missing)?, "0x030200");
                    out.push_str("/>\n");
                }
                for &port in ports {
                    let rail = rails
                        .iter()
                        .find(|&&(other, _)| other == port)
                        .and_then(|&(_, rail)| rail);
                    net(analysis, entry, port, rail, version, &mut out, depth)?;
                }
                if under_switch {
                    depth -= 1;
                    let _ = writeln!(out, "{:w$}</pci>", "", w = 2 * depth);
                }
            }
            if nested {
                out.push_str("    </pci>\n");
            }
        }
        out.push_str("  </cpu>\n");
    }
    out.push_str("</system>\n");
    Ok(out)
}

/// Writes the PCI device and the network interface of a port.
fn net(
    analysis: &Analysis,
    entry: &Host,
    port: usize,
    rail: Option<u16>,
    version: NcclVersion,
    out: &mut String,
    depth: usize,
) -> Result<(), RenderError> {
    let of_host = &entry.inventory.hca_ports[port];
    let address = of_host
        .pci
        .ok_or_else(|| RenderError::NoPciAddress(of_host.label()))?;
    pci(out, depth, address, "0x020700");
    let mut attributes = format!("name=\"{}\" port=\"{}\"", device(of_host)?, of_host.port);
    if let (Some(rail), Some(of_fabric)) = (rail, of_fabric(analysis, entry, port))
        && version >= NcclVersion::RAILS
    {
        let _ = write!(
            attributes,
            " rail=\"{rail}\" plane=\"{}\"",
            plane(analysis, of_fabric)
        );
    }
    let _ = writeln!(
        out,
        ">\n{:w$}<nic><net {attributes}/></nic>",
        "",
        w = 2 * depth + 2
    );
    let _ = writeln!(out, "{:w$}</pci>", "", w = 2 * depth);
    Ok(())
}

/// Writes the beginning of a PCI device; the caller closes the tag. All links get the same width:
/// NCCL prefers bandwidth to distance, and would skip the nearest adapter if a virtual machine
/// states a width of 0.
fn pci(out: &mut String, depth: usize, address: PciAddress, class: &str) {
    let link = "link_speed=\"32.0 GT/s PCIe\" link_width=\"16\"";
    let _ = write!(
        out,
        "{:w$}<pci busid=\"{address}\" class=\"{class}\" {link}",
        "",
        w = 2 * depth
    );
}

/// Opens a switch without a known address: it gets an address in a domain that no machine has.
fn open_bridge(out: &mut String, depth: usize, bridges: &mut u8) {
    // There are at most two switches for each device of a host.
    *bridges = bridges.saturating_add(1);
    let address = PciAddress {
        domain: 0xffff,
        bus: 0xff,
        device: *bridges / 8,
        function: *bridges % 8,
    };
    pci(out, depth, address, "0x060400");
    out.push_str(">\n");
}

/// The branches of a host. Several switches connect the devices of a branch (PXB), and one switch
/// connects the devices of one entry of [`Branch::switches`] (PIX).
fn branches(entry: &Host, compute: &[usize]) -> Vec<Branch> {
    let inventory = &entry.inventory;
    let joined = |limit: Tier, gpus: &[usize], ports: &[usize]| -> Vec<(Vec<usize>, Vec<usize>)> {
        let mut groups: Vec<(Vec<usize>, Vec<usize>)> =
            gpus.iter().map(|&gpu| (vec![gpu], Vec::new())).collect();
        for &port in ports {
            let near = |group: &(Vec<usize>, Vec<usize>)| {
                group
                    .0
                    .iter()
                    .any(|&gpu| inventory.tier(gpu, port).is_some_and(|tier| tier <= limit))
            };
            let mut merged = (Vec::new(), vec![port]);
            groups.retain_mut(|group| {
                let joins = near(group);
                if joins {
                    merged.0.append(&mut group.0);
                    merged.1.append(&mut group.1);
                }
                !joins
            });
            merged.0.sort_unstable();
            merged.1.sort_unstable();
            groups.push(merged);
        }
        groups.sort();
        groups
    };
    let all_gpus: Vec<usize> = (0..inventory.gpus.len()).collect();
    joined(Tier::Pxb, &all_gpus, compute)
        .into_iter()
        .map(|(gpus, ports)| {
            let of_gpus = gpus.iter().filter_map(|&gpu| inventory.gpus[gpu].numa);
            let of_ports = ports
                .iter()
                .filter_map(|&port| inventory.hca_ports[port].numa);
            Branch {
                numa: of_gpus.chain(of_ports).next().map_or(-1, i32::from),
                switches: joined(Tier::Pix, &gpus, &ports),
            }
        })
        .collect()
}
