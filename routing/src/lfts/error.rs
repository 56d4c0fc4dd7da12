use std::fmt;

use rsm_ids::{Guid, Lid};

use super::MAX_LINE;

/// A file of forwarding tables cannot be read: `tables.dump:17: reason, expected …`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseError {
    /// The file, as it was named to [`parse`](super::parse).
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

/// The error in a line. Text from the file is quoted as far as it goes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseReason {
    /// The line is longer than any program prints.
    #[error("the line has {len} bytes")]
    LineTooLong {
        /// Its length in bytes.
        len: usize,
    },
    /// There is no switch in the whole file.
    #[error("the file has no forwarding table")]
    NoTables,
    /// The file holds multicast tables, in part or as a whole.
    #[error("a multicast forwarding table begins here")]
    Multicast,
    /// The line is none of those that belong to the format.
    #[error("`{found}` belongs to no forwarding table")]
    Unknown {
        /// The text read, cut off after some bytes.
        found: String,
    },
    /// A line that names a switch without a GUID that can be read.
    #[error("`{found}` in place of the switch's GUID")]
    SwitchGuid {
        /// The text read, cut off after some bytes.
        found: String,
    },
    /// The first field of an entry.
    #[error("the LID `{found}`")]
    Lid {
        /// The text read, cut off after some bytes.
        found: String,
    },
    /// The second field of an entry.
    #[error("the port `{found}`")]
    Port {
        /// The text read, cut off after some bytes; empty at the end of the line.
        found: String,
    },
    /// The GUID of the port that an entry leads to.
    #[error("the port GUID `{found}`")]
    PortGuid {
        /// The text read, cut off after some bytes.
        found: String,
    },
    /// An entry before any switch.
    #[error("the entry belongs to no switch")]
    NoSwitch,
    /// A switch that was there before.
    #[error("the table of switch {guid} has begun in line {first_line}")]
    DuplicateSwitch {
        /// The switch.
        guid: Guid,
        /// Where its table is first.
        first_line: usize,
    },
    /// Two entries of one switch that send a LID two ways.
    #[error("line {first_line} sends {lid:?} out of another port")]
    DuplicateLid {
        /// The LID.
        lid: Lid,
        /// Where it is first.
        first_line: usize,
    },
    /// A LID with two owners.
    #[error("{lid:?} belongs to {guid} here, and to {other} in line {other_line}")]
    Owner {
        /// The LID.
        lid: Lid,
        /// Its owner here.
        guid: Guid,
        /// Its owner where it is named first.
        other: Guid,
        /// Where that is.
        other_line: usize,
    },
}

impl ParseReason {
    /// The correct form, to follow the word "expected".
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
