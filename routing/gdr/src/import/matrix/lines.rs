//! The lines of one host's output, as terminals, parallel shells and pasted tables leave them.

use super::super::error::{ImportError, ImportReason, shown};
use super::Header;

/// The text from the header on, without the host's name that a parallel shell writes before each
/// line (`node01: GPU0 …`, from pdsh, clush or `mpirun --tag-output`).
pub(super) struct Output {
    pub(super) header: Header,
    /// The lines after the header, with their numbers from 1; none is empty.
    pub(super) rest: Vec<(u32, String)>,
}

/// The first matrix of a text.
///
/// # Errors
/// No header, or rows of another host among those of the first.
pub(super) fn output(text: &str) -> Result<Output, ImportError> {
    let last = super::super::line_of(text.as_bytes());
    let mut lines = (1u32..).zip(text.lines().map(plain));
    let found = lines.by_ref().find_map(|(_, line)| {
        let (tag, content) = tag(&line);
        Some((tag.map(str::to_owned), Header::of(content)?))
    });
    let (tag, header) = found.ok_or_else(|| ImportError::new(last, ImportReason::NoHeader))?;
    let mut rest = Vec::new();
    for (number, line) in lines {
        match &tag {
            None if line.is_empty() => {}
            None => rest.push((number, line)),
            Some(tag) => match content_of(&line, tag, &header) {
                Content::Ours("") | Content::Foreign => {}
                Content::Ours(content) => rest.push((number, content.to_owned())),
                Content::OtherHost(found) => {
                    let (found, expected) = (shown(found), tag.clone());
                    let reason = ImportReason::OtherHost { found, expected };
                    return Err(ImportError::new(number, reason));
                }
            },
        }
    }
    Ok(Output { header, rest })
}

enum Content<'a> {
    /// Without the tag.
    Ours(&'a str),
    /// A row, a header or a line of a legend under another tag.
    OtherHost(&'a str),
    /// A message of the parallel shell.
    Foreign,
}

fn content_of<'a>(line: &'a str, ours: &str, header: &Header) -> Content<'a> {
    let (Some(found), content) = tag(line) else {
        return Content::Foreign;
    };
    if found == ours {
        return Content::Ours(content);
    }
    let first = content.split_whitespace().next().unwrap_or_default();
    let is_row = header
        .columns
        .iter()
        .any(|name| name == first.trim_end_matches(':'));
    match is_row || Header::of(content).is_some() {
        true => Content::OtherHost(found),
        false => Content::Foreign,
    }
}

/// The first word, if it ends with a colon, and the text after it.
fn tag(line: &str) -> (Option<&str>, &str) {
    let word = line.split_whitespace().next().unwrap_or_default();
    match word.ends_with(':') {
        true => (Some(word), line[word.len()..].trim()),
        false => (None, line),
    }
}

/// A line without escape sequences of a terminal, and without the bars, rules and emphasis of a
/// pasted table. Empty where nothing is left.
fn plain(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut chars = line.chars();
    while let Some(char) = chars.next() {
        match char {
            '\u{1b}' => {
                // Control sequences end with a letter or `@[\]^_`{|}~`.
                if chars.as_str().starts_with('[') {
                    chars.next();
                    chars.by_ref().find(|char| ('@'..='~').contains(char));
                }
            }
            '|' | '*' | '`' | '\u{2502}' => out.push(' '),
            _ => out.push(char),
        }
    }
    let is_rule = |word: &str| word.chars().all(|char| "-=+:\u{2500}".contains(char));
    match out.split_whitespace().all(is_rule) {
        true => String::new(),
        false => out.trim().to_owned(),
    }
}
