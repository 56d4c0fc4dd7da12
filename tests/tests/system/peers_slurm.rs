//! Slurm's controller reads the trees that rsm writes.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use rsm_tests::binaries;
use rsm_tests::clock::wait_for;
use rsm_tests::peer::{program_path, require_peers};
use rsm_tests::process::Invocation;

const LIMIT: Duration = Duration::from_secs(120);

/// The last line of the controller's start.
const STARTED: &str = "Running as primary controller";

/// The tree of a fabric whose hosts are all like `docs/dgx.txt`.
fn tree(directory: &Path, fabric: &str) -> String {
    let inventory = binaries::workspace().join("docs/dgx.txt");
    let rsm = Invocation::new(binaries::rsm(), directory);
    let rsm = rsm.args(["gpu", "export", fabric, "slurm-tree", "--inventory"]);
    let finished = rsm.arg(inventory).run(LIMIT).expect("it ends");
    finished.success().expect("a fabric with GPU hosts").stdout
}

/// The nodes of a tree, as their lists stand there.
fn nodes(tree: &str) -> BTreeSet<&str> {
    let lists = tree.lines().filter_map(|line| line.split(" Nodes=").nth(1));
    lists.collect()
}

/// Log lines of the controller about a tree, and about nodes beside it.
fn log(tree: &str, others: &[&str], port: u16) -> String {
    let directory = tempfile::tempdir().expect("there is room");
    let state = directory.path().join("state");
    fs::create_dir(&state).expect("a new folder");
    let mut config = format!(
        "ClusterName=test\nSlurmctldHost=localhost\nSlurmctldPort={port}\nSlurmUser=root\n\
         AuthType=auth/none\nCredType=cred/none\nMpiDefault=none\nTopologyPlugin=topology/tree\n\
         StateSaveLocation={}\nSlurmctldPidFile={}\n",
        state.display(),
        directory.path().join("pid").display()
    );
    for list in nodes(tree).iter().chain(others) {
        config += &format!("NodeName={list} NodeAddr=127.0.0.1 State=UNKNOWN\n");
    }
    config += "PartitionName=all Nodes=ALL Default=YES State=UP\n";
    let file = directory.path().join("slurm.conf");
    fs::write(&file, config).expect("there is room");
    fs::write(directory.path().join("topology.conf"), tree).expect("there is room");
    let controller = Invocation::new(program_path("slurmctld"), directory.path());
    let running = controller.args(["-D", "-f"]).arg(&file).spawn();
    let running = running.expect("it can be started");
    let text = || format!("{}{}", running.stdout_so_far(), running.stderr_so_far());
    let started = wait_for(LIMIT, || text().contains(STARTED).then_some(()));
    let text = text();
    running.kill().expect("it runs");
    assert!(started.is_some(), "{text}");
    text
}

#[test]
#[cfg_attr(not(peers), ignore = "needs slurmctld")]
fn slurm_takes_the_trees_of_three_fabrics_without_a_warning() {
    if !require_peers(&["slurmctld"]) {
        return;
    }
    let directory = tempfile::tempdir().expect("there is room");
    for (port, fabric) in (26_870..).zip(["superpod:su=1", "superpod:su=2", "superpod:su=4"]) {
        let tree = tree(directory.path(), fabric);
        let text = log(&tree, &[], port);
        for bad in ["WARNING", "opology", "witch", "fatal"] {
            assert!(!text.contains(bad), "{fabric}: {bad}: {text}\n{tree}");
        }
    }
    // The controller does say what is wrong with a tree that lacks a node.
    let tree = tree(directory.path(), "superpod:su=1");
    let text = log(&tree, &["login-1"], 26_880);
    assert!(
        text.contains("switches lack access to 1 nodes: login-1"),
        "{text}"
    );
}
