use std::io::{self, BufWriter, StdoutLock, Write};

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use serde::Serialize;

use crate::arguments::Format;
use crate::failure::Failure;

/// Standard output: no other code writes to it.
pub(crate) struct Output {
    writer: BufWriter<StdoutLock<'static>>,
    pub(crate) format: Format,
}

impl Output {
    pub(crate) fn new(format: Format) -> Output {
        Output {
            writer: BufWriter::new(io::stdout().lock()),
            format,
        }
    }

    pub(crate) fn is_json(&self) -> bool {
        self.format == Format::Json
    }

    /// One value as JSON over several lines.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        serde_json::to_writer_pretty(&mut self.writer, value).map_err(io::Error::from)?;
        self.line("")
    }

    /// One value as JSON on one line, flushed at once.
    pub(crate) fn json_line(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        serde_json::to_writer(&mut self.writer, value).map_err(io::Error::from)?;
        self.line("")?;
        self.flush()
    }

    pub(crate) fn line(&mut self, line: &str) -> Result<(), Failure> {
        Ok(writeln!(self.writer, "{line}")?)
    }

    /// A table with aligned columns and no lines.
    pub(crate) fn table(&mut self, rows: Rows) -> Result<(), Failure> {
        for line in rows.table.lines() {
            self.line(line.trim_end())?;
        }
        Ok(())
    }

    /// A list: as JSON, or a row for each item below headings as [`Rows::new`] has them.
    pub(crate) fn list<T: Serialize, const N: usize>(
        &mut self,
        items: Vec<T>,
        headings: [&str; N],
        row: impl FnMut(T) -> [String; N],
    ) -> Result<(), Failure> {
        if self.is_json() {
            return self.json(&items);
        }
        let mut rows = Rows::new(&headings);
        items.into_iter().map(row).for_each(|cells| rows.add(cells));
        self.table(rows)
    }

    /// Flushes the buffer.
    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        Ok(self.writer.flush()?)
    }
}

/// A table under construction.
pub(crate) struct Rows {
    table: Table,
    columns: usize,
}

impl Rows {
    /// A table with these headings; a heading that begins with `>` is of a column of numbers.
    pub(crate) fn new(headings: &[&str]) -> Rows {
        let mut rows = Rows::plain(headings.len());
        rows.table.set_header(
            headings
                .iter()
                .map(|heading| heading.trim_start_matches('>')),
        );
        for (index, heading) in headings.iter().enumerate() {
            if heading.starts_with('>')
                && let Some(column) = rows.table.column_mut(index)
            {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        rows.pad();
        rows
    }

    /// A table without headings.
    pub(crate) fn plain(columns: usize) -> Rows {
        let mut table = Table::new();
        table
            .load_style(presets::NOTHING)
            .set_content_arrangement(ContentArrangement::Disabled)
            .force_no_tty();
        Rows { table, columns }
    }

    /// Adds a row.
    pub(crate) fn add<const N: usize>(&mut self, cells: [String; N]) {
        debug_assert_eq!(
            N, self.columns,
            "a row has as many cells as the table has columns"
        );
        self.table.add_row(cells.map(|cell| printable(&cell)));
        if self.table.row_count() == 1 {
            self.pad();
        }
    }

    /// Begins at the margin, and leaves two blanks between columns. Call it after the first row or
    /// heading, when the columns exist.
    fn pad(&mut self) {
        let columns = self.columns;
        for (index, column) in self.table.column_iter_mut().enumerate() {
            column.set_padding((0, if index + 1 < columns { 2 } else { 0 }));
        }
    }
}

/// Text of the hardware without characters that move the cursor of a terminal.
pub(crate) fn printable(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect()
}
