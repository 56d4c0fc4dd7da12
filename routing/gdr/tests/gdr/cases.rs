//! Tests with inputs that other people wrote and on which an earlier version failed, from
//! `../shared/cases/gpu`.

#![expect(clippy::print_stderr, reason = "says why there is nothing to test")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rsm_gdr::fabric::GpuFabric;
use rsm_gdr::findings::{GpuFindingKind as Kind, Severity};
use rsm_gdr::hosts::GpuInventory;
use rsm_gdr::import::{InventoryFormat, import};
use rsm_gdr::inventory::{HostInventory, Tier};
use rsm_gdr::roles::TrafficRole;
use rsm_gdr::{Analysis, AnalysisConfig};
use rsm_routing::ibnetdiscover;
use rsm_routing::topology::Topology;

/// The folder of the cases; `None` if it is missing.
fn cases() -> Option<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let cases = here.join("../../../shared/cases/gpu");
    let found = cases.is_dir().then_some(cases);
    if found.is_none() {
        eprintln!("skipped: no cases in ../shared/cases/gpu");
    }
    found
}

/// The inventory in a file of any format.
fn host(file: &Path) -> HostInventory {
    let bytes = std::fs::read(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let format = InventoryFormat::detect(&bytes);
    import(format, &bytes).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// The analysis of hosts in a fabric that `ibnetdiscover` wrote.
fn analyse(fabric: &Path, inventory: &GpuInventory) -> Analysis {
    let text =
        std::fs::read(fabric).unwrap_or_else(|error| panic!("{}: {error}", fabric.display()));
    let parsed = ibnetdiscover::parse(&text, "case").expect("a fabric");
    let topology = Arc::new(Topology::from_netlist(&parsed.netlist).expect("LIDs suffice"));
    let fabric = GpuFabric::from_netlist(&parsed.netlist, topology, None, 4096);
    Analysis::new(inventory, Some(fabric), AnalysisConfig::default())
}

/// Each matrix of the cases: the name of its file, and its inventory. `None` if there are no cases.
pub(crate) fn every_matrix() -> Option<Vec<(String, HostInventory)>> {
    let cases = cases()?;
    let mut files = Vec::new();
    for folder in [
        "",
        "one-gpu-missing/inv",
        "half-swapped/inv",
        "one-tier-worse/inv",
    ] {
        let entries = std::fs::read_dir(cases.join(folder)).expect("a folder");
        files.extend(entries.map(|entry| entry.expect("a file").path()));
    }
    files.sort();
    let is_matrix = |file: &PathBuf| {
        let name = file
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        file.is_file() && !name.ends_with(".net") && !name.starts_with("fabric")
    };
    let read = |file: PathBuf| {
        let name = file.strip_prefix(&cases).unwrap_or(&file);
        (name.display().to_string(), host(&file))
    };
    Some(files.into_iter().filter(is_matrix).map(read).collect())
}

/// The analysis of a fabric all of whose hosts have the machine type of one matrix.
pub(crate) fn of_type(fabric: &str, matrix: &str) -> Option<Analysis> {
    let cases = cases()?;
    let mut inventory = GpuInventory::new();
    let matrix = host(&cases.join(matrix));
    inventory
        .insert_machine_type("type", &matrix)
        .expect("the inventory has room for a machine type");
    inventory
        .set_default(Some("type"))
        .expect("the machine type was inserted");
    Some(analyse(&cases.join(fabric), &inventory))
}

/// The analysis of a case whose hosts each have an inventory.
fn of_hosts(name: &str) -> Option<Analysis> {
    let case = cases()?.join(name);
    let mut inventory = GpuInventory::new();
    for file in std::fs::read_dir(case.join("inv")).expect("a folder") {
        let path = file.expect("a file").path();
        let name = path
            .file_stem()
            .and_then(|stem| stem.to_str())
            .expect("a plain name");
        inventory
            .insert(name, host(&path), 0)
            .expect("a valid host");
    }
    Some(analyse(&case.join("fabric.txt"), &inventory))
}

/// The kind, the hosts and the evidence of each finding.
fn summaries(analysis: &Analysis) -> Vec<(Kind, Vec<&str>, &str)> {
    let findings = analysis.findings.iter();
    findings
        .map(|one| (one.kind, one.hosts().collect(), one.evidence.as_str()))
        .collect()
}

#[test]
fn shifted_device_names_are_one_rail_order_unknown_finding() {
    let case = (
        "nic-missing-names-only/fabric.txt",
        "nic-missing-names-only/h200.matrix",
    );
    let Some(analysis) = of_type(case.0, case.1) else {
        return;
    };
    let evidence = "7 ports are not at the leaves of their names and the fabric has no mlx5_4, \
                    mlx5_10: names have shifted, or 7 cables are in wrong places";
    let wanted = (Kind::RailOrderUnknown, vec!["h200-003"], evidence);
    assert_eq!(summaries(&analysis), [wanted]);
    assert_eq!(Kind::RailOrderUnknown.severity(), Severity::Warning);
}

#[test]
fn slow_port_of_a_machine_type_is_reported_and_not_taken_for_storage() {
    let case = (
        "slow-port-blamed-as-storage.net",
        "slow-port-blamed-as-storage.matrix",
    );
    let Some(analysis) = of_type(case.0, case.1) else {
        return;
    };
    let evidence = "1 of 8 compute ports slower than usual: mlx5_1 at 100 Gb/s, not 200";
    assert_eq!(
        summaries(&analysis),
        [(Kind::PortSlow, vec!["a100-009"], evidence)]
    );
}

#[test]
fn rails_exchanged_at_half_of_the_hosts_are_one_rails_disagree_finding() {
    let Some(analysis) = of_hosts("half-swapped") else {
        return;
    };
    let evidence = "h200-001 have mlx5_0 at su1-leaf2 and mlx5_1 at su1-leaf1, h200-002 have mlx5_0 at su1-leaf1 \
                    and mlx5_1 at su1-leaf2: the cables of one of the two are exchanged";
    let hosts = vec!["h200-001", "h200-002"];
    assert_eq!(
        summaries(&analysis),
        [(Kind::RailsDisagree, hosts, evidence)]
    );
}

#[test]
fn gpu_farther_from_its_port_than_in_other_hosts_is_reported() {
    let Some(analysis) = of_hosts("one-tier-worse") else {
        return;
    };
    let evidence = "GPU0 has no compute port nearer than NODE, where most hosts like it have PXB";
    assert_eq!(
        summaries(&analysis),
        [(Kind::TierWorse, vec!["h200-001"], evidence)]
    );
    assert_eq!(analysis.findings[0].gpus, [0]);
}

#[test]
fn two_machines_with_one_name_are_reported_with_both_places() {
    let Some(analysis) = of_hosts("two-machines-one-name") else {
        return;
    };
    let evidence = "10 devices of this name are in the fabric twice: mlx5_0 at su1-leaf1 port 29 and at su1-leaf1 port 30";
    assert_eq!(
        summaries(&analysis),
        [(Kind::HostNameTwice, vec!["h200-001"], evidence)]
    );
}

#[test]
fn leaf_at_half_rate_is_reported() {
    let Some(analysis) = of_hosts("one-leaf-slow") else {
        return;
    };
    let evidence =
        "all 2 compute ports at su1-leaf3 run at 200 Gb/s, where most leaves of the unit have 400";
    let hosts = vec!["h200-001", "h200-002"];
    assert_eq!(summaries(&analysis), [(Kind::LeafSlow, hosts, evidence)]);
}

/// Asserts that every GPU of every host has a port of its best tier.
fn assert_best_tiers(analysis: &Analysis) {
    for (host, hints) in analysis.hosts.iter().zip(&analysis.hints) {
        for hint in hints {
            let ports = 0..host.inventory.hca_ports.len();
            let in_fabric = ports.filter(|&port| host.joined[port].port().is_some());
            let best = in_fabric
                .filter_map(|port| host.inventory.tier(hint.gpu, port))
                .min();
            assert_eq!(hint.tier, best, "{} GPU{}: {hint:?}", host.name, hint.gpu);
        }
    }
}

#[test]
fn every_gpu_has_a_port_of_its_best_tier() {
    for (fabric, matrix) in [
        ("epyc-4gpu-5nic.net", "epyc-4gpu-5nic.matrix"),
        ("uneven-1-2-2-1-NODE.net", "uneven-1-2-2-1-NODE.txt"),
        ("uneven-2-2-2-1-PXB.net", "uneven-2-2-2-1-PXB.txt"),
    ] {
        let Some(analysis) = of_type(fabric, matrix) else {
            return;
        };
        assert!(!analysis.hosts.is_empty(), "{fabric}");
        assert_best_tiers(&analysis);
        // Only the machine with more adapters than GPUs may have ports for storage.
        let roles = analysis.hosts.iter().flat_map(|host| &host.roles);
        let used = roles.filter(|role| role.0 == TrafficRole::Storage).count();
        assert!(used == 0 || fabric.starts_with("epyc"), "{fabric}: {used}");
    }
    let Some(analysis) = of_hosts("one-gpu-missing") else {
        return;
    };
    assert_best_tiers(&analysis);
    let last = analysis.place("a100-003").expect("a known host");
    assert!(
        analysis.hints[last]
            .iter()
            .all(|hint| hint.tier == Some(Tier::Pxb))
    );
}

#[test]
fn two_adapter_names_without_a_space_between_them_are_two_adapters() {
    let Some(cases) = cases() else { return };
    let fused = host(&cases.join("fused-min.txt"));
    let devices: Vec<Option<&str>> = fused
        .hca_ports
        .iter()
        .map(|port| port.device.as_deref())
        .collect();
    assert_eq!(devices, [Some("mlx5_0"), Some("mlx5_1")]);
    assert_eq!(
        [fused.tier(0, 0), fused.tier(0, 1)],
        [Some(Tier::Sys), Some(Tier::Pix)]
    );
}
