//! Widths and speeds of links (IBA 14.2.5.6).

use std::fmt;

use crate::wire::codes::bit_mask;

bit_mask! {
    /// Link widths as a set; LinkWidthActive has one bit. In LinkWidthEnabled 0 changes nothing and
    /// [`LinkWidth::ALL_SUPPORTED`] enables what is supported.
    LinkWidth(u8) {
        /// One lane.
        X1 = 0x01 "1x",
        /// Four lanes.
        X4 = 0x02 "4x",
        /// Eight lanes.
        X8 = 0x04 "8x",
        /// Twelve lanes.
        X12 = 0x08 "12x",
        /// Two lanes.
        X2 = 0x10 "2x",
    }
}

impl LinkWidth {
    /// In LinkWidthEnabled: whatever LinkWidthSupported has.
    pub const ALL_SUPPORTED: LinkWidth = LinkWidth(0xFF);

    /// The number of lanes of one width; `None` unless exactly one named bit is set.
    pub const fn lanes(self) -> Option<u8> {
        match self {
            Self::X1 => Some(1),
            Self::X2 => Some(2),
            Self::X4 => Some(4),
            Self::X8 => Some(8),
            Self::X12 => Some(12),
            _ => None,
        }
    }
}

bit_mask! {
    /// Link speeds of the original four bits as a set; LinkSpeedActive has one bit, or none on an extended speed.
    /// In LinkSpeedEnabled 0 changes nothing and [`LinkSpeed::ALL_SUPPORTED`] enables what is supported.
    LinkSpeed(u8) {
        /// 2.5 Gb/s a lane.
        SDR = 0x1 "SDR",
        /// 5 Gb/s a lane.
        DDR = 0x2 "DDR",
        /// 10 Gb/s a lane.
        QDR = 0x4 "QDR",
    }
}

impl LinkSpeed {
    /// In LinkSpeedEnabled: whatever LinkSpeedSupported has.
    pub const ALL_SUPPORTED: LinkSpeed = LinkSpeed(0xF);
}

bit_mask! {
    /// Extended link speeds as a set; LinkSpeedExtActive has one bit, or none on an original speed.
    LinkSpeedExt(u8) {
        /// 14.0625 Gb/s a lane.
        FDR = 0x01 "FDR",
        /// 25.78125 Gb/s a lane.
        EDR = 0x02 "EDR",
        /// 53.125 Gb/s a lane.
        HDR = 0x04 "HDR",
        /// 106.25 Gb/s a lane.
        NDR = 0x08 "NDR",
    }
}

impl LinkSpeedExt {
    /// In LinkSpeedExtEnabled: no extended speed.
    pub const DISABLED: LinkSpeedExt = LinkSpeedExt(30);
    /// In LinkSpeedExtEnabled: whatever LinkSpeedExtSupported has.
    pub const ALL_SUPPORTED: LinkSpeedExt = LinkSpeedExt(31);
}

bit_mask! {
    /// The second set of extended link speeds; meaningful where
    /// [`CapabilityMask2::IS_EXTENDED_SPEEDS2_SUPPORTED`](super::CapabilityMask2::IS_EXTENDED_SPEEDS2_SUPPORTED) is set.
    LinkSpeedExt2(u8) {
        /// 212.5 Gb/s a lane.
        XDR = 0x1 "XDR",
    }
}

/// The speed of one lane, whichever field of which attribute it was stated in. Faster compares greater.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Speed {
    /// Single data rate.
    Sdr,
    /// Double data rate.
    Ddr,
    /// Quadruple data rate.
    Qdr,
    /// Mellanox: QDR's successor with FDR's encoding.
    Fdr10,
    /// Fourteen data rate.
    Fdr,
    /// Enhanced data rate.
    Edr,
    /// High data rate.
    Hdr,
    /// Next data rate.
    Ndr,
    /// Extreme data rate.
    Xdr,
}

