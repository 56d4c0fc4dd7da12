//! Values as text.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use rsm_proto::Label;
use rsm_proto::v1;

pub(crate) use rsm_proto::{plain_names, printable};
pub(crate) use rsm_routing::netlist::{HostTally, host_name, host_of};

pub(crate) use crate::time::timestamp;

/// The mark of an absent value.
pub(crate) const NONE: &str = "-";

/// The lines of `text`, broken between words so that each fits `width`; all lines but the first are
/// indented by `indent` blanks. A word that is longer than a line stays whole.
pub(crate) fn wrapped(text: &str, width: usize, indent: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let start = text.len() - text.trim_start().len();
    let mut line = text[..start].to_owned();
    let mut is_empty = true;
    for word in text[start..].split(' ') {
        let length = line.chars().count() + usize::from(!is_empty) + word.chars().count();
        if !is_empty && length > width && !word.is_empty() {
            lines.push(line.trim_end().to_owned());
            line = " ".repeat(indent);
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = false;
    }
    lines.push(line.trim_end().to_owned());
    lines
}

/// The name of an enumeration's value; [`NONE`] if it has no name.
pub(crate) fn label<E: Label>(value: i32) -> String {
    E::label(value).unwrap_or(NONE).to_owned()
}

/// The parser of an argument that takes the names of an enumeration.
pub(crate) fn label_parser<E: Label>() -> impl TypedValueParser<Value = i32> {
    PossibleValuesParser::new(E::LABELS.iter().map(|&(_, label)| label))
        // clap passes only known names; zero is the value that filters nothing.
        .map(|label| E::number(&label).unwrap_or(0))
}

/// A number as text, or the mark for "none".
pub(crate) fn optional(number: Option<u32>) -> String {
    number.map_or_else(|| NONE.to_owned(), |number| number.to_string())
}

/// A LID as text, or the mark for "none".
pub(crate) fn lid(lid: u32) -> String {
    optional(Some(lid).filter(|&lid| lid != 0))
}

/// The text `SLs 0-3, 7` for a mask with SL 0 in bit 0; there are 16 service levels.
pub(crate) fn service_levels(mask: u32) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for level in (0..16).filter(|level| mask >> level & 1 != 0) {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == level => *last = level,
            _ => ranges.push((level, level)),
        }
    }
    let ranges = ranges.iter().map(|(first, last)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    });
    format!("SLs {}", ranges.collect::<Vec<_>>().join(", "))
}

/// The text, or the mark for "none" if it is empty.
pub(crate) fn or_none(text: &str) -> String {
    if text.is_empty() { NONE } else { text }.to_owned()
}

/// The name of a port, such as `leaf-03:7`, in the form that a command line accepts.
pub(crate) fn port_of(description: &str, port: Option<&v1::PortKey>) -> String {
    match port {
        Some(port) if description.is_empty() => format!("{}:{}", port.node_guid, port.number),
        Some(port) => format!("{description}:{}", port.number),
        None => NONE.to_owned(),
    }
}

/// The name of a port; a port that has left the subnet is shown by `guid`, its GUID.
pub(crate) fn port_or_gone(description: &str, port: Option<&v1::PortKey>, guid: &str) -> String {
    match port {
        Some(_) => port_of(description, port),
        None => format!("{guid} (gone)"),
    }
}

/// The width and speed of a link, such as `4x ndr`.
pub(crate) fn rate(width: i32, speed: i32) -> String {
    match (v1::LinkWidth::label(width), v1::LinkSpeed::label(speed)) {
        (None, None) => NONE.to_owned(),
        (width, speed) => format!("{} {}", width.unwrap_or("?"), speed.unwrap_or("?")),
    }
}

/// The remarks about a link in a row of a table: `damped, slow, drained`; empty if there are none.
pub(crate) fn link_remarks(link: &v1::Link) -> String {
    let own = [(link.damped, "damped"), (link.slow.is_some(), "slow")];
    let own = own
        .into_iter()
        .filter_map(|(holds, text)| holds.then_some(text));
    let remarks: Vec<&str> = own.chain(v1::Avoidance::label(link.avoidance)).collect();
    remarks.join(", ")
}

