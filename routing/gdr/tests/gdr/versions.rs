//! Tests of inventories from older and newer agents.

use rsm_gdr::findings::GpuFindingKind;
use rsm_gdr::hosts::GpuInventory;
use rsm_gdr::import::{ImportReason, InventoryFormat, to_json};
use rsm_gdr::inventory::{InventoryError, LinkLayer, MAX_PCIE_SETTINGS, PciAddress, Tier};
use rsm_gdr::{Analysis, AnalysisConfig};

use crate::import::{read, refused};

/// A host of a newer rsm, with members at each level that this one does not know.
const NEWER: &str = r#"{
  "version": 1,
  "power": {"watts": 10200, "rails": [1, 2, {"deep": null}]},
  "gpus": [
    {"index": 0, "pci": "0000:1b:00.0", "ecc": true, "uuid": "GPU-a"},
    {"index": 1, "ecc": false, "odd name\n": 1}
  ],
  "hca_ports": [
    {"device": "mlx5_0", "port": 1, "link_layer": "InfiniBand", "lanes": [1, 2, 3, 4]},
    {"device": "mlx5_1", "port": 1, "link_layer": "PhotonLink"}
  ],
  "tiers": [["PIX", "SYS"], ["SYS", "PIX"]],
  "links": {"family": "NVLink", "generation": 6, "pairs": [[0, 1, 18]], "planes": 2}
}"#;

#[test]
fn inventory_of_a_newer_agent_is_read_with_a_list_of_its_unknown_members() {
    let host = read(InventoryFormat::Json, NEWER);
    assert_eq!(
        host.unknown_members,
        [
            "gpus.ecc",
            "gpus.odd_name_",
            "hca_ports.lanes",
            "hca_ports.link_layer:PhotonLink",
            "host.power",
            "links.planes",
        ]
    );
    // All known members are read.
    assert_eq!(host.gpus[0].uuid.as_deref(), Some("GPU-a"));
    assert_eq!(host.links_between(0, 1), 18);
    assert_eq!(
        [host.tier(0, 0), host.tier(1, 0)],
        [Some(Tier::Pix), Some(Tier::Sys)]
    );
    let layers: Vec<_> = host.hca_ports.iter().map(|port| port.link_layer).collect();
    assert_eq!(layers, [Some(LinkLayer::InfiniBand), None]);
    // The inventory survives writing and reading, as when a manager restarts.
    let again = read(InventoryFormat::Json, &to_json(&host));
    assert_eq!(again, host);
    // Links of an unknown family are ignored.
    let other = NEWER.replace("\"NVLink\"", "\"Optical 1\"");
    let other = read(InventoryFormat::Json, &other);
    assert!(!other.nvlinks_known && other.nvlinks.is_empty());
    assert!(
        other
            .unknown_members
            .contains(&"links.family:Optical_1".to_owned())
    );
    // Several sources of one host.
    let mut merged = read(
        InventoryFormat::Json,
        r#"{"version":1,"gpus":[{"index":0}],"tiers":[[]],"fans":9}"#,
    );
    merged.merge(&host);
    assert_eq!(merged.unknown_members.len(), 7);
    merged.check().expect("merged inventories keep the rules");
}

#[test]
fn hosts_with_equal_unknown_members_are_one_finding() {
    let mut inventory = GpuInventory::new();
    for name in ["gpu-1", "gpu-2", "gpu-3"] {
        let mut host = read(InventoryFormat::Json, NEWER);
        if name == "gpu-2" {
            host.unknown_members.clear();
        }
        inventory.insert(name, host, 0).expect("a plain host");
    }
    let config = AnalysisConfig::default();
    let analysis = Analysis::new(&inventory, None, config);
    let kind = GpuFindingKind::UnknownMembers;
    let mut found = analysis
        .findings
        .iter()
        .filter(|finding| finding.kind == kind);
    let one = found.next().expect("a finding");
    assert_eq!(one.hosts().collect::<Vec<_>>(), ["gpu-1", "gpu-3"]);
    assert!(one.evidence.contains("gpus.ecc, gpus.odd_name_, "), "{one}");
    assert_eq!(found.next(), None);
}

#[test]
fn an_inventory_of_the_first_agents_is_read() {
    let first = r#"{"version":1,"machine":"DGX","gpus":[{"index":0,"pci":"0000:1b:00.0","numa":0}],
        "hca_ports":[{"device":"mlx5_0","port":1,"node_guid":"0x1","link_layer":"InfiniBand","gbps":400}],
        "tiers":[["PIX"]]}"#;
    let host = read(InventoryFormat::Json, first);
    let port = &host.hca_ports[0];
    assert_eq!(
        (port.firmware.as_deref(), port.pcie, port.virtual_function),
        (None, None, false)
    );
    assert!(!host.nvlinks_known && host.unknown_members.is_empty());
}

#[test]
fn inventory_with_too_many_unknown_members_is_refused() {
    let names = |count: usize| -> String {
        (0..count)
            .map(|number| format!("\"m{number}\":[1,2],"))
            .collect()
    };
    let file = |count| {
        format!(
            "{{{}\"version\":1,\"gpus\":[{{\"index\":0}}],\"tiers\":[[]]}}",
            names(count)
        )
    };
    assert_eq!(
        read(InventoryFormat::Json, &file(64)).unknown_members.len(),
        64
    );
    let error = refused(InventoryFormat::Json, &file(300_000));
    assert_eq!(
        error.reason,
        ImportReason::Inventory(InventoryError::UnknownMembers)
    );
}

#[test]
fn pcie_settings_survive_writing_and_too_many_are_refused() {
    let with = |addresses: &str| {
        let settings =
            format!("\"version\": 1, \"pcie_settings\": {{\"acs_redirect\": [{addresses}]}}");
        NEWER.replace("\"version\": 1", &settings)
    };
    let host = read(
        InventoryFormat::Json,
        &with("\"0000:16:00.0\", \"0000:15:01.0\""),
    );
    let address = |text: &str| text.parse::<PciAddress>().expect("an address");
    let kept = [address("0000:15:01.0"), address("0000:16:00.0")];
    assert_eq!(host.pcie_settings.acs_redirect, kept);
    assert_eq!(read(InventoryFormat::Json, &to_json(&host)), host);
    assert_eq!(host.as_machine_type().pcie_settings.acs_redirect, []);
    let many: Vec<String> = (0..=MAX_PCIE_SETTINGS)
        .map(|number| format!("\"{number:04x}:00:00.0\""))
        .collect();
    let error = refused(InventoryFormat::Json, &with(&many.join(",")));
    let too_many = InventoryError::TooManyPcieSettings(MAX_PCIE_SETTINGS + 1);
    assert_eq!(error.reason, ImportReason::Inventory(too_many));
}
