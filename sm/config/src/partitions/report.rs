use std::path::Path;

use super::super::finding::{ConfigFinding, ConfigSeverity, Findings};

/// Maximum number of findings about one file: a file of another kind has an error on every line.
pub(crate) const FINDINGS_MAX: usize = 100;

/// Maximum number of characters of the file that a finding quotes.
const QUOTED_MAX: usize = 60;

/// Collects the findings about one file, up to a bound.
pub(crate) struct Report<'a> {
    text: &'a str,
    findings: Findings,
    /// Number of findings so far, up to the bound.
    reported: usize,
    has_errors: bool,
    /// Number of errors errors_beyond the bound, and the byte offset of the first of them.
    errors_beyond: Option<(usize, usize)>,
}

impl<'a> Report<'a> {
    pub(crate) fn new(file: &Path, text: &'a str) -> Report<'a> {
        Report {
            text,
            findings: Findings::new(file, text),
            reported: 0,
            has_errors: false,
            errors_beyond: None,
        }
    }

    /// Reports an error at the byte `offset`. The file then cannot be used.
    pub(crate) fn error(
        &mut self,
        offset: usize,
        found: impl Into<String>,
        expected: impl Into<String>,
    ) {
        self.report(offset, ConfigSeverity::Error, found.into(), expected.into());
    }

    /// Reports text at the byte `offset` that may mean something else than its author intended.
    pub(crate) fn warning(
        &mut self,
        offset: usize,
        found: impl Into<String>,
        expected: impl Into<String>,
    ) {
        self.report(
            offset,
            ConfigSeverity::Warning,
            found.into(),
            expected.into(),
        );
    }

    /// Reports a note about the text at the byte `offset`.
    pub(crate) fn note(
        &mut self,
        offset: usize,
        found: impl Into<String>,
        expected: impl Into<String>,
    ) {
        self.report(offset, ConfigSeverity::Note, found.into(), expected.into());
    }

    fn report(&mut self, offset: usize, severity: ConfigSeverity, found: String, expected: String) {
        self.has_errors |= severity == ConfigSeverity::Error;
        if self.reported < FINDINGS_MAX {
            self.reported += 1;
            self.findings
                .at(self.text, offset, severity, found, expected);
        } else if severity == ConfigSeverity::Error {
            let (count, _) = self.errors_beyond.get_or_insert((0, offset));
            *count += 1;
        }
    }

    /// Whether an error was reported.
    pub(crate) fn has_errors(&self) -> bool {
        self.has_errors
    }

    pub(crate) fn finish(mut self) -> Vec<ConfigFinding> {
        if let Some((count, offset)) = self.errors_beyond {
            let found = format!("{count} more errors from here on");
            let expected = format!("the first {FINDINGS_MAX} findings are shown");
            self.findings
                .at(self.text, offset, ConfigSeverity::Error, found, expected);
        }
        self.findings.finish()
    }
}

/// `text` in quotes, shortened if it is long.
pub(crate) fn quoted(text: &str) -> String {
    match text.char_indices().nth(QUOTED_MAX) {
        Some((end, _)) => format!("`{}…`", text[..end].escape_debug()),
        None => format!("`{}`", text.escape_debug()),
    }
}
