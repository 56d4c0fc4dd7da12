//! Tests the web page from outside: rsm with its HTTP listener, a client that sends bytes, and a
//! browser.
//!
//! The tests control the browser with a few commands of WebDriver, through the same client. A crate
//! for WebDriver would bring a TLS library, or a licence that rsm does not allow.

mod browser;
mod http;

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;

pub use browser::{Browser, Colours, Element, PEERS};
pub use http::{Answer, exchange, get, get_with};

use crate::binaries;
use crate::clock::wait_for_every;
use crate::process::{Invocation, Running};

/// The maximum time for a fabric to come up, and for a program to end. The largest fabric takes
/// about ten seconds in a debug build.
const UP_LIMIT: Duration = Duration::from_secs(120);

/// The polling interval.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A running rsm with its page, on a simulated fabric.
pub struct Site {
    running: Running,
    /// The invocation with which rsm was started.
    rsm: Invocation,
    directory: TempDir,
    /// The address of the page: `127.0.0.1:PORT`.
    address: String,
}

impl Site {
    /// Starts rsm on the fabric `spec`, and waits until the subnet is up.
    ///
    /// # Panics
    ///
    /// The subnet does not come up.
    #[must_use]
    pub fn start(spec: &str) -> Site {
        Site::start_with(spec, "")
    }

    /// Starts rsm like [`Site::start`], with `config` as its configuration.
    ///
    /// # Panics
    ///
    /// The subnet does not come up.
    #[must_use]
    pub fn start_with(spec: &str, config: &str) -> Site {
        Site::start_within(UP_LIMIT, spec, config)
    }

    /// Starts rsm like [`Site::start_with`], on a fabric that may take `limit` to come up.
    ///
    /// # Panics
    ///
    /// The subnet does not come up.
    #[must_use]
    pub fn start_within(limit: Duration, spec: &str, config: &str) -> Site {
        Site::start_as(limit, spec, config, &[])
    }

    /// Starts rsm like [`Site::start_within`], and lets it dump its tables into the folder `dumps`.
    ///
    /// # Panics
    ///
    /// The subnet does not come up.
    #[must_use]
    pub fn start_dumping(limit: Duration, spec: &str, config: &str, dumps: &Path) -> Site {
        let dumps = dumps.display().to_string();
        Site::start_as(limit, spec, config, &["--dump-dir", &dumps])
    }

    fn start_as(limit: Duration, spec: &str, config: &str, arguments: &[&str]) -> Site {
        let directory = tempfile::tempdir().expect("the directory can be made");
        let file = directory.path().join("rsm.toml");
        write(&file, config.as_bytes());
        let rsm = Invocation::new(binaries::rsm(), directory.path());
        let rsm = rsm.arg("--config").arg(&file);
        let rsm = rsm.args(["--fabric", &format!("sim:{spec}")]);
        let rsm = rsm.args(["--http", "127.0.0.1:0", "--listen", "off", "--state-dir"]);
        let rsm = rsm.arg(directory.path().join("state")).args(arguments);
        let (running, address) = bring_up(&rsm, limit);
        Site {
            running,
            rsm,
            directory,
            address,
        }
    }

    /// Ends rsm, and starts it again with the same state: the simulation begins anew, at another
    /// address.
    ///
    /// # Panics
    ///
    /// rsm does not end, or does not come up.
    #[must_use]
    pub fn restart(self) -> Site {
        self.running.terminate(UP_LIMIT).expect("rsm ends");
        let (running, address) = bring_up(&self.rsm, UP_LIMIT);
        Site {
            running,
            address,
            ..self
        }
    }

    /// Ends rsm.
    ///
    /// # Panics
    ///
    /// rsm does not end.
    pub fn stop(self) {
        self.running.terminate(UP_LIMIT).expect("rsm ends");
    }

    /// Suspends the process: its connections stay open, but get no answers.
    pub fn suspend(&self) {
        self.running.suspend();
    }

