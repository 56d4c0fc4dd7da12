//! Parser of a root GUID file: each line has a GUID; `#` begins a comment. The rest of a line is a
//! name for operators.

use std::collections::BTreeSet;
use std::path::Path;

use rsm_ids::Guid;

use super::finding::{ConfigFinding, ConfigSeverity, Findings};

/// Parses the file. Returns the GUIDs and the findings. The GUIDs are usable only if no finding is
/// an error: a root that is missing by mistake would change every route.
pub fn parse_guid_file(file: &Path, text: &str) -> (BTreeSet<Guid>, Vec<ConfigFinding>) {
    let mut findings = Findings::new(file, text);
    let mut guids = BTreeSet::new();
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        let content = line.split('#').next().unwrap_or("");
        let start = offset + content.len() - content.trim_start().len();
        offset += line.len();
        let Some(word) = content.split_whitespace().next() else {
            continue;
        };
        let mut say = |severity, expected: &str| {
            findings.at(text, start, severity, format!("`{word}`"), expected);
        };
        match word.parse::<Guid>() {
            Ok(guid) if guid.is_zero() => {
                say(ConfigSeverity::Error, "expected a GUID that is not zero")
            }
            Ok(guid) => {
                if !guids.insert(guid) {
                    say(ConfigSeverity::Warning, "it is there before");
                }
            }
            Err(_) => say(
                ConfigSeverity::Error,
                "expected a GUID, 1 to 16 hexadecimal digits after 0x",
            ),
        }
    }
    if guids.is_empty() {
        findings.at(
            text,
            0,
            ConfigSeverity::Warning,
            "no GUID",
            "one on each line",
        );
    }
    (guids, findings.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guids_comments_and_names_are_read() {
        let text = "# roots\n0x0002c90300001234 spine 1\n\n  0x10 # spine 2\n";
        let (guids, findings) = parse_guid_file(Path::new("roots"), text);
        assert_eq!(findings, []);
        assert_eq!(
            guids,
            BTreeSet::from([Guid(0x10), Guid(0x0002_c903_0000_1234)])
        );
    }

    #[test]
    fn every_mistake_is_reported() {
        let text = "0x10\nspine\n0x0\n0x10\n";
        let (_, findings) = parse_guid_file(Path::new("roots"), text);
        let said: Vec<_> = findings.iter().map(|f| (f.line, f.severity)).collect();
        let expected = [
            (2, ConfigSeverity::Error),
            (3, ConfigSeverity::Error),
            (4, ConfigSeverity::Warning),
        ];
        assert_eq!(said, expected);
        let (guids, findings) = parse_guid_file(Path::new("roots"), "# none\n");
        assert!(guids.is_empty() && findings.len() == 1);
    }
}
