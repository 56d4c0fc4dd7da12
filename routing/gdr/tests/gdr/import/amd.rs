//! Tests of the output of AMD's tools.

use rsm_gdr::import::InventoryFormat;

use super::{read, refused};

pub(super) const ROCM: &str = "
================================= Hops between two GPUs ==================================
       GPU0         GPU1         GPU2
GPU0   0            1            2
GPU1   1            0            1
GPU2   2            1            0

=============================== Link Type between two GPUs ===============================
       GPU0         GPU1         GPU2
GPU0   0            XGMI         XGMI
GPU1   XGMI         0            PCIE
GPU2   XGMI         PCIE         0

======================================= Numa Nodes =======================================
GPU[0]\t\t: (Topology) Numa Node: 0
GPU[2]\t\t: (Topology) Numa Node: 3
GPU[0]\t\t: (Topology) Numa Affinity: 1
";

#[test]
fn links_of_amd_gpus_are_those_of_one_hop() {
    let host = read(InventoryFormat::AmdSmi, ROCM);
    assert_eq!(host.link_family.to_string(), "XGMI");
    assert_eq!([host.links_between(0, 1), host.links_between(0, 2)], [1, 0]);
    assert_eq!(
        [host.gpus[0].numa, host.gpus[1].numa, host.gpus[2].numa],
        [Some(0), None, Some(3)]
    );
    let text = "LINK TYPE TABLE:
             0000:0c:00.0 0000:22:00.0
0000:0c:00.0 SELF         XGMI
0000:22:00.0 XGMI         SELF
NUMA BW TABLE:
";
    let host = read(InventoryFormat::AmdSmi, text);
    assert_eq!(
        host.gpus[1].pci.map(|pci| pci.to_string()).as_deref(),
        Some("0000:22:00.0")
    );
    assert_eq!(host.links_between(0, 1), 1);
    let cases = [
        (ROCM.replace("Link Type", "Link"), "no table of link types"),
        (ROCM.replace("PCIE", "WIFI"), "`WIFI` as a type of link"),
        (
            ROCM.replace("GPU2   XGMI         PCIE         0", ""),
            "expected `GPU2`",
        ),
        (
            ROCM.replace("PCIE         0", "PCIE"),
            "row `GPU2` has 2 cells: expected 3",
        ),
    ];
    for (text, reason) in cases {
        let error = refused(InventoryFormat::AmdSmi, &text);
        assert!(error.to_string().contains(reason), "{error}");
    }
}
