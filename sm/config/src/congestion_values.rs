//! Values of section `congestion`: masks of ports, tables of delays, and numbers by service level.

use std::collections::BTreeMap;
use std::fmt;

use rsm_mad::wire::congestion::{CongestionControlTableEntry, PortMask};

use super::c_number::number;
use super::value::{Given, HeldValue, InvalidValue, Kind, Takes, Value};

/// A delay between packets, as `SHIFT:MULTIPLIER`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct CctEntry(pub CongestionControlTableEntry);

/// The delays by which an adapter slows down. If empty, the adapter keeps its own delays.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct CctEntries(pub Vec<CongestionControlTableEntry>);

/// Ports of switches, written as hexadecimal digits; port 0 is the lowest bit.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PortMaskValue(pub PortMask);

/// Numbers up to `MAX` by service level, written as pairs `SL:NUMBER`. A service level without a
/// pair has 0.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct PerLevel<const MAX: u16>(BTreeMap<u8, u16>);

impl CctEntry {
    /// Parses a shift, 0 to 3, and a multiplier, 0 to 16,383.
    fn parse(text: &str) -> Option<CctEntry> {
        let (shift, multiplier) = text.split_once(':')?;
        let shift = number(shift.trim()).filter(|&shift| shift <= 3)?;
        let multiplier = number(multiplier.trim()).filter(|&multiplier| multiplier <= 0x3FFF)?;
        let mut entry = CongestionControlTableEntry::default();
        entry
            .set_shift(shift as u8)
            .set_multiplier(multiplier as u16);
        Some(CctEntry(entry))
    }
}

impl CctEntries {
    /// Maximum number of entries, equal to OpenSM's.
    pub const MAX: usize = 128;

    fn parse(text: &str) -> Option<CctEntries> {
        let entries: Option<Vec<_>> = text
            .split(',')
            .map(|entry| Some(CctEntry::parse(entry)?.0))
            .collect();
        entries
            .filter(|entries| entries.len() <= Self::MAX)
            .map(CctEntries)
    }
}

impl PortMaskValue {
    /// Parses up to 64 hexadecimal digits, with or without `0x`.
    fn parse(text: &str) -> Option<PortMaskValue> {
        let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
        let digits = digits.unwrap_or(text).as_bytes();
        if digits.is_empty() || digits.len() > 2 * PortMask::LEN {
            return None;
        }
        let mut mask = PortMask::default();
        for (place, &digit) in digits.iter().rev().enumerate() {
            let value = char::from(digit).to_digit(16)? as u8;
            mask.0[PortMask::LEN - 1 - place / 2] |= value << (place % 2 * 4);
        }
        Some(PortMaskValue(mask))
    }
}

impl<const MAX: u16> PerLevel<MAX> {
    /// The number of a service level.
    pub fn of(&self, level: u8) -> u16 {
        self.0.get(&level).copied().unwrap_or(0)
    }

    fn parse(text: &str) -> Option<PerLevel<MAX>> {
        let mut numbers = BTreeMap::new();
        for pair in text.split(',') {
            let (level, value) = pair.split_once(':')?;
            let level = number(level.trim()).filter(|&level| level <= 15)?;
            let value = number(value.trim()).filter(|&value| value <= MAX.into())?;
            let before = numbers.insert(level as u8, value as u16);
            if before.is_some() {
                return None;
            }
        }
        Some(PerLevel(numbers))
    }
}

/// Adds OpenSM's line `SL NUMBER` to `held`, which has pairs in the form of a [`PerLevel`]. An
/// earlier pair of the same service level is dropped. `None` if the line has another form.
pub(super) fn with_level(held: Option<HeldValue>, line: &str) -> Option<String> {
    let mut words = line.split_whitespace();
    let (level, value) = (number(words.next()?)?, words.next()?);
    if words.next().is_some() {
        return None;
    }
    let held = match held {
        Some(HeldValue::Text(text)) => text,
        _ => String::new(),
    };
    let is_other = |pair: &&str| {
        pair.split_once(':')
            .is_some_and(|(other, _)| number(other) != Some(level))
    };
    let others = held.split(',').filter(is_other).map(str::to_owned);
    let all: Vec<String> = others.chain([format!("{level}:{value}")]).collect();
    Some(all.join(","))
}

