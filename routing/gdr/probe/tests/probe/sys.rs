//! Tests with unusual `/sys` trees, and with a tree that changes while it is read.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};

use rsm_gdr::inventory::PciAddress;
use rsm_probe::snapshot::Snapshot;
use rsm_probe::{ProbeError, read};

use crate::fake::FakeHost;

#[test]
fn host_without_gpus_and_adapters_has_no_inventory() {
    let host = FakeHost::empty();
    let refused = read(&host.settings());
    assert!(
        matches!(refused, Err(ProbeError::NoDevices { .. })),
        "{refused:?}"
    );
    let mut settings = host.settings();
    settings.sys = host.sys().join("nowhere");
    let refused = read(&settings);
    assert!(
        matches!(refused, Err(ProbeError::NoDevices { .. })),
        "{refused:?}"
    );
}

#[test]
fn reading_succeeds_while_an_adapter_disappears_and_returns() {
    let host = FakeHost::new();
    let ports = host.sys().join("class/infiniband/mlx5_1/ports/1");
    let hidden = host.sys().join("hidden");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                fs::rename(&ports, &hidden).expect("the folder of ports exists");
                fs::rename(&hidden, &ports).expect("the hidden folder exists");
            }
        });
        for _ in 0..50 {
            let reading = read(&host.settings()).expect("the other adapter stays");
            let known = reading.inventory.hca_ports.iter();
            let devices: Vec<_> = known.filter_map(|port| port.device.as_deref()).collect();
            assert!(devices.contains(&"mlx5_0"), "{devices:?}");
        }
        stop.store(true, Ordering::Relaxed);
    });
    let still = Snapshot::take(&host.sys()).expect("a readable /sys tree");
    assert_eq!(still.notes, Vec::<String>::new());
    assert_eq!(
        read(&host.settings())
            .expect("a host")
            .inventory
            .hca_ports
            .len(),
        2
    );
}

#[test]
fn empty_and_overlong_files_are_skipped_and_binary_text_is_made_plain() {
    let host = FakeHost::new();
    let adapter = "class/infiniband/mlx5_0";
    host.put(&format!("{adapter}/ports/1/rate"), "");
    host.put(&format!("{adapter}/ports/1/state"), &"4".repeat(100_000));
    fs::write(
        host.sys().join("class/dmi/id/product_name"),
        b"\xff\xfe Machine\twith\ntabs",
    )
    .expect("the temporary folder is writable");
    let reading = read(&host.settings()).expect("a host");
    let port = &reading.inventory.hca_ports[0];
    assert_eq!((port.gbps, port.active), (None, None));
    assert!(port.port_guid.is_some());
    let machine = reading.inventory.machine.expect("a name");
    assert!(machine.ends_with("Machine with tabs"), "{machine}");
}

#[test]
fn invalid_value_is_an_error_with_its_line() {
    let host = FakeHost::new();
    host.put("class/infiniband/mlx5_0/node_guid", "not a GUID");
    let refused = read(&host.settings()).expect_err("no GUID");
    let text = refused.to_string();
    assert!(
        text.contains("not a GUID") && text.contains("line"),
        "{text}"
    );
}

#[test]
fn maximum_link_of_a_device_is_limited_by_the_bridge_above() {
    let host = FakeHost::new();
    let most = |address: &str, width: &str| {
        let path = format!("devices/pci0000:15/0000:15:01.0/{address}");
        host.put(&format!("{path}max_link_width"), width);
        host.put(&format!("{path}max_link_speed"), "32.0 GT/s PCIe\n");
    };
    most("0000:1b:00.0/", "16\n");
    most("0000:18:00.0/", "16\n");
    most("", "8\n");
    // The kernel lists bridges among the other functions.
    let bridge = host.sys().join("bus/pci/devices/0000:15:01.0");
    let upstream = host.sys().join("devices/pci0000:15/0000:15:01.0");
    std::os::unix::fs::symlink(upstream, bridge).expect("a new link");
    let inventory = read(&host.settings()).expect("a host").inventory;
    let most = "x8 32.0 GT/s".parse().ok();
    assert_eq!(
        (inventory.gpus[0].pcie_max, inventory.gpus[1].pcie_max),
        (most, None)
    );
    let ports: Vec<_> = inventory
        .hca_ports
        .iter()
        .map(|port| port.pcie_max)
        .collect();
    assert_eq!(ports, [most, None]);
    assert_eq!(inventory.gpus[0].pcie, "x16 32.0 GT/s".parse().ok());
}

#[test]
fn data_direct_function_is_found_by_its_product_data() {
    let host = FakeHost::new();
    let direct = "0000:19:00.0";
    host.function("pci0000:15", direct, "0x088000", "0x15b3", 0);
    let vpd = |value: &[u8]| {
        let mut fields = vec![b'V', b'3', value.len() as u8];
        fields.extend(value);
        let mut vpd = vec![0x90, fields.len() as u8, 0];
        vpd.extend(fields);
        vpd.push(0x78);
        vpd
    };
    let put = |address: &str, name: &str, bytes: &[u8]| {
        let path = host.sys().join("bus/pci/devices").join(address).join(name);
        fs::write(path, bytes).expect("the temporary folder is writable");
    };
    put(direct, "device", b"0x2100\n");
    put(direct, "vpd", &vpd(b"one"));
    put("0000:18:00.0", "vpd", &vpd(b"one"));
    put("0000:98:00.0", "vpd", &vpd(b"another"));
    let reading = read(&host.settings()).expect("a host");
    let direct: Vec<bool> = (reading.inventory.hca_ports.iter())
        .map(|port| port.data_direct)
        .collect();
    assert_eq!(direct, [true, false]);
}

