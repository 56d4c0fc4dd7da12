//! Reads and writes the text form in which `ibnetdiscover` prints a fabric.
//!
//! The format has no specification; programs read the actual output of other programs. This parser
//! accepts:
//!
//! - the layout of every release, with tabs, blanks, or neither (terminal logs lose them), LF or
//!   CRLF;
//! - `-f` fields after the rate (`s= w= v= e=`), chassis mode's `[ext 7]` and `# Chassis 1`, and
//!   labels of ports (`[1](1/1/1)`), all of which it skips;
//! - files of ibdiagnet, which have the system image GUID in `switchguid=`: the identifier in the
//!   header then identifies the node;
//! - headings and prompts in between (each reported as a [`Warning`]);
//! - nodes without `sysimgguid=`, without links, or without a LID (also `lid` without a number),
//!   and any LID and LMC that a port can hold;
//! - links that only one end states, and links to nodes that are not in the file (both reported);
//! - descriptions with quotes, backslashes, `#`, `=` and bytes that are not UTF-8.
//!
//! A file that contradicts itself about one port is an error that states both lines. [`parse_as`]
//! can leave out such lines and unreadable lines, and report each.
//!
//! A file whose headers have names in place of GUIDs is a netlist of `ibsim`. The parser reads it
//! as `ibsim` does, with the GUIDs that `ibsim` gives to nodes, except that `include`, `do` and
//! port aliases are errors.
//!
//! Two additions make the text form complete without harm to other programs: control characters in
//! a description are written as `\x07`, and a comment, `# [2](2c90300001236) lid 5 lmc 0`, states a
//! port without a cable that has a GUID or a LID.

mod assemble;
mod comment;
mod connect;
mod cursor;
mod error;
mod format;
mod ibsim;
mod line;
mod report;
mod text;
mod warning;
mod write;

use rsm_ids::Guid;

use crate::netlist::{MAX_NODES, Netlist, NodeKind};

pub(crate) use cursor::quote;
pub use error::{ParseError, ParseReason};
pub use warning::{LeftOut, Warning, WarningKind};
pub use write::write;

use assemble::Assembly;
use format::Format;
use line::{Line, StatedPart};

/// The maximum length of a line in bytes.
///
/// Written lines stay below 400 bytes: a link with its identifiers, and a description of 64 escaped
/// bytes. A file with longer lines is no topology file.
pub const MAX_LINE: usize = 1024;

/// The identifier of a node in a link: kind and node GUID, `"H-0002c90300001234"`.
type NodeId = (NodeKind, Guid);

/// The identifier as text, such as `H-0002c90300000020`.
fn id_text((kind, guid): NodeId) -> String {
    format!("{}-{:016x}", kind.letter(), guid.0)
}

/// The content of a file, with warnings.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Parsed {
    /// The fabric.
    pub netlist: Netlist,
    /// Remarks for the operator, in the order of the file's lines.
    pub warnings: Vec<Warning>,
}

/// The treatment of lines that are unreadable or contradict other lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Strictness {
    /// The first such line makes the whole file an error.
    #[default]
    Strict,
    /// The parser leaves out, with a warning, the smallest part that such a line spoils: the line,
    /// the link, or the node with its links.
    Lenient,
}

impl Strictness {
    /// The strictness that an option `--lenient` selects.
    pub fn lenient_if(lenient: bool) -> Strictness {
        if lenient {
            Strictness::Lenient
        } else {
            Strictness::Strict
        }
    }
}

/// Reads a fabric from `text`, the contents of the file `name` (which only errors mention).
///
/// Nodes are in the order of the file. A switch's port 0 gets the port GUID of `switchguid=`, if
/// there is one, and the header's LID and LMC. If the ends of a cable state different rates, the
/// lower width and the lower speed count, as in link training.
///
/// ```
/// let text = br#"
/// Switch 41 "S-0002c90300000010" # "leaf" enhanced port 0 lid 73 lmc 0
/// [1] "H-0002c90300000020"[1](2c90300000020) # "host mlx5_0" lid 5 4xHDR
///
/// Ca 1 "H-0002c90300000020" # "host mlx5_0"
/// [1](2c90300000020) "S-0002c90300000010"[1] # lid 5 lmc 0 "leaf" lid 73 4xHDR
/// "#;
/// let parsed = rsm_routing::ibnetdiscover::parse(text, "example")?;
/// assert_eq!(parsed.netlist.cables().len(), 1);
/// assert!(parsed.warnings.is_empty());
/// # Ok::<(), rsm_routing::ibnetdiscover::ParseError>(())
/// ```
///
/// # Errors
/// The first line that is unreadable or contradicts another line.
pub fn parse(text: &[u8], name: &str) -> Result<Parsed, ParseError> {
    parse_as(text, name, Strictness::Strict)
}

/// Reads a fabric as [`parse`] does, with a choice for unreadable and contradictory lines.
///
/// # Errors
/// The errors of [`parse`]. A lenient reading fails only if no node is left (with the error of the
/// first line left out), or if there are more nodes than a subnet can have.
pub fn parse_as(text: &[u8], name: &str, strictness: Strictness) -> Result<Parsed, ParseError> {
    read(text, strictness).map_err(|(line, reason)| ParseError {
        file: name.to_owned(),
        line,
        reason,
    })
}

/// An error, with its line, counted from 1.
type Fault = (usize, ParseReason);

/// Reads a fabric as [`parse_as`] does, without the file's name.
fn read(text: &[u8], strictness: Strictness) -> Result<Parsed, Fault> {
    let mut format = Format::of(text);
    let mut assembly = Assembly::new(strictness);
    let mut last = (0, &b""[..]);
    for (index, bytes) in text.split(|&byte| byte == b'\n').enumerate() {
        let number = index + 1;
        last = (number, bytes);
        if let Err(fault) = read_line(&mut format, &mut assembly, number, bytes) {
            assembly.refuse_line(fault, StatedPart::of(bytes))?;
        }
    }
    let (line, bytes) = last;
    if assembly.nodes.is_empty() {
        let why = report::recognise(text).or_else(|| assembly.first_left_out());
        return Err(why.unwrap_or((line, ParseReason::NoNodes)));
    }
    let mut parsed = assembly.finish()?;
    if !bytes.trim_ascii().is_empty() {
        let kind = WarningKind::NoLineFeed;
        parsed.warnings.push(Warning { line, kind });
    }
    Ok(parsed)
}

/// Reads one line into `assembly`; `number` is its number, from 1.
fn read_line(
    format: &mut Format,
    assembly: &mut Assembly,
    number: usize,
    bytes: &[u8],
) -> Result<(), Fault> {
    let len = bytes.len();
    if len > MAX_LINE {
        return Err((number, ParseReason::LineTooLong { len }));
    }
    match format.read(bytes).map_err(|reason| (number, reason))? {
        Line::Empty => {}
        Line::Noise => assembly.skip_line(number),
        Line::Attribute(attribute) => assembly.add_attribute(attribute, number),
        Line::Setting => assembly.end_record(),
        Line::Header(header) => assembly.add_node(header, number)?,
        Line::Port(port) => assembly.add_link(port, number)?,
        Line::Unplugged(port) => assembly.add_unplugged(port, number)?,
    }
    Ok(())
}

/// Checks that the number of nodes permits one more.
fn check_node_count(count: usize) -> Result<(), ParseReason> {
    if count < MAX_NODES {
        Ok(())
    } else {
        Err(ParseReason::TooManyNodes)
    }
}

#[cfg(test)]
mod tests;
