//! Parsers of the files of rules about switches and ports for engines, in OpenSM's formats: each
//! line has a GUID with its values; `#` begins a comment.
//!
//! | file | on each line |
//! |---|---|
//! | hop weights | switch GUID, port, hops |
//! | uncounted ports | switch GUID, port |
//! | switch IDs | switch GUID, number |
//! | order of ports | port GUID |

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use rsm_ids::{Guid, PortNum};
use rsm_routing::engine::Numbers;
use rsm_routing::topology::SwitchRules;

use super::RoutingConfig;
use super::c_number::number;
use super::finding::ConfigSeverity;
use super::line_file::{Comments, LineFile, Mistake, Word};
use super::text_file::{ConfigError, Parsed, load};

/// The content of a file and the findings, with one more if the file has no usable line.
fn finish<T: Default + PartialEq>(mut lines: LineFile<'_>, read: T, expected: &str) -> Parsed<T> {
    if read == T::default() {
        lines.about_all(ConfigSeverity::Warning, "no line", expected);
    }
    (read, lines.finish())
}

const CONTRADICTION: &str = "an earlier line gives it another value";
const DUPLICATE: &str = "an earlier line is the same";
const GUID: &str = "expected a GUID, 1 to 16 hexadecimal digits after 0x, not zero";

/// Parses a GUID that is not zero.
pub(super) fn guid<'a>(word: Word<'a>) -> Result<Guid, Mistake<'a>> {
    let guid = word.text.parse::<Guid>().ok();
    guid.filter(|guid| !guid.is_zero()).ok_or(word.error(GUID))
}

/// Parses the port of a switch: its GUID, followed by a port number.
fn port<'a>(words: &[Word<'a>]) -> Result<(Guid, PortNum), Mistake<'a>> {
    const EXPECTED: &str = "expected the number of a port after the GUID, 1 to 254";
    let guid = guid(words[0])?;
    let word = *words.get(1).ok_or(words[0].error(EXPECTED))?;
    let port = number(word.text).and_then(|port| u8::try_from(port).ok());
    let port = port.filter(|port| (1..=254).contains(port));
    Ok((guid, PortNum(port.ok_or(word.error(EXPECTED))?)))
}

/// Inserts the entry of a line; fails if the key already has another value.
fn insert<'a, K: Ord, V: PartialEq + Copy>(
    map: &mut BTreeMap<K, V>,
    key: K,
    value: V,
    word: Word<'a>,
) -> Result<(), Mistake<'a>> {
    match map.insert(key, value) {
        None => Ok(()),
        Some(before) if before == value => Err(word.warning(DUPLICATE)),
        Some(_) => Err(word.error(CONTRADICTION)),
    }
}

/// Parses hop weights: a hop out of the port counts as this number of hops. Numbers above
/// [`SwitchRules::MOST_HOPS`] are reduced to it, with a warning.
pub fn parse_hop_weights(file: &Path, text: &str) -> Parsed<BTreeMap<(Guid, PortNum), u8>> {
    const EXPECTED: &str = "expected a number of hops after the port, 1 to 255";
    const REDUCED: &str =
        "it counts as 40: more would leave no cost for paths over several such hops";
    let mut lines = LineFile::new(file, text, Comments::Anywhere);
    let mut hops = BTreeMap::new();
    lines.each(|line| {
        let words = &line.words()[..];
        let key = port(words)?;
        let word = *words.get(2).ok_or(words[0].error(EXPECTED))?;
        let given = number(word.text).and_then(|hops| u8::try_from(hops).ok());
        let given = given.filter(|hops| *hops > 0).ok_or(word.error(EXPECTED))?;
        let most = SwitchRules::MOST_HOPS;
        insert(&mut hops, key, given.min(most), words[0])?;
        match given > most {
            true => Err(word.warning(REDUCED)),
            false => Ok(()),
        }
    });
    let expected = "a switch GUID, a port and a number of hops on each line";
    finish(lines, hops, expected)
}

