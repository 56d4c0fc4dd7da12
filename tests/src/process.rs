//! Runs foreign programs as children: writes their output to files, limits their time, and records
//! their peak memory.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::clock::Stopwatch;
use crate::error::Error;
use crate::measure::memory;

/// The interval at which the peak memory of a running child is read. The peak only grows, so the
/// last reading misses at most the growth of one interval.
const MEMORY_SAMPLE_INTERVAL: Duration = Duration::from_millis(10);

/// A program to start.
#[derive(Debug, Clone)]
pub struct Invocation {
    program: OsString,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    directory: PathBuf,
    has_piped_stdin: bool,
}

impl Invocation {
    /// Prepares `program` to run in `directory`, where its output files are also created.
    #[must_use]
    pub fn new(program: impl AsRef<OsStr>, directory: impl Into<PathBuf>) -> Self {
        Self {
            program: program.as_ref().to_owned(),
            arguments: Vec::new(),
            environment: Vec::new(),
            directory: directory.into(),
            has_piped_stdin: false,
        }
    }

    /// Adds an argument after the earlier arguments.
    #[must_use]
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.arguments.push(argument.as_ref().to_owned());
        self
    }

    /// Adds arguments after the earlier arguments.
    #[must_use]
    pub fn args<A: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.arguments.extend(
            arguments
                .into_iter()
                .map(|argument| argument.as_ref().to_owned()),
        );
        self
    }

    /// Sets an environment variable for the child.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.environment
            .push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Keeps the child's standard input open; see [`Running::take_stdin`].
    #[must_use]
    pub fn piped_stdin(mut self) -> Self {
        self.has_piped_stdin = true;
        self
    }

    /// The directory in which the child runs.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Starts the program. Its output goes to the files `NAME.out` and `NAME.err` in its directory.
    ///
    /// # Errors
    ///
    /// The output files cannot be created, or the program cannot be started.
    pub fn spawn(&self) -> Result<Running, Error> {
        let name = Path::new(&self.program).file_name().map_or_else(
            || "child".to_owned(),
            |name| name.to_string_lossy().into_owned(),
        );
        let stdout = self.directory.join(format!("{name}.out"));
        let stderr = self.directory.join(format!("{name}.err"));
        let create = |path: &Path| {
            File::create(path).map_err(|source| Error::Write {
                path: path.to_owned(),
                source,
            })
        };
        let mut command = Command::new(&self.program);
        command
            .args(&self.arguments)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .current_dir(&self.directory)
            .stdin(if self.has_piped_stdin {
                Stdio::piped()
            } else {
                Stdio::null()
            })
            .stdout(create(&stdout)?)
            .stderr(create(&stderr)?);
        let command_line = self.to_string();
        let stopwatch = Stopwatch::start();
        let child = command.spawn().map_err(|source| Error::Spawn {
            command: command_line.clone(),
            source,
        })?;
        let watched = watched(child, |pid| pidfd_open(pid, PidfdFlags::empty()));
        let (child, pidfd) = watched.map_err(|errno| Error::Watch {
            command: command_line.clone(),
            source: errno.into(),
        })?;
        Ok(Running {
            command: command_line,
            child,
            pidfd,
            stopwatch,
            stdout,
            stderr,
            peak_rss_bytes: 0,
        })
    }

    /// Starts the program, waits for its end, and kills it after `limit`.
    ///
    /// # Errors
    ///
    /// Fails as [`Invocation::spawn`] and [`Running::wait`] do.
    pub fn run(&self, limit: Duration) -> Result<Finished, Error> {
        self.spawn()?.wait(limit)
    }
}

impl std::fmt::Display for Invocation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.program.to_string_lossy())?;
        for argument in &self.arguments {
            write!(f, " {}", argument.to_string_lossy())?;
        }
        Ok(())
    }
}

/// A running child process, which is killed when dropped.
#[derive(Debug)]
pub struct Running {
    command: String,
    child: Child,
    pidfd: OwnedFd,
    stopwatch: Stopwatch,
    stdout: PathBuf,
    stderr: PathBuf,
    peak_rss_bytes: u64,
}

