//! Reads the `opensm.conf` an operator already has: a key and a value on each line, `#` begins a
//! comment, `(null)` is "not set". Keys with a counterpart here are taken, others are reported.

use std::path::Path;

use rsm_routing::engine::EngineKind;

use super::field::{ConfigKey, Given};
use super::finding::{ConfigFinding, ConfigSeverity, Findings};
use super::opensm_keys::OTHER_KEYS;
use super::schema::fields;
use super::{Config, Enforcement};

/// The conversion of OpenSM's value to rsm's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Convert {
    /// A number, as C writes numbers.
    Number,
    /// A number of seconds, kept here in milliseconds.
    Seconds,
    /// TRUE or FALSE.
    Flag,
    /// A GUID, zero for none.
    Guid,
    /// A file or directory name.
    Path,
    /// A list of engines, of which the first that is known here is taken.
    Engines,
    /// A word that means the same here.
    Text,
    /// A mask: 0 leaves the hardware alone; this value enables everything supported, which is the
    /// hardware's default.
    Mask(u64),
}

const UNSET: &str = "(null)";

/// A deprecated key of OpenSM: if it is TRUE, `part_enforce` does not count.
const NO_ENFORCEMENT: &str = "no_partition_enforcement";

/// Reads `text`; the configuration is of use only if no finding is an error.
pub(super) fn parse(file: &Path, text: &str) -> (Config, Vec<ConfigFinding>) {
    let mut config = Config::default();
    config.partitions.file_may_be_missing = true;
    let mut unenforced = false;
    let mut findings = Findings::new(file, text);
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        let content = line.split('#').next().unwrap_or("");
        let key_at = content.len() - content.trim_start().len();
        let content = content.trim();
        if !content.is_empty() {
            let (key, value) = content
                .split_once([' ', '\t'])
                .map_or((content, ""), |(key, value)| (key, value.trim()));
            let value_at = key_at + content.len() - value.len();
            let mut say = |at: usize, severity, found: String, expected: String| {
                findings.at(text, offset + at, severity, found, expected);
            };
            match counterpart(key) {
                Some((field, convert)) => {
                    if let Err((severity, expected)) =
                        take(&mut config, field, convert, unquoted(value))
                    {
                        say(value_at, severity, shown(key, value), expected);
                    }
                }
                None if key == NO_ENFORCEMENT => {
                    match unquoted(value).to_ascii_uppercase().as_str() {
                        "TRUE" => unenforced = true,
                        "FALSE" => unenforced = false,
                        _ => {
                            let expected = "expected TRUE or FALSE".to_owned();
                            say(value_at, ConfigSeverity::Error, shown(key, value), expected);
                        }
                    }
                }
                None if OTHER_KEYS.binary_search(&key).is_ok() => {
                    let expected = "ignored: it has no counterpart in rsm".to_owned();
                    say(key_at, ConfigSeverity::Note, shown(key, value), expected);
                }
                None => {
                    let expected = "ignored: OpenSM has no such key either".to_owned();
                    say(
                        key_at,
                        ConfigSeverity::Warning,
                        format!("unknown key `{key}`"),
                        expected,
                    );
                }
            }
        }
        offset += line.len();
    }
    if unenforced {
        config.partitions.enforcement = Enforcement::Off;
    }
    (config, findings.finish())
}

/// The entry as a finding quotes it, without secret keys: findings are logged.
fn shown(key: &str, value: &str) -> String {
    if key.ends_with("_key") {
        return format!("{key} is set");
    }
    format!("{key} is `{value}`")
}

/// OpenSM takes a value with or without quotes around it.
fn unquoted(value: &str) -> &str {
    value
        .strip_prefix('"')
        .and_then(|v| v.strip_suffix('"'))
        .unwrap_or(value)
}

/// The key of rsm for OpenSM's, and the conversion of its value.
fn counterpart(key: &str) -> Option<(&'static ConfigKey, Convert)> {
    fields().iter().find_map(|field| {
        let (theirs, convert) = field.opensm?;
        (theirs == key).then_some((field, convert))
    })
}