/// Parses the ports whose load engines do not count.
pub fn parse_uncounted_ports(file: &Path, text: &str) -> Parsed<BTreeSet<(Guid, PortNum)>> {
    let mut lines = LineFile::new(file, text, Comments::Anywhere);
    let mut ports = BTreeSet::new();
    lines.each(|line| {
        let words = &line.words()[..];
        match ports.insert(port(words)?) {
            true => Ok(()),
            false => Err(words[0].warning(DUPLICATE)),
        }
    });
    finish(lines, ports, "a switch GUID and a port on each line")
}

/// Parses the numbers that replace the GUIDs of switches.
pub fn parse_switch_ids(file: &Path, text: &str) -> Parsed<BTreeMap<Guid, u64>> {
    const EXPECTED: &str = "expected a number after the GUID, hexadecimal after 0x";
    let mut lines = LineFile::new(file, text, Comments::Anywhere);
    let mut ids = BTreeMap::new();
    lines.each(|line| {
        let words = &line.words()[..];
        let guid = guid(words[0])?;
        let word = *words.get(1).ok_or(words[0].error(EXPECTED))?;
        let id = number(word.text).ok_or(word.error(EXPECTED))?;
        insert(&mut ids, guid, id, words[0])
    });
    finish(lines, ids, "a switch GUID and a number on each line")
}

/// Parses the order of ports: each port gets a number, from 0 on, in the order of the file.
pub fn parse_port_order(file: &Path, text: &str) -> Parsed<Numbers> {
    let mut lines = LineFile::new(file, text, Comments::Anywhere);
    let mut order = Numbers::new();
    lines.each(|line| {
        let words = &line.words()[..];
        let guid = guid(words[0])?;
        // A file of 16 MiB has fewer than 2^32 lines.
        let next = order.len() as u32;
        match order.entry(guid) {
            std::collections::btree_map::Entry::Occupied(_) => Err(words[0].warning(DUPLICATE)),
            std::collections::btree_map::Entry::Vacant(place) => {
                place.insert(next);
                Ok(())
            }
        }
    });
    finish(lines, order, "a port GUID on each line")
}

/// Reads a file of the configuration; the default value if the configuration names none.
fn load_named<T: Default>(
    file: Option<&Path>,
    parse: fn(&Path, &str) -> Parsed<T>,
) -> Result<T, ConfigError> {
    file.map_or_else(|| Ok(T::default()), |file| load(file, parse))
}

/// Reads the rules from the files that section `routing` names.
///
/// # Errors
///
/// Fails if a file cannot be read, or has any error.
pub fn load_switch_rules(config: &RoutingConfig) -> Result<SwitchRules, ConfigError> {
    Ok(SwitchRules {
        hops: load_named(config.hop_weights_file.as_deref(), parse_hop_weights)?,
        uncounted: load_named(
            config.uncounted_ports_file.as_deref(),
            parse_uncounted_ports,
        )?,
        ids: load_named(config.switch_ids_file.as_deref(), parse_switch_ids)?,
    })
}

/// Reads the order of ports from the file that `routing.port_order_file` names.
///
/// # Errors
///
/// Fails if the file cannot be read, or has any error.
pub fn load_port_order(config: &RoutingConfig) -> Result<Numbers, ConfigError> {
    load_named(config.port_order_file.as_deref(), parse_port_order)
}

#[cfg(test)]
mod tests {
    use super::super::ConfigFinding;
    use super::*;

    fn places(findings: &[ConfigFinding]) -> Vec<(usize, usize, ConfigSeverity)> {
        let place = |f: &ConfigFinding| (f.line, f.column, f.severity);
        findings.iter().map(place).collect()
    }

