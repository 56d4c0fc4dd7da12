//! Parser of the file of port categories: each line has a port GUID and a category; `#` begins a
//! comment. The remaining text of a line is a name for operators.

use std::path::Path;

use rsm_ids::Guid;
use rsm_routing::engine::{Categories, Category};

use super::finding::{ConfigFinding, ConfigSeverity, Findings};

/// Parses the file. Returns the categories and the findings. The categories are usable only if no
/// finding is an error: a port in the wrong category disturbs the traffic of all other ports.
pub fn parse_categories(file: &Path, text: &str) -> (Categories, Vec<ConfigFinding>) {
    let mut findings = Findings::new(file, text);
    let mut categories = Categories::new();
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        let content = line.split('#').next().unwrap_or("");
        let start = offset;
        offset += line.len();
        let mut words = content.split_whitespace();
        let Some(word) = words.next() else {
            continue;
        };
        let at = |word: &str| start + (word.as_ptr() as usize - line.as_ptr() as usize);
        let mut say = |word: &str, severity, expected: &str| {
            findings.at(text, at(word), severity, format!("`{word}`"), expected);
        };
        let guid = match word.parse::<Guid>() {
            Ok(guid) if !guid.is_zero() => guid,
            _ => {
                say(
                    word,
                    ConfigSeverity::Error,
                    "expected a port GUID, 1 to 16 hexadecimal digits after 0x, not zero",
                );
                continue;
            }
        };
        let Some(name) = words.next() else {
            say(
                word,
                ConfigSeverity::Error,
                "expected a category after it: compute, storage or management",
            );
            continue;
        };
        let category = match name {
            "compute" => Category::Compute,
            "storage" => Category::Storage,
            "management" => Category::Management,
            _ => {
                say(
                    name,
                    ConfigSeverity::Error,
                    "expected compute, storage or management",
                );
                continue;
            }
        };
        match categories.insert(guid, category) {
            Some(before) if before != category => {
                say(
                    word,
                    ConfigSeverity::Error,
                    "it is there before, in another category",
                );
            }
            Some(_) => say(word, ConfigSeverity::Warning, "it is there before"),
            None => {}
        }
    }
    if categories.is_empty() {
        findings.at(
            text,
            0,
            ConfigSeverity::Warning,
            "no port",
            "one on each line, with its category",
        );
    }
    (categories, findings.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_comments_and_names_are_read() {
        let text = "# GUID category\n0x10 storage store-1\n\n\t0x11\tmanagement # head node\n0x12 compute\n";
        let (categories, findings) = parse_categories(Path::new("categories"), text);
        assert_eq!(findings, []);
        let expected = [
            (Guid(0x10), Category::Storage),
            (Guid(0x11), Category::Management),
            (Guid(0x12), Category::Compute),
        ];
        assert_eq!(categories, Categories::from(expected));
    }

    #[test]
    fn every_mistake_is_reported_with_its_place() {
        let text = "0x10\nhost storage\n0x0 storage\n  0x11 disk\n0x12 compute\n0x12 storage\n0x13 compute\n0x13 compute\n";
        let (_, findings) = parse_categories(Path::new("categories"), text);
        let said: Vec<_> = findings
            .iter()
            .map(|f| (f.line, f.column, f.severity))
            .collect();
        let expected = [
            (1, 1, ConfigSeverity::Error),
            (2, 1, ConfigSeverity::Error),
            (3, 1, ConfigSeverity::Error),
            (4, 8, ConfigSeverity::Error),
            (6, 1, ConfigSeverity::Error),
            (8, 1, ConfigSeverity::Warning),
        ];
        assert_eq!(said, expected);
        let (categories, findings) = parse_categories(Path::new("categories"), "");
        assert!(categories.is_empty() && findings.len() == 1);
    }
}
