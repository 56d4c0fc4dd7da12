use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;

/// A local identifier, the 16-bit address of an end port inside a subnet (IBA 4.1.3).
///
/// | range | meaning |
/// |---|---|
/// | `0x0000` | none assigned |
/// | `0x0001..=0xBFFF` | unicast |
/// | `0xC000..=0xFFFE` | multicast |
/// | `0xFFFF` | permissive: any port that receives the packet |
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Lid(pub u16);

impl Lid {
    /// The value of a LID field when no LID is assigned.
    pub const NONE: Lid = Lid(0);
    /// The permissive LID: every port accepts a packet with it, and directed-route packets use it
    /// as their address.
    pub const PERMISSIVE: Lid = Lid(0xFFFF);
    /// The lowest unicast LID.
    pub const UNICAST_FIRST: Lid = Lid(0x0001);
    /// The highest unicast LID.
    pub const UNICAST_LAST: Lid = Lid(0xBFFF);
    /// The lowest multicast LID.
    pub const MULTICAST_FIRST: Lid = Lid(0xC000);

    /// Whether this LID is the address of one end port (0x0001 to 0xBFFF).
    pub const fn is_unicast(self) -> bool {
        self.0 >= Self::UNICAST_FIRST.0 && self.0 <= Self::UNICAST_LAST.0
    }

    /// Whether this LID is the address of a multicast group (0xC000 to 0xFFFE).
    pub const fn is_multicast(self) -> bool {
        self.0 >= Self::MULTICAST_FIRST.0 && self.0 < Self::PERMISSIVE.0
    }

    /// The LID as an index into a table that has one entry for each LID.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for Lid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for Lid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LID {}", self.0)
    }
}

/// The text is not a LID.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a LID: expected 0 to 65535, or 0x0 to 0xffff")]
pub struct ParseLidError {
    /// The given text.
    pub text: String,
    /// The reason why the number is invalid.
    #[source]
    pub source: ParseIntError,
}

impl FromStr for Lid {
    type Err = ParseLidError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.strip_prefix("0x") {
            Some(digits) => u16::from_str_radix(digits, 16),
            None => text.parse(),
        }
        .map(Lid)
        .map_err(|source| ParseLidError {
            text: text.to_owned(),
            source,
        })
    }
}

/// The LID mask control (LMC), 0 to 7: a port answers to 2^LMC consecutive LIDs (IBA 4.1.3).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Lmc(u8);

/// The LMC is above 7.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("LMC {0} is out of range: expected 0 to 7")]
pub struct LmcRangeError(pub u8);

impl Lmc {
    /// The LMC of a port that answers to one LID.
    pub const ZERO: Lmc = Lmc(0);

    /// An LMC of `value`, 0 to 7.
    pub const fn new(value: u8) -> Result<Lmc, LmcRangeError> {
        if value <= 7 {
            Ok(Lmc(value))
        } else {
            Err(LmcRangeError(value))
        }
    }

    /// The LMC that the three low bits of a wire field hold.
    pub const fn from_bits(bits: u8) -> Lmc {
        Lmc(bits & 7)
    }

    /// The mask's width in bits, 0 to 7.
    pub const fn get(self) -> u8 {
        self.0
    }

    /// The number of LIDs that the port answers to: 1 to 128.
    pub const fn lids(self) -> u16 {
        1 << self.0
    }

    /// Whether `base` can be a base LID with this LMC: its lowest bits, as many as the LMC, are
    /// zero.
    pub const fn aligns(self, base: Lid) -> bool {
        base.0 & (self.lids() - 1) == 0
    }
}

impl fmt::Display for Lmc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_meet_without_gap_or_overlap() {
        for value in 0..=u16::MAX {
            let lid = Lid(value);
            let kinds = [
                lid == Lid::NONE,
                lid.is_unicast(),
                lid.is_multicast(),
                lid == Lid::PERMISSIVE,
            ];
            assert_eq!(kinds.iter().filter(|&&k| k).count(), 1, "{lid:?}");
        }
    }

    #[test]
    fn both_text_forms_are_read() {
        assert_eq!("17".parse::<Lid>().unwrap(), Lid(17));
        assert_eq!("0xC000".parse::<Lid>().unwrap(), Lid(0xC000));
        for text in ["", "0x", "65536", "-1", "lid"] {
            assert!(text.parse::<Lid>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn lmc_is_three_bits() {
        assert_eq!(Lmc::new(8), Err(LmcRangeError(8)));
        let lmc = Lmc::new(3).unwrap();
        assert_eq!(lmc.lids(), 8);
        assert!(lmc.aligns(Lid(16)) && !lmc.aligns(Lid(17)));
    }
}
