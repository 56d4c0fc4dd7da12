//! rsm as a client of the simulator.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::clock::{unix_ms, wait_for_every};
use crate::error::Error;
use crate::ibsim::Ibsim;
use crate::process::{Finished, Invocation, Running};
use crate::tap::Tap;
use crate::{binaries, process};

/// The interval of history queries during a wait for a resident rsm: each query starts an rsmctl,
/// which competes with rsm for the processors.
const HISTORY_INTERVAL: Duration = Duration::from_millis(50);

/// Prepares `rsm --fabric umad --once --format json` with its state in the folder `state`.
///
/// # Errors
///
/// The working directory of rsm cannot be made.
pub fn rsm_once(
    ibsim: &Ibsim,
    tap: Option<&Tap>,
    host: &str,
    state: &Path,
) -> Result<Invocation, Error> {
    let invocation = invocation(ibsim, tap, host)?;
    Ok(invocation
        .args(["--once", "--format", "json", "--state-dir"])
        .arg(state))
}

fn invocation(ibsim: &Ibsim, tap: Option<&Tap>, host: &str) -> Result<Invocation, Error> {
    let socket_name = tap.map_or(ibsim.socket_name(), Tap::socket_name);
    let invocation = ibsim.client_through(socket_name, host, binaries::rsm())?;
    Ok(invocation.args(["--fabric", "umad"]))
}

/// The output of `rsm --once --format json`.
#[derive(Debug, Clone)]
pub struct OnceReport(Value);

impl OnceReport {
    /// Reads the report of an ended run, with any exit status.
    ///
    /// # Errors
    ///
    /// The run printed no JSON.
    pub fn of(finished: &Finished) -> Result<Self, Error> {
        serde_json::from_str(finished.stdout.trim())
            .map(Self)
            .map_err(|error| Error::Output {
                program: "rsm".into(),
                detail: format!("{error}: {}{}", finished.stdout, finished.stderr),
            })
    }

    /// The number at a JSON pointer, such as `/smps/set`.
    ///
    /// # Errors
    ///
    /// The report has no such number.
    pub fn number(&self, pointer: &str) -> Result<f64, Error> {
        self.0
            .pointer(pointer)
            .and_then(Value::as_f64)
            .ok_or_else(|| self.missing(pointer))
    }

    /// The count at a JSON pointer, such as `/switches`.
    ///
    /// # Errors
    ///
    /// The report has no such count.
    pub fn count(&self, pointer: &str) -> Result<u64, Error> {
        self.0
            .pointer(pointer)
            .and_then(Value::as_u64)
            .ok_or_else(|| self.missing(pointer))
    }

    /// The text at a JSON pointer, such as `/engine/name`.
    ///
    /// # Errors
    ///
    /// The report has no such text.
    pub fn text(&self, pointer: &str) -> Result<&str, Error> {
        self.0
            .pointer(pointer)
            .and_then(Value::as_str)
            .ok_or_else(|| self.missing(pointer))
    }

    /// The number of Gets and Sets sent, including retries.
    ///
    /// # Errors
    ///
    /// A count is missing.
    pub fn smps_sent(&self) -> Result<u64, Error> {
        Ok(self.count("/smps/get")? + self.count("/smps/set")?)
    }

    /// The findings.
    ///
    /// # Errors
    ///
    /// The list is missing.
    pub fn findings(&self) -> Result<&[Value], Error> {
        let findings = self.0.pointer("/findings").and_then(Value::as_array);
        findings
            .map(Vec::as_slice)
            .ok_or_else(|| self.missing("/findings"))
    }

    /// The findings, except those about the habits of devices: ibsim causes findings about habits
    /// in every run, because it does not keep some fields of PortInfo.
    ///
    /// # Errors
    ///
    /// The list is missing.
    pub fn findings_but_habits(&self) -> Result<Vec<&Value>, Error> {
        let is_habit = |finding: &&Value| finding["kind"] == "device-habit";
        let findings = self.findings()?.iter();
        Ok(findings.filter(|finding| !is_habit(finding)).collect())
    }

    fn missing(&self, pointer: &str) -> Error {
        Error::Output {
            program: "rsm".into(),
            detail: format!("no {pointer} in {}", self.0),
        }
    }
}

/// A resident rsm with its API on a socket of its state directory.
#[derive(Debug)]
pub struct Rsm {
    process: Running,
    /// The state directory.
    state: PathBuf,
    /// The time of the start, in milliseconds since the Unix epoch. The history on disk also
    /// contains the convergences of earlier runs.
    started_unix_ms: u64,
    dumps: PathBuf,
}

impl Rsm {
    /// Starts rsm like [`Rsm::start_with`], without further arguments.
    ///
    /// # Errors
    ///
    /// rsm cannot be started, ends, or `limit` passes first.
    pub fn start(
        ibsim: &Ibsim,
        tap: Option<&Tap>,
        host: &str,
        state: &Path,
        limit: Duration,
    ) -> Result<Self, Error> {
        Self::start_with(ibsim, tap, host, state, &[], limit)
    }

    /// Starts rsm with its state directory `state`, which several runs can use, and waits until the
    /// history contains a convergence of this run.
    ///
    /// # Errors
    ///
    /// rsm cannot be started, ends, or `limit` passes first.
    pub fn start_with(
        ibsim: &Ibsim,
        tap: Option<&Tap>,
        host: &str,
        state: &Path,
        arguments: &[&str],
        limit: Duration,
    ) -> Result<Self, Error> {
        Self::spawn_with(ibsim, tap, host, state, arguments)?.converged(limit)
    }

