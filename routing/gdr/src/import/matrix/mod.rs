//! Reads the matrix that `nvidia-smi topo -m` and `-mp` print.
//!
//! A header row names the columns, and each column has a row: a label, one cell for each column,
//! and on GPU rows one value for each of the last header words (`CPU Affinity`, `NUMA Affinity`,
//! `GPU NUMA ID`). Columns that are not GPUs are adapters, given by device name until about driver
//! 470, and since then by `NIC0` and a legend. Drivers separate cells by tabs, pasted text has
//! spaces or bars, and terminals underline the header; `-mp` has no NVLink cells.

mod cell;
mod lines;

use std::collections::BTreeMap;

use super::error::{ImportError, ImportReason, shown};
use crate::inventory::{Gpu, HcaPort, HostInventory, InventorySource, NvLink};
use cell::Cell;

/// The columns of the header row.
struct Header {
    /// The names of the columns.
    columns: Vec<String>,
    /// The number of values after the cells: processors, NUMA nodes, the GPU's own NUMA node.
    tail: usize,
}

/// The rows that are present, as `cells[row][column]`.
struct Rows {
    /// The line number of each row; a missing row has the number of the last row.
    lines: Vec<u32>,
    /// The cells; `None` for a cell that the text does not have.
    cells: Vec<Vec<Option<Cell>>>,
    /// The NUMA node of each row's device.
    numa: Vec<Option<u16>>,
}

/// Reads the output of `nvidia-smi topo` into an inventory.
pub(super) fn read(text: &str) -> Result<HostInventory, ImportError> {
    let lines::Output { header, rest } = lines::output(text)?;
    let columns = &header.columns;
    // A line with only a label is a truncated row.
    let is_header = |header: Header| header.columns.len() > 1 || header.tail > 0;
    let mut lines = rest.iter();
    if let Some((line, _)) = lines.find(|(_, line)| Header::of(line).is_some_and(is_header)) {
        return Err(ImportError::new(*line, ImportReason::SecondMatrix));
    }
    let last = super::line_of(text.as_bytes());
    let rows = rows(&header, &rest, last)?;
    symmetric(columns, &rows)?;
    let names = legend(&rest);
    let unnamed = |name: &&String| is_numbered_nic(name) && !names.contains_key(*name);
    if let Some(name) = columns.iter().find(unnamed) {
        return Err(ImportError::new(last, ImportReason::Legend(name.clone())));
    }
    let mut host = build(columns, &rows, &names);
    // The legend of `-mp` does not explain NVLinks: without NVLink cells, such a matrix does not
    // list them.
    host.nvlinks_known = !host.nvlinks.is_empty() || explains(&rest, "NV#");
    // The legend of `-m` explains NVLinks last, after this tier.
    host.nvlinks_unclear = !host.nvlinks_known && !explains(&rest, "PIX");
    Ok(host)
}

/// Reads rows in the order of the columns. Adapter rows may be short or missing, because GPU rows
/// have the same cells.
fn rows(header: &Header, lines: &[(u32, String)], last: u32) -> Result<Rows, ImportError> {
    let columns = &header.columns;
    let mut rows = Rows {
        lines: Vec::with_capacity(columns.len()),
        cells: Vec::with_capacity(columns.len()),
        numa: vec![None; columns.len()],
    };
    let mut at = last;
    for (number, line) in lines {
        let Some(expected) = columns.get(rows.cells.len()) else {
            break;
        };
        let mut words = line.split_whitespace();
        let label = words.next().unwrap_or_default();
        let is_past_gpus = gpu_index(expected).is_none();
        if is_past_gpus && !columns.iter().any(|column| column == label) {
            break;
        }
        at = *number;
        if label != expected {
            let (found, expected) = (shown(label), expected.clone());
            let reason = ImportReason::Row { found, expected };
            return Err(ImportError::new(at, reason));
        }
        let (cells, tail) =
            row(label, columns, words).map_err(|reason| ImportError::new(at, reason))?;
        // A row without all values does not show which value is missing.
        if header.tail >= 2 && tail.len() == header.tail {
            rows.numa[rows.cells.len()] = first_node(tail[1]);
        }
        rows.lines.push(at);
        rows.cells.push(cells);
    }
    if let Some(expected) = columns.get(rows.cells.len())
        && gpu_index(expected).is_some()
    {
        let reason =
            cut_row(columns, &rows).unwrap_or_else(|| ImportReason::RowMissing(expected.clone()));
        return Err(ImportError::new(at, reason));
    }
    rows.lines.resize(columns.len(), at);
    rows.cells.resize(columns.len(), vec![None; columns.len()]);
    Ok(rows)
}

