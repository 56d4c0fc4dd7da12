//! The best rate that both ends of a link support and have enabled.

use rsm_ids::{LinkSpeed, LinkWidth};
use rsm_mad::wire::attr::{LinkSpeedExt, LinkSpeedExt2, LinkSpeeds, LinkWidths, PortInfo};

/// The best width that both ports support and have enabled; `None` if there is none.
pub(super) fn best_width(one: &PortInfo, other: &PortInfo) -> Option<LinkWidth> {
    let widths = |info: &PortInfo| {
        let supported = info.link_width_supported();
        match info.link_width_enabled() {
            LinkWidths::ALL_SUPPORTED => supported,
            enabled => supported & enabled,
        }
    };
    let common = widths(one) & widths(other);
    let all = [
        LinkWidths::X12,
        LinkWidths::X8,
        LinkWidths::X4,
        LinkWidths::X2,
        LinkWidths::X1,
    ];
    let best = all.into_iter().find(|&width| common.contains(width))?;
    best.single()
}

/// The best speed that both ports support and have enabled; `None` if there is none.
pub(super) fn best_speed(one: &PortInfo, other: &PortInfo) -> Option<LinkSpeed> {
    let (one, other) = (Speeds::of(one), Speeds::of(other));
    let common_base = one.base & other.base;
    let common_ext = one.ext & other.ext;
    let common_ext2 = one.ext2 & other.ext2;
    if common_ext2.contains(LinkSpeedExt2::XDR) {
        return Some(LinkSpeed::Xdr);
    }
    let extended = [
        (LinkSpeedExt::NDR, LinkSpeed::Ndr),
        (LinkSpeedExt::HDR, LinkSpeed::Hdr),
        (LinkSpeedExt::EDR, LinkSpeed::Edr),
        (LinkSpeedExt::FDR, LinkSpeed::Fdr),
    ];
    let original = [
        (LinkSpeeds::QDR, LinkSpeed::Qdr),
        (LinkSpeeds::DDR, LinkSpeed::Ddr),
        (LinkSpeeds::SDR, LinkSpeed::Sdr),
    ];
    let extended = extended
        .into_iter()
        .find(|&(bit, _)| common_ext.contains(bit));
    let original = original
        .into_iter()
        .find(|&(bit, _)| common_base.contains(bit));
    let extended = extended.map(|(_, speed)| speed);
    extended.or(original.map(|(_, speed)| speed))
}

/// The supported and enabled speeds of a port.
struct Speeds {
    /// SDR, DDR and QDR.
    base: LinkSpeeds,
    /// FDR to NDR.
    ext: LinkSpeedExt,
    /// XDR.
    ext2: LinkSpeedExt2,
}

impl Speeds {
    /// The speeds in `info` that the port both supports and has enabled.
    fn of(info: &PortInfo) -> Speeds {
        let base = match info.link_speed_enabled() {
            LinkSpeeds::ALL_SUPPORTED => info.link_speed_supported(),
            enabled => info.link_speed_supported() & enabled,
        };
        let ext = match info.link_speed_ext_enabled() {
            LinkSpeedExt::ALL_SUPPORTED => info.link_speed_ext_supported(),
            LinkSpeedExt::DISABLED => LinkSpeedExt::NONE,
            enabled => info.link_speed_ext_supported() & enabled,
        };
        Speeds {
            base,
            ext,
            ext2: info.link_speed_ext_supported2() & info.link_speed_ext_enabled2(),
        }
    }
}
