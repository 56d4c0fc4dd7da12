//! Parsers for the values of flags.

use rsm_mad::ids::Gid;
use rsm_mad::wire::attr::Mtu;
use rsm_mad::wire::sa::Rate;

use super::super::c_number::number;

/// Parses a number in C's syntax; `None` unless it is from `min` to `max`.
pub(crate) fn within(text: &str, min: u64, max: u64) -> Option<u64> {
    number(text).filter(|value| (min..=max).contains(value))
}

/// Parses an MTU: its code (1 to 5), or its number of bytes.
pub(crate) fn mtu(text: &str) -> Option<Mtu> {
    let value = number(text)?;
    let mut codes = (1..=5).map(Mtu::from_code);
    codes.find(|mtu| {
        let bytes = mtu.bytes().map(u64::from);
        u64::from(mtu.code()) == value || bytes == Some(value)
    })
}

/// Parses a rate: its code (2 to 24), or its speed in Gb/s followed by `G`. Returns the code.
pub(crate) fn rate(text: &str) -> Option<u8> {
    if let Some(gbps) = text.strip_suffix(['G', 'g']) {
        let (whole, tenths) = gbps.split_once('.').unwrap_or((gbps, "0"));
        let tenths = match tenths.as_bytes() {
            [digit @ b'0'..=b'9'] => u32::from(digit - b'0'),
            _ => return None,
        };
        if !whole.bytes().all(|digit| digit.is_ascii_digit()) {
            return None;
        }
        let whole: u32 = whole.parse().ok()?;
        let wanted = whole.checked_mul(10)?.checked_add(tenths)?;
        let known = Rate::all().find(|rate| rate.tenth_gbps().map(u32::from) == Some(wanted));
        return known.map(|rate| rate.0);
    }
    let value = number(text)?;
    let known = Rate::all().find(|rate| u64::from(rate.0) == value);
    known.map(|rate| rate.0)
}

/// Parses the GID of a multicast group, written as an IPv6 address.
pub(super) fn mgid(text: &str) -> Option<Gid> {
    let address: std::net::Ipv6Addr = text.parse().ok()?;
    let gid = Gid(address.to_bits());
    gid.is_multicast().then_some(gid)
}

/// The name in `names` that `word` equals or uniquely abbreviates. OpenSM accepts abbreviations as
/// well.
pub(super) fn keyword(word: &str, names: &[&'static str]) -> Option<&'static str> {
    if let Some(name) = names.iter().find(|name| **name == word) {
        return Some(name);
    }
    let mut matching = names.iter().filter(|name| name.starts_with(word));
    match (matching.next(), matching.next()) {
        (Some(name), None) if !word.is_empty() => Some(name),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_by_code_and_by_speed() {
        let cases = [
            ("3", Some(3)),
            ("0x15", Some(21)),
            ("400G", Some(21)),
            ("2.5G", Some(2)),
            ("1200G", Some(24)),
            ("14g", Some(11)),
        ];
        for (text, code) in cases {
            assert_eq!(rate(text), code, "{text}");
        }
        for text in [
            "",
            "0",
            "1",
            "25",
            "400",
            "G",
            ".5G",
            "2.55G",
            "2.G",
            "+40G",
            "41G",
            "99999999999G",
        ] {
            assert_eq!(rate(text), None, "{text}");
        }
    }

    #[test]
    fn mtus_are_read_by_code_and_by_size() {
        assert_eq!(mtu("4"), Some(Mtu::Bytes2048));
        assert_eq!(mtu("2048"), Some(Mtu::Bytes2048));
        assert_eq!(mtu("4096"), Some(Mtu::Bytes4096));
        for text in ["", "0", "6", "128", "1500", "4k"] {
            assert_eq!(mtu(text), None, "{text}");
        }
    }

    #[test]
    fn ambiguous_abbreviations_are_refused() {
        let names = ["ALL", "ALL_CAS", "ALL_SWITCHES", "SELF"];
        assert_eq!(keyword("ALL", &names), Some("ALL"));
        assert_eq!(keyword("ALL_S", &names), Some("ALL_SWITCHES"));
        assert_eq!(keyword("S", &names), Some("SELF"));
        for word in ["", "A", "ALL_", "ALLES", "self"] {
            assert_eq!(keyword(word, &names), None, "{word}");
        }
    }
}
