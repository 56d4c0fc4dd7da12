//! Tables that are sorted, limited and laid out for a width.

use std::cmp::Ordering;
use std::ffi::OsStr;
use std::str::FromStr;

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use crate::text::{plain_names, printable, wrapped};

/// The width of a table in columns without a terminal and without the variable COLUMNS.
const WIDTH: usize = 100;

/// The least width that COLUMNS may set, in columns.
const LEAST_WIDTH: usize = 20;

/// The width of a table in columns if the output is no terminal, from the value of COLUMNS.
pub(crate) fn width_without_terminal(columns: Option<&OsStr>) -> usize {
    let columns = columns.and_then(|columns| columns.to_str()?.parse().ok());
    columns.map_or(WIDTH, |columns: usize| columns.max(LEAST_WIDTH))
}

/// The number of columns of the terminal at standard output; `None` if there is no terminal.
pub(crate) fn terminal_width() -> Option<usize> {
    Table::new()
        .width()
        .map(usize::from)
        .filter(|&width| width > 0)
}

/// The maximum width, in columns of the terminal, of a table's column that wraps only if there is
/// not enough room otherwise: the width of a time stamp in UTC.
const UNBROKEN: usize = 24;

/// The heading of the column that shows descriptions whole; other columns show only the names in
/// descriptions.
const DESCRIPTION: &str = "DESCRIPTION";

/// The gap between two columns, in columns of the terminal.
const GAP: u16 = 2;

/// The order of a table's rows: `COLUMN`, or `-COLUMN` for the reverse.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sort {
    column: String,
    reverse: bool,
}

impl FromStr for Sort {
    type Err = String;

    fn from_str(text: &str) -> Result<Sort, String> {
        let (column, reverse) = match text.strip_prefix('-') {
            Some(column) => (column, true),
            None => (text, false),
        };
        match column {
            "" => Err("expected the heading of a column, in reverse with `-` before it".to_owned()),
            column => Ok(Sort {
                column: column.to_owned(),
                reverse,
            }),
        }
    }
}

/// The layout of a printed table.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    /// The maximum width in columns of the terminal; [`usize::MAX`] for all columns, and each row
    /// on one line.
    pub(crate) width: usize,
    pub(crate) sort: Option<Sort>,
    /// The maximum number of rows, after sorting.
    pub(crate) limit: Option<usize>,
}

impl Default for Layout {
    fn default() -> Layout {
        Layout {
            width: WIDTH,
            sort: None,
            limit: None,
        }
    }
}

/// The error for a column that the table does not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no column `{wanted}` to sort by: expected one of {}", known.join(", "))]
pub(crate) struct UnknownColumn {
    wanted: String,
    known: Vec<String>,
}

/// A table that is laid out for a width.
pub(crate) struct LaidOut {
    pub(crate) lines: Vec<String>,
    /// The headings of the columns that had no room.
    pub(crate) left_out: Vec<String>,
}

struct Column {
    /// The heading; empty in a table without headings.
    heading: String,
    /// Whether cells are aligned to the right, and sorted by the number at their beginning.
    is_number: bool,
    /// Whether the column is left out first if the table is too wide.
    is_spare: bool,
}

/// A table under construction.
pub(crate) struct Rows {
    columns: Vec<Column>,
    has_headings: bool,
    rows: Vec<Vec<String>>,
}

impl Rows {
    /// Creates a table with these headings. A heading that begins with `>` belongs to a column of
    /// numbers, one that begins with `+` to a column that is left out first if the table is too
    /// wide; `+>` is both.
    pub(crate) fn new(headings: &[&str]) -> Rows {
        let column = |heading: &&str| {
            let (is_spare, heading) = match heading.strip_prefix('+') {
                Some(rest) => (true, rest),
                None => (false, *heading),
            };
            Column {
                heading: heading.trim_start_matches('>').to_owned(),
                is_number: heading.starts_with('>'),
                is_spare,
            }
        };
        Rows {
            columns: headings.iter().map(column).collect(),
            has_headings: true,
            rows: Vec::new(),
        }
    }

    /// Creates a table of names and values, without headings.
    pub(crate) fn plain(columns: usize) -> Rows {
        let column = || Column {
            heading: String::new(),
            is_number: false,
            is_spare: false,
        };
        Rows {
            columns: std::iter::repeat_with(column).take(columns).collect(),
            has_headings: false,
            rows: Vec::new(),
        }
    }

