//! Starts rsm on a disk that is full or mounted read-only, in a mount namespace of its own.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rsm_tests::binaries;
use rsm_tests::clock::wait_for_every;
use rsm_tests::process::{Invocation, Running};

const FABRIC: &str = "sim:fat-tree:k=4,levels=2";
const LIMIT: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(200);
/// The size of the small disk, more than the store of the fabric needs.
const DISK: &str = "16m";

/// A folder that contains rsm's state folder and its socket beside that folder.
struct Site {
    folder: tempfile::TempDir,
}

impl Site {
    fn new() -> Site {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("state")).unwrap();
        Site { folder }
    }

    fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("rsm.sock")
    }

    /// Runs rsm once, so that the state folder contains a store.
    fn bring_up_once(&self) {
        let rsm = Invocation::new(binaries::rsm(), self.folder.path());
        let rsm = rsm.args(["--fabric", FABRIC, "--once", "--state-dir"]);
        let ended = rsm.arg(self.state()).run(LIMIT).unwrap();
        ended.success().unwrap();
    }

    /// Starts rsm in a mount namespace of its own, after running the commands `mounts` there, in
    /// which `$STATE` is the state folder.
    fn start(&self, mounts: &str) -> Running {
        let script = format!(
            "set -e; {mounts}; exec \"$0\" --fabric {FABRIC} --state-dir \"$STATE\" --listen off --socket \"$SOCKET\""
        );
        let shell = Invocation::new("unshare", self.folder.path());
        let shell = shell.args(["--mount", "sh", "-c", &script]);
        let shell = shell.arg(binaries::rsm()).env("STATE", self.state());
        shell.env("SOCKET", self.socket()).spawn().unwrap()
    }

    /// The output of an `rsmctl` command as JSON; `None` if the command fails.
    fn ask(&self, command: &str) -> Option<serde_json::Value> {
        let rsmctl = Invocation::new(binaries::rsmctl(), self.folder.path());
        let server = format!("unix:{}", self.socket().display());
        let rsmctl = rsmctl.args(["--server", &server, command, "--format", "json"]);
        let ended = rsmctl.run(LIMIT).ok()?.success().ok()?;
        serde_json::from_str(&ended.stdout).ok()
    }

    /// Waits until the subnet is up and the messages of the `storage` findings satisfy `wanted`.
    fn wait(&self, rsm: &Running, wanted: impl Fn(&[String]) -> bool) {
        let reached = wait_for_every(POLL, LIMIT, || {
            let status = self.ask("status")?;
            let is_up = status["state"].as_str()?.to_lowercase().contains("up");
            (is_up && wanted(&self.storage_findings()?)).then_some(())
        });
        let log = rsm.stderr_so_far();
        assert!(reached.is_some(), "{:?}\n{log}", self.ask("findings"));
    }

    /// The messages of the findings of kind `storage`; `None` if rsm does not answer.
    fn storage_findings(&self) -> Option<Vec<String>> {
        let listed = self.ask("findings")?;
        let findings = listed.as_array()?.iter();
        let storage = findings.filter(|finding| finding["kind"] == "storage");
        let texts = storage.filter_map(|finding| finding["message"].as_str());
        Some(texts.map(str::to_owned).collect())
    }
}

/// Whether this process may create mount namespaces, which requires root.
fn may_mount() -> bool {
    let tried = Command::new("unshare").args(["--mount", "true"]).status();
    let may = tried.is_ok_and(|status| status.success());
    if !may {
        // The message bypasses the output capture of the test harness, because a skipped test has
        // to be visible.
        let _ = writeln!(
            std::io::stderr(),
            "skipped: `unshare --mount` is not permitted here; run the test as root"
        );
    }
    may
}

/// A path in the mount namespace of `rsm`.
fn inside(rsm: &Running, path: &Path) -> PathBuf {
    let root = PathBuf::from(format!("/proc/{}/root", rsm.id()));
    root.join(path.strip_prefix("/").unwrap())
}

#[test]
fn full_disk_at_the_start_is_a_finding_until_there_is_room() {
    if !may_mount() {
        return;
    }
    let site = Site::new();
    site.bring_up_once();
    let mounts = format!(
        "cp -a \"$STATE\" \"$STATE.copy\"; mount -t tmpfs -o size={DISK} none \"$STATE\"; \
         cp -a \"$STATE.copy/.\" \"$STATE\"; cat /dev/zero > \"$STATE/fill\" 2>/dev/null || true"
    );
    let rsm = site.start(&mounts);
    site.wait(&rsm, |storage| !storage.is_empty());
    std::fs::remove_file(inside(&rsm, &site.state().join("fill"))).unwrap();
    site.wait(&rsm, <[String]>::is_empty);
    assert!(inside(&rsm, &site.state().join("history")).is_dir());
}

#[test]
fn read_only_state_folder_at_the_start_is_a_finding_and_its_store_is_read() {
    if !may_mount() {
        return;
    }
    let site = Site::new();
    site.bring_up_once();
    let rsm = site.start(
        "mount --bind \"$STATE\" \"$STATE\"; mount -o remount,bind,ro \"$STATE\" \"$STATE\"",
    );
    site.wait(&rsm, |storage| !storage.is_empty());
    let log = rsm.stderr_so_far();
    assert!(
        log.contains("because its folder cannot be written"),
        "{log}"
    );
}
