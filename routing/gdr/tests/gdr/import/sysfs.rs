//! Tests of tables of `/sys`.

use rsm_gdr::import::InventoryFormat;
use rsm_gdr::inventory::Tier;
use rsm_ids::Guid;

use super::{read, refused};

pub(super) const SYSFS: &str = "# a snapshot
/sys/class/dmi/id/product_name\tTest Machine
/sys/bus/pci/devices/0000:1b:00.0\t/sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0/0000:1b:00.0
/sys/bus/pci/devices/0000:1b:00.0/class\t0x030200
/sys/bus/pci/devices/0000:1b:00.0/vendor\t0x10de
/sys/bus/pci/devices/0000:1b:00.0/numa_node\t0
/sys/bus/pci/devices/0000:9b:00.0\t/sys/devices/pci0000:97/0000:97:01.0/0000:9b:00.0
/sys/bus/pci/devices/0000:9b:00.0/class\t0x030200
/sys/bus/pci/devices/0000:9b:00.0/vendor\t0x10de
/sys/bus/pci/devices/0000:9b:00.0/numa_node\t1
/sys/bus/pci/devices/0000:18:00.0\t/sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:04.0/0000:18:00.0
/sys/bus/pci/devices/0000:18:00.0/numa_node\t0
/sys/class/infiniband/mlx5_10/node_guid\t58a2:e103:001b:2576
/sys/class/infiniband/mlx5_10/sys_image_guid\t58a2:e103:001b:2576
/sys/class/infiniband/mlx5_10/device\t../../../0000:18:00.0
/sys/class/infiniband/mlx5_10/ports/1/state\t4: ACTIVE
/sys/class/infiniband/mlx5_10/ports/1/rate\t400 Gb/sec (4X NDR)
/sys/class/infiniband/mlx5_10/ports/1/link_layer\tInfiniBand
/sys/class/infiniband/mlx5_10/ports/1/gids/0\tfe80:0000:0000:0000:58a2:e103:001b:2577
/sys/class/infiniband/mlx5_2/device\t/sys/devices/pci0000:15/0000:15:02.0/0000:19:00.0
/sys/class/infiniband/mlx5_2/ports/1/state\t1: DOWN
/sys/class/infiniband/mlx5_2/ports/1/rate\t2.5 Gb/sec (1X SDR)
/sys/class/infiniband/mlx5_2/ports/2/state\t4: ACTIVE
/sys/devices/virtual/nvidia_fabric\t3f1a7c1e-0000-4000-8000-00000000beef.7
";

#[test]
fn a_snapshot_gives_tiers_guids_and_states() {
    let host = read(InventoryFormat::Sysfs, SYSFS);
    assert_eq!(host.machine.as_deref(), Some("Test Machine"));
    let labels: Vec<String> = host.hca_ports.iter().map(|port| port.label()).collect();
    assert_eq!(labels, ["mlx5_2", "mlx5_2:2", "mlx5_10"]);
    let port = &host.hca_ports[2];
    assert_eq!(port.port_guid, Some(Guid(0x58a2_e103_001b_2577)));
    assert_eq!(port.node_guid, Some(Guid(0x58a2_e103_001b_2576)));
    assert_eq!(
        (port.gbps, port.active, port.numa),
        (Some(400), Some(true), Some(0))
    );
    assert_eq!(host.tier(0, 2), Some(Tier::Pix));
    assert_eq!(host.tier(0, 0), Some(Tier::Phb));
    assert_eq!(host.tier(1, 2), Some(Tier::Sys));
    // The file does not state the NUMA node of mlx5_2.
    assert_eq!(host.tier(1, 0), None);
    assert_eq!(host.domain.map(|domain| domain.clique_id), Some(7));
}

#[test]
fn a_processing_accelerator_is_a_gpu_only_if_amd_makes_it() {
    let of_vendor = |vendor: &str| {
        let text = SYSFS.replace("0x030200", "0x120000");
        read(InventoryFormat::Sysfs, &text.replace("0x10de", vendor))
    };
    assert_eq!(of_vendor("0x1002").gpus.len(), 2);
    assert_eq!(of_vendor("0x1da3").gpus.len(), 0);
    let gpus = |kind: &str| {
        let text = format!(
            "<topology version=\"2.0\"><object type=\"Machine\"><object type=\"PCIDev\" \
             pci_busid=\"0000:05:00.0\" pci_type=\"{kind} [0000:0000] 00 00\"/><object \
             type=\"OSDev\" osdev_type=\"3\" name=\"mlx5_0\"/></object></topology>"
        );
        read(InventoryFormat::Hwloc, &text).gpus.len()
    };
    assert_eq!(gpus("1200 [1002:74a1]"), 1);
    assert_eq!(gpus("1200 [1da3:1020]"), 0);
    assert_eq!(gpus("0302 [10de:2330]"), 1);
}

