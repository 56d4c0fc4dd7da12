//! Tests of jobs of NCCL in which a port fails.
//!
//! The rules are those of NCCL 2.29.7 and 2.30 (`net_ib/common.cc`, `net_ib/p2p.cc`,
//! `net_ib/p2p_resiliency.cc`, `graph/topo.cc`): ports of one PCIe device are fused into one device
//! of NCCL, and the traffic of a failed port continues only on a port of the same device. The two
//! ends of a connection do not exchange their settings: if these differ, one end reads the message
//! numbers of the other as sizes.

use rsm_gdr::hosts::GpuInventory;
use rsm_gdr::inventory::{HcaPort, HostInventory, Tier};
use rsm_gdr::render::{NcclVersion, RenderError, nccl_environment};
use rsm_gdr::{Analysis, AnalysisConfig};

use super::alone;
use super::nccl::{far_port, is_named, setting};

/// The effect of a port that fails on a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Outcome {
    /// One end misreads the messages of the other, even before the failure.
    Misread,
    /// The job fails.
    Fails,
    /// The other port takes the traffic until the job ends.
    GoesOn,
    /// The other port takes the traffic until the first one works again.
    ComesBack,
}

/// One end of a connection.
struct End {
    /// The ports of each device of NCCL, by their positions in the inventory.
    devices: Vec<Vec<usize>>,
    fails_over: bool,
    recovers: bool,
}

impl End {
    fn new(host: &HostInventory, environment: &str, version: NcclVersion) -> End {
        let list = setting(environment, "NCCL_IB_HCA");
        let mut devices: Vec<Vec<usize>> = Vec::new();
        for (place, port) in host.hca_ports.iter().enumerate() {
            if port.active == Some(false) || !is_named(list, port) {
                continue;
            }
            let device = |port: &HcaPort| match port.pci {
                // The address without the number of the function.
                Some(pci) => {
                    let text = pci.to_string();
                    text[..text.len() - 1].to_owned()
                }
                None => port.device.clone().expect("a name"),
            };
            let same = |ports: &&mut Vec<usize>| device(&host.hca_ports[ports[0]]) == device(port);
            match devices.iter_mut().find(same) {
                Some(ports) => ports.push(place),
                None => devices.push(vec![place]),
            }
        }
        let is_on = |name: &str, since: NcclVersion| {
            version >= since && setting(environment, name) == Some("1")
        };
        let fails_over = is_on("NCCL_IB_RESILIENCY_PORT_FAILOVER", NcclVersion(2, 29, 7));
        End {
            devices,
            fails_over,
            recovers: fails_over
                && is_on("NCCL_IB_RESILIENCY_PORT_RECOVERY", NcclVersion(2, 30, 3)),
        }
    }

    /// Each port of this end, with the outcome if it fails.
    fn outcomes(&self, peer: &End) -> Vec<(usize, Outcome)> {
        let outcome = |device: &[usize]| {
            if self.fails_over != peer.fails_over || self.recovers != peer.recovers {
                Outcome::Misread
            } else if !self.fails_over || device.len() < 2 {
                Outcome::Fails
            } else if self.recovers {
                Outcome::ComesBack
            } else {
                Outcome::GoesOn
            }
        };
        let of_device = |device: &Vec<usize>| {
            let outcome = outcome(device);
            let ports = device.iter().map(move |&port| (port, outcome));
            ports.collect::<Vec<_>>()
        };
        self.devices.iter().flat_map(of_device).collect()
    }
}

/// The outcome for each port of each host, in a connection with each host: pairs of `host port` and
/// outcome.
fn outcomes(hosts: &[(&str, HostInventory)], version: NcclVersion) -> Vec<(String, Outcome)> {
    let mut inventory = GpuInventory::new();
    for (name, host) in hosts {
        let inserted = inventory.insert(name, host.clone(), 0);
        inserted.expect("a plain host");
    }
    let analysis = Analysis::new(&inventory, None, AnalysisConfig::default());
    let ends: Vec<(&str, &HostInventory, End)> = (hosts.iter())
        .filter(|(_, host)| !host.gpus.is_empty())
        .map(|(name, host)| {
            let file = nccl_environment(&analysis, name, version).expect("devices with names");
            (*name, host, End::new(host, &file, version))
        })
        .collect();
    let mut out = Vec::new();
    for (name, host, end) in &ends {
        for (_, _, peer) in &ends {
            for (port, outcome) in end.outcomes(peer) {
                out.push((format!("{name} {}", host.hca_ports[port].label()), outcome));
            }
        }
    }
    out
}