    /// Adds a row.
    pub(crate) fn add<const N: usize>(&mut self, cells: [String; N]) {
        debug_assert_eq!(
            N,
            self.columns.len(),
            "a row has as many cells as the table has columns"
        );
        let cells = cells.iter().zip(&self.columns);
        let cells = cells.map(|(cell, column)| match column.heading.as_str() {
            DESCRIPTION => printable(cell),
            _ => plain_names(&printable(cell)),
        });
        self.rows.push(cells.collect());
    }

    /// Whether the rows are items, which can be sorted and limited, rather than names and values.
    pub(crate) fn is_list(&self) -> bool {
        self.has_headings
    }

    /// Sorts the rows. The order of equal rows stays.
    ///
    /// # Errors
    /// There is no such column; the rows are unchanged.
    pub(crate) fn sort(&mut self, by: &Sort) -> Result<(), UnknownColumn> {
        let is_wanted = |column: &Column| column.heading.eq_ignore_ascii_case(&by.column);
        let Some(at) = self.columns.iter().position(is_wanted) else {
            return Err(UnknownColumn {
                wanted: by.column.clone(),
                known: self.columns.iter().map(|c| c.heading.clone()).collect(),
            });
        };
        let is_number = self.columns[at].is_number;
        self.rows.sort_by(|one, other| {
            let order = compare(&one[at], &other[at], is_number);
            if by.reverse { order.reverse() } else { order }
        });
        Ok(())
    }

    /// Removes the rows after the first `limit`.
    pub(crate) fn truncate(&mut self, limit: usize) {
        self.rows.truncate(limit);
    }

    /// Lays the table out. To fit `width`, leaves out spare columns, then wraps text between words,
    /// then breaks words. A table whose numbers and headings alone are wider stays wider.
    pub(crate) fn laid_out(mut self, width: usize) -> LaidOut {
        let mut widths = self.widths();
        let left_out = self.leave_out_spare_columns(&mut widths, width);
        if total(&widths) > width {
            self.wrap(&widths, width);
        }
        let table = self.table();
        let lines = table.lines();
        LaidOut {
            lines: lines.map(|line| line.trim_end().to_owned()).collect(),
            left_out,
        }
    }

    /// The width of each column on one line, in characters.
    fn widths(&self) -> Vec<usize> {
        let width = |at: usize| {
            let cells = self.rows.iter().map(|row| row[at].chars().count());
            let heading = self.columns[at].heading.chars().count();
            cells.max().unwrap_or(0).max(heading)
        };
        (0..self.columns.len()).map(width).collect()
    }

    /// Leaves out spare columns from the right, until the table fits or none is left. Returns
    /// their headings in the order of the table.
    fn leave_out_spare_columns(&mut self, widths: &mut Vec<usize>, width: usize) -> Vec<String> {
        let mut left_out = Vec::new();
        while total(widths) > width {
            let Some(at) = self.columns.iter().rposition(|column| column.is_spare) else {
                break;
            };
            left_out.insert(0, self.columns.remove(at).heading);
            widths.remove(at);
            for row in &mut self.rows {
                row.remove(at);
            }
        }
        left_out
    }

    /// Wraps the cells of columns of text between words, so that the table is `width` wide. Where
    /// whole words do not fit, the columns with the longest words get narrower, and their words are
    /// broken.
    fn wrap(&mut self, widths: &[usize], width: usize) {
        let longest_word = |at: usize| {
            let cells = self.rows.iter().map(|row| row[at].as_str());
            let words = cells.flat_map(str::split_whitespace);
            let heading = self.columns[at].heading.chars().count();
            let longest = words.map(|word| word.chars().count()).max();
            longest.unwrap_or(0).max(heading)
        };
        let words: Vec<usize> = (0..widths.len()).map(longest_word).collect();
        let least = |is_kept: &dyn Fn(usize) -> bool| -> Vec<usize> {
            let columns = 0..widths.len();
            let least = columns.map(|at| match self.columns[at].is_number || is_kept(at) {
                true => widths[at],
                false => words[at],
            });
            least.collect()
        };
        let mut shares = least(&|at| widths[at] <= UNBROKEN);
        if total(&shares) > width {
            shares = least(&|_| false);
        }
        while total(&shares) > width {
            let heading = |at: usize| {
                self.columns[at]
                    .heading
                    .chars()
                    .count()
                    .max(MIN_BROKEN_WIDTH)
            };
            let texts = (0..widths.len()).filter(|&at| !self.columns[at].is_number);
            let texts = texts.filter(|&at| shares[at] > heading(at));
            let Some(at) = texts.max_by_key(|&at| shares[at]) else {
                break;
            };
            shares[at] -= 1;
        }
        // The narrowest column grows first, so that columns of long text get the remaining width.
        while total(&shares) < width {
            let open = (0..widths.len()).filter(|&at| shares[at] < widths[at]);
            let Some(at) = open.min_by_key(|&at| shares[at]) else {
                break;
            };
            shares[at] += 1;
        }
        for row in &mut self.rows {
            for (cell, &share) in row.iter_mut().zip(&shares) {
                if cell.chars().count() > share {
                    let lines = wrapped(cell, share, 0);
                    let lines = lines.iter().flat_map(|line| broken_words(line, share));
                    *cell = lines.collect::<Vec<_>>().join("\n");
                }
            }
        }
    }

