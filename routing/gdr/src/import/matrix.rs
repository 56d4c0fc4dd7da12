//! The matrix that `nvidia-smi topo -m` and `-mp` print.
//!
//! A header row names the columns, and each has a row of its own: a label, one cell for each
//! column, and on GPU rows a cell for each of the last header words (`CPU Affinity`, `NUMA
//! Affinity`, `GPU NUMA ID`). Columns that are no GPU are adapters: by device name until about
//! driver 470, `NIC0` and a legend since. Drivers separate by tabs, people paste spaces or a table
//! of bars, terminals underline the header; `-mp` has no cells of NVLink.

use std::collections::BTreeMap;

use super::error::{ImportError, ImportReason, shown};
use crate::inventory::{
    Gpu, HcaPort, HostInventory, InventorySource, MAX_GPUS, MAX_HCA_PORTS, NvLink, Tier,
};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Cell {
    Itself,
    NvLink(u8),
    Pcie(Tier),
}

struct Header {
    columns: Vec<String>,
    /// How many values follow the cells: processors, NUMA nodes, the GPU's own NUMA node.
    tail: usize,
}

pub(super) fn read(text: &str) -> Result<HostInventory, ImportError> {
    let mut lines = (1u32..).zip(text.lines().map(plain));
    let header = lines.by_ref().find_map(|(_, line)| header(&line));
    let last = super::line_of(text.as_bytes());
    let header = header.ok_or_else(|| ImportError::new(last, ImportReason::NoHeader))?;
    let columns = &header.columns;
    if columns.len() > MAX_GPUS + MAX_HCA_PORTS {
        let (what, limit) = ("columns", MAX_GPUS + MAX_HCA_PORTS);
        return Err(ImportError::new(1, ImportReason::TooMany { what, limit }));
    }
    let mut rows: Vec<(u32, Vec<Cell>)> = Vec::with_capacity(columns.len());
    let mut numa = vec![None; columns.len()];
    let mut at = last;
    for (number, line) in lines.by_ref() {
        if rows.len() == columns.len() {
            break;
        }
        let mut words = line.split_whitespace();
        let Some(label) = words.next() else { continue };
        at = number;
        let expected = &columns[rows.len()];
        if label != expected {
            let (found, expected) = (shown(label), expected.clone());
            return Err(ImportError::new(
                number,
                ImportReason::Row { found, expected },
            ));
        }
        let cells = row(label, columns, words.by_ref())
            .map_err(|reason| ImportError::new(number, reason))?;
        let tail: Vec<&str> = words.collect();
        // With a value missing, the row does not show which one it is.
        if header.tail >= 2 && tail.len() == header.tail {
            numa[rows.len()] = tail[1].parse().ok();
        }
        rows.push((number, cells));
    }
    if let Some(expected) = columns.get(rows.len()) {
        let (found, expected) = ("end of the matrix".to_owned(), expected.clone());
        return Err(ImportError::new(at, ImportReason::Row { found, expected }));
    }
    let names = legend(text);
    build(columns, &rows, &numa, &names)
}

/// A line without the escape sequences of a terminal, and without the bars of a pasted table.
fn plain(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut chars = line.chars();
    while let Some(char) = chars.next() {
        match char {
            '\u{1b}' => {
                // Control sequences end with a letter or `@[\]^_`{|}~`.
                if chars.as_str().starts_with('[') {
                    chars.next();
                    chars.by_ref().find(|char| ('@'..='~').contains(char));
                }
            }
            '|' => out.push(' '),
            _ => out.push(char),
        }
    }
    out
}

fn header(line: &str) -> Option<Header> {
    let mut words = line.split_whitespace().peekable();
    gpu_index(&unfused(words.peek()?)[0])?;
    let mut columns = Vec::new();
    while let Some(word) = words.next_if(|&word| word != "CPU") {
        columns.extend(unfused(word));
    }
    // A GPU's own row starts with its label and `X`; the header never has a cell.
    if columns.iter().any(|column| cell(column).is_some()) {
        return None;
    }
    let rest: Vec<&str> = words.collect();
    let tail = ["CPU Affinity", "NUMA Affinity", "GPU NUMA ID"]
        .into_iter()
        .filter(|name| rest.join(" ").contains(name))
        .count();
    Some(Header { columns, tail })
}

