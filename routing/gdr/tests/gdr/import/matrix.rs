//! Tests of matrices of `nvidia-smi`, from terminals, parallel shells and editors.

use rsm_gdr::import::{ImportReason, InventoryFormat, hosts_of_stream, import};
use rsm_gdr::inventory::{LinkShape, Tier};

use super::{read, refused};

pub(super) const MATRIX: &str =
    "\t\x1b[4mGPU0\tGPU1\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m
GPU0\t X \tNV18\tPIX\tNODE\t4,6,8\t0\t\tN/A
GPU1\tNV18\t X \tNODE\tPXB\t4,6,8\t1\t\tN/A
NIC0\tPIX\tNODE\t X \tNODE\t\t\t\t
NIC1\tNODE\tPXB\tNODE\t X \t\t\t\t

Legend:

  X    = Self

NIC Legend:

  NIC0: mlx5_3
  NIC1: mlx5_0
";

#[test]
fn a_matrix_copied_from_a_terminal_is_read() {
    let host = read(InventoryFormat::NvidiaSmi, MATRIX);
    let devices: Vec<_> = host
        .hca_ports
        .iter()
        .map(|port| port.device.as_deref())
        .collect();
    assert_eq!(devices, [Some("mlx5_3"), Some("mlx5_0")]);
    assert_eq!(host.tier(0, 0), Some(Tier::Pix));
    assert_eq!(host.tier(1, 1), Some(Tier::Pxb));
    assert_eq!(host.links_between(1, 0), 18);
    assert_eq!([host.gpus[0].numa, host.gpus[1].numa], [Some(0), Some(1)]);
    let pasted = MATRIX
        .replace('\t', " | ")
        .replace("\x1b[4m", "")
        .replace("\x1b[0m", "");
    assert_eq!(read(InventoryFormat::NvidiaSmi, &pasted), host);
    assert_eq!(
        read(InventoryFormat::NvidiaSmi, &MATRIX.replace('\n', "\r\n")),
        host
    );
}

#[test]
fn column_names_without_a_separator_are_split_or_refused_with_a_row() {
    let host = read(InventoryFormat::NvidiaSmi, MATRIX);
    let fused = MATRIX.replace("NIC0\tNIC1\tCPU", "NIC0NIC1\tCPU");
    assert_eq!(read(InventoryFormat::NvidiaSmi, &fused), host);
    // The end of the first of these two names is ambiguous.
    let named = "\tGPU0\tibp26s0ibp45s0\tCPU Affinity\nGPU0\tX\tSYS\tPIX\t0-31\n\
                 ibp26s0\tSYS\tX\tSYS\nibp45s0\tPIX\tSYS\tX\n";
    let error = refused(InventoryFormat::NvidiaSmi, named);
    let cells = ImportReason::Cells {
        row: "GPU0".to_owned(),
        found: 3,
        expected: 2,
    };
    assert_eq!((error.line, error.reason), (2, cells));
}

#[test]
fn second_matrix_of_a_file_is_refused_with_its_line() {
    let both = [MATRIX, MATRIX].concat();
    let error = refused(InventoryFormat::NvidiaSmi, &both);
    let second = MATRIX.lines().count() as u32 + 1;
    assert_eq!(
        (error.line, error.reason),
        (second, ImportReason::SecondMatrix)
    );
}

#[test]
fn output_of_another_vendors_tool_is_refused_and_the_tool_is_named() {
    let threads = MATRIX
        .replace("NV18", "MT2")
        .replace("X    = Self", "MT#  = MTLink");
    let error = refused(InventoryFormat::NvidiaSmi, &threads);
    assert_eq!(error.line, 2);
    let text = error.to_string();
    assert!(text.contains("cell `MT2` in column `GPU1`"), "{text}");
    assert!(text.contains("Moore Threads' mthreads-gmi"), "{text}");
    for (word, tool) in [
        ("mthreads-gmi", "Moore Threads"),
        ("npu-smi", "Huawei"),
        ("xpu-smi", "Intel's xpu-smi"),
        ("hl-smi", "Intel's hl-smi"),
        ("mx-smi", "MetaX"),
        ("ixsmi", "Iluvatar"),
        ("cnmon", "Cambricon"),
        ("amd-smi", "AMD"),
    ] {
        let output = format!("{word} 1.2.3\nGPU0 GPU1 NIC0\n");
        let text = refused(InventoryFormat::NvidiaSmi, &output).to_string();
        assert!(text.contains(tool), "{text}");
    }
    let amd = "============ ROCm System Management Interface ============\n0  N/A\n";
    let text = refused(InventoryFormat::NvidiaSmi, amd).to_string();
    assert!(text.contains("`rocm-smi --showtopo`"), "{text}");
}