impl fmt::Display for CctEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.0.shift(), self.0.multiplier())
    }
}

impl fmt::Display for CctEntries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entries = self.0.iter().map(|&entry| CctEntry(entry).to_string());
        f.write_str(&entries.collect::<Vec<_>>().join(","))
    }
}

impl fmt::Display for PortMaskValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<const MAX: u16> fmt::Display for PerLevel<MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pairs = self
            .0
            .iter()
            .map(|(level, value)| format!("{level}:{value}"));
        f.write_str(&pairs.collect::<Vec<_>>().join(","))
    }
}

macro_rules! forms {
    ($($type:ty: $form:literal;)+) => {$(
        impl Takes for $type {
            const KIND: Kind = Kind::Form($form);
        }

        impl Value for $type {
            fn set(&mut self, given: Given<'_>) -> Result<(), InvalidValue> {
                *self = match given {
                    Given::Text("") => <$type>::default(),
                    Given::Text(text) => <$type>::parse(text).ok_or(InvalidValue)?,
                    _ => return Err(InvalidValue),
                };
                Ok(())
            }

            fn held(&self) -> Option<HeldValue> {
                let is_set = *self != <$type>::default();
                is_set.then(|| HeldValue::Text(self.to_string()))
            }
        }
    )+};
}

forms! {
    CctEntry: "a string SHIFT:MULTIPLIER, a shift of 0 to 3 and a multiplier of 0 to 16383";
    CctEntries: "a string of up to 128 pairs SHIFT:MULTIPLIER, 0 to 3 and 0 to 16383, with commas \
                 between them";
    PortMaskValue: "a string of up to 64 hexadecimal digits such as \"0x1fffe\"";
    PerLevel<255>: "a string of pairs SL:NUMBER, 0 to 15 and 0 to 255, with commas between them";
    PerLevel<65535>: "a string of pairs SL:NUMBER, 0 to 15 and 0 to 65535, with commas between \
                      them";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parsed_values_are_formatted_unchanged() {
        let table = "0:0,1:3,3:16383";
        assert_eq!(CctEntries::parse(table).unwrap().to_string(), table);
        let mask = PortMaskValue::parse("0x1FFFE").unwrap();
        assert_eq!(mask.to_string(), "0x1fffe");
        assert_eq!(mask.0.0[29..], [1, 0xFF, 0xFE]);
        let widest = "f".repeat(64);
        assert_eq!(PortMaskValue::parse(&widest).unwrap().0.0, [0xFF; 32]);
        let levels: PerLevel<255> = PerLevel::parse("3:7, 0:0x10").unwrap();
        assert_eq!(levels.to_string(), "0:16,3:7");
        assert_eq!((levels.of(0), levels.of(1), levels.of(3)), (16, 0, 7));
    }

    #[test]
    fn values_out_of_range_or_form_are_refused() {
        for text in ["4:0", "0:16384", "0", "0:0,", "0:-1", ":", "0:1:2"] {
            assert_eq!(CctEntries::parse(text), None, "{text}");
        }
        let long = vec!["0:1"; CctEntries::MAX + 1].join(",");
        assert_eq!(CctEntries::parse(&long), None);
        let long = "0".repeat(65);
        for text in ["0x", "", "0xg", "+1", &long] {
            assert_eq!(PortMaskValue::parse(text), None, "{text}");
        }
        for text in ["16:0", "0:256", "0", "0:1,0:2", "0:1,"] {
            assert_eq!(PerLevel::<255>::parse(text), None, "{text}");
        }
    }

    #[test]
    fn later_opensm_line_replaces_the_earlier_line_of_its_level() {
        let held = |text: &str| Some(HeldValue::Text(text.to_owned()));
        assert_eq!(with_level(None, "0 5").unwrap(), "0:5");
        assert_eq!(with_level(held("0:5,1:6"), "0 0x7").unwrap(), "1:6,0:0x7");
        for line in ["", "3", "x 3", "1 2 3"] {
            assert_eq!(with_level(None, line), None, "{line}");
        }
    }
}
