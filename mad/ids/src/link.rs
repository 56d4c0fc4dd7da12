//! The widths and speeds of trained InfiniBand links.

use std::fmt;
use std::str::FromStr;

/// The number of lanes that a link has trained with (IBA 14.2.5.6, LinkWidthActive).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum LinkWidth {
    /// One lane.
    X1,
    /// Two lanes.
    X2,
    /// Four lanes, the width of nearly every cable.
    X4,
    /// Eight lanes.
    X8,
    /// Twelve lanes.
    X12,
}

impl LinkWidth {
    /// Every link width, from the narrowest to the widest.
    pub const ALL: [LinkWidth; 5] = [
        LinkWidth::X1,
        LinkWidth::X2,
        LinkWidth::X4,
        LinkWidth::X8,
        LinkWidth::X12,
    ];

    /// The number of lanes: 1, 2, 4, 8 or 12.
    pub const fn lanes(self) -> u8 {
        match self {
            LinkWidth::X1 => 1,
            LinkWidth::X2 => 2,
            LinkWidth::X4 => 4,
            LinkWidth::X8 => 8,
            LinkWidth::X12 => 12,
        }
    }
}

impl fmt::Display for LinkWidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x", self.lanes())
    }
}

impl FromStr for LinkWidth {
    type Err = ParseLinkError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        LinkWidth::ALL
            .into_iter()
            .find(|width| width.to_string() == text)
            .ok_or_else(|| ParseLinkError::Width(text.to_owned()))
    }
}

/// The signalling generation of a link's lanes (IBA 14.2.5.6, LinkSpeedActive, LinkSpeedExtActive).
///
/// Speeds are ordered from the slowest to the fastest. FDR10 (vendor specific) is between QDR and
/// FDR: it signals at 10.3 Gb/s, and its line code is more efficient than that of QDR.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum LinkSpeed {
    /// Single data rate, 2.5 Gb/s per lane.
    Sdr,
    /// Double data rate, 5 Gb/s per lane.
    Ddr,
    /// Quad data rate, 10 Gb/s per lane.
    Qdr,
    /// Ten Gb/s per lane with the line code of FDR, 64b/66b (vendor specific).
    Fdr10,
    /// Fourteen data rate, 14 Gb/s per lane.
    Fdr,
    /// Enhanced data rate, 25 Gb/s per lane.
    Edr,
    /// High data rate, 50 Gb/s per lane.
    Hdr,
    /// Next data rate, 100 Gb/s per lane.
    Ndr,
    /// Extreme data rate, 200 Gb/s per lane.
    Xdr,
}

impl LinkSpeed {
    /// Every link speed, from the slowest to the fastest.
    pub const ALL: [LinkSpeed; 9] = [
        LinkSpeed::Sdr,
        LinkSpeed::Ddr,
        LinkSpeed::Qdr,
        LinkSpeed::Fdr10,
        LinkSpeed::Fdr,
        LinkSpeed::Edr,
        LinkSpeed::Hdr,
        LinkSpeed::Ndr,
        LinkSpeed::Xdr,
    ];

    /// The nominal rate of one lane in Gb/s. Product names use the nominal rate of the whole link:
    /// 200 for `4xHDR`.
    pub const fn gbps_per_lane(self) -> f64 {
        match self {
            LinkSpeed::Sdr => 2.5,
            LinkSpeed::Ddr => 5.0,
            LinkSpeed::Qdr | LinkSpeed::Fdr10 => 10.0,
            LinkSpeed::Fdr => 14.0,
            LinkSpeed::Edr => 25.0,
            LinkSpeed::Hdr => 50.0,
            LinkSpeed::Ndr => 100.0,
            LinkSpeed::Xdr => 200.0,
        }
    }

