use std::fmt;
use std::str::FromStr;

/// A 64-bit EUI-64 globally unique identifier of a node, port or system image (IBA 4.1.1).
///
/// Zero is valid, because hardware reports it, but never identifies an object. The text form is
/// `0x` and sixteen lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Guid(pub u64);

impl Guid {
    /// The GUID that unprogrammed hardware reports: no GUID at all.
    pub const ZERO: Guid = Guid(0);

    /// Whether this GUID is zero, as unprogrammed hardware reports it.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:016x}", self.0)
    }
}

impl fmt::Debug for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is not a GUID.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a GUID: expected 1 to 16 hexadecimal digits, with or without `0x`")]
pub struct ParseGuidError {
    /// The given text.
    pub text: String,
}

impl FromStr for Guid {
    type Err = ParseGuidError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits = text
            .strip_prefix("0x")
            .or_else(|| text.strip_prefix("0X"))
            .unwrap_or(text);
        // `from_str_radix` alone would also accept a sign.
        if digits.is_empty() || digits.len() > 16 || !digits.bytes().all(|b| b.is_ascii_hexdigit())
        {
            return Err(ParseGuidError {
                text: text.to_owned(),
            });
        }
        u64::from_str_radix(digits, 16)
            .map(Guid)
            .map_err(|_| ParseGuidError {
                text: text.to_owned(),
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_form_round_trips() {
        let guid = Guid(0x0002_c903_0000_1234);
        assert_eq!(guid.to_string(), "0x0002c90300001234");
        assert_eq!(guid.to_string().parse(), Ok(guid));
        assert_eq!("2c90300001234".parse(), Ok(guid));
    }

    #[test]
    fn text_that_is_no_guid_is_refused() {
        for text in ["", "0x", "0x1ffffffffffffffff", "+1", "switch", "0x12 "] {
            assert!(text.parse::<Guid>().is_err(), "{text:?}");
        }
    }
}
