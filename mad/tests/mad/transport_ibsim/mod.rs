//! An ibsim instance, and this test binary, which runs again inside it.

#![allow(clippy::print_stdout, reason = "a test prints why it is skipped")]

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tempfile::TempDir;

const IBSIM: &str = "/usr/bin/ibsim";
const NETWORK: &str = "/usr/share/doc/ibsim-utils/net-examples/net.2sw2path4hca";

/// The name of the environment variable that is set in processes inside the simulator.
const INSIDE: &str = "RSM_INSIDE_IBSIM";

/// Whether this process runs inside the simulator. An `inside_…` test does nothing outside the
/// simulator.
pub(crate) fn inside() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// Whether ibsim is installed.
///
/// # Panics
/// ibsim is not installed, and `RSM_REQUIRE_PEERS=1` requires it.
pub(crate) fn available() -> bool {
    if Path::new(IBSIM).exists() && Path::new(NETWORK).exists() {
        return true;
    }
    let required = std::env::var("RSM_REQUIRE_PEERS").is_ok_and(|value| value == "1");
    assert!(!required, "ibsim is missing (package ibsim-utils)");
    println!("ignored: ibsim is missing (package ibsim-utils)");
    false
}

/// A running simulator of two switches and four hosts, `Hca1` to `Hca4`.
pub(crate) struct Ibsim {
    process: Child,
    /// The standard input is kept open, because the simulator ends at its end.
    _console: Option<ChildStdin>,
    socket: String,
    directory: TempDir,
}

impl Ibsim {
    pub(crate) fn start() -> Ibsim {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let socket = format!("rsm-mad-{}-{number}", std::process::id());
        let directory = TempDir::new().unwrap();
        let output = File::create(directory.path().join("ibsim.out")).unwrap();
        let mut process = Command::new(IBSIM)
            .args(["-n", "-s", NETWORK])
            .env("IBSIM_SOCKNAME", &socket)
            .stdin(Stdio::piped())
            .stdout(output.try_clone().unwrap())
            .stderr(output)
            .spawn()
            .unwrap();
        let console = process.stdin.take();
        let listening = format!("@{socket}:ctl");
        for _ in 0..1000 {
            let sockets = std::fs::read_to_string("/proc/net/unix").unwrap();
            if sockets.contains(&listening) {
                break;
            }
            assert!(process.try_wait().unwrap().is_none(), "ibsim ended");
            std::thread::sleep(Duration::from_millis(10));
        }
        Ibsim {
            process,
            _console: console,
            socket,
            directory,
        }
    }

    /// Runs the test `name` of this binary, with its module, inside the simulator on the node
    /// `host`.
    pub(crate) fn spawn(&self, host: &str, name: &str) -> InnerTest {
        let mut process = Command::new("ibsim-run")
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", name, "--ignored", "--nocapture"])
            .current_dir(self.directory.path())
            .env("IBSIM_SOCKNAME", &self.socket)
            .env("SIM_HOST", host)
            .env(INSIDE, "1")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        InnerTest { process, output }
    }
}

impl Drop for Ibsim {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A test that runs inside the simulator.
pub(crate) struct InnerTest {
    process: Child,
    output: BufReader<ChildStdout>,
}

impl InnerTest {
    /// Waits until a line of the process's output contains `text`.
    pub(crate) fn wait_for(&mut self, text: &str) {
        let mut line = String::new();
        while !line.contains(text) {
            line.clear();
            let read = self.output.read_line(&mut line).unwrap();
            assert_ne!(read, 0, "the process ended before it printed `{text}`");
        }
    }

    /// Waits until the process has finished, and checks that the test ran and passed.
    pub(crate) fn passes(mut self) {
        let mut output = String::new();
        std::io::Read::read_to_string(&mut self.output, &mut output).unwrap();
        let status = self.process.wait().unwrap();
        assert!(status.success(), "{status}\n{output}");
        assert!(output.contains("1 passed"), "{output}");
    }
}
