//! Parses one line of a file of forwarding tables.

use rsm_ids::{Guid, Lid};

use super::ParseReason;
use crate::ibnetdiscover::quote;
use crate::tables::NO_PATH;

/// The content of a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// A heading, a count, a comment, or an entry of LID 0, which no port can have.
    Nothing,
    /// The first line of a switch's table.
    Switch(Guid),
    /// The port by which the switch forwards a LID.
    Entry {
        lid: Lid,
        /// The output port; 255 means no path.
        port: u8,
        /// The GUID of the port that has the LID, if the line names it.
        owner: Option<Guid>,
    },
}

/// Reads a line, without its line feed.
pub(super) fn read(line: &[u8]) -> Result<Line, ParseReason> {
    let line = line.trim_ascii();
    if line.starts_with(b"0x") {
        return entry(line);
    }
    if line.starts_with(b"Unicast lids") {
        return switch(after(line, b" guid ").unwrap_or_default());
    }
    if line.starts_with(b"Multicast mlids") {
        return Err(ParseReason::Multicast);
    }
    if let Some(guid) = after(line, b"ucast_routes: Switch ") {
        return switch(guid);
    }
    let is_known = line.is_empty()
        || line.starts_with(b"#")
        || line.ends_with(b"lids dumped")
        || HEADINGS.iter().any(|heading| same_words(line, heading));
    if is_known {
        Ok(Line::Nothing)
    } else {
        Err(ParseReason::Unknown { found: quote(line) })
    }
}

/// The headings of the columns.
const HEADINGS: [&[u8]; 3] = [
    b"LID : Port : Hops : Optimal",
    b"Lid Out Destination",
    b"Port Info",
];

/// Whether a line has the words of a heading, with any blanks between them.
fn same_words(line: &[u8], heading: &[u8]) -> bool {
    words(line).eq(words(heading))
}

/// The words of a text, separated by blanks.
fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty())
}

/// The text after `mark`; `None` if the line does not contain it.
fn after<'a>(line: &'a [u8], mark: &[u8]) -> Option<&'a [u8]> {
    let at = line.windows(mark.len()).position(|window| window == mark)?;
    Some(&line[at + mark.len()..])
}

/// Reads the GUID with which a switch's table begins.
fn switch(text: &[u8]) -> Result<Line, ParseReason> {
    match guid(text) {
        Some((guid, _)) if !guid.is_zero() => Ok(Line::Switch(guid)),
        _ => Err(ParseReason::SwitchGuid { found: quote(text) }),
    }
}

/// Reads an entry: a LID, a port and, perhaps, the GUID of the port that has the LID.
fn entry(line: &[u8]) -> Result<Line, ParseReason> {
    let (lid, rest) = hex(line)
        .filter(|(_, rest)| ends_word(rest))
        .ok_or_else(|| ParseReason::Lid { found: quote(line) })?;
    let lid = u16::try_from(lid)
        .ok()
        .map(Lid)
        .filter(|&lid| lid <= Lid::UNICAST_LAST)
        .ok_or_else(|| ParseReason::Lid { found: quote(line) })?;
    let rest = rest.trim_ascii_start();
    let field = rest.strip_prefix(b":").unwrap_or(rest).trim_ascii_start();
    let (port, rest) = port(field).ok_or_else(|| ParseReason::Port {
        found: quote(field),
    })?;
    let owner = match after(rest, b" portguid ") {
        None => None,
        Some(text) => {
            let (guid, _) =
                guid(text).ok_or_else(|| ParseReason::PortGuid { found: quote(text) })?;
            Some(guid).filter(|guid| !guid.is_zero())
        }
    };
    if lid == Lid::NONE {
        return Ok(Line::Nothing);
    }
    Ok(Line::Entry { lid, port, owner })
}

/// Reads an output port, and returns the rest of the text; `None` if there is none.
fn port(field: &[u8]) -> Option<(u8, &[u8])> {
    if let Some(rest) = field.strip_prefix(b"UNREACHABLE") {
        return ends_word(rest).then_some((NO_PATH, rest));
    }
    let digits = field
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    let (digits, rest) = field.split_at(digits);
    let port = std::str::from_utf8(digits).ok()?.parse().ok()?;
    ends_word(rest).then_some((port, rest))
}

/// Reads a GUID, and returns the rest of the text; `None` if there is none.
fn guid(text: &[u8]) -> Option<(Guid, &[u8])> {
    let (guid, rest) = hex(text)?;
    // `0x0002c90300001235:` and `…1235)` precede a port's name.
    let ends = ends_word(rest) || rest.starts_with(b":") || rest.starts_with(b")");
    ends.then_some((Guid(guid), rest))
}

/// Whether the rest of a text begins with a blank or is empty.
fn ends_word(rest: &[u8]) -> bool {
    rest.first().is_none_or(u8::is_ascii_whitespace)
}

/// Reads a number such as `0x12ab` of up to 16 digits, and returns the rest of the text; `None` if
/// there is none.
fn hex(text: &[u8]) -> Option<(u64, &[u8])> {
    let text = text.strip_prefix(b"0x")?;
    let digits = text
        .iter()
        .take_while(|byte| byte.is_ascii_hexdigit())
        .count();
    let (digits, rest) = text.split_at(digits);
    let digits = std::str::from_utf8(digits)
        .ok()
        .filter(|digits| digits.len() <= 16)?;
    Some((u64::from_str_radix(digits, 16).ok()?, rest))
}