impl Speed {
    /// What is left of a lane after line coding (8b/10b up to QDR, 64b/66b up to EDR, 256b/257b and Reed-Solomon
    /// RS(544, 514) above), in kb/s.
    pub const fn data_kbps(self) -> u32 {
        match self {
            Self::Sdr => 2_000_000,
            Self::Ddr => 4_000_000,
            Self::Qdr => 8_000_000,
            Self::Fdr10 => 10_000_000,
            Self::Fdr => 13_636_363,
            Self::Edr => 25_000_000,
            Self::Hdr => 50_000_000,
            Self::Ndr => 100_000_000,
            Self::Xdr => 200_000_000,
        }
    }

    /// The speed of an active link from PortInfo's three fields. A later extension takes precedence, for the fields
    /// before it are then zero. `None` when the highest one that is set has a value without a name, or none is set.
    pub const fn from_active(
        base: LinkSpeed,
        ext: LinkSpeedExt,
        ext2: LinkSpeedExt2,
    ) -> Option<Speed> {
        match (ext2, ext, base) {
            (LinkSpeedExt2::XDR, _, _) => Some(Self::Xdr),
            (LinkSpeedExt2::NONE, LinkSpeedExt::NDR, _) => Some(Self::Ndr),
            (LinkSpeedExt2::NONE, LinkSpeedExt::HDR, _) => Some(Self::Hdr),
            (LinkSpeedExt2::NONE, LinkSpeedExt::EDR, _) => Some(Self::Edr),
            (LinkSpeedExt2::NONE, LinkSpeedExt::FDR, _) => Some(Self::Fdr),
            (LinkSpeedExt2::NONE, LinkSpeedExt::NONE, LinkSpeed::QDR) => Some(Self::Qdr),
            (LinkSpeedExt2::NONE, LinkSpeedExt::NONE, LinkSpeed::DDR) => Some(Self::Ddr),
            (LinkSpeedExt2::NONE, LinkSpeedExt::NONE, LinkSpeed::SDR) => Some(Self::Sdr),
            _ => None,
        }
    }
}

impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Sdr => "SDR",
            Self::Ddr => "DDR",
            Self::Qdr => "QDR",
            Self::Fdr10 => "FDR10",
            Self::Fdr => "FDR",
            Self::Edr => "EDR",
            Self::Hdr => "HDR",
            Self::Ndr => "NDR",
            Self::Xdr => "XDR",
        })
    }
}

/// What a link can carry.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LinkRate {
    /// The number of lanes: 1, 2, 4, 8 or 12.
    pub lanes: u8,
    /// The speed of each.
    pub speed: Speed,
}

impl LinkRate {
    /// What is left of the link after line coding, in Mb/s, rounded down.
    pub const fn data_mbps(self) -> u32 {
        // 12 lanes of XDR are 2.4e9 kb/s, which fits.
        self.speed.data_kbps() * self.lanes as u32 / 1000
    }
}

impl fmt::Display for LinkRate {
    /// `4x NDR`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x {}", self.lanes, self.speed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_extension_takes_precedence_over_what_it_extends() {
        let speed = Speed::from_active;
        let (base, ext, ext2) = (LinkSpeed::QDR, LinkSpeedExt::NDR, LinkSpeedExt2::XDR);
        assert_eq!(speed(base, ext, ext2), Some(Speed::Xdr));
        assert_eq!(speed(base, ext, LinkSpeedExt2::NONE), Some(Speed::Ndr));
        assert_eq!(
            speed(base, LinkSpeedExt::NONE, LinkSpeedExt2::NONE),
            Some(Speed::Qdr)
        );
    }

    #[test]
    fn an_unknown_speed_is_not_taken_for_a_slower_one() {
        assert_eq!(
            Speed::from_active(LinkSpeed::QDR, LinkSpeedExt(0x3), LinkSpeedExt2::NONE),
            None
        );
        assert_eq!(
            Speed::from_active(LinkSpeed::QDR, LinkSpeedExt::NDR, LinkSpeedExt2(2)),
            None
        );
    }

    #[test]
    fn rates_are_those_on_the_box() {
        let rate = |lanes, speed| LinkRate { lanes, speed }.data_mbps();
        assert_eq!(rate(4, Speed::Qdr), 32_000);
        assert_eq!(rate(4, Speed::Ndr), 400_000);
        assert_eq!(rate(12, Speed::Xdr), 2_400_000);
        assert_eq!(rate(4, Speed::Fdr), 54_545);
    }
}