#[test]
fn a_snapshot_gives_pcie_links_virtual_functions_and_data_direct() {
    let more = "\
/sys/bus/pci/devices/0000:18:00.0/current_link_width\t16
/sys/bus/pci/devices/0000:18:00.0/current_link_speed\t32.0 GT/s PCIe
/sys/bus/pci/devices/0000:1b:00.0/current_link_width\t8
/sys/bus/pci/devices/0000:1b:00.0/current_link_speed\t2.5 GT/s PCIe
/sys/bus/pci/devices/0000:1b:00.0/max_link_speed\t64.0 GT/s PCIe
/sys/bus/pci/devices/0000:18:00.0/physfn\t/sys/devices/pci0000:15/0000:18:00.1
/sys/class/infiniband/mlx5_2/fw_ver\t28.39.1002
/sys/class/infiniband/mlx5_10/fw_ver\t28 39
/sys/class/infiniband/mlx5_2/data_direct\t/sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:04.0/0000:18:00.1
";
    let host = read(InventoryFormat::Sysfs, &format!("{SYSFS}{more}"));
    // An idle GPU lowers the speed of its link and keeps its lanes: the maximum speed counts.
    assert_eq!(host.gpus[0].pcie, "x8 64.0 GT/s".parse().ok());
    assert_eq!(host.hca_ports[2].pcie, "x16 32.0 GT/s".parse().ok());
    assert_eq!(host.hca_ports[0].pcie, None);
    assert_eq!(host.hca_ports[0].firmware.as_deref(), Some("28.39.1002"));
    // The text `28 39` is not a version.
    assert_eq!(host.hca_ports[2].firmware, None);
    let functions = |port: usize| {
        let port = &host.hca_ports[port];
        (port.virtual_function, port.data_direct)
    };
    assert_eq!(functions(2), (true, false));
    assert_eq!(functions(0), (false, true));
    // The file has no bridge, so that the other end of the link is unknown.
    assert_eq!(host.gpus[0].pcie_max, None);
    // The tier is that of the Data Direct function.
    assert_eq!(host.tier(0, 0), Some(Tier::Pix));
    let again = read(InventoryFormat::Json, &rsm_gdr::import::to_json(&host));
    assert_eq!(again.gpus, host.gpus);
    assert_eq!(again.hca_ports, host.hca_ports);
}

#[test]
fn a_snapshot_gives_the_link_that_both_ends_can_have() {
    let mut more = String::new();
    for (address, width, speed) in [
        ("0000:1b:00.0", "16", "64.0 GT/s PCIe"),
        ("0000:18:00.0", "16", "32.0 GT/s PCIe"),
        // This is the bridge above both.
        ("0000:17:04.0", "16", "16.0 GT/s PCIe"),
    ] {
        let path = format!("/sys/bus/pci/devices/{address}");
        more += &format!("{path}/max_link_width\t{width}\n{path}/max_link_speed\t{speed}\n");
    }
    let host = read(InventoryFormat::Sysfs, &format!("{SYSFS}{more}"));
    let of_18 = host.hca_ports.iter().filter(|port| {
        port.pci
            .is_some_and(|pci| pci.to_string() == "0000:18:00.0")
    });
    let most: Vec<_> = of_18.map(|port| port.pcie_max).collect();
    assert_eq!(most, ["x16 16.0 GT/s".parse().ok()]);
    let again = read(InventoryFormat::Json, &rsm_gdr::import::to_json(&host));
    assert_eq!(again.hca_ports, host.hca_ports);
    // A bridge inside the processor has no link: it states 255 lanes of an unknown speed.
    let broken = more.replace("17:04.0/max_link_width\t16", "17:04.0/max_link_width\t255");
    let host = read(InventoryFormat::Sysfs, &format!("{SYSFS}{broken}"));
    assert!(host.hca_ports.iter().all(|port| port.pcie_max.is_none()));
}

#[test]
fn a_bad_snapshot_is_refused_with_its_line() {
    for (from, to, line) in [
        ("58a2:e103:001b:2576", "58a2:e103:001b:257x", 13),
        // The parser of numbers would take a sign.
        ("58a2:e103:001b:2576", "+1", 13),
        ("400 Gb/sec", "fast", 17),
        ("../../../0000:18:00.0", "../nowhere", 15),
        ("# a snapshot", "a snapshot", 1),
        ("ports/1/state\t1", "ports/x/state\t1", 21),
        ("beef.7", "beef", 24),
    ] {
        let error = refused(InventoryFormat::Sysfs, &SYSFS.replacen(from, to, 1));
        assert_eq!(error.line, line, "{error}");
    }
}

#[test]
fn bridges_of_an_adapter_whose_link_is_relative_are_those_of_its_function() {
    let more = "\
/sys/bus/pci/devices/0000:17:00.0/acs_redirect\t1
/sys/bus/pci/devices/0000:17:04.0/acs_redirect\t1
/sys/bus/pci/devices/0000:15:01.0/acs_redirect\t1
";
    let relative = format!("{SYSFS}{more}");
    let function = "/sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:04.0/0000:18:00.0";
    let absolute = relative.replace("../../../0000:18:00.0", function);
    let below_sys = relative.replace(
        "../../../0000:18:00.0",
        &function.replace("/sys", "../../.."),
    );
    // Bridges above the switch do not separate the GPU from the adapter.
    for text in [&relative, &absolute, &below_sys] {
        let host = read(InventoryFormat::Sysfs, text);
        let bridges: Vec<String> = host
            .pcie_settings
            .acs_redirect
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(bridges, ["0000:17:00.0", "0000:17:04.0"], "{text}");
        assert_eq!(host.tier(0, 2), Some(Tier::Pix), "{text}");
    }
    // The link to a Data Direct function is resolved in the same way.
    let direct = "/sys/class/infiniband/mlx5_2/data_direct\t../../../0000:18:00.0\n";
    let host = read(InventoryFormat::Sysfs, &format!("{SYSFS}{direct}"));
    assert_eq!(host.tier(0, 0), Some(Tier::Pix));
}
