//! Recognises the format of a file from its content.

use super::ParseReason;
use super::cursor::Cursor;
use super::ibsim::Settings;
use super::line::{self, Line, header_kind};

/// The format of a file, with the settings that apply to its next lines.
pub(super) enum Format {
    Ibnetdiscover,
    Ibsim(Box<Settings>),
}

impl Format {
    /// Recognises the format of a file. A file is an ibsim netlist if a header has a name in place
    /// of a GUID.
    ///
    /// Exception: if any identifier has 16 letters and digits, as tools print it, the file is the
    /// output of ibnetdiscover, even if these are no hexadecimal number.
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

/// The text between the quotes of a header; `None` if the line is no header.
fn header_id(line: &[u8]) -> Option<&[u8]> {
    let mut cursor = Cursor::new(line);
    header_kind(&mut cursor)?;
    cursor.number("").ok()?;
    cursor.skip_blanks();
    cursor.quoted("").ok()
}

/// The text after `S-`, `H-` or `R-`; `None` if the identifier does not begin so.
fn digits_of(id: &[u8]) -> Option<&[u8]> {
    match id {
        [b'S' | b'H' | b'R', b'-', digits @ ..] => Some(digits),
        _ => None,
    }
}

/// Whether the text has the form of a GUID that tools print: 16 letters and digits.
fn is_printed(digits: &[u8]) -> bool {
    digits.len() == 16 && digits.iter().all(u8::is_ascii_alphanumeric)
}

/// Whether the text is a GUID: 1 to 16 hexadecimal digits, with or without `0x`.
fn is_hex(digits: &[u8]) -> bool {
    let digits = digits.strip_prefix(b"0x").unwrap_or(digits);
    (1..=16).contains(&digits.len()) && digits.iter().all(u8::is_ascii_hexdigit)
}
