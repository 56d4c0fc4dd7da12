//! Parser of a map of node names in the format of OpenSM and infiniband-diags: each line has a node
//! GUID and a name in double quotes. `#` begins a comment, and text after the name is a comment.

use std::path::Path;

use rsm_ids::Guid;
use rsm_model::NodeNames;

use super::finding::{ConfigFinding, ConfigSeverity};
use super::line_file::{Comments, LineFile};
use super::text_file::{read_text, unreadable_file};

/// Maximum length of a name in bytes: four times a NodeDescription (IBA 14.2.5.2).
const NAME_MAX: usize = 256;

/// Parses the file. Returns the names and the findings. A faulty line causes a warning, and its
/// node keeps its NodeDescription.
pub fn parse_node_names(file: &Path, text: &str) -> (NodeNames, Vec<ConfigFinding>) {
    let mut lines = LineFile::new(file, text, Comments::WholeLines);
    let mut names = NodeNames::default();
    lines.each(|line| {
        let (guid, name) = entry(line.text).map_err(|expected| line.warning(expected))?;
        match names.insert(guid, name) {
            true => Ok(()),
            false => {
                let again = line.warning("an earlier line names this node, and its name stays");
                Err(again.found(guid.to_string()))
            }
        }
    });
    (names, lines.finish())
}

/// Parses GUID and name of a line.
///
/// # Errors
/// Returns the expected form.
fn entry(line: &str) -> Result<(Guid, &str), &'static str> {
    const FORM: &str = "expected a node GUID and a name in double quotes";
    // The quote may directly follow the GUID.
    let (before, rest) = line.split_once('"').ok_or(FORM)?;
    let guid: Guid = before.trim_end().parse().map_err(|_| FORM)?;
    let (name, _) = rest
        .split_once('"')
        .ok_or("expected a double quote behind the name")?;
    if guid.is_zero() {
        return Err(FORM);
    }
    let name = name.trim();
    if name.is_empty() || name.len() > NAME_MAX || name.chars().any(char::is_control) {
        return Err("expected a name of 1 to 256 bytes without control characters");
    }
    Ok((guid, name))
}

/// Reads the file that `names.file` names. A file that cannot be read is a warning, and every node
/// keeps its NodeDescription: names serve only operators, and are no reason to leave a subnet
/// unmanaged.
pub fn load_node_names(file: &Path) -> (NodeNames, Vec<ConfigFinding>) {
    match read_text(file) {
        Ok(text) => parse_node_names(file, &text),
        Err(error) => {
            let effect = "nodes have their descriptions as names: names.file names it";
            let finding = ConfigFinding {
                severity: ConfigSeverity::Warning,
                ..unreadable_file(file, &error, effect)
            };
            (NodeNames::default(), vec![finding])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (NodeNames, Vec<String>) {
        let (names, findings) = parse_node_names(Path::new("names"), text);
        (names, findings.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn maps_of_infiniband_diags_are_read() {
        let text = "# the core\n0x0008f10400411f56   \"SW1 rack A (MT47396)\"  # \"old\"\n\n\
                    \t0x10\"host # 7\"\r\n11 \"no prefix\" text\n";
        let (names, findings) = read(text);
        assert_eq!(findings, [] as [String; 0]);
        assert_eq!(names.len(), 3);
        let name = names.get(Guid(0x0008_f104_0041_1f56));
        assert_eq!(name, Some("SW1 rack A (MT47396)"));
        assert_eq!(names.get(Guid(0x10)), Some("host # 7"));
        assert_eq!(names.get(Guid(0x11)), Some("no prefix"));
        assert_eq!(names.get(Guid(0x12)), None);
    }

    #[test]
    fn faulty_lines_cause_warnings_and_other_lines_name_their_nodes() {
        let long = "n".repeat(NAME_MAX + 1);
        let text = format!(
            "0x1 name\n0x2 \"open\nleaf \"x\"\n0x0 \"zero\"\n0x3 \"\"\n0x4 \"a\tb\"\n0x5 \"{long}\"\n\
             0x6 first \"second\"\n0x7 \"kept\"\n0x7 \"again\"\n\""
        );
        let (names, findings) = read(&text);
        assert_eq!(names.len(), 1);
        assert_eq!(names.get(Guid(7)), Some("kept"));
        assert_eq!(findings.len(), 10, "{findings:?}");
        assert_eq!(
            findings[0],
            "names:1:1: warning: `0x1 name`: expected a node GUID and a name in double quotes"
        );
        assert!(
            findings[8].starts_with("names:10:1: warning: "),
            "{findings:?}"
        );
    }

    #[test]
    fn nodes_with_another_name_differ() {
        let (old, _) = read("0x1 \"a\"\n0x2 \"b\"\n0x3 \"c\"\n");
        let (new, _) = read("0x1 \"a\"\n0x2 \"x\"\n0x4 \"d\"\n");
        let differing: Vec<_> = old.differing(&new).collect();
        assert_eq!(differing, [Guid(2), Guid(3), Guid(4)]);
        assert_eq!(old.differing(&old).count(), 0);
    }
}