    /// Starts rsm like [`Rsm::start_with`], from the client `rsm`: a program without arguments that
    /// runs rsm. The run writes no dumps.
    ///
    /// # Errors
    ///
    /// Fails as [`Rsm::start_with`] does.
    pub fn run(
        rsm: Invocation,
        state: &Path,
        arguments: &[&str],
        limit: Duration,
    ) -> Result<Self, Error> {
        let rsm = rsm.args(["--fabric", "umad"]);
        Self::spawn_as(rsm, state, arguments)?.converged(limit)
    }

    /// Waits until the history contains a convergence of this run.
    fn converged(mut self, limit: Duration) -> Result<Self, Error> {
        let converged = wait_for_every(HISTORY_INTERVAL, limit, || {
            let up = self.history().is_ok_and(|history| !history.is_empty());
            (up || !self.process.is_running()).then_some(up)
        });
        if converged == Some(true) {
            return Ok(self);
        }
        let outcome = if self.process.is_running() {
            "no convergence"
        } else {
            "ended"
        };
        Err(Error::Failed {
            command: "rsm".into(),
            outcome: outcome.into(),
            output: self.process.stderr_so_far(),
        })
    }

    /// Starts rsm without waiting for a convergence.
    ///
    /// # Errors
    ///
    /// rsm cannot be started.
    pub fn spawn(
        ibsim: &Ibsim,
        tap: Option<&Tap>,
        host: &str,
        state: &Path,
    ) -> Result<Self, Error> {
        Self::spawn_with(ibsim, tap, host, state, &[])
    }

    fn spawn_with(
        ibsim: &Ibsim,
        tap: Option<&Tap>,
        host: &str,
        state: &Path,
        arguments: &[&str],
    ) -> Result<Self, Error> {
        let invocation = invocation(ibsim, tap, host)?;
        let dumps = invocation.directory().join("dumps");
        Self::spawn_as(invocation.arg("--dump-dir").arg(dumps), state, arguments)
    }

    fn spawn_as(invocation: Invocation, state: &Path, arguments: &[&str]) -> Result<Self, Error> {
        let dumps = invocation.directory().join("dumps");
        let started_unix_ms = unix_ms();
        let process = invocation
            .arg("--state-dir")
            .arg(state)
            .args(["--listen", "127.0.0.1:0"])
            .args(arguments)
            .spawn()?;
        Ok(Self {
            process,
            state: state.to_owned(),
            started_unix_ms,
            dumps,
        })
    }

    /// The directory of rsm's dumps.
    #[must_use]
    pub fn dumps(&self) -> &Path {
        &self.dumps
    }

    /// The process of rsm.
    #[must_use]
    pub fn process(&mut self) -> &mut Running {
        &mut self.process
    }

    /// Runs `rsmctl … --format json`.
    ///
    /// # Errors
    ///
    /// rsmctl fails or prints no JSON.
    pub fn ask(&self, arguments: &[&str]) -> Result<Value, Error> {
        const ANSWER_LIMIT: Duration = Duration::from_secs(30);
        let directory =
            tempfile::tempdir_in(self.dumps.parent().unwrap_or(&self.state)).map_err(|source| {
                Error::Write {
                    path: self.state.clone(),
                    source,
                }
            })?;
        let finished = process::Invocation::new(binaries::rsmctl(), directory.path())
            .arg("--server")
            .arg(format!("unix:{}", self.state.join("rsm.sock").display()))
            .args(arguments)
            .args(["--format", "json"])
            .run(ANSWER_LIMIT)?
            .success()?;
        serde_json::from_str(&finished.stdout).map_err(|error| Error::Output {
            program: "rsmctl".into(),
            detail: format!("{error}: {}", finished.stdout),
        })
    }

    /// The entries of `rsmctl history` for this run: one per convergence, the newest last.
    ///
    /// # Errors
    ///
    /// Fails as [`Rsm::ask`] does.
    pub fn history(&self) -> Result<Vec<Value>, Error> {
        match self.ask(&["history"])? {
            Value::Array(mut entries) => {
                entries.retain(|entry| {
                    entry["finished_unix_ms"]
                        .as_u64()
                        .is_some_and(|finished| finished >= self.started_unix_ms)
                });
                Ok(entries)
            }
            other => Err(Error::Output {
                program: "rsmctl".into(),
                detail: format!("no list: {other}"),
            }),
        }
    }

    /// Waits until the history contains `entries` convergences; returns false if `limit` passes
    /// first.
    ///
    /// # Errors
    ///
    /// rsm ends.
    pub fn wait_history(&mut self, entries: usize, limit: Duration) -> Result<bool, Error> {
        let outcome = wait_for_every(HISTORY_INTERVAL, limit, || {
            let seen = self.history().is_ok_and(|history| history.len() >= entries);
            (seen || !self.process.is_running()).then_some(seen)
        });
        if outcome == Some(false) {
            let output = self.process.stderr_so_far();
            return Err(Error::Failed {
                command: "rsm".into(),
                outcome: "ended".into(),
                output,
            });
        }
        Ok(outcome.is_some())
    }

    /// Kills rsm, as in a crash.
    ///
    /// # Errors
    ///
    /// The kernel reports no exit status.
    pub fn kill(self) -> Result<Finished, Error> {
        self.process.kill()
    }

    /// Ends rsm with SIGTERM.
    ///
    /// # Errors
    ///
    /// The kernel reports no exit status.
    pub fn stop(self) -> Result<Finished, Error> {
        self.process.terminate(Duration::from_secs(10))
    }
}
