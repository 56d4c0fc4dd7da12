use crate::inventory::InventoryError;

/// Why the importer refuses a file, all of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct ImportError {
    /// The line, from 1; the last one where something is missing at the end.
    pub line: u32,
    /// The error in that line.
    pub reason: ImportReason,
}

impl ImportError {
    pub(super) fn new(line: u32, reason: ImportReason) -> ImportError {
        ImportError { line, reason }
    }
}

/// The errors of a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImportReason {
    /// Larger than any host's file.
    #[error("{0} bytes; at most {limit} are read", limit = super::MAX_BYTES)]
    TooLong(usize),
    /// A byte order mark of UTF-16, and then other bytes.
    #[error(
        "a surrogate without its other half, or half a character at the end: expected UTF-16 text"
    )]
    NotUtf16,
    /// Not text.
    #[error(
        "a byte that is not UTF-8: expected UTF-8 text, to which `iconv -f latin1 -t utf-8` converts Latin-1"
    )]
    NotUtf8,
    /// No header row of a matrix.
    #[error("no header row that names GPU0, as `nvidia-smi topo -m` prints it")]
    NoHeader,
    /// No table of link types.
    #[error("no table of link types, as `amd-smi topology` and `rocm-smi --showtopo` print it")]
    NoLinkTypes,
    /// A row whose label the header lacks, or which is not in the header's order.
    #[error("row `{found}`: expected `{expected}`")]
    Row {
        /// The label.
        found: String,
        /// The label expected there.
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
    /// Rows of another host among those of the first.
    #[error("a row of `{found}` among those of `{expected}`: expected one host in each file")]
    OtherHost {
        /// The words before the row.
        found: String,
        /// The words before the header.
        expected: String,
    },
    /// A line without the host's name among lines that have one.
    #[error(
        "no name of a host before the line: expected `HOST: …` on each line, as pdsh prints them"
    )]
    NoHostName,
    /// Another header row after the first.
    #[error(
        "a second matrix: expected one host, and one output of `nvidia-smi topo`, in each file"
    )]
    SecondMatrix,
    /// The output of a tool that no importer reads.
    #[error(
        "{reason}; this looks like the output of {tool}, which is not read: `rsmctl gpu probe` reads the adapters of any host"
    )]
    OtherTool {
        /// The tool and its vendor.
        tool: &'static str,
        /// Why the text is no matrix of `nvidia-smi`.
        reason: Box<ImportReason>,
    },
    /// A numbered adapter whose device the legend does not name.
    #[error("no line `{0}: …` in the legend: the end of the output is missing")]
    Legend(String),
    /// A cell with an unknown value.
    #[error(
        "cell `{cell}` in column `{column}`: expected X, NV and a number, PIX, PXB, PHB, NODE, SYS or SOC"
    )]
    Cell {
        /// The text of the cell.
        cell: String,
        /// The column.
        column: String,
    },
    /// The cells on the two sides of the diagonal disagree.
    #[error("`{row}` to `{column}` is `{found}`, and `{expected}` the other way round")]
    NotSymmetric {
        /// The row.
        row: String,
        /// The column.
        column: String,
        /// The cell of the row.
        found: String,
        /// The cell of the column's own row.
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
        /// Elements, attributes, or levels of depth.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// Another document.
    #[error("root element `{found}`: expected `{expected}`")]
    Root {
        /// The root element found.
        found: String,
        /// The root element expected.
        expected: &'static str,
    },
    /// An element without a required attribute.
    #[error("`{element}` without `{attribute}`")]
    Missing {
        /// The element, or the path.
        element: String,
        /// The attribute.
        attribute: &'static str,
    },
    /// A value that the importer cannot interpret.
    #[error("`{value}` as {what}")]
    Value {
        /// The text found.
        value: String,
        /// The kind of value expected.
        what: &'static str,
    },
    /// A version that is not known.
    #[error("version {0}: expected 1")]
    Version(u64),
    /// Not JSON, or not of our schema.
    #[error("{0}")]
    Json(String),
    /// The file describes no valid host.
    #[error(transparent)]
    Inventory(#[from] InventoryError),
}

/// The start of a value from outside, for messages: cut to 40 characters, without control
/// characters.
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