    #[test]
    fn files_may_have_comments_trailing_names_and_both_line_endings() {
        let file = Path::new("f");
        let (hops, findings) =
            parse_hop_weights(file, "# w\r\n0x10 1 2 slow\r\n\n0x11\t0x2 03 # x");
        assert_eq!(findings, []);
        let expected = [((Guid(0x10), PortNum(1)), 2), ((Guid(0x11), PortNum(2)), 3)];
        assert_eq!(hops, BTreeMap::from(expected));
        let (ports, findings) = parse_uncounted_ports(file, "0x10 1\n0x10 254\n");
        assert_eq!(findings, []);
        let expected = [(Guid(0x10), PortNum(1)), (Guid(0x10), PortNum(254))];
        assert_eq!(ports, BTreeSet::from(expected));
        let (ids, findings) = parse_switch_ids(file, "0x10 7\n0x11 0xffffffffffffffff\n");
        assert_eq!(findings, []);
        assert_eq!(
            ids,
            BTreeMap::from([(Guid(0x10), 7), (Guid(0x11), u64::MAX)])
        );
        let (order, findings) = parse_port_order(file, "0x30\n0x10 host\n0x20\n");
        assert_eq!(findings, []);
        let expected = [(Guid(0x30), 0), (Guid(0x10), 1), (Guid(0x20), 2)];
        assert_eq!(order, Numbers::from(expected));
    }

    #[test]
    fn every_mistake_is_reported_with_its_line_and_word() {
        let file = Path::new("f");
        let (error, warning) = (ConfigSeverity::Error, ConfigSeverity::Warning);
        let text = "spine 1 2\n0x0 1 2\n0x10\n0x10 0 2\n0x10 255 2\n0x10 1\n0x10 1 0\n\
                    0x10 1 256\n0x10 1 -1\n0x10 1 2\n0x10 1 2\n0x10 1 3\n0x10 2 99\n";
        let (hops, findings) = parse_hop_weights(file, text);
        let expected = [
            (1, 1, error),
            (2, 1, error),
            (3, 1, error),
            (4, 6, error),
            (5, 6, error),
            (6, 1, error),
            (7, 8, error),
            (8, 8, error),
            (9, 8, error),
            (11, 1, warning),
            (12, 1, error),
            (13, 8, warning),
        ];
        assert_eq!(places(&findings), expected);
        assert_eq!(hops[&(Guid(0x10), PortNum(2))], SwitchRules::MOST_HOPS);
        let (_, findings) = parse_uncounted_ports(file, "0x10 1\n0x10 1\n0x10\n0x10 x\n");
        assert_eq!(
            places(&findings),
            [(2, 1, warning), (3, 1, error), (4, 6, error)]
        );
        let (_, findings) = parse_switch_ids(file, "0x10 1\n0x10 2\n0x11\n0x12 0xg\n");
        assert_eq!(
            places(&findings),
            [(2, 1, error), (3, 1, error), (4, 6, error)]
        );
        let (order, findings) = parse_port_order(file, "0x10\n0x10\nhost\n0x11\n");
        assert_eq!(places(&findings), [(2, 1, warning), (3, 1, error)]);
        assert_eq!(order, Numbers::from([(Guid(0x10), 0), (Guid(0x11), 1)]));
        for findings in [
            parse_hop_weights(file, "# none\n").1,
            parse_uncounted_ports(file, "").1,
            parse_switch_ids(file, "\n").1,
            parse_port_order(file, "").1,
        ] {
            assert_eq!(places(&findings), [(1, 1, warning)]);
        }
    }

    #[test]
    fn missing_binary_or_faulty_file_is_refused_with_name_and_place() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("weights");
        let config = RoutingConfig {
            hop_weights_file: Some(file.clone()),
            ..RoutingConfig::default()
        };
        let error = load_switch_rules(&config).unwrap_err().to_string();
        assert!(error.contains("weights"), "{error}");
        std::fs::write(&file, b"0x10 1 2\n0x11 1 2 # B\xfccherei\n").unwrap();
        let error = load_switch_rules(&config).unwrap_err().to_string();
        assert!(error.contains("weights:2:13"), "{error}");
        std::fs::write(&file, "0x10 1 2\n0x11 1 many\n").unwrap();
        let error = load_switch_rules(&config).unwrap_err().to_string();
        assert!(error.contains("weights:2:8"), "{error}");
        std::fs::write(&file, "0x10 1 2\n").unwrap();
        assert_eq!(load_switch_rules(&config).unwrap().hops.len(), 1);
    }
}