#[test]
fn processing_accelerator_is_a_gpu_only_if_amd_made_it() {
    let host = FakeHost::empty();
    host.function("pci0000:10", "0000:11:00.0", "0x120000", "0x1002", 0);
    host.function("pci0000:10", "0000:12:00.0", "0x120000", "0x1da3", 0);
    let reading = read(&host.settings()).expect("a host with a MI300X");
    let addresses: Vec<_> = (reading.inventory.gpus.iter())
        .map(|gpu| gpu.pci.map(|pci| pci.to_string()))
        .collect();
    assert_eq!(addresses, [Some("0000:11:00.0".to_owned())]);
}

#[test]
fn unreadable_list_of_adapters_is_an_error() {
    let host = FakeHost::new();
    let class = host.sys().join("class/infiniband");
    fs::rename(&class, host.sys().join("class/before")).expect("a folder");
    // Root may read every folder, but cannot list a file.
    fs::write(&class, b"").expect("the temporary folder is writable");
    let error = read(&host.settings()).expect_err("no list of adapters");
    let text = error.to_string();
    let path = class.display().to_string();
    assert!(matches!(error, ProbeError::Unreadable { .. }), "{text}");
    assert!(
        text.starts_with(&format!("{path} cannot be read (")),
        "{text}"
    );
}

#[test]
fn proprietary_driver_without_peer_memory_has_no_gpudirect_rdma() {
    let gdr = |files: &[(&str, &str)]| -> Vec<Option<bool>> {
        let host = FakeHost::new();
        files.iter().for_each(|(path, text)| host.put(path, text));
        let inventory = read(&host.settings()).expect("a host").inventory;
        inventory.gpus.iter().map(|gpu| gpu.gdr).collect()
    };
    let proprietary = ("module/nvidia/taint", "POE\n");
    let peer_memory = ("module/nvidia_peermem/refcnt", "1\n");
    assert_eq!(gdr(&[proprietary]), [Some(false), Some(false)]);
    assert_eq!(gdr(&[proprietary, peer_memory]), [None, None]);
    // The open modules have dma-buf.
    assert_eq!(gdr(&[("module/nvidia/taint", "OE\n")]), [None, None]);
    assert_eq!(gdr(&[]), [None, None]);
}

/// A configuration space with the PCI Express and ACS capabilities.
fn config(device_control: u8, acs_control: u8) -> Vec<u8> {
    let mut config = vec![0; 4096];
    (config[0x06], config[0x34]) = (0x10, 0x60);
    (config[0x60], config[0x68]) = (0x10, device_control);
    (config[0x100], config[0x102], config[0x106]) = (0x0d, 0x01, acs_control);
    config
}

#[test]
fn pcie_settings_between_a_gpu_and_its_adapter_are_read() {
    let host = FakeHost::new();
    // Below one port of the processor, a switch with the GPU at one port and the adapter at
    // another.
    let upstream = "devices/pci0000:40/0000:40:01.0/0000:41:00.0";
    for (port, address, class, vendor) in [
        ("0000:42:00.0", "0000:43:00.0", "0x030200", "0x10de"),
        ("0000:42:01.0", "0000:44:00.0", "0x020700", "0x15b3"),
    ] {
        let function = format!("{upstream}/{port}/{address}");
        host.put(&format!("{function}/class"), class);
        host.put(&format!("{function}/vendor"), vendor);
        host.put(&format!("{function}/iommu_group/type"), "DMA-FQ\n");
        let config = config(0, 0);
        fs::write(host.sys().join(&function).join("config"), config)
            .expect("the temporary folder is writable");
        let link = host.sys().join("bus/pci/devices").join(address);
        std::os::unix::fs::symlink(host.sys().join(function), link).expect("a new link");
    }
    for (bridge, acs) in [("", 0x1d), ("/0000:42:00.0", 0x1d), ("/0000:42:01.0", 0x01)] {
        let path = host.sys().join(format!("{upstream}{bridge}"));
        fs::write(path.join("config"), config(0x10, acs))
            .expect("the temporary folder is writable");
        let address = path.file_name().expect("a name");
        let link = host.sys().join("bus/pci/devices").join(address);
        std::os::unix::fs::symlink(&path, link).expect("a new link");
    }
    let adapter = "class/infiniband/mlx5_4";
    host.put(&format!("{adapter}/ports/1/link_layer"), "InfiniBand\n");
    let function = host
        .sys()
        .join(format!("{upstream}/0000:42:01.0/0000:44:00.0"));
    let device = host.sys().join(adapter).join("device");
    std::os::unix::fs::symlink(&function, device).expect("a new link");

    let reading = read(&host.settings()).expect("a host");
    let settings = &reading.inventory.pcie_settings;
    let address = |text: &str| text.parse::<PciAddress>().expect("an address");
    // The upstream port is above both, and the other downstream port redirects nothing.
    assert_eq!(settings.acs_redirect, [address("0000:42:00.0")]);
    let both = [address("0000:43:00.0"), address("0000:44:00.0")];
    assert_eq!(settings.iommu_translated, both);
    assert_eq!(settings.strict_ordering, [address("0000:44:00.0")]);
    let notes = || {
        Snapshot::take(&host.sys())
            .expect("a readable /sys tree")
            .notes
    };
    assert_eq!(notes(), Vec::<String>::new());

    // Without the privilege, only the first 64 bytes of the registers are readable.
    fs::write(function.join("config"), &config(0, 0)[..64])
        .expect("the temporary folder is writable");
    let reading = read(&host.settings()).expect("a host");
    assert_eq!(reading.inventory.pcie_settings.strict_ordering, []);
    let notes = notes();
    assert!(
        notes.len() == 1 && notes[0].contains("CAP_SYS_ADMIN"),
        "{notes:?}"
    );
}