/// A host whose adapters have one port each.
fn single() -> HostInventory {
    far_port(Tier::Pix, true)
}

/// A host whose adapters have a second port, each a port of the first one's PCIe function.
fn twin() -> HostInventory {
    let (single, mut host) = (single(), single());
    let second = |port: &HcaPort| HcaPort {
        port: 2,
        ..port.clone()
    };
    host.hca_ports = (host.hca_ports.iter())
        .flat_map(|port| [port.clone(), second(port)])
        .collect();
    host.tiers = single.tiers.iter().flat_map(|&tier| [tier, tier]).collect();
    host
}

/// The host of [`twin`], but with a PCIe function and a name for each port.
fn twin_functions() -> HostInventory {
    let mut host = twin();
    for (place, port) in host.hca_ports.iter_mut().enumerate() {
        let address = format!("0000:{:02x}:00.{}", 0x10 + place / 2, place % 2);
        port.pci = address.parse().ok();
        port.device = Some(format!("mlx5_{place}"));
        port.port = 1;
    }
    host
}

#[test]
fn job_survives_the_failure_of_any_port_of_adapters_with_two_ports() {
    for host in [twin(), twin_functions()] {
        let fleet = [("a", host.clone()), ("b", host)];
        for (version, expected) in [
            (NcclVersion::RAILS, Outcome::ComesBack),
            (NcclVersion(2, 30, 3), Outcome::ComesBack),
            (NcclVersion(2, 29, 7), Outcome::GoesOn),
            (NcclVersion(2, 29, 6), Outcome::Fails),
        ] {
            let all = outcomes(&fleet, version);
            assert_eq!(all.len(), 2 * 2 * 8);
            for (port, outcome) in all {
                assert_eq!(outcome, expected, "{port} {version:?}");
            }
        }
    }
}

#[test]
fn hosts_of_one_fleet_agree_on_failover() {
    let mut down = twin();
    down.hca_ports[1].active = Some(false);
    let mut without_gpus = single();
    for gpu in (0..4).rev() {
        without_gpus.remove_gpu(gpu);
    }
    // A port that is down, or a host without GPUs, changes nothing for the others.
    let fleet = [
        ("a", twin()),
        ("b", down.clone()),
        ("storage", without_gpus.clone()),
    ];
    for (port, outcome) in outcomes(&fleet, NcclVersion::RAILS) {
        let alone = port == format!("b {}", down.hca_ports[0].label());
        let expected = if alone {
            Outcome::Fails
        } else {
            Outcome::ComesBack
        };
        assert_eq!(outcome, expected, "{port}");
    }
    // Without any GPU there is nothing to set.
    let analysis = alone(without_gpus.clone());
    let refused = nccl_environment(&analysis, "host", NcclVersion::RAILS);
    assert!(
        matches!(refused, Err(RenderError::NotInFabric(_))),
        "{refused:?}"
    );
    // If the adapters of some hosts have one port only, failover is off on all hosts.
    let fleet = [("a", twin()), ("b", single())];
    for (port, outcome) in outcomes(&fleet, NcclVersion::RAILS) {
        assert_eq!(outcome, Outcome::Fails, "{port}");
    }
}

#[test]
fn fallbacks_are_on_other_adapters_if_these_are_as_near() {
    let mut host = twin_functions();
    for cell in &mut host.tiers {
        *cell = Some(Tier::Node);
    }
    let analysis = alone(host.clone());
    for hint in &analysis.hints[0] {
        let own = hint.port().expect("a port");
        assert_eq!(hint.fallbacks.len(), 2);
        for &port in &hint.fallbacks {
            assert!(!host.share_adapter(own, port), "GPU {} {hint:?}", hint.gpu);
        }
    }
}
