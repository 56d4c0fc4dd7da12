//! Reads the tables that `amd-smi topology` and `rocm-smi --showtopo` print.
//!
//! Each table has a title, a header row and a row for each GPU. `amd-smi` identifies GPUs by PCI
//! address, in the order of their indices, and `rocm-smi` by index. The importer reads the types of
//! the links, the hops, and the lines of NUMA nodes. Neither program prints the number of XGMI
//! links between two GPUs: a directly linked pair gets one link.

use super::error::{ImportError, ImportReason, shown};
use super::line_of;
use crate::inventory::{
    Gpu, HostInventory, InventorySource, LinkFamily, MAX_GPUS, NvLink, PciAddress,
};

/// The possible titles of the table of link types.
const LINK_TYPES: [&str; 2] = ["LINK TYPE TABLE:", "Link Type between two GPUs"];
/// The possible titles of the table of hops.
const HOPS: [&str; 2] = ["HOPS TABLE:", "Hops between two GPUs"];

/// Whether a text contains the table of link types, which no other program prints.
pub(super) fn is_output(text: &str) -> bool {
    LINK_TYPES.iter().any(|title| text.contains(title))
}

/// A table of the output.
struct Table<'a> {
    /// The names of the GPUs in the header.
    columns: Vec<&'a str>,
    /// The line number and the cells of each row, in the order of the columns.
    rows: Vec<(u32, Vec<&'a str>)>,
}

/// Reads the output of either program into an inventory without adapters.
pub(super) fn read(text: &str) -> Result<HostInventory, ImportError> {
    let last = line_of(text.as_bytes());
    let types = table(text, LINK_TYPES)?
        .ok_or_else(|| ImportError::new(last, ImportReason::NoLinkTypes))?;
    let hops = table(text, HOPS)?;
    if let Some(hops) = hops.as_ref().filter(|hops| hops.columns != types.columns) {
        let (found, expected) = (hops.columns.join(" "), types.columns.join(" "));
        let line = hops.rows.first().map_or(last, |row| row.0);
        let (found, expected) = (shown(&found), shown(&expected));
        return Err(ImportError::new(
            line,
            ImportReason::Row { found, expected },
        ));
    }
    let mut host = HostInventory::empty(InventorySource::AmdSmi);
    host.link_family = LinkFamily::Xgmi;
    host.nvlinks_known = true;
    for (place, name) in types.columns.iter().enumerate() {
        host.gpus.push(gpu(name, place).ok_or_else(|| {
            let (value, what) = (shown(name), "a GPU: GPU0, GPU1 … or a PCI address");
            ImportError::new(types.rows[place].0, ImportReason::Value { value, what })
        })?);
    }
    for (line, cells) in &types.rows {
        let bad = cells.iter().find(|cell| !is_link_type(cell));
        if let Some(cell) = bad {
            let (value, what) = (shown(cell), "a type of link: XGMI, PCIE, SELF, 0 or N/A");
            return Err(ImportError::new(*line, ImportReason::Value { value, what }));
        }
    }
    add_links(&mut host, &types, hops.as_ref());
    add_numa(&mut host, text);
    host.sort_gpus();
    Ok(host)
}

fn is_link_type(cell: &str) -> bool {
    let known = ["XGMI", "PCIE", "SELF", "0", "N/A", "UNKNOWN"];
    known.iter().any(|name| cell.eq_ignore_ascii_case(name))
}

/// The GPU of a column: given by index, or by address and its position.
fn gpu(name: &str, place: usize) -> Option<Gpu> {
    let (index, pci) = match name.strip_prefix("GPU") {
        Some(index) => (index.parse().ok()?, None),
        None => (
            u16::try_from(place).ok()?,
            Some(name.parse::<PciAddress>().ok()?),
        ),
    };
    Some(Gpu {
        index,
        pci,
        ..Gpu::default()
    })
}

/// Reads the table below one of the titles; `None` if the text has neither.
///
/// # Errors
/// A row is missing, is out of the header's order, or has another number of cells.
fn table<'a>(text: &'a str, titles: [&str; 2]) -> Result<Option<Table<'a>>, ImportError> {
    let mut lines = (1u32..).zip(text.lines().map(str::trim));
    let is_title = |line: &str| titles.iter().any(|title| line.contains(title));
    if !lines.by_ref().any(|(_, line)| is_title(line)) {
        return Ok(None);
    }
    let mut lines = lines.filter(|(_, line)| !line.is_empty());
    let last = line_of(text.as_bytes());
    let (mut at, header) = lines.next().unwrap_or((last, ""));
    let columns: Vec<&str> = header.split_whitespace().collect();
    if columns.len() > MAX_GPUS {
        let (what, limit) = ("columns", MAX_GPUS);
        return Err(ImportError::new(at, ImportReason::TooMany { what, limit }));
    }
    let mut rows = Vec::with_capacity(columns.len());
    for expected in &columns {
        let mut words = lines
            .next()
            .map_or("end of the table", |(number, line)| {
                at = number;
                line
            })
            .split_whitespace();
        let label = words.next().unwrap_or_default();
        if label != *expected {
            let (found, expected) = (shown(label), shown(expected));
            return Err(ImportError::new(at, ImportReason::Row { found, expected }));
        }
        let cells: Vec<&str> = words.collect();
        if cells.len() != columns.len() {
            let (row, found, expected) = (shown(label), cells.len(), columns.len());
            let reason = ImportReason::Cells {
                row,
                found,
                expected,
            };
            return Err(ImportError::new(at, reason));
        }
        rows.push((at, cells));
    }
    Ok(Some(Table { columns, rows }))
}

/// Adds a link for each pair that XGMI joins directly. Over more than one hop, data passes through
/// another GPU.
fn add_links(host: &mut HostInventory, types: &Table<'_>, hops: Option<&Table<'_>>) {
    let is_linked = |a: usize, b: usize| {
        let is_xgmi = types.rows[a].1[b].eq_ignore_ascii_case("XGMI");
        is_xgmi && hops.is_none_or(|hops| hops.rows[a].1[b] == "1")
    };
    for a in 0..host.gpus.len() {
        for b in a + 1..host.gpus.len() {
            if is_linked(a, b) && is_linked(b, a) {
                // Positions in a list of at most MAX_GPUS fit 16 bits.
                let (a, b) = (a as u16, b as u16);
                host.nvlinks.push(NvLink { a, b, links: 1 });
            }
        }
    }
}

/// Adds the NUMA nodes of lines such as `GPU[0] : (Topology) Numa Node: 0`; older versions write
/// `GPU 0`.
fn add_numa(host: &mut HostInventory, text: &str) {
    for line in text.lines() {
        let Some((gpu, node)) = line.split_once("(Topology) Numa Node:") else {
            continue;
        };
        let digits = |text: &str| {
            text.chars()
                .filter(char::is_ascii_digit)
                .collect::<String>()
        };
        let (Ok(index), Ok(node)) = (digits(gpu).parse::<u16>(), node.trim().parse::<u16>()) else {
            continue;
        };
        if let Some(gpu) = host.gpus.iter_mut().find(|gpu| gpu.index == index) {
            gpu.numa = Some(node);
        }
    }
}
