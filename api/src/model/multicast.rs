use std::fmt;
use std::str::FromStr;

use rsm_ids::{Gid, Lid};

use super::PortId;
use crate::limits::MAX_SELECTOR_BYTES;

/// A filter of multicast groups; the default passes all groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MulticastGroupFilter {
    /// The filter passes only groups of the partition with this P_Key; the membership bit is
    /// ignored.
    pub p_key: Option<u16>,
    /// The filter passes only groups with this port as a member.
    pub port: Option<PortId>,
}

/// The name of a multicast group: an MGID (`ff12:401b:ffff::ffff:ffff`), or a multicast LID
/// (`0xc000`, `49152`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GroupSelector {
    /// An MGID.
    Mgid(Gid),
    /// A multicast LID, which several groups may share.
    Mlid(Lid),
}

/// The error for a text that identifies no multicast group.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseGroupError {
    /// The text is neither an MGID nor a multicast LID.
    #[error(
        "`{text}` names no multicast group: give an MGID (ff12:401b:ffff::ffff:ffff) or a multicast LID (0xc000 to 0xfffe)"
    )]
    Malformed {
        /// The text, truncated to the length of a name.
        text: String,
    },
    /// The GID belongs to a port.
    #[error("{gid} is the GID of a port: that of a multicast group begins with ff")]
    Unicast {
        /// The GID.
        gid: Gid,
    },
}

impl FromStr for GroupSelector {
    type Err = ParseGroupError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Ok(gid) = text.parse::<Gid>() {
            return if gid.is_multicast() {
                Ok(GroupSelector::Mgid(gid))
            } else {
                Err(ParseGroupError::Unicast { gid })
            };
        }
        // A sign is not part of a LID.
        Some(text)
            .filter(|text| !text.starts_with('+'))
            .and_then(|text| text.parse().ok())
            .filter(|lid: &Lid| lid.is_multicast())
            .map(GroupSelector::Mlid)
            .ok_or_else(|| ParseGroupError::Malformed {
                text: text.chars().take(MAX_SELECTOR_BYTES).collect(),
            })
    }
}

impl fmt::Display for GroupSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GroupSelector::Mgid(mgid) => mgid.fmt(f),
            GroupSelector::Mlid(mlid) => write!(f, "{:#06x}", mlid.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_named_by_mgid_or_multicast_lid() {
        let broadcast = Gid(0xFF12_401B_FFFF_0000_0000_0000_FFFF_FFFF);
        let parse = |text: &str| text.parse::<GroupSelector>();
        let named = GroupSelector::Mgid(broadcast);
        assert_eq!(parse("ff12:401b:ffff::ffff:ffff"), Ok(named));
        for text in ["0xc000", "49152"] {
            assert_eq!(parse(text), Ok(GroupSelector::Mlid(Lid(0xC000))));
        }
        for selector in [named, GroupSelector::Mlid(Lid(0xC0FF))] {
            assert_eq!(parse(&selector.to_string()), Ok(selector));
        }
        for text in ["", "17", "0xffff", "0xbfff", "broadcast", "+49152"] {
            let refused = ParseGroupError::Malformed {
                text: text.to_owned(),
            };
            assert_eq!(parse(text), Err(refused), "{text:?}");
        }
        let gid = Gid(0xFE80 << 112 | 7);
        assert_eq!(parse("fe80::7"), Err(ParseGroupError::Unicast { gid }));
    }
}
