//! A log that nobody reads delays nothing. Once somebody reads it again, it says how many lines are
//! missing.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use rsm_tests::binaries;
use rsm_tests::clock::wait_for_every;
use rsm_tests::process::{Invocation, Running};
use rsm_tests::web::get;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{CWD, FileType, Mode, OFlags};
use serde_json::Value;

/// A fabric of four leaves with four hosts each (ports 1 to 4) below two spines (ports 5 and 6).
const FABRIC: &str = "sim:pgft:2;4,4;1,2;1,1";

/// A log filter that admits all lines, also those of libraries: one request produces pages of them.
const VERBOSE_FILTER: &str = "trace,rsm=trace";
const LIMIT: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(20);

/// A pipe for rsm's log. While it is not read, it takes 64 KiB.
struct Log {
    pipe: File,
    /// The lines read so far.
    text: String,
}

impl Log {
    fn create(path: &Path) -> Log {
        rustix::fs::mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        // The pipe is also open for writing here, so that a read never reports its end.
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).custom_flags(flags);
        Log {
            pipe: options.open(path).unwrap(),
            text: String::new(),
        }
    }

    /// Reads the lines in the pipe; returns everything read so far.
    fn read(&mut self) -> &str {
        let mut bytes = [0; 4096];
        loop {
            match self.pipe.read(&mut bytes) {
                Ok(length) => self.text += &String::from_utf8_lossy(&bytes[..length]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return &self.text,
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn is_full(&self) -> bool {
        let mut pipes = [PollFd::new(&self.pipe, PollFlags::OUT)];
        let none = Timespec::default();
        rustix::event::poll(&mut pipes, Some(&none)).unwrap() == 0
    }
}

struct Site {
    directory: tempfile::TempDir,
    log: Log,
    address: String,
    rsm: Running,
}

impl Site {
    /// Starts rsm with the filter [`VERBOSE_FILTER`], and reads the log until the subnet is up.
    fn start() -> Site {
        let directory = tempfile::tempdir().unwrap();
        let mut log = Log::create(&directory.path().join("log"));
        let rsm = Invocation::new("sh", directory.path());
        let rsm = rsm
            .args(["-c", r#"exec "$0" "$@" 2> log"#])
            .arg(binaries::rsm());
        let rsm = rsm.args([
            "--log",
            VERBOSE_FILTER,
            "--fabric",
            FABRIC,
            "--listen",
            "off",
        ]);
        let rsm = rsm.args(["--http", "127.0.0.1:0", "--state-dir", "state"]);
        let rsm = rsm.spawn().unwrap();
        let address = wait_for_every(POLL, LIMIT, || {
            let (_, rest) = log.read().split_once("metrics at http://")?;
            Some(rest.split_once('\n')?.0.trim().to_owned())
        });
        let address = address.expect("the log has the address");
        let up = wait_for_every(POLL, LIMIT, || {
            log.read();
            let status = get(&address, "/api/v1/status").json();
            (status["status"]["state"] == "up").then_some(())
        });
        up.expect("the subnet comes up");
        Site {
            directory,
            log,
            address,
            rsm,
        }
    }

    fn rsmctl(&self, arguments: &[&str]) -> String {
        let rsmctl = Invocation::new(binaries::rsmctl(), self.directory.path());
        let rsmctl = rsmctl.args(["--server", "unix:state/rsm.sock"]);
        let done = rsmctl.args(arguments).run(LIMIT).unwrap();
        done.success().unwrap().stdout
    }

    /// Unplugs a cable and plugs it in again, which rsm logs, until `is_so`.
    fn fault_until(&self, is_so: impl Fn(&Site) -> bool) {
        let found = wait_for_every(Duration::ZERO, LIMIT, || {
            self.rsmctl(&["sim", "unlink", "leaf-01:5"]);
            self.rsmctl(&["sim", "relink", "leaf-01:5"]);
            is_so(self).then_some(())
        });
        found.expect("rsm logs its faults");
    }

    /// The number of lines that the log has dropped, from rsm's metrics.
    fn dropped(&self) -> u64 {
        let metrics = get(&self.address, "/metrics").text();
        let mut lines = metrics.lines();
        let line = lines.find_map(|line| line.strip_prefix("rsm_log_lines_dropped_total "));
        line.expect("the metric is there").parse().unwrap()
    }
}

#[test]
fn unread_log_delays_nothing_and_then_says_how_many_lines_are_missing() {
    let mut site = Site::start();
    let status = |site: &Site| -> Value {
        serde_json::from_str(&site.rsmctl(&["status", "--format", "json"])).unwrap()
    };
    let links = |site: &Site| status(site)["links"].as_u64().unwrap();
    let settled = |site: &Site, links: u64| {
        let found = wait_for_every(POLL, LIMIT, || {
            let status = status(site);
            (status["state"] == "up" && status["links"] == links).then_some(status)
        });
        found.expect("the routes follow")
    };
    let before = links(&site);
    site.fault_until(|site| site.log.is_full());
    site.rsmctl(&["sim", "unlink", "leaf-02:5"]);
    let after = settled(&site, before - 1);
    assert_eq!(after["last_convergence"]["complete"], true);
    assert!(after["last_convergence"]["lft_blocks"].as_u64().unwrap() > 0);

    site.fault_until(|site| site.dropped() > 0);
    let said = wait_for_every(POLL, LIMIT, || {
        let (_, rest) = site
            .log
            .read()
            .split_once("lines of the log are missing here")?;
        rest.split_once("lines=").map(|_| ())
    });
    assert!(said.is_some(), "{} are missing", site.dropped());

    // rsm also ends while nobody reads its log.
    let before = site.dropped();
    site.fault_until(|site| site.dropped() > before);
    let ended = site.rsm.terminate(LIMIT).unwrap().success();
    assert_eq!(ended.unwrap().stdout, "");
}

#[test]
fn last_lines_of_the_log_are_written_before_rsm_ends() {
    let directory = tempfile::tempdir().unwrap();
    let rsm = Invocation::new(binaries::rsm(), directory.path());
    let rsm = rsm.args(["--once", "--log", "info", "--fabric", FABRIC]);
    let ended = rsm.run(LIMIT).unwrap().success().unwrap();
    assert!(ended.stderr.contains("converged"), "{}", ended.stderr);
}
