//! Recognises the format of a file from its content.

use super::ParseReason;
use super::cursor::Cursor;
use super::ibsim::Settings;
use super::line::{self, Line, header_kind};

/// The format of a file, with the values that hold for its next lines.
pub(super) enum Format {
    Ibnetdiscover,
    Ibsim(Box<Settings>),
}

impl Format {
    /// Recognises the format of a file: the file is an ibsim netlist if its headers have names in
    /// place of GUIDs.
    ///
    /// One identifier of 16 letters and digits, as tools print it, makes the file the output of
    /// ibnetdiscover, even if it is no hexadecimal number.
    pub(super) fn of(text: &[u8]) -> Format {
        let mut is_named = false;
        for line in text.split(|&byte| byte == b'\n') {
            let Some(id) = header_id(line.trim_ascii()) else {
                continue;
            };
            match digits_of(id) {
                Some(digits) if is_printed(digits) => return Format::Ibnetdiscover,
                Some(digits) if is_hex(digits) => {}
                _ => is_named = true,
            }
        }
        if is_named {
            Format::Ibsim(Box::default())
        } else {
            Format::Ibnetdiscover
        }
    }

    /// Reads a line, without its line feed.
    pub(super) fn read(&mut self, line: &[u8]) -> Result<Line, ParseReason> {
        match self {
            Format::Ibnetdiscover => line::read(line),
            Format::Ibsim(settings) => settings.read(line),
        }
    }
}

/// The text between the quotes of a header.
fn header_id(line: &[u8]) -> Option<&[u8]> {
    let mut cursor = Cursor::new(line);
    header_kind(&mut cursor)?;
    cursor.number("").ok()?;
    cursor.skip_blanks();
    cursor.quoted("").ok()
}

/// The text after `S-`, `H-` or `R-`.
fn digits_of(id: &[u8]) -> Option<&[u8]> {
    match id {
        [b'S' | b'H' | b'R', b'-', digits @ ..] => Some(digits),
        _ => None,
    }
}

fn is_printed(digits: &[u8]) -> bool {
    digits.len() == 16 && digits.iter().all(u8::is_ascii_alphanumeric)
}

fn is_hex(digits: &[u8]) -> bool {
    let digits = digits.strip_prefix(b"0x").unwrap_or(digits);
    (1..=16).contains(&digits.len()) && digits.iter().all(u8::is_ascii_hexdigit)
}
