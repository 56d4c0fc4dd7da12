//! Parsers of the files of M_Keys: the secret from which keys are derived, and OpenSM's `guid2mkey`
//! and `neighbors`. No finding shows a key.

use std::collections::BTreeMap;
use std::path::Path;

use rsm_ids::Guid;

use super::ConfigError;
use super::c_number::number;
use super::finding::{ConfigFinding, ConfigSeverity};
use super::line_file::{Comments, LineFile};
use super::text_file::{Parsed, access_of_others, read_text, usable};
use crate::m_keys::{SECRET_BYTES, SECRETS_MAX, Secret};

/// The expected form of a line of `guid2mkey`.
const TABLE_LINE: &str = "expected `0xGUID 0xM_KEY`";

/// The expected form of a line of `neighbors`.
const NEIGHBORS_LINE: &str = "expected `0xGUID:PORT 0xGUID:PORT`";

/// One end of a cable: GUID of the port, and its number.
pub type CableEnd = (Guid, u8);

/// Parses the secrets of a file: 64 hexadecimal digits on each line; `#` begins a comment. The
/// first secret is in use; ports may still hold keys derived from the later secrets.
pub fn parse_m_key_secrets(file: &Path, text: &str) -> (Vec<Secret>, Vec<ConfigFinding>) {
    const FORM: &str = "expected 64 hexadecimal digits, as `openssl rand -hex 32` makes them";
    let mut lines = LineFile::new(file, text, Comments::Anywhere);
    let mut secrets: Vec<Secret> = Vec::new();
    lines.each(|line| {
        let mut bytes = [0; SECRET_BYTES];
        if hex::decode_to_slice(line.text, &mut bytes).is_err() {
            return Err(line.error(FORM).found("the line is no secret"));
        }
        if secrets.contains(&Secret::new(bytes)) {
            let again = line.error("expected each once");
            return Err(again.found("an earlier line has this secret"));
        }
        if secrets.len() == SECRETS_MAX {
            let expected =
                format!("expected at most {SECRETS_MAX}: the secret in use and its predecessors");
            let more = line.mistake(ConfigSeverity::Error, expected);
            return Err(more.found("one secret too many"));
        }
        secrets.push(Secret::new(bytes));
        Ok(())
    });
    if secrets.is_empty() {
        lines.about_all(ConfigSeverity::Error, "no secret", FORM);
    }
    (secrets, lines.finish())
}

/// Reads the file that `sm.m_key_secret_file` names.
///
/// # Errors
///
/// Fails if the file cannot be read, has any error, or is accessible to users other than its owner.
pub fn load_m_key_secrets(file: &Path) -> Result<Vec<Secret>, ConfigError> {
    let text = read_text(file)?;
    let (secrets, mut findings) = parse_m_key_secrets(file, &text);
    let why = "the keys of all ports follow from it";
    findings.extend(access_of_others(file, &text, why)?);
    Ok(usable((secrets, findings))?.0)
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

/// Parses a `guid2mkey`: M_Keys by port GUID, without keys that are zero.
pub(super) fn parse_m_key_table(file: &Path, text: &str) -> Parsed<BTreeMap<Guid, u64>> {
    let (ports, findings) = entries(file, text, guid2mkey_entry, TABLE_LINE);
    let keys = ports.into_iter().filter(|&(_, key)| key != 0);
    (keys.collect(), findings)
}

/// Parses a `neighbors`: for both ends of each cable, the GUID of the port at the other end.
pub(super) fn parse_m_key_neighbors(file: &Path, text: &str) -> Parsed<BTreeMap<CableEnd, Guid>> {
    let (cables, findings) = entries(file, text, neighbors_entry, NEIGHBORS_LINE);
    let ends = cables.into_iter().flat_map(|(a, b)| [(a, b.0), (b, a.0)]);
    (ends.collect(), findings)
}

/// Parses a file with one entry per line. A line of another form is skipped with a warning.
fn entries<T>(
    file: &Path,
    text: &str,
    entry: fn(&str) -> Option<T>,
    expected: &'static str,
) -> Parsed<Vec<T>> {
    let mut lines = LineFile::new(file, text, Comments::Absent);
    let mut found = Vec::new();
    lines.each(|line| {
        let left_out = line.warning(expected).found("the line is left out");
        found.push(entry(line.text).ok_or(left_out)?);
        Ok(())
    });
    if found.is_empty() {
        lines.about_all(ConfigSeverity::Warning, "no entry", expected);
    }
    (found, lines.finish())
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
    fn secret_files_accessible_to_others_are_refused() {
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
    fn invalid_secrets_are_refused_and_never_shown() {
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
    fn files_of_opensm_are_parsed_and_invalid_lines_skipped() {
        let (keys_text, cables_text) = (
            "0x10 0xabc\n\n0x11 0x0\nsecret\n",
            "0x20:5 0x10:1\n0x20 0x10\n",
        );
        let (keys, mut findings) = parse_m_key_table(Path::new("guid2mkey"), keys_text);
        assert_eq!(keys, BTreeMap::from([(Guid(0x10), 0xabc)]));
        let (neighbors, more) = parse_m_key_neighbors(Path::new("neighbors"), cables_text);
        let expected = [((Guid(0x10), 1), Guid(0x20)), ((Guid(0x20), 5), Guid(0x10))];
        assert_eq!(neighbors, BTreeMap::from(expected));
        findings.extend(more);
        assert_eq!(findings.len(), 2);
        assert!(
            findings
                .iter()
                .all(|finding| !finding.to_string().contains("secret"))
        );
    }
}
