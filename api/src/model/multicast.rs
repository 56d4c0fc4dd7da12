use std::fmt;
use std::str::FromStr;

use rsm_ids::{Gid, Guid, Lid, PortNum};

use super::{JoinState, PortKey};
use crate::limits::MAX_SELECTOR_BYTES;

/// A multicast group. Its key is [`MulticastGroup::mgid`].
#[derive(Debug, Clone, PartialEq)]
pub struct MulticastGroup {
    /// Its MGID.
    pub mgid: Gid,
    /// Its multicast LID; other groups of the same partition may have the same.
    pub mlid: Lid,
    /// Its P_Key, with the membership bit that the group was created with.
    pub p_key: u16,
    /// Its Q_Key.
    pub q_key: u32,
    /// The largest payload of its packets in bytes, 256 to 4096.
    pub mtu_bytes: u16,
    /// The rate of its packets in units of 100 Mb/s, 25 to 12000.
    pub rate_tenth_gbps: u16,
    /// The service level of its packets, 0 to 15.
    pub service_level: u8,
    /// How long a packet may be on its way, 0 to 63: 4.096 µs × 2^n.
    pub packet_life_time: u8,
    /// TClass of the global route header.
    pub traffic_class: u8,
    /// FlowLabel of the global route header, 20 bits.
    pub flow_label: u32,
    /// HopLimit of the global route header.
    pub hop_limit: u8,
    /// How far the group reaches, 0 to 15.
    pub scope: u8,
    /// It exists even without members.
    pub well_known: bool,
    /// Members in any join state; a port that joined by several of its GIDs counts as often.
    pub members: u64,
    /// Members that keep the group alive.
    pub full_members: u64,
    /// Switches that forward its packets, by the plan in force.
    pub switches: u64,
}

/// A port that takes part in a multicast group. Its key is [`MulticastMember::alias`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MulticastMember {
    /// The GID that it joined by.
    pub gid: Gid,
    /// The GUID of the port.
    pub port_guid: Guid,
    /// The port; none while it is not in the fabric.
    pub port: Option<PortKey>,
    /// The description of the port's node; empty while it is not in the fabric.
    pub description: String,
    /// How it takes part, ascending, at least one.
    pub join_states: Vec<JoinState>,
    /// Another port joined it.
    pub proxy: bool,
    /// Whether the group's tree leads to it, by the plan in force.
    pub served: bool,
}

impl MulticastMember {
    /// The GUID in the GID that it joined by: the port's, or one of its aliases.
    pub fn alias(&self) -> Guid {
        self.gid.guid()
    }
}

/// A switch that forwards the packets of a multicast group. Its key is [`MulticastSwitch::guid`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MulticastSwitch {
    /// The switch.
    pub guid: Guid,
    /// Its description.
    pub description: String,
    /// The ports that it forwards packets to, ascending; 0 is the switch itself.
    pub ports: Vec<PortNum>,
}

/// A filter of groups; the default passes all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MulticastGroupFilter {
    /// Only groups of the partition with this P_Key, with either membership bit.
    pub p_key: Option<u16>,
    /// Only groups that this port takes part in.
    pub port: Option<PortKey>,
}

/// The name of a multicast group: an MGID (`ff12:401b:ffff::ffff:ffff`), or a multicast LID
/// (`0xc000`, `49152`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GroupSelector {
    /// By MGID.
    Mgid(Gid),
    /// By multicast LID, which several groups may share.
    Mlid(Lid),
}

/// The text names no group.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseGroupError {
    /// The text is neither an MGID nor a multicast LID.
    #[error(
        "`{text}` names no multicast group: give an MGID (ff12:401b:ffff::ffff:ffff) or a multicast LID (0xc000 to 0xfffe)"
    )]
    Malformed {
        /// The text, cut to the length of a name.
        text: String,
    },
    /// The GID is a port's.
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
        // A sign is no part of a LID.
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