    /// The data rate of a lane in kb/s, after line coding: 8b/10b up to QDR, 64b/66b from FDR10 to
    /// EDR, and 256b/257b with Reed-Solomon RS(544, 514) from HDR on.
    pub const fn data_kbps(self) -> u32 {
        match self {
            LinkSpeed::Sdr => 2_000_000,
            LinkSpeed::Ddr => 4_000_000,
            LinkSpeed::Qdr => 8_000_000,
            LinkSpeed::Fdr10 => 10_000_000,
            LinkSpeed::Fdr => 13_636_363,
            LinkSpeed::Edr => 25_000_000,
            LinkSpeed::Hdr => 50_000_000,
            LinkSpeed::Ndr => 100_000_000,
            LinkSpeed::Xdr => 200_000_000,
        }
    }

    /// The name that `ibnetdiscover` prints: `SDR` … `XDR`.
    pub const fn name(self) -> &'static str {
        match self {
            LinkSpeed::Sdr => "SDR",
            LinkSpeed::Ddr => "DDR",
            LinkSpeed::Qdr => "QDR",
            LinkSpeed::Fdr10 => "FDR10",
            LinkSpeed::Fdr => "FDR",
            LinkSpeed::Edr => "EDR",
            LinkSpeed::Hdr => "HDR",
            LinkSpeed::Ndr => "NDR",
            LinkSpeed::Xdr => "XDR",
        }
    }
}

impl fmt::Display for LinkSpeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for LinkSpeed {
    type Err = ParseLinkError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        LinkSpeed::ALL
            .into_iter()
            .find(|speed| speed.name().eq_ignore_ascii_case(text))
            .ok_or_else(|| ParseLinkError::Speed(text.to_owned()))
    }
}

/// The rate of a link, as the width and the speed of each lane. The text form is the width followed
/// by the speed, such as `4xHDR`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LinkRate {
    /// The width of the link.
    pub width: LinkWidth,
    /// The speed of each lane.
    pub speed: LinkSpeed,
}

impl LinkRate {
    /// The nominal rate of the whole link in Gb/s, 2.5 to 2400.
    pub const fn gbps(self) -> f64 {
        self.width.lanes() as f64 * self.speed.gbps_per_lane()
    }
}

impl fmt::Display for LinkRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.width, self.speed)
    }
}

impl FromStr for LinkRate {
    type Err = ParseLinkError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let Some((lanes, _)) = text.split_once('x') else {
            return Err(ParseLinkError::Rate(text.to_owned()));
        };
        let (width, speed) = text.split_at(lanes.len() + 1);
        Ok(LinkRate {
            width: width.parse()?,
            speed: speed.parse()?,
        })
    }
}

/// The error of a text that is not a link width, speed or rate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseLinkError {
    /// The text is not a link width.
    #[error("`{0}` is not a link width: expected 1x, 2x, 4x, 8x or 12x")]
    Width(String),
    /// The text is not a link speed.
    #[error("`{0}` is not a link speed: expected SDR, DDR, QDR, FDR10, FDR, EDR, HDR, NDR or XDR")]
    Speed(String),
    /// The text is not a link width followed by a link speed.
    #[error("`{0}` is not a link rate: expected lanes and speed, like 4xHDR")]
    Rate(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_every_rate_parses_to_the_same_rate() {
        for width in LinkWidth::ALL {
            for speed in LinkSpeed::ALL {
                let rate = LinkRate { width, speed };
                assert_eq!(rate.to_string().parse(), Ok(rate));
            }
        }
    }

    #[test]
    fn text_form_matches_ibnetdiscover() {
        let rate = LinkRate {
            width: LinkWidth::X12,
            speed: LinkSpeed::Fdr10,
        };
        assert_eq!(rate.to_string(), "12xFDR10");
        assert_eq!("4xHDR".parse::<LinkRate>().map(LinkRate::gbps), Ok(200.0));
    }

    #[test]
    fn text_that_is_not_a_rate_is_refused() {
        assert_eq!(
            "4HDR".parse::<LinkRate>(),
            Err(ParseLinkError::Rate("4HDR".to_owned()))
        );
        assert_eq!(
            "3xHDR".parse::<LinkRate>(),
            Err(ParseLinkError::Width("3x".to_owned()))
        );
        assert_eq!(
            "4xABC".parse::<LinkRate>(),
            Err(ParseLinkError::Speed("ABC".to_owned()))
        );
    }
}
