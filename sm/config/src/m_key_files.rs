//! Parsers of the files of M_Keys: the secret from which keys are derived, and OpenSM's `guid2mkey`
//! and `neighbors`. No finding shows a key.

use std::collections::BTreeMap;
use std::path::Path;

use rsm_ids::Guid;

use super::c_number::number;
use super::finding::{ConfigFinding, ConfigSeverity, Findings, any_error};
use super::text_file::{access_of_others, read_text};
use super::{ConfigError, SmConfig};
use crate::m_keys::{ForeignKeys, SECRET_BYTES, SECRETS_MAX, Secret};

/// The expected form of a line of `guid2mkey`.
const TABLE_LINE: &str = "expected `0xGUID 0xM_KEY`";
const NEIGHBORS_LINE: &str = "expected `0xGUID:PORT 0xGUID:PORT`";

/// One end of a cable: GUID of the port, and its number.
pub type CableEnd = (Guid, u8);

/// Parses the secrets of a file: 64 hexadecimal digits on each line; `#` begins a comment. The
/// first secret is in use; ports may still hold keys of the others.
pub fn parse_m_key_secrets(file: &Path, text: &str) -> (Vec<Secret>, Vec<ConfigFinding>) {
    let mut findings = Findings::new(file, text);
    let mut secrets: Vec<Secret> = Vec::new();
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        let content = line.split('#').next().unwrap_or("");
        let start = offset + content.len() - content.trim_start().len();
        offset += line.len();
        let digits = content.trim();
        if digits.is_empty() {
            continue;
        }
        let mut error = |found: &str, expected: &str| {
            findings.at(text, start, ConfigSeverity::Error, found, expected);
        };
        let mut bytes = [0; SECRET_BYTES];
        if hex::decode_to_slice(digits, &mut bytes).is_err() {
            error(
                "the line is no secret",
                "expected 64 hexadecimal digits, as `openssl rand -hex 32` makes them",
            );
        } else if secrets.contains(&Secret::new(bytes)) {
            error("the secret is there before", "expected each once");
        } else if secrets.len() == SECRETS_MAX {
            let expected =
                format!("expected at most {SECRETS_MAX}: the one in use and those before it");
            error("one secret too many", &expected);
        } else {
            secrets.push(Secret::new(bytes));
        }
    }
    if secrets.is_empty() {
        let expected = "expected 64 hexadecimal digits, as `openssl rand -hex 32` makes them";
        findings.at(text, 0, ConfigSeverity::Error, "no secret", expected);
    }
    (secrets, findings.finish())
}

/// Reads the file that `sm.m_key_secret_file` names.
///
/// # Errors
///
/// Fails if the file cannot be read, has any error, or is readable by users other than its owner.
pub fn load_m_key_secrets(file: &Path) -> Result<Vec<Secret>, ConfigError> {
    let text = read_text(file)?;
    let (secrets, mut findings) = parse_m_key_secrets(file, &text);
    let why = "the keys of all ports follow from it";
    findings.extend(access_of_others(file, &text, why)?);
    match any_error(&findings) {
        true => Err(ConfigError::Invalid { findings }),
        false => Ok(secrets),
    }
}

/// Parses the port GUID and M_Key on a line of `guid2mkey`: `0xGUID 0xM_KEY`.
pub fn guid2mkey_entry(line: &str) -> Option<(Guid, u64)> {
    let mut words = line.split_whitespace();
    let guid = number(words.next()?).filter(|&guid| guid != 0)?;
    let key = number(words.next()?)?;
    words.next().is_none().then_some((Guid(guid), key))
}

/// Parses the ends of a cable on a line of `neighbors`: `0xGUID:PORT 0xGUID:PORT`.
pub fn neighbors_entry(line: &str) -> Option<(CableEnd, CableEnd)> {
    let mut words = line.split_whitespace();
    let mut end = || {
        let (guid, port) = words.next()?.split_once(':')?;
        let guid = number(guid).filter(|&guid| guid != 0)?;
        Some((Guid(guid), port.parse().ok().filter(|&port| port != 0)?))
    };
    let cable = (end()?, end()?);
    words.next().is_none().then_some(cable)
}

/// Checks a `guid2mkey`. Returns the findings.
pub(super) fn check_m_key_table(file: &Path, text: &str) -> Vec<ConfigFinding> {
    entries(file, text, guid2mkey_entry, TABLE_LINE).1
}

/// Checks a `neighbors`. Returns the findings.
pub(super) fn check_m_key_neighbors(file: &Path, text: &str) -> Vec<ConfigFinding> {
    entries(file, text, neighbors_entry, NEIGHBORS_LINE).1
}

