use std::ffi::OsString;
use std::io::{self, BufWriter, IsTerminal as _, Write};

use serde::Serialize;

use crate::arguments::{Format, Global};
use crate::failure::Failure;
use crate::pager::{self, Pager};
use crate::table::{self, LaidOut, Layout, Rows};
use crate::text::{printable, wrapped};

/// A colour by meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tint {
    None,
    Good,
    Warning,
    Error,
}

impl Tint {
    /// The number of the colour in ANSI's sequences (ECMA-48, SGR).
    const fn sgr(self) -> Option<u8> {
        match self {
            Tint::None => None,
            Tint::Good => Some(32),
            Tint::Warning => Some(33),
            Tint::Error => Some(31),
        }
    }
}

/// Breaks a line that is longer than `width` between words. A coloured line stays unchanged,
/// because it has been laid out for the terminal before.
fn wrapped_line(line: &str, width: Option<usize>) -> Vec<String> {
    match width.filter(|&width| line.chars().count() > width && !line.contains('\x1b')) {
        Some(width) => wrapped(line, width, 2),
        None => vec![line.to_owned()],
    }
}

/// Writes a message of rsmctl to standard error, in lines that fit the terminal.
pub(crate) fn note(message: &str) {
    progress(&format!("rsmctl: {message}"));
}

/// Writes text to standard error, in lines that fit the terminal.
pub(crate) fn progress(text: &str) {
    let width = table::terminal_width().filter(|_| io::stderr().is_terminal());
    for line in text.lines().flat_map(|line| wrapped_line(line, width)) {
        // A command does its work, and ends with its exit code, even if standard error is closed.
        let _ = writeln!(io::stderr(), "{line}");
    }
}

/// Standard output, or the pager in front of it: no other code writes to it.
pub(crate) struct Output {
    writer: Box<dyn Write>,
    /// The output so far while a pager may start: the pager gets all of it, so that its first
    /// screen begins with the first line.
    held: Vec<u8>,
    pub(crate) format: Format,
    layout: Layout,
    /// The columns of the terminal, if lines that are too long for it are broken.
    wraps_at: Option<usize>,
    /// Whether lines have colours.
    is_coloured: bool,
    /// The command of the pager that starts once the output is long; `None` if no pager may start,
    /// or a pager has started.
    pager_command: Option<OsString>,
    pager: Option<Pager>,
    /// Whether `--sort` or `--limit` has not been applied to a table yet.
    waits_for_list: bool,
    /// The reason why the last list was not sorted; `None` if every list was sorted.
    unsorted: Option<String>,
}

impl Output {
    /// Creates output without tables.
    pub(crate) fn new(format: Format) -> Output {
        Output {
            writer: Box::new(BufWriter::new(io::stdout().lock())),
            held: Vec::new(),
            format,
            layout: Layout::default(),
            wraps_at: None,
            is_coloured: false,
            pager_command: None,
            pager: None,
            waits_for_list: false,
            unsorted: None,
        }
    }

    /// Creates output with tables formatted by the options of the command line.
    pub(crate) fn of(global: &Global) -> Result<Output, Failure> {
        let layout = Layout {
            width: match global.wide {
                true => usize::MAX,
                false => table::terminal_width().unwrap_or_else(|| {
                    let columns = std::env::var_os("COLUMNS");
                    table::width_without_terminal(columns.as_deref())
                }),
            },
            sort: global.sort.clone(),
            limit: global.limit,
        };
        if layout.sort.is_some() && global.format == Format::Json {
            let message = "--sort is for tables: sort JSON with jq's sort_by";
            return Err(Failure::Usage(message.to_owned()));
        }
        Ok(Output {
            waits_for_list: layout.sort.is_some() || layout.limit.is_some(),
            wraps_at: table::terminal_width()
                .filter(|_| global.format == Format::Text && !global.wide)
                .filter(|_| io::stdout().is_terminal()),
            layout,
            is_coloured: global.format == Format::Text && global.color.is_on(),
            pager_command: (!global.no_pager && global.format == Format::Text)
                .then(|| pager::command(std::env::var_os("PAGER"), pager::is_installed))
                .flatten()
                .filter(|_| io::stdout().is_terminal()),
            ..Output::new(global.format)
        })
    }

