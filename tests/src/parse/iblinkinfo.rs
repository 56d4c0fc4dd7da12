//! Parses the output of `iblinkinfo --line`: one line per port, with both ends.

use crate::error::Error;

/// A port and the other end of its cable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkLine {
    /// The port GUID of a CA, or the node GUID of a switch.
    pub guid: u64,
    /// The LID of the port; for a switch, the LID of port 0.
    pub lid: u16,
    /// The port number.
    pub port: u8,
    /// The logical state as printed: `Down`, `Initialize`, `Armed`, `Active`.
    pub state: String,
    /// The physical state as printed: `LinkUp`, `Polling`, `Disabled` …
    pub physical_state: String,
    /// The other end; `None` without a cable.
    pub peer: Option<LinkEnd>,
}

/// The far end of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkEnd {
    /// The port GUID of a CA, or the node GUID of a switch.
    pub guid: u64,
    /// The LID of the port; for a switch, the LID of port 0.
    pub lid: u16,
    /// The port number.
    pub port: u8,
}

impl LinkLine {
    /// Tells whether the port has an Active link.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.state == "Active"
    }

    /// Tells whether the port has a link in any state.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.physical_state == "LinkUp"
    }
}

/// Reads the output of `iblinkinfo --line`.
///
/// # Errors
///
/// A line does not have the expected form.
pub fn parse(output: &str) -> Result<Vec<LinkLine>, Error> {
    output
        .lines()
        .filter(|line| line.contains("==("))
        .map(|line| {
            parse_line(line).ok_or_else(|| Error::Output {
                program: "iblinkinfo".into(),
                detail: line.to_owned(),
            })
        })
        .collect()
}

/// Parses a line: `0x… "name" lid port[ ] ==( 4X 25.78125 Gbps Active/ LinkUp)==> 0x… lid port[ ]
/// "name" (…)`.
fn parse_line(line: &str) -> Option<LinkLine> {
    let (near, rest) = line.split_once("==(")?;
    let (link, far) = rest.split_once(")==>")?;
    let guid = super::hex(near.split_whitespace().next()?)?;
    // A name may contain any character, including quotes; the text after the last quote contains no
    // name.
    let (lid, port) = lid_and_port(&near[near.rfind('"')? + 1..])?;
    let (state, physical_state) = link.rsplit_once('/')?;
    let state = state.split_whitespace().last()?.to_owned();
    let peer = match far.trim_start().split_once(char::is_whitespace) {
        Some((guid, rest)) if guid.starts_with("0x") => {
            let (lid, port) = lid_and_port(rest)?;
            Some(LinkEnd {
                guid: super::hex(guid)?,
                lid,
                port,
            })
        }
        _ => None,
    };
    Some(LinkLine {
        guid,
        lid,
        port,
        state,
        physical_state: physical_state.trim().into(),
        peer,
    })
}

/// Parses a LID and a port number: ` 5 1[ ] …`.
fn lid_and_port(text: &str) -> Option<(u16, u8)> {
    let (numbers, _) = text.split_once('[')?;
    let mut numbers = numbers.split_whitespace();
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::{LinkEnd, parse};

    #[test]
    fn active_ports_and_ports_without_a_cable_are_read() {
        let lines = parse(concat!(
            "0x0000000000200000 \"       Sw \"1\"\"      2    3[  ] ==( 4X           2.5 Gbps Active/  LinkUp)==>",
            "  0x0000000000200001      3    5[  ] \"Switch2\" (Could be 12X Could be 10.0 Gbps)\n",
            "0x0000000000200000 \"                       Switch1\"      2    4[  ] ==(                Down/ Polling)==>",
            "             [  ] \"\" ( )\n"
        ))
        .unwrap();
        assert!(lines[0].is_active() && lines[0].is_up());
        assert_eq!((lines[0].lid, lines[0].port), (2, 3));
        assert_eq!(
            lines[0].peer,
            Some(LinkEnd {
                guid: 0x20_0001,
                lid: 3,
                port: 5
            })
        );
        assert!(!lines[1].is_up());
        assert_eq!(lines[1].peer, None);
    }

    #[test]
    fn a_line_of_another_form_is_an_error() {
        assert!(parse("0x1 \"x\" 2 3 ==( 4X Active/ LinkUp)==>").is_err());
    }
}