/// The result of a child process that has ended.
#[derive(Debug)]
pub struct Finished {
    /// The command line, for messages.
    pub command: String,
    /// The exit status; if `timed_out`, the status of a killed process.
    pub status: ExitStatus,
    /// Whether the harness killed the child at the time limit.
    pub timed_out: bool,
    /// The standard output, with bytes that are not UTF-8 replaced.
    pub stdout: String,
    /// The standard error, with bytes that are not UTF-8 replaced.
    pub stderr: String,
    /// The time from before the start to the end of the process.
    pub wall: Duration,
    /// The peak resident set size in bytes (`VmHWM`), read at most 10 ms before the end of the
    /// process.
    pub peak_rss_bytes: u64,
}

impl Running {
    /// The process ID of the child.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The processor time so far of the child's threads that still run; zero if the kernel does not
    /// report it.
    #[must_use]
    pub fn processor_time(&self) -> Duration {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.id()));
        let tasks = tasks.into_iter().flatten().flatten();
        tasks.map(|task| processor_time_of(&task.path())).sum()
    }

    /// The processor time of the child's first thread so far; zero if the kernel does not report
    /// it.
    #[must_use]
    pub fn first_thread_time(&self) -> Duration {
        let id = self.id();
        processor_time_of(Path::new(&format!("/proc/{id}/task/{id}")))
    }

    /// The writing end of the child's standard input; `None` after the first call.
    #[must_use]
    pub fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    /// Whether the child still runs.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// The child's standard output so far.
    #[must_use]
    pub fn stdout_so_far(&self) -> String {
        read_lossy(&self.stdout)
    }

    /// The child's standard error so far.
    #[must_use]
    pub fn stderr_so_far(&self) -> String {
        read_lossy(&self.stderr)
    }

    /// A handle that kills this child from another thread; it may outlive the child.
    ///
    /// # Errors
    ///
    /// The descriptor cannot be duplicated.
    pub fn killer(&self) -> Result<Killer, Error> {
        self.pidfd
            .try_clone()
            .map(Killer)
            .map_err(|source| Error::Watch {
                command: self.command.clone(),
                source,
            })
    }

    /// Sends SIGHUP, without waiting for its effect.
    pub fn hang_up(&self) {
        self.signal(Signal::HUP);
    }

    /// Sends SIGSTOP: the child stops until [`Running::resume`].
    pub fn suspend(&self) {
        self.signal(Signal::STOP);
    }

    /// Sends SIGCONT: the child continues after [`Running::suspend`].
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Sends SIGKILL, and waits for the end of the child.
    ///
    /// # Errors
    ///
    /// Fails as [`Running::wait`] does.
    pub fn kill(self) -> Result<Finished, Error> {
        self.signal(Signal::KILL);
        self.wait(Duration::from_secs(10))
    }

    /// Sends SIGTERM, waits for the end of the child, and kills the child after `limit`.
    ///
    /// # Errors
    ///
    /// Fails as [`Running::wait`] does.
    pub fn terminate(self, limit: Duration) -> Result<Finished, Error> {
        self.signal(Signal::TERM);
        self.wait(limit)
    }

    /// Waits for the end of the child, and kills the child after `limit`, counted from now.
    ///
    /// # Errors
    ///
    /// The kernel reports no exit status.
    pub fn wait(mut self, limit: Duration) -> Result<Finished, Error> {
        let watch_error = |command: &str, source| Error::Watch {
            command: command.into(),
            source,
        };
        let wait_time = Stopwatch::start();
        let mut timed_out = false;
        while !self.ends_within(MEMORY_SAMPLE_INTERVAL) {
            self.sample_memory();
            if !timed_out && wait_time.elapsed() >= limit {
                timed_out = true;
                self.signal(Signal::KILL);
            }
        }
        let wall = self.stopwatch.elapsed();
        let status = self
            .child
            .wait()
            .map_err(|source| watch_error(&self.command, source))?;
        Ok(Finished {
            command: self.command.clone(),
            status,
            timed_out,
            stdout: read_lossy(&self.stdout),
            stderr: read_lossy(&self.stderr),
            wall,
            peak_rss_bytes: self.peak_rss_bytes,
        })
    }

    /// Waits at most `interval`; returns whether the child has ended.
    fn ends_within(&self, interval: Duration) -> bool {
        let mut descriptors = [PollFd::new(&self.pidfd, PollFlags::IN)];
        let timeout = Timespec::try_from(interval).ok();
        matches!(
            rustix::event::poll(&mut descriptors, timeout.as_ref()),
            Ok(1..)
        )
    }

    /// Reads the peak memory of the child.
    fn sample_memory(&mut self) {
        let bytes = memory(&self.child.id().to_string(), "VmHWM:");
        // The kernel resets the peak when `ibsim-run`, a script, is replaced by the program that it
        // runs, so the last reading counts.
        if bytes > 0 {
            self.peak_rss_bytes = bytes;
        }
    }

    /// Sends `signal` to the child.
    fn signal(&self, signal: Signal) {
        // An ended child needs no signal.
        let _ = pidfd_send_signal(&self.pidfd, signal);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
        let _ = self.child.wait();
    }
}

