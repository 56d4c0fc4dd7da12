//! The InfiniBand simulator of linux-rdma, which starts anew for each test.
//!
//! ibsim communicates with its clients over abstract Unix sockets whose base name is in
//! `IBSIM_SOCKNAME`; simulators with different names do not see each other, so tests run in
//! parallel. A client is any program under `ibsim-run`, attached to the node that `SIM_HOST` names.
//! The preloaded library writes a `sys-<pid>` tree into the client's working directory, so every
//! client gets its own directory.

mod console;
mod nodes;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tempfile::TempDir;

use crate::clock::wait_for;
use crate::error::Error;
use crate::peer::program_path;
use crate::process::Invocation;

use console::Console;
pub use nodes::{SimNode, SimNodeKind, read_nodes};

/// The capacity of ibsim in nodes, switches and ports, which exceeds every fabric of the tests.
/// ibsim's defaults (2,048, 256 and 13,312) are too small, and unused capacity costs nothing.
const CAPACITY: [&str; 6] = ["-N", "60000", "-S", "6000", "-P", "700000"];

/// The LinearFDBCap of the simulated switches: every unicast LID.
const LINEAR_FDB_CAP: &str = "49151";

/// The maximum time for ibsim to read its net file.
const START_LIMIT: Duration = Duration::from_secs(60);

/// A number that distinguishes the simulators of one process; the process ID distinguishes
/// processes.
static NEXT_SIMULATOR: AtomicU32 = AtomicU32::new(0);

/// A running simulator, which ends when dropped.
#[derive(Debug)]
pub struct Ibsim {
    // Fields drop in this order: the process before the directory to which it writes.
    console: Mutex<Console>,
    socket_name: String,
    nodes: Vec<SimNode>,
    next_client: AtomicU32,
    directory: TempDir,
}

impl Ibsim {
    /// Starts ibsim on `net`, a file in ibnetdiscover format, and waits until it is ready.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] if ibsim does not load the file; other errors if ibsim cannot be started.
    pub fn start(net: &Path) -> Result<Self, Error> {
        Self::start_with(net, &[])
    }

    /// Starts ibsim like [`Ibsim::start`], with further arguments (`-v` three times prints every
    /// packet).
    ///
    /// # Errors
    ///
    /// Fails as [`Ibsim::start`] does.
    pub fn start_with(net: &Path, arguments: &[&str]) -> Result<Self, Error> {
        let text = std::fs::read(net).map_err(|source| Error::Read {
            path: net.to_owned(),
            source,
        })?;
        let nodes = read_nodes(&String::from_utf8_lossy(&text));
        let directory = tempfile::Builder::new()
            .prefix("rsm-ibsim-")
            .tempdir()
            .map_err(|source| Error::Write {
                path: std::env::temp_dir(),
                source,
            })?;
        let number = NEXT_SIMULATOR.fetch_add(1, Ordering::Relaxed);
        let socket_name = format!("rsm-{}-{number}", std::process::id());
        // Without `-n`, ibsim reads its console.
        let mut process = Invocation::new(program_path("ibsim"), directory.path())
            .arg("-s")
            .args(CAPACITY)
            .args(["-L", LINEAR_FDB_CAP])
            .args(arguments)
            .arg(net)
            .env("IBSIM_SOCKNAME", &socket_name)
            .piped_stdin()
            .spawn()?;
        wait_for(START_LIMIT, || {
            let ready = process.stdout_so_far().contains("Network simulator ready.");
            (ready || !process.is_running()).then_some(())
        });
        if !process.is_running() || !process.stdout_so_far().contains("simulator ready") {
            let reason = process.stderr_so_far();
            let reason = reason
                .lines()
                .last()
                .unwrap_or("no reason given")
                .to_owned();
            return Err(Error::Refused {
                net: net.to_owned(),
                reason,
            });
        }
        // ibsim reports readiness before it binds its sockets, and a client that connects before
        // the sockets are bound waits for two seconds. The loop that serves the sockets also
        // answers on the console, so an answer on the console proves that the sockets are bound.
        let mut console = Console::new(process);
        console.command("")?;
        Ok(Self {
            console: Mutex::new(console),
            socket_name,
            nodes,
            next_client: AtomicU32::new(0),
            directory,
        })
    }

    /// The nodes of the net file, in the order of the file.
    #[must_use]
    pub fn nodes(&self) -> &[SimNode] {
        &self.nodes
    }

    /// The nodes to which a client can be attached: channel adapters with a cabled first port
    /// (ibsim attaches to no other port), or switches at their port 0, if there are no such
    /// adapters.
    #[must_use]
    pub fn hosts(&self) -> Vec<&str> {
        let of_kind = |kind| self.nodes.iter().filter(move |node| node.kind == kind);
        let adapters: Vec<&str> = of_kind(SimNodeKind::Ca)
            .filter(|node| node.cables.contains_key(&1))
            .map(|node| node.id.as_str())
            .collect();
        if adapters.is_empty() {
            return of_kind(SimNodeKind::Switch)
                .map(|node| node.id.as_str())
                .collect();
        }
        adapters
    }

    /// The node at the end of a directed route that starts at `host`; `None` if the route leads to
    /// no node.
    #[must_use]
    pub fn node_at(&self, host: &str, path: &[u8]) -> Option<&SimNode> {
        let find = |id: &str| self.nodes.iter().find(|node| node.id == id);
        path.iter()
            .try_fold(find(host)?, |node, port| find(&node.cables.get(port)?.0))
    }

