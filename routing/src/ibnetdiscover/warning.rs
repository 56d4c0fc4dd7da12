use std::fmt;

use rsm_ids::{Guid, Lid, PortNum};

use crate::netlist::LinkRate;

/// A remark on a topology file for the operator. The parser has read the file all the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// The line, counted from 1.
    pub line: usize,
    /// The kind of the remark.
    pub kind: WarningKind,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.kind)
    }
}

/// The kind of a remark on a line, and how the parser treats the line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WarningKind {
    /// The line, and those after it up to `last_line`, are no topology; skipped.
    Ignored {
        /// The last of the lines that were skipped together.
        last_line: usize,
    },
    /// The link's other end is not in the file; there is no cable.
    UnknownPeer {
        /// The node that is missing.
        id: String,
    },
    /// The other end's node does not list this link; there is a cable.
    OneSided {
        /// The node at the other end.
        id: String,
        /// Its port.
        port: PortNum,
    },
    /// The two ends state different rates; the lower width and speed count.
    RateMismatch {
        /// The rate that this line states.
        here: LinkRate,
        /// The rate that the other end's line states.
        there: LinkRate,
        /// The other end's line.
        other_line: usize,
    },
    /// The link has no rate that can be read; it counts as the slowest, 4xSDR.
    NoRate,
    /// The link states another GUID for the port at its other end; that node's own line counts.
    PeerGuidMismatch {
        /// The GUID that this line states.
        here: Guid,
        /// The GUID that the node itself states.
        there: Guid,
    },
    /// The link states another LID for its other end; that node's own line counts.
    PeerLidMismatch {
        /// The LID that this line states.
        here: Lid,
        /// The LID that the node itself states.
        there: Lid,
    },
    /// The description is longer than the 64 bytes a node can hold; it has been cut off.
    LongDescription {
        /// Its length in bytes.
        len: usize,
    },
}

impl fmt::Display for WarningKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WarningKind::Ignored { last_line } => {
                write!(f, "skipped up to line {last_line}: not part of a topology")
            }
            WarningKind::UnknownPeer { id } => {
                write!(f, "link to {id}, which is not in the file; left out")
            }
            WarningKind::OneSided { id, port } => write!(
                f,
                "link to port {port} of {id}, which does not mention it; kept"
            ),
            WarningKind::RateMismatch {
                here,
                there,
                other_line,
            } => write!(
                f,
                "rate {here} here and {there} in line {other_line}; the lower counts"
            ),
            WarningKind::NoRate => write!(f, "no rate that can be read; taken as 4xSDR"),
            WarningKind::PeerGuidMismatch { here, there } => write!(
                f,
                "GUID {here} for a port that calls itself {there}; its own counts"
            ),
            WarningKind::PeerLidMismatch { here, there } => write!(
                f,
                "LID {here} for a port that says it has {there}; its own counts"
            ),
            WarningKind::LongDescription { len } => {
                write!(f, "description of {len} bytes; cut off after 64")
            }
        }
    }
}
