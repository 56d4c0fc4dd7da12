//! Tests of the explanations why a host, or a device of a host, is missing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rsm_gdr::fabric::{AbsentHost, FormerPlace, GpuFabric};
use rsm_gdr::findings::GpuFindingKind;
use rsm_gdr::generate::FleetFaults;
use rsm_gdr::hosts::GpuInventory;
use rsm_gdr::import::{InventoryFormat, import};
use rsm_gdr::render::{describe, why_unknown};
use rsm_gdr::{Analysis, AnalysisConfig};
use rsm_routing::netlist::{Netlist, Node};
use rsm_routing::topology::Topology;

use crate::faults::{Fault, World, fabric, with};
use crate::table::analysed;

#[test]
fn ethernet_adapter_is_described_with_the_reason_and_the_command_to_change_it() {
    let (world, expected) = with(Fault::EthernetMode, &fabric(16), 16, 0);
    let analysis = analysed(world);
    for host in &analysis.hosts {
        let text = describe(&analysis, &host.name).expect("a known host");
        let is_ethernet = text.contains("\nnot in the fabric\n")
            && text.contains("its link type is Ethernet")
            && text.contains("set LINK_TYPE_P1=1");
        assert_eq!(is_ethernet, expected.hosts.contains(&host.name), "{text}");
    }
}

#[test]
fn pcie_settings_are_described_with_the_commands_to_change_them() {
    for (fault, command) in [
        (Fault::AcsRedirect, "ECAP_ACS+6.w=0"),
        (Fault::IommuTranslates, "iommu.passthrough=1"),
        (Fault::StrictOrdering, "CAP_EXP+8.w=10:10"),
        (Fault::WithoutGdr, "modprobe nvidia_peermem"),
    ] {
        let (world, expected) = with(fault, &fabric(16), 16, 0);
        let analysis = analysed(world);
        for host in &expected.hosts {
            let text = describe(&analysis, host).expect("a known host");
            assert!(text.contains(command), "{fault:?}: {text}");
        }
    }
}

fn former() -> FormerPlace {
    FormerPlace {
        place: "leaf-01 port 7".to_owned(),
        until: "an hour ago".to_owned(),
        other_name: None,
    }
}

#[test]
fn adapter_that_left_the_fabric_is_described_with_its_former_place() {
    let world = World::new(&fabric(16), FleetFaults::default());
    let (netlist, inventory) = world.finish();
    let (mut nodes, mut cables) = netlist.into_parts();
    let is_adapter = |node: &Node| node.name().ends_with(" mlx5_2");
    let at = nodes.iter().position(is_adapter).expect("an adapter");
    let host = nodes[at].name().replace(" mlx5_2", "");
    nodes[at].description = b"off".to_vec();
    cables.retain(|cable| cable.a.0 != at && cable.b.0 != at);
    let netlist = Netlist::new(nodes, cables).expect("fewer cables");
    let topology = Arc::new(Topology::from_netlist(&netlist).expect("LIDs suffice"));
    let without = GpuFabric::from_netlist(&netlist, topology, None, 4096);
    let mut analysis = Analysis::new(&inventory, Some(without), AnalysisConfig::default());
    let text = describe(&analysis, &host).expect("a known host");
    assert!(
        text.contains("no port of the fabric has its GUIDs"),
        "{text}"
    );
    let device = "mlx5_2".to_owned();
    let absent = AbsentHost {
        devices: BTreeMap::from([(device.clone(), former())]),
        first: former(),
        claimants: BTreeSet::new(),
    };
    let fabric = analysis.fabric.as_mut().expect("a fabric");
    fabric.absent.insert(host.clone(), absent);
    let text = describe(&analysis, &host).expect("a known host");
    let line = text
        .lines()
        .find(|line| line.contains(" it was at "))
        .unwrap_or_else(|| panic!("{text}"));
    assert!(line.contains(&device), "{line}");
    assert!(
        line.contains("at leaf-01 port 7 until an hour ago: look at the cable there"),
        "{line}"
    );
    // The finding names the device, its GPU and the place, too.
    let fabric = analysis.fabric.clone();
    let analysis = Analysis::new(&inventory, fabric, AnalysisConfig::default());
    let mut findings = analysis.findings.iter();
    let lost = findings.find(|one| one.host == host && one.kind == GpuFindingKind::Unjoined);
    let evidence = &lost.expect("a finding").evidence;
    assert!(
        evidence
            .contains("; mlx5_2 was at leaf-01 port 7 until an hour ago; GPU2 beside it has to"),
        "{evidence}"
    );
}

#[test]
fn explanations_distinguish_hosts_without_inventory_absent_and_unknown_hosts() {
    let (world, expected) = with(Fault::WithoutInventory, &fabric(16), 16, 0);
    let mut analysis = analysed(world);
    let host = expected.hosts.first().expect("a host");
    let text = why_unknown(&analysis, host);
    assert!(text.contains("the fabric has 10 devices of it"), "{text}");
    assert!(text.contains("rsm-agent"), "{text}");
    let absent = AbsentHost {
        devices: BTreeMap::new(),
        first: former(),
        claimants: BTreeSet::new(),
    };
    let fabric = analysis.fabric.as_mut().expect("a fabric");
    fabric.absent.insert("host-900".to_owned(), absent);
    let text = why_unknown(&analysis, "host-900.example.com");
    assert!(
        text.contains("at leaf-01 port 7 until an hour ago"),
        "{text}"
    );
    let text = why_unknown(&analysis, "nobody\n");
    assert!(
        text.contains("`nobody\\n`") && text.contains("modprobe mlx5_ib"),
        "{text}"
    );
}

/// The description of the only host, which has four GPUs, one adapter, and no fabric.
fn described(tiers: [&str; 4]) -> String {
    let mut matrix = "\tGPU0\tGPU1\tGPU2\tGPU3\tNIC0\n".to_owned();
    for (gpu, tier) in tiers.into_iter().enumerate() {
        let gpus = (0..4).map(|other| if other == gpu { " X " } else { "NODE" });
        let cells: Vec<&str> = gpus.chain([tier]).collect();
        matrix += &format!("GPU{gpu}\t{}\n", cells.join("\t"));
    }
    matrix += "NIC Legend:\n  NIC0: mlx5_0\n";
    let host = import(InventoryFormat::NvidiaSmi, matrix.as_bytes()).expect("a matrix");
    let mut inventory = GpuInventory::new();
    inventory.insert("host", host, 0).expect("a plain name");
    let analysis = Analysis::new(&inventory, None, AnalysisConfig::default());
    describe(&analysis, "host").expect("a known host")
}

#[test]
fn gpus_without_a_near_port_are_counted_by_the_tier_that_each_has() {
    let text = described(["SYS", "SYS", "NODE", "PHB"]);
    let evidence = "4 of 4 GPUs have no compute port nearer than PHB, 3 of them none nearer than NODE, \
                    2 of them none nearer than SYS";
    assert!(text.contains(evidence), "{text}");
    let text = described(["SYS"; 4]);
    assert!(
        text.contains("4 of 4 GPUs have no compute port nearer than SYS ["),
        "{text}"
    );
    // All ports are equally far, which is a known tier.
    assert!(!text.contains("no tier known"), "{text}");
}
