//! The widths and speeds of links in the encoding of PortInfo (IBA 14.2.5.6).

use std::fmt;

pub use rsm_ids::LinkSpeed;

use crate::wire::codes::bit_mask;

bit_mask! {
    /// A set of link widths; LinkWidthActive has one bit. In a Set of LinkWidthEnabled, 0 changes
    /// nothing and [`LinkWidths::ALL_SUPPORTED`] enables all supported widths.
    LinkWidths(u8) {
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

impl LinkWidths {
    /// The value of LinkWidthEnabled that enables all widths of LinkWidthSupported.
    pub const ALL_SUPPORTED: LinkWidths = LinkWidths(0xFF);

    /// The only width in the set; `None` unless exactly one named bit is set.
    pub const fn single(self) -> Option<rsm_ids::LinkWidth> {
        match self {
            Self::X1 => Some(rsm_ids::LinkWidth::X1),
            Self::X2 => Some(rsm_ids::LinkWidth::X2),
            Self::X4 => Some(rsm_ids::LinkWidth::X4),
            Self::X8 => Some(rsm_ids::LinkWidth::X8),
            Self::X12 => Some(rsm_ids::LinkWidth::X12),
            _ => None,
        }
    }
}

bit_mask! {
    /// A set of link speeds in the original four bits; LinkSpeedActive has one bit, or none for an
    /// extended speed. In a Set of LinkSpeedEnabled, 0 changes nothing and
    /// [`LinkSpeeds::ALL_SUPPORTED`] enables all supported speeds.
    LinkSpeeds(u8) {
        /// SDR, 2.5 Gb/s per lane.
        SDR = 0x1 "SDR",
        /// DDR, 5 Gb/s per lane.
        DDR = 0x2 "DDR",
        /// QDR, 10 Gb/s per lane.
        QDR = 0x4 "QDR",
    }
}

impl LinkSpeeds {
    /// The value of LinkSpeedEnabled that enables all speeds of LinkSpeedSupported.
    pub const ALL_SUPPORTED: LinkSpeeds = LinkSpeeds(0xF);
}

bit_mask! {
    /// A set of extended link speeds; LinkSpeedExtActive has one bit, or none if the speed is an
    /// original speed.
    LinkSpeedExt(u8) {
        /// FDR, 14.0625 Gb/s per lane.
        FDR = 0x01 "FDR",
        /// EDR, 25.78125 Gb/s per lane.
        EDR = 0x02 "EDR",
        /// HDR, 53.125 Gb/s per lane.
        HDR = 0x04 "HDR",
        /// NDR, 106.25 Gb/s per lane.
        NDR = 0x08 "NDR",
    }
}

impl LinkSpeedExt {
    /// The value of LinkSpeedExtEnabled that enables no extended speed.
    pub const DISABLED: LinkSpeedExt = LinkSpeedExt(30);
    /// The value of LinkSpeedExtEnabled that enables all speeds of LinkSpeedExtSupported.
    pub const ALL_SUPPORTED: LinkSpeedExt = LinkSpeedExt(31);
}

bit_mask! {
    /// The second set of extended link speeds; meaningful if
    /// [`CapabilityMask2::IS_EXTENDED_SPEEDS2_SUPPORTED`](super::CapabilityMask2::IS_EXTENDED_SPEEDS2_SUPPORTED)
    /// is set.
    LinkSpeedExt2(u8) {
        /// XDR, 212.5 Gb/s per lane.
        XDR = 0x1 "XDR",
    }
}

/// The speed of an active link from the three fields of PortInfo. If several fields are not zero,
/// the latest extension decides. `None` if that field has a value without a name, or if all fields
/// are zero.
pub(super) const fn active_speed(
    base: LinkSpeeds,
    ext: LinkSpeedExt,
    ext2: LinkSpeedExt2,
) -> Option<LinkSpeed> {
    match (ext2, ext, base) {
        (LinkSpeedExt2::XDR, _, _) => Some(LinkSpeed::Xdr),
        (LinkSpeedExt2::NONE, LinkSpeedExt::NDR, _) => Some(LinkSpeed::Ndr),
        (LinkSpeedExt2::NONE, LinkSpeedExt::HDR, _) => Some(LinkSpeed::Hdr),
        (LinkSpeedExt2::NONE, LinkSpeedExt::EDR, _) => Some(LinkSpeed::Edr),
        (LinkSpeedExt2::NONE, LinkSpeedExt::FDR, _) => Some(LinkSpeed::Fdr),
        (LinkSpeedExt2::NONE, LinkSpeedExt::NONE, LinkSpeeds::QDR) => Some(LinkSpeed::Qdr),
        (LinkSpeedExt2::NONE, LinkSpeedExt::NONE, LinkSpeeds::DDR) => Some(LinkSpeed::Ddr),
        (LinkSpeedExt2::NONE, LinkSpeedExt::NONE, LinkSpeeds::SDR) => Some(LinkSpeed::Sdr),
        _ => None,
    }
}

/// The rate of a link: its width and the speed of each lane.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ActiveRate {
    /// The number of lanes: 1, 2, 4, 8 or 12.
    pub lanes: u8,
    /// The speed of each lane.
    pub speed: LinkSpeed,
}

impl ActiveRate {
    /// The data rate of the link after line coding, in Mb/s, rounded down.
    pub const fn data_mbps(self) -> u32 {
        // The largest product, 12 lanes of XDR, is 2.4e9 kb/s, which fits.
        self.speed.data_kbps() * self.lanes as u32 / 1000
    }
}

impl fmt::Display for ActiveRate {
    /// Writes the rate in the form `4x NDR`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x {}", self.lanes, self.speed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_extended_speed_takes_precedence() {
        let speed = active_speed;
        let (base, ext, ext2) = (LinkSpeeds::QDR, LinkSpeedExt::NDR, LinkSpeedExt2::XDR);
        assert_eq!(speed(base, ext, ext2), Some(LinkSpeed::Xdr));
        assert_eq!(speed(base, ext, LinkSpeedExt2::NONE), Some(LinkSpeed::Ndr));
        assert_eq!(
            speed(base, LinkSpeedExt::NONE, LinkSpeedExt2::NONE),
            Some(LinkSpeed::Qdr)
        );
    }

    #[test]
    fn an_unknown_speed_does_not_count_as_a_slower_speed() {
        assert_eq!(
            active_speed(LinkSpeeds::QDR, LinkSpeedExt(0x3), LinkSpeedExt2::NONE),
            None
        );
        assert_eq!(
            active_speed(LinkSpeeds::QDR, LinkSpeedExt::NDR, LinkSpeedExt2(2)),
            None
        );
    }

    #[test]
    fn data_rates_follow_line_coding() {
        let rate = |lanes, speed| ActiveRate { lanes, speed }.data_mbps();
        assert_eq!(rate(4, LinkSpeed::Qdr), 32_000);
        assert_eq!(rate(4, LinkSpeed::Ndr), 400_000);
        assert_eq!(rate(12, LinkSpeed::Xdr), 2_400_000);
        assert_eq!(rate(4, LinkSpeed::Fdr), 54_545);
    }
}
