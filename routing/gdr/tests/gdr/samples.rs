//! Tests with files of real machines: every file is imported, and its hints equal a golden file.
//!
//! The samples belong to others and are not part of this repository; without them the tests say so
//! and pass. `RSM_UPDATE_GOLDEN=1` writes the golden files anew, for review.

#![expect(clippy::print_stderr, reason = "says why there is nothing to test")]

use std::path::{Path, PathBuf};

use rsm_gdr::hosts::GpuInventory;
use rsm_gdr::import::{InventoryFormat, import, to_json};
use rsm_gdr::inventory::{HostInventory, LinkShape, Tier};
use rsm_gdr::render::describe;
use rsm_gdr::{Analysis, AnalysisConfig};

/// Matrices and NCCL's topology files, with their formats.
const SAMPLES: [(&str, InventoryFormat); 21] = [
    (
        "nvidia-smi-topo/dlperf-v100x8-1nic-indented.txt",
        InventoryFormat::NvidiaSmi,
    ),
    (
        "nvidia-smi-topo/dlperf-v100x8-1nic.txt",
        InventoryFormat::NvidiaSmi,
    ),
    (
        "nvidia-smi-topo/dlperf-v100x8-2nic.txt",
        InventoryFormat::NvidiaSmi,
    ),
    (
        "nvidia-smi-topo/dranet-gke-a4-b200.txt",
        InventoryFormat::NvidiaSmi,
    ),
    (
        "nvidia-smi-topo/mooncake-2039-h200-12nic.txt",
        InventoryFormat::NvidiaSmi,
    ),
    (
        "nvidia-smi-topo/msccl-dgx1-v100.txt",
        InventoryFormat::NvidiaSmi,
    ),
    (
        "nvidia-smi-topo/stelline-asus-esc8000a-4gpu-4nic.txt",
        InventoryFormat::NvidiaSmi,
    ),
    (
        "nvidia-smi-topo/stelline-puget-wrx90-2gpu-2nic.txt",
        InventoryFormat::NvidiaSmi,
    ),
    (
        "nvidia-smi-topo/szymonozog-h100-8ib-5eth.txt",
        InventoryFormat::NvidiaSmi,
    ),
    (
        "nvidia-smi-topo/xuesong-4gpu-2nic-allSYS.txt",
        InventoryFormat::NvidiaSmi,
    ),
    (
        "nvidia-smi-topo/xuesong-a100x8-17nic.txt",
        InventoryFormat::NvidiaSmi,
    ),
    (
        "nccl-topo-xml/aws-p4d-24xl-topo.xml",
        InventoryFormat::NcclXml,
    ),
    (
        "nccl-topo-xml/aws-p5.48xl-topo.2026.xml",
        InventoryFormat::NcclXml,
    ),
    (
        "nccl-topo-xml/azure-ncv4-topo.xml",
        InventoryFormat::NcclXml,
    ),
    (
        "nccl-topo-xml/azure-ndv2-topo.xml",
        InventoryFormat::NcclXml,
    ),
    (
        "nccl-topo-xml/azure-ndv4-topo.xml",
        InventoryFormat::NcclXml,
    ),
    (
        "nccl-topo-xml/azure-ndv5-topo.xml",
        InventoryFormat::NcclXml,
    ),
    (
        "nccl-topo-xml/oci-H100-topology.xml",
        InventoryFormat::NcclXml,
    ),
    (
        "nccl-topo-xml/oci-topo-flattened.xml",
        InventoryFormat::NcclXml,
    ),
    (
        "rccl-topo-xml/rccl-topo_8p1h_n1.xml",
        InventoryFormat::NcclXml,
    ),
    (
        "rccl-topo-xml/rccl-topo_8p_4nics.xml",
        InventoryFormat::NcclXml,
    ),
];

/// Files of other formats.
const OTHER_SAMPLES: [(&str, InventoryFormat); 3] = [
    (
        "hwloc-xml/40intel64-2g2n4c+pcilocality.xml",
        InventoryFormat::Hwloc,
    ),
    ("hwloc-xml/nvidiaDGX2.xml", InventoryFormat::Hwloc),
    (
        "sysfs/gpud-sys-class-infiniband-h100.0.tsv",
        InventoryFormat::Sysfs,
    ),
];

/// The folder of the samples; `None` if it is missing.
pub(crate) fn samples() -> Option<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let data = here.join("../../../shared/data/gpu");
    let found = data.is_dir().then_some(data);
    if found.is_none() {
        eprintln!("skipped: no samples in ../shared/data/gpu");
    }
    found
}

