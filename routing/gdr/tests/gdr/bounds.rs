//! Tests of the time of imports: files of the maximum size, which an importer that compares all
//! parts with each other would read in quadratic time.

use std::time::{Duration, Instant};

use rsm_gdr::import::{InventoryFormat, MAX_BYTES, import};

/// The time limit of an import: far above the time of one pass over the file, and far below the
/// time of one pass for each part.
const LIMIT: Duration = Duration::from_secs(20);

/// Imports a file, and asserts that this takes less than [`LIMIT`].
#[expect(
    clippy::disallowed_methods,
    reason = "the time is that of the importer"
)]
fn within_limit(what: &str, format: InventoryFormat, text: &str) {
    assert!(text.len() <= MAX_BYTES, "{what}: {} bytes", text.len());
    let begun = Instant::now();
    // Whether the importer accepts the file does not matter.
    let read = import(format, text.as_bytes()).map(|host| host.hca_ports.len());
    let took = begun.elapsed();
    assert!(took < LIMIT, "{what}: {took:?}, {read:?}");
}

#[test]
fn matrix_with_a_long_header_or_many_lines_is_read_in_time() {
    let half = MAX_BYTES / 2 - 16;
    let header = format!("a: {}\n", "GPU0 ".repeat(half / 5));
    let lines = "b: x\n".repeat(half / 5);
    within_limit("header", InventoryFormat::NvidiaSmi, &(header + &lines));
    // Many columns, each of which is compared with the first word of every line.
    let columns: String = (0..600).map(|gpu| format!("GPU{gpu} ")).collect();
    let header = format!("a: {columns}\n");
    let lines = "b: x\n".repeat((MAX_BYTES - header.len()) / 5);
    within_limit("lines", InventoryFormat::NvidiaSmi, &(header + &lines));
}

/// The number of XML elements, near the maximum of a document.
const ELEMENTS: usize = 99_000;

#[test]
fn adapter_with_as_many_ports_as_elements_is_read_in_time() {
    let infos: String = (0..ELEMENTS)
        .map(|at| match at % 3 {
            0 => format!("<info name=\"Port{}State\" value=\"4\"/>", at / 3 % 200),
            1 => format!("<info name=\"Port{}LID\" value=\"0x1\"/>", at / 3 % 200),
            _ => format!("<info name=\"Other{at}\" value=\"\"/>"),
        })
        .collect();
    let text = format!(
        "<topology version=\"2.0\"><object type=\"Machine\"><object type=\"PCIDev\" \
         pci_busid=\"0000:01:00.0\" pci_type=\"0207 [15b3:1021] [0000:0000] 00 00\">\
         <object type=\"OSDev\" osdev_type=\"3\" name=\"mlx5_0\">{infos}</object></object>\
         </object></topology>"
    );
    within_limit("ports", InventoryFormat::Hwloc, &text);
}

#[test]
fn adapter_with_as_many_interfaces_as_elements_is_read_in_time() {
    let nets = |name: &dyn Fn(usize) -> String| -> String {
        let net = |at| format!("<net name=\"{}\" dev=\"0\"/>", name(at));
        (0..ELEMENTS).map(net).collect()
    };
    let document = |nets: &str| {
        format!(
            "<system version=\"1\"><cpu numaid=\"0\"><pci busid=\"0000:01:00.0\">\
             <nic>{nets}</nic></pci></cpu></system>"
        )
    };
    let plain = document(&nets(&|at| format!("m{at}")));
    within_limit("interfaces", InventoryFormat::NcclXml, &plain);
    let direct = document(&nets(&|at| match at % 2 {
        0 => format!("m{at}"),
        _ => format!("n{at}_dma"),
    }));
    within_limit("Data Direct", InventoryFormat::NcclXml, &direct);
}
