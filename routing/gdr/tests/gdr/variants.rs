//! Tests of every sample in the forms in which terminals, shells, editors and other versions of
//! drivers leave it.

use rsm_gdr::import::{InventoryFormat, import};
use rsm_gdr::inventory::{HostInventory, LinkLayer};

use crate::samples::{every_file, samples};

/// The parts of a matrix.
struct Matrix {
    /// The names of the columns.
    columns: Vec<String>,
    /// The words of the header after the names of the columns.
    titles: String,
    /// Each row: its label, its cells, and the words after the cells.
    rows: Vec<(String, Vec<String>, Vec<String>)>,
    /// The lines after the matrix.
    rest: String,
}

impl Matrix {
    /// Reads the matrix in the output of `nvidia-smi topo -m`.
    fn of(text: &str) -> Matrix {
        let mut lines = text.lines();
        let header = lines
            .by_ref()
            .find(|line| line.trim_start().starts_with("GPU0"))
            .expect("a header");
        let words = || header.split_whitespace().map(str::to_owned);
        let columns: Vec<String> = words().take_while(|word| word != "CPU").collect();
        let titles: Vec<String> = words().skip(columns.len()).collect();
        let mut matrix = Matrix {
            titles: titles.join(" "),
            columns,
            rows: Vec::new(),
            rest: String::new(),
        };
        for line in lines {
            let mut words = line.split_whitespace().map(str::to_owned);
            let label = words.next().unwrap_or_default();
            let is_row = matrix.columns.get(matrix.rows.len()) == Some(&label);
            if is_row {
                let cells = words.by_ref().take(matrix.columns.len()).collect();
                matrix.rows.push((label, cells, words.collect()));
            } else {
                matrix.rest += line;
                matrix.rest.push('\n');
            }
        }
        matrix
    }

    /// The matrix with rows made by `row`.
    fn with(&self, row: impl Fn(&str, &[String], &[String]) -> Option<String>) -> String {
        let mut out = format!("\t{}\t{}\n", self.columns.join("\t"), self.titles);
        for (label, cells, tail) in &self.rows {
            if let Some(row) = row(label, cells, tail) {
                out += &row;
                out.push('\n');
            }
        }
        out + &self.rest
    }

    /// The matrix in other layouts, each with its description.
    fn variants(&self) -> Vec<(&'static str, String)> {
        let is_gpu = |label: &str| label.starts_with("GPU");
        let tabs = |label: &str, cells: &[String], tail: &[String]| {
            format!("{label}\t{}\t{}", cells.join("\t"), tail.join("\t"))
        };
        let markdown = |label: &str, cells: &[String], tail: &[String]| {
            format!(
                "| **{label}** | {} | {} |",
                cells.join(" | "),
                tail.join(" | ")
            )
        };
        let rules = "|---".repeat(self.columns.len() + 2) + "|\n";
        let bars = format!(
            "| | {} | {} |\n{rules}",
            self.columns.join(" | "),
            self.titles
        );
        let table = self.with(|label, cells, tail| Some(markdown(label, cells, tail)));
        let table = bars + table.split_once('\n').expect("a header").1;
        let cut = self.with(|label, cells, tail| {
            let kept = if is_gpu(label) {
                cells.len()
            } else {
                cells.len() / 2
            };
            Some(tabs(label, &cells[..kept], tail))
        });
        let gone = self.with(|label, cells, tail| is_gpu(label).then(|| tabs(label, cells, tail)));
        let fused = self.with(|label, cells, tail| {
            Some(format!("{label}\t{}\t{}", cells.concat(), tail.join("\t")))
        });
        let fused_header = self.with(|label, cells, tail| Some(tabs(label, cells, tail)));
        let gpus = self.columns.iter().filter(|name| is_gpu(name)).count();
        let (old, new) = (
            self.columns[..gpus].join("\t"),
            self.columns[..gpus].concat(),
        );
        vec![
            ("a table of bars", table),
            ("rows of adapters cut", cut),
            ("rows of adapters gone", gone),
            ("cells without space", fused),
            ("header without space", fused_header.replacen(&old, &new, 1)),
        ]
    }
}

/// The file in other encodings and with other white space, each with its description.
fn of_files(text: &str) -> Vec<(&'static str, Vec<u8>)> {
    let units = || std::iter::once(0xfeff).chain(text.encode_utf16());
    vec![
        (
            "UTF-16, little end first",
            units().flat_map(u16::to_le_bytes).collect(),
        ),
        (
            "UTF-16, big end first",
            units().flat_map(u16::to_be_bytes).collect(),
        ),
        (
            "UTF-8 with a mark",
            [b"\xef\xbb\xbf", text.as_bytes()].concat(),
        ),
        (
            "lines of Windows",
            text.replace("\r\n", "\n")
                .replace('\n', "\r\n")
                .into_bytes(),
        ),
        (
            "space at the ends",
            format!("\n\n{text}\n  \n").into_bytes(),
        ),
    ]
}

/// The matrix as terminals and parallel shells print it, each with its description.
fn of_shells(text: &str) -> Vec<(&'static str, Vec<u8>)> {
    let tagged = |tag: &str| -> Vec<u8> {
        let lines = text.lines().map(|line| format!("{tag}{line}\n"));
        lines.collect::<String>().into_bytes()
    };
    let header = text
        .lines()
        .find(|line| line.trim_start().starts_with("GPU0"))
        .expect("a header");
    let underlined = text.replacen(header, &format!("\x1b[4m{header}\x1b[0m"), 1);
    let prompt = format!("root@node01:~# nvidia-smi topo -m\n{text}root@node01:~# ");
    vec![
        ("lines of pdsh", tagged("node01: ")),
        ("lines of mpirun", tagged("[1,0]<stdout>: ")),
        ("lines of Open MPI", tagged("[1,0]<stdout>:")),
        ("a header of a terminal", underlined.into_bytes()),
        ("between prompts", prompt.into_bytes()),
    ]
}

