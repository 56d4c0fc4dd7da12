use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

use crate::Guid;

/// A global identifier of a port or a multicast group: an IPv6 address (IBA 4.1.1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Gid(pub u128);

impl Gid {
    /// The subnet prefix of link-local GIDs (IBA 4.1.1): every port answers to its GID with this
    /// prefix as well as to its GID with the prefix of its subnet.
    pub const LINK_LOCAL: u64 = 0xFE80_0000_0000_0000;

    /// The GID of the port `guid` in the subnet `prefix`.
    pub const fn new(prefix: u64, guid: Guid) -> Gid {
        Gid((prefix as u128) << 64 | guid.0 as u128)
    }

    /// The upper half of the GID, which is the subnet prefix in the GID of a port.
    pub const fn prefix(self) -> u64 {
        (self.0 >> 64) as u64
    }

    /// The lower half of the GID, which is the port's GUID in the GID of a port.
    pub const fn guid(self) -> Guid {
        Guid(self.0 as u64)
    }

    /// Whether this GID names a multicast group.
    pub const fn is_multicast(self) -> bool {
        self.0 >> 120 == 0xFF
    }
}

impl fmt::Display for Gid {
    /// Writes the GID as an IPv6 address, for example `fe80::2:c903:0:1234`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&Ipv6Addr::from_bits(self.0), f)
    }
}

impl fmt::Debug for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is not a GID.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a GID: expected an IPv6 address")]
pub struct ParseGidError {
    /// The given text.
    pub text: String,
}

impl FromStr for Gid {
    type Err = ParseGidError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let address: Result<Ipv6Addr, _> = text.parse();
        address
            .map(|address| Gid(address.to_bits()))
            .map_err(|_| ParseGidError {
                text: text.to_owned(),
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_prefix_and_guid() {
        let gid = Gid::new(0xFE80_0000_0000_0000, Guid(0x0002_C903_0000_1234));
        assert_eq!(gid.prefix(), 0xFE80_0000_0000_0000);
        assert_eq!(gid.guid(), Guid(0x0002_C903_0000_1234));
        assert_eq!(gid.to_string(), "fe80::2:c903:0:1234");
        assert!(!gid.is_multicast() && Gid(0xFF << 120).is_multicast());
    }

    #[test]
    fn text_form_round_trips() {
        let group = Gid(0xFF12_401B_FFFF_0000_0000_0000_FFFF_FFFF);
        assert_eq!(group.to_string().parse(), Ok(group));
        assert_eq!("FF12:401B:FFFF::ffff:ffff".parse(), Ok(group));
        for text in ["", "ff12", "0xc000", "1.2.3.4", "fe80::1%ib0", "::1::2"] {
            assert!(text.parse::<Gid>().is_err(), "{text:?}");
        }
    }
}
