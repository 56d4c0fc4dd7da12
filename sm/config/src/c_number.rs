//! Numbers in C's syntax, for the files that OpenSM also reads.

/// Parses a number as C's `strtoull` with base 0 does: `0x` means hexadecimal, a leading 0 octal.
/// `None` if the text is no such number.
pub fn number(text: &str) -> Option<u64> {
    let (digits, radix) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None if text.len() > 1 && text.starts_with('0') => (&text[1..], 8),
        None => (text, 10),
    };
    // `from_str_radix` alone would also accept a sign.
    if !digits.starts_with(|c: char| c.is_digit(radix)) {
        return None;
    }
    u64::from_str_radix(digits, radix).ok()
}
