//! Writes standard output and the log, and defines the exit codes.

use std::io::{self, Write as _};

/// The exit codes, which `--help` lists.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum End {
    /// A manager accepted the report, or there was nothing to report.
    Done = 0,
    /// The host could not be read, or a manager refused the report.
    Refused = 1,
    /// The command line is wrong.
    Usage = 2,
    /// No manager could be reached.
    Unreachable = 3,
}

/// Writes a line to the log on standard error. The agent continues even if standard error is
/// closed.
pub(crate) fn note(text: &str) {
    let plain: String = text
        .chars()
        .map(|char| if char.is_control() { ' ' } else { char })
        .collect();
    let _ = writeln!(io::stderr(), "rsm-agent: {plain}");
}

/// Writes to standard output. A closed pipe is not an error.
pub(crate) fn put(text: &str) -> End {
    let mut out = io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    match written {
        Ok(()) => End::Done,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => End::Done,
        Err(error) => {
            note(&format!("standard output: {error}"));
            End::Refused
        }
    }
}