/// The remarks about a part in a row of a table: `suspected, drained`; empty if there are none.
pub(crate) fn remarks(remark: Option<&str>, avoidance: i32) -> String {
    let avoidance = v1::Avoidance::label(avoidance);
    let remarks: Vec<&str> = remark.into_iter().chain(avoidance).collect();
    remarks.join(", ")
}

/// A multicast LID or a P_Key as four hexadecimal digits.
pub(crate) fn hex(number: u32) -> String {
    format!("{number:#06x}")
}

/// Parses a number on the command line, in decimal or hexadecimal.
pub(crate) fn number(text: &str) -> Result<u64, String> {
    let number = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    number.map_err(|_| "expected a number, or 0x and hexadecimal digits".to_owned())
}

/// Parses a P_Key on the command line, with either value of the membership bit.
pub(crate) fn p_key(text: &str) -> Result<u16, String> {
    let number = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u16::from_str_radix(digits, 16),
        None => text.parse(),
    };
    number
        .ok()
        .filter(|key| key & 0x7fff != 0)
        .ok_or_else(|| "expected 0x0001 to 0x7fff, with or without the bit 0x8000".to_owned())
}

/// A number with its noun: `1 switch`, `2 switches`.
pub(crate) fn count(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// A duration in its two largest units.
pub(crate) fn duration(milliseconds: u64) -> String {
    let seconds = milliseconds / 1000;
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{} s", seconds),
        (0, 0, minutes) => format!("{minutes} min {} s", seconds % 60),
        (0, hours, minutes) => format!("{hours} h {minutes} min"),
        (days, hours, _) => format!("{days} d {hours} h"),
    }
}

/// A rate per second as a whole number.
pub(crate) fn per_second(rate: Option<f64>) -> String {
    rate.map_or_else(|| NONE.to_owned(), |rate| format!("{rate:.0}"))
}

/// A duration in milliseconds with three decimals.
pub(crate) fn milliseconds(milliseconds: f64) -> String {
    format!("{milliseconds:.3}")
}

/// A duration of nanoseconds in the unit that leaves one to three digits before the point.
pub(crate) fn nanoseconds(nanoseconds: u64) -> String {
    match nanoseconds {
        0..1_000 => format!("{nanoseconds} ns"),
        1_000..1_000_000 => format!("{:.1} µs", nanoseconds as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} ms", nanoseconds as f64 / 1e6),
        _ => format!("{:.1} s", nanoseconds as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_in_utc_without_a_local_zone() {
        for (unix_ms, expected) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (951_868_799_999, "2000-02-29T23:59:59.999Z"),
            (1_709_164_800_000, "2024-02-29T00:00:00.000Z"),
            (1_735_689_599_001, "2024-12-31T23:59:59.001Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(timestamp(unix_ms), expected);
        }
    }

    #[test]
    fn long_text_is_broken_between_words() {
        assert_eq!(wrapped("  one two", 80, 4), ["  one two"]);
        assert_eq!(wrapped("one two three", 8, 2), ["one two", "  three"]);
        assert_eq!(
            wrapped("a 0x0002c90300001234", 8, 0),
            ["a", "0x0002c90300001234"]
        );
        assert_eq!(wrapped("", 8, 2), [""]);
    }

    #[test]
    fn nanoseconds_are_shown_in_the_largest_unit_that_fits() {
        let texts = [999, 1_000, 999_949, 1_500_000, 2_000_000_000].map(nanoseconds);
        assert_eq!(texts, ["999 ns", "1.0 µs", "999.9 µs", "1.5 ms", "2.0 s"]);
    }

    #[test]
    fn durations_show_two_units() {
        assert_eq!(duration(999), "0 s");
        assert_eq!(duration(61_000), "1 min 1 s");
        assert_eq!(duration(3_720_000), "1 h 2 min");
        assert_eq!(duration(90_000_000), "1 d 1 h");
    }
}
