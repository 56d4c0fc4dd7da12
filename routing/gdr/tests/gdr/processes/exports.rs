//! Tests of every sample and case: NCCL's port for each GPU with our settings, without settings,
//! and the best one; and the files of all exporters.

use std::io::Write as _;
use std::sync::Arc;

use rsm_gdr::fabric::GpuFabric;
use rsm_gdr::hosts::GpuInventory;
use rsm_gdr::inventory::{HcaPort, HostInventory};
use rsm_gdr::render::{EXPORTERS, ExportOptions, NcclVersion};
use rsm_gdr::{Analysis, AnalysisConfig};
use rsm_routing::generate::generate;
use rsm_routing::netlist::Netlist;
use rsm_routing::topology::Topology;

use super::{NoChoice, alone, machine, nccl};
use crate::cases::every_matrix;
use crate::samples::{every_sample, samples};

/// The name of the sample's host.
const HOST: &str = "gpu-host";

/// Each sample and case: the name of its file, and its inventory. `None` if they are missing.
fn all() -> Option<Vec<(String, HostInventory)>> {
    let data = samples()?;
    let from_samples = every_sample(&data).map(|(name, host)| (name.to_owned(), host));
    Some(from_samples.chain(every_matrix()?).collect())
}

/// The analysis of a host in a fabric to whose leaves up to eight of its devices are cabled.
fn in_fabric(mut host: HostInventory) -> Analysis {
    for port in &mut host.hca_ports {
        (port.port_guid, port.node_guid, port.system_image_guid) = (None, None, None);
    }
    let ports = host
        .hca_ports
        .iter()
        .filter(|port| port.may_be_infiniband());
    let first = ports.filter(|port| port.port == 1 && port.active != Some(false));
    let mut devices = first.filter_map(|port| port.device.clone());
    let netlist = generate("superpod:su=1").expect("a published fabric");
    let (mut nodes, cables) = netlist.into_parts();
    for node in &mut nodes {
        if node.name().starts_with("host-001 ") {
            let device = devices.next();
            node.description = match device {
                Some(device) => format!("{HOST} {device}").into_bytes(),
                None => b"spare".to_vec(),
            };
        }
    }
    let netlist = Netlist::new(nodes, cables).expect("the same fabric");
    let topology = Arc::new(Topology::from_netlist(&netlist).expect("LIDs suffice"));
    let fabric = GpuFabric::from_netlist(&netlist, topology, None, 4096);
    let mut inventory = GpuInventory::new();
    inventory.insert(HOST, host, 0).expect("a plain host");
    Analysis::new(&inventory, Some(fabric), AnalysisConfig::default())
}

#[test]
fn with_our_settings_nccl_takes_the_best_port_for_each_gpu_of_samples_and_cases() {
    let Some(all) = all() else { return };
    let mut out = std::io::stdout();
    let mut hosts = 0;
    for (name, host) in all {
        let (host, no_choice) = (machine(host.clone()), NoChoice::of(&host));
        // `line` panics if a GPU has a worse port than the best one, or than without settings.
        let text = nccl::line(&name, &alone(host), 22.0);
        assert_eq!(text.is_none(), no_choice.is_some(), "{name}: {no_choice:?}");
        if let Some(text) = text {
            hosts += 1;
            out.write_all(text.as_bytes()).expect("an open output");
        }
    }
    assert!(hosts >= 26, "{hosts} hosts");
}

#[test]
fn exporters_fail_only_for_devices_without_a_name_or_an_address_that_they_need() {
    let Some(all) = all() else { return };
    let options = ExportOptions {
        host: HOST.to_owned(),
        nccl: NcclVersion::RAILS,
        label_domain: ExportOptions::LABEL_DOMAIN.to_owned(),
    };
    let mut out = std::io::stdout();
    let (mut made, mut refused) = (0, Vec::new());
    for (name, host) in all {
        let has_choice = NoChoice::of(&host).is_none();
        let has_addresses = host.gpus.iter().all(|gpu| gpu.pci.is_some())
            && host.hca_ports.iter().all(|port| port.pci.is_some());
        let has_names = host
            .hca_ports
            .iter()
            .all(|port: &HcaPort| port.device.is_some());
        let analysis = in_fabric(machine(host));
        let mut of_host = Vec::new();
        for exporter in EXPORTERS {
            let error = match exporter.render(&analysis, &options) {
                Ok(_) => {
                    made += 1;
                    continue;
                }
                Err(error) => error.to_string(),
            };
            of_host.push(format!("{}: {error}", exporter.name));
            // Topology files name devices by addresses, which a matrix lacks.
            let by_address = matches!(exporter.name, "nccl-xml" | "dra");
            if has_choice && has_names && (has_addresses || !by_address) {
                refused.push(format!("{name}: {}: {error}", exporter.name));
            }
        }
        let line = match of_host.is_empty() {
            true => format!("{name}: all {} files\n", EXPORTERS.len()),
            false => format!("{name}: not {}\n", of_host.join("; ")),
        };
        out.write_all(line.as_bytes()).expect("an open output");
    }
    assert!(made > 300, "{made} files");
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}
