//! Tests of importers with unusual, broken and hostile files.

use proptest::prelude::*;
use rsm_gdr::import::{
    ImportError, ImportReason, InventoryFormat, MAX_BYTES, hosts_of_stream, import,
};
use rsm_gdr::inventory::{HostInventory, InventoryError, LinkLayer, LinkShape, Tier};
use rsm_ids::Guid;

/// The inventory in `text`, which must be valid.
pub(crate) fn read(format: InventoryFormat, text: &str) -> HostInventory {
    import(format, text.as_bytes()).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// The error for `text`, which must not be valid.
pub(crate) fn refused(format: InventoryFormat, text: &str) -> ImportError {
    import(format, text.as_bytes()).expect_err(text)
}

const MATRIX: &str =
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
    let rows: String = MATRIX
        .replace("\x1b[4m", "")
        .replace("\x1b[0m", "")
        .split_inclusive('\n')
        .take(5)
        .map(|line| format!("| {} |\n", line.trim_end().replace('\t', " | ")))
        .collect();
    let rows = rows.replacen(" |\n", " |\n|---|:---:|---|---|---|---|---|---|\n", 1);
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

const ROCM: &str = "
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

#[test]
fn formats_are_detected_by_content() {
    let cases = [
        (MATRIX, InventoryFormat::NvidiaSmi),
        (ROCM, InventoryFormat::AmdSmi),
        (TOPOLOGY, InventoryFormat::NcclXml),
        ("<?xml version=\"1.0\"?><topology/>", InventoryFormat::Hwloc),
        (SYSFS, InventoryFormat::Sysfs),
        ("{\"version\": 1}", InventoryFormat::Json),
    ];
    for (text, format) in cases {
        assert_eq!(InventoryFormat::detect(text.as_bytes()), format, "{text}");
    }
}

#[test]
fn adapters_of_virtual_machines_and_data_direct_are_read() {
    let with = |from: &str, to: &str| read(InventoryFormat::NcclXml, &TOPOLOGY.replace(from, to));
    // A virtual machine shows another class, a partial file none: neither means Ethernet.
    for class in ["class=\"0x028000\"", ""] {
        let host = with("class=\"0x020700\"", class);
        assert_eq!(host.hca_ports[0].link_layer, None);
        assert_eq!(host.tier(1, 0), Some(Tier::Pix));
    }
    let bridge = with("class=\"0x060400\"", "");
    assert_eq!(bridge.tier(1, 0), Some(Tier::Pix));
    let socket = "<nic><net name=\"ib0\" dev=\"1\" port=\"0\" guid=\"0x1\"/></nic>\n      </pci>";
    let host = with(
        "guid=\"0x48b9170003a1420c\" gdr=\"1\"/></nic>\n      </pci>",
        &format!("guid=\"0x48b9170003a1420c\" gdr=\"1\"/></nic>\n{socket}"),
    );
    assert_eq!(host.hca_ports.len(), 1);
    // The adapter itself is at the other processor; GPUDirect uses the function near GPU 1.
    let both = with("arch=\"arm64\">\n    <pci busid=\"0000:81", "arch=\"arm64\">
    <pci busid=\"0000:91:00.0\" class=\"0x020700\">
      <nic><net name=\"mlx5_0\" dev=\"1\" speed=\"400000\" port=\"1\" guid=\"0x48b9170003a1420c\" gdr=\"0\"/></nic>
    </pci>
    <pci busid=\"0000:81");
    let [port] = &both.hca_ports[..] else {
        panic!("{:?}", both.hca_ports);
    };
    assert!(port.data_direct);
    assert_eq!(port.gdr, Some(true));
    assert_eq!(
        port.pci.map(|pci| pci.to_string()).as_deref(),
        Some("0000:91:00.0")
    );
    assert_eq!(
        [both.tier(0, 0), both.tier(1, 0)],
        [Some(Tier::Sys), Some(Tier::Pix)]
    );
}

const TOPOLOGY: &str = r#"<system version="1">
  <cpu numaid="0" arch="arm64">
    <pci busid="0000:01:00.0" class="0x060400" link_speed="" link_width="0">
      <pci busid="0000:02:00.0" class="0x030200" link_speed="" link_width="0">
        <gpu dev="1" sm="100" rank="1" gdr="1">
          <nvlink target="fffffff:ff:ff.0" count="18" tclass="0x068000"/>
          <c2c bw="40000" count="1"/>
        </gpu>
      </pci>
      <pci busid="0000:03:00.0" class="0x020700" link_speed="" link_width="0">
        <nic><net name="mlx5_0_dma" dev="0" speed="400000" port="1" guid="0x48b9170003a1420c" gdr="1"/></nic>
      </pci>
    </pci>
  </cpu>
  <cpu numaid="1" arch="arm64">
    <pci busid="0000:81:00.0" class="0x030200" link_speed="" link_width="0">
      <gpu dev="0" sm="100" rank="0" gdr="1">
        <nvlink target="fffffff:ff:ff.0" count="17" tclass="0x068000"/>
      </gpu>
    </pci>
  </cpu>
</system>
"#;

#[test]
fn links_to_nvswitches_c2c_and_data_direct_are_read() {
    let host = read(InventoryFormat::NcclXml, TOPOLOGY);
    assert_eq!(
        host.gpus[0].pci.map(|pci| pci.to_string()).as_deref(),
        Some("0000:81:00.0")
    );
    assert_eq!(
        [host.gpus[0].switch_links, host.gpus[1].switch_links],
        [Some(17), Some(18)]
    );
    assert_eq!(host.links_between(0, 1), 17);
    assert_eq!(
        [host.gpus[0].c2c_gbytes, host.gpus[1].c2c_gbytes],
        [None, Some(40)]
    );
    let port = &host.hca_ports[0];
    assert_eq!(
        (port.device.as_deref(), port.data_direct),
        (Some("mlx5_0"), true)
    );
    assert_eq!(
        (port.gbps, port.link_layer),
        (Some(400), Some(LinkLayer::InfiniBand))
    );
    // The bytes of the system image GUID are in the host's order.
    assert_eq!(port.system_image_guid, Some(Guid(0x0c42_a103_0017_b948)));
    assert_eq!(
        [host.tier(0, 0), host.tier(1, 0)],
        [Some(Tier::Sys), Some(Tier::Pix)]
    );
    assert_eq!(host.link_family.to_string(), "NVLink 5");
}

#[test]
fn declarations_and_entities_are_never_processed() {
    let bomb = format!("<!DOCTYPE system [<!ENTITY a \"aaaa\">]>\n{TOPOLOGY}");
    assert_eq!(
        refused(InventoryFormat::NcclXml, &bomb).reason,
        ImportReason::DocumentType
    );
    let external = format!("<!DOCTYPE system SYSTEM \"file:///etc/passwd\">\n{TOPOLOGY}");
    assert_eq!(
        read(InventoryFormat::NcclXml, &external),
        read(InventoryFormat::NcclXml, TOPOLOGY)
    );
    let entity = TOPOLOGY.replace("mlx5_0_dma", "&a;");
    assert!(matches!(
        refused(InventoryFormat::NcclXml, &entity).reason,
        ImportReason::Xml(_)
    ));
    let text = TOPOLOGY.replace("<c2c ", "&a;<c2c ");
    assert!(matches!(
        refused(InventoryFormat::NcclXml, &text).reason,
        ImportReason::Xml(_)
    ));
}

#[test]
fn a_bad_topology_is_refused_with_its_line() {
    let deep = format!("<system>{}", "<pci>".repeat(1000));
    let wide = format!("<system>{}</system>", "<cpu/>".repeat(200_000));
    let many = format!(
        "<system>{}</system>",
        (0..5000)
            .map(|bus| format!("<pci busid=\"{bus:x}:00:00.0\" class=\"0x030200\"/>"))
            .collect::<String>()
    );
    let cases = [
        ("", "root element `nothing`"),
        ("<graphs/>", "expected `system`"),
        ("<system>", "is not closed"),
        ("<system></cpu>", "not well-formed"),
        ("<system/><system/>", "a second root element"),
        (&deep, "levels of elements"),
        (&wide, "elements"),
        (&many, "5000 GPUs; at most 64"),
        ("<system/>", "neither a GPU nor"),
        (
            "<system><cpu><pci busid=\"x\" class=\"0x030200\"/></cpu></system>",
            "`x` as a PCI address",
        ),
        (
            "<system><cpu><pci class=\"0x030200\"/></cpu></system>",
            "`pci` without `busid`",
        ),
        (
            &TOPOLOGY.replace("guid=\"0x48b9170003a1420c\"", "guid=\"zz\""),
            "`zz` as a GUID",
        ),
        (
            &TOPOLOGY.replace("dev=\"1\"", "dev=\"0\""),
            "GPU0 is there twice",
        ),
    ];
    for (text, reason) in cases {
        let error = refused(InventoryFormat::NcclXml, text);
        let shown: String = text.chars().take(60).collect();
        assert!(error.to_string().contains(reason), "{shown}: {error}");
    }
    let line = refused(
        InventoryFormat::NcclXml,
        &TOPOLOGY.replace("speed=\"400000\"", "speed=\"fast\""),
    )
    .line;
    assert_eq!(line, 11);
}

const SYSFS: &str = "# a snapshot
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
fn json_with_unknown_or_invalid_members_is_refused() {
    let text = r#"{"version":1,"gpus":[{"index":0}],"hca_ports":[{"device":"mlx5_0","port":1}],"tiers":[["PIX"]]}"#;
    assert_eq!(
        read(InventoryFormat::Json, text).tier(0, 0),
        Some(Tier::Pix)
    );
    for (from, to, reason) in [
        ("\"version\":1", "\"version\":2", "version 2: expected 1"),
        (
            "\"tiers\"",
            "\"teirs\"",
            "beside host.teirs, which is not known",
        ),
        ("[[\"PIX\"]]", "[]", "a row for each GPU"),
        ("[[\"PIX\"]]", "[[\"NEAR\"]]", "`NEAR` as a PCIe tier"),
        ("\"port\":1", "\"port\":0", "port number 0"),
        ("mlx5_0", "mlx5 0", "name `mlx5 0`"),
    ] {
        let error = refused(InventoryFormat::Json, &text.replacen(from, to, 1));
        assert!(error.to_string().contains(reason), "{error}");
    }
    let links = r#","links":{"family":"NVLink","pairs":[[0,1,4]]}}"#;
    let error = refused(
        InventoryFormat::Json,
        &text.replacen("]]}", &format!("]]{links}"), 1),
    );
    assert!(error.to_string().contains("ends of a link"), "{error}");
}

#[test]
fn files_beyond_every_bound_are_refused() {
    let long = vec![b' '; MAX_BYTES + 1];
    for format in InventoryFormat::ALL {
        assert!(matches!(
            import(format, &long),
            Err(ImportError {
                reason: ImportReason::TooLong(_),
                ..
            })
        ));
        let error = import(format, b"ok\n\xff").expect_err("not text");
        assert_eq!((error.line, error.reason), (2, ImportReason::NotUtf8));
        assert_eq!(format.name().parse(), Ok(format));
    }
    let columns: String = (0..200).map(|gpu| format!(" GPU{gpu}")).collect();
    assert!(matches!(
        refused(InventoryFormat::NvidiaSmi, &columns).reason,
        ImportReason::TooMany { .. }
    ));
    let empty = refused(InventoryFormat::Json, r#"{"version":1}"#);
    assert_eq!(empty.reason, ImportReason::Inventory(InventoryError::Empty));
}

proptest! {
    #[test]
    fn no_bytes_make_an_importer_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        for format in InventoryFormat::ALL {
            if let Ok(host) = import(format, &bytes) {
                prop_assert!(host.check().is_ok());
            }
        }
    }

    #[test]
    fn no_damage_to_a_file_makes_an_importer_panic(
        which in 0..3usize,
        cuts in prop::collection::vec((any::<prop::sample::Index>(), 0..12usize, ".{0,6}"), 1..6),
    ) {
        let (format, text) = [
            (InventoryFormat::NvidiaSmi, MATRIX),
            (InventoryFormat::NcclXml, TOPOLOGY),
            (InventoryFormat::Sysfs, SYSFS),
        ][which];
        let mut chars: Vec<char> = text.chars().collect();
        for (at, length, new) in cuts {
            let start = at.index(chars.len());
            let end = (start + length).min(chars.len());
            chars.splice(start..end, new.chars());
            if chars.is_empty() {
                break;
            }
        }
        let damaged: String = chars.into_iter().collect();
        if let Ok(host) = import(format, damaged.as_bytes()) {
            prop_assert!(host.check().is_ok());
        }
    }
}
