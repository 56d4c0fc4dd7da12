//! Tables of VLs in files: the VL of each SL, and the weights of VLs.

use std::fmt;

use rsm_mad::wire::attr::{SlToVlMapping, VlArbitration};

use super::c_number::number;
use super::value::{Given, HeldValue, InvalidValue, Kind, Takes, Value};

/// VL of each SL, from SL 0 on: 0 to 15; VL 15 drops packets (IBA 14.2.5.8).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlToVl(pub [u8; SlToVlMapping::ENTRIES]);

/// Entries of a VLArbitrationTable in order: a VL, 0 to 14, and its weight in units of 64 bytes
/// (IBA 7.6.9.2).
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct VlWeights(Vec<(u8, u8)>);

/// The highest data VL.
const VL_MAX: u64 = 14;

impl SlToVl {
    /// Parses 16 VLs separated by commas.
    pub fn parse(text: &str) -> Option<SlToVl> {
        let vls: Option<Vec<u8>> = text.split(',').map(|vl| small(vl, 15)).collect();
        vls?.try_into().ok().map(SlToVl)
    }
}

impl VlWeights {
    /// Maximum number of entries of a table: two blocks.
    pub const MAX: usize = 2 * VlArbitration::ENTRIES;

    /// Parses 1 to [`VlWeights::MAX`] pairs `VL:WEIGHT` separated by commas.
    pub fn parse(text: &str) -> Option<VlWeights> {
        let entry = |entry: &str| {
            let (vl, weight) = entry.split_once(':')?;
            Some((small(vl, VL_MAX)?, small(weight, 255)?))
        };
        let entries: Option<Vec<(u8, u8)>> = text.split(',').map(entry).collect();
        let entries = entries.filter(|entries| entries.len() <= Self::MAX)?;
        Some(VlWeights(entries))
    }

    /// VLs and weights, in the order of arbitration.
    pub fn entries(&self) -> &[(u8, u8)] {
        &self.0
    }
}

fn small(text: &str, max: u64) -> Option<u8> {
    let value = number(text.trim()).filter(|&value| value <= max)?;
    u8::try_from(value).ok()
}

impl fmt::Display for SlToVl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let vls: Vec<String> = self.0.iter().map(u8::to_string).collect();
        f.write_str(&vls.join(","))
    }
}

impl fmt::Display for VlWeights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entries = self.0.iter().map(|(vl, weight)| format!("{vl}:{weight}"));
        f.write_str(&entries.collect::<Vec<_>>().join(","))
    }
}

macro_rules! forms {
    ($($type:ty: $form:literal;)+) => {$(
        impl Takes for Option<$type> {
            const KIND: Kind = Kind::Form($form);
        }

        impl Value for Option<$type> {
            fn set(&mut self, given: Given<'_>) -> Result<(), InvalidValue> {
                let Given::Text(text) = given else {
                    return Err(InvalidValue);
                };
                *self = match text {
                    "" => None,
                    text => Some(<$type>::parse(text).ok_or(InvalidValue)?),
                };
                Ok(())
            }

            fn held(&self) -> Option<HeldValue> {
                self.as_ref().map(|value| HeldValue::Text(value.to_string()))
            }
        }
    )+};
}

forms! {
    SlToVl: "16 VLs, 0 to 15, with commas between them, such as \"0,1,0,0,0,0,0,0,0,0,0,0,0,0,0,0\"; \
             15 drops packets";
    VlWeights: "1 to 64 pairs of a VL, 0 to 14, and a weight, 0 to 255, such as \"0:4,1:64\"";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parsed_tables_are_formatted_unchanged() {
        let sl2vl = "0,1,15,15,15,15,15,15,15,15,15,15,15,15,15,14";
        assert_eq!(SlToVl::parse(sl2vl).unwrap().to_string(), sl2vl);
        let weights = "0:255,14:0,0:1";
        assert_eq!(VlWeights::parse(weights).unwrap().to_string(), weights);
        let spaced = VlWeights::parse(" 0x1:0x10 , 2 : 3").unwrap();
        assert_eq!(spaced.entries(), [(1, 16), (2, 3)]);
        let full = vec!["0:1"; VlWeights::MAX].join(",");
        assert_eq!(VlWeights::parse(&full).unwrap().entries().len(), 64);
    }

    #[test]
    fn tables_of_another_length_or_with_values_out_of_range_are_refused() {
        let short = vec!["0"; 15].join(",");
        let long = vec!["0"; 17].join(",");
        let high = format!("{short},16");
        let empty = format!("{short},");
        for text in [short.as_str(), &long, &high, &empty, "", "0;1"] {
            assert_eq!(SlToVl::parse(text), None, "{text}");
        }
        let many = vec!["0:1"; VlWeights::MAX + 1].join(",");
        for text in ["15:1", "0:256", "0", "0:-1", "0:1,", "0:1:2", "", &many] {
            assert_eq!(VlWeights::parse(text), None, "{text}");
        }
    }
}
