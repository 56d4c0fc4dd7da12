//! Files of schedulers as fabrics change.

use std::collections::BTreeSet;
use std::sync::Arc;

use rsm_gdr::fabric::GpuFabric;
use rsm_gdr::generate::{FleetFaults, fleet, with_servers};
use rsm_gdr::hosts::GpuInventory;
use rsm_gdr::inventory::HostInventory;
use rsm_gdr::render::{ExportOptions, Exporter, NcclVersion};
use rsm_gdr::{Analysis, AnalysisConfig};
use rsm_routing::generate::generate;
use rsm_routing::netlist::Netlist;
use rsm_routing::topology::Topology;

fn export(netlist: &Netlist, inventory: &GpuInventory, format: &str) -> String {
    export_of("", netlist, inventory, format)
}

fn export_of(host: &str, netlist: &Netlist, inventory: &GpuInventory, format: &str) -> String {
    let topology = Arc::new(Topology::from_netlist(netlist).expect("LIDs suffice"));
    let fabric = GpuFabric::from_netlist(netlist, topology, None, 4096);
    let analysis = Analysis::new(inventory, Some(fabric), AnalysisConfig::default());
    let options = ExportOptions {
        host: host.to_owned(),
        nccl: NcclVersion::RAILS,
        label_domain: ExportOptions::LABEL_DOMAIN.to_owned(),
    };
    let exporter = Exporter::named(format).expect("a format");
    exporter
        .render(&analysis, &options)
        .expect("hosts in the fabric")
}

/// The lines of a tree with nodes: the switch, and the list of nodes.
fn switches(tree: &str) -> BTreeSet<(String, String)> {
    let line = |line: &str| {
        let (switch, nodes) = line.split_once(" Nodes=")?;
        Some((switch.to_owned(), nodes.to_owned()))
    };
    tree.lines().filter_map(line).collect()
}

#[test]
fn a_unit_keeps_its_name_when_another_one_goes() {
    let netlist = generate("superpod:su=3").expect("a published fabric");
    let fleet = fleet(netlist, FleetFaults::default()).expect("hosts with plain names");
    let before = switches(&export(&fleet.netlist, &fleet.inventory, "slurm-tree"));
    assert_eq!(before.len(), 3);
    let (nodes, mut cables) = fleet.netlist.into_parts();
    let gone: Vec<bool> = nodes
        .iter()
        .map(|node| {
            let name = node.name();
            let number = name
                .strip_prefix("host-")
                .and_then(|rest| rest.get(..3)?.parse().ok());
            number.is_some_and(|number: u32| number <= 32)
        })
        .collect();
    assert_eq!(gone.iter().filter(|&&gone| gone).count(), 32 * 8);
    cables.retain(|cable| !gone[cable.a.0] && !gone[cable.b.0]);
    let netlist = Netlist::new(nodes, cables).expect("fewer cables");
    let after = switches(&export(&netlist, &fleet.inventory, "slurm-tree"));
    assert_eq!(after.len(), 2);
    assert!(after.is_subset(&before), "{before:?} {after:?}");
    let labels = export(&netlist, &fleet.inventory, "kubernetes");
    for (switch, _) in after {
        let unit = switch.trim_start_matches("SwitchName=");
        assert!(
            labels.contains(&format!("tier-0={unit} ")),
            "{unit}: {labels}"
        );
    }
}

#[test]
fn a_tree_has_the_hosts_without_gpus_once_each() {
    let netlist = generate("superpod:su=2").expect("a published fabric");
    let netlist = with_servers(netlist, 4, 32).expect("only names differ");
    let mut fleet = fleet(netlist, FleetFaults::default()).expect("hosts with plain names");
    let servers: Vec<String> = (fleet.inventory.hosts().keys())
        .filter(|name| name.starts_with("store-"))
        .cloned()
        .collect();
    for server in &servers {
        assert!(fleet.inventory.remove(server));
    }
    let tree = export(&fleet.netlist, &fleet.inventory, "slurm-tree");
    // Eight adapters of each of four hosts in two units are servers of their own; the lists fold
    // their numbers.
    let lists: Vec<(String, String)> = switches(&tree).into_iter().collect();
    let named = |list: &str| {
        let folded: Vec<&str> = list.split(',').collect();
        folded.iter().any(|name| name.starts_with("store-"))
    };
    assert_eq!(lists.len(), 2, "{tree}");
    for (switch, list) in &lists {
        assert!(named(list) && list.contains("host-["), "{switch}: {list}");
    }
    let yaml = export(&fleet.netlist, &fleet.inventory, "slurm-yaml");
    assert!(yaml.contains("store-"), "{yaml}");
    // Kubernetes knows no node of such a name.
    let labels = export(&fleet.netlist, &fleet.inventory, "kubernetes");
    assert!(!labels.contains("store-"), "{labels}");
}

#[test]
fn a_peer_map_has_both_ends_of_each_gpu_and_tells_rails_apart() {
    let netlist = generate("superpod:su=2").expect("a published fabric");
    let mut fleet = fleet(netlist, FleetFaults::default()).expect("hosts with plain names");
    let name = "host-040";
    // The adapters of one host have other names, and one of its GPUs is gone.
    let mut host = HostInventory::clone(&fleet.inventory.hosts()[name].inventory);
    for (place, port) in host.hca_ports.iter_mut().enumerate() {
        port.device = Some(format!("ibp{}s0", 10 + place));
    }
    host.remove_gpu(7);
    fleet.inventory.insert(name, host, 0).expect("a plain host");
    let map = export_of("host-001", &fleet.netlist, &fleet.inventory, "peers");
    let lines: Vec<Vec<&str>> = map
        .lines()
        .skip(1)
        .map(|line| line.split('\t').collect())
        .collect();
    assert_eq!(lines.len(), 63 * 8 - 1);
    for line in &lines {
        let gpu: usize = line[1].parse().expect("an index");
        let there = match line[0] {
            "host-040" => format!("ibp{}s0:1", 10 + gpu),
            _ => format!("mlx5_{gpu}:1"),
        };
        assert_eq!(
            line[2..],
            [&format!("mlx5_{gpu}:1"), &there, "yes"],
            "{line:?}"
        );
    }
    assert!(!lines.iter().any(|line| line[0] == "host-001"));
    // The map of the other end is the same, the other way round.
    let back = export_of(name, &fleet.netlist, &fleet.inventory, "peers");
    assert!(
        back.contains("host-001\t3\tibp13s0:1\tmlx5_3:1\tyes\n"),
        "{back}"
    );
}
