//! A real rsm and rsmctl: a command that cuts hosts off names them first, and requires `--yes`.

use std::fs;
use std::time::Duration;

use rsm_tests::binaries;
use rsm_tests::clock::wait_for_every;
use rsm_tests::process::{Finished, Invocation, Running};

const LIMIT: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(200);

/// A fabric of four leaves with two hosts each.
const FABRIC: &str = "fat-tree:k=4,levels=2";

struct Daemon {
    process: Running,
    directory: tempfile::TempDir,
}

impl Daemon {
    fn start(config: &str) -> Daemon {
        let directory = tempfile::tempdir().expect("there is room");
        let path = directory.path().join("rsm.toml");
        fs::write(&path, config).expect("there is room");
        let rsm = Invocation::new(binaries::rsm(), directory.path());
        let rsm = rsm.args(["--listen", "off", "--fabric", &format!("sim:{FABRIC}")]);
        let rsm = rsm.arg("--config").arg(path);
        let rsm = rsm.arg("--state-dir").arg(directory.path());
        let process = rsm.spawn().expect("it can be started");
        let daemon = Daemon { process, directory };
        let up = wait_for_every(POLL, LIMIT, || {
            let status = daemon.run(&["status", "--format", "json"]).success().ok()?;
            status.stdout.contains("\"up\"").then_some(())
        });
        assert!(up.is_some(), "{}", daemon.process.stderr_so_far());
        daemon
    }

    fn run(&self, arguments: &[&str]) -> Finished {
        let socket = self.directory.path().join("rsm.sock");
        let rsmctl = Invocation::new(binaries::rsmctl(), self.directory.path());
        let rsmctl = rsmctl.arg("--socket").arg(socket).args(arguments);
        rsmctl.run(LIMIT).expect("it can be started")
    }

    /// The output of a command with `--wide`.
    fn printed(&self, arguments: &[&str]) -> String {
        let wide = [arguments, &["--wide"]].concat();
        let finished = self.run(&wide).success();
        finished.unwrap_or_else(|error| panic!("{error}")).stdout
    }

    /// Runs a command that fails and changes no partition; returns its standard error.
    fn refused(&self, arguments: &[&str]) -> String {
        let before = self.printed(&["partitions"]);
        let finished = self.run(arguments);
        assert_eq!(finished.status.code(), Some(1), "{arguments:?}");
        assert_eq!(self.printed(&["partitions"]), before, "{arguments:?}");
        finished.stderr
    }
}

#[test]
fn making_all_hosts_limited_in_the_default_partition_names_them_and_requires_yes() {
    let rsm = Daemon::start("");
    let hosts = rsm.printed(&["nodes", "--kind", "ca"]).lines().count() - 1;
    let cut = hosts - 1;
    let command = ["partition", "default", "limited"];
    let text = rsm.refused(&command);
    let ports = format!("0x7fff: {cut} ports cut off");
    for part in [&*ports, "all of them", "host-002 mlx5_0 port 1", "--yes"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let text = rsm.printed(&[&command[..], &["--yes"]].concat());
    let expected = format!(
        "0x7fff  in force: {cut} memberships changed; {cut} ports cut off from others in it, {cut} of them from every host\n"
    );
    assert_eq!(text, expected);
    let text = rsm.printed(&["partition", "default", "file"]);
    assert_eq!(
        text,
        format!("0x7fff  in force: {cut} memberships changed\n")
    );
}

#[test]
fn removing_hosts_from_the_only_partition_they_share_requires_yes() {
    let rsm = Daemon::start("");
    rsm.printed(&["partition", "default", "limited", "--yes"]);
    let create = [
        "partition",
        "create",
        "0x10",
        "host-002",
        "host-003",
        "host-004",
    ];
    rsm.printed(&create);
    let text = rsm.refused(&["partition", "remove", "0x10", "host-002"]);
    assert!(
        text.contains("0x0010: 3 ports cut off from others in it (2 pairs), 1 of them"),
        "{text}"
    );
    let text = rsm.refused(&["partition", "set", "0x10", "host-002"]);
    assert!(
        text.contains("3 ports") && text.contains("all of them"),
        "{text}"
    );
    let limited = [
        "partition",
        "add",
        "0x10",
        "host-002",
        "host-003",
        "--membership",
        "limited",
    ];
    let text = rsm.refused(&limited);
    assert!(
        text.contains("2 ports") && text.contains("(1 pair)"),
        "{text}"
    );
    let text = rsm.refused(&["partition", "delete", "0x10"]);
    assert!(
        text.contains("3 ports") && text.contains("(3 pairs)"),
        "{text}"
    );
    let text = rsm.printed(&["partition", "delete", "0x10", "--yes"]);
    assert!(
        text.contains("3 memberships changed; 3 ports cut off"),
        "{text}"
    );
}
