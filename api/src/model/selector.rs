use std::fmt;
use std::str::FromStr;

use rsm_ids::{Gid, Guid, Lid, PortNum};

use crate::limits::MAX_SELECTOR_BYTES;

/// The name of a node or a port.
///
/// | text | means |
/// |---|---|
/// | `0x0002c90300001234`, any `0x` with 5 to 16 digits, 16 hexadecimal digits alone | a node's or port's GUID |
/// | `0x0002c90300001234:2` | port 2 of the node with that GUID |
/// | `17`, `0x11` (up to four digits) | the port with that LID |
/// | `fe80::2:c903:0:1234`, any IPv6 address | the port with that GID |
/// | `host-03 mlx5_0`, `host-03 mlx5_0:1` | the node with that description; port 1 of it |
/// | `leaf-03`, `leaf-03:7` | the switch with that name in its description (`MF0;leaf-03:MQM8700/U1`); port 7 of it |
/// | `LEAF-03`, `host-03` | the node or switch with that name in another case of letters, or the only node with that text in its description |
/// | `guid:11`, `lid:11`, `gid:::11`, `name:11` | a GUID, a LID, a GID or a description, even if the text alone has another form |
///
/// A description may itself contain colons, so the lookup first tries `rack:7` as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Selector {
    /// The GUID of a node or port.
    Guid {
        /// The GUID.
        guid: Guid,
        /// The port of the node; `None` if the name has no port.
        port: Option<PortNum>,
    },
    /// A LID to which the port answers.
    Lid(Lid),
    /// The GID of a port.
    Gid(Gid),
    /// The NodeDescription: the whole text, a switch's name in it or a unique part of it, with or
    /// without `:port` at its end.
    Description(String),
}

impl Selector {
    /// Selects the node with this GUID.
    pub const fn guid(guid: Guid) -> Selector {
        Selector::Guid { guid, port: None }
    }

    /// Splits a description that ends in `:` and a number from 0 to 254 into the text before it and
    /// the number.
    pub fn split_port(description: &str) -> Option<(&str, PortNum)> {
        let (name, digits) = description.rsplit_once(':')?;
        if name.is_empty() {
            return None;
        }
        Some((name, parse_port(digits)?))
    }
}

/// Parses a port number, 0 to 254 (IBA 14.2.5.3); signs and blanks are not part of a number.
fn parse_port(digits: &str) -> Option<PortNum> {
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    digits
        .parse()
        .ok()
        .filter(|&number| number != u8::MAX)
        .map(PortNum)
}

/// Whether the text has the form of a GUID, and more digits than a LID.
fn looks_like_guid(text: &str) -> bool {
    let hex = |digits: &str| digits.bytes().all(|b| b.is_ascii_hexdigit());
    match text.strip_prefix("0x") {
        Some(digits) => (5..=16).contains(&digits.len()) && hex(digits),
        None => text.len() == 16 && hex(text),
    }
}

fn parse_guid(text: &str) -> Option<Selector> {
    let (guid, port) = match text.split_once(':') {
        Some((guid, port)) => (guid, Some(parse_port(port)?)),
        None => (text, None),
    };
    let guid = guid.parse().ok()?;
    Some(Selector::Guid { guid, port })
}

/// The error for a text that is not a valid name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseSelectorError {
    /// The text is empty.
    #[error(
        "no node is named: give a GUID (0x0002c90300001234), a LID (17), a GID or a node description"
    )]
    Empty,
    /// The text is longer than any valid name.
    #[error(
        "a name of {bytes} bytes is too long: a node description has at most 64, and {MAX_SELECTOR_BYTES} are read"
    )]
    TooLong {
        /// The length of the text in bytes.
        bytes: usize,
    },
    /// The text after a prefix does not have the form that the prefix requires.
    #[error("`{text}` is not a {expected}")]
    Malformed {
        /// The text.
        text: String,
        /// The expected form.
        expected: &'static str,
    },
}

