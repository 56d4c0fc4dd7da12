//! Parser of a root GUID file: each line has a GUID; `#` begins a comment. The rest of a line is a
//! name for operators.

use std::collections::BTreeSet;
use std::path::Path;

use rsm_ids::Guid;

use super::finding::{ConfigFinding, ConfigSeverity};
use super::line_file::{Comments, LineFile};

/// Parses the file. Returns the GUIDs and the findings. The GUIDs are usable only if no finding is
/// an error: a root that is missing by mistake would change every route.
pub fn parse_guid_file(file: &Path, text: &str) -> (BTreeSet<Guid>, Vec<ConfigFinding>) {
    let mut lines = LineFile::new(file, text, Comments::Anywhere);
    let mut guids = BTreeSet::new();
    lines.each(|line| {
        let word = line.words()[0];
        match word.text.parse::<Guid>() {
            Ok(guid) if guid.is_zero() => Err(word.error("expected a GUID that is not zero")),
            Ok(guid) if !guids.insert(guid) => Err(word.warning("an earlier line has this GUID")),
            Ok(_) => Ok(()),
            Err(_) => Err(word.error("expected a GUID, 1 to 16 hexadecimal digits after 0x")),
        }
    });
    if guids.is_empty() {
        lines.about_all(ConfigSeverity::Warning, "no GUID", "one on each line");
    }
    (guids, lines.finish())
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
