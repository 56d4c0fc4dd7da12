//! Tests of storage adapters that are nearer to a GPU than the compute adapters.

use std::collections::BTreeMap;
use std::sync::Arc;

use rsm_gdr::fabric::GpuFabric;
use rsm_gdr::findings::GpuFindingKind;
use rsm_gdr::generate::{Fleet, FleetFaults, Storage, fleet};
use rsm_gdr::hosts::GpuInventory;
use rsm_gdr::import::{InventoryFormat, import};
use rsm_gdr::inventory::Tier;
use rsm_gdr::roles::TrafficRole;
use rsm_gdr::{Analysis, AnalysisConfig};
use rsm_ids::Guid;
use rsm_routing::generate::generate;
use rsm_routing::topology::Topology;

/// A unit whose hosts have eight compute adapters and two for storage.
fn unit() -> Fleet {
    let faults = FleetFaults {
        storage: Storage::Far,
        ..FleetFaults::default()
    };
    let netlist = generate("superpod:su=1").expect("a published fabric");
    fleet(netlist, faults).expect("hosts with plain names")
}

/// A unit of hosts in which only the first storage adapter shares a PCIe switch with a GPU.
fn unit_with_storage_near() -> Fleet {
    let mut fleet = unit();
    let hosts: Vec<_> = (fleet.inventory.hosts().iter())
        .map(|(name, record)| (name.clone(), record.inventory.clone()))
        .collect();
    for (name, inventory) in hosts {
        let mut host = rsm_gdr::inventory::HostInventory::clone(&inventory);
        let ports = host.hca_ports.len();
        for (at, tier) in host.tiers.iter_mut().enumerate() {
            *tier = match (at / ports, at % ports) {
                (0, 8) => Some(Tier::Pix),
                _ if *tier == Some(Tier::Pix) => Some(Tier::Node),
                _ => *tier,
            };
        }
        fleet
            .inventory
            .insert(&name, host, 0)
            .expect("a plain host");
    }
    fleet
}

/// The analysis of a fleet with the operator's roles of ports.
fn analyse(fleet: &Fleet, roles: BTreeMap<Guid, TrafficRole>) -> Analysis {
    let topology = Arc::new(Topology::from_netlist(&fleet.netlist).expect("LIDs suffice"));
    let fabric = GpuFabric::from_netlist(&fleet.netlist, topology, None, 4096);
    let config = AnalysisConfig {
        roles,
        ..AnalysisConfig::default()
    };
    Analysis::new(&fleet.inventory, Some(fabric), config)
}

/// The findings about unclear roles: the number of hosts, the GPUs and the ports of each.
fn unclear(analysis: &Analysis) -> Vec<String> {
    let findings = analysis.findings.iter();
    let unclear = findings.filter(|finding| finding.kind == GpuFindingKind::RoleUnclear);
    unclear
        .map(|finding| {
            let ports: Vec<String> = finding.ports.iter().map(ToString::to_string).collect();
            assert!(finding.evidence.contains("only GPU hosts"), "{finding}");
            format!(
                "{} hosts, {:?}: {}",
                finding.hosts().count(),
                finding.gpus,
                ports.join(", ")
            )
        })
        .collect()
}

#[test]
fn storage_adapter_nearer_than_compute_adapters_is_one_finding_with_both() {
    let fleet = unit_with_storage_near();
    let found = unclear(&analyse(&fleet, BTreeMap::new()));
    let [found] = &found[..] else {
        panic!("{found:?}");
    };
    assert!(found.starts_with("32 hosts, [0]: "), "{found}");
    assert!(
        found.contains(" mlx5_8, ") && found.contains(" mlx5_0"),
        "{found}"
    );
}

#[test]
fn with_configured_roles_no_role_is_unclear() {
    let fleet = unit_with_storage_near();
    let mut roles = BTreeMap::new();
    for record in fleet.inventory.hosts().values() {
        for (place, port) in record.inventory.hca_ports.iter().enumerate() {
            let role = if place < 8 {
                TrafficRole::Compute
            } else {
                TrafficRole::Storage
            };
            roles.insert(port.port_guid.expect("a simulated port"), role);
        }
    }
    let analysis = analyse(&fleet, roles);
    assert_eq!(unclear(&analysis), Vec::<String>::new());
    assert_eq!(analysis.hosts[0].compute_ports().len(), 8);
}

#[test]
fn roles_are_clear_if_storage_is_far_from_gpus() {
    assert_eq!(
        unclear(&analyse(&unit(), BTreeMap::new())),
        Vec::<String>::new()
    );
}

/// The findings about a unit whose hosts all have six GPUs, two at each PCIe switch, and four
/// adapters: two at the first switch, and one at each of the others.
fn with_two_adapters_at_one_switch(roles: BTreeMap<Guid, TrafficRole>) -> Analysis {
    let switch_of = [0, 0, 1, 2];
    let mut matrix = "\tGPU0\tGPU1\tGPU2\tGPU3\tGPU4\tGPU5\tNIC0\tNIC1\tNIC2\tNIC3\n".to_owned();
    for gpu in 0..6 {
        let gpus = (0..6).map(|other| if other == gpu { " X " } else { "NV18" });
        let tier = |switch: usize| if switch == gpu / 2 { "PXB" } else { "SYS" };
        let cells: Vec<&str> = gpus.chain(switch_of.map(tier)).collect();
        matrix += &format!("GPU{gpu}\t{}\n", cells.join("\t"));
    }
    matrix += "NIC Legend:\n  NIC0: mlx5_0\n  NIC1: mlx5_1\n  NIC2: mlx5_2\n  NIC3: mlx5_3\n";
    let host = import(InventoryFormat::NvidiaSmi, matrix.as_bytes()).expect("a matrix");
    let mut fleet = unit();
    fleet.inventory = GpuInventory::new();
    let added = fleet.inventory.insert_machine_type("six", &host);
    added.expect("a valid host");
    fleet
        .inventory
        .set_default(Some("six"))
        .expect("the machine type was inserted");
    analyse(&fleet, roles)
}

#[test]
fn near_adapter_that_is_taken_for_storage_on_a_leaf_of_gpu_hosts_is_one_question() {
    let analysis = with_two_adapters_at_one_switch(BTreeMap::new());
    let role = analysis.hosts[0].roles[1].0;
    assert_eq!(role, TrafficRole::Storage);
    let found = unclear(&analysis);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("32 hosts, []: "), "{found:?}");
    assert!(found[0].ends_with(" mlx5_1"), "{found:?}");
    // The operator's answer ends the question, whichever it is.
    let fabric = analysis.fabric.as_ref().expect("a fabric");
    for role in [TrafficRole::Storage, TrafficRole::Compute] {
        let ports = fabric.ports().iter();
        let of_question = ports.filter(|port| port.description.ends_with(" mlx5_1"));
        let roles = of_question.map(|port| (port.guid, role)).collect();
        let analysis = with_two_adapters_at_one_switch(roles);
        assert_eq!(analysis.hosts[0].roles[1].0, role);
        assert_eq!(unclear(&analysis), Vec::<String>::new(), "{role:?}");
    }
}
