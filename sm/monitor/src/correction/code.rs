//! The Reed-Solomon codes of links, and how many errors they can correct.

use rsm_ids::LinkSpeed;
use rsm_mad::wire::attr::FecMode;

/// Number of bits of a symbol in all codes of links.
const SYMBOL_BITS: f64 = 10.0;

/// A Reed-Solomon code.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Code {
    /// Number of symbols in a block.
    block: u32,
    /// Number of symbols in a block that contain data.
    data: u32,
    /// Share of damaged symbols at which the code loses one of 10^12 blocks, if symbols are damaged
    /// independently of each other. For RS(544,514) and RS(528,514), this corresponds to the bit
    /// error ratios 2.4e-4 and 2e-5 that IEEE 802.3 permits before correction. A link of 400 Gb/s
    /// then loses a block about every four hours.
    share: f64,
}

/// The code of links of 25 Gb/s per lane; corrects 7 symbols of a block.
const RS_528: Code = Code {
    block: 528,
    data: 514,
    share: 2.25e-4,
};

/// The code of links of 50 Gb/s per lane and more; corrects 15 symbols of a block.
const RS_544: Code = Code {
    block: 544,
    data: 514,
    share: 2.4e-3,
};

/// The code of low latency; corrects 7 symbols of a block.
const RS_272: Code = Code {
    block: 272,
    data: 258,
    share: 4.4e-4,
};

impl Code {
    /// The code of a link: the code that its port states, or the usual code of its speed. `None` if
    /// the link has no Reed-Solomon code.
    fn of(speed: LinkSpeed, mode: Option<FecMode>) -> Option<Code> {
        let default = match speed {
            LinkSpeed::Edr => RS_528,
            LinkSpeed::Hdr | LinkSpeed::Ndr | LinkSpeed::Xdr => RS_544,
            _ => return None,
        };
        match mode {
            None | Some(FecMode::ReedSolomon) => Some(default),
            Some(FecMode::LowLatencyReedSolomon) => Some(RS_272),
            Some(FecMode::None | FecMode::FireCode | FecMode::Unknown(_)) => None,
        }
    }
}

/// The number of damaged symbols per second that a link can correct, at `data_mbps` megabits of
/// data per second; `None` for a link without a Reed-Solomon code. `mode` is the code that the port
/// states; `None` if the port states no code.
pub fn mendable_per_s(speed: LinkSpeed, mode: Option<FecMode>, data_mbps: f64) -> Option<f64> {
    let code = Code::of(speed, mode)?;
    let symbols = data_mbps * 1e6 / SYMBOL_BITS * f64::from(code.block) / f64::from(code.data);
    Some(symbols * code.share)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Share of blocks with more than `correctable` damaged symbols: the upper tail of the binomial
    /// distribution.
    fn lost_share(code: Code, correctable: u32) -> f64 {
        let (n, p) = (f64::from(code.block), code.share);
        let term = |damaged: u32| {
            let choose: f64 = (0..damaged)
                .map(|one| ((n - f64::from(one)) / f64::from(one + 1)).ln())
                .sum();
            (choose + f64::from(damaged) * p.ln() + (n - f64::from(damaged)) * (1.0 - p).ln()).exp()
        };
        (correctable + 1..correctable + 60).map(term).sum()
    }

    #[test]
    fn each_code_loses_one_block_in_a_million_million_at_its_share() {
        for (code, correctable) in [(RS_528, 7), (RS_544, 15), (RS_272, 7)] {
            assert_eq!(code.block - code.data, 2 * correctable, "{code:?}");
            let lost = lost_share(code, correctable);
            assert!((0.5e-12..2e-12).contains(&lost), "{code:?}: {lost:e}");
        }
    }

    #[test]
    fn stated_code_overrides_the_code_of_the_speed_and_slow_links_have_none() {
        let of = |speed, mode| mendable_per_s(speed, mode, 400_000.0);
        let default = of(LinkSpeed::Ndr, None).unwrap();
        assert!((1.0e8..1.03e8).contains(&default), "{default}");
        assert_eq!(
            of(LinkSpeed::Ndr, Some(FecMode::ReedSolomon)),
            Some(default)
        );
        assert!(of(LinkSpeed::Ndr, Some(FecMode::LowLatencyReedSolomon)).unwrap() < default);
        assert!(of(LinkSpeed::Edr, None).unwrap() < default);
        for (speed, mode) in [
            (LinkSpeed::Fdr, None),
            (LinkSpeed::Edr, Some(FecMode::None)),
            (LinkSpeed::Hdr, Some(FecMode::FireCode)),
        ] {
            assert_eq!(of(speed, mode), None, "{speed:?} {mode:?}");
        }
    }
}
