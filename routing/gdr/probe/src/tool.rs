//! Runs the drivers' programs, each with a time-out.

use std::ffi::OsStr;
use std::io::{self, Read as _};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// The maximum length of a program's output in bytes: more is not a list of a host's GPUs.
const OUTPUT_MAX: u64 = 1 << 20;

/// The interval between checks whether a program has ended.
const POLL: Duration = Duration::from_millis(5);

/// The reason why a program gave no output.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// The program does not exist.
    #[error("it is not installed")]
    Missing,
    /// The program cannot be started.
    #[error("it cannot be started: {0}")]
    Start(io::Error),
    /// The program took too long, and was killed.
    #[error("it did not end within {seconds:.1} s: the driver may hang", seconds = .0.as_secs_f64())]
    TimeOut(Duration),
    /// The program failed; the text is its message.
    #[error("it failed: {0}")]
    Failed(String),
    /// The output is too long.
    #[error("it printed more than {OUTPUT_MAX} bytes")]
    TooLong,
}

/// The time at which a time-out ends. The crate uses a clock only here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(Instant);

impl Deadline {
    /// The deadline `limit` from now.
    pub(crate) fn after(limit: Duration) -> Deadline {
        Deadline(now() + limit)
    }

    /// The remaining time; zero after the deadline.
    pub(crate) fn left(self) -> Duration {
        self.0.saturating_duration_since(now())
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the drivers' programs run in real time"
)]
fn now() -> Instant {
    Instant::now()
}

/// Returns the standard output of a program that ends within `limit`.
///
/// A program that hangs in the kernel outlives its kill; it is abandoned, with its output.
///
/// # Errors
/// The program is missing, fails, prints too much or does not end in time.
pub fn output(
    program: &OsStr,
    arguments: &[&OsStr],
    limit: Duration,
) -> Result<Vec<u8>, ToolError> {
    let deadline = Deadline::after(limit);
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => ToolError::Missing,
            _ => ToolError::Start(error),
        })?;
    let out = child.stdout.take().map(collect);
    let err = child.stderr.take().map(collect);
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if !deadline.left().is_zero() => thread::sleep(POLL),
            Ok(None) => {
                let _ = child.kill();
                // A thread reaps the child if the kill has not ended it yet.
                thread::spawn(move || child.wait());
                return Err(ToolError::TimeOut(limit));
            }
            Err(error) => return Err(ToolError::Start(error)),
        }
    };
    // A grandchild may hold the pipes open.
    let taken = |pipe: Option<mpsc::Receiver<Vec<u8>>>| {
        let left = deadline.left().max(POLL);
        pipe.and_then(|pipe| pipe.recv_timeout(left).ok())
    };
    let bytes = taken(out).ok_or(ToolError::TimeOut(limit))?;
    if bytes.len() as u64 > OUTPUT_MAX {
        return Err(ToolError::TooLong);
    }
    if status.success() {
        return Ok(bytes);
    }
    let error = taken(err).unwrap_or_default();
    let message = [&error[..], &bytes[..]]
        .into_iter()
        .map(|bytes| String::from_utf8_lossy(bytes))
        .find_map(|text| {
            text.lines()
                .map(str::trim)
                .find(|line| !line.is_empty())
                .map(shown)
        });
    Err(ToolError::Failed(
        message.unwrap_or_else(|| status.to_string()),
    ))
}

/// Shortens a line for a message: without control characters, and at most as wide as a screen.
fn shown(line: &str) -> String {
    let plain = line.chars().filter(|char| !char.is_control());
    plain.take(160).collect()
}

/// Reads a pipe in a thread, which sends all bytes, at most [`OUTPUT_MAX`] + 1, when the pipe ends.
fn collect(pipe: impl io::Read + Send + 'static) -> mpsc::Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // A broken pipe ends the output.
        let _ = pipe.take(OUTPUT_MAX + 1).read_to_end(&mut bytes);
        let _ = sender.send(bytes);
    });
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration) -> Result<Vec<u8>, ToolError> {
        let arguments = ["-c".as_ref(), script.as_ref()];
        output("sh".as_ref(), &arguments, limit)
    }

    #[test]
    fn each_failure_of_a_program_has_its_error_and_none_exceeds_the_time_out() {
        let long = Duration::from_secs(30);
        assert_eq!(
            shell("echo yes", long).expect("the command ends in time"),
            b"yes\n"
        );
        let begun = now();
        let short = Duration::from_millis(200);
        let hung = shell("sleep 60", short);
        assert!(matches!(hung, Err(ToolError::TimeOut(_))), "{hung:?}");
        // A child of the program keeps the pipe open after the program has ended.
        let held = shell("sleep 60 & exit 0", short);
        assert!(matches!(held, Err(ToolError::TimeOut(_))), "{held:?}");
        assert!(begun.elapsed() < Duration::from_secs(20));
        let failed = shell("echo; echo 'no devices' >&2; exit 9", long).unwrap_err();
        assert_eq!(failed.to_string(), "it failed: no devices");
        let flood = shell("head -c 3000000 /dev/zero", long);
        assert!(matches!(flood, Err(ToolError::TooLong)), "{flood:?}");
        let missing = output("/nonexistent/tool".as_ref(), &[], long);
        assert!(matches!(missing, Err(ToolError::Missing)), "{missing:?}");
    }
}
