//! Prints results to standard output, where a reader that closes the pipe is no error, and warnings
//! to standard error.

use std::io::{self, IsTerminal as _, Write};

/// Starts to write warnings to standard error. Must be called only once.
pub(super) fn show_warnings() {
    tracing_subscriber::fmt()
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        .with_max_level(tracing::Level::WARN)
        .with_target(false)
        .without_time()
        .init();
}

/// Prints to standard output with `write`. A reader that has closed the pipe (`| head`) is no
/// error.
pub(super) fn print(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> anyhow::Result<()> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    match write(&mut out).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

/// Prints `value` as indented JSON.
pub(super) fn print_json(value: &impl serde::Serialize) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(value)?;
    print(|out| writeln!(out, "{text}"))
}
