use crate::inventory::InventoryError;

/// Why a file is not taken. Nothing of it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct ImportError {
    /// The line, from 1; the last one where something is missing at the end.
    pub line: u32,
    /// What is wrong with it.
    pub reason: ImportReason,
}

impl ImportError {
    pub(super) fn new(line: u32, reason: ImportReason) -> ImportError {
        ImportError { line, reason }
    }
}

/// What can be wrong with a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImportReason {
    /// Larger than any host's file.
    #[error("{0} bytes; at most {limit} are read", limit = super::MAX_BYTES)]
    TooLong(usize),
    /// Not text.
    #[error("not UTF-8")]
    NotUtf8,
    /// No header row of a matrix.
    #[error("no header row that names GPU0, as `nvidia-smi topo -m` prints it")]
    NoHeader,
    /// A row that the header does not name, or whose place is another one's.
    #[error("row `{found}`: expected `{expected}`")]
    Row {
        /// The label.
        found: String,
        /// What comes there.
        expected: String,
    },
    /// A row ends early.
    #[error("row `{row}` has {found} cells: expected {expected}")]
    Cells {
        /// The label.
        row: String,
        /// How many there are.
        found: usize,
        /// How many columns there are.
        expected: usize,
    },
    /// A cell that means nothing.
    #[error(
        "cell `{cell}` in column `{column}`: expected X, NV and a number, PIX, PXB, PHB, NODE, SYS or SOC"
    )]
    Cell {
        /// What it says.
        cell: String,
        /// Its column.
        column: String,
    },
    /// The cells on the two sides of the diagonal disagree.
    #[error("`{row}` to `{column}` is `{found}`, and `{expected}` the other way round")]
    NotSymmetric {
        /// The row.
        row: String,
        /// The column.
        column: String,
        /// What the row says.
        found: String,
        /// What the column's row says.
        expected: String,
    },
    /// The file is not well-formed.
    #[error("not well-formed: {0}")]
    Xml(String),
    /// Declarations of entities or elements, which are never processed.
    #[error("a document type with declarations of its own")]
    DocumentType,
    /// More elements, attributes or depth than any host's file has.
    #[error("more than {limit} {what}")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many are taken.
        limit: usize,
    },
    /// Another document.
    #[error("root element `{found}`: expected `{expected}`")]
    Root {
        /// What it is.
        found: String,
        /// What was expected.
        expected: &'static str,
    },
    /// An element without what it must have.
    #[error("`{element}` without `{attribute}`")]
    Missing {
        /// The element, or the path.
        element: String,
        /// Its attribute.
        attribute: &'static str,
    },
    /// A value that means nothing.
    #[error("`{value}` as {what}")]
    Value {
        /// What it says.
        value: String,
        /// What it should be.
        what: &'static str,
    },
    /// A version that is not known.
    #[error("version {0}: expected 1")]
    Version(u64),
    /// Not JSON, or not of our schema.
    #[error("{0}")]
    Json(String),
    /// What was read is no host.
    #[error(transparent)]
    Inventory(#[from] InventoryError),
}

/// The start of a value from outside, for messages: what is long or strange is cut.
pub(super) fn shown(text: &str) -> String {
    const MOST: usize = 40;
    let mut out: String = text
        .chars()
        .take(MOST)
        .filter(|c| !c.is_control())
        .collect();
    if text.chars().count() > MOST {
        out.push('…');
    }
    out
}