    pub(crate) fn is_json(&self) -> bool {
        self.format == Format::Json
    }

    /// The value of `--limit`, for a command whose server limits the list.
    pub(crate) fn limit(&self) -> Option<usize> {
        self.layout.limit
    }

    /// Records that the server has limited the list by `--limit`.
    pub(crate) fn limited_by_server(&mut self) {
        self.waits_for_list = false;
    }

    /// The maximum number of columns of a line.
    pub(crate) fn width(&self) -> usize {
        self.layout.width
    }

    /// Colours a line, if the output has colours.
    pub(crate) fn tinted(&self, tint: Tint, line: &str) -> String {
        match tint.sgr().filter(|_| self.is_coloured) {
            Some(sgr) => format!("\x1b[{sgr}m{line}\x1b[0m"),
            None => line.to_owned(),
        }
    }

    /// Prints one value as JSON over several lines.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        serde_json::to_writer_pretty(&mut self.writer, value).map_err(io::Error::from)?;
        self.line("")
    }

    /// Prints a value as JSON on one line, flushed at once.
    pub(crate) fn json_line(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        serde_json::to_writer(&mut self.writer, value).map_err(io::Error::from)?;
        self.line("")?;
        self.flush()
    }

    /// Prints a line. On a terminal, breaks a line that is too long for it.
    pub(crate) fn line(&mut self, line: &str) -> Result<(), Failure> {
        for line in wrapped_line(line, self.wraps_at) {
            match self.pager_command {
                Some(_) => writeln!(self.held, "{line}")?,
                None => writeln!(self.writer, "{line}")?,
            }
        }
        self.page()
    }

    /// Prints a file for another program, byte for byte. A terminal gets it without the characters
    /// that move its cursor, except tabs.
    pub(crate) fn file(&mut self, content: &str) -> Result<(), Failure> {
        self.flush()?;
        if !io::stdout().is_terminal() {
            return Ok(self.writer.write_all(content.as_bytes())?);
        }
        for line in content.lines() {
            let cells: Vec<String> = line.split('\t').map(printable).collect();
            writeln!(self.writer, "{}", cells.join("\t"))?;
        }
        Ok(())
    }

    /// Prints a remark about the output on standard error, after the output; nothing if it is
    /// empty.
    pub(crate) fn note(&mut self, remark: &str) -> Result<(), Failure> {
        if !remark.is_empty() {
            self.flush()?;
            note(&printable(remark));
        }
        Ok(())
    }

    /// Prints a table with aligned columns and no lines.
    pub(crate) fn table(&mut self, mut rows: Rows) -> Result<(), Failure> {
        if rows.is_list() {
            self.arrange(&mut rows);
        }
        let LaidOut { lines, left_out } = rows.laid_out(self.layout.width);
        lines.iter().try_for_each(|line| self.line(line))?;
        self.left_out(&left_out)
    }

    /// Prints on a terminal which columns had no room. A program that reads the output gets only
    /// the rows.
    fn left_out(&mut self, headings: &[String]) -> Result<(), Failure> {
        match headings {
            _ if !io::stdout().is_terminal() => Ok(()),
            [] => Ok(()),
            [heading] => self.line(&format!("column left out: {heading}; --wide shows it")),
            many => {
                let names = many.join(", ");
                self.line(&format!("columns left out: {names}; --wide shows them"))
            }
        }
    }

    /// Prints a list: as JSON, or with a row for each item below headings in the form of
    /// [`Rows::new`].
    pub(crate) fn list<T: Serialize, const N: usize>(
        &mut self,
        items: Vec<T>,
        headings: [&str; N],
        row: impl FnMut(T) -> [String; N],
    ) -> Result<(), Failure> {
        if self.is_json() {
            return self.json_list(items);
        }
        let mut rows = Rows::new(&headings);
        items.into_iter().map(row).for_each(|cells| rows.add(cells));
        self.only_table(rows)
    }

    /// Limits a list that is part of the output to the requested number.
    pub(crate) fn shorten<T>(&mut self, items: &mut Vec<T>) {
        self.waits_for_list = false;
        items.truncate(self.layout.limit.unwrap_or(usize::MAX));
    }

    /// Prints the items of a list as JSON, limited to the requested number.
    pub(crate) fn json_list<T: Serialize>(&mut self, mut items: Vec<T>) -> Result<(), Failure> {
        self.shorten(&mut items);
        self.json(&items)
    }

    /// Prints the only table of a command: nothing is printed if it cannot be sorted.
    pub(crate) fn only_table(&mut self, mut rows: Rows) -> Result<(), Failure> {
        if let Some(sort) = &self.layout.sort {
            let sorted = rows.sort(sort);
            sorted.map_err(|error| Failure::Usage(error.to_string()))?;
        }
        self.table(rows)
    }

    /// Sorts and limits the rows of a list. A table without the sort column stays unsorted.
    fn arrange(&mut self, rows: &mut Rows) {
        if let Some(sort) = &self.layout.sort
            && let Err(error) = rows.sort(sort)
        {
            self.unsorted = Some(error.to_string());
            return;
        }
        self.waits_for_list = false;
        rows.truncate(self.layout.limit.unwrap_or(usize::MAX));
    }

    /// Starts the pager once the output may have too many lines for the terminal.
    fn page(&mut self) -> Result<(), Failure> {
        if pager::fits(&self.held) {
            return Ok(());
        }
        let Some(command) = self.pager_command.take() else {
            return Ok(());
        };
        self.writer.flush()?;
        let (pager, input) = Pager::start(&command).map_err(Failure::Output)?;
        self.writer = Box::new(BufWriter::new(input));
        self.pager = Some(pager);
        Ok(self.writer.write_all(&std::mem::take(&mut self.held))?)
    }

    /// Ensures that no pager starts any more, and flushes the output so far.
    pub(crate) fn stream(&mut self) -> Result<(), Failure> {
        self.pager_command = None;
        self.flush()
    }

    /// Begins the next of several pictures that replace each other: on a terminal, at the top of
    /// the cleared screen, and without a pager.
    pub(crate) fn picture(&mut self) -> Result<(), Failure> {
        self.stream()?;
        if io::stdout().is_terminal() {
            // ECMA-48: cursor to the first place (CUP), then erase to the end of the page (ED).
            write!(self.writer, "\x1b[H\x1b[J")?;
        }
        Ok(())
    }

    /// Flushes the buffer. The output so far is not shown by a pager that starts later.
    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        self.writer.write_all(&std::mem::take(&mut self.held))?;
        Ok(self.writer.flush()?)
    }

    /// Flushes the buffer, and waits for the pager to end.
    pub(crate) fn finish(&mut self) -> Result<(), Failure> {
        let flushed = self.flush();
        if let Some(pager) = self.pager.take() {
            // The pager ends at the end of its input.
            self.writer = Box::new(io::sink());
            pager.wait().map_err(Failure::Output)?;
        }
        flushed
    }

    /// Checks that a table has applied `--sort` and `--limit`; for the end of a command without a
    /// failure.
    pub(crate) fn check_options(&mut self) -> Result<(), Failure> {
        if !self.waits_for_list {
            return Ok(());
        }
        let message = self.unsorted.take();
        let message = message.unwrap_or_else(|| "--sort and --limit are for lists".to_owned());
        Err(Failure::Usage(message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_longer_than_the_terminal_are_broken_between_words() {
        let text = "one two three";
        assert_eq!(wrapped_line(text, Some(8)), ["one two", "  three"]);
        assert_eq!(wrapped_line(text, Some(13)), [text]);
        assert_eq!(wrapped_line(text, None), [text]);
        assert_eq!(wrapped_line("\x1b[31mone two\x1b[0m", Some(8)).len(), 1);
    }

    #[tokio::test]
    async fn a_pager_shows_the_output_from_its_first_line() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("seen");
        let mut pager = OsString::from("cat > ");
        pager.push(&file);
        let mut output = Output {
            writer: Box::new(io::sink()),
            pager_command: Some(pager),
            ..Output::new(Format::Text)
        };
        output.line("3 links went down").unwrap();
        let mut rows = Rows::new(&["LINK"]);
        (0..40).for_each(|number| rows.add([format!("link-{number}")]));
        output.only_table(rows).unwrap();
        output.finish().unwrap();
        let seen = std::fs::read_to_string(&file).unwrap();
        assert!(seen.starts_with("3 links went down\nLINK\n"), "{seen}");
        assert_eq!(seen.lines().count(), 42);
    }
}
