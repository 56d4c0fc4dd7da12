//! Runs a pager for long output on a terminal.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::process::{Child, ChildStdin, Command, Stdio};

use tokio::signal::unix::{SignalKind, signal};

/// The number of lines of a small terminal: shorter output needs no pager.
pub(crate) const PAGE: usize = 24;

/// The pager that runs if the variable PAGER is not set.
const DEFAULT_PAGER: &str = "less";

/// The options of `less` if the variable LESS is not set: `less` ends at once if the text fits on
/// the screen, shows colors, and leaves the text on the screen.
const LESS_OPTIONS: &str = "FRX";

/// The exit code with which a shell reports that a command does not exist.
const NOT_FOUND: i32 = 127;

/// The command of the pager; `pager` is the value of PAGER. `None` if the output needs no pager:
/// the value is empty or `cat`, or PAGER is not set and `less` is not installed.
pub(crate) fn command(
    pager: Option<OsString>,
    is_installed: impl Fn(&str) -> bool,
) -> Option<OsString> {
    match pager {
        Some(pager) if pager.is_empty() || pager == "cat" => None,
        Some(pager) => Some(pager),
        None => is_installed(DEFAULT_PAGER).then(|| DEFAULT_PAGER.into()),
    }
}

/// Whether output has fewer than [`PAGE`] lines, so that it needs no pager.
pub(crate) fn fits(output: &[u8]) -> bool {
    output.iter().filter(|&&byte| byte == b'\n').count() < PAGE
}

/// Whether a folder in `PATH` has a file with the name `program`.
pub(crate) fn is_installed(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// A running pager.
pub(crate) struct Pager {
    command: OsString,
    child: Child,
}

impl Pager {
    /// Starts the pager `command` through the shell, because PAGER may contain options. Also
    /// returns the pager's standard input.
    ///
    /// # Errors
    /// The shell cannot be started.
    pub(crate) fn start(command: &OsStr) -> io::Result<(Pager, ChildStdin)> {
        let mut shell = Command::new("/bin/sh");
        shell.arg("-c").arg(command).stdin(Stdio::piped());
        if env::var_os("LESS").is_none() {
            shell.env("LESS", LESS_OPTIONS);
        }
        let mut child = shell.spawn()?;
        let input = child.stdin.take();
        let input = input.ok_or_else(|| io::Error::from(io::ErrorKind::BrokenPipe))?;
        // The pager handles Ctrl-C itself. Once a listener was created, even if it is dropped
        // again, the signal does not end this process. If the listener cannot be created, Ctrl-C
        // ends rsmctl before the pager, which does not harm the output.
        drop(signal(SignalKind::interrupt()));
        let command = command.to_owned();
        Ok((Pager { command, child }, input))
    }

    /// Waits until the pager has ended. The caller must close the pager's input first.
    ///
    /// # Errors
    /// The pager is not installed, or waiting fails.
    pub(crate) fn wait(mut self) -> io::Result<()> {
        match self.child.wait()?.code() {
            Some(NOT_FOUND) => Err(io::Error::new(
                io::ErrorKind::NotFound,
                format!(
                    "the pager `{}` is not installed: set PAGER, or give --no-pager",
                    self.command.display()
                ),
            )),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn pager_is_the_value_of_pager_or_less_if_installed() {
        let chosen = |pager: Option<&str>, is_installed| {
            command(pager.map(OsString::from), |_| is_installed)
        };
        assert_eq!(chosen(None, true), Some("less".into()));
        assert_eq!(chosen(None, false), None);
        assert_eq!(chosen(Some("more -d"), false), Some("more -d".into()));
        assert_eq!(chosen(Some("cat"), true), None);
        assert_eq!(chosen(Some(""), true), None);
    }

    #[tokio::test]
    async fn pager_gets_the_text_and_a_missing_pager_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let received = folder.path().join("seen");
        let mut shell = OsString::from("cat > ");
        shell.push(&received);
        let (pager, mut input) = Pager::start(&shell).unwrap();
        input.write_all(b"some lines\n").unwrap();
        drop(input);
        pager.wait().unwrap();
        assert_eq!(std::fs::read_to_string(&received).unwrap(), "some lines\n");
        let (pager, input) = Pager::start(OsStr::new("no-such-pager-anywhere -x")).unwrap();
        drop(input);
        let error = pager.wait().unwrap_err().to_string();
        assert!(error.contains("`no-such-pager-anywhere -x`"), "{error}");
    }
}
