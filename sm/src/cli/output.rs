//! Standard output, whose closing by the reader is no error.

use std::io::{self, Write};

/// Writes with `write` to standard output. A reader that went away (`| head`) is no error.
pub(super) fn print(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> anyhow::Result<()> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    match write(&mut out).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

/// Writes `value` as JSON, indented.
pub(super) fn print_json(value: &impl serde::Serialize) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(value)?;
    print(|out| writeln!(out, "{text}"))
}