#[test]
fn output_of_a_parallel_shell_is_split_into_one_text_for_each_host() {
    let mut stream = String::new();
    let lines: Vec<&str> = MATRIX.lines().collect();
    // The lines of the two hosts alternate.
    for line in &lines {
        stream += &format!("node02: {line}\nnode01.example.com: {line}\n");
    }
    stream += "pdsh@admin: node03: ssh exited with exit code 255\n";
    stream += "clush: node02: exited with exit code 9\nclush: node04: exited with exit code 255\n";
    let stream_of = hosts_of_stream(stream.as_bytes())
        .expect("a stream")
        .expect("hosts");
    let hosts = stream_of.hosts;
    let names: Vec<&str> = hosts.keys().map(String::as_str).collect();
    assert_eq!(names, ["node01.example.com", "node02"]);
    let host = read(InventoryFormat::NvidiaSmi, MATRIX);
    for text in hosts.values() {
        assert_eq!(read(InventoryFormat::NvidiaSmi, text), host);
    }
    // Hosts that printed nothing are returned with the shell's reason.
    let silent: Vec<(&str, &str)> = stream_of
        .silent
        .iter()
        .map(|(host, reason)| (host.as_str(), reason.as_str()))
        .collect();
    let expected = [
        ("node03", "ssh exited with exit code 255"),
        ("node04", "exited with exit code 255"),
    ];
    assert_eq!(silent, expected);
    // The matrix of one host is not the output of a parallel shell.
    assert_eq!(hosts_of_stream(MATRIX.as_bytes()), Ok(None));
    let cut = stream.replace("node02: NIC1\t", "NIC1\t");
    let error = hosts_of_stream(cut.as_bytes()).expect_err("a line without a name");
    assert_eq!((error.line, error.reason), (9, ImportReason::NoHostName));
}

#[test]
fn output_of_an_old_driver_with_soc_and_joined_column_names_is_read() {
    let text = "\tGPU0\tGPU1mlx5_0\tCPU Affinity
GPU0\t X \tSOC\tPHB\t0-19
GPU1\tSOC\t X \tSOC\t20-39
mlx5_0\tPHB\tSOC\t X \t
";
    let host = read(InventoryFormat::NvidiaSmi, text);
    assert_eq!(host.tier(0, 0), Some(Tier::Phb));
    assert_eq!(host.tier(1, 0), Some(Tier::Sys));
    assert_eq!(host.link_shape(), LinkShape::None);
    assert!(!host.nvlinks_known);
}

#[test]
fn a_matrix_without_links_is_completed_by_one_with_them() {
    // The legend of the constant has no line about NVLinks, like the legend of `-mp`.
    let pci = MATRIX.replace("NV18", "PXB");
    let mut host = read(InventoryFormat::NvidiaSmi, &pci);
    assert!(!host.nvlinks_known);
    assert_eq!(host.merge(&read(InventoryFormat::NvidiaSmi, MATRIX)), []);
    assert_eq!(host.links_between(0, 1), 18);
    let other = read(InventoryFormat::NvidiaSmi, &MATRIX.replace("PIX", "SYS"));
    let conflicts = host.merge(&other);
    assert_eq!(conflicts.len(), 1);
    assert_eq!(
        (conflicts[0].kept.as_str(), conflicts[0].other.as_str()),
        ("PIX", "SYS")
    );
}

#[test]
fn a_bad_matrix_is_refused_with_its_line() {
    let cases = [
        ("", 1, "the file is empty"),
        (" \n\n", 2, "the file is empty"),
        ("GPU0 X\n", 1, "no header row"),
        (
            "\tGPU0\tGPU1\tNIC0\nGPU0\t X \tNV18\n",
            2,
            "row `GPU0` has 2 cells: expected 3",
        ),
        (
            "\tGPU0\tGPU1\tNIC0\nGPU0\t X \tNV18\tPIX\n",
            2,
            "the matrix ends here: expected the row `GPU1`",
        ),
        (
            &MATRIX.replace("PXB", "PXC"),
            3,
            "cell `PXC` in column `NIC1`",
        ),
        (
            &MATRIX.replace("NIC0\tPIX", "NIC0\tSYS"),
            4,
            "`NIC0` to `GPU0` is `SYS`",
        ),
        (
            &MATRIX.replace("GPU1\tNV18", "GPU2\tNV18"),
            3,
            "row `GPU2`: expected `GPU1`",
        ),
        (
            &MATRIX
                .replace("X \tNV18\tPIX\tNODE\t4,6,8\t0\t\tN/A", "X \tNV18\tPIX")
                .replace("NIC1\tNODE\tPXB\tNODE\t X ", "NIC1"),
            5,
            "row `NIC1` has 0 cells: expected 4",
        ),
        (
            MATRIX.split("NIC Legend").next().unwrap_or_default(),
            10,
            "no line `NIC0: …` in the legend",
        ),
        (
            &MATRIX.replace("NV18\tPIX\tNODE", "NV18PIXNODESYS"),
            2,
            "has 5 cells: expected 4",
        ),
        (
            &MATRIX.replace("NV18\t X ", "NV18\tPIX"),
            3,
            "`GPU1` to `GPU1` is `PIX`",
        ),
        (
            &MATRIX.replace("NIC1: mlx5_0", "NIC1: mlx5_3"),
            14,
            "`mlx5_3` is there twice",
        ),
        (
            &MATRIX.replace("NIC1: mlx5_0", "NIC1: a;b"),
            14,
            "name `a;b`",
        ),
    ];
    for (text, line, reason) in cases {
        let error = refused(InventoryFormat::NvidiaSmi, text);
        assert_eq!(error.line, line, "{error}\n{text}");
        assert!(error.to_string().contains(reason), "{error}");
    }
}