    /// The base name of the simulator's sockets.
    #[must_use]
    pub fn socket_name(&self) -> &str {
        &self.socket_name
    }

    /// The directory of this simulator, which is removed with the simulator.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Creates a directory for one client.
    ///
    /// # Errors
    ///
    /// The directory cannot be made.
    pub fn client_directory(&self) -> Result<PathBuf, Error> {
        let number = self.next_client.fetch_add(1, Ordering::Relaxed);
        let path = self.directory.path().join(format!("client-{number}"));
        std::fs::create_dir(&path).map_err(|source| Error::Write {
            path: path.clone(),
            source,
        })?;
        Ok(path)
    }

    /// Prepares `program` to run as a client attached to the node `host`.
    ///
    /// # Errors
    ///
    /// The directory of the client cannot be made.
    pub fn client(&self, host: &str, program: impl AsRef<Path>) -> Result<Invocation, Error> {
        self.client_through(&self.socket_name, host, program)
    }

    /// Prepares a client like [`Ibsim::client`], connected to the sockets of a tap, whose base name
    /// is `socket_name`.
    ///
    /// # Errors
    ///
    /// Fails as [`Ibsim::client`] does.
    pub fn client_through(
        &self,
        socket_name: &str,
        host: &str,
        program: impl AsRef<Path>,
    ) -> Result<Invocation, Error> {
        let program = program.as_ref();
        let program = program
            .to_str()
            .filter(|name| !name.contains('/'))
            .map_or_else(|| program.to_owned(), program_path);
        Ok(
            Invocation::new(program_path("ibsim-run"), self.client_directory()?)
                .arg(program)
                .env("IBSIM_SOCKNAME", socket_name)
                .env("SIM_HOST", host),
        )
    }

    /// Runs a diagnostic program of infiniband-diags until it ends, with or without success.
    ///
    /// # Errors
    ///
    /// The program cannot be started.
    pub fn diagnose(
        &self,
        host: &str,
        program: &str,
        arguments: &[&str],
    ) -> Result<crate::process::Finished, Error> {
        const DIAGNOSIS_LIMIT: Duration = Duration::from_secs(120);
        self.client(host, program)?
            .args(arguments)
            .run(DIAGNOSIS_LIMIT)
    }

    /// Enters a console command and returns ibsim's output.
    ///
    /// # Errors
    ///
    /// ibsim has ended or does not answer.
    pub fn command(&self, command: &str) -> Result<String, Error> {
        self.console.lock().command(command)
    }

    /// Everything that ibsim has printed so far, including packets if it was started with `-v`
    /// three times.
    #[must_use]
    pub fn console_output(&self) -> String {
        self.console.lock().output()
    }

    /// Enters many console commands at once, through a file: a single command takes one turn of
    /// ibsim's loop, and a large fabric needs thousands of commands.
    ///
    /// # Errors
    ///
    /// The file cannot be written or ibsim does not answer.
    pub fn commands(&self, commands: &[String]) -> Result<String, Error> {
        let path = self.client_directory()?.join("commands");
        std::fs::write(&path, commands.join("\n") + "\n").map_err(|source| Error::Write {
            path: path.clone(),
            source,
        })?;
        self.command(&format!("!{}", path.display()))
    }

    /// Removes the cable from `port` of `node`, at both ends.
    ///
    /// # Errors
    ///
    /// Fails as [`Ibsim::command`] does.
    pub fn unlink(&self, node: &str, port: u8) -> Result<String, Error> {
        self.command(&format!("Unlink \"{node}\"[{port}]"))
    }

    /// Reconnects the cable that [`Ibsim::unlink`] removed.
    ///
    /// # Errors
    ///
    /// Fails as [`Ibsim::command`] does.
    pub fn relink(&self, node: &str, port: u8) -> Result<String, Error> {
        self.command(&format!("ReLink \"{node}\"[{port}]"))
    }

    /// Makes every node lose `percent` of the MADs of `attribute`. Without an attribute, MADs of
    /// all attributes are lost, at every port that they pass and not only at their target.
    ///
    /// # Errors
    ///
    /// Fails as [`Ibsim::command`] does.
    pub fn lose(&self, percent: u8, attribute: Option<u16>) -> Result<(), Error> {
        let attribute = attribute.map_or(String::new(), |id| format!(" {id:#x}"));
        let commands: Vec<String> = self
            .nodes
            .iter()
            .map(|node| format!("Error \"{}\" {percent}{attribute}", node.id))
            .collect();
        self.commands(&commands).map(drop)
    }

    /// Detaches clients whose processes were killed, as the kernel would. Otherwise ibsim would
    /// continue to count a dead subnet manager, and its ten slots for clients would fill up.
    ///
    /// # Errors
    ///
    /// Fails as [`Ibsim::command`] does.
    pub fn detach_dead_clients(&self) -> Result<(), Error> {
        let attached = self.command("Attached")?;
        for line in attached.lines() {
            let Some((client, pid)) = console::attached_client(line) else {
                continue;
            };
            if !Path::new(&format!("/proc/{pid}")).exists() {
                self.command(&format!("X {client}"))?;
            }
        }
        Ok(())
    }
}