fn take(
    config: &mut Config,
    field: &ConfigKey,
    convert: Convert,
    value: &str,
) -> Result<(), (ConfigSeverity, String)> {
    if value == UNSET {
        return Ok(());
    }
    let refused = || {
        (
            ConfigSeverity::Error,
            format!("expected {}", field.expected()),
        )
    };
    let given = match convert {
        Convert::Number => Given::Number(number(value).ok_or_else(refused)?),
        Convert::Seconds => {
            let seconds = number(value).ok_or_else(refused)?;
            let ms = seconds.checked_mul(1000).ok_or_else(refused)?;
            return field.set(config, Given::Number(ms)).map_err(|_| {
                let expected = "expected seconds, at most a day".to_owned();
                (ConfigSeverity::Error, expected)
            });
        }
        Convert::Flag => match value.to_ascii_uppercase().as_str() {
            "TRUE" => Given::Flag(true),
            "FALSE" => Given::Flag(false),
            _ => return Err((ConfigSeverity::Error, "expected TRUE or FALSE".to_owned())),
        },
        Convert::Guid | Convert::Path | Convert::Text => Given::Text(value),
        Convert::Engines => return engines(config, value),
        Convert::Mask(all) => match number(value).ok_or_else(refused)? {
            0 => return Ok(()),
            mask if mask == all => return Ok(()),
            mask => Given::Number(mask),
        },
    };
    field.set(config, given).map_err(|_| refused())
}

/// OpenSM's name for the engine that is `torus` here.
const TORUS: &str = "torus-2QoS";

fn engines(config: &mut Config, value: &str) -> Result<(), (ConfigSeverity, String)> {
    let named = |name: &str| {
        EngineKind::ALL
            .into_iter()
            .find(|e| e.name() == name.trim())
            .or_else(|| (name.trim() == TORUS).then_some(EngineKind::Torus))
    };
    let first = value.split(',').next().unwrap_or("");
    let Some(engine) = value.split(',').find_map(named) else {
        let expected = "rsm has none of these engines and picks one itself".to_owned();
        return Err((ConfigSeverity::Warning, expected));
    };
    config.routing.engine = engine;
    if named(first).is_none() {
        let expected = format!("the first of these that rsm has is {engine}");
        return Err((ConfigSeverity::Warning, expected));
    }
    Ok(())
}

/// A number as C's `strtoull` with base 0 reads it: `0x` is hexadecimal, a leading 0 octal.
pub(super) fn number(text: &str) -> Option<u64> {
    let (digits, radix) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None if text.len() > 1 && text.starts_with('0') => (&text[1..], 8),
        None => (text, 10),
    };
    // `from_str_radix` alone would also take a sign.
    if !digits.starts_with(|c: char| c.is_digit(radix)) {
        return None;
    }
    u64::from_str_radix(digits, radix).ok()
}

#[cfg(test)]
mod tests {
    use rsm_ids::{Guid, Lmc};

    use super::super::PartitionConfig;
    use super::super::finding::any_error;
    use super::*;

    fn read(text: &str) -> (Config, Vec<ConfigFinding>) {
        parse(Path::new("opensm.conf"), text)
    }

    #[test]
    fn a_key_with_a_counterpart_is_not_among_those_without() {
        let mut theirs: Vec<_> = fields().iter().filter_map(|field| field.opensm).collect();
        theirs.sort_unstable_by_key(|(key, _)| *key);
        let names = theirs.windows(2).map(|pair| [pair[0].0, pair[1].0]);
        names.for_each(|[one, next]| assert_ne!(one, next, "two keys of ours for one"));
        for (key, _) in theirs {
            assert!(
                OTHER_KEYS.binary_search(&key).is_err(),
                "{key} is in both tables"
            );
        }
        assert!(OTHER_KEYS.is_sorted());
    }

