//! Tests of hwloc's matrix of NVLinks.

use rsm_gdr::import::{ImportReason, InventoryFormat};

use crate::import::{read, refused};

/// hwloc's export of two GPUs whose NVLink matrix has `objects` objects; the first two objects are
/// the GPUs, joined by three links of 25 GB/s.
fn nvlink_matrix(objects: usize) -> String {
    let gpus: String = (1..=2)
        .map(|number| {
            format!(
                "<object type=\"PCIDev\" gp_index=\"{number}\" pci_busid=\"0000:0{number}:00.0\" \
                 pci_type=\"0302 [10de:2330] [0000:0000] 00 00\"/>"
            )
        })
        .collect();
    let indexes: Vec<String> = (1..=objects).map(|number| number.to_string()).collect();
    let value = |at: usize| match (at / objects, at % objects) {
        (0, 1) | (1, 0) => "75000",
        _ => "0",
    };
    let values: Vec<&str> = (0..objects * objects).map(value).collect();
    format!(
        "<topology version=\"2.0\"><object type=\"Machine\">{gpus}</object>\
         <distances2 name=\"NVLinkBandwidth\"><indexes>{}</indexes><u64values>{}</u64values>\
         </distances2></topology>",
        indexes.join(" "),
        values.join(" ")
    )
}

#[test]
fn nvlink_matrix_of_more_than_256_objects_is_refused() {
    let host = read(InventoryFormat::Hwloc, &nvlink_matrix(256));
    assert_eq!(host.links_between(0, 1), 3);
    let error = refused(InventoryFormat::Hwloc, &nvlink_matrix(257));
    assert!(
        matches!(error.reason, ImportReason::TooMany { limit: 256, .. }),
        "{error}"
    );
}
