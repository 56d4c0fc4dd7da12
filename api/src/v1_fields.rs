//! Converts values to the fields of messages.

use std::time::Duration;

use rsm_ids::{LinkSpeed, LinkWidth};
use rsm_proto::v1;

/// Converts a link width; `None` becomes the unspecified value.
pub fn link_width(width: Option<LinkWidth>) -> v1::LinkWidth {
    match width {
        None => v1::LinkWidth::Unspecified,
        Some(LinkWidth::X1) => v1::LinkWidth::LinkWidth1x,
        Some(LinkWidth::X2) => v1::LinkWidth::LinkWidth2x,
        Some(LinkWidth::X4) => v1::LinkWidth::LinkWidth4x,
        Some(LinkWidth::X8) => v1::LinkWidth::LinkWidth8x,
        Some(LinkWidth::X12) => v1::LinkWidth::LinkWidth12x,
    }
}

/// Converts a link speed; `None` becomes the unspecified value.
pub fn link_speed(speed: Option<LinkSpeed>) -> v1::LinkSpeed {
    match speed {
        None => v1::LinkSpeed::Unspecified,
        Some(LinkSpeed::Sdr) => v1::LinkSpeed::Sdr,
        Some(LinkSpeed::Ddr) => v1::LinkSpeed::Ddr,
        Some(LinkSpeed::Qdr) => v1::LinkSpeed::Qdr,
        Some(LinkSpeed::Fdr10) => v1::LinkSpeed::Fdr10,
        Some(LinkSpeed::Fdr) => v1::LinkSpeed::Fdr,
        Some(LinkSpeed::Edr) => v1::LinkSpeed::Edr,
        Some(LinkSpeed::Hdr) => v1::LinkSpeed::Hdr,
        Some(LinkSpeed::Ndr) => v1::LinkSpeed::Ndr,
        Some(LinkSpeed::Xdr) => v1::LinkSpeed::Xdr,
    }
}

/// Converts a rate in units of 100 Mb/s to Gb/s.
pub fn gbps(tenths: u16) -> f64 {
    f64::from(tenths) / 10.0
}

/// Converts a duration to milliseconds, rounded to the microsecond: more digits would be noise.
pub fn milliseconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn milliseconds_are_rounded_to_the_microsecond() {
        assert_eq!(milliseconds(Duration::from_nanos(1_234_567)), 1.235);
        assert_eq!(milliseconds(Duration::from_secs(2)), 2000.0);
        assert_eq!(milliseconds(Duration::ZERO), 0.0);
    }
}