    #[test]
    fn keys_with_a_counterpart_are_taken() {
        let (config, findings) = read(
            "# comment\n\nguid 0x0002c90300001234\nlmc 2 # two\nlmc_esp0 TRUE\n\
             head_of_queue_lifetime 0x11\nleaf_vl_stall_count 05\nsweep_interval 30\n\
             routing_engine updn,minhop\nroot_guid_file \"/etc/roots\"\n\
             m_key 0xffffffffffffffff\nforce_link_width 255\nforce_link_speed 0\n\
             force_link_speed_ext 4\ndump_files_dir (null)\n",
        );
        assert_eq!(findings, []);
        assert_eq!(config.sm.guid, Some(Guid(0x0002_c903_0000_1234)));
        assert_eq!(config.lids.lmc, Lmc::new(2).unwrap());
        assert!(config.lids.lmc_esp0);
        assert_eq!(config.links.hoq_life, 0x11);
        assert_eq!(config.links.leaf_vl_stall_count, 5);
        assert_eq!(config.sweep.light_interval_ms, 30_000);
        assert_eq!(config.routing.engine, EngineKind::UpDn);
        assert_eq!(config.routing.root_guid_file, Some("/etc/roots".into()));
        assert_eq!(config.sm.m_key, u64::MAX);
        assert_eq!(config.links.force_width, None);
        assert_eq!(config.links.force_speed, None);
        assert_eq!(config.links.force_speed_ext, Some(4));
        assert_eq!(config.dump.dir, None);
    }

    #[test]
    fn keys_without_a_counterpart_are_reported_with_their_line() {
        let (_, findings) = read("lmc 0\nqos FALSE\n  lcm 1\nrouting_engine ftree,updn\n");
        let said: Vec<_> = findings
            .iter()
            .map(|f| (f.line, f.column, f.severity))
            .collect();
        assert_eq!(
            said,
            [
                (2, 1, ConfigSeverity::Note),
                (3, 3, ConfigSeverity::Warning),
                (4, 16, ConfigSeverity::Warning)
            ]
        );
        assert!(!any_error(&findings));
    }

    #[test]
    fn secret_keys_are_not_in_findings() {
        let (_, findings) = read("sa_key 0x1234567\nm_key 0x1234567x\n");
        assert_eq!(findings.len(), 2);
        assert!(findings.iter().all(|f| !f.to_string().contains("1234567")));
    }

    #[test]
    fn every_bad_value_is_an_error() {
        let (mut config, findings) = read(
            "lmc 8\nlmc_esp0 maybe\nsm_priority -1\nguid here\nvl_stall_count 09\nsubnet_timeout\n",
        );
        assert_eq!(findings.len(), 6, "{findings:?}");
        assert!(findings.iter().all(|f| f.severity == ConfigSeverity::Error));
        assert_eq!(
            findings[0].to_string(),
            "opensm.conf:1:5: error: lmc is `8`: expected an integer from 0 to 7"
        );
        config.partitions.file_may_be_missing = false;
        assert_eq!(config, Config::default());
    }

    #[test]
    fn partition_keys_are_taken() {
        let (config, findings) = read(
            "partition_config_file /etc/opensm/partitions.conf\npart_enforce in\nallow_both_pkeys TRUE\n\
             no_partition_enforcement FALSE\n",
        );
        assert_eq!(findings, []);
        let expected = PartitionConfig {
            file: Some("/etc/opensm/partitions.conf".into()),
            file_may_be_missing: true,
            enforcement: Enforcement::In,
            allow_both: true,
        };
        assert_eq!(config.partitions, expected);
        let (config, findings) = read("no_partition_enforcement TRUE\npart_enforce both\n");
        assert_eq!(findings, []);
        assert_eq!(config.partitions.enforcement, Enforcement::Off);
        let (_, findings) = read("part_enforce always\nno_partition_enforcement maybe\n");
        assert_eq!(
            findings[0].to_string(),
            "opensm.conf:1:14: error: part_enforce is `always`: expected one of \"both\", \"in\", \"out\", \"off\""
        );
        assert_eq!(findings.len(), 2);
    }

    #[test]
    fn numbers_are_read_as_c_reads_them() {
        let cases = [
            ("0", Some(0)),
            ("10", Some(10)),
            ("010", Some(8)),
            ("0x10", Some(16)),
        ];
        for (text, value) in cases {
            assert_eq!(number(text), value, "{text}");
        }
        for text in ["", "0x", "08", "+1", "-1", "1s", "0x1ffffffffffffffff"] {
            assert_eq!(number(text), None, "{text}");
        }
    }
}
