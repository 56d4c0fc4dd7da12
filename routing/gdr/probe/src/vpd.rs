//! Reads vital product data of PCI functions (PCI 3.0, appendix I).

/// The tag of the read-only resource.
const READ_ONLY: u8 = 0x90;
/// The bit of a large resource, whose length field has two bytes.
const LARGE: u8 = 0x80;
/// The end tags of small and large resources.
const END: [u8; 2] = [0x78, 0x79];

/// The value of a two-letter keyword in the read-only resource; `None` if there is none.
pub(crate) fn keyword<'a>(vpd: &'a [u8], wanted: &[u8; 2]) -> Option<&'a [u8]> {
    let mut rest = vpd;
    while let Some(&tag) = rest.first() {
        if END.contains(&tag) {
            return None;
        }
        let (header, length) = match tag & LARGE {
            0 => (1, usize::from(tag & 7)),
            _ => (
                3,
                usize::from(u16::from_le_bytes([*rest.get(1)?, *rest.get(2)?])),
            ),
        };
        let content = rest.get(header..header + length)?;
        if tag == READ_ONLY {
            return within(content, wanted);
        }
        rest = &rest[header + length..];
    }
    None
}

/// The value of a keyword in the fields of a resource; `None` if it is missing.
fn within<'a>(mut fields: &'a [u8], wanted: &[u8; 2]) -> Option<&'a [u8]> {
    while let [first, second, length, rest @ ..] = fields {
        let value = rest.get(..usize::from(*length))?;
        if [*first, *second] == *wanted {
            return Some(value);
        }
        fields = &rest[value.len()..];
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keywords_are_found_and_cut_data_is_not_read_beyond_its_end() {
        let mut vpd = vec![0x82, 3, 0, b'C', b'X', b'8', READ_ONLY, 12, 0];
        vpd.extend(b"PN\x02ABV3\x04uuid\x78");
        assert_eq!(keyword(&vpd, b"V3"), Some(&b"uuid"[..]));
        assert_eq!(keyword(&vpd, b"PN"), Some(&b"AB"[..]));
        assert_eq!(keyword(&vpd, b"SN"), None);
        for end in 0..vpd.len() - 1 {
            assert_eq!(keyword(&vpd[..end], b"V3"), None, "{end}");
        }
        assert_eq!(keyword(&[0x78, READ_ONLY], b"V3"), None);
    }
}
