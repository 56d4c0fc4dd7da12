//! The errors of topology files, each with its line and the expected form.

use std::fmt;

use rsm_ids::{Guid, PortNum};

use super::MAX_LINE;
use crate::netlist::{MAX_NODES, MAX_PORTS, NetlistError};

/// The error of a topology file that cannot be read, displayed as `fabric.txt:17: reason, expected
/// …`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseError {
    /// The file name as given to [`parse`](super::parse).
    pub file: String,
    /// The line, counted from 1.
    pub line: usize,
    /// The error in that line.
    pub reason: ParseReason,
}

impl ParseError {
    /// The expected form.
    pub fn expected(&self) -> String {
        self.reason.expected()
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}:{}: {}, expected {}",
            self.file,
            self.line,
            self.reason,
            self.expected()
        )
    }
}

impl std::error::Error for ParseError {}

/// The error in a line. Long text from the file is cut off when it is quoted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseReason {
    /// The line is longer than any line of a topology file.
    #[error("the line has {len} bytes")]
    LineTooLong {
        /// The length of the line in bytes.
        len: usize,
    },
    /// The file contains no node.
    #[error("the file names no node")]
    NoNodes,
    /// The file is the report of another option of `ibnetdiscover` or of another program, and
    /// contains no topology.
    #[error("this is {report}")]
    Report {
        /// The option or program.
        report: &'static str,
    },
    /// The file has more nodes than a subnet has unicast LIDs.
    #[error("there are more nodes than a subnet has LIDs")]
    TooManyNodes,
    /// The value of an attribute, as after `vendid=`, is malformed.
    #[error("`{attribute}` has the value `{value}`")]
    Attribute {
        /// The name of the attribute.
        attribute: &'static str,
        /// The value in the file.
        value: String,
        /// The values allowed.
        expected: &'static str,
    },
    /// The text is not the expected syntax element.
    #[error("`{found}` at column {column}")]
    Syntax {
        /// The text in the file, perhaps cut off; empty at the end of the line.
        found: String,
        /// The position in the line, in bytes from 1.
        column: usize,
        /// The element expected there.
        expected: &'static str,
    },
    /// The number of ports in a header is out of range.
    #[error("the node has {ports} ports")]
    PortCount {
        /// The number read.
        ports: u64,
    },
    /// The node has no port with this number.
    #[error("port {port} of a node that has {num_ports}")]
    PortNumber {
        /// The number read.
        port: u64,
        /// The number of ports that the node has.
        num_ports: u8,
    },
    /// A description has no closing quote.
    #[error("the description has no closing quote")]
    OpenDescription,
    /// A description contains a NUL byte.
    #[error("the description contains a NUL byte")]
    DescriptionNul,
    /// A LID has more than 16 bits.
    #[error("the LID {lid}")]
    Lid {
        /// The number read.
        lid: u64,
    },
    /// An LMC has more than three bits.
    #[error("the LMC {lmc}")]
    Lmc {
        /// The number read.
        lmc: u64,
    },
    /// The identifier in a header belongs to another kind of node.
    #[error("the identifier `{id}` is not that of a {kind}")]
    IdentifierKind {
        /// The identifier.
        id: String,
        /// The kind of node that the header declares.
        kind: &'static str,
        /// The letter that identifiers of that kind start with.
        letter: char,
    },
    /// The identifier in the header and an attribute above it, such as `switchguid=`, state
    /// different GUIDs.
    #[error("the identifier says GUID {identifier}, and the line above it {attribute}")]
    GuidMismatch {
        /// The GUID in the header.
        identifier: Guid,
        /// The GUID in the attribute.
        attribute: Guid,
    },
    /// A port line precedes the first header.
    #[error("the port belongs to no node")]
    NoHeader,
    /// A node is described twice.
    #[error("node {id} has been described in line {first_line}")]
    DuplicateNode {
        /// The identifier of the node.
        id: String,
        /// The line that describes it first.
        first_line: usize,
    },
    /// A port is described twice.
    #[error("port {port} of this node has been described in line {first_line}")]
    DuplicatePort {
        /// The number of the port.
        port: PortNum,
        /// The line that describes it first.
        first_line: usize,
    },
    /// Two ports have the same GUID.
    #[error("the port GUID {guid} has been given to another port in line {first_line}")]
    DuplicatePortGuid {
        /// The GUID.
        guid: Guid,
        /// The line that describes the other port.
        first_line: usize,
    },
    /// Another line connects the port at the other end of a link elsewhere.
    #[error("the link ends in port {port} of {id}, which line {other_line} connects elsewhere")]
    Contradiction {
        /// The node at the other end.
        id: String,
        /// The port at the other end.
        port: PortNum,
        /// The line that states the other connection.
        other_line: usize,
    },
    /// The lines together break a rule for fabrics.
    #[error(transparent)]
    Fabric(#[from] NetlistError),
}

impl ParseReason {
    /// The expected form, which follows the word "expected".
    pub fn expected(&self) -> String {
        match self {
            ParseReason::LineTooLong { .. } => format!("at most {MAX_LINE}"),
            ParseReason::NoNodes => "the output of ibnetdiscover".to_owned(),
            ParseReason::Report { .. } => {
                "the output of ibnetdiscover without an option, which has the GUIDs of all nodes: run `ibnetdiscover > FILE`"
                    .to_owned()
            }
            ParseReason::TooManyNodes => format!("at most {MAX_NODES}"),
            ParseReason::Attribute { expected, .. } | ParseReason::Syntax { expected, .. } => {
                (*expected).to_owned()
            }
            ParseReason::PortCount { .. } => format!("1 to {MAX_PORTS}"),
            ParseReason::PortNumber { num_ports, .. } => format!("1 to {num_ports}"),
            ParseReason::OpenDescription => "a description between double quotes".to_owned(),
            ParseReason::DescriptionNul => "text without NUL".to_owned(),
            ParseReason::Lid { .. } => "0 to 65535".to_owned(),
            ParseReason::Lmc { .. } => "0 to 7".to_owned(),
            ParseReason::IdentifierKind { letter, .. } => {
                format!("an identifier that starts with `{letter}-`")
            }
            ParseReason::GuidMismatch { .. } => "the same GUID in both".to_owned(),
            ParseReason::NoHeader => {
                "a line like `Switch 41 \"S-0002c90300001234\"` before it".to_owned()
            }
            ParseReason::DuplicateNode { .. } => "each node once".to_owned(),
            ParseReason::DuplicatePort { .. } => "each port once".to_owned(),
            ParseReason::DuplicatePortGuid { .. } => "a GUID of its own for each port".to_owned(),
            ParseReason::Contradiction { .. } => "both ends to name each other".to_owned(),
            ParseReason::Fabric(_) => "a fabric that can exist".to_owned(),
        }
    }
}
