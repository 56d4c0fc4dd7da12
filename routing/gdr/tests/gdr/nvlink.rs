//! Tests of hwloc's matrix of NVLinks.

use rsm_gdr::import::{ImportReason, InventoryFormat};
use rsm_gdr::inventory::LinkShape;

use crate::import::{read, refused};

/// PCI device numbers of a V100, an A100, an H100, a B200 and a B300.
const V100: &str = "1db5";
const A100: &str = "20b2";
const H100: &str = "2330";
const B200: &str = "2901";
const B300: &str = "3182";

/// hwloc's export of two GPUs with this PCI device number, whose NVLink matrix has `objects`
/// objects, the two GPUs first. `value` states the bandwidth between two objects in MB/s; hwloc
/// writes 1 TB/s for an object and itself.
fn export(model: &str, objects: usize, value: impl Fn(usize, usize) -> u64) -> String {
    let gpus: String = (1..=2)
        .map(|number| {
            format!(
                "<object type=\"PCIDev\" gp_index=\"{number}\" pci_busid=\"0000:0{number}:00.0\" \
                 pci_type=\"0302 [10de:{model}] [0000:0000] 00 00\"/>"
            )
        })
        .collect();
    let indexes: Vec<String> = (1..=objects).map(|number| number.to_string()).collect();
    let value = |at: usize| match (at / objects, at % objects) {
        (row, column) if row == column => 1_000_000,
        (row, column) => value(row.min(column), row.max(column)),
    };
    let values: Vec<String> = (0..objects * objects)
        .map(|at| value(at).to_string())
        .collect();
    format!(
        "<topology version=\"2.0\"><object type=\"Machine\">{gpus}</object>\n\
         <distances2 name=\"NVLinkBandwidth\"><indexes>{}</indexes><u64values>{}</u64values>\
         </distances2></topology>",
        indexes.join(" "),
        values.join(" ")
    )
}

/// An export of two GPUs joined directly with this bandwidth.
fn joined(model: &str, objects: usize, mbytes: u64) -> String {
    export(model, objects, |a, b| match (a, b) {
        (0, 1) => mbytes,
        _ => 0,
    })
}

/// An export of two GPUs with these bandwidths to each of as many NVSwitches.
fn switched(model: &str, mbytes: &[u64]) -> String {
    export(model, 2 + mbytes.len(), |a, b| match (a, b) {
        (0 | 1, switch) if switch > 1 => mbytes[switch - 2],
        _ => 0,
    })
}

#[test]
fn nvlink_matrix_of_more_than_256_objects_is_refused() {
    let host = read(InventoryFormat::Hwloc, &joined(H100, 256, 75_000));
    assert_eq!(host.links_between(0, 1), 3);
    let error = refused(InventoryFormat::Hwloc, &joined(H100, 257, 75_000));
    assert!(
        matches!(error.reason, ImportReason::TooMany { limit: 256, .. }),
        "{error}"
    );
}

#[test]
fn links_are_counted_where_all_sums_of_their_bandwidths_are_even() {
    // hwloc adds the links of a GPU to each other object: 25 GB/s each up to H100, 50 GB/s since.
    let cases = [
        ("DGX-2", V100, vec![25_000; 6], 6),
        ("DGX A100", A100, vec![50_000; 6], 12),
        ("DGX A100 by hwloc 2.9.0", A100, vec![100_000; 6], 12),
        (
            "HGX H100",
            H100,
            vec![125_000, 100_000, 100_000, 125_000],
            18,
        ),
        ("HGX H100 with even sums", H100, vec![100_000; 4], 16),
        ("HGX B200", B200, vec![450_000; 2], 18),
        ("HGX B200 with half of the links", B200, vec![200_000; 2], 8),
        ("HGX B300", B300, vec![450_000; 2], 18),
        ("A GPU of an unknown number", "ffff", vec![450_000; 2], 18),
    ];
    for (machine, model, mbytes, links) in cases {
        let host = read(InventoryFormat::Hwloc, &switched(model, &mbytes));
        assert_eq!(host.links_between(0, 1), links, "{machine}");
        assert_eq!(
            host.link_shape(),
            LinkShape::Switched { links },
            "{machine}"
        );
    }
    for (model, mbytes, links) in [
        (V100, 50_000, 2),
        (V100, 150_000, 6),
        (H100, 150_000, 6),
        (B200, 300_000, 6),
        (A100, 300_000, 12),
        ("15f9", 20_000, 1),
        ("15f9", 80_000, 4),
    ] {
        let host = read(InventoryFormat::Hwloc, &joined(model, 2, mbytes));
        assert_eq!(host.links_between(0, 1), links, "{model} {mbytes}");
    }
}

#[test]
fn bandwidth_that_is_no_number_of_links_is_refused_with_its_line() {
    for mbytes in [30_000, 25_001, 64 * 50_000] {
        let error = refused(InventoryFormat::Hwloc, &joined(H100, 2, mbytes));
        assert_eq!(error.line, 2, "{error}");
        assert!(
            error.to_string().contains(&format!("`{mbytes}`")),
            "{error}"
        );
    }
}
