//! Computes the rate of a link from its width and speed.

use rsm_proto::v1::{LinkSpeed, LinkWidth};

/// The rate of a link in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkRate {
    /// The data rate in bits per second, without the line code.
    pub data_bits: u64,
    /// The signalling rate in bits per second.
    pub raw_bits: u64,
}

/// The rate of a link; `None` if width or speed is unknown.
pub fn link_rate(width: LinkWidth, speed: LinkSpeed) -> Option<LinkRate> {
    let lanes = match width {
        LinkWidth::Unspecified => return None,
        LinkWidth::LinkWidth1x => 1,
        LinkWidth::LinkWidth2x => 2,
        LinkWidth::LinkWidth4x => 4,
        LinkWidth::LinkWidth8x => 8,
        LinkWidth::LinkWidth12x => 12,
    };
    // The rates of one lane in kilobits per second: signalling, and data after 8b/10b, 64b/66b or
    // the code with error correction (IBA 17.2.6 and its annexes).
    let (raw, data): (u64, u64) = match speed {
        LinkSpeed::Unspecified => return None,
        LinkSpeed::Sdr => (2_500_000, 2_000_000),
        LinkSpeed::Ddr => (5_000_000, 4_000_000),
        LinkSpeed::Qdr => (10_000_000, 8_000_000),
        LinkSpeed::Fdr10 => (10_312_500, 10_000_000),
        LinkSpeed::Fdr => (14_062_500, 13_636_364),
        LinkSpeed::Edr => (25_781_250, 25_000_000),
        LinkSpeed::Hdr => (53_125_000, 50_000_000),
        LinkSpeed::Ndr => (106_250_000, 100_000_000),
        LinkSpeed::Xdr => (212_500_000, 200_000_000),
    };
    Some(LinkRate {
        data_bits: data * 1000 * lanes,
        raw_bits: raw * 1000 * lanes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_links_have_the_rates_of_their_names() {
        let gigabits =
            |width, speed| link_rate(width, speed).map(|rate| rate.data_bits / 1_000_000_000);
        assert_eq!(gigabits(LinkWidth::LinkWidth4x, LinkSpeed::Edr), Some(100));
        assert_eq!(gigabits(LinkWidth::LinkWidth4x, LinkSpeed::Ndr), Some(400));
        assert_eq!(gigabits(LinkWidth::LinkWidth2x, LinkSpeed::Hdr), Some(100));
        assert_eq!(gigabits(LinkWidth::LinkWidth4x, LinkSpeed::Qdr), Some(32));
        assert_eq!(gigabits(LinkWidth::Unspecified, LinkSpeed::Edr), None);
        assert_eq!(
            gigabits(LinkWidth::LinkWidth4x, LinkSpeed::Unspecified),
            None
        );
    }
}
