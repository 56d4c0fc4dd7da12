//! Tests `rsm --fabric sim:…` with a site's configuration: rsm writes no file of the site.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// Time limit that only a failure reaches.
const LIMIT: Duration = Duration::from_secs(60);

/// A folder `site` with the configuration of the site's subnet manager and all files that it names,
/// and a folder `own` for the files of the simulation.
struct Site {
    dir: tempfile::TempDir,
}

impl Site {
    /// Creates both folders, and the configuration.
    fn new() -> Site {
        let dir = tempfile::tempdir().unwrap();
        let site = Site { dir };
        fs::create_dir(site.path("site")).unwrap();
        fs::create_dir(site.path("own")).unwrap();
        let file = |name: &str| site.path("site").join(name);
        let config = format!(
            "[state]\ndir = {:?}\n[dump]\ndir = {:?}\n[log]\nfile = {:?}\n[api]\nsocket = {:?}\n",
            file("state"),
            file("dumps"),
            file("rsm.log"),
            file("rsm.sock"),
        );
        fs::write(site.config(), config).unwrap();
        site
    }

    /// Path of a file or folder below the test's folder.
    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Path of the configuration.
    fn config(&self) -> PathBuf {
        self.path("site/rsm.toml")
    }

    /// rsm with the site's configuration on a small simulated fabric.
    fn rsm(&self) -> Command {
        let mut rsm = Command::new(env!("CARGO_BIN_EXE_rsm"));
        rsm.args(["--fabric", "sim:pgft:2;4,4;1,2;1,1", "--listen", "off"])
            .arg("--config")
            .arg(self.config())
            .env("XDG_RUNTIME_DIR", self.path("own"))
            .env_remove("RSM_LOG");
        rsm
    }

    /// Output of a single bring-up with the state folder `state`.
    fn once(&self, state: &Path) -> Output {
        let mut rsm = self.rsm();
        rsm.arg("--once").arg("--state-dir").arg(state);
        rsm.output().unwrap()
    }

    /// Files below `site`, with their contents.
    fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        files_below(&self.path("site"))
    }
}

/// All files below `dir` with their contents; the content of a file that is not regular is empty.
fn files_below(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            files.extend(files_below(&entry.path()));
        }
        let content = if kind.is_file() {
            fs::read(entry.path()).unwrap()
        } else {
            Vec::new()
        };
        files.insert(entry.path(), content);
    }
    files
}

#[test]
fn single_bring_up_of_a_simulated_fabric_writes_nothing_of_the_site() {
    let site = Site::new();
    let before = site.files();
    let output = site.rsm().arg("--once").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(site.files(), before);
}

#[test]
fn daemon_of_a_simulated_fabric_writes_nothing_of_the_site_and_logs_this() {
    let site = Site::new();
    let before = site.files();
    let notify = site.path("own/notify");
    let manager = UnixDatagram::bind(&notify).unwrap();
    manager.set_read_timeout(Some(LIMIT)).unwrap();
    let mut rsm = site.rsm();
    rsm.env("NOTIFY_SOCKET", &notify)
        .env_remove("WATCHDOG_USEC");
    let child = rsm.stderr(Stdio::piped()).spawn().unwrap();
    let mut message = [0; 4096];
    while let Ok(length) = manager.recv(&mut message)
        && !message[..length].starts_with(b"READY=1")
    {}
    let socket = site.path("own/rsm/rsm.sock");
    let serves = socket.exists();
    let pid = Pid::from_raw(child.id().try_into().unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    let output = child.wait_with_output().unwrap();
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(serves && output.status.success(), "{log}");
    assert_eq!(site.files(), before);
    let state = site.path("site/state");
    assert!(log.contains("the fabric is simulated"), "{log}");
    assert!(log.contains(state.to_str().unwrap()), "{log}");
}

#[test]
fn simulation_keeps_its_state_only_in_the_folder_of_the_option() {
    let site = Site::new();
    let before = site.files();
    let own = site.path("own/state");
    for _ in 0..2 {
        let output = site.once(&own);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
    }
    assert!(own.join("db").exists());
    assert_eq!(site.files(), before);
}

#[test]
fn simulation_refuses_the_state_folder_of_hardware_and_leaves_it_unchanged() {
    let site = Site::new();
    let state = site.path("site/state");
    let output = site.once(&state);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    // The folder is as a manager of hardware would have marked it, or as an earlier version left
    // it.
    let mark = state.join("fabric");
    for marked in [true, false] {
        match marked {
            true => fs::write(&mark, "hardware\n").unwrap(),
            false => fs::remove_file(&mark).unwrap(),
        }
        let mut before = site.files();
        let output = site.once(&state);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let error = String::from_utf8_lossy(&output.stderr);
        for part in [state.to_str().unwrap(), "hardware", "--state-dir"] {
            assert!(error.contains(part), "{part}: {error}");
        }
        // The lock contains the number of the process that last held it.
        let mut after = site.files();
        before.remove(&state.join("lock"));
        after.remove(&state.join("lock"));
        assert_eq!(after, before);
    }
}
