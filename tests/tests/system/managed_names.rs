//! A real rsm with the operator's names of nodes: commands, findings and dumps for OpenSM's tools
//! have them, and a dumped topology keeps NodeDescription.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use rsm_tests::binaries;
use rsm_tests::clock::wait_for_every;
use rsm_tests::process::{Invocation, Running};

const LIMIT: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(200);

/// The GUID of `leaf-01` in the generated tree.
const LEAF: u64 = 0x1070_fd03_0000_0040;
/// The GUID of `host-001`.
const HOST: u64 = 0xe09d_7303_0000_0008;

struct Daemon {
    process: Running,
    directory: tempfile::TempDir,
}

impl Daemon {
    /// Starts rsm with an `opensm.conf` that refers to a node name map with the text `names`, and
    /// waits until the subnet is up.
    fn start(names: &str) -> Daemon {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::write(path("names"), names).unwrap();
        let map = path("names").display().to_string();
        let conf = format!("sm_priority 3\nnode_name_map_name {map}\n");
        fs::write(path("opensm.conf"), conf).unwrap();
        let rsm = Invocation::new(binaries::rsm(), directory.path())
            .args(["--listen", "off", "--fabric", "sim:fat-tree:k=4,levels=2"])
            .arg("--config")
            .arg(path("opensm.conf"))
            .arg("--dump-dir")
            .arg(path("dumps"))
            .arg("--state-dir")
            .arg(directory.path());
        let process = rsm.spawn().unwrap();
        let daemon = Daemon { process, directory };
        let up = wait_for_every(POLL, LIMIT, || {
            let status = daemon.rsmctl(&["status", "--format", "json"])?;
            status.contains("\"up\"").then_some(())
        });
        assert!(up.is_some(), "{}", daemon.process.stderr_so_far());
        daemon
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The output of an `rsmctl` command; `None` if it fails.
    fn rsmctl(&self, arguments: &[&str]) -> Option<String> {
        let socket = format!("unix:{}", self.path("rsm.sock").display());
        let rsmctl = Invocation::new(binaries::rsmctl(), self.directory.path());
        let rsmctl = rsmctl.args(["--server", &socket]).args(arguments);
        let finished = rsmctl.run(LIMIT).unwrap();
        Some(finished.success().ok()?.stdout)
    }

    /// Waits until `rsmctl ARGUMENTS` prints `text`.
    fn wait_for(&self, arguments: &[&str], text: &str) {
        let mut last = None;
        let found = wait_for_every(POLL, LIMIT, || {
            last = self.rsmctl(arguments);
            last.as_ref()?.contains(text).then_some(())
        });
        let log = self.process.stderr_so_far();
        assert!(found.is_some(), "{arguments:?}: {text}: {last:?}\n{log}");
    }
}

#[test]
fn names_of_the_map_are_shown_except_in_topologies_and_a_reload_changes_them() {
    let names =
        format!("{LEAF:#018x} \"rack A top\" # a comment\n{HOST:#018x} \"head node\"\nslip\n");
    let rsm = Daemon::start(&names);
    let nodes = rsm.rsmctl(&["nodes"]).unwrap();
    assert!(
        nodes.contains("rack A top") && nodes.contains("head node"),
        "{nodes}"
    );
    assert!(
        !nodes.contains("leaf-01") && nodes.contains("leaf-02"),
        "{nodes}"
    );
    let log = rsm.process.stderr_so_far();
    assert!(log.contains("names:3:1: warning: `slip`"), "{log}");

    // Both names find the node.
    for name in ["rack A top", "leaf-01"] {
        assert!(rsm.rsmctl(&["lft", name]).is_some(), "{name}");
    }

    // Dumps in OpenSM's formats have the operator's names. A dumped topology has NodeDescription.
    let dump = fs::read_to_string(rsm.path("dumps/opensm-lfts.dump")).unwrap();
    assert!(
        dump.contains("rack A top") && !dump.contains("leaf-01"),
        "{dump}"
    );
    let topology = fs::read_to_string(rsm.path("dumps/topology.ibnetdiscover")).unwrap();
    assert!(topology.contains("leaf-01") && !topology.contains("rack A top"));

    // A finding names the node as the map does.
    rsm.rsmctl(&["sim", "unlink", "leaf-01", "3"]).unwrap();
    rsm.wait_for(&["findings"], "rack A top");
    rsm.rsmctl(&["sim", "relink", "leaf-01", "3"]).unwrap();

    fs::write(rsm.path("names"), format!("{LEAF:#x} \"rack B top\"\n")).unwrap();
    rsm.process.hang_up();
    rsm.wait_for(&["nodes"], "rack B top");
    let nodes = rsm.rsmctl(&["nodes"]).unwrap();
    assert!(
        !nodes.contains("rack A") && nodes.contains("host-001"),
        "{nodes}"
    );

    // If the file is gone, rsm keeps the names that it has read, and makes a finding.
    fs::remove_file(rsm.path("names")).unwrap();
    rsm.process.hang_up();
    rsm.wait_for(&["findings"], "names");
    assert!(rsm.rsmctl(&["nodes"]).unwrap().contains("rack B top"));
}