/// The inventory in a variant of the sample `name`, which must be valid.
fn read(name: &str, variant: &str, format: InventoryFormat, bytes: &[u8]) -> HostInventory {
    import(format, bytes).unwrap_or_else(|error| {
        panic!(
            "{name}, {variant}: {error}\n{}",
            String::from_utf8_lossy(bytes)
        )
    })
}

#[test]
fn every_sample_reads_the_same_in_every_encoding_and_layout() {
    let Some(data) = samples() else { return };
    let mut count = 0;
    for (name, format, text) in every_file(&data) {
        let host = read(name, "as it is", format, text.as_bytes());
        let mut variants = of_files(&text);
        if format == InventoryFormat::NvidiaSmi {
            variants.extend(of_shells(&text));
            let of_matrix = Matrix::of(&text).variants();
            variants.extend(
                of_matrix
                    .into_iter()
                    .map(|(what, text)| (what, text.into_bytes())),
            );
        }
        for (variant, bytes) in variants {
            assert_eq!(InventoryFormat::detect(&bytes), format, "{name}, {variant}");
            let again = read(name, variant, format, &bytes);
            assert!(again == host, "{name}, {variant}: {again:#?}\n{host:#?}");
            count += 1;
        }
    }
    assert!(count > 200, "{count} variants");
}

#[test]
fn every_matrix_of_two_hosts_is_refused() {
    let Some(data) = samples() else { return };
    let matrices = every_file(&data).filter(|file| file.1 == InventoryFormat::NvidiaSmi);
    for (name, format, text) in matrices {
        let tagged = |tag: &str| -> String {
            text.lines()
                .map(|line| format!("{tag}: {line}\n"))
                .collect()
        };
        let both = tagged("node01") + &tagged("node02");
        let error = import(format, both.as_bytes()).expect_err(name);
        assert!(error.to_string().contains("node02:"), "{name}: {error}");
    }
}

/// NCCL's files that contain `from`: the name, the inventory of the file, the inventory with `to`
/// in place of `from`, and whether the file is a whole dump.
fn xml_with(from: &str, to: &str) -> Vec<(&'static str, HostInventory, HostInventory, bool)> {
    let Some(data) = samples() else {
        return Vec::new();
    };
    let files = every_file(&data).filter(|file| file.1 == InventoryFormat::NcclXml);
    let changed = files.filter(|(_, _, text)| text.contains(from));
    let both = changed.map(|(name, format, text)| {
        let other = text.replace(from, to);
        let read = |text: &str| read(name, to, format, text.as_bytes());
        (name, read(&text), read(&other), text.contains("<nic"))
    });
    both.collect()
}

#[test]
fn whole_dumps_with_other_or_no_pci_classes_keep_adapters_and_tiers() {
    if samples().is_none() {
        return;
    }
    for to in ["class=\"0x028000\"", ""] {
        let files = xml_with("class=\"0x020700\"", to);
        // In partial files, only the class shows that a device is an adapter.
        let (whole, partial): (Vec<_>, Vec<_>) = files.into_iter().partition(|file| file.3);
        assert!(!whole.is_empty() && partial.len() >= 3);
        for (name, host, other, _) in partial {
            assert!(
                !host.hca_ports.is_empty() && other.hca_ports.is_empty(),
                "{name}"
            );
            assert_eq!(other.gpus, host.gpus, "{name}");
        }
        for (name, mut host, other, _) in whole {
            // Only the protocol is unknown.
            for (port, as_read) in host.hca_ports.iter_mut().zip(&other.hca_ports) {
                assert_ne!(as_read.link_layer, Some(LinkLayer::Ethernet), "{name}");
                port.link_layer = as_read.link_layer;
            }
            assert!(other == host, "{name}, {to}: {other:#?}\n{host:#?}");
        }
    }
}

#[test]
fn ethernet_sockets_and_data_direct_functions_add_no_port() {
    if samples().is_none() {
        return;
    }
    let socket = "<nic><net name=\"eth0\" dev=\"99\" port=\"0\" guid=\"0x1\"/></nic></cpu>";
    for (name, host, other, _) in xml_with("</cpu>", socket) {
        assert!(other == host, "{name}: {other:#?}");
    }
    // A second function of each adapter, under the same switches: GPUDirect RDMA takes it.
    let Some(data) = samples() else { return };
    let (name, format, text) = every_file(&data)
        .find(|file| file.0.ends_with("oci-H100-topology.xml"))
        .expect("a whole dump");
    let mut direct = String::new();
    for line in text.split_inclusive('\n') {
        direct += line;
        if line.contains("<net name=\"mlx5_") {
            let end = line.find("\" ").expect("a name");
            direct += &format!("{}_dma{}", &line[..end], &line[end..]);
        }
    }
    let (host, other) = (
        read(name, "as it is", format, text.as_bytes()),
        read(name, "Data Direct", format, direct.as_bytes()),
    );
    assert_eq!(other.hca_ports.len(), host.hca_ports.len());
    assert!(
        other
            .hca_ports
            .iter()
            .filter(|port| port.data_direct)
            .count()
            >= 8
    );
    assert_eq!(other.tiers, host.tiers);
}
