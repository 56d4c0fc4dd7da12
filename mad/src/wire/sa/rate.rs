use std::fmt;

use rsm_ids::RATES;

use crate::wire::attr::{ActiveRate, LinkSpeed};
use crate::wire::bits::newtype_fields;

/// A rate of paths and groups (IBA 15.2.5.16): a code of six bits. Codes are not in the order of
/// the rates; to order rates, compare [`Rate::tenth_gbps`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Rate(pub u8);

impl Rate {
    /// The slowest rate, 2.5 Gb/s.
    pub const GBPS_2_5: Rate = Rate(2);
    /// The rate of 10 Gb/s.
    pub const GBPS_10: Rate = Rate(3);
    /// The rate of 40 Gb/s.
    pub const GBPS_40: Rate = Rate(7);
    /// The rate of 100 Gb/s.
    pub const GBPS_100: Rate = Rate(16);
    /// The rate of 200 Gb/s.
    pub const GBPS_200: Rate = Rate(17);
    /// The rate of 400 Gb/s.
    pub const GBPS_400: Rate = Rate(21);
    /// The fastest rate with a code, 1200 Gb/s.
    pub const GBPS_1200: Rate = Rate(24);

    /// Every code with a rate, from the slowest rate to the fastest.
    pub fn all() -> impl DoubleEndedIterator<Item = Rate> {
        RATES.iter().map(|&(code, _)| Rate(code))
    }

    /// The nominal rate in units of 100 Mb/s; `None` if the code is unknown.
    pub fn tenth_gbps(self) -> Option<u16> {
        let entry = RATES.iter().find(|&&(code, _)| code == self.0);
        entry.map(|&(_, rate)| rate)
    }

    /// The fastest rate with a code that is at most `tenth_gbps` times 100 Mb/s; `None` if the
    /// slowest rate is faster.
    pub fn at_most(tenth_gbps: u32) -> Option<Rate> {
        let fitting = |&&(_, rate): &&(u8, u16)| u32::from(rate) <= tenth_gbps;
        let (code, _) = RATES.iter().rev().find(fitting)?;
        Some(Rate(*code))
    }

    /// The rate of a link, from the width and speed of its ports. FDR10 counts as QDR; a link
    /// faster than the fastest code has the fastest code.
    pub fn of_link(link: ActiveRate) -> Rate {
        let lane: u32 = match link.speed {
            LinkSpeed::Sdr => 25,
            LinkSpeed::Ddr => 50,
            LinkSpeed::Qdr | LinkSpeed::Fdr10 => 100,
            LinkSpeed::Fdr => 140,
            LinkSpeed::Edr => 250,
            LinkSpeed::Hdr => 500,
            LinkSpeed::Ndr => 1000,
            LinkSpeed::Xdr => 2000,
        };
        Rate::at_most(lane * u32::from(link.lanes)).unwrap_or(Rate::GBPS_2_5)
    }
}

newtype_fields!(Rate: u8);

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.tenth_gbps() {
            Some(rate) if rate % 10 == 0 => write!(f, "{} Gb/s", rate / 10),
            Some(rate) => write!(f, "{}.{} Gb/s", rate / 10, rate % 10),
            None => write!(f, "{:#04x}", self.0),
        }
    }
}

impl fmt::Debug for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(lanes: u8, speed: LinkSpeed) -> Rate {
        Rate::of_link(ActiveRate { lanes, speed })
    }

    #[test]
    fn links_have_the_codes_of_the_specification() {
        assert_eq!(of(1, LinkSpeed::Sdr), Rate(2));
        assert_eq!(of(12, LinkSpeed::Sdr), Rate(4));
        assert_eq!(of(4, LinkSpeed::Qdr), Rate::GBPS_40);
        assert_eq!(of(4, LinkSpeed::Fdr10), Rate::GBPS_40);
        assert_eq!(of(1, LinkSpeed::Fdr), Rate(11));
        assert_eq!(of(2, LinkSpeed::Fdr), Rate(19));
        assert_eq!(of(4, LinkSpeed::Fdr), Rate(12));
        assert_eq!(of(8, LinkSpeed::Fdr), Rate(13));
        assert_eq!(of(12, LinkSpeed::Fdr), Rate(14));
        assert_eq!(of(4, LinkSpeed::Edr), Rate::GBPS_100);
        assert_eq!(of(2, LinkSpeed::Hdr), Rate::GBPS_100);
        assert_eq!(of(4, LinkSpeed::Hdr), Rate::GBPS_200);
        assert_eq!(of(4, LinkSpeed::Ndr), Rate::GBPS_400);
        assert_eq!(of(4, LinkSpeed::Xdr), Rate(23));
        assert_eq!(of(12, LinkSpeed::Xdr), Rate::GBPS_1200);
    }

    /// Every width and speed has the code of IBA 15.2.5.16. Rates without a code have the code of
    /// the next lower rate: 8x and 12x XDR, 1x to 12x FDR10.
    #[test]
    fn every_width_and_speed_has_its_code() {
        let widths = [1, 2, 4, 8, 12];
        let codes: [(LinkSpeed, [u8; 5]); 9] = [
            (LinkSpeed::Sdr, [2, 5, 3, 6, 4]),
            (LinkSpeed::Ddr, [5, 3, 6, 7, 8]),
            (LinkSpeed::Qdr, [3, 6, 7, 9, 10]),
            (LinkSpeed::Fdr10, [3, 6, 7, 9, 10]),
            (LinkSpeed::Fdr, [11, 19, 12, 13, 14]),
            (LinkSpeed::Edr, [15, 20, 16, 17, 18]),
            (LinkSpeed::Hdr, [20, 16, 17, 21, 22]),
            (LinkSpeed::Ndr, [16, 17, 21, 23, 24]),
            (LinkSpeed::Xdr, [17, 21, 23, 24, 24]),
        ];
        for (speed, codes) in codes {
            for (lanes, code) in widths.into_iter().zip(codes) {
                assert_eq!(of(lanes, speed), Rate(code), "{lanes}x {speed}");
            }
        }
    }

    #[test]
    fn rates_are_listed_from_slow_to_fast() {
        let entry: Vec<_> = Rate::all().map(|rate| rate.tenth_gbps().unwrap()).collect();
        assert!(entry.is_sorted());
        assert_eq!(Rate(1).tenth_gbps(), None);
        assert_eq!(Rate::at_most(24), None);
        assert_eq!(Rate::at_most(139), Some(Rate::GBPS_10));
        assert_eq!(Rate::GBPS_2_5.to_string(), "2.5 Gb/s");
    }
}