impl FromStr for Selector {
    type Err = ParseSelectorError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.len() > MAX_SELECTOR_BYTES {
            return Err(ParseSelectorError::TooLong { bytes: text.len() });
        }
        let malformed = |expected| ParseSelectorError::Malformed {
            text: text.to_owned(),
            expected,
        };
        if text.is_empty() || text == "name:" {
            return Err(ParseSelectorError::Empty);
        }
        if let Some(name) = text.strip_prefix("name:") {
            return Ok(Selector::Description(name.to_owned()));
        }
        if let Some(guid) = text.strip_prefix("guid:") {
            return parse_guid(guid).ok_or_else(|| {
                malformed("GUID: expected 1 to 16 hexadecimal digits after `guid:`")
            });
        }
        if let Some(lid) = text.strip_prefix("lid:") {
            return lid.parse().map(Selector::Lid).map_err(|_| {
                malformed("LID: expected 0 to 65535, or 0x0 to 0xffff, after `lid:`")
            });
        }
        if let Some(gid) = text.strip_prefix("gid:") {
            return gid
                .parse()
                .map(Selector::Gid)
                .map_err(|_| malformed("GID: expected an IPv6 address after `gid:`"));
        }
        if looks_like_guid(text.split(':').next().unwrap_or(text))
            && let Some(selector) = parse_guid(text)
        {
            return Ok(selector);
        }
        if !text.starts_with('+')
            && let Ok(lid) = text.parse()
        {
            return Ok(Selector::Lid(lid));
        }
        if let Ok(gid) = text.parse() {
            return Ok(Selector::Gid(gid));
        }
        Ok(Selector::Description(text.to_owned()))
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Selector::Guid { guid, port: None } => write!(f, "{guid}"),
            Selector::Guid {
                guid,
                port: Some(port),
            } => write!(f, "{guid}:{port}"),
            Selector::Lid(lid) => write!(f, "{lid}"),
            Selector::Gid(gid) => write!(f, "{gid}"),
            // A description that could be read as another form needs its prefix for the round trip.
            Selector::Description(text) => match text.parse::<Selector>() {
                Ok(Selector::Description(same)) if same == *text => f.write_str(text),
                _ => write!(f, "name:{text}"),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> Selector {
        text.parse().unwrap()
    }

    #[test]
    fn each_form_parses_as_its_own_variant() {
        let guid = Guid(0x0002_c903_0000_1234);
        assert_eq!(parse("0x0002c90300001234"), Selector::guid(guid));
        assert_eq!(parse("0002c90300001234"), Selector::guid(guid));
        assert_eq!(parse("0x2c90300001234"), Selector::guid(guid));
        assert_eq!(
            parse("0x0002c90300001234:2"),
            Selector::Guid {
                guid,
                port: Some(PortNum(2))
            }
        );
        assert_eq!(parse("17"), Selector::Lid(Lid(17)));
        assert_eq!(parse("0xc000"), Selector::Lid(Lid(0xc000)));
        let gid = Gid::new(0xFE80_0000_0000_0000, guid);
        assert_eq!(parse("fe80::2:c903:0:1234"), Selector::Gid(gid));
        assert_eq!(parse("gid:FE80::2:C903:0:1234"), Selector::Gid(gid));
        for name in [
            "leaf-03",
            "leaf-03:7",
            "65536",
            "+17",
            "0x",
            "MF0;sw:QM9700/U1",
        ] {
            assert_eq!(parse(name), Selector::Description(name.to_owned()));
        }
        assert_eq!(parse("guid:11"), Selector::guid(Guid(0x11)));
        assert_eq!(parse("lid:0x11"), Selector::Lid(Lid(0x11)));
        assert_eq!(parse("name:11"), Selector::Description("11".to_owned()));
    }

    #[test]
    fn texts_that_name_nothing_do_not_parse() {
        for text in [
            "",
            "name:",
            "guid:",
            "guid:xyz",
            "lid:",
            "lid:65536",
            "gid:",
            "gid:1",
        ] {
            assert!(text.parse::<Selector>().is_err(), "{text:?}");
        }
        let long = "x".repeat(MAX_SELECTOR_BYTES + 1);
        assert_eq!(
            long.parse::<Selector>(),
            Err(ParseSelectorError::TooLong { bytes: long.len() })
        );
    }

    #[test]
    fn split_port_takes_a_port_number_at_the_end_only() {
        assert_eq!(Selector::split_port("a:b:7"), Some(("a:b", PortNum(7))));
        for text in ["leaf", "leaf:", ":7", "leaf:255", "leaf:+7", "leaf:7x"] {
            assert_eq!(Selector::split_port(text), None, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn text_form_round_trips(text in ".{1,64}") {
            if let Ok(selector) = text.parse::<Selector>() {
                prop_assert_eq!(selector.to_string().parse(), Ok(selector));
            }
        }
    }
}
