//! The errors of files of forwarding tables, each with its line and the expected form.

use std::fmt;

use rsm_ids::{Guid, Lid};

use super::MAX_LINE;

/// The error of a file of forwarding tables that cannot be read, displayed as `tables.dump:17:
/// reason, expected …`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseError {
    /// The file name as given to [`parse`](super::parse).
    pub file: String,
    /// The line, counted from 1.
    pub line: usize,
    /// The error in that line.
    pub reason: ParseReason,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let expected = self.reason.expected();
        write!(
            f,
            "{}:{}: {}, expected {expected}",
            self.file, self.line, self.reason
        )
    }
}

impl std::error::Error for ParseError {}

/// The error in a line. Long text from the file is cut off when it is quoted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseReason {
    /// The line is longer than any line of such a file.
    #[error("the line has {len} bytes")]
    LineTooLong {
        /// The length of the line in bytes.
        len: usize,
    },
    /// The file contains no switch.
    #[error("the file has no forwarding table")]
    NoTables,
    /// The file contains multicast tables.
    #[error("a multicast forwarding table begins here")]
    Multicast,
    /// The line does not belong to the format.
    #[error("`{found}` belongs to no forwarding table")]
    Unknown {
        /// The text in the file, perhaps cut off.
        found: String,
    },
    /// The GUID of a switch cannot be read.
    #[error("`{found}` in place of the switch's GUID")]
    SwitchGuid {
        /// The text in the file, perhaps cut off.
        found: String,
    },
    /// The LID, the first field of an entry, cannot be read.
    #[error("the LID `{found}`")]
    Lid {
        /// The text in the file, perhaps cut off.
        found: String,
    },
    /// The port, the second field of an entry, cannot be read.
    #[error("the port `{found}`")]
    Port {
        /// The text in the file, perhaps cut off; empty at the end of the line.
        found: String,
    },
    /// The GUID of the port to which an entry leads cannot be read.
    #[error("the port GUID `{found}`")]
    PortGuid {
        /// The text in the file, perhaps cut off.
        found: String,
    },
    /// An entry precedes the first switch.
    #[error("the entry belongs to no switch")]
    NoSwitch,
    /// A switch has two tables.
    #[error("the table of switch {guid} has begun in line {first_line}")]
    DuplicateSwitch {
        /// The GUID of the switch.
        guid: Guid,
        /// The line where its first table begins.
        first_line: usize,
    },
    /// A switch has two entries with different ports for one LID.
    #[error("line {first_line} sends {lid:?} out of another port")]
    DuplicateLid {
        /// The LID.
        lid: Lid,
        /// The line of the first entry.
        first_line: usize,
    },
    /// A LID has two owners.
    #[error("{lid:?} belongs to {guid} here, and to {other} in line {other_line}")]
    Owner {
        /// The LID.
        lid: Lid,
        /// The owner that this line names.
        guid: Guid,
        /// The owner that was named first.
        other: Guid,
        /// The line that names the first owner.
        other_line: usize,
    },
}

impl ParseReason {
    /// The expected form, which follows the word "expected".
    pub fn expected(&self) -> String {
        match self {
            ParseReason::LineTooLong { .. } => format!("at most {MAX_LINE}"),
            ParseReason::NoTables => {
                "the tables that OpenSM dumps, or what ibroute or dump_fts prints".to_owned()
            }
            ParseReason::Multicast => "unicast forwarding tables".to_owned(),
            ParseReason::Unknown { .. } => {
                "a line like `Unicast lids [0-6] of switch Lid 1 guid 0x0002c90300001234`, \
                 `dump_ucast_routes: Switch 0x0002c90300001234` or `0x0002 001`"
                    .to_owned()
            }
            ParseReason::SwitchGuid { .. } => "a GUID like `0x0002c90300001234`".to_owned(),
            ParseReason::Lid { .. } => "0x0001 to 0xbfff, or 0x0000 for none".to_owned(),
            ParseReason::Port { .. } => "000 to 255, or UNREACHABLE".to_owned(),
            ParseReason::PortGuid { .. } => "a GUID like `0x0002c90300001235`".to_owned(),
            ParseReason::NoSwitch => {
                "a line like `Unicast lids [0-6] of switch Lid 1 guid 0x0002c90300001234` before it"
                    .to_owned()
            }
            ParseReason::DuplicateSwitch { .. } => "each switch once".to_owned(),
            ParseReason::DuplicateLid { .. } => "each LID of a switch once".to_owned(),
            ParseReason::Owner { .. } => "each LID to belong to one port".to_owned(),
        }
    }
}
