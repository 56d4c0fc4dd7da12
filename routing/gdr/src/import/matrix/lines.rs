//! Extracts the lines of one host's output from terminal logs, parallel shells and pasted tables.

use std::collections::BTreeSet;

use super::super::error::{ImportError, ImportReason, shown};
use super::Header;
use crate::inventory::{MAX_GPUS, MAX_HCA_PORTS};

/// The text from the header on, without the host name that a parallel shell writes before each line
/// (`node01: GPU0 …`, from pdsh, clush or `mpirun --tag-output`).
pub(super) struct Output {
    pub(super) header: Header,
    /// The non-empty lines after the header, with their numbers from 1.
    pub(super) rest: Vec<(u32, String)>,
}

/// Finds the first matrix of a text.
///
/// # Errors
/// There is no header, the header has too many columns, or rows of another host are among the rows
/// of the first host.
pub(super) fn output(text: &str) -> Result<Output, ImportError> {
    let last = super::super::line_of(text.as_bytes());
    let mut lines = (1u32..).zip(text.lines().map(plain));
    let found = lines.by_ref().find_map(|(_, line)| {
        let (tag, content) = tag(&line);
        Some((tag.map(str::to_owned), Header::of(content)?))
    });
    let (tag, header) = found.ok_or_else(|| {
        let reason = match text.trim().is_empty() {
            true => ImportReason::Empty,
            false => ImportReason::NoHeader,
        };
        ImportError::new(last, reason)
    })?;
    let limit = MAX_GPUS + MAX_HCA_PORTS;
    if header.columns.len() > limit {
        let what = "columns";
        return Err(ImportError::new(1, ImportReason::TooMany { what, limit }));
    }
    let columns: BTreeSet<&str> = header.columns.iter().map(String::as_str).collect();
    let mut rest = Vec::new();
    for (number, line) in lines {
        match &tag {
            None if line.is_empty() => {}
            None => rest.push((number, line)),
            Some(tag) => match content_of(&line, tag, &columns) {
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

/// The kind of a line after the header, if the text has tags.
enum Content<'a> {
    /// A line of the first host, without the tag.
    Ours(&'a str),
    /// A row, a header or a legend line with another host's tag.
    OtherHost(&'a str),
    /// Any other line, such as a message of the parallel shell.
    Foreign,
}

/// Classifies a line by its tag: `ours` is the tag of the first host, `columns` the names in its
/// header.
fn content_of<'a>(line: &'a str, ours: &str, columns: &BTreeSet<&str>) -> Content<'a> {
    let (Some(found), content) = tag(line) else {
        return Content::Foreign;
    };
    if found == ours {
        return Content::Ours(content);
    }
    let first = content.split_whitespace().next().unwrap_or_default();
    let is_row = columns.contains(first.trim_end_matches(':'));
    match is_row || Header::of(content).is_some() {
        true => Content::OtherHost(found),
        false => Content::Foreign,
    }
}

/// Splits a line into the name that a parallel shell writes before it and the rest. The name is a
/// first word that ends with a colon, or Open MPI's `[1,0]<stdout>:`, without a space after it.
fn tag(line: &str) -> (Option<&str>, &str) {
    let word = line.split_whitespace().next().unwrap_or_default();
    let of_mpi = word.starts_with('[').then(|| word.find(">:")).flatten();
    let end = match of_mpi {
        Some(at) => at + ">:".len(),
        None if word.ends_with(':') => word.len(),
        None => return (None, line),
    };
    (Some(&line[..end]), line[end..].trim())
}

/// A line without terminal escape sequences, and without the bars, rules and emphasis of a pasted
/// table; possibly empty.
fn plain(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut chars = line.chars();
    while let Some(char) = chars.next() {
        match char {
            '\u{1b}' => {
                // Control sequences end with a letter or one of `@[\]^_`{|}~`.
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
