//! A fabric simulated by `rsm sim serve`, and programs that reach it through the preloaded library.
//!
//! ibsim delivers 224 bytes of a MAD and no RMPP. This fabric delivers whole MADs and RMPP, so
//! programs run without restrictions.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;

use crate::binaries;
use crate::clock::wait_for;
use crate::error::Error;
use crate::peer::program_path;
use crate::process::{Finished, Invocation, Running};

/// The maximum time for the simulation to start.
const START_LIMIT: Duration = Duration::from_secs(60);

/// The maximum time for a diagnostic program.
const DIAGNOSIS_LIMIT: Duration = Duration::from_secs(120);

/// A served fabric, which ends when dropped.
#[derive(Debug)]
pub struct Served {
    // Fields drop in this order: the process before the directory of its socket.
    process: Running,
    socket: PathBuf,
    /// The address of the server for `rsmctl` commands.
    server: String,
    directory: TempDir,
}

impl Served {
    /// Serves `fabric`, a file in ibnetdiscover's format or a generator, and waits until programs
    /// can start.
    ///
    /// # Errors
    ///
    /// The server cannot be started or ends at once.
    pub fn start(fabric: &str) -> Result<Self, Error> {
        let directory = tempfile::Builder::new()
            .prefix("rsm-served-")
            .tempdir()
            .map_err(|source| Error::Write {
                path: std::env::temp_dir(),
                source,
            })?;
        Self::serve(fabric, directory)
    }

    /// Ends the simulation, waits for `pause`, and serves `fabric` at the same socket. To programs,
    /// their devices vanish and come back.
    ///
    /// # Errors
    ///
    /// The server cannot be stopped, or not be started again.
    pub fn restart(self, fabric: &str, pause: Duration) -> Result<Self, Error> {
        let Self {
            process, directory, ..
        } = self;
        process.terminate(Duration::from_secs(10))?;
        std::thread::sleep(pause);
        Self::serve(fabric, directory)
    }

    fn serve(fabric: &str, directory: TempDir) -> Result<Self, Error> {
        let socket = directory.path().join("fabric.sock");
        let invocation = Invocation::new(binaries::rsm(), directory.path())
            .args(["sim", "serve", fabric, "--socket"])
            .arg(&socket)
            .args(["--listen", "127.0.0.1:0"]);
        let mut process = invocation.spawn()?;
        let ready = wait_for(START_LIMIT, || {
            let line = process.stdout_so_far();
            let server = server_in(&line).map(str::to_owned);
            (server.is_some() || !process.is_running()).then_some(server)
        });
        let Some(Some(server)) = ready else {
            return Err(Error::Failed {
                command: invocation.to_string(),
                outcome: "not serving".into(),
                output: process.stderr_so_far(),
            });
        };
        Ok(Self {
            process,
            socket,
            server,
            directory,
        })
    }

    /// The path of the socket.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// The directory of this fabric, which is removed with the fabric.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Prepares `program` to run at the node `host`, a GUID or a description; an empty name stands
    /// for the first host.
    ///
    /// # Errors
    ///
    /// The directory of the program cannot be made.
    pub fn client(&self, host: &str, program: impl AsRef<Path>) -> Result<Invocation, Error> {
        client(self.directory.path(), &self.socket, host, program)
    }

    /// Runs a diagnostic program until it ends, with or without success.
    ///
    /// # Errors
    ///
    /// The program cannot be started.
    pub fn diagnose(
        &self,
        host: &str,
        program: &str,
        arguments: &[&str],
    ) -> Result<Finished, Error> {
        self.client(host, program)?
            .args(arguments)
            .run(DIAGNOSIS_LIMIT)
    }

    /// Changes the fabric with `rsmctl sim …`.
    ///
    /// # Errors
    ///
    /// The command is refused.
    pub fn act(&self, arguments: &[&str]) -> Result<Finished, Error> {
        Invocation::new(binaries::rsmctl(), self.directory.path())
            .args(["--server", &self.server, "sim"])
            .args(arguments)
            .run(DIAGNOSIS_LIMIT)?
            .success()
    }

    /// Ends the simulation.
    ///
    /// # Errors
    ///
    /// The kernel reports no exit status.
    pub fn stop(self) -> Result<Finished, Error> {
        self.process.terminate(Duration::from_secs(10))
    }
}

/// Prepares `program` to run at the node `host` of the fabric served at `socket`, in a new
/// directory below `directory`.
///
/// # Errors
///
/// The directory of the program cannot be made.
pub fn client(
    directory: &Path,
    socket: &Path,
    host: &str,
    program: impl AsRef<Path>,
) -> Result<Invocation, Error> {
    let own = tempfile::Builder::new()
        .prefix("client-")
        .tempdir_in(directory)
        .map_err(|source| Error::Write {
            path: directory.to_owned(),
            source,
        })?;
    let program = program.as_ref();
    let program = program
        .to_str()
        .filter(|name| !name.contains('/'))
        .map_or_else(|| program.to_owned(), program_path);
    Ok(Invocation::new(program, own.keep())
        .env("LD_PRELOAD", binaries::sim_preload())
        .env("RSM_SIM_SOCKET", socket)
        .env("RSM_SIM_NODE", host))
}

/// The address of the server in the line that `rsm sim serve` prints when it is ready; `None` for
/// other lines.
fn server_in(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("--server ")?;
    let (server, end) = rest.split_once(' ')?;
    end.ends_with('\n').then_some(server)
}