/// Column names that a driver ran together: `GPU6GPU7mlx5_0`.
fn unfused(word: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut rest = word;
    while let Some(number) = rest.strip_prefix("GPU") {
        let digits = number.bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 {
            break;
        }
        let (name, after) = rest.split_at("GPU".len() + digits);
        names.push(name.to_owned());
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

fn cell(text: &str) -> Option<Cell> {
    if text == "X" {
        return Some(Cell::Itself);
    }
    if let Some(width) = text.strip_prefix("NV") {
        return match width.parse() {
            Ok(width @ 1..) => Some(Cell::NvLink(width)),
            _ => None,
        };
    }
    text.parse().ok().map(Cell::Pcie)
}

fn row<'a>(
    label: &str,
    columns: &[String],
    words: &mut impl Iterator<Item = &'a str>,
) -> Result<Vec<Cell>, ImportReason> {
    let mut cells = Vec::with_capacity(columns.len());
    for column in columns {
        let Some(word) = words.next() else { break };
        let cell = cell(word).ok_or_else(|| ImportReason::Cell {
            cell: shown(word),
            column: column.clone(),
        })?;
        cells.push(cell);
    }
    if cells.len() < columns.len() {
        return Err(ImportReason::Cells {
            row: label.to_owned(),
            found: cells.len(),
            expected: columns.len(),
        });
    }
    Ok(cells)
}

/// The devices behind `NIC0`, `NIC1`, …: lines `NIC0: mlx5_0` anywhere after the matrix.
fn legend(text: &str) -> BTreeMap<String, String> {
    text.lines()
        .map(plain)
        .filter_map(|line| {
            let (name, device) = line.split_once(':')?;
            let name = name.trim();
            let is_nic = name.strip_prefix("NIC")?.parse::<u16>().is_ok();
            is_nic.then(|| (name.to_owned(), device.trim().to_owned()))
        })
        .collect()
}

fn build(
    columns: &[String],
    rows: &[(u32, Vec<Cell>)],
    numa: &[Option<u16>],
    names: &BTreeMap<String, String>,
) -> Result<HostInventory, ImportError> {
    symmetric(columns, rows)?;
    let mut host = HostInventory::empty(InventorySource::NvidiaSmi);
    let (mut gpus, mut nics) = (Vec::new(), Vec::new());
    for (column, name) in columns.iter().enumerate() {
        match gpu_index(name) {
            Some(index) => {
                gpus.push(column);
                let numa = numa[column];
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
            host.tiers.push(match rows[row].1[column] {
                Cell::Pcie(tier) => Some(tier),
                Cell::Itself | Cell::NvLink(_) => None,
            });
        }
        for (other, &column) in gpus.iter().enumerate().skip(place + 1) {
            // A GPU counts its own links, so that the two sides may differ when one is down.
            let sides = [rows[row].1[column], rows[column].1[row]];
            if let [Cell::NvLink(one), Cell::NvLink(two)] = sides {
                let (a, b) = (place as u16, other as u16);
                host.nvlinks.push(NvLink {
                    a,
                    b,
                    links: one.min(two),
                });
            }
        }
    }
    // Without any, this can be `-mp` as well as a machine that has none.
    host.nvlinks_known = !host.nvlinks.is_empty();
    Ok(host)
}

fn symmetric(columns: &[String], rows: &[(u32, Vec<Cell>)]) -> Result<(), ImportError> {
    for (row, (line, cells)) in rows.iter().enumerate() {
        for (column, &found) in cells.iter().enumerate().take(row + 1) {
            let other = rows[column].1[row];
            let agrees = match (found, other) {
                (Cell::Itself, Cell::Itself) => row == column,
                (Cell::Pcie(one), Cell::Pcie(two)) => one == two && row != column,
                (Cell::NvLink(_), _) | (_, Cell::NvLink(_)) => {
                    let is_gpu = |at: usize| gpu_index(&columns[at]).is_some();
                    row != column && is_gpu(row) && is_gpu(column)
                }
                _ => false,
            };
            if !agrees {
                return Err(ImportError::new(
                    *line,
                    ImportReason::NotSymmetric {
                        row: columns[row].clone(),
                        column: columns[column].clone(),
                        found: name(found),
                        expected: name(other),
                    },
                ));
            }
        }
    }
    Ok(())
}

fn name(cell: Cell) -> String {
    match cell {
        Cell::Itself => "X".to_owned(),
        Cell::NvLink(width) => format!("NV{width}"),
        Cell::Pcie(tier) => tier.to_string(),
    }
}
