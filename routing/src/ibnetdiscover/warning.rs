//! The remarks of the parser on lines of a topology file.

use std::fmt;

use rsm_ids::{Guid, Lid, PortNum};

use super::ParseReason;
use crate::netlist::LinkRate;

/// A remark on a line of a topology file, for the operator. The file was read nevertheless.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// The line, counted from 1.
    pub line: usize,
    /// The kind of the remark.
    pub kind: WarningKind,
}

impl Warning {
    /// Extends the lines that are left out together up to `line`.
    pub(super) fn extend_to(&mut self, line: usize) {
        if let WarningKind::LeftOut {
            part: LeftOut::Lines { last_line } | LeftOut::Node { last_line },
            ..
        } = &mut self.kind
        {
            *last_line = line;
        }
    }
}

/// The part of a fabric that a lenient reading leaves out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeftOut {
    /// The line, and the following link lines up to `last_line`, which belong to no node.
    Lines {
        /// The last of the lines that are left out together.
        last_line: usize,
    },
    /// The node, with its links up to `last_line`.
    Node {
        /// The last line of the node.
        last_line: usize,
    },
    /// The link that the line states. The cable stays if the other end states it as well.
    Link,
    /// The GUID and the LID that the line states for a port.
    Address,
    /// The GUID above the header; the identifier in the header counts.
    Guid,
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LeftOut::Lines { last_line } => write!(f, "left out up to line {last_line}"),
            LeftOut::Node { last_line } => {
                write!(
                    f,
                    "the node is left out with its links, up to line {last_line}"
                )
            }
            LeftOut::Link => f.write_str("the link is left out"),
            LeftOut::Address => f.write_str("the port's GUID and LID are left out"),
            LeftOut::Guid => f.write_str("the identifier counts"),
        }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.kind)
    }
}

/// The kind of a remark on a line, and how the parser treats the line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WarningKind {
    /// The lines up to `last_line` are not part of a topology; they are skipped.
    Ignored {
        /// The last of the lines that were skipped together.
        last_line: usize,
    },
    /// The link's other end is not in the file; there is no cable.
    UnknownPeer {
        /// The node that is missing.
        id: String,
    },
    /// The node at the other end does not list this link; there is a cable.
    OneSided {
        /// The node at the other end.
        id: String,
        /// The port of that node.
        port: PortNum,
    },
    /// The two ends state different rates; the lower width and speed count.
    RateMismatch {
        /// The rate that this line states.
        here: LinkRate,
        /// The rate that the other end's line states.
        there: LinkRate,
        /// The line of the other end.
        other_line: usize,
    },
    /// Neither end of the link has a readable rate; 4xSDR, the slowest, is assumed.
    NoRate,
    /// The line has no readable rate; the rate of the other end counts.
    RateOfOtherEnd {
        /// The rate that the other end's line states.
        there: LinkRate,
        /// The line of the other end.
        other_line: usize,
    },
    /// Both ends of the cable are at one node. The cable is kept, and carries nothing.
    Loop {
        /// The name of the node.
        id: String,
        /// The port that the line describes.
        port: PortNum,
        /// The port at the other end; equal to `port` for a loop-back plug.
        to: PortNum,
    },
    /// The link states another GUID for the port at its other end; the line of that node counts.
    PeerGuidMismatch {
        /// The GUID that this line states.
        here: Guid,
        /// The GUID that the node itself states.
        there: Guid,
    },
    /// The link states another LID for its other end; the line of that node counts.
    PeerLidMismatch {
        /// The LID that this line states.
        here: Lid,
        /// The LID that the node itself states.
        there: Lid,
    },
    /// The line contradicts the format or another line; the rest of the fabric counts.
    LeftOut {
        /// The part that is left out.
        part: LeftOut,
        /// The error in the line.
        reason: ParseReason,
    },
    /// The GUID above the header belongs to the system image; the identifier in the header counts.
    SystemImageGuid {
        /// The number of nodes with such a GUID; the warning states the line of the first one.
        nodes: usize,
    },
    /// The line begins the attributes of a node, but no header follows; they are left out.
    NoNode,
    /// The file ends in this line without a line feed: the rest of the line may be missing.
    NoLineFeed,
    /// The description is longer than the 64 bytes that a node can hold, and is cut off.
    LongDescription {
        /// The length of the description in bytes.
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
            WarningKind::RateOfOtherEnd { there, other_line } => write!(
                f,
                "no rate that can be read; {there} of line {other_line} counts"
            ),
            WarningKind::Loop { id, port, to } if port == to => write!(
                f,
                "port {port} of {id} is cabled to itself, and carries nothing; pull the plug, or correct the port"
            ),
            WarningKind::Loop { id, port, to } => write!(
                f,
                "a cable from port {port} to port {to} of one node, {id}: it carries nothing; pull it, or correct a port"
            ),
            WarningKind::PeerGuidMismatch { here, there } => write!(
                f,
                "GUID {here} for a port that calls itself {there}; its own counts"
            ),
            WarningKind::PeerLidMismatch { here, there } => write!(
                f,
                "LID {here} for a port that says it has {there}; its own counts"
            ),
            WarningKind::LeftOut { part, reason } => {
                write!(f, "{reason}, expected {}; {part}", reason.expected())
            }
            WarningKind::SystemImageGuid { nodes } => write!(
                f,
                "GUID of the system image above the header (nodes: {nodes}); the identifier counts"
            ),
            WarningKind::NoNode => f.write_str("attributes of no node; left out"),
            WarningKind::NoLineFeed => f.write_str("no line feed at the end; may be cut off"),
            WarningKind::LongDescription { len } => {
                write!(f, "description of {len} bytes; cut off after 64")
            }
        }
    }
}
