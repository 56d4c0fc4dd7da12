//! Files with one entry on each line: their lines and words, and the findings about them.

use std::borrow::Cow;
use std::path::Path;

use super::finding::{ConfigFinding, ConfigSeverity, Findings};

/// Maximum number of characters that a finding quotes of a text: a line may have any length.
const QUOTED_MAX: usize = 60;

/// Form of the comments in a file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Comments {
    /// `#` begins a comment, anywhere in a line.
    Anywhere,
    /// A line that begins with `#` is a comment.
    WholeLines,
    /// The format has no comments.
    Absent,
}

/// A word of a line, or the content of a whole line.
#[derive(Clone, Copy)]
pub(super) struct Word<'a> {
    pub(super) text: &'a str,
    /// Byte offset in the file.
    at: usize,
    /// Line in the file, from 1.
    pub(super) line: usize,
}

impl<'a> Word<'a> {
    /// Splits the text at blanks. At least one word is returned, because content is never empty.
    pub(super) fn words(self) -> Vec<Word<'a>> {
        let word = |word: &'a str| Word {
            text: word,
            at: self.at + (word.as_ptr() as usize - self.text.as_ptr() as usize),
            line: self.line,
        };
        self.text.split_whitespace().map(word).collect()
    }

    /// An error about the word. The finding quotes the beginning of the word.
    pub(super) fn error(self, expected: &'static str) -> Mistake<'a> {
        self.mistake(ConfigSeverity::Error, expected)
    }

    /// A warning about the word, quoted as by [`Word::error`].
    pub(super) fn warning(self, expected: &'static str) -> Mistake<'a> {
        self.mistake(ConfigSeverity::Warning, expected)
    }

    /// A finding of any severity about the word, quoted as by [`Word::error`].
    pub(super) fn mistake(
        self,
        severity: ConfigSeverity,
        expected: impl Into<Cow<'static, str>>,
    ) -> Mistake<'a> {
        Mistake {
            word: self,
            severity,
            found: None,
            expected: expected.into(),
        }
    }
}

/// A finding about a word, before the offset of the word is converted to a line and a column.
pub(super) struct Mistake<'a> {
    word: Word<'a>,
    severity: ConfigSeverity,
    /// Description of the text found; `None` to quote the beginning of the word.
    found: Option<Cow<'static, str>>,
    expected: Cow<'static, str>,
}

impl Mistake<'_> {
    /// Replaces the quotation by a description, because a finding must not show a secret key.
    pub(super) fn found(self, found: impl Into<Cow<'static, str>>) -> Self {
        Mistake {
            found: Some(found.into()),
            ..self
        }
    }
}

/// A file with one entry on each line, and the findings about it.
pub(super) struct LineFile<'a> {
    text: &'a str,
    comments: Comments,
    findings: Findings,
}

impl<'a> LineFile<'a> {
    pub(super) fn new(file: &Path, text: &'a str, comments: Comments) -> LineFile<'a> {
        LineFile {
            text,
            comments,
            findings: Findings::new(file, text),
        }
    }

    /// Passes the content of each line to `take`, without comments and without blanks at the ends.
    /// Lines without content are skipped. An error of `take` becomes a finding.
    pub(super) fn each(&mut self, mut take: impl FnMut(Word<'a>) -> Result<(), Mistake<'a>>) {
        let text = self.text;
        for (number, line) in (1..).zip(text.lines()) {
            let content = match self.comments {
                Comments::Anywhere => line.split('#').next().unwrap_or(""),
                Comments::WholeLines if line.trim_start().starts_with('#') => "",
                Comments::WholeLines | Comments::Absent => line,
            };
            let content = content.trim();
            if content.is_empty() {
                continue;
            }
            let line = Word {
                text: content,
                at: content.as_ptr() as usize - text.as_ptr() as usize,
                line: number,
            };
            if let Err(mistake) = take(line) {
                self.add(mistake);
            }
        }
    }

    /// Adds a finding about a mistake, which quotes the word unless the mistake describes it.
    fn add(&mut self, mistake: Mistake<'a>) {
        let Mistake {
            word,
            severity,
            found,
            expected,
        } = mistake;
        let found = found.unwrap_or_else(|| {
            let shown: String = word.text.chars().take(QUOTED_MAX).collect();
            format!("`{}`", shown.escape_debug()).into()
        });
        self.findings
            .at(self.text, word.at, severity, found, expected);
    }

    /// Adds a finding about the file as a whole, at its beginning.
    pub(super) fn about_all(&mut self, severity: ConfigSeverity, found: &str, expected: &str) {
        self.findings.at(self.text, 0, severity, found, expected);
    }

    /// All findings, in the order of the file.
    pub(super) fn finish(self) -> Vec<ConfigFinding> {
        self.findings.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blank_lines_are_skipped_and_words_have_line_and_column() {
        let text = "# a\n\n  one two # b\r\n#c\n\tdrei\u{fc} x";
        let read = |comments| {
            let mut read = Vec::new();
            let mut file = LineFile::new(Path::new("f"), text, comments);
            file.each(|line| {
                read.push((line.line, line.text));
                Err(line.words().pop().unwrap().error("expected nothing"))
            });
            let findings = file.finish().into_iter();
            let places: Vec<_> = findings.map(|f| (f.line, f.column, f.found)).collect();
            (read, places)
        };
        let (lines, places) = read(Comments::Anywhere);
        assert_eq!(lines, [(3, "one two"), (5, "drei\u{fc} x")]);
        let at = |line, column, word: &str| (line, column, format!("`{word}`"));
        assert_eq!(places, [at(3, 7, "two"), at(5, 8, "x")]);
        let (lines, _) = read(Comments::WholeLines);
        assert_eq!(lines, [(3, "one two # b"), (5, "drei\u{fc} x")]);
        let (lines, _) = read(Comments::Absent);
        assert_eq!(lines.len(), 4);
    }

    #[test]
    fn quoted_text_is_cut_at_60_characters_and_escaped() {
        let text = format!("\u{1b}{}", "n".repeat(100));
        let mut file = LineFile::new(Path::new("f"), &text, Comments::Absent);
        file.each(|line| Err(line.warning("expected less").found("a long line")));
        file.each(|line| Err(line.error("expected less")));
        let findings = file.finish();
        assert_eq!(findings[0].found, "a long line");
        assert_eq!(findings[1].found, format!("`\\u{{1b}}{}`", "n".repeat(59)));
    }
}
