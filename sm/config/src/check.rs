//! The check of a file of any kind that an operator may have, and its report.

use std::fmt::{self, Write as _};
use std::path::{Path, PathBuf};

use super::finding::{ConfigFinding, ConfigSeverity, any_error};
use super::named_files::with_files;
use super::opensm::{KeyGroup, KeyOutcome};
use super::text_file::{ConfigError, read_text};
use super::{
    FileKind, opensm, parse_categories, parse_design, parse_guid_file, parse_guid2lid,
    parse_partitions, parse_qos_policy, parse_torus_layout, toml_file,
};

/// The result of [`check`].
#[derive(Clone, Debug)]
pub struct CheckReport {
    /// The file.
    pub file: PathBuf,
    /// The kind of file that was recognised.
    pub kind: FileKind,
    /// All findings: first those about the file, in its order, then those about the files that it
    /// names.
    pub findings: Vec<ConfigFinding>,
    /// Number of usable entries, such as keys, claims, GUIDs or cables.
    pub entries: usize,
    /// The outcome of each key of an `opensm.conf`, in the order of the file.
    pub outcomes: Vec<KeyOutcome>,
}

impl CheckReport {
    /// Formats the report with all notes, including one for each obeyed key of an `opensm.conf`.
    pub fn verbose(&self) -> impl fmt::Display {
        let taken = self.outcomes.iter().filter_map(|key| key.taken.as_ref());
        let mut own: Vec<_> = taken.collect();
        let (here, named): (Vec<_>, Vec<_>) =
            self.findings.iter().partition(|f| f.file == self.file);
        own.extend(here);
        own.sort_by_key(|f| (f.line, f.column));
        self.text(own.into_iter().chain(named))
    }

    /// Formats `lines` and the sums.
    fn text<'a>(&self, lines: impl Iterator<Item = &'a ConfigFinding>) -> String {
        let mut text = String::new();
        for line in lines {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{line}");
        }
        if !self.outcomes.is_empty() {
            let groups = KeyGroup::ALL.map(|group| {
                let keys = self.outcomes.iter().filter(|key| key.group == group);
                format!("{} {group}", keys.count())
            });
            let _ = writeln!(text, "keys: {}", groups.join(", "));
        }
        let _ = write!(
            text,
            "{}: {}, {} entries: {} errors, {} warnings, {} notes",
            self.file.display(),
            self.kind,
            self.entries,
            self.count(ConfigSeverity::Error),
            self.count(ConfigSeverity::Warning),
            self.count(ConfigSeverity::Note)
        );
        text
    }

    /// Whether rsm refuses the file.
    pub fn has_errors(&self) -> bool {
        any_error(&self.findings)
    }

    fn count(&self, severity: ConfigSeverity) -> usize {
        let all = self.findings.iter();
        all.filter(|f| f.severity == severity).count()
    }
}

/// Formats the report without notes.
impl fmt::Display for CheckReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let findings = self.findings.iter();
        f.write_str(&self.text(findings.filter(|f| f.severity > ConfigSeverity::Note)))
    }
}

/// Reads a file of any kind that an operator may have, and reports how rsm would use it.
///
/// # Errors
///
/// Fails only if the file cannot be read; the report contains errors in its content.
pub fn check(file: &Path) -> Result<CheckReport, ConfigError> {
    let text = read_text(file)?;
    let kind = FileKind::recognise(file, &text);
    let count_entries = |comment: char| {
        let lines = text.lines().map(str::trim);
        lines
            .filter(|l| !l.is_empty() && !l.starts_with([comment, '[']))
            .count()
    };
    let mut outcomes = Vec::new();
    let (findings, entries) = match kind {
        FileKind::Toml => {
            let (mut config, findings) = toml_file::parse(file, &text);
            config.find_sa_key(file);
            (with_files(&config, findings), count_entries('#'))
        }
        FileKind::OpensmConf => {
            let mut read = opensm::read(file, &text, &Path::exists);
            read.config.find_sa_key(file);
            let obeyed = read.outcomes.iter();
            let obeyed = obeyed.filter(|key| key.group == KeyGroup::Obeyed).count();
            outcomes = read.outcomes;
            (with_files(&read.config, read.findings), obeyed)
        }
        FileKind::Guid2Lid => {
            let table = parse_guid2lid(file, &text);
            (table.findings, table.claims.len())
        }
        FileKind::GuidFile => {
            let (guids, findings) = parse_guid_file(file, &text);
            (findings, guids.len())
        }
        FileKind::Categories => {
            let (categories, findings) = parse_categories(file, &text);
            (findings, categories.len())
        }
        FileKind::Partitions => {
            let (partitions, findings) = parse_partitions(file, &text, false);
            (findings, partitions.list.len())
        }
        FileKind::QosPolicy => {
            let (policy, findings) = parse_qos_policy(file, &text);
            (findings, policy.rules.len() + policy.levels.len())
        }
        FileKind::TorusLayout => {
            let (layout, findings) = parse_torus_layout(file, &text);
            (findings, layout.seeds.len())
        }
        FileKind::Design => {
            let (design, findings) = parse_design(file, &text);
            (findings, design.cables.len())
        }
    };
    Ok(CheckReport {
        file: file.to_owned(),
        kind,
        findings,
        entries,
        outcomes,
    })
}
