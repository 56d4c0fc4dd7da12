//! Findings about files, each with its place in the file.

use std::fmt;
use std::path::{Path, PathBuf};

/// Severity of a finding about a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConfigSeverity {
    /// The entry is valid, and has no effect in rsm.
    Note,
    /// The entry is used or dropped in a way that its author may not have intended.
    Warning,
    /// The file cannot be used.
    Error,
}

impl fmt::Display for ConfigSeverity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ConfigSeverity::Note => "note",
            ConfigSeverity::Warning => "warning",
            ConfigSeverity::Error => "error",
        })
    }
}

/// One message about one place in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigFinding {
    /// The file.
    pub file: PathBuf,
    /// The line, from 1.
    pub line: usize,
    /// The character in the line, from 1.
    pub column: usize,
    /// Severity of the message.
    pub severity: ConfigSeverity,
    /// The text at that place, or a description of it.
    pub found: String,
    /// The expected text, or the effect of the text that was found.
    pub expected: String,
}

impl ConfigFinding {
    /// The finding that an optional file is missing; `effect` says what applies in its place.
    pub(super) fn no_such_file(file: &Path, effect: &str) -> ConfigFinding {
        ConfigFinding {
            file: file.to_owned(),
            line: 1,
            column: 1,
            severity: ConfigSeverity::Warning,
            found: "there is no such file".to_owned(),
            expected: effect.to_owned(),
        }
    }
}

impl fmt::Display for ConfigFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ConfigFinding {
            file,
            line,
            column,
            severity,
            found,
            expected,
        } = self;
        let file = file.display();
        write!(f, "{file}:{line}:{column}: {severity}: {found}: {expected}")
    }
}

/// Collects the findings about one file.
#[derive(Debug, Default)]
pub struct Findings {
    file: PathBuf,
    /// Byte offset of each line's start.
    lines: Vec<usize>,
    all: Vec<ConfigFinding>,
}

impl Findings {
    /// Starts the findings about `file`, whose content is `text`.
    pub fn new(file: &Path, text: &str) -> Findings {
        let starts = text.match_indices('\n').map(|(at, _)| at + 1);
        Findings {
            file: file.to_owned(),
            lines: std::iter::once(0).chain(starts).collect(),
            all: Vec::new(),
        }
    }

    /// Adds a finding about the byte `offset` of `text`, the content of the file.
    pub fn at(
        &mut self,
        text: &str,
        offset: usize,
        severity: ConfigSeverity,
        found: impl Into<String>,
        expected: impl Into<String>,
    ) {
        let line = self.lines.partition_point(|&start| start <= offset);
        let start = self.lines.get(line.wrapping_sub(1)).copied().unwrap_or(0);
        let before = text.get(start..offset).unwrap_or("");
        self.all.push(ConfigFinding {
            file: self.file.clone(),
            line,
            column: before.chars().count() + 1,
            severity,
            found: found.into(),
            expected: expected.into(),
        });
    }

    /// Returns all findings, in the order of the file.
    pub fn finish(mut self) -> Vec<ConfigFinding> {
        self.all.sort_by_key(|f| (f.line, f.column));
        self.all
    }
}

/// Whether any of `findings` is an error.
pub fn any_error(findings: &[ConfigFinding]) -> bool {
    findings.iter().any(|f| f.severity == ConfigSeverity::Error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_become_lines_and_characters() {
        let text = "one\nzwö = 3\n";
        let mut findings = Findings::new(Path::new("f"), text);
        for offset in [0, 4, 9, text.len()] {
            findings.at(text, offset, ConfigSeverity::Error, "x", "y");
        }
        let places: Vec<_> = findings
            .finish()
            .iter()
            .map(|f| (f.line, f.column))
            .collect();
        assert_eq!(places, [(1, 1), (2, 1), (2, 5), (3, 1)]);
    }

    #[test]
    fn a_finding_is_one_line() {
        let mut findings = Findings::new(Path::new("/etc/rsm.toml"), "lmc = 9");
        findings.at(
            "lmc = 9",
            6,
            ConfigSeverity::Error,
            "lmc is 9",
            "expected 0 to 7",
        );
        assert_eq!(
            findings.finish()[0].to_string(),
            "/etc/rsm.toml:1:7: error: lmc is 9: expected 0 to 7"
        );
    }
}
