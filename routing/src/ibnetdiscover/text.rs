//! Escapes descriptions, which files have between double quotes.

/// Appends a description to `out` in the form that it has between quotes.
///
/// Quotes and backslashes get a backslash before them. Control characters become escapes like
/// `\x07`.
pub(super) fn escape(description: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for &byte in description {
        match byte {
            b'"' | b'\\' => out.extend([b'\\', byte]),
            _ if byte.is_ascii_control() => {
                let [high, low] = [byte >> 4, byte & 15].map(|d| DIGITS[usize::from(d)]);
                out.extend([b'\\', b'x', high, low]);
            }
            _ => out.push(byte),
        }
    }
}

/// The description for a text between quotes.
///
/// A backslash that starts no escape is kept, because most tools write descriptions without
/// escapes.
pub(super) fn unescape(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        match after {
            [next @ (b'"' | b'\\'), after @ ..] => {
                out.push(*next);
                rest = after;
            }
            [b'x', high, low, after @ ..] if control(*high, *low).is_some() => {
                out.extend(control(*high, *low));
                rest = after;
            }
            _ => out.push(byte),
        }
    }
    out
}

/// The control character with these two lower-case hexadecimal digits; `None` if it is no control
/// character, or NUL, which no description contains.
fn control(high: u8, low: u8) -> Option<u8> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    Some(digit(high)? << 4 | digit(low)?).filter(|byte| *byte != 0 && byte.is_ascii_control())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn backslashes_without_an_escape_are_kept() {
        assert_eq!(unescape(br#"dual \"rail\" x"#), br#"dual "rail" x"#);
        assert_eq!(unescape(br"C:\nodes\x41\"), br"C:\nodes\x41\");
        assert_eq!(unescape(b"Z\xc3\xbcrich \xff"), b"Z\xc3\xbcrich \xff");
    }

    proptest! {
        #[test]
        fn escaping_loses_nothing(description in prop::collection::vec(1u8.., 0..64)) {
            let mut text = Vec::new();
            escape(&description, &mut text);
            prop_assert!(!text.iter().any(u8::is_ascii_control));
            prop_assert_eq!(unescape(&text), description);
        }
    }
}