/// Parses a file with one entry per line. A line of another form is skipped with a warning.
fn entries<T>(
    file: &Path,
    text: &str,
    entry: fn(&str) -> Option<T>,
    expected: &str,
) -> (Vec<T>, Vec<ConfigFinding>) {
    let mut findings = Findings::new(file, text);
    let mut found = Vec::new();
    let mut offset = 0;
    for content in text.split_inclusive('\n') {
        let start = offset;
        offset += content.len();
        if content.trim().is_empty() {
            continue;
        }
        match entry(content) {
            Some(entry) => found.push(entry),
            None => {
                findings.at(
                    text,
                    start,
                    ConfigSeverity::Warning,
                    "the line is left out",
                    expected,
                );
            }
        }
    }
    if found.is_empty() {
        findings.at(text, 0, ConfigSeverity::Warning, "no entry", expected);
    }
    (found, findings.finish())
}

/// Reads the files that `sm.m_key_table_file` and `sm.m_key_neighbors_file` name. Lines in error
/// are skipped; `check_m_key_table` reports them.
///
/// # Errors
///
/// Fails if a file cannot be read.
pub fn load_foreign_m_keys(sm: &SmConfig) -> Result<ForeignKeys, ConfigError> {
    let mut keys = ForeignKeys::default();
    if let Some(file) = &sm.m_key_table_file {
        let text = read_text(file)?;
        let (ports, _) = entries(file, &text, guid2mkey_entry, TABLE_LINE);
        keys.by_port = ports.into_iter().filter(|&(_, key)| key != 0).collect();
    }
    if let Some(file) = &sm.m_key_neighbors_file {
        let text = read_text(file)?;
        let (cables, _) = entries(file, &text, neighbors_entry, NEIGHBORS_LINE);
        let ends = cables.into_iter().flat_map(|(a, b)| [(a, b.0), (b, a.0)]);
        keys.neighbors = ends.collect::<BTreeMap<CableEnd, Guid>>();
    }
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const SECRET: &str = "0707070707070707070707070707070707070707070707070707070707070707";

    fn written(text: &str, mode: u32) -> (tempfile::TempDir, std::path::PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("secret");
        std::fs::write(&file, text).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        (directory, file)
    }

    #[test]
    fn secrets_are_read_in_their_order() {
        let (_directory, file) = written(
            &format!("# now\n{SECRET}\n{} # before\n", "ab".repeat(32)),
            0o600,
        );
        let secrets = load_m_key_secrets(&file).unwrap();
        assert_eq!(
            secrets,
            [7, 0xab].map(|byte| Secret::new([byte; SECRET_BYTES]))
        );
    }

    #[test]
    fn a_secret_that_others_may_read_is_refused() {
        for (mode, good) in [
            (0o600, true),
            (0o400, true),
            (0o640, false),
            (0o604, false),
            (0o620, false),
        ] {
            let (_directory, file) = written(SECRET, mode);
            let loaded = load_m_key_secrets(&file);
            assert_eq!(loaded.is_ok(), good, "{mode:o}");
            if let Err(error) = loaded {
                assert!(error.to_string().contains("owner"), "{error}");
            }
        }
    }

    #[test]
    fn bad_secrets_are_refused_and_never_shown() {
        let short = &SECRET[1..];
        let many = (0..5)
            .map(|byte| format!("{byte:02x}").repeat(32))
            .collect::<Vec<_>>()
            .join("\n");
        let twice = format!("{SECRET}\n{SECRET}\n");
        for text in ["", "# nothing\n", short, "not hexadecimal", &many, &twice] {
            let (_directory, file) = written(text, 0o600);
            let error = load_m_key_secrets(&file).unwrap_err().to_string();
            assert!(!error.contains("0707"), "{error}");
        }
    }

    #[test]
    fn files_of_opensm_are_read_and_bad_lines_left_out() {
        let directory = tempfile::tempdir().unwrap();
        let (table, cables) = (
            directory.path().join("guid2mkey"),
            directory.path().join("neighbors"),
        );
        let (keys_text, cables_text) = (
            "0x10 0xabc\n\n0x11 0x0\nsecret\n",
            "0x20:5 0x10:1\n0x20 0x10\n",
        );
        std::fs::write(&table, keys_text).unwrap();
        std::fs::write(&cables, cables_text).unwrap();
        let mut findings = check_m_key_table(&table, keys_text);
        findings.extend(check_m_key_neighbors(&cables, cables_text));
        let sm = SmConfig {
            m_key_table_file: Some(table),
            m_key_neighbors_file: Some(cables),
            ..SmConfig::default()
        };
        let keys = load_foreign_m_keys(&sm).unwrap();
        assert_eq!(keys.by_port, BTreeMap::from([(Guid(0x10), 0xabc)]));
        let expected = [((Guid(0x10), 1), Guid(0x20)), ((Guid(0x20), 5), Guid(0x10))];
        assert_eq!(keys.neighbors, BTreeMap::from(expected));
        assert_eq!(findings.len(), 2);
        assert!(
            findings
                .iter()
                .all(|finding| !finding.to_string().contains("secret"))
        );
    }
}
