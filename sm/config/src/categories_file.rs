//! Parser of the file of port categories: each line has a port GUID and a category; `#` begins a
//! comment. The remaining text of a line is a name for operators.

use std::path::Path;

use rsm_ids::Guid;
use rsm_routing::engine::{Categories, Category};

use super::finding::{ConfigFinding, ConfigSeverity};
use super::line_file::{Comments, LineFile};

/// Parses the file. Returns the categories and the findings. The categories are usable only if no
/// finding is an error: a port in the wrong category disturbs the traffic of all other ports.
pub fn parse_categories(file: &Path, text: &str) -> (Categories, Vec<ConfigFinding>) {
    let mut lines = LineFile::new(file, text, Comments::Anywhere);
    let mut categories = Categories::new();
    lines.each(|line| {
        let words = line.words();
        let guid = words[0].text.parse().ok();
        let guid = guid.filter(|guid: &Guid| !guid.is_zero());
        let guid = guid.ok_or(
            words[0].error("expected a port GUID, 1 to 16 hexadecimal digits after 0x, not zero"),
        )?;
        let name = words.get(1).ok_or(
            words[0].error("expected a category after the GUID: compute, storage or management"),
        )?;
        let category = match name.text {
            "compute" => Category::Compute,
            "storage" => Category::Storage,
            "management" => Category::Management,
            _ => return Err(name.error("expected compute, storage or management")),
        };
        match categories.insert(guid, category) {
            Some(before) if before != category => {
                Err(words[0].error("an earlier line gives this port another category"))
            }
            Some(_) => Err(words[0].warning("an earlier line is the same")),
            None => Ok(()),
        }
    });
    if categories.is_empty() {
        let expected = "one on each line, with its category";
        lines.about_all(ConfigSeverity::Warning, "no port", expected);
    }
    (categories, lines.finish())
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
        let places: Vec<_> = findings
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
        assert_eq!(places, expected);
        let (categories, findings) = parse_categories(Path::new("categories"), "");
        assert!(categories.is_empty() && findings.len() == 1);
    }
}
