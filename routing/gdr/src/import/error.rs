use crate::inventory::InventoryError;

/// The reason why the importer refuses a file as a whole.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct ImportError {
    /// The number of the line, from 1; the last line if something is missing at the end.
    pub line: u32,
    /// The error in this line.
    pub reason: ImportReason,
}

impl ImportError {
    pub(super) fn new(line: u32, reason: ImportReason) -> ImportError {
        ImportError { line, reason }
    }
}

/// The kinds of error in a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImportReason {
    /// The file is larger than the file of any host.
    #[error("{0} bytes; at most {limit} are read", limit = super::MAX_BYTES)]
    TooLong(usize),
    /// The file has a byte order mark of UTF-16, but is not text in UTF-16.
    #[error(
        "a surrogate without its other half, or half a character at the end: expected UTF-16 text"
    )]
    NotUtf16,
    /// The file is not text in UTF-8.
    #[error(
        "a byte that is not UTF-8: expected UTF-8 text, to which `iconv -f latin1 -t utf-8` converts Latin-1"
    )]
    NotUtf8,
    /// The matrix has no header row.
    #[error("no header row that names GPU0, as `nvidia-smi topo -m` prints it")]
    NoHeader,
    /// The file has no text.
    #[error("the file is empty: expected a matrix, as `nvidia-smi topo -m` prints it")]
    Empty,
    /// The matrix ends before the row of a GPU in its header.
    #[error("the matrix ends here: expected the row `{0}`")]
    RowMissing(String),
    /// The file has no table of link types.
    #[error("no table of link types, as `amd-smi topology` and `rocm-smi --showtopo` print it")]
    NoLinkTypes,
    /// The label of a row is not in the header, or not in the header's order.
    #[error("row `{found}`: expected `{expected}`")]
    Row {
        /// The label of the row.
        found: String,
        /// The expected label.
        expected: String,
    },
    /// A row has too few cells.
    #[error("row `{row}` has {found} cells: expected {expected}")]
    Cells {
        /// The label of the row.
        row: String,
        /// The number of cells of the row.
        found: usize,
        /// The number of columns.
        expected: usize,
    },
    /// The rows of one host contain a row of another host.
    #[error("a row of `{found}` among those of `{expected}`: expected one host in each file")]
    OtherHost {
        /// The words before the row.
        found: String,
        /// The words before the header.
        expected: String,
    },
    /// A line has no host name, among lines with a host name.
    #[error(
        "no name of a host before the line: expected `HOST: …` on each line, as pdsh prints them"
    )]
    NoHostName,
    /// A second header row follows.
    #[error(
        "a second matrix: expected one host, and one output of `nvidia-smi topo`, in each file"
    )]
    SecondMatrix,
    /// The file is the output of a tool for which there is no importer.
    #[error(
        "{reason}; this looks like the output of {tool}, which is not read: `rsmctl gpu probe` reads the adapters of any host"
    )]
    OtherTool {
        /// The tool and its vendor.
        tool: &'static str,
        /// The reason why the text is not a matrix of `nvidia-smi`.
        reason: Box<ImportReason>,
    },
    /// The legend does not name the device of a numbered adapter.
    #[error("no line `{0}: …` in the legend: the end of the output is missing")]
    Legend(String),
    /// A cell has an unknown value.
    #[error(
        "cell `{cell}` in column `{column}`: expected X, NV and a number, PIX, PXB, PHB, NODE, SYS or SOC"
    )]
    Cell {
        /// The text of the cell.
        cell: String,
        /// The label of the column.
        column: String,
    },
    /// The cells on the two sides of the diagonal disagree.
    #[error("`{row}` to `{column}` is `{found}`, and `{expected}` the other way round")]
    NotSymmetric {
        /// The label of the row.
        row: String,
        /// The label of the column.
        column: String,
        /// The cell of the row.
        found: String,
        /// The cell of the column's own row.
        expected: String,
    },
    /// The file is not well-formed.
    #[error("not well-formed: {0}")]
    Xml(String),
    /// The file declares entities or elements, which the importer never processes.
    #[error("a document type with declarations of its own")]
    DocumentType,
    /// The file has more elements, attributes or levels than the file of any host.
    #[error("more than {limit} {what}")]
    TooMany {
        /// The kind of item: elements, attributes, or levels of depth.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// The file is another kind of document.
    #[error("root element `{found}`: expected `{expected}`")]
    Root {
        /// The root element of the file.
        found: String,
        /// The expected root element.
        expected: &'static str,
    },
    /// An element lacks a required attribute.
    #[error("`{element}` without `{attribute}`")]
    Missing {
        /// The element, or its path.
        element: String,
        /// The attribute.
        attribute: &'static str,
    },
    /// The importer cannot interpret a value.
    #[error("`{value}` as {what}")]
    Value {
        /// The value in the file.
        value: String,
        /// The expected kind of value.
        what: &'static str,
    },
    /// The importer does not know the version of the format.
    #[error("version {0}: expected 1")]
    Version(u64),
    /// The file is not JSON, or does not have rsm's schema.
    #[error("{0}")]
    Json(String),
    /// The file describes no valid host.
    #[error(transparent)]
    Inventory(#[from] InventoryError),
}

/// The start of a value from outside, for messages: at most 40 characters, without control
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
