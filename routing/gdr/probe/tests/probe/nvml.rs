//! A library with NVML's functions, loaded at run time.

use rsm_gdr::inventory::{LinkFamily, LinkShape};
use rsm_probe::{NvmlSource, nvml, read};

use crate::fake::{FakeHost, GPUS};

/// The source of an NVML library. `init` is the result of nvmlInit, `lost_gpu` is the index of the
/// lost GPU (9: no GPU is lost), and `remote` is the type of device at the far end of each NVLink
/// (0: a GPU, 2: a switch).
fn source(init: i32, lost_gpu: u32, remote: i32) -> String {
    format!(
        "#define INIT {init}\n#define LOST_GPU {lost_gpu}u\n#define REMOTE {remote}\n{}",
        include_str!("nvml.c")
    )
}

#[test]
fn gpus_links_coherent_links_and_domain_are_read_from_the_library() {
    let host = FakeHost::new();
    let library = host.library(&source(0, 9, 0));
    let mut settings = host.settings();
    settings.nvml = NvmlSource::Library(library.into_os_string());
    let reading = read(&settings).expect("a host");
    assert_eq!(reading.notes, Vec::<String>::new());
    let inventory = reading.inventory;
    // The library counts GPUs in another order than their addresses.
    let addresses: Vec<String> = (inventory.gpus.iter())
        .map(|gpu| gpu.pci.expect("an address").to_string())
        .collect();
    assert_eq!(addresses, [GPUS[1], GPUS[0]]);
    let gpu = &inventory.gpus[0];
    assert_eq!(gpu.index, 0);
    assert_eq!(
        gpu.uuid.as_deref(),
        Some("GPU-00000000-0000-4000-8000-000000000001")
    );
    assert_eq!(gpu.model.as_deref(), Some("NVIDIA H100 80GB HBM3"));
    assert_eq!((gpu.numa, gpu.c2c_gbytes), (Some(1), Some(89)));
    assert_eq!(gpu.pcie, "x16 32.0 GT/s".parse().ok());
    assert_eq!(inventory.links_between(0, 1), 4);
    assert_eq!(inventory.link_shape(), LinkShape::FullMesh);
    assert_eq!(
        inventory.link_family,
        LinkFamily::NvLink {
            generation: Some(4)
        }
    );
    let domain = inventory
        .domain
        .clone()
        .expect("the fake NVML reports a domain");
    assert_eq!(domain.to_string(), "abababab-abab-abab-abab-abababababab.7");
    // Ports come from /sys, with tiers to the GPUs of the library.
    let near = |gpu: usize| {
        let ports = 0..inventory.hca_ports.len();
        let nearest = ports.min_by_key(|&port| inventory.tier(gpu, port));
        inventory.hca_ports[nearest.expect("the GPU has a near port")].label()
    };
    assert_eq!([near(0), near(1)], ["mlx5_1", "mlx5_0"]);
}

#[test]
fn links_to_switches_join_all_gpus() {
    let host = FakeHost::new();
    let reading =
        nvml::read(host.library(&source(0, 9, 2)).as_os_str()).expect("the fake NVML starts");
    let inventory = reading.inventory;
    assert_eq!(inventory.gpus[1].switch_links, Some(4));
    assert_eq!(inventory.link_shape(), LinkShape::Switched { links: 4 });
    assert!(inventory.nvlinks_known);
}

#[test]
fn lost_gpu_is_left_out_with_a_note() {
    let host = FakeHost::new();
    let mut settings = host.settings();
    let library = host.library(&source(0, 1, 0));
    settings.nvml = NvmlSource::Library(library.into_os_string());
    let reading = read(&settings).expect("a host");
    assert_eq!(reading.inventory.gpus.len(), 1);
    assert_eq!(
        reading.notes,
        [
            "NVML, GPU1: nvmlDeviceGetHandleByIndex: GPU is lost (15)".to_owned(),
            format!("the driver does not list the GPU at {}: left out", GPUS[0]),
        ]
    );
}

#[test]
fn without_a_loaded_driver_the_probe_falls_back_to_sysfs() {
    let host = FakeHost::new();
    let mut settings = host.settings();
    let library = host.library(&source(9, 9, 0));
    settings.nvml = NvmlSource::Library(library.into_os_string());
    let reading = read(&settings).expect("a host");
    assert_eq!(reading.inventory.gpus.len(), 2);
    assert_eq!(
        reading.notes,
        [
            "NVML: nvmlInit: driver not loaded (9)",
            "nvidia-smi: it is not installed",
        ]
    );
    for source in ["int x;", "int nvmlInit_v2(void) { return 0; }"] {
        // The dynamic loader caches libraries by path, so each library needs a new folder.
        let other = FakeHost::new();
        let library = other.library(source);
        let refused = nvml::read(library.as_os_str()).expect_err("functions are missing");
        assert!(
            refused.to_string().contains("lacks the function"),
            "{refused}"
        );
    }
    let missing = nvml::read("/nonexistent/libnvidia-ml.so.1".as_ref());
    assert!(missing.is_err());
}