/// Each sample: the name of its file, and its inventory.
pub(crate) fn every_sample(data: &Path) -> impl Iterator<Item = (&'static str, HostInventory)> {
    let all = SAMPLES.into_iter().chain(OTHER_SAMPLES);
    all.map(|(name, format)| (name, read(data, name, format)))
}

/// Each sample: the name of its file, its format and its text.
pub(crate) fn every_file(
    data: &Path,
) -> impl Iterator<Item = (&'static str, InventoryFormat, String)> {
    let all = SAMPLES.into_iter().chain(OTHER_SAMPLES);
    all.map(|(name, format)| {
        let text = std::fs::read_to_string(data.join(name));
        (
            name,
            format,
            text.unwrap_or_else(|error| panic!("{name}: {error}")),
        )
    })
}

fn read(data: &Path, name: &str, format: InventoryFormat) -> HostInventory {
    let bytes = std::fs::read(data.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    import(format, &bytes).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The analysis of a host without a fabric.
fn alone(host: HostInventory) -> Analysis {
    let mut inventory = GpuInventory::new();
    inventory
        .insert("host", host, 0)
        .expect("importers keep the rules");
    Analysis::new(&inventory, None, AnalysisConfig::default())
}

#[test]
fn every_machine_has_its_golden_hints() {
    let Some(data) = samples() else { return };
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/hints");
    let mut wrong = Vec::new();
    for (name, format) in SAMPLES.into_iter().chain(OTHER_SAMPLES) {
        let host = read(&data, name, format);
        let text = describe(&alone(host), "host").expect("the host is there");
        let file = name.rsplit('/').next().unwrap_or(name);
        let path = golden.join(Path::new(file).with_extension("hints"));
        if std::env::var_os("RSM_UPDATE_GOLDEN").is_some() {
            std::fs::create_dir_all(&golden).expect("a directory for the golden files");
            std::fs::write(&path, &text).expect("the golden file can be written");
        }
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        if kept != text {
            wrong.push(format!("{}:\n{text}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn json_keeps_everything_of_every_sample() {
    let Some(data) = samples() else { return };
    for (name, format) in SAMPLES.into_iter().chain(OTHER_SAMPLES) {
        let host = read(&data, name, format);
        let json = to_json(&host);
        let mut again = import(InventoryFormat::Json, json.as_bytes())
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        again.source = host.source;
        assert!(again == host, "{name}");
    }
}

#[test]
fn link_shapes_of_samples_are_recognised() {
    let Some(data) = samples() else { return };
    let shape = |name, format| read(&data, name, format).link_shape();
    let cube = shape(
        "nvidia-smi-topo/msccl-dgx1-v100.txt",
        InventoryFormat::NvidiaSmi,
    );
    assert_eq!(cube, LinkShape::PartialMesh);
    let h200 = shape(
        "nvidia-smi-topo/mooncake-2039-h200-12nic.txt",
        InventoryFormat::NvidiaSmi,
    );
    assert_eq!(h200, LinkShape::Switched { links: 18 });
    let h100 = shape(
        "nccl-topo-xml/oci-H100-topology.xml",
        InventoryFormat::NcclXml,
    );
    assert_eq!(h100, LinkShape::Switched { links: 18 });
    let dgx2 = shape("hwloc-xml/nvidiaDGX2.xml", InventoryFormat::Hwloc);
    assert_eq!(dgx2, LinkShape::Switched { links: 6 });
    let none = shape(
        "nvidia-smi-topo/xuesong-4gpu-2nic-allSYS.txt",
        InventoryFormat::NvidiaSmi,
    );
    assert_eq!(none, LinkShape::None);
}

#[test]
fn merge_of_matrix_and_sysfs_has_tiers_and_rates() {
    let Some(data) = samples() else { return };
    let mut host = read(
        &data,
        "nvidia-smi-topo/mooncake-2039-h200-12nic.txt",
        InventoryFormat::NvidiaSmi,
    );
    // The sysfs sample is of another machine with devices of the same names.
    let sysfs = read(
        &data,
        "sysfs/gpud-sys-class-infiniband-h100.0.tsv",
        InventoryFormat::Sysfs,
    );
    let conflicts = host.merge(&sysfs);
    assert!(conflicts.is_empty(), "{conflicts:?}");
    host.check().expect("merged inventories keep the rules");
    let port = |name: &str| {
        let found = host
            .hca_ports
            .iter()
            .position(|port| port.device.as_deref() == Some(name));
        found.unwrap_or_else(|| panic!("{name}"))
    };
    assert_eq!(host.hca_ports[port("mlx5_0")].gbps, Some(400));
    assert_eq!(host.tier(0, port("mlx5_0")), Some(Tier::Pix));
    // A port that only the second source has, at an unknown distance.
    assert_eq!(host.tier(0, port("mlx5_bond_0")), None);
}