#[test]
fn rows_of_adapters_may_be_cut_or_missing() {
    let host = read(InventoryFormat::NvidiaSmi, MATRIX);
    let cut = MATRIX.replace("NIC1\tNODE\tPXB\tNODE\t X ", "NIC1\tNODE");
    assert_eq!(read(InventoryFormat::NvidiaSmi, &cut), host);
    let missing: String = MATRIX
        .split_inclusive('\n')
        .filter(|line| !line.starts_with("NIC"))
        .collect();
    let missing = format!("{missing}\nNIC Legend:\n  NIC0: mlx5_3\n  NIC1: mlx5_0\n");
    assert_eq!(read(InventoryFormat::NvidiaSmi, &missing), host);
}

#[test]
fn cells_without_separators_are_split() {
    let host = read(InventoryFormat::NvidiaSmi, MATRIX);
    let fused = MATRIX
        .replace("NV18\tPIX\tNODE\t4,6,8", "NV18PIXNODE4,6,8")
        .replace("NIC1\tNODE\tPXB\tNODE", "NIC1\tNODEPXBNODE");
    assert_eq!(read(InventoryFormat::NvidiaSmi, &fused), host);
}

#[test]
fn a_markdown_table_is_read() {
    let rows = MATRIX
        .replace("\x1b[4m", "")
        .replace("\x1b[0m", "")
        .split_inclusive('\n')
        .take(5)
        .map(|line| format!("| {} |\n", line.trim_end().replace('\t', " | ")))
        .collect::<String>()
        .replacen(" |\n", " |\n|---|:---:|---|---|---|---|---|---|\n", 1);
    let text = rows.replace("| GPU1 ", "| **GPU1** ") + "NIC0: mlx5_3\nNIC1: mlx5_0\n";
    let host = read(InventoryFormat::NvidiaSmi, MATRIX);
    assert_eq!(read(InventoryFormat::NvidiaSmi, &text), host);
}

#[test]
fn lines_of_a_parallel_shell_are_read_for_one_host_only() {
    let tagged = |host: &str| -> String {
        MATRIX
            .split_inclusive('\n')
            .map(|line| format!("{host}: {line}"))
            .collect()
    };
    let text = format!(
        "pdsh@mgmt: node02: ssh exited with exit code 255\n{}",
        tagged("node01")
    );
    let host = read(InventoryFormat::NvidiaSmi, MATRIX);
    assert_eq!(read(InventoryFormat::NvidiaSmi, &text), host);
    let error = refused(
        InventoryFormat::NvidiaSmi,
        &(tagged("node01") + &tagged("node02")),
    );
    let lines = MATRIX.lines().count() as u32;
    assert_eq!(error.line, lines + 1, "{error}");
    assert!(
        error
            .to_string()
            .contains("a row of `node02:` among those of `node01:`"),
        "{error}"
    );
}

#[test]
fn utf_16_with_a_byte_order_mark_is_read() {
    let host = read(InventoryFormat::NvidiaSmi, MATRIX);
    let units = std::iter::once(0xfeff).chain(MATRIX.encode_utf16());
    let little: Vec<u8> = units.clone().flat_map(u16::to_le_bytes).collect();
    let big: Vec<u8> = units.flat_map(u16::to_be_bytes).collect();
    assert_eq!(
        import(InventoryFormat::NvidiaSmi, &little),
        Ok(host.clone())
    );
    assert_eq!(import(InventoryFormat::NvidiaSmi, &big), Ok(host));
    let half = &little[..little.len() - 1];
    let error = import(InventoryFormat::NvidiaSmi, half).expect_err("half a character");
    assert_eq!(error.reason, ImportReason::NotUtf16);
}

#[test]
fn a_list_of_numa_nodes_gives_its_single_first_node_and_a_range_gives_none() {
    let text = MATRIX
        .replace("4,6,8\t0", "4,6,8\t0,3-9")
        .replace("4,6,8\t1", "4,6,8\t6-7");
    let host = read(InventoryFormat::NvidiaSmi, &text);
    assert_eq!([host.gpus[0].numa, host.gpus[1].numa], [Some(0), None]);
}