    /// Resumes a suspended process.
    pub fn resume(&self) {
        self.running.resume();
    }

    /// The address of the page: `127.0.0.1:PORT`.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Opens a view of the page, such as `findings`.
    pub fn open(&self, browser: &Browser, view: &str) {
        browser.open(&format!("http://{}/#/{view}", self.address));
    }

    /// A folder that is removed with the site.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The log of rsm so far.
    #[must_use]
    pub fn log(&self) -> String {
        self.running.stderr_so_far()
    }

    /// Sends SIGHUP.
    pub fn hang_up(&self) {
        self.running.hang_up();
    }

    /// Runs rsmctl with `arguments`.
    ///
    /// # Panics
    ///
    /// rsmctl fails.
    pub fn rsmctl(&self, arguments: &[&str]) {
        let _ = self.printed(arguments);
    }

    /// The output of rsmctl with `arguments`.
    ///
    /// # Panics
    ///
    /// rsmctl fails.
    #[must_use]
    pub fn printed(&self, arguments: &[&str]) -> String {
        let finished = self
            .call(arguments)
            .run(UP_LIMIT)
            .and_then(|finished| finished.success());
        finished.expect("rsmctl succeeds").stdout
    }

    /// The exit code of rsmctl with `arguments`, and all its output.
    ///
    /// # Panics
    ///
    /// rsmctl does not end, or is ended by a signal.
    #[must_use]
    pub fn told(&self, arguments: &[&str]) -> (i32, String) {
        let finished = self.call(arguments).run(UP_LIMIT).expect("rsmctl ends");
        let code = finished.status.code().expect("no signal ends it");
        (code, finished.stdout + &finished.stderr)
    }

    /// Prepares a call of rsmctl.
    fn call(&self, arguments: &[&str]) -> Invocation {
        let socket = self.directory.path().join("state/rsm.sock");
        let rsmctl = Invocation::new(binaries::rsmctl(), self.directory.path());
        let server = format!("unix:{}", socket.display());
        rsmctl.arg("--server").arg(server).args(arguments)
    }
}

/// Starts rsm, and waits until the subnet is up according to the page. Also returns the address of
/// the page.
fn bring_up(rsm: &Invocation, limit: Duration) -> (Running, String) {
    let running = rsm.spawn().expect("rsm can be started");
    let address = wait_for_every(POLL_INTERVAL, limit, || {
        page_address(&running.stderr_so_far())
    });
    let Some(address) = address else {
        panic!(
            "no address of the page in the log:\n{}",
            running.stderr_so_far()
        );
    };
    let up = wait_for_every(POLL_INTERVAL, limit, || {
        let status = get(&address, "/api/v1/status");
        (status.json()["status"]["state"] == "up").then_some(())
    });
    assert!(up.is_some(), "{}", running.stderr_so_far());
    (running, address)
}

/// The address of the page in the log; `None` if the log does not contain it yet.
#[must_use]
pub fn page_address(log: &str) -> Option<String> {
    let (_, rest) = log.split_once("metrics at http://")?;
    let end =
        rest.find(|character: char| !(character.is_ascii_digit() || ".:".contains(character)))?;
    Some(rest[..end].to_owned())
}

/// The plain name in the description of a switch: `leaf-03` in `MF0;leaf-03:MQM8790/U1`. Returns
/// other descriptions unchanged.
#[must_use]
pub fn plain_name(description: &str) -> &str {
    let inside = description.split_once(';').map(|(_, inside)| inside);
    let name = inside.and_then(|inside| inside.split_once(':'));
    name.map_or(description, |(name, _)| name)
}

/// Writes a text to a file.
///
/// # Panics
///
/// The file cannot be written.
pub fn write(path: &Path, text: &[u8]) {
    let file = File::create(path);
    let written = file.and_then(|mut file| std::io::Write::write_all(&mut file, text));
    written.expect("the file can be written");
}
