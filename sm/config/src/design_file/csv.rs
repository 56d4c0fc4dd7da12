//! Fields of comma-separated values (RFC 4180), with their places in the file.

/// Possible separators of fields. A file uses the one that is most frequent in the first line with
/// at least [`SEPARATORS_MIN`] equal ones.
const SEPARATORS: [char; 3] = [',', ';', '\t'];

/// Number of separators in a line of four columns.
const SEPARATORS_MIN: usize = 3;

/// Byte order mark that spreadsheet programs put before UTF-8 text.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// A field, without the spaces around it.
pub(super) struct Field {
    /// The text, without the quotes around it.
    pub(super) text: String,
    /// Byte offset in the file.
    pub(super) at: usize,
}

/// A line of fields, at least one. Quoted fields may extend over several lines of text.
pub(super) struct Record {
    /// The fields in order.
    pub(super) fields: Vec<Field>,
}

/// A mistake, and its place.
pub(super) struct Mistake {
    /// Byte offset in the file.
    pub(super) at: usize,
    /// The text found there.
    pub(super) found: String,
    /// The text expected.
    pub(super) expected: String,
}

impl Record {
    /// Byte offset of the line.
    pub(super) fn at(&self) -> usize {
        self.fields.first().map_or(0, |field| field.at)
    }

    /// Whether no field has text.
    pub(super) fn is_blank(&self) -> bool {
        self.fields.iter().all(|field| field.text.is_empty())
    }

    /// Whether the first field begins with a number sign.
    pub(super) fn is_comment(&self) -> bool {
        let first = self.fields.first();
        first.is_some_and(|field| is_comment(&field.text))
    }
}

/// Whether a line begins with a number sign.
fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with('#')
}

/// Reads the lines of a text.
pub(super) struct Records<'a> {
    text: &'a str,
    /// Byte offset of the text that is not read yet.
    at: usize,
    separator: char,
}

impl<'a> Records<'a> {
    pub(super) fn new(text: &'a str) -> Records<'a> {
        let at = if text.starts_with(BYTE_ORDER_MARK) {
            BYTE_ORDER_MARK.len_utf8()
        } else {
            0
        };
        let mut lines = text[at..].lines();
        let is_table = |line: &&str| {
            if is_comment(line) {
                return false;
            }
            let mut counts = SEPARATORS.iter().map(|&sign| line.matches(sign).count());
            counts.any(|count| count >= SEPARATORS_MIN)
        };
        let first = lines.find(is_table);
        let count = |sign: char| first.map_or(0, |line| line.matches(sign).count());
        // `max_by_key` returns the last of several equal maxima.
        let separators = SEPARATORS.into_iter().rev();
        Records {
            text,
            at,
            separator: separators.max_by_key(|&sign| count(sign)).unwrap_or(','),
        }
    }

    /// The next field, and whether it is the last one of its line.
    fn field(&mut self) -> Result<(Field, bool), Mistake> {
        let rest = &self.text[self.at..];
        let spaces = rest.len() - rest.trim_start_matches([' ', '\t'].as_slice()).len();
        // A tab that separates fields is not a space.
        let spaces = match rest[..spaces].find(self.separator) {
            Some(before) => before,
            None => spaces,
        };
        let start = self.at + spaces;
        let (text, after) = match self.text[start..].strip_prefix('"') {
            Some(quoted) => unquoted(quoted, start)?,
            None => {
                let raw = &self.text[start..];
                let ends = |sign: char| sign == self.separator || sign == '\n';
                let raw = &raw[..raw.find(ends).unwrap_or(raw.len())];
                (raw.trim().to_owned(), start + raw.len())
            }
        };
        let rest = &self.text[after..];
        let closing = rest.trim_start_matches([' ', '\r'].as_slice());
        let closing_at = self.text.len() - closing.len();
        let mut signs = closing.chars();
        let is_last = match signs.next() {
            None | Some('\n') => true,
            Some(sign) if sign == self.separator => false,
            Some(_) => {
                return Err(Mistake {
                    at: closing_at,
                    found: format!("`{}`", shown(closing)),
                    expected: format!(
                        "expected `{}` or the end of the line behind a closed quote",
                        self.separator.escape_debug()
                    ),
                });
            }
        };
        self.at = self.text.len() - signs.as_str().len();
        Ok((Field { text, at: start }, is_last))
    }

    fn skip_line(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.find('\n').map_or(rest.len(), |end| end + 1);
    }
}

/// Yields lines in order. An error is an unclosed quote, or text after a closed quote; the
/// remaining text of the line is skipped.
impl Iterator for Records<'_> {
    type Item = Result<Record, Mistake>;

    fn next(&mut self) -> Option<Result<Record, Mistake>> {
        if self.at >= self.text.len() {
            return None;
        }
        let line = self.text[self.at..].lines().next().unwrap_or_default();
        if is_comment(line) {
            // Quotes and separators in a comment mean nothing.
            let (text, at) = (line.trim().to_owned(), self.at);
            let fields = vec![Field { text, at }];
            self.skip_line();
            return Some(Ok(Record { fields }));
        }
        let mut fields = Vec::new();
        loop {
            match self.field() {
                Ok((field, is_last)) => {
                    fields.push(field);
                    if is_last {
                        return Some(Ok(Record { fields }));
                    }
                }
                Err(mistake) => {
                    self.skip_line();
                    return Some(Err(mistake));
                }
            }
        }
    }
}

/// The text of a quoted field whose quote opens at `start`, and the offset after the closing quote.
/// `quoted` begins after the opening quote; two quotes in it stand for one.
fn unquoted(quoted: &str, start: usize) -> Result<(String, usize), Mistake> {
    let mut text = String::new();
    let mut rest = quoted;
    while let Some((before, after)) = rest.split_once('"') {
        text.push_str(before);
        rest = after;
        match rest.strip_prefix('"') {
            Some(after) => {
                text.push('"');
                rest = after;
            }
            None => {
                let read = quoted.len() - rest.len();
                return Ok((text.trim().to_owned(), start + 1 + read));
            }
        }
    }
    Err(Mistake {
        at: start,
        found: format!("`\"{}`", shown(quoted)),
        expected: "expected a closing double quote".to_owned(),
    })
}

/// The beginning of a text, for a finding.
pub(super) fn shown(text: &str) -> String {
    let line = text.lines().next().unwrap_or("");
    let first: String = line.chars().take(60).collect();
    first.escape_debug().to_string()
}
