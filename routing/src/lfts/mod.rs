//! Reads forwarding tables in the text forms of other programs, and fits them to a fabric.
//!
//! Three forms are read, with LF or CRLF, and may be mixed in one file:
//!
//! - `opensm-lfts.dump`, which OpenSM writes and reads back with `-U`:
//!   `Unicast lids [0-6] of switch Lid 1 guid 0x0000000000200000 ('Switch1'):` and under it
//!   `0x0002 001 # Channel Adapter portguid 0x0000000000100001: 'Hca1'`;
//! - the output of `ibroute` and `dump_fts`, which is nearly the same, also without destinations
//!   (`-n`) and with the entries that lead nowhere (`-a`);
//! - `opensm.fdbs` and `ibdiagnet2.fdbs`: `dump_ucast_routes: Switch 0x0000000000200000` and under
//!   it `0x0004 : 003  : 02   : yes` or `0x0005 : UNREACHABLE`.
//!
//! A file may be incomplete: a switch that it leaves out has no tables, and a LID that it leaves
//! out has no path. Contradictory lines about one switch or one LID are an error that names both
//! lines.

mod error;
mod fit;
mod line;

use std::collections::BTreeMap;

use rsm_ids::{Guid, Lid};

pub use error::{ParseError, ParseReason};
pub use fit::Fit;

use crate::tables::NO_PATH;
use line::Line;

/// The maximum length of a line, in bytes: the limit of OpenSM's own reader. A line names a switch
/// or a port with a description of 64 bytes.
pub const MAX_LINE: usize = 1024;

/// The number of LIDs from 0 to the last unicast LID.
const LIDS: usize = Lid::UNICAST_LAST.0 as usize + 1;

/// The forwarding tables of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dump {
    /// The switches in the order of the file.
    pub switches: Vec<DumpedSwitch>,
    /// The GUID of the port that held each LID when the file was written, if the file states it.
    pub owners: BTreeMap<Lid, Guid>,
}

/// The forwarding table of one switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DumpedSwitch {
    /// The node GUID.
    pub guid: Guid,
    /// The number of the line, from 1, where its table begins.
    pub line: usize,
    /// Pairs of (LID, output port), sorted by LID, without LIDs that have no path.
    pub entries: Vec<(Lid, u8)>,
}

/// Reads forwarding tables from `text`, the contents of the file `name` (which only errors
/// mention).
///
/// ```
/// use rsm_ids::Lid;
///
/// let text = br#"
/// Unicast lids [0-2] of switch Lid 1 guid 0x0000000000200000 ('Switch1'):
/// 0x0001 000 # Switch portguid 0x0000000000200000: 'Switch1'
/// 0x0002 001 # Channel Adapter portguid 0x0000000000100001: 'Hca1'
/// 2 lids dumped
/// "#;
/// let dump = rsm_routing::lfts::parse(text, "example")?;
/// assert_eq!(dump.switches[0].entries, [(Lid(1), 0), (Lid(2), 1)]);
/// # Ok::<(), rsm_routing::lfts::ParseError>(())
/// ```
///
/// # Errors
/// The first line that cannot be read or that contradicts an earlier line; or that there is no
/// table.
pub fn parse(text: &[u8], name: &str) -> Result<Dump, ParseError> {
    let mut reader = Reader::new();
    let mut lines = 0;
    for (index, bytes) in text.split(|&byte| byte == b'\n').enumerate() {
        lines = index + 1;
        let read = if bytes.len() > MAX_LINE {
            Err(ParseReason::LineTooLong { len: bytes.len() })
        } else {
            line::read(bytes).and_then(|line| reader.add_line(line, lines))
        };
        read.map_err(|reason| ParseError {
            file: name.to_owned(),
            line: lines,
            reason,
        })?;
    }
    reader.finish().map_err(|reason| ParseError {
        file: name.to_owned(),
        line: lines,
        reason,
    })
}

/// Collects the lines of a file into tables.
struct Reader {
    dump: Dump,
    /// For each switch GUID, the line where its table begins.
    table_lines: BTreeMap<Guid, usize>,
    /// For each LID, the last line with an entry for it, and the port. The entry belongs to the
    /// current switch if it comes after the line where that switch's table begins.
    seen: Vec<(usize, u8)>,
    /// For each LID, the first line that states its owner.
    owner_lines: Vec<usize>,
}

impl Reader {
    fn new() -> Reader {
        Reader {
            dump: Dump::default(),
            table_lines: BTreeMap::new(),
            seen: vec![(0, NO_PATH); LIDS],
            owner_lines: vec![0; LIDS],
        }
    }

    /// Adds one line; `number` is its number, from 1.
    fn add_line(&mut self, line: Line, number: usize) -> Result<(), ParseReason> {
        match line {
            Line::Nothing => Ok(()),
            Line::Switch(guid) => self.begin_switch(guid, number),
            Line::Entry { lid, port, owner } => {
                self.add_entry(lid, port, number)?;
                match owner {
                    Some(guid) => self.set_owner(lid, guid, number),
                    None => Ok(()),
                }
            }
        }
    }

    /// Begins the table of a switch.
    fn begin_switch(&mut self, guid: Guid, number: usize) -> Result<(), ParseReason> {
        if let Some(&first_line) = self.table_lines.get(&guid) {
            return Err(ParseReason::DuplicateSwitch { guid, first_line });
        }
        self.table_lines.insert(guid, number);
        self.dump.switches.push(DumpedSwitch {
            guid,
            line: number,
            entries: Vec::new(),
        });
        Ok(())
    }

    /// Adds an entry to the table of the current switch.
    fn add_entry(&mut self, lid: Lid, port: u8, number: usize) -> Result<(), ParseReason> {
        let Some(switch) = self.dump.switches.last_mut() else {
            return Err(ParseReason::NoSwitch);
        };
        let seen = &mut self.seen[lid.index()];
        if seen.0 > switch.line {
            return if seen.1 == port {
                Ok(())
            } else {
                Err(ParseReason::DuplicateLid {
                    lid,
                    first_line: seen.0,
                })
            };
        }
        *seen = (number, port);
        if port != NO_PATH {
            switch.entries.push((lid, port));
        }
        Ok(())
    }

    /// Records the GUID of the port that held a LID.
    fn set_owner(&mut self, lid: Lid, guid: Guid, number: usize) -> Result<(), ParseReason> {
        let first_line = &mut self.owner_lines[lid.index()];
        match self.dump.owners.insert(lid, guid) {
            None => *first_line = number,
            Some(other) if other == guid => {}
            Some(other) => {
                return Err(ParseReason::Owner {
                    lid,
                    guid,
                    other,
                    other_line: *first_line,
                });
            }
        }
        Ok(())
    }

    /// Sorts the entries, and returns the tables; fails if there are none.
    fn finish(mut self) -> Result<Dump, ParseReason> {
        if self.dump.switches.is_empty() {
            return Err(ParseReason::NoTables);
        }
        for switch in &mut self.dump.switches {
            switch.entries.sort_unstable();
        }
        Ok(self.dump)
    }
}

#[cfg(test)]
mod tests;
