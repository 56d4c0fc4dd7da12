//! OpenSM as a client of the simulator.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::clock::wait_for;
use crate::error::Error;
use crate::ibsim::Ibsim;
use crate::process::{Finished, Invocation, Running};
use crate::tap::Tap;

/// The line that OpenSM logs after a successful sweep.
const SUBNET_UP: &str = "SUBNET UP";

/// Prepares `opensm -o`, which configures the subnet once and exits. The dumps go to the working
/// directory.
///
/// # Errors
///
/// The working directory of OpenSM cannot be made.
pub fn opensm_once(ibsim: &Ibsim, tap: Option<&Tap>, host: &str) -> Result<Invocation, Error> {
    Ok(invocation(ibsim, tap, host)?.arg("-o"))
}

fn invocation(ibsim: &Ibsim, tap: Option<&Tap>, host: &str) -> Result<Invocation, Error> {
    let socket_name = tap.map_or(ibsim.socket_name(), Tap::socket_name);
    Ok(with_files(ibsim.client_through(
        socket_name,
        host,
        "opensm",
    )?))
}

/// Directs OpenSM's files to its working directory.
fn with_files(opensm: Invocation) -> Invocation {
    let directory = opensm.directory().to_owned();
    opensm
        .env("OSM_CACHE_DIR", &directory)
        .env("OSM_TMP_DIR", &directory)
        .arg("-f")
        .arg(directory.join("opensm.log"))
}

/// A resident OpenSM.
#[derive(Debug)]
pub struct OpenSm {
    command: String,
    process: Running,
    log: PathBuf,
    directory: PathBuf,
}

impl OpenSm {
    /// Starts OpenSM and waits until it logs that the subnet is up.
    ///
    /// # Errors
    ///
    /// OpenSM cannot be started, ends, or `limit` passes first.
    pub fn start(
        ibsim: &Ibsim,
        tap: Option<&Tap>,
        host: &str,
        arguments: &[&str],
        limit: Duration,
    ) -> Result<Self, Error> {
        let socket_name = tap.map_or(ibsim.socket_name(), Tap::socket_name);
        Self::run(
            ibsim.client_through(socket_name, host, "opensm")?,
            arguments,
            limit,
        )
    }

    /// Starts the client `opensm`, and waits until its log reports that it has entered `state`,
    /// such as `STANDBY`.
    ///
    /// # Errors
    ///
    /// Fails as [`OpenSm::start`] does.
    pub fn enter(
        opensm: Invocation,
        arguments: &[&str],
        state: &str,
        limit: Duration,
    ) -> Result<Self, Error> {
        let mut opensm = Self::spawn(opensm, arguments)?;
        let expected = format!("Entering {state} state");
        let entered = wait_for(limit, || {
            let entered = opensm.log().contains(&expected);
            (entered || !opensm.process.is_running()).then_some(entered)
        });
        match entered {
            Some(true) => Ok(opensm),
            _ => Err(opensm.failed(&format!("not {state}"))),
        }
    }

    /// Starts OpenSM like [`OpenSm::start`], from the client `opensm`.
    ///
    /// # Errors
    ///
    /// Fails as [`OpenSm::start`] does.
    pub fn run(opensm: Invocation, arguments: &[&str], limit: Duration) -> Result<Self, Error> {
        let mut opensm = Self::spawn(opensm, arguments)?;
        if opensm.wait_subnet_up(1, limit) {
            return Ok(opensm);
        }
        Err(opensm.failed("subnet not up"))
    }

    fn spawn(opensm: Invocation, arguments: &[&str]) -> Result<Self, Error> {
        // `-d 2` makes OpenSM flush every line of the log at once.
        let invocation = with_files(opensm).args(["-d", "2"]).args(arguments);
        let directory = invocation.directory().to_owned();
        Ok(Self {
            command: invocation.to_string(),
            process: invocation.spawn()?,
            log: directory.join("opensm.log"),
            directory,
        })
    }

    /// The error with the log of OpenSM; the outcome is `outcome` if OpenSM still runs.
    fn failed(&mut self, outcome: &str) -> Error {
        let outcome = match self.process.is_running() {
            true => outcome,
            false => "ended",
        };
        Error::Failed {
            command: self.command.clone(),
            outcome: outcome.into(),
            output: self.log(),
        }
    }

    /// Waits until the log has reported `times` times that the subnet is up; returns false if
    /// `limit` passes first.
    pub fn wait_subnet_up(&mut self, times: usize, limit: Duration) -> bool {
        wait_for(limit, || {
            let up = self.sweeps() >= times;
            (up || !self.process.is_running()).then_some(up)
        })
        .unwrap_or(false)
    }

    /// The number of successful sweeps so far.
    #[must_use]
    pub fn sweeps(&self) -> usize {
        self.log().matches(SUBNET_UP).count()
    }

    /// The log of OpenSM so far.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read(&self.log)
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }

    /// Makes OpenSM sweep the whole subnet again, with SIGHUP.
    pub fn hang_up(&self) {
        self.process.hang_up();
    }

    /// The process of OpenSM.
    pub fn process(&mut self) -> &mut Running {
        &mut self.process
    }

    /// The working directory of OpenSM, with its dumps.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Kills OpenSM.
    ///
    /// # Errors
    ///
    /// The kernel reports no exit status.
    pub fn kill(self) -> Result<Finished, Error> {
        self.process.kill()
    }

    /// Ends OpenSM.
    ///
    /// # Errors
    ///
    /// The kernel reports no exit status.
    pub fn stop(self) -> Result<Finished, Error> {
        self.process.terminate(Duration::from_secs(10))
    }
}
