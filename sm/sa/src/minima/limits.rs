//! MTU and rate limits of links and paths.

use rsm_mad::wire::attr::{Mtu, PortInfo};
use rsm_mad::wire::sa::Rate;

/// Maximum MTU and fastest rate of a link or path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Limits {
    /// Code of the MTU; codes ascend with the MTU.
    mtu: u8,
    /// Index of the rate in [`CODES`].
    rank: u8,
}

/// Number of rates that IBA defines.
const RATES: usize = 23;

/// Codes of the rates in PathRecord, in the order of ascending rates.
const CODES: [u8; RATES] = [
    2, 5, 3, 11, 6, 15, 19, 4, 7, 20, 12, 8, 9, 16, 13, 10, 14, 17, 18, 21, 22, 23, 24,
];

impl Limits {
    /// The highest MTU and rate, which do not limit a path.
    pub(crate) const NONE: Limits = Limits {
        mtu: 5,
        rank: RATES as u8 - 1,
    };

    /// The lowest MTU and rate, assumed for a port that states none.
    pub(crate) const LEAST: Limits = Limits { mtu: 1, rank: 0 };

    /// The limits of a port and its link.
    pub(crate) fn of_link(info: &PortInfo) -> Limits {
        let mtu = [info.neighbor_mtu(), info.mtu_cap()]
            .into_iter()
            .find(|mtu| mtu.bytes().is_some());
        Limits::new(mtu, info)
    }

    /// The limits of a switch's port 0, which has no link and therefore no neighbour. If a base
    /// port 0 states no MTU, only the links of the path limit the MTU.
    pub(crate) fn of_port0(info: &PortInfo) -> Limits {
        let stated = Some(info.mtu_cap()).filter(|mtu| mtu.bytes().is_some());
        Limits::new(Some(stated.unwrap_or(Limits::NONE.mtu())), info)
    }

    fn new(mtu: Option<Mtu>, info: &PortInfo) -> Limits {
        let rate = info.link_rate().map(Rate::of_link);
        let rank = rate.and_then(|rate| CODES.iter().position(|&code| code == rate.0));
        Limits {
            mtu: mtu.map_or(Limits::LEAST.mtu, Mtu::code),
            rank: rank.map_or(Limits::LEAST.rank, |rank| rank as u8),
        }
    }

    /// The limits of a path that consists of two parts: the lower MTU and the lower rate.
    pub(crate) fn meet(self, other: Limits) -> Limits {
        Limits {
            mtu: self.mtu.min(other.mtu),
            rank: self.rank.min(other.rank),
        }
    }

    /// The MTU.
    pub(crate) fn mtu(self) -> Mtu {
        Mtu::from_code(self.mtu)
    }

    /// The fastest rate.
    pub(crate) fn rate(self) -> Rate {
        Rate(CODES[usize::from(self.rank).min(RATES - 1)])
    }

    /// Packs the limits into 16 bits: the MTU code, followed by the rank of the rate.
    pub(crate) fn pack(self) -> u16 {
        u16::from_be_bytes([self.mtu, self.rank])
    }

    /// Unpacks the result of [`Limits::pack`].
    pub(crate) fn unpack(packed: u16) -> Limits {
        let [mtu, rank] = packed.to_be_bytes();
        Limits { mtu, rank }
    }
}

#[cfg(test)]
mod tests {
    use rsm_mad::wire::attr::{LinkSpeedExt, LinkSpeeds, LinkWidths};

    use super::*;

    #[test]
    fn codes_are_in_the_order_of_ascending_rates() {
        let all: Vec<u8> = Rate::all().map(|rate| rate.0).collect();
        assert_eq!(all, CODES);
    }

    #[test]
    fn limits_of_a_link_follow_port_info() {
        let mut info = PortInfo::default();
        assert_eq!(Limits::of_link(&info), Limits::LEAST);
        assert_eq!(Limits::of_port0(&info).mtu(), Mtu::Bytes4096);
        info.set_neighbor_mtu(Mtu::Bytes2048)
            .set_mtu_cap(Mtu::Bytes4096)
            .set_link_width_active(LinkWidths::X4)
            .set_link_speed_active(LinkSpeeds::NONE)
            .set_link_speed_ext_active(LinkSpeedExt::NDR);
        let limits = Limits::of_link(&info);
        assert_eq!(
            (limits.mtu(), limits.rate()),
            (Mtu::Bytes2048, Rate::GBPS_400)
        );
        assert_eq!(Limits::of_port0(&info).mtu(), Mtu::Bytes4096);
        assert_eq!(limits.meet(Limits::NONE), limits);
        assert_eq!(limits.meet(Limits::LEAST), Limits::LEAST);
        assert_eq!(Limits::unpack(limits.pack()), limits);
    }
}