    fn table(&mut self) -> Table {
        let mut table = Table::new();
        table
            .load_style(presets::NOTHING)
            .set_content_arrangement(ContentArrangement::Disabled)
            .force_no_tty();
        if self.has_headings {
            table.set_header(self.columns.iter().map(|column| &column.heading));
        }
        for row in std::mem::take(&mut self.rows) {
            table.add_row(row);
        }
        let last = self.columns.len().saturating_sub(1);
        for (at, column) in table.column_iter_mut().enumerate() {
            column.set_padding((0, if at < last { GAP } else { 0 }));
            if self.columns[at].is_number {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        table
    }
}

/// The minimum width of a column whose words are broken, in columns of the terminal.
const MIN_BROKEN_WIDTH: usize = 8;

/// The parts of a line with one word that is longer than `width`: broken behind the last sign of
/// punctuation that fits, otherwise at the width. A line that fits stays whole.
fn broken_words(line: &str, width: usize) -> Vec<String> {
    let mut parts = Vec::new();
    let mut rest: Vec<char> = line.chars().collect();
    while rest.len() > width {
        let is_end = |sign: &char| "-:;,/=_.".contains(*sign);
        let end = rest[..width].iter().rposition(is_end);
        let at = end.map_or(width, |end| end + 1);
        let tail = rest.split_off(at);
        parts.push(rest.into_iter().collect());
        rest = tail;
    }
    parts.push(rest.into_iter().collect());
    parts
}

/// The width of a table on one line.
fn total(widths: &[usize]) -> usize {
    widths.iter().sum::<usize>() + usize::from(GAP) * widths.len().saturating_sub(1)
}

/// Compares two cells. In a column of numbers, cells without a number come after all numbers.
fn compare(one: &str, other: &str, is_number: bool) -> Ordering {
    if !is_number {
        return one.cmp(other);
    }
    match (number(one), number(other)) {
        (Some(one), Some(other)) => one.total_cmp(&other),
        (one, other) => other.is_some().cmp(&one.is_some()),
    }
}

/// The number at the beginning of a cell: the LIDs `49-52` and `49+3` sort as 49.
fn number(cell: &str) -> Option<f64> {
    let end = cell
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(cell.len());
    cell[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Rows {
        let mut rows = Rows::new(&["NAME", "+>LID", "+NOTE", "MESSAGE"]);
        let note = || "n".repeat(20);
        rows.add(["b".to_owned(), "9".to_owned(), note(), "short".to_owned()]);
        rows.add(["a".to_owned(), "-".to_owned(), note(), "short".to_owned()]);
        rows.add([
            "c".to_owned(),
            "10-13".to_owned(),
            note(),
            "word ".repeat(15),
        ]);
        rows
    }

    fn names(sort: &str) -> String {
        let mut rows = table();
        rows.sort(&sort.parse().unwrap()).unwrap();
        let lines = rows.laid_out(usize::MAX).lines;
        lines[1..].iter().map(|line| &line[..1]).collect()
    }

    #[test]
    fn rows_are_sorted_by_number_or_text() {
        assert_eq!(names("name"), "abc");
        assert_eq!(names("-NAME"), "cba");
        assert_eq!(names("LID"), "bca");
        let error = table().sort(&"gid".parse().unwrap()).unwrap_err();
        let expected = "no column `gid` to sort by: expected one of NAME, LID, NOTE, MESSAGE";
        assert_eq!(error.to_string(), expected);
        assert!("-".parse::<Sort>().is_err());
    }

    #[test]
    fn a_wide_table_loses_spare_columns_before_it_wraps() {
        // 4 + 2 + 5 + 2 + 20 + 2 + 75 columns, without the note 88.
        let LaidOut { lines, left_out } = table().laid_out(WIDTH);
        assert!(lines.iter().all(|line| line.chars().count() <= 100));
        assert_eq!(lines[0], "NAME    LID  MESSAGE");
        assert_eq!(lines.len(), 4);
        assert_eq!(left_out, ["NOTE"]);
        let LaidOut { lines, left_out } = table().laid_out(usize::MAX);
        assert!(lines[0].contains("NOTE"));
        assert_eq!(left_out, [""; 0]);
        assert_eq!(table().laid_out(60).left_out, ["LID", "NOTE"]);
    }

    #[test]
    fn text_wraps_and_loses_no_word() {
        let mut rows = table();
        let words: Vec<String> = (0..80).map(|n| format!("word{n}")).collect();
        let guid = "0x0002c90300001234:36".to_owned();
        rows.add([
            guid.clone(),
            "1".to_owned(),
            "n".to_owned(),
            words.join(" "),
        ]);
        let lines = rows.laid_out(WIDTH).lines;
        assert!(lines.iter().all(|line| line.chars().count() <= 100));
        let text = lines.join("\n");
        let found: Vec<&str> = text.split_whitespace().collect();
        assert!(words.iter().all(|word| found.contains(&word.as_str())));
        assert!(found.contains(&guid.as_str()), "{text}");
    }

    #[test]
    fn a_narrow_table_breaks_no_word() {
        let mut rows = Rows::new(&["PORT", "PEER", ">ERRORS", "COUNTERS"]);
        let counters = "SymbolErrorCounter=500 (116256/h) LinkDownedCounter=1 (12/h)";
        rows.add([
            "MF0;su-01-leaf-01:MQM9700/U1:40".to_owned(),
            "MF0;spine-04:MQM9700/U1:2".to_owned(),
            "116256".to_owned(),
            counters.to_owned(),
        ]);
        let lines = rows.laid_out(60).lines;
        assert!(lines.iter().all(|line| line.chars().count() <= 60));
        let text = lines.join("\n");
        let words: Vec<&str> = text.split_whitespace().collect();
        for word in counters
            .split(' ')
            .chain(["su-01-leaf-01:40", "spine-04:2"])
        {
            assert!(words.contains(&word), "{word}: {text}");
        }
    }

    #[test]
    fn words_are_broken_where_whole_words_do_not_fit() {
        let mut rows = Rows::new(&["WHAT", "WHEN", "PART", "BEFORE", "NOW", ">TIMES"]);
        let cells = [
            "finding-raised",
            "2026-11-24T22:00+01:00 to 2026-11-24T23:10+01:00",
            "su-01-rack-17-leaf-05:7 - su-01-rack-17-spine-03:21",
            "0x0002c90300001234, 4x ndr",
            "GPUDirect-RDMA-not-supported-here",
            "7",
        ];
        rows.add(cells.map(str::to_owned));
        let lines = rows.laid_out(80).lines;
        let text = lines.join("\n");
        assert!(
            lines.iter().all(|line| line.chars().count() <= 80),
            "{text}"
        );
        // No character is lost: the cells of each column are read line by line.
        let begin = |heading: &str| lines[0].find(heading).unwrap();
        let (from, to) = (begin("PART"), begin("BEFORE"));
        let part: String = lines[1..]
            .iter()
            .map(|line| line.get(from..to.min(line.len())).unwrap_or("").trim())
            .collect();
        assert_eq!(part.replace(' ', ""), cells[2].replace(' ', ""));
        assert_eq!(broken_words("leaf-05:21", 8), ["leaf-05:", "21"]);
        assert_eq!(broken_words("0123456789", 8), ["01234567", "89"]);
        assert_eq!(broken_words("short", 8), ["short"]);
    }

    #[test]
    fn only_the_column_description_shows_descriptions_whole() {
        let mut rows = Rows::new(&["NAME", "DESCRIPTION"]);
        let text = || "MF0;leaf-01:MQM9700/U1".to_owned();
        rows.add([text(), text()]);
        let lines = rows.laid_out(WIDTH).lines;
        assert_eq!(lines[1], "leaf-01  MF0;leaf-01:MQM9700/U1");
    }
}
