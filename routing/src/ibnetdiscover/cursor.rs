//! Reads a line from left to right.

use rsm_ids::Guid;

use super::{NodeId, ParseReason};
use crate::netlist::NodeKind;

/// The maximum length, in bytes, of a text from the file that an error quotes: enough to find the
/// place.
const MAX_QUOTE: usize = 24;

/// The beginning of a text from a file, with escapes so that it is safe for a terminal.
pub(crate) fn quote(text: &[u8]) -> String {
    text[..text.len().min(MAX_QUOTE)].escape_ascii().to_string()
}

/// A position in a line.
#[derive(Clone)]
pub(super) struct Cursor<'a> {
    line: &'a [u8],
    /// The number of bytes that were read.
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(line: &'a [u8]) -> Self {
        Cursor { line, at: 0 }
    }

    /// The unread part of the line.
    pub(super) fn rest(&self) -> &'a [u8] {
        &self.line[self.at..]
    }

    pub(super) fn skip_blanks(&mut self) {
        self.at += self
            .rest()
            .iter()
            .take_while(|byte| byte.is_ascii_whitespace())
            .count();
    }

    /// Skips `text` if it comes next, and returns whether it did.
    pub(super) fn eat(&mut self, text: &[u8]) -> bool {
        let found = self.rest().starts_with(text);
        if found {
            self.at += text.len();
        }
        found
    }

    /// Skips `text`, which must come next.
    pub(super) fn expect(
        &mut self,
        text: &[u8],
        expected: &'static str,
    ) -> Result<(), ParseReason> {
        if self.eat(text) {
            Ok(())
        } else {
            Err(self.unexpected(expected))
        }
    }

    /// The error that something other than `expected` comes next.
    pub(super) fn unexpected(&self, expected: &'static str) -> ParseReason {
        ParseReason::Syntax {
            found: quote(self.rest()),
            column: self.at + 1,
            expected,
        }
    }

    /// Reads an unsigned decimal number. A number beyond 64 bits becomes `u64::MAX`, which is out
    /// of every range.
    pub(super) fn number(&mut self, expected: &'static str) -> Result<u64, ParseReason> {
        let digits = self
            .rest()
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        if digits == 0 {
            return Err(self.unexpected(expected));
        }
        let value = self.rest()[..digits].iter().fold(0u64, |value, digit| {
            value
                .saturating_mul(10)
                .saturating_add(u64::from(digit - b'0'))
        });
        self.at += digits;
        Ok(value)
    }

    /// Reads a hexadecimal number of up to 16 digits, with or without `0x`.
    pub(super) fn hex(&mut self, expected: &'static str) -> Result<u64, ParseReason> {
        let start = self.clone();
        let _ = self.eat(b"0x");
        let digits = self
            .rest()
            .iter()
            .take_while(|byte| byte.is_ascii_hexdigit())
            .count();
        let value = std::str::from_utf8(&self.rest()[..digits])
            .ok()
            .filter(|text| text.len() <= 16)
            .and_then(|text| u64::from_str_radix(text, 16).ok())
            .ok_or_else(|| start.unexpected(expected))?;
        self.at += digits;
        Ok(value)
    }

    /// Reads a number as C does: decimal, octal after `0`, hexadecimal after `0x`. `None` if there
    /// is no number, or one of more than 64 bits.
    pub(super) fn c_number(&mut self) -> Option<u64> {
        let (prefix, radix) = match self.rest() {
            [b'0', b'x' | b'X', ..] => (2, 16),
            [b'0', b'0'..=b'7', ..] => (1, 8),
            _ => (0, 10),
        };
        let digits = self.rest()[prefix..]
            .iter()
            .take_while(|byte| char::from(**byte).is_digit(radix))
            .count();
        let text = std::str::from_utf8(&self.rest()[prefix..prefix + digits]).ok()?;
        let number = u64::from_str_radix(text, radix).ok()?;
        self.at += prefix + digits;
        Some(number)
    }

    /// Reads a text between double quotes.
    pub(super) fn quoted(&mut self, expected: &'static str) -> Result<&'a [u8], ParseReason> {
        let start = self.clone();
        self.expect(b"\"", expected)?;
        let text = self.rest();
        let end = text.iter().position(|byte| *byte == b'"');
        let Some(end) = end else {
            return Err(start.unexpected(expected));
        };
        self.at += end + 1;
        Ok(&text[..end])
    }

    /// Reads `[7]`, and skips the `[ext 3]` that chassis mode puts after it.
    pub(super) fn bracketed_port(&mut self) -> Result<u64, ParseReason> {
        const EXPECTED: &str = "a port number like `[7]`";
        self.expect(b"[", EXPECTED)?;
        let port = self.number(EXPECTED)?;
        self.expect(b"]", EXPECTED)?;
        if self.eat(b"[ext ") {
            self.number("an external port number like `[ext 3]`")?;
            self.expect(b"]", "`]`")?;
        }
        Ok(port)
    }

    /// Reads a GUID such as `(2c90300001235)` if a parenthesis comes next. `None` if not, for the
    /// GUID 0, and for a port label such as `(1/1/1)`.
    pub(super) fn parenthesised_guid(&mut self) -> Result<Option<Guid>, ParseReason> {
        const EXPECTED: &str = "a port GUID like `(2c90300001235)`";
        let start = self.clone();
        if !self.eat(b"(") {
            return Ok(None);
        }
        let Some(len) = self.rest().iter().position(|byte| *byte == b')') else {
            return Err(start.unexpected(EXPECTED));
        };
        let text = &self.rest()[..len];
        if is_port_label(text) {
            self.at += len + 1;
            return Ok(None);
        }
        let inside = self.clone();
        let guid = self.hex(EXPECTED)?;
        if !self.eat(b")") {
            return Err(inside.unexpected(EXPECTED));
        }
        Ok(Some(Guid(guid)).filter(|guid| !guid.is_zero()))
    }

    /// Reads an identifier such as `"S-0002c90300001234"`.
    pub(super) fn identifier(&mut self) -> Result<NodeId, ParseReason> {
        const EXPECTED: &str = "an identifier like `\"S-0002c90300001234\"`";
        let start = self.clone();
        self.expect(b"\"", EXPECTED)?;
        let kind = if self.eat(b"S-") {
            NodeKind::Switch
        } else if self.eat(b"H-") {
            NodeKind::Ca
        } else if self.eat(b"R-") {
            NodeKind::Router
        } else {
            return Err(start.unexpected(EXPECTED));
        };
        let guid = self.hex(EXPECTED)?;
        if !self.eat(b"\"") || guid == 0 {
            return Err(start.unexpected(EXPECTED));
        }
        Ok((kind, Guid(guid)))
    }
}

/// Whether a text between parentheses after a port number is the label on the device: the numbers
/// of cage, port and split (`1/1/1`), or a short name (`swp1`).
fn is_port_label(text: &[u8]) -> bool {
    const SHORTEST_GUID: usize = 8;
    let digits = text.strip_prefix(b"0x").unwrap_or(text);
    let is_hex = !digits.is_empty() && digits.iter().all(u8::is_ascii_hexdigit);
    let is_word = text.iter().all(u8::is_ascii_alphanumeric);
    !is_hex && !text.contains(&b'"') && (!is_word || text.len() < SHORTEST_GUID)
}
