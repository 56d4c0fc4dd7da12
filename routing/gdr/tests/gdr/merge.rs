//! Tests of merging several files of one host.

use std::collections::BTreeSet;

use rsm_gdr::import::{InventoryFormat, files_by_host};
use rsm_gdr::inventory::{HostInventory, PcieLink};

use crate::import::read;

/// A host of two GPUs with every property that two sources can disagree on.
const HOST: &str = r#"{"version":1,"machine":"DGX","gpus":[
 {"index":0,"pci":"0000:1b:00.0","uuid":"GPU-1","model":"H100","numa":0,
  "switch_links":18,"c2c_gbytes":900,"gdr":true,
  "pcie":"x16 32.0 GT/s","pcie_max":"x16 32.0 GT/s"},
 {"index":1,"pci":"0000:3b:00.0"}],
"hca_ports":[{"device":"mlx5_0","port":1,"pci":"0000:18:00.0","numa":0,
  "firmware":"28.39.1002","node_guid":"0x1","port_guid":"0x3","link_layer":"InfiniBand","gbps":400,
  "active":true,"gdr":true,"pcie":"x16 32.0 GT/s","pcie_max":"x16 32.0 GT/s"}],
"links":{"family":"NVLink","generation":4,"pairs":[[0,1,18]]},
"nvlink_domain":"one.1",
"tiers":[["PIX"],["NODE"]]}"#;

const WIDE: &str = "x16 32.0 GT/s";
const NARROW: &str = "x8 32.0 GT/s";

fn narrow() -> Option<PcieLink> {
    NARROW.parse().ok()
}

fn host(text: &str) -> HostInventory {
    read(InventoryFormat::Json, text)
}

/// The conflicts of a merge of `changed` into [`HOST`]: the device, the property, the kept value
/// and the other value.
fn conflicts(changed: &HostInventory) -> Vec<(String, &'static str, String, String)> {
    let mut first = host(HOST);
    let found = first.merge(changed);
    // All values of the first file are kept.
    assert_eq!(first, host(HOST));
    let parts = found.into_iter();
    parts
        .map(|one| (one.device, one.what, one.kept, one.other))
        .collect()
}

#[test]
fn merge_keeps_the_first_value_and_reports_each_conflict() {
    assert_eq!(conflicts(&host(HOST)), []);
    type Change = fn(&mut HostInventory);
    let changes: [(Change, &str, &str, &str); 14] = [
        (
            |one| one.nvlinks[0].links = 17,
            "number of links",
            "18",
            "17",
        ),
        (|one| one.nvlinks.clear(), "number of links", "18", "0"),
        (
            |one| one.gpus[0].switch_links = Some(17),
            "NVLinks to switches",
            "18",
            "17",
        ),
        (
            |one| one.gpus[0].c2c_gbytes = Some(1),
            "C2C bandwidth",
            "900",
            "1",
        ),
        (
            |one| one.gpus[0].gdr = Some(false),
            "GPUDirect RDMA",
            "true",
            "false",
        ),
        (|one| one.gpus[0].pcie = narrow(), "PCIe link", WIDE, NARROW),
        (
            |one| one.gpus[0].pcie_max = narrow(),
            "widest PCIe link",
            WIDE,
            NARROW,
        ),
        (
            |one| one.hca_ports[0].pcie = narrow(),
            "PCIe link",
            WIDE,
            NARROW,
        ),
        (
            |one| one.hca_ports[0].firmware = Some("1".to_owned()),
            "firmware",
            "28.39.1002",
            "1",
        ),
        (
            |one| one.hca_ports[0].gbps = Some(200),
            "rate in Gb/s",
            "400",
            "200",
        ),
        (
            |one| one.hca_ports[0].active = Some(false),
            "active state",
            "true",
            "false",
        ),
        (
            |one| one.hca_ports[0].gdr = Some(false),
            "GPUDirect RDMA",
            "true",
            "false",
        ),
        (|one| one.hca_ports[0].numa = Some(1), "NUMA node", "0", "1"),
        (
            |one| one.machine = Some("HGX".to_owned()),
            "machine",
            "DGX",
            "HGX",
        ),
    ];
    for (change, what, kept, other) in changes {
        let mut changed = host(HOST);
        change(&mut changed);
        let found = conflicts(&changed);
        let summary: Vec<_> = found.iter().map(|one| (one.1, &*one.2, &*one.3)).collect();
        assert_eq!(summary, [(what, kept, other)]);
    }
}

#[test]
fn links_of_gpus_that_only_the_second_file_has_are_added() {
    let mut first = host(HOST);
    first.remove_gpu(1);
    assert_eq!(first.nvlinks, []);
    assert_eq!(first.merge(&host(HOST)), []);
    assert_eq!(first.links_between(0, 1), 18);
    first.check().expect("merged inventories keep the rules");
}

/// The host that a file is named after; `None` for a copy.
fn host_of(file: &str) -> Option<String> {
    let files = files_by_host(BTreeSet::from([file.to_owned()])).expect("one file");
    assert_eq!(files.hosts.is_empty(), files.copies == [file]);
    files.hosts.into_keys().next()
}

#[test]
fn host_names_follow_from_file_names_and_copies_by_editors_are_recognised() {
    for (file, name) in [
        ("node01", "node01"),
        ("node01.txt", "node01"),
        ("node01.topo.txt", "node01"),
        ("node01.matrix", "node01"),
        ("node01.TSV", "node01"),
        ("node01.nccl.xml", "node01"),
        ("node01.example", "node01.example"),
        ("node01.example.com.json", "node01.example.com"),
        ("node01.1.txt", "node01.1"),
        ("node01:2222", "node01"),
        ("node01.example.com:22.txt", "node01.example.com"),
        ("node01:a", "node01:a"),
        (":22", ":22"),
        ("default.txt", "default"),
        ("txt", "txt"),
    ] {
        assert_eq!(host_of(file).as_deref(), Some(name));
    }
    for copy in [
        ".txt",
        "node01.txt.bak",
        "node01.BAK",
        "node01.txt~",
        "#node01.txt#",
        ".node01.txt.swp",
        "node01.tsv.orig",
        "node01.txt.old",
    ] {
        assert_eq!(host_of(copy), None, "{copy}");
    }
}

#[test]
fn files_that_differ_in_the_port_alone_are_refused_with_both_names() {
    let by_host =
        |names: &[&str]| files_by_host(names.iter().map(|&name| name.to_owned()).collect());
    let error = by_host(&["hub:2201", "hub:2202"]).expect_err("two hosts behind one address");
    let text = error.to_string();
    assert!(text.contains("`hub:2201` and `hub:2202`"), "{text}");
    // Two sources of one host, as one port or none tells.
    let files = by_host(&["hub:2201.tsv", "hub:2201.txt", "hub.xml"]).expect("one host");
    assert_eq!(
        files.hosts["hub"],
        ["hub.xml", "hub:2201.tsv", "hub:2201.txt"]
    );
}