/// The refusal of the last row that is present, if the matrix ends within it.
fn cut_row(columns: &[String], rows: &Rows) -> Option<ImportReason> {
    let (last, cells) = rows.cells.iter().enumerate().next_back()?;
    let found = cells.iter().flatten().count();
    (found < columns.len()).then(|| ImportReason::Cells {
        row: columns[last].clone(),
        found,
        expected: columns.len(),
    })
}

/// The NUMA node of a processor: the first of a list, because a GPU's own memory has further nodes
/// (`0,3-9` on GB200). A range (`6-7`) names no single node.
fn first_node(text: &str) -> Option<u16> {
    text.split(',').next()?.parse().ok()
}

impl Header {
    /// Parses the columns of a header line; `None` for any other line.
    fn of(line: &str) -> Option<Header> {
        let mut words = line.split_whitespace().peekable();
        gpu_index(&unfused(words.peek()?)[0])?;
        let mut columns = Vec::new();
        while let Some(word) = words.next_if(|&word| word != "CPU") {
            columns.extend(unfused(word));
        }
        // A GPU's row starts with its label and `X`; the header has no cells.
        if columns.iter().any(|column| cell::is_cells(column)) {
            return None;
        }
        let rest: Vec<&str> = words.collect();
        let tail = ["CPU Affinity", "NUMA Affinity", "GPU NUMA ID"]
            .into_iter()
            .filter(|name| rest.join(" ").contains(name))
            .count();
        Some(Header { columns, tail })
    }
}

/// The prefixes of names that end in a number, so that another name may follow without a space.
const NUMBERED: [&str; 8] = [
    "GPU",
    "NIC",
    "mlx5_bond_",
    "mlx5_ib",
    "mlx5_",
    "mlx4_",
    "hfi1_",
    "bnxt_re",
];

/// Splits column names that a driver or a paste ran together: `GPU6GPU7mlx5_0`, `NIC11NIC12`.
fn unfused(word: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut rest = word;
    while let Some(begin) = NUMBERED.into_iter().find(|begin| rest.starts_with(begin)) {
        let number = &rest[begin.len()..];
        let digits = number.bytes().take_while(u8::is_ascii_digit).count();
        let is_name = |text: &str| NUMBERED.into_iter().any(|begin| text.starts_with(begin));
        let after = &number[digits..];
        // `mlx5_0:2` or `mlx5_0_dma` is one name.
        let ends_here = after.is_empty() || is_name(after) || *begin == *"GPU";
        if digits == 0 || !ends_here {
            break;
        }
        names.push(rest[..begin.len() + digits].to_owned());
        rest = after;
    }
    if !rest.is_empty() || names.is_empty() {
        names.push(rest.to_owned());
    }
    names
}

fn gpu_index(name: &str) -> Option<u16> {
    let digits = name.strip_prefix("GPU")?;
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().ok()).flatten()
}

/// Whether a column is `NIC0`, `NIC1` …, for which only the legend gives the device.
fn is_numbered_nic(name: &str) -> bool {
    name.strip_prefix("NIC")
        .is_some_and(|number| number.parse::<u16>().is_ok())
}

/// Splits a row into its cells and the words after them.
///
/// # Errors
/// A word before the last cell is not a cell, or there are more cells than columns. A row may have
/// fewer cells than columns.
fn row<'a>(
    label: &str,
    columns: &[String],
    words: impl Iterator<Item = &'a str>,
) -> Result<(Vec<Option<Cell>>, Vec<&'a str>), ImportReason> {
    let (mut cells, mut tail) = (Vec::with_capacity(columns.len()), Vec::new());
    for word in words {
        if cells.len() == columns.len() {
            tail.push(word);
            continue;
        }
        let (found, rest) = cell::leading(word);
        cells.extend(found.into_iter().map(Some));
        if rest.is_empty() {
            continue;
        }
        if let Some(column) = columns.get(cells.len()) {
            let (cell, column) = (shown(word), column.clone());
            return Err(ImportReason::Cell { cell, column });
        }
        tail.push(rest);
    }
    // A cell follows the last column: the header ran names together, or lacks one.
    let beyond = tail.iter().take_while(|word| cell::is_cells(word)).count();
    let found = cells.len() + beyond;
    if found > columns.len() {
        return Err(ImportReason::Cells {
            row: label.to_owned(),
            found,
            expected: columns.len(),
        });
    }
    cells.resize(columns.len(), None);
    Ok((cells, tail))
}

