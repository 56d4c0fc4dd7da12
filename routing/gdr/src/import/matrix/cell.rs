//! Reads the cells of a matrix, even if a driver or a copy lost the separators between them.

use std::fmt;

use crate::inventory::Tier;

/// One cell: the device itself, links between two GPUs, or a PCIe tier.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Cell {
    Itself,
    NvLink(u8),
    Pcie(Tier),
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cell::Itself => f.write_str("X"),
            Cell::NvLink(width) => write!(f, "NV{width}"),
            Cell::Pcie(tier) => tier.fmt(f),
        }
    }
}

/// The words for tiers; no word is the prefix of another word.
const TIERS: [&str; 6] = ["PIX", "PXB", "PHB", "NODE", "SYS", "SOC"];

/// Splits a word (`PXBNODE` has two cells) into the cells at its start and the rest.
pub(super) fn leading(word: &str) -> (Vec<Cell>, &str) {
    let (mut cells, mut rest) = (Vec::new(), word);
    while let Some((cell, after)) = first_cell(rest) {
        cells.push(cell);
        rest = after;
    }
    (cells, rest)
}

/// Whether a word consists of one or several cells.
pub(super) fn is_cells(word: &str) -> bool {
    let (cells, rest) = leading(word);
    !cells.is_empty() && rest.is_empty()
}

/// The cell at the start of a text, and the text after it; `None` if the text starts with no cell.
fn first_cell(text: &str) -> Option<(Cell, &str)> {
    if let Some(rest) = text.strip_prefix('X') {
        return Some((Cell::Itself, rest));
    }
    if let Some(number) = text.strip_prefix("NV") {
        let digits = number.bytes().take_while(u8::is_ascii_digit).count();
        let (width, rest) = number.split_at(digits);
        return match width.parse() {
            Ok(width @ 1..) => Some((Cell::NvLink(width), rest)),
            _ => None,
        };
    }
    let name = TIERS.into_iter().find(|name| text.starts_with(name))?;
    let tier = name.parse().ok()?;
    Some((Cell::Pcie(tier), &text[name.len()..]))
}