/// A handle that kills a child from another thread; see [`Running::killer`].
#[derive(Debug)]
pub struct Killer(OwnedFd);

impl Killer {
    /// Sends SIGKILL without waiting for the end of the child.
    pub fn kill(&self) {
        let _ = pidfd_send_signal(&self.0, Signal::KILL);
    }
}

impl Finished {
    /// Returns this result if the program ended with status 0.
    ///
    /// # Errors
    ///
    /// The program failed; the error contains the end of its output.
    pub fn success(self) -> Result<Self, Error> {
        if self.status.success() && !self.timed_out {
            return Ok(self);
        }
        Err(Error::Failed {
            command: self.command,
            outcome: if self.timed_out {
                "timed out".into()
            } else {
                self.status.to_string()
            },
            output: format!("{}{}", tail(&self.stdout), tail(&self.stderr)),
        })
    }
}

/// A child with a descriptor of it, which `open` opens. Kills a child that has none: nothing else
/// would end it.
fn watched(
    mut child: Child,
    open: impl FnOnce(Pid) -> Result<OwnedFd, Errno>,
) -> Result<(Child, OwnedFd), Errno> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    match pid.ok_or(Errno::SRCH).and_then(open) {
        Ok(pidfd) => Ok((child, pidfd)),
        Err(errno) => {
            // The child may have ended already.
            let _ = child.kill();
            let _ = child.wait();
            Err(errno)
        }
    }
}

/// The processor time of the thread whose folder in `/proc` is `task`.
fn processor_time_of(task: &Path) -> Duration {
    // The first number is the time on a processor in nanoseconds.
    let text = std::fs::read_to_string(task.join("schedstat")).unwrap_or_default();
    let nanoseconds = text
        .split_whitespace()
        .next()
        .and_then(|number| number.parse().ok());
    Duration::from_nanos(nanoseconds.unwrap_or(0))
}

/// The last 20 lines of an output, indented, each after a line break.
fn tail(output: &str) -> String {
    const LINES: usize = 20;
    let lines: Vec<&str> = output.lines().collect();
    lines[lines.len().saturating_sub(LINES)..]
        .iter()
        .map(|line| format!("\n    {line}"))
        .collect()
}

/// The text of a file, with bytes that are not UTF-8 replaced; empty if the file cannot be read.
fn read_lossy(path: &Path) -> String {
    std::fs::read(path)
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;
    use std::time::Duration;

    use rustix::io::Errno;

    use super::{Invocation, watched};

    #[test]
    fn child_that_cannot_be_watched_is_killed() {
        let child = Command::new("sleep").arg("600").spawn().unwrap();
        let process = format!("/proc/{}", child.id());
        let refused = watched(child, |_| Err(Errno::MFILE));
        assert_eq!(refused.unwrap_err(), Errno::MFILE);
        assert!(!Path::new(&process).exists());
    }

    #[test]
    fn hung_child_is_killed_and_marked_as_timed_out() {
        let directory = tempfile::tempdir().unwrap();
        let finished = Invocation::new("sleep", directory.path())
            .arg("600")
            .run(Duration::from_millis(50))
            .unwrap();
        assert!(finished.timed_out);
        let error = finished.success().unwrap_err().to_string();
        assert!(error.contains("timed out"), "{error}");
    }

    #[test]
    fn ended_child_reports_output_status_and_memory() {
        let directory = tempfile::tempdir().unwrap();
        let finished = Invocation::new("sh", directory.path())
            .args(["-c", "echo out; echo err >&2; sleep 0.05; exit 3"])
            .run(Duration::from_secs(10))
            .unwrap();
        assert_eq!(
            (finished.stdout.as_str(), finished.stderr.as_str()),
            ("out\n", "err\n")
        );
        assert_eq!(finished.status.code(), Some(3));
        assert!(finished.peak_rss_bytes > 0);
        assert!(finished.success().is_err());
    }
}