/// Reads the devices of `NIC0`, `NIC1`, … from lines such as `NIC0: mlx5_0`, anywhere after the
/// matrix.
fn legend(lines: &[(u32, String)]) -> BTreeMap<String, String> {
    lines
        .iter()
        .filter_map(|(_, line)| {
            let (name, device) = line.split_once(':')?;
            let (name, device) = (name.trim(), device.trim());
            // A line that ends after the colon names no device.
            let is_named = is_numbered_nic(name) && !device.is_empty();
            is_named.then(|| (name.to_owned(), device.to_owned()))
        })
        .collect()
}

/// Whether the legend explains this cell (`NV#  = Connection traversing …`). `-m` always explains
/// NVLinks, `-mp` never does.
fn explains(lines: &[(u32, String)], cell: &str) -> bool {
    let is_about = |line: &str| line.split_whitespace().next() == Some(cell);
    lines.iter().any(|(_, line)| is_about(line))
}

impl Rows {
    /// The cell of a pair, from the row of either device.
    fn cell(&self, one: usize, other: usize) -> Option<Cell> {
        self.cells[one][other].or(self.cells[other][one])
    }
}

/// Builds the inventory; `names` maps `NIC0`, `NIC1`, … to devices.
fn build(columns: &[String], rows: &Rows, names: &BTreeMap<String, String>) -> HostInventory {
    let mut host = HostInventory::empty(InventorySource::NvidiaSmi);
    let (mut gpus, mut nics) = (Vec::new(), Vec::new());
    for (column, name) in columns.iter().enumerate() {
        match gpu_index(name) {
            Some(index) => {
                gpus.push(column);
                let numa = rows.numa[column];
                host.gpus.push(Gpu {
                    index,
                    numa,
                    ..Gpu::default()
                });
            }
            None => {
                nics.push(column);
                let device = names.get(name).unwrap_or(name);
                host.hca_ports.push(HcaPort::new(Some(device.clone())));
            }
        }
    }
    for (place, &row) in gpus.iter().enumerate() {
        for &column in &nics {
            host.tiers.push(match rows.cell(row, column) {
                Some(Cell::Pcie(tier)) => Some(tier),
                _ => None,
            });
        }
        for (other, &column) in gpus.iter().enumerate().skip(place + 1) {
            // Each GPU counts its own links, so the two sides may differ if a link is down.
            let sides = [rows.cell(row, column), rows.cell(column, row)];
            if let [Some(Cell::NvLink(one)), Some(Cell::NvLink(two))] = sides {
                let (a, b) = (place as u16, other as u16);
                host.nvlinks.push(NvLink {
                    a,
                    b,
                    links: one.min(two),
                });
            }
        }
    }
    host
}

/// Checks that the two sides of the diagonal agree if both are present, and that each pair with a
/// GPU has at least one.
fn symmetric(columns: &[String], rows: &Rows) -> Result<(), ImportError> {
    let is_gpu = |at: usize| gpu_index(&columns[at]).is_some();
    for row in 0..columns.len() {
        for column in 0..=row {
            let sides = (rows.cells[row][column], rows.cells[column][row]);
            let reason = match sides {
                (Some(found), Some(other)) => {
                    let pair = [(row, is_gpu(row)), (column, is_gpu(column))];
                    (!agree(pair, found, other)).then(|| ImportReason::NotSymmetric {
                        row: columns[row].clone(),
                        column: columns[column].clone(),
                        found: found.to_string(),
                        expected: other.to_string(),
                    })
                }
                (None, None) if row != column && (is_gpu(row) || is_gpu(column)) => {
                    let found = rows.cells[row].iter().flatten().count();
                    Some(ImportReason::Cells {
                        row: columns[row].clone(),
                        found,
                        expected: columns.len(),
                    })
                }
                _ => None,
            };
            if let Some(reason) = reason {
                return Err(ImportError::new(rows.lines[row], reason));
            }
        }
    }
    Ok(())
}

/// Whether two cells can belong to the same pair of devices. A device is given as its position and
/// whether it is a GPU.
fn agree([row, column]: [(usize, bool); 2], found: Cell, other: Cell) -> bool {
    let is_diagonal = row.0 == column.0;
    match (found, other) {
        (Cell::Itself, Cell::Itself) => is_diagonal,
        (Cell::Pcie(one), Cell::Pcie(two)) => one == two && !is_diagonal,
        (Cell::NvLink(_), _) | (_, Cell::NvLink(_)) => !is_diagonal && row.1 && column.1,
        _ => false,
    }
}
