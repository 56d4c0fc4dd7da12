//! Decodes the bytes of a file (UTF-8, or UTF-16 with a byte order mark, which PowerShell writes),
//! and parses GUIDs as the kernel writes them.

use std::borrow::Cow;

use rsm_ids::Guid;

use super::breaks;
use super::error::{ImportError, ImportReason};

/// The text of `bytes`, without a byte order mark.
///
/// # Errors
/// The bytes are not text in their encoding; the error has the line.
pub(super) fn decode(bytes: &[u8]) -> Result<Cow<'_, str>, ImportError> {
    match bytes {
        [0xff, 0xfe, units @ ..] => utf16(units, u16::from_le_bytes),
        [0xfe, 0xff, units @ ..] => utf16(units, u16::from_be_bytes),
        _ => utf8(bytes).map(Cow::Borrowed),
    }
}

/// Decodes UTF-8, with or without a byte order mark.
fn utf8(bytes: &[u8]) -> Result<&str, ImportError> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let before = &bytes[..error.valid_up_to()];
        ImportError::new(breaks(before) + 1, ImportReason::NotUtf8)
    })?;
    Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
}

/// Decodes UTF-16 after its byte order mark; `unit` reads a unit in the order of the mark.
fn utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Result<Cow<'_, str>, ImportError> {
    let mut pairs = bytes.chunks_exact(2);
    let units = pairs.by_ref().map(|pair| unit([pair[0], pair[1]]));
    let mut text = String::with_capacity(bytes.len() / 2);
    for char in char::decode_utf16(units) {
        let Ok(char) = char else {
            let line = breaks(text.as_bytes()) + 1;
            return Err(ImportError::new(line, ImportReason::NotUtf16));
        };
        text.push(char);
    }
    if !pairs.remainder().is_empty() {
        let line = breaks(text.as_bytes()) + 1;
        return Err(ImportError::new(line, ImportReason::NotUtf16));
    }
    Ok(Cow::Owned(text))
}

/// Parses a GUID of up to 16 hexadecimal digits, with or without colons between them. The outer
/// `None` means that `text` is not such a number, the inner `None` that it is 0, which is not a
/// GUID.
pub(super) fn guid(text: &str) -> Option<Option<Guid>> {
    let guid: Guid = text.replace(':', "").parse().ok()?;
    Some((!guid.is_zero()).then_some(guid))
}

/// Parses the GUID in the lower half of a GID, as [`guid`] does.
pub(super) fn guid_of_gid(text: &str) -> Option<Option<Guid>> {
    guid(text.replace(':', "").get(16..)?)
}
